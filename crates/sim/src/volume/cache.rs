//! The controller's write-back cache: its dirty blocks, the blocks that are written to the drives, and their order.
//!
//! The cache consists of blocks with one dirty bit per sector. Four rules keep it correct:
//! - A write to a cached block is always accepted, even if the cache is full. So older data never replace newer data.
//! - A block has at most one write to the drives in progress. Data that arrive meanwhile wait for the next write.
//! - A block stays in the cache until its write to the drives is done.
//! - A write without room for its blocks goes *through*: it is acknowledged when the drives have its data. Until then
//!   its blocks are in the cache, beyond its capacity, as in a controller's buffers. So these rules hold for them too.
//!
//! Dirty blocks are written to the drives in one of two orders ([`Destaging`]), neighbours together. Blocks of writes
//! that go through are written first.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The bytes of a sector, the smallest unit of dirty data.
pub const SECTOR_BYTES: u64 = 512;

/// The order in which dirty blocks are written to the drives. Both orders are usual: B. S. Gill and D. S. Modha, "WOW:
/// wise ordering for writes", FAST 2005, call them CSCAN and LRW.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destaging {
    /// In ascending order, and from the end again to the beginning.
    Elevator,
    /// The longest dirty first, together with the dirty blocks in the same row of stripes.
    #[default]
    Oldest,
}

#[derive(Clone, Debug, Default)]
struct Block {
    /// The bits of dirty sectors.
    dirty: u64,
    /// Its number in the list by age, or 0 if it is not listed.
    since: u64,
    /// The bits of sectors that are being written to the drives.
    writing: u64,
    /// The operations that wait for the write of the dirty sectors, and those that wait for the write in progress.
    waiters: Vec<u32>,
    served: Vec<u32>,
}

/// Dirty bytes that are being written to the drives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// Their first byte.
    pub offset: u64,
    /// Their number.
    pub bytes: u64,
}

/// The cache of one volume.
#[derive(Clone, Debug)]
pub struct Cache {
    block_bytes: u64,
    /// Capacity in blocks.
    room_blocks: usize,
    /// The most blocks in one write.
    run_blocks: u64,
    /// The number of dirty blocks that stay in the cache.
    kept_blocks: usize,
    on_their_way: usize,
    blocks: BTreeMap<u64, Block>,
    order: Destaging,
    /// The elevator's position, or the blocks of the present row that are left.
    row: Range<u64>,
    /// Blocks by age, each with its number. An entry is out of date if the block is clean or has another number.
    ages: VecDeque<(u64, u64)>,
    listed: u64,
    urgent: VecDeque<u64>,
}

impl Cache {
    /// Makes an empty cache of `bytes`, in blocks of `block_bytes` (1 to 64 sectors). While more than `keep_per_mille`
    /// of it is dirty, it is written in runs of at most `run_bytes`.
    #[must_use]
    pub fn new(bytes: u64, block_bytes: u64, run_bytes: u64, keep_per_mille: u32, order: Destaging) -> Self {
        debug_assert!(
            (1..=64).contains(&(block_bytes / SECTOR_BYTES)),
            "a block is 1 to 64 sectors"
        );
        Self {
            block_bytes,
            room_blocks: usize::try_from(bytes / block_bytes).unwrap_or(usize::MAX),
            run_blocks: (run_bytes / block_bytes).max(1),
            kept_blocks: usize::try_from(bytes / block_bytes * u64::from(keep_per_mille) / 1000).unwrap_or(usize::MAX),
            on_their_way: 0,
            blocks: BTreeMap::new(),
            order,
            row: 0..0,
            ages: VecDeque::new(),
            listed: 0,
            urgent: VecDeque::new(),
        }
    }

    /// Returns the blocks of a request, with the bits of their sectors.
    fn parts(&self, offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let block_bytes = self.block_bytes;
        let (first, last) = (offset / block_bytes, (offset + bytes - 1) / block_bytes);
        (first..=last).map(move |block| {
            let start = block * block_bytes;
            let from = offset.saturating_sub(start) / SECTOR_BYTES;
            let to = (offset + bytes - start).min(block_bytes).div_ceil(SECTOR_BYTES);
            (block, bits(from, to))
        })
    }

    /// Whether all of these bytes are in the cache.
    #[must_use]
    pub fn holds(&self, offset: u64, bytes: u64) -> bool {
        self.parts(offset, bytes).all(|(number, sectors)| {
            let block = self.blocks.get(&number);
            block.is_some_and(|block| (block.dirty | block.writing) & sectors == sectors)
        })
    }

    /// Accepts a write if there is room for its blocks. Returns whether there was.
    pub fn take(&mut self, offset: u64, bytes: u64) -> bool {
        let new = self
            .parts(offset, bytes)
            .filter(|(block, _)| !self.blocks.contains_key(block));
        let fits = self.blocks.len() + new.count() <= self.room_blocks || self.all_here(offset, bytes);
        if fits {
            for (number, sectors) in self.parts(offset, bytes) {
                self.soil(number, sectors);
            }
        }
        fits
    }

    fn soil(&mut self, number: u64, sectors: u64) -> &mut Block {
        let block = self.blocks.entry(number).or_default();
        if block.dirty == 0 && self.order == Destaging::Oldest {
            self.listed += 1;
            block.since = self.listed;
            self.ages.push_back((number, self.listed));
        }
        block.dirty |= sectors;
        block
    }

    fn all_here(&self, offset: u64, bytes: u64) -> bool {
        self.parts(offset, bytes)
            .all(|(block, _)| self.blocks.contains_key(&block))
    }

    /// Accepts a write that goes through. Returns its number of blocks. [`Cache::finish`] returns `waiter` for each.
    pub fn take_through(&mut self, offset: u64, bytes: u64, waiter: u32) -> u32 {
        let mut blocks = 0;
        for (number, sectors) in self.parts(offset, bytes) {
            self.soil(number, sectors).waiters.push(waiter);
            self.urgent.push_back(number);
            blocks += 1;
        }
        blocks
    }

    /// Starts the write of the next block that an operation waits for, if there is one.
    pub fn next_urgent(&mut self) -> Option<Run> {
        while let Some(number) = self.urgent.pop_front() {
            if self.blocks.get(&number).is_some_and(can_go) {
                return Some(self.start(number));
            }
        }
        None
    }

    /// Starts the write of the next blocks in the order, if enough blocks are dirty.
    pub fn next_run(&mut self) -> Option<Run> {
        if self.blocks.len() - self.on_their_way <= self.kept_blocks {
            return None;
        }
        let number = match self.order {
            Destaging::Elevator => self
                .first_in(self.row.start..u64::MAX)
                .or_else(|| self.first_in(0..self.row.start))?,
            Destaging::Oldest => self.first_in(self.row.clone()).or_else(|| self.first_of_oldest_row())?,
        };
        let run = self.start(number);
        self.row.start = (run.offset + run.bytes).div_ceil(self.block_bytes);
        Some(run)
    }

    fn first_in(&self, blocks: Range<u64>) -> Option<u64> {
        // The range of a row may be empty, with its end before its beginning.
        let there = (!blocks.is_empty()).then(|| self.blocks.range(blocks));
        let mut can_go = there.into_iter().flatten().filter(|(_, block)| can_go(block));
        can_go.next().map(|(&number, _)| number)
    }

    /// Moves to the row of the block that was dirty longest, and returns its first block that can be written.
    fn first_of_oldest_row(&mut self) -> Option<u64> {
        for _ in 0..self.ages.len() {
            let (number, since) = self.ages.pop_front()?;
            let Some(block) = self.blocks.get_mut(&number) else {
                continue;
            };
            if block.since != since || block.dirty == 0 {
                continue;
            }
            if block.writing != 0 {
                self.ages.push_back((number, since));
                continue;
            }
            block.since = 0;
            let first = number / self.run_blocks * self.run_blocks;
            self.row = first..first + self.run_blocks;
            return self.first_in(self.row.clone());
        }
        None
    }

    /// Starts the write of a block's first dirty sectors and of those that follow without a gap.
    fn start(&mut self, first: u64) -> Run {
        let whole = bits(0, self.block_bytes / SECTOR_BYTES);
        let (mut number, mut sectors_in_all, mut from) = (first, 0, 0);
        while number < first + self.run_blocks {
            let Some(block) = self.blocks.get_mut(&number).filter(|block| can_go(block)) else {
                break;
            };
            let start = block.dirty.trailing_zeros();
            if number == first {
                from = u64::from(start);
            } else if start > 0 {
                break;
            }
            let length = (block.dirty >> start).trailing_ones();
            let sent = bits(u64::from(start), u64::from(start + length));
            block.dirty &= !sent;
            block.writing = sent;
            self.on_their_way += 1;
            if block.dirty == 0 {
                block.served = std::mem::take(&mut block.waiters);
            }
            sectors_in_all += u64::from(length);
            let to_its_end = sent.leading_zeros() == whole.leading_zeros();
            if !to_its_end {
                break;
            }
            number += 1;
        }
        Run {
            offset: first * self.block_bytes + from * SECTOR_BYTES,
            bytes: sectors_in_all * SECTOR_BYTES,
        }
    }

    /// Ends a write to the drives. Removes its blocks, unless they are dirty again. Adds their waiters to `served`.
    ///
    /// # Panics
    /// Panics if there is no such write.
    pub fn finish(&mut self, run: Run, served: &mut Vec<u32>) {
        for (number, sectors) in self.parts(run.offset, run.bytes) {
            let block = self.blocks.get_mut(&number).expect("what is on its way is here");
            debug_assert_eq!(block.writing, sectors, "what was sent has arrived");
            block.writing = 0;
            self.on_their_way -= 1;
            served.append(&mut block.served);
            if block.dirty == 0 {
                self.blocks.remove(&number);
                continue;
            }
            if !block.waiters.is_empty() {
                self.urgent.push_back(number);
            }
            if block.since == 0 && self.order == Destaging::Oldest {
                self.listed += 1;
                block.since = self.listed;
                self.ages.push_back((number, self.listed));
            }
        }
    }
}

fn can_go(block: &Block) -> bool {
    block.dirty != 0 && block.writing == 0
}

/// Returns a word of 64 bits in which the bits `from` to `to` - 1 are set.
fn bits(from: u64, to: u64) -> u64 {
    let below = |bit: u64| if bit >= 64 { u64::MAX } else { (1 << bit) - 1 };
    below(to) & !below(from)
}

#[cfg(test)]
mod tests;
