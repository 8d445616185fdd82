//! Ageing: puts a drive, within a second, into the state that years of writes would leave.
//!
//! [`Age::Steady`] builds the steady state of uniform random writes directly. The numbers of valid pages per block are
//! known in closed form, and the valid pages are chosen at random. A test compares this with the slow way: to fill
//! addresses and then overwrite them at random.
//!
//! Let V valid pages be in B closed blocks of b pages, and let w host pages be written per collected block, so that
//! write amplification is b/w. The limit of a large drive is:
//! - Greedy: a block with i valid pages loses one at a rate in proportion to i/V. In a steady state, as many blocks
//!   pass each count as are collected. So V/(i w) blocks have i valid pages, down to the count at which they are
//!   collected, and w is such that their sum is B. (B. Van Houdt, "A mean field model for a class of garbage collection
//!   algorithms in flash-based solid state drives", SIGMETRICS 2013, has the general form.)
//! - FIFO: a page in the block that was closed k blocks ago is still valid with probability p(k) = (1 - w/V)^k, and w =
//!   b (1 - p(B)). (P. Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012.)

use super::ftl::{FlashPage, Ftl, NONE, WritePoint};
use super::victims::{Blocks, VictimPolicy};
use crate::rng::Rng;

/// How a drive is aged. The addresses in use are 0 to `addresses` - 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Age {
    /// Every address in use was written once, in order.
    Filled {
        /// The number of addresses in use.
        addresses: u32,
    },
    /// The steady state of random writes to the addresses in use.
    Steady {
        /// The number of addresses in use.
        addresses: u32,
        /// The number of erased blocks that are left, including the write points.
        free_blocks: u32,
    },
}

impl Age {
    /// How many addresses are in use.
    const fn addresses(self) -> u32 {
        match self {
            Self::Filled { addresses } | Self::Steady { addresses, .. } => addresses,
        }
    }
}

impl Ftl {
    /// Formats the drive and ages it. Its counters restart from 0.
    ///
    /// # Errors
    /// Fails if the drive has fewer addresses, or if the addresses and the free blocks together don't fit.
    pub fn age(&mut self, age: Age, rng: &mut Rng) -> Result<(), String> {
        let addresses = age.addresses();
        if addresses == 0 || addresses > self.shape.logical_pages {
            return Err(format!(
                "a drive of {} pages can't be aged with {addresses} of them in use",
                self.shape.logical_pages
            ));
        }
        self.format(self.shape.logical_pages)?;
        match age {
            Age::Filled { .. } => {
                for logical in 0..addresses {
                    self.write(logical, &mut ());
                }
            }
            Age::Steady { free_blocks, .. } => self.settle(addresses, free_blocks, rng)?,
        }
        self.counters = super::FtlCounters::default();
        Ok(())
    }

    /// Builds the steady state on a freshly formatted drive.
    fn settle(&mut self, addresses: u32, free_blocks: u32, rng: &mut Rng) -> Result<(), String> {
        let pages = self.shape.pages_per_block;
        let free_blocks = free_blocks.max(2);
        let blocks = self.shape.blocks.saturating_sub(free_blocks);
        if addresses.div_ceil(pages) >= blocks {
            return Err(format!(
                "{free_blocks} free blocks of {} leave no room for {addresses} addresses and for what is invalid",
                self.shape.blocks
            ));
        }
        let mut counts = match self.shape.victim {
            VictimPolicy::Greedy => greedy_counts(addresses, blocks, pages),
            VictimPolicy::Fifo => fifo_counts(addresses, blocks, pages, rng),
        };
        add_up(&mut counts, addresses, pages, rng);
        if self.shape.victim == VictimPolicy::Greedy {
            // The number of a block's valid pages does not depend on its position.
            rng.shuffle(&mut counts);
        }
        self.lay_out(&counts, addresses, rng);
        Ok(())
    }

    /// Closes a block for each count, with that many valid pages at random places and the addresses in random order.
    fn lay_out(&mut self, counts: &[u32], addresses: u32, rng: &mut Rng) {
        let mut order: Vec<u32> = (0..addresses).collect();
        rng.shuffle(&mut order);
        let mut logicals = order.into_iter();
        let pages = self.shape.pages_per_block;
        self.blocks = Blocks::new(self.shape.victim, self.shape.blocks, pages);
        self.points = [WritePoint::default(); 2];
        for (block, &count) in (0..).zip(counts) {
            let mut wanted = count;
            for page in 0..pages {
                let flash = FlashPage::new(block * pages + page);
                let taken = draw(rng, pages - page) < wanted;
                let logical = if taken { logicals.next() } else { None };
                self.logical_of[flash.index()] = logical.unwrap_or(NONE);
                if let Some(logical) = logical {
                    self.flash_of[logical as usize] = flash;
                    wanted -= 1;
                }
            }
            self.blocks.gain_pages(block, count);
            self.blocks.push(block);
        }
        self.mapped = addresses;
        let first_free = u32::try_from(counts.len()).expect("blocks are counted in 32 bits");
        self.free = (first_free..self.shape.blocks).rev().collect();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below a bound of 32 bits")]
fn draw(rng: &mut Rng, bound: u32) -> u32 {
    rng.below(u64::from(bound)) as u32
}

/// The greedy steady state: the host pages per collected block, and the (fractional) number of blocks for each count of
/// valid pages.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GreedySteady {
    pub(super) host_pages_per_collection: f64,
    pub(super) blocks_with: Vec<f64>,
}

/// Solves the greedy steady state for `valid` pages in `blocks` closed blocks of `pages` pages.
pub(super) fn greedy_steady(valid: f64, blocks: f64, pages: u32) -> GreedySteady {
    let target = blocks / valid;
    // The loop begins at full blocks, which are never collected, and goes down. `passed` is the sum of 1/i over the
    // counts that all blocks pass.
    let mut passed = 1.0 / f64::from(pages);
    let mut lowest = pages - 1;
    let mut host_pages = 0.0;
    while lowest > 0 {
        // Blocks are collected at `lowest`, except for a share `on` that first loses one more page.
        let above = f64::from(pages - lowest);
        let inverse = 1.0 / f64::from(lowest);
        // (passed + on / lowest) / (above + on) = target, solved for `on`:
        let on = (target * above - passed) / (inverse - target);
        if (0.0..=1.0).contains(&on) {
            host_pages = above + on;
            break;
        }
        passed += inverse;
        lowest -= 1;
    }
    let mut blocks_with = vec![0.0; pages as usize + 1];
    if lowest == 0 {
        host_pages = f64::from(pages);
    }
    for count in lowest.max(1)..=pages {
        blocks_with[count as usize] = valid / (f64::from(count) * host_pages);
    }
    if lowest > 0 {
        let on = host_pages - f64::from(pages - lowest);
        blocks_with[lowest as usize] *= on;
    } else {
        blocks_with[0] = blocks - blocks_with.iter().sum::<f64>();
    }
    GreedySteady {
        host_pages_per_collection: host_pages,
        blocks_with,
    }
}

/// Returns a count of valid pages for each block in the greedy steady state, in ascending order.
fn greedy_counts(valid: u32, blocks: u32, pages: u32) -> Vec<u32> {
    let steady = greedy_steady(f64::from(valid), f64::from(blocks), pages);
    let mut counts = Vec::with_capacity(blocks as usize);
    let mut up_to = 0.0;
    for (count, share) in (0..).zip(&steady.blocks_with) {
        up_to += share;
        while counts.len() < blocks as usize && in_float(counts.len()) + 0.5 < up_to {
            counts.push(count);
        }
    }
    counts.resize(blocks as usize, pages);
    counts
}

/// Returns the host pages per collected block under FIFO, found by bisection.
pub(super) fn fifo_host_pages_per_collection(valid: f64, blocks: u32, pages: u32) -> f64 {
    let (mut low, mut high) = (0.0, f64::from(pages));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let left_valid = power(1.0 - middle / valid, blocks);
        if f64::from(pages) * (1.0 - left_valid) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Returns a count of valid pages for each block in the FIFO steady state, the oldest block first.
fn fifo_counts(valid: u32, blocks: u32, pages: u32, rng: &mut Rng) -> Vec<u32> {
    let kept = 1.0 - fifo_host_pages_per_collection(f64::from(valid), blocks, pages) / f64::from(valid);
    let mut probability = 1.0;
    let mut counts: Vec<u32> = (0..blocks)
        .map(|_| {
            probability *= kept;
            (0..pages).map(|_| u32::from(rng.unit() < probability)).sum()
        })
        .collect();
    counts.reverse();
    counts
}

/// Adds or removes single valid pages in random blocks until their sum is `valid`.
fn add_up(counts: &mut [u32], valid: u32, pages: u32, rng: &mut Rng) {
    let blocks = u32::try_from(counts.len()).expect("blocks are counted in 32 bits");
    let mut sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let wanted = u64::from(valid);
    while sum != wanted {
        let count = &mut counts[draw(rng, blocks) as usize];
        if sum < wanted && *count < pages {
            *count += 1;
            sum += 1;
        } else if sum > wanted && *count > 0 {
            *count -= 1;
            sum -= 1;
        }
    }
}

/// Returns `base` to the power of `exponent`. It squares, because the library's function may differ between machines.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut square, mut left, mut result) = (base, exponent, 1.0);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

#[expect(clippy::cast_precision_loss, reason = "blocks are counted in 32 bits")]
fn in_float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
