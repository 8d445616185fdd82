//! The simulator's own random numbers. They are the same on every machine and in every version.
//!
//! Each component of a simulation (a drive, a connection, an order of runs) draws from its own stream. The stream has
//! the component's name. So an extra draw in one component changes nothing for the others, and two scenarios that
//! differ in one place can be compared draw by draw.
//!
//! - [`Rng`] is xoshiro256++ 1.0: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators",
//!   ACM Transactions on Mathematical Software 47(4), 2021. Its period is 2^256 - 1.
//! - [`SplitMix64`] derives any number of well mixed words from one 64-bit seed: G. L. Steele, D. Lea and C. H. Flood,
//!   "Fast splittable pseudorandom number generators", OOPSLA 2014. The authors of xoshiro recommend it to initialize
//!   the state of their generators.
//!
//! These generators are not suitable for secrets.

/// The number that `SplitMix64` adds at each step: the odd number nearest to 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// 2^-53: the distance between two neighbouring values of [`Rng::unit`].
const UNIT_STEP: f64 = f64::EPSILON / 2.0;

/// A generator of 64-bit words with 64 bits of state. Here it is used only for seeds and hashes.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts the sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next word.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }
}

/// The output function of `SplitMix64`. It is one-to-one, and each input bit changes about half of the output's bits.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the seed of the stream named `stream`, derived from `seed`.
///
/// The name's bytes are hashed eight at a time, and then its length. So two names that differ only in trailing zero
/// bytes have different streams.
#[must_use]
pub fn stream_seed(seed: u64, stream: &str) -> u64 {
    let absorb = |hash: u64, word: u64| SplitMix64::new(hash ^ word).next_u64();
    let words = stream.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let hash = words.fold(SplitMix64::new(seed).next_u64(), absorb);
    absorb(hash, stream.len() as u64)
}

/// One stream of random numbers: xoshiro256++.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Makes the stream named `stream` from `seed`. Streams with another name or another seed are independent.
    #[must_use]
    pub fn stream(seed: u64, stream: &str) -> Self {
        let mut words = SplitMix64::new(stream_seed(seed, stream));
        // The state is never four zeros, because SplitMix64 gives each word once. xoshiro could not leave that state.
        Self {
            state: std::array::from_fn(|_| words.next_u64()),
        }
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let word = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        word
    }

    /// Returns a whole number from 0 to `bound` - 1. Each is equally likely.
    ///
    /// # Panics
    /// Panics if `bound` is 0: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        below(bound, || self.next_u64())
    }

    /// Returns one of the 2^53 multiples of 2^-53 in [0, 1). Each is equally likely.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a float exactly")]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * UNIT_STEP
    }

    /// Returns a time from the exponential distribution with mean `mean_ns`. It uses only whole numbers.
    ///
    /// J. von Neumann, "Various techniques used in connection with random digits", National Bureau of Standards,
    /// Applied Mathematics Series 12, 1951: of falling uniform numbers, the first is accepted if their count is odd.
    pub fn exponential_ns(&mut self, mean_ns: u64) -> u64 {
        let mut uniform = || self.next_u64() >> 32;
        let mut whole: u64 = 0;
        loop {
            let first = uniform();
            let (mut last, mut is_odd) = (first, true);
            loop {
                let next = uniform();
                if next >= last {
                    break;
                }
                (last, is_odd) = (next, !is_odd);
            }
            if is_odd {
                return whole * mean_ns + ((mean_ns * first) >> 32);
            }
            whole += 1;
        }
    }

    /// Puts `items` into a random order. Each order is equally likely.
    ///
    /// R. Durstenfeld, "Algorithm 235: Random permutation", Communications of the ACM 7(7), 1964.
    #[expect(clippy::cast_possible_truncation, reason = "an index of a slice fits usize")]
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// Returns a whole number from 0 to `bound` - 1, made from random words. Each is equally likely.
///
/// The method is multiplication and rejection: D. Lemire, "Fast random integer generation in an interval", ACM
/// Transactions on Modeling and Computer Simulation 29(1), 2019. A simple remainder would favour small numbers.
///
/// # Panics
/// Panics if `bound` is 0: there is no such number.
#[inline]
pub(crate) fn below(bound: u64, mut word: impl FnMut() -> u64) -> u64 {
    assert!(bound > 0, "no whole number is below 0");
    // The upper half of the product is the candidate. The lower half decides whether it is accepted.
    let mut times = || u128::from(word()) * u128::from(bound);
    let mut product = times();
    if low_half(product) < bound {
        let rejected_below = bound.wrapping_neg() % bound;
        while low_half(product) < rejected_below {
            product = times();
        }
    }
    (product >> 64) as u64
}

/// A time with jitter: its minimum, and the number of different values in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    least_ns: u64,
    span_ns: u64,
}

impl Spread {
    /// Makes a time of `mean_ns`, uniformly plus or minus up to `jitter_per_mille` thousandths of it.
    pub(crate) const fn new(mean_ns: u64, jitter_per_mille: u64) -> Self {
        let reach_ns = mean_ns * jitter_per_mille / 1000;
        Self {
            least_ns: mean_ns - reach_ns,
            span_ns: 2 * reach_ns + 1,
        }
    }

    /// Returns such a time, chosen by the lower half of a random word.
    #[inline]
    pub(crate) const fn of(self, word: u64) -> u64 {
        self.least_ns + (((word & 0xffff_ffff) * self.span_ns) >> 32)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the upper half is left out on purpose")]
fn low_half(product: u128) -> u64 {
    product as u64
}

#[cfg(test)]
mod tests;
