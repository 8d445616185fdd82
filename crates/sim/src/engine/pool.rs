//! The buffer pool: its frames, the leaves that wait for a frame, and the clock that picks the next page to evict.

use std::collections::VecDeque;

use super::leaf::{Leaf, flag};
use super::tree::Tree;
use crate::hint::{FRAMES as GROUP, put, rare, touch};
use crate::kernel::ProcessId;

/// The frames of the pool. At any time, each frame is free, holds a leaf, is kept, or is promised.
#[derive(Debug)]
pub struct Pool {
    /// The leaf in each frame, or [`Leaf::NONE`].
    frames: Vec<Leaf>,
    free: Vec<u32>,
    hand: usize,
    /// Frames of index pages above the leaves, which are never evicted.
    kept: u32,
    /// The number of frames that were taken for a read in progress.
    promised: u32,
    /// Leaves that wait for a frame, the longest waiting first.
    waiting: VecDeque<Wanted>,
    /// The number of writes in progress that will each free a frame for a waiting leaf.
    evictions: usize,
}

/// A leaf that needs a frame, because it will be read or because it is new.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The leaf.
    pub leaf: Leaf,
    /// The scheduler of the worker that asked for it.
    pub home: u32,
    /// The worker that waits for it.
    pub worker: ProcessId,
}

/// A page that the clock has picked for eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its frame.
    pub frame: u32,
    /// The leaf on the page.
    pub leaf: Leaf,
    /// Whether it must be written before it can be evicted.
    pub dirty: bool,
}

impl Pool {
    /// Makes a pool of `frames` free frames.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            frames: vec![Leaf::NONE; frames as usize],
            free: (0..frames).rev().collect(),
            hand: 0,
            kept: 0,
            promised: 0,
            waiting: VecDeque::new(),
            evictions: 0,
        }
    }

    /// The number of frames.
    #[must_use]
    pub fn len(&self) -> u32 {
        narrow(self.frames.len())
    }

    /// The number of free frames.
    #[must_use]
    pub fn free(&self) -> u32 {
        narrow(self.free.len())
    }

    /// Takes a free frame. [`Pool::fill`] must then put a leaf into it.
    pub fn take_free(&mut self) -> Option<u32> {
        let frame = self.free.pop()?;
        self.promised += 1;
        Some(frame)
    }

    /// Puts a leaf into a frame that was taken.
    pub fn fill(&mut self, frame: u32, leaf: Leaf) {
        self.promised -= 1;
        self.frames[frame as usize] = leaf;
    }

    /// Keeps a frame, if one is free, for a page that is never evicted. Returns whether it did.
    pub fn keep(&mut self) -> bool {
        let got = self.free.pop().is_some();
        self.kept += u32::from(got);
        got
    }

    /// Evicts a victim if it is clean and unused. Returns whether it did, so that its frame is free now.
    pub fn let_go(&mut self, victim: Victim, tree: &mut Tree) -> bool {
        debug_assert_eq!(self.leaf_in(victim.frame), victim.leaf);
        let goes = tree.state_mut(victim.leaf).let_go();
        if goes {
            self.frames[victim.frame as usize] = Leaf::NONE;
            put(&mut self.free, victim.frame);
        }
        goes
    }

    /// Returns the leaf in a frame, or [`Leaf::NONE`].
    #[must_use]
    pub fn leaf_in(&self, frame: u32) -> Leaf {
        self.frames[frame as usize]
    }

    /// Adds a leaf to the end of the queue for frames.
    pub fn wait(&mut self, wanted: Wanted) {
        self.waiting.push_back(wanted);
    }

    /// The number of leaves that wait for a frame.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the leaf that has waited longest and a free frame, if there are both.
    pub fn serve(&mut self) -> Option<(Wanted, u32)> {
        if self.waiting.is_empty() {
            return None;
        }
        let frame = self.take_free()?;
        Some((self.waiting.pop_front()?, frame))
    }

    /// Whether fewer evictions are in progress than leaves wait.
    #[must_use]
    pub fn wants_eviction(&self) -> bool {
        self.evictions < self.waiting.len()
    }

    /// Records that a write has begun that will free a frame.
    pub fn begin_eviction(&mut self) {
        self.evictions += 1;
    }

    /// Records that such a write is done.
    pub fn end_eviction(&mut self) {
        self.evictions -= 1;
    }

    /// Records that all writes in progress are done, and that no leaf waits for their frames.
    pub(super) fn end_evictions(&mut self) {
        self.evictions = 0;
    }

    /// Reads the states of the leaves in a later group of frames, in parallel. A loop over the frames calls this, so
    /// that the states are in the processor's cache in time.
    #[inline]
    pub fn look_ahead(&self, frame: usize, tree: &Tree) {
        if rare(frame.is_multiple_of(GROUP)) {
            self.touch_group(frame + GROUP, tree);
        }
    }

    fn touch_group(&self, first: usize, tree: &Tree) {
        let Some(frames) = self.frames.get(first..) else { return };
        touch(frames.iter().take(GROUP).map(|&leaf| tree.touch_state(leaf)));
    }

    /// Moves the clock's hand to the next page that may be evicted: it is not in use, and was not used since the hand
    /// last passed it. Examines at most `most` frames.
    #[inline(always)] // because the processor would stall if it stored a victim in parts and read it as a whole
    pub fn sweep(&mut self, tree: &mut Tree, most: u32) -> Option<Victim> {
        for _ in 0..most {
            let frame = self.hand;
            self.look_ahead(frame, tree);
            self.hand = if frame + 1 == self.frames.len() { 0 } else { frame + 1 };
            let leaf = self.frames[frame];
            if leaf != Leaf::NONE && tree.state_mut(leaf).pass() {
                return Some(Victim {
                    frame: narrow(frame),
                    leaf,
                    dirty: tree.state(leaf).is(flag::DIRTY),
                });
            }
        }
        None
    }

    /// Checks the frames against the leaves.
    ///
    /// # Errors
    /// Returns the first rule that is broken.
    pub fn check(&self, tree: &Tree) -> Result<(), String> {
        let held = self.frames.iter().filter(|&&leaf| leaf != Leaf::NONE);
        let count = narrow(held.clone().count());
        let sum = count + self.free() + self.kept + self.promised;
        if sum != self.len() {
            return Err(format!(
                "{count} frames hold leaves, {} are free, {} kept, {} promised, of {}",
                self.free(),
                self.kept,
                self.promised,
                self.len()
            ));
        }
        let mut seen = vec![false; tree.numbers()];
        for &leaf in held {
            if std::mem::replace(&mut seen[leaf.index()], true) {
                return Err(format!("leaf {leaf} is in two frames"));
            }
        }
        for (leaf, state) in tree.states().filter(|(_, state)| !state.is(flag::READING)) {
            let is_there = seen[leaf.index()];
            if is_there == state.is(flag::ABSENT) {
                return Err(format!("leaf {leaf} has {state}, and in a frame: {is_there}"));
            }
        }
        Ok(())
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("frames are numbered in 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_clock_spares_what_was_used_since_it_passed_and_frames_go_to_who_waited_longest() {
        let leaves = [0, 1, 2].map(Leaf::new);
        let mut tree = Tree::new(leaves[0], 3, Rng::stream(1, "splits"));
        tree.insert_row(leaves[0]);
        tree.append(leaves[1]);
        tree.append(leaves[2]);
        let mut pool = Pool::new(3);
        for leaf in leaves {
            let frame = pool.take_free().expect("three are free");
            pool.fill(frame, leaf);
        }
        assert_eq!(pool.sweep(&mut tree, 3), None, "all were used");
        tree.state_mut(leaves[1]).refer();
        let victims = [0, 2].map(|frame| Victim {
            frame,
            leaf: leaves[frame as usize],
            dirty: true,
        });
        assert_eq!([pool.sweep(&mut tree, 3), pool.sweep(&mut tree, 3)], victims.map(Some));
        for (worker, leaf) in (7..).zip([8, 9].map(Leaf::new)) {
            let worker = ProcessId(worker);
            pool.wait(Wanted { leaf, home: 0, worker });
        }
        assert!(
            pool.serve().is_none() && !pool.let_go(victims[1], &mut tree),
            "it is dirty"
        );
        assert!(tree.begin_write(leaves[2]) && !tree.state_mut(leaves[2]).end_write());
        assert!(pool.let_go(victims[1], &mut tree));
        let (served, frame) = pool.serve().expect("a frame is free");
        assert_eq!((served.leaf, frame, pool.waiting()), (Leaf::new(8), 2, 1));
        assert_eq!(pool.check(&tree), Ok(()));
    }
}
