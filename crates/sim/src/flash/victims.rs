//! Closed blocks, in the order in which they will be cleaned.
//!
//! All of them stand in one ring. Under FIFO they stand in the order in which they were closed. Under greedy they stand
//! sorted by their number of valid pages, and `starts` says where each number begins: a block that loses a page changes
//! places with the first block of its own number, and that number begins one place later. This is the bucket array of
//! V. Batagelj and M. Zaversnik, "An O(m) algorithm for cores decomposition of networks", 2003: constant time, no links
//! to follow, 4 bytes a block for its place and 4 to 8 for the ring.

use serde::{Deserialize, Serialize};

/// Which closed block is cleaned next.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The block with the fewest valid pages.
    Greedy,
    /// The block that was closed first.
    Fifo,
}

/// The place of a block that is not closed.
const NOWHERE: u32 = u32::MAX;

/// The closed blocks of one drive.
#[derive(Clone, Debug)]
pub(super) struct ClosedBlocks {
    policy: VictimPolicy,
    /// A power of two of places; those in use run from `starts[0]` up to the last of `starts`, both taken modulo the size.
    ring: Vec<u32>,
    /// For each block its index in `ring`, or `NOWHERE`. Empty under FIFO, which never moves a block.
    places: Vec<u32>,
    /// `starts[v]`: how many places, since the beginning of time and modulo 2^32, lie before the blocks with `v` valid pages.
    starts: Vec<u32>,
}

impl ClosedBlocks {
    pub(super) fn new(policy: VictimPolicy, blocks: u32, pages_per_block: u32) -> Self {
        let (places, boundaries) = match policy {
            VictimPolicy::Greedy => (vec![NOWHERE; blocks as usize], pages_per_block as usize + 2),
            VictimPolicy::Fifo => (Vec::new(), 2),
        };
        Self {
            policy,
            ring: vec![NOWHERE; (blocks as usize).next_power_of_two()],
            places,
            starts: vec![0; boundaries],
        }
    }

    /// Adds a block that was just closed, with `valid` valid pages.
    pub(super) fn push(&mut self, block: u32, valid: u32) {
        let tail = self.tail();
        *self.starts.last_mut().expect("never empty") = tail.wrapping_add(1);
        let index = self.index(tail);
        self.ring[index] = block;
        if self.policy == VictimPolicy::Greedy {
            self.places[block as usize] = as_place(index);
            let fullest = as_place(self.starts.len()) - 2;
            for count in (valid + 1..=fullest).rev() {
                self.swap_down(block, count);
            }
        }
    }

    /// Takes out the next block to clean; `valid_of` says how many valid pages a block has.
    pub(super) fn pop(&mut self, valid_of: impl Fn(u32) -> u32) -> Option<u32> {
        let block = self.front()?;
        let lowest = match self.policy {
            VictimPolicy::Greedy => {
                self.places[block as usize] = NOWHERE;
                valid_of(block) as usize
            }
            VictimPolicy::Fifo => 0,
        };
        for start in &mut self.starts[..=lowest] {
            *start = start.wrapping_add(1);
        }
        Some(block)
    }

    /// The next block to clean.
    pub(super) fn front(&self) -> Option<u32> {
        (self.starts[0] != self.tail()).then(|| self.ring[self.index(self.starts[0])])
    }

    /// Says that a block, closed or not, is about to have one valid page fewer than `valid`.
    #[inline]
    pub(super) fn lose_page(&mut self, block: u32, valid: u32) {
        if self.policy == VictimPolicy::Greedy && self.places[block as usize] != NOWHERE {
            self.swap_down(block, valid);
        }
    }

    /// Reads where a block stands, so that it is in the processor's cache when it loses a page.
    #[inline]
    pub(super) fn touch_place(&self, block: usize) -> u32 {
        self.places.get(block).copied().unwrap_or(NOWHERE)
    }

    /// Reads what stands there, likewise.
    #[inline]
    pub(super) fn touch_ring(&self, block: usize) -> u32 {
        let place = self.touch_place(block);
        self.ring.get(place as usize).copied().unwrap_or(NOWHERE)
    }

    /// All closed blocks, next victim first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = u32> {
        let head = self.starts[0];
        (0..self.len()).map(move |step| self.ring[self.index(head.wrapping_add(step))])
    }

    pub(super) fn len(&self) -> u32 {
        self.tail().wrapping_sub(self.starts[0])
    }

    /// Moves a closed block from the blocks with `count` valid pages to the end of those with one fewer.
    #[inline(always)]
    fn swap_down(&mut self, block: u32, count: u32) {
        let start = self.starts[count as usize];
        self.starts[count as usize] = start.wrapping_add(1);
        let first = self.index(start);
        let place = self.places[block as usize];
        let other = self.ring[first];
        self.ring[place as usize] = other;
        self.places[other as usize] = place;
        self.ring[first] = block;
        self.places[block as usize] = as_place(first);
    }

    fn tail(&self) -> u32 {
        *self.starts.last().expect("never empty")
    }

    #[inline]
    fn index(&self, position: u32) -> usize {
        position as usize & (self.ring.len() - 1)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "blocks and pages are counted in 32 bits")]
fn as_place(index: usize) -> u32 {
    index as u32
}
