//! Keys and I/Os before their turn, so that the leaves they lead to are in the processor's cache by then.
//!
//! A table of millions of leaves lies far from the processor, and each key leads to another place in it. What a session
//! inserts next is known, though: its keys are the words of its own stream. A copy of that stream, some words ahead, says where
//! to look. Looks in groups cost little, as the processor fetches all of a group side by side. It changes the speed of a run,
//! and nothing else.

use std::cell::Cell;

use super::tree::Tree;
use crate::rng::Rng;

/// Keys that are looked up together. A power of two.
const GROUP: usize = 8;

/// One session's view of the keys to come.
#[derive(Debug)]
pub(super) struct LookAhead {
    /// The session's stream, as many words further as there are in `coming` from `at` on.
    further: Rng,
    /// Two groups of words: of the first the leaves have been touched, of the second the cells.
    coming: [u64; 2 * GROUP],
    /// How many of the first group have been used.
    at: usize,
}

impl LookAhead {
    /// Of a session that is about to draw from `stream`.
    pub(super) fn new(stream: &Rng, tree: &Tree) -> Self {
        let mut fresh = Self {
            further: stream.clone(),
            coming: [0; 2 * GROUP],
            at: 0,
        };
        fresh.start_afresh(stream, tree);
        fresh
    }

    /// A burst begins. Words that were drawn for other ends than keys since the last one are passed over.
    #[inline]
    pub(super) fn begin(&mut self, stream: &Rng, tree: &Tree) {
        let next = stream.clone().next_u64();
        if self.coming[self.at] != next {
            self.catch_up(next, stream, tree);
        }
    }

    #[cold]
    fn catch_up(&mut self, next: u64, stream: &Rng, tree: &Tree) {
        let skipped = self.coming[self.at..].iter().position(|&word| word == next);
        match skipped {
            Some(skipped) if self.at + skipped < GROUP => self.at += skipped,
            Some(skipped) => {
                self.at = self.at + skipped - GROUP;
                self.next_group(tree);
            }
            None => self.start_afresh(stream, tree),
        }
    }

    #[cold]
    fn start_afresh(&mut self, stream: &Rng, tree: &Tree) {
        self.further = stream.clone();
        self.at = 0;
        self.next_group(tree);
        self.next_group(tree);
    }

    /// The session has drawn one key.
    #[inline]
    pub(super) fn step(&mut self, tree: &Tree) {
        self.at += 1;
        if self.at == GROUP {
            self.at = 0;
            self.next_group(tree);
        }
    }

    /// The second group becomes the first.
    fn next_group(&mut self, tree: &Tree) {
        let mut touched = 0;
        self.coming.copy_within(GROUP.., 0);
        for word in &mut self.coming[GROUP..] {
            *word = self.further.next_u64();
            touched ^= tree.touch_cell(key_of(*word));
        }
        for &word in &self.coming[..GROUP] {
            touched ^= tree.touch_leaf(key_of(word));
        }
        std::hint::black_box(touched); // or the compiler would leave out what nobody uses
    }
}

/// I/Os that are looked up together.
const IO_GROUP: usize = 4;

/// Leaves that will be read or written soon, of which the drives' maps have yet to be looked up.
#[derive(Debug, Default)]
pub(super) struct ComingIos {
    leaves: Cell<[u32; IO_GROUP]>,
    count: Cell<usize>,
}

impl ComingIos {
    /// Adds a leaf, and gives a group back once it is full.
    #[inline]
    pub(super) fn add(&self, leaf: u32) -> Option<[u32; IO_GROUP]> {
        let (mut leaves, place) = (self.leaves.get(), self.count.get() % IO_GROUP);
        leaves[place] = leaf;
        self.leaves.set(leaves);
        self.count.set(place + 1);
        (place + 1 == IO_GROUP).then_some(leaves)
    }
}

/// A word's upper half, which is the key that a session makes of it.
const fn key_of(word: u64) -> u32 {
    (word >> 32) as u32
}
