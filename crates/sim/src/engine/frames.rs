//! Frames for leaves that are read or new: which leaf waits for a frame, and which leaf is evicted for it.

use super::Engine;
use super::ios::Why;
use super::leaf::{Leaf, flag};
use super::pool::{Victim, Wanted};
use crate::hint::rare;
use crate::sqlos::Mode;

/// The most frames that are examined to find one victim, as a multiple of the pool's size.
const ROUNDS: u32 = 2;

impl Engine<'_> {
    fn wanted(&self, leaf: Leaf) -> Wanted {
        Wanted {
            leaf,
            home: self.home(),
            worker: self.os.kernel().current(),
        }
    }

    /// Starts to read a leaf. The running worker must then park for it.
    pub(super) fn start_read(&self, leaf: Leaf) {
        let wanted = self.wanted(leaf);
        self.tree.borrow_mut().state_mut(leaf).begin_read();
        let frame = {
            let mut pool = self.pool.borrow_mut();
            if pool.waiting() == 0 { pool.take_free() } else { None }
        };
        if let Some(frame) = frame {
            self.submit_read(wanted, frame);
        } else {
            self.pool.borrow_mut().wait(wanted);
            self.serve_frames(wanted.home);
        }
        self.wake_lazy_writer();
    }

    /// Gives free frames to leaves that wait for one, and makes room for the others.
    #[inline]
    pub(super) fn serve_frames(&self, home: u32) {
        if rare(self.pool.borrow().waiting() > 0) {
            self.serve_waiting(home);
        }
    }

    fn serve_waiting(&self, home: u32) {
        while self.pool.borrow().waiting() > 0 {
            let served = self.pool.borrow_mut().serve();
            match served {
                Some((wanted, frame)) => self.use_frame(wanted, frame),
                None if self.make_room(home) => {}
                None => return,
            }
        }
    }

    /// Gives a frame to a leaf that waited for one, for a read or for a new page.
    fn use_frame(&self, wanted: Wanted, frame: u32) {
        let is_new = self.tree.borrow().state(wanted.leaf).is(flag::NEW);
        if is_new {
            self.fill_frame(wanted, frame);
        } else {
            self.submit_read(wanted, frame);
        }
    }

    /// Waits for a frame for a new leaf.
    pub(super) async fn wait_for_frame(&self, leaf: Leaf) {
        self.tree.borrow_mut().state_mut(leaf).begin_frame();
        let wanted = self.wanted(leaf);
        self.pool.borrow_mut().wait(wanted);
        self.serve_frames(wanted.home);
        let waits = self.tree.borrow().state(leaf).is(flag::NEW);
        if waits {
            self.park_for(leaf, Mode::Ex).await;
        }
        self.tree.borrow_mut().state_mut(leaf).end_wait();
    }

    /// Frees a frame or starts to, if fewer evictions are in progress than leaves wait. Returns whether one is free.
    fn make_room(&self, home: u32) -> bool {
        while self.pool.borrow().wants_eviction() {
            let victim = {
                let mut pool = self.pool.borrow_mut();
                let most = pool.len() * ROUNDS;
                pool.sweep(&mut self.tree.borrow_mut(), most)
            };
            let Some(victim) = victim else { return false };
            if self.let_go(victim) {
                self.counters.evicted_clean.add(1);
                return true;
            }
            if victim.dirty && self.start_write(victim.leaf, Why::Evict(victim), home) > 0 {
                self.pool.borrow_mut().begin_eviction();
            }
            if self.failure().is_some() {
                return false;
            }
        }
        false
    }

    /// Evicts a page if it is clean and unused.
    #[inline(always)]
    fn let_go(&self, victim: Victim) -> bool {
        self.pool.borrow_mut().let_go(victim, &mut self.tree.borrow_mut())
    }

    /// Records that a leaf is in its frame now, so the worker that waited for it continues.
    pub(super) fn fill_frame(&self, wanted: Wanted, frame: u32) {
        self.pool.borrow_mut().fill(frame, wanted.leaf);
        self.arrived(wanted);
    }

    /// Evicts a victim after its write, unless a worker used it during the write.
    pub(super) fn free_or_rescue(&self, victim: Victim) {
        let is_there = self.pool.borrow().leaf_in(victim.frame) == victim.leaf;
        if !is_there || !self.let_go(victim) {
            self.counters.rescued.add(1);
        }
    }
}
