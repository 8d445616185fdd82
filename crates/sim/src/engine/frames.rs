//! Frames for leaves that are to be read or are new: who waits for one, and who has to go for it.

use super::Engine;
use super::add;
use super::io::Why;
use super::pool::Victim;
use super::tree::{State, flag};
use crate::hint::rare;
use crate::kernel::ProcessId;
use crate::sqlos::{LatchClass, Mode, Park};

/// A leaf that wants a frame, as it is to be read or is new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) leaf: u32,
    /// The scheduler that asked for it.
    pub(super) home: u32,
    /// The worker that waits for it.
    worker: ProcessId,
}

/// How many frames the clock's hand passes at most in search of one victim: twice around.
const ROUNDS: u32 = 2;

impl<'w> Engine<'w> {
    fn wanted(&self, leaf: u32) -> Wanted {
        Wanted {
            leaf,
            home: self.home(),
            worker: self.os.kernel().current(),
        }
    }

    /// Starts to read a leaf, for which the running worker parks next.
    pub(super) fn start_read(&self, leaf: u32) {
        let wanted = self.wanted(leaf);
        {
            let flags = &mut self.tree.borrow_mut().states[leaf as usize].flags;
            debug_assert_eq!(*flags & flag::BUSY, flag::ABSENT, "only an absent leaf is read");
            *flags = flag::READING | flag::REFERENCED;
        }
        let nobody_waits = self.waiting_for_frames.borrow().is_empty();
        let frame = nobody_waits.then(|| self.pool.borrow_mut().take_free()).flatten();
        if let Some(frame) = frame {
            self.submit_read(wanted, frame);
        } else {
            self.waiting_for_frames.borrow_mut().push_back(wanted);
            self.serve_frames(wanted.home);
        }
        self.wake_lazy_writer();
    }

    /// Gives free frames to reads that wait for one, and makes room for the others.
    #[inline]
    pub(super) fn serve_frames(&self, home: u32) {
        if rare(!self.waiting_for_frames.borrow().is_empty()) {
            self.serve_waiting(home);
        }
    }

    fn serve_waiting(&self, home: u32) {
        while !self.waiting_for_frames.borrow().is_empty() {
            let frame = self.pool.borrow_mut().take_free();
            let Some(frame) = frame else {
                if !self.make_room(home) {
                    return;
                }
                continue;
            };
            let next = self.waiting_for_frames.borrow_mut().pop_front();
            if let Some(wanted) = next {
                self.use_frame(wanted, frame);
            }
        }
    }

    /// A frame for a leaf that waited for one: to be read into, or for a new page.
    fn use_frame(&self, wanted: Wanted, frame: u32) {
        let is_new = self.tree.borrow().states[wanted.leaf as usize].flags & flag::NEW != 0;
        if is_new {
            self.fill_frame(wanted, frame, flag::DIRTY | flag::REFERENCED);
        } else {
            self.submit_read(wanted, frame);
        }
    }

    /// Waits for a frame for a new leaf.
    pub(super) async fn wait_for_frame(&self, leaf: u32) {
        {
            let leaf = &mut self.tree.borrow_mut().states[leaf as usize];
            leaf.flags |= flag::READING | flag::NEW;
            leaf.waiters += 1;
        }
        let wanted = self.wanted(leaf);
        self.waiting_for_frames.borrow_mut().push_back(wanted);
        self.serve_frames(wanted.home);
        let waits = self.tree.borrow().states[leaf as usize].flags & flag::NEW != 0;
        if waits {
            self.park_for(leaf, Mode::Ex).await;
        }
        self.tree.borrow_mut().states[leaf as usize].waiters -= 1;
    }

    /// Waits for a page that this worker has asked for. It is the first to wait, and mostly the only one: no latch need say so.
    pub(super) fn park_for(&self, leaf: u32, mode: Mode) -> Park<'w> {
        let resource = self.leaf_latch(leaf, LatchClass::PageIo).resource();
        self.os.park(LatchClass::PageIo.wait_type(mode), resource)
    }

    /// Frees a frame, or starts to, if there are fewer evictions on their way than reads that wait. True if one is free now.
    fn make_room(&self, home: u32) -> bool {
        while (self.evictions.get() as usize) < self.waiting_for_frames.borrow().len() {
            let victim = {
                let mut pool = self.pool.borrow_mut();
                let most = pool.len() * ROUNDS;
                pool.sweep(&mut self.tree.borrow_mut(), most)
            };
            let Some(victim) = victim else { return false };
            if self.let_go(victim) {
                add(&self.counters.evicted_clean, 1);
                return true;
            }
            if victim.dirty && self.start_write(victim.leaf, Why::Evict(victim), home) > 0 {
                self.evictions.set(self.evictions.get() + 1);
            }
            if self.failure().is_some() {
                return false;
            }
        }
        false
    }

    /// Lets a page go if it is clean and nobody wants it.
    #[inline(always)]
    pub(super) fn let_go(&self, victim: Victim) -> bool {
        let mut tree = self.tree.borrow_mut();
        let State { flags, waiters, .. } = tree.states[victim.leaf as usize];
        let wanted = waiters > 0 || flags & (flag::DIRTY | flag::REFERENCED | flag::BUSY) != 0;
        if !wanted {
            self.pool.borrow_mut().evict(victim, &mut tree);
        }
        !wanted
    }

    /// A leaf is in its frame now, and like this; who waited for it goes on.
    pub(super) fn fill_frame(&self, wanted: Wanted, frame: u32, flags: u8) {
        let Wanted { leaf, worker, .. } = wanted;
        self.pool.borrow_mut().fill(frame, leaf);
        let before = std::mem::replace(&mut self.tree.borrow_mut().states[leaf as usize].flags, flags);
        // A new page may get its frame while its worker is still asking.
        if worker != self.os.kernel().current() {
            self.os.unpark(worker);
        }
        if rare(before & flag::LATCHED != 0) {
            self.leaf_latch(leaf, LatchClass::PageIo).release(Mode::Ex);
        }
    }

    /// The victim is clean now: it goes, unless somebody wanted it while it was being written.
    pub(super) fn free_or_rescue(&self, victim: Victim) {
        let there = self.pool.borrow().leaf_in(victim.frame) == victim.leaf;
        if !there || !self.let_go(victim) {
            add(&self.counters.rescued, 1);
        }
    }
}
