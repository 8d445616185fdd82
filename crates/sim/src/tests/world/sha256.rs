//! SHA-256 (FIPS 180-4), so that any other program finds the same digests.

use std::fmt::Write;

/// The first 32 bits of the fractional parts of the roots of the first primes: square roots of 8, cube roots of 64.
/// Computed with integers, so that no table has to be trusted.
fn root_bits(prime: u64, cube: bool) -> u32 {
    let goal = u128::from(prime) << if cube { 96 } else { 64 };
    let power = |root: u128| if cube { root * root * root } else { root * root };
    let (mut low, mut high) = (0_u128, 1 << 42);
    while high - low > 1 {
        let middle = u128::midpoint(low, high);
        let half = if power(middle) <= goal { &mut low } else { &mut high };
        *half = middle;
    }
    u32::try_from(low & 0xffff_ffff).expect("32 bits")
}

fn primes() -> impl Iterator<Item = u64> {
    (2..).filter(|&number| (2..number).all(|divisor| number % divisor != 0))
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    padded
}

#[expect(clippy::many_single_char_names, reason = "the standard's own names")]
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    let constants: Vec<u32> = primes().take(64).map(|prime| root_bits(prime, true)).collect();
    let mut hash: Vec<u32> = primes().take(8).map(|prime| root_bits(prime, false)).collect();
    for chunk in padded(bytes).chunks_exact(64) {
        let mut words: Vec<u32> = chunk
            .chunks_exact(4)
            .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        for at in 16..64 {
            let (early, late): (u32, u32) = (words[at - 15], words[at - 2]);
            let early = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
            let late = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
            let sum = words[at - 16].wrapping_add(early).wrapping_add(words[at - 7]);
            words.push(sum.wrapping_add(late));
        }
        let mut state = hash.clone();
        for (constant, word) in constants.iter().zip(&words) {
            let [a, b, c, d, e, f, g, h] = state[..] else {
                unreachable!("eight words")
            };
            let choice = e & f ^ !e & g;
            let majority = a & b ^ a & c ^ b & c;
            let first = h
                .wrapping_add(e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
                .wrapping_add(choice)
                .wrapping_add(*constant)
                .wrapping_add(*word);
            let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(majority);
            state = vec![first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
        }
        for (sum, word) in hash.iter_mut().zip(state) {
            *sum = sum.wrapping_add(word);
        }
    }
    let mut text = String::new();
    for word in hash {
        write!(text, "{word:08x}").expect("a string takes all");
    }
    text
}
