//! Finds the leaves of keys before the keys are used, so that the leaves are in the processor's cache by then.
//!
//! A table of millions of leaves does not fit into the processor's cache, and each key needs another part of it. So a
//! session's random words are drawn early and looked up as if each were a key. The processor fetches the entries of a
//! group in parallel, which takes little time. Only the speed of the simulator depends on this.

use super::leaf::Leaf;
use super::tree::Tree;
use crate::hint::KEYS as GROUP;
use crate::rng::{self, Rng};

const AHEAD: usize = 2 * GROUP;

/// One session's random words. The next ones are already drawn.
#[derive(Debug)]
pub(super) struct Words {
    /// The stream from which they come.
    stream: Rng,
    /// Two groups. For words of the first, their leaves are known; for the second, the leaves where their cells begin.
    drawn: [u64; AHEAD],
    leaves: [Leaf; AHEAD],
    /// The number of words in `drawn` that have been used.
    used: usize,
}

/// A random word, the key in its upper half, and the leaf where the search starts: the key's leaf or one to its left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) word: u64,
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

    /// Returns the next word, for any use.
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

    /// Returns the next word as a key. If few words are left, it first looks up more.
    #[inline(always)]
    pub(super) fn next_key(&mut self, tree: &Tree) -> Key {
        while self.used >= GROUP {
            self.next_group(tree);
        }
        let (word, from) = (self.drawn[self.used], self.leaves[self.used]);
        self.used += 1;
        Key {
            word,
            key: key_of(word),
            from,
        }
    }

    /// Makes the second group the first one, and draws a new second group.
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

/// Returns a word's upper half, which is its key.
const fn key_of(word: u64) -> u32 {
    (word >> 32) as u32
}
