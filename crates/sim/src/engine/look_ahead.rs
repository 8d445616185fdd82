//! Looks keys up before their turn, so that their leaves are in the processor's cache by then.
//!
//! A table of millions of leaves does not fit into the processor's cache, and each key leads to another place in it. So
//! a session's random words are generated ahead, and looked up as if each were a key, because most will be keys. A
//! lookup of a group costs little: the processor fetches its places in parallel. Only a run's speed depends on it.

use super::leaf::Leaf;
use super::tree::Tree;
use crate::hint::KEYS as GROUP;
use crate::rng::{self, Rng};

const AHEAD: usize = 2 * GROUP;

/// One session's random words; the next ones are already drawn.
#[derive(Debug)]
pub(super) struct Words {
    /// The stream from which they come.
    stream: Rng,
    /// Two groups: the first with known leaves, the second with the known leaves in which the cells begin.
    drawn: [u64; AHEAD],
    leaves: [Leaf; AHEAD],
    /// How many of these have been used.
    used: usize,
}

/// A random word, its upper half as a key, and the leaf where the search starts: the key's leaf or one on its left.
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

    /// The next word, for any use.
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

    /// The next word as a key. Looks up further words if few looked-up ones are left.
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
