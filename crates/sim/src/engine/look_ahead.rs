//! Keys and I/Os before their turn, so that the leaves they lead to are in the processor's cache by then.
//!
//! A table of millions of leaves lies far from the processor, and each key leads to another place in it. So a session's random
//! words are drawn some time ahead, and looked up as if each were to be a key: most will be. Looks in groups cost little, as
//! the processor fetches all of a group side by side. It changes the speed of a run, and nothing else.

use std::cell::Cell;

use super::tree::{NO_LEAF, Tree};
use crate::rng::{self, Rng};
use crate::volume::Volume;

/// Keys that are looked up together.
const GROUP: usize = 8;
const AHEAD: usize = 2 * GROUP;

/// One session's random words, the next ones drawn already.
#[derive(Debug)]
pub(super) struct Words {
    /// The stream from which they come.
    stream: Rng,
    /// Two groups of them: for the first the leaves have been found, for the second those in which their cells begin.
    drawn: [u64; AHEAD],
    leaves: [u32; AHEAD],
    /// How many of these have been used.
    used: usize,
}

/// A random number that is a key, and a leaf to look for its own from: that one or one on its left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) key: u32,
    pub(super) from: u32,
}

impl Words {
    pub(super) const fn new(stream: Rng) -> Self {
        Self {
            stream,
            drawn: [0; AHEAD],
            leaves: [NO_LEAF; AHEAD],
            used: AHEAD,
        }
    }

    /// The next word, whatever for.
    #[inline]
    pub(super) fn next_u64(&mut self) -> u64 {
        if self.used == AHEAD {
            return self.stream.next_u64();
        }
        self.used += 1;
        self.drawn[self.used - 1]
    }

    /// As [`Rng::below`].
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        rng::below(bound, || self.next_u64())
    }

    /// Looks up words to come, if few are left of those that have been: [`Words::next_key`] may be called once more then.
    #[inline]
    pub(super) fn look_ahead(&mut self, tree: &Tree) {
        while self.used >= GROUP {
            self.next_group(tree);
        }
    }

    /// The next word, and the key that its upper half makes.
    #[inline]
    pub(super) fn next_key(&mut self) -> (u64, Key) {
        let (word, from) = (self.drawn[self.used], self.leaves[self.used]);
        self.used += 1;
        (
            word,
            Key {
                key: key_of(word),
                from,
            },
        )
    }

    /// The second group becomes the first.
    fn next_group(&mut self, tree: &Tree) {
        self.used -= GROUP;
        for place in 0..GROUP {
            self.drawn[place] = self.drawn[GROUP + place];
            self.drawn[GROUP + place] = self.stream.next_u64();
        }
        for place in 0..GROUP {
            self.leaves[place] = self.leaves[GROUP + place];
            self.leaves[GROUP + place] = tree.cell(key_of(self.drawn[GROUP + place]));
        }
        for place in self.used..GROUP {
            self.leaves[place] = tree.find_from(self.leaves[place], key_of(self.drawn[place]));
        }
    }
}

/// I/Os that are looked up together.
pub(super) const IO_GROUP: usize = 4;
/// Volumes of so many bytes have maps (4 bytes for each 4 KB) that no processor's cache holds: for smaller ones a look ahead
/// costs more than it saves (3 % of a run's time on 5 GB, while it saves 6 % on 160 GB).
const WORTH_IT_BYTES: u64 = 32 << 30;

/// Leaves that will be read or written soon, of which the drives' maps have yet to be looked up.
#[derive(Debug)]
pub(super) struct ComingIos {
    is_worth_it: bool,
    // Cells one by one: a group read as a whole waits until the leaf just stored has left the processor's store queue.
    leaves: [Cell<u32>; IO_GROUP],
    count: Cell<usize>,
}

impl ComingIos {
    pub(super) fn new(volumes: &[Volume]) -> Self {
        Self {
            is_worth_it: volumes.iter().map(Volume::bytes).sum::<u64>() >= WORTH_IT_BYTES,
            leaves: Default::default(),
            count: Cell::new(0),
        }
    }

    /// Adds a leaf, and gives a group back once it is full.
    #[inline]
    pub(super) fn add(&self, leaf: u32) -> Option<[u32; IO_GROUP]> {
        if !self.is_worth_it {
            return None;
        }
        let place = self.count.get() % IO_GROUP;
        self.leaves[place].set(leaf);
        self.count.set(place + 1);
        (place + 1 == IO_GROUP).then(|| self.leaves.each_ref().map(Cell::get))
    }
}

/// A word's upper half, which is the key that a session makes of it.
const fn key_of(word: u64) -> u32 {
    (word >> 32) as u32
}
