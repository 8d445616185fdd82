//! The buffer pool: frames, which of them are free, and the clock that picks the next page to go.

use super::tree::{NO_LEAF, State, Tree, flag};
use crate::hint::{put, rare};

/// Frames that are looked up together.
const GROUP: usize = 16;

/// Frames of the pool. Free + holding a leaf + taken for good + promised = all, at any time.
#[derive(Debug)]
pub struct Pool {
    /// For each frame the leaf in it, or [`NO_LEAF`].
    frames: Vec<u32>,
    free: Vec<u32>,
    hand: usize,
    /// Frames that hold pages of the index above the leaves, which never leave.
    kept: u32,
    /// Frames handed out for a read in progress.
    promised: u32,
}

/// A page that the clock has picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Where it is.
    pub frame: u32,
    /// What it is.
    pub leaf: u32,
    /// Whether it must be written before it can go.
    pub dirty: bool,
}

impl Pool {
    /// `frames` free ones.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            frames: vec![NO_LEAF; frames as usize],
            free: (0..frames).rev().collect(),
            hand: 0,
            kept: 0,
            promised: 0,
        }
    }

    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        narrow(self.frames.len())
    }

    /// Whether there is no frame at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// How many frames are free.
    #[must_use]
    pub fn free(&self) -> u32 {
        narrow(self.free.len())
    }

    /// Takes a free frame, to be filled by [`Pool::fill`].
    pub fn take_free(&mut self) -> Option<u32> {
        let frame = self.free.pop()?;
        self.promised += 1;
        Some(frame)
    }

    /// Puts a leaf into a frame that was taken.
    pub fn fill(&mut self, frame: u32, leaf: u32) {
        self.promised -= 1;
        self.frames[frame as usize] = leaf;
    }

    /// Keeps a frame for a page that never leaves, if one is free.
    pub fn keep(&mut self) -> bool {
        let got = self.free.pop().is_some();
        self.kept += u32::from(got);
        got
    }

    /// Lets the leaf in a frame go; the frame is free.
    pub fn evict(&mut self, victim: Victim, tree: &mut Tree) {
        debug_assert_eq!(self.frames[victim.frame as usize], victim.leaf);
        tree.states[victim.leaf as usize].flags = flag::ABSENT;
        self.frames[victim.frame as usize] = NO_LEAF;
        put(&mut self.free, victim.frame);
    }

    /// The leaf in a frame, or [`NO_LEAF`].
    #[must_use]
    pub fn leaf_in(&self, frame: u32) -> u32 {
        self.frames[frame as usize]
    }

    /// For who goes through the frames one by one: reads the leaves in a group of frames further on, side by side, so that
    /// they are in the processor's cache by then.
    #[inline]
    pub fn look_ahead(&self, frame: usize, tree: &Tree) {
        if rare(frame.is_multiple_of(GROUP)) {
            self.touch_group(frame + GROUP, tree);
        }
    }

    fn touch_group(&self, first: usize, tree: &Tree) {
        let Some(frames) = self.frames.get(first..) else { return };
        let leaves = frames.iter().take(GROUP);
        let touched = leaves.fold(0, |touched, &leaf| touched ^ tree.touch_state(leaf));
        std::hint::black_box(touched); // or the compiler would leave out what nobody uses
    }

    /// Moves the clock's hand to the next page that may go: not in use, and not touched since the hand last passed it. Looks
    /// at `most` frames at most.
    #[inline(always)] // so that no victim is stored in parts and then read as a whole, for which a processor waits
    pub fn sweep(&mut self, tree: &mut Tree, most: u32) -> Option<Victim> {
        for _ in 0..most {
            let frame = self.hand;
            self.look_ahead(frame, tree);
            self.hand = if frame + 1 == self.frames.len() { 0 } else { frame + 1 };
            let leaf = self.frames[frame];
            if leaf == NO_LEAF {
                continue;
            }
            let State { flags, waiters, .. } = &mut tree.states[leaf as usize];
            if *flags & flag::BUSY != 0 || *waiters > 0 {
                continue;
            }
            if *flags & flag::REFERENCED != 0 {
                *flags &= !flag::REFERENCED;
                continue;
            }
            return Some(Victim {
                frame: narrow(frame),
                leaf,
                dirty: *flags & flag::DIRTY != 0,
            });
        }
        None
    }

    /// Says what is wrong with the frames, if anything is.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn check(&self, tree: &Tree) -> Result<(), String> {
        let held = self.frames.iter().filter(|&&leaf| leaf != NO_LEAF).count();
        let sum = narrow(held) + self.free() + self.kept + self.promised;
        if sum != self.len() {
            return Err(format!(
                "{held} frames hold leaves, {} are free, {} kept, {} promised, of {}",
                self.free(),
                self.kept,
                self.promised,
                self.len()
            ));
        }
        let mut seen = vec![false; tree.states.len()];
        for &leaf in self.frames.iter().filter(|&&leaf| leaf != NO_LEAF) {
            if std::mem::replace(&mut seen[leaf as usize], true) {
                return Err(format!("leaf {leaf} is in two frames"));
            }
        }
        for (number, (leaf, seen)) in tree
            .states
            .iter()
            .zip(&seen)
            .enumerate()
            .filter(|(_, (leaf, _))| leaf.is_leaf())
        {
            let there = leaf.flags & (flag::ABSENT | flag::READING) == 0;
            if there != *seen && leaf.flags & flag::READING == 0 {
                return Err(format!(
                    "leaf {number} has flags {:#b}, and in a frame: {seen}",
                    leaf.flags
                ));
            }
        }
        Ok(())
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("frames are numbered in 32 bits")
}
