//! Keys before their turn, so that the leaves they lead to are in the processor's cache by then.
//!
//! A table of millions of leaves lies far from the processor, and each key leads to another place in it. So a session's random
//! words are drawn some time ahead, and looked up as if each were to be a key: most will be. Looks in groups cost little, as
//! the processor fetches all of a group side by side. It changes the speed of a run, and nothing else.

use super::leaf::Leaf;
use super::tree::Tree;
use crate::rng::{self, Rng};

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
    leaves: [Leaf; AHEAD],
    /// How many of these have been used.
    used: usize,
}

/// A random number that is a key, and a leaf to look for its own from: that one or one on its left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) key: u32,
    pub(super) from: Leaf,
}

impl Words {
    pub(super) const fn new(stream: Rng) -> Self {
        Self {
            stream,
            drawn: [0; AHEAD],
            leaves: [Leaf::NONE; AHEAD],
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

/// A word's upper half, which is the key that a session makes of it.
const fn key_of(word: u64) -> u32 {
    (word >> 32) as u32
}
