//! Waits for a page that is in an I/O (`PAGEIOLATCH_*`) or in use (`PAGELATCH_*`).
//!
//! An I/O latches its page: a read exclusively, a write shared. A latch in the table of latches takes time, and during
//! nearly all I/Os no worker waits. So the I/O's latch is at first only implied by the flags [`flag::READING`] and
//! [`flag::WRITING`]:
//! - The worker that asked for the page *parks* ([`Engine::park_for`]). It waits without a latch, and the end of the
//!   I/O wakes it by its number. It is the first to wait, and usually the only one.
//! - A later worker *latches* ([`Engine::wait_for`]). The first of these takes a latch in the name of the I/O
//!   ([`flag::LATCHED`]). Then all of them queue for the latch, in order. The end of the I/O releases its latch.
//!
//! Both are waits of the type `PAGEIOLATCH_*`.

use super::Engine;
use super::leaf::{Leaf, flag};
use super::pool::Wanted;
use crate::hint::rare;
use crate::kernel::Ns;
use crate::sqlos::{LatchClass, Mode, Park};

impl<'w> Engine<'w> {
    /// Returns the CPU time of a read, including the driver's.
    pub(super) fn read_cpu_ns(&self, leaf: Leaf) -> Ns {
        let page = || self.files.borrow().page_of(leaf);
        self.costs.read_cpu_ns.value + self.ios.driver_cpu_ns(page)
    }

    /// Starts to read a leaf, for which the running worker must then park. Returns false if another worker did so.
    #[inline(always)]
    pub(super) fn begin_fetch(&self, leaf: Leaf) -> bool {
        {
            let mut tree = self.tree.borrow_mut();
            let state = tree.state_mut(leaf);
            if rare(!state.is(flag::ABSENT)) {
                return false;
            }
            state.begin_wait();
        }
        self.start_read(leaf);
        true
    }

    /// Waits for a page whose read or frame this worker has requested.
    pub(super) fn park_for(&self, leaf: Leaf, mode: Mode) -> Park<'w> {
        let resource = self.leaf_latch(leaf, LatchClass::PageIo).resource();
        self.os.park(LatchClass::PageIo.wait_type(mode), resource)
    }

    /// Waits until the leaf can be used in `mode`.
    pub(super) async fn wait_for(&self, leaf: Leaf, mode: Mode) {
        let (in_io, io_mode) = self.tree.borrow_mut().state_mut(leaf).begin_latched_wait(mode);
        let latch = self.leaf_latch(leaf, if in_io { LatchClass::PageIo } else { LatchClass::Page });
        if let Some(io_mode) = io_mode {
            let _io = latch
                .try_acquire(io_mode)
                .expect("nobody is at a page that is in I/O")
                .hand_over();
        }
        latch.acquire(mode).await.release();
        self.tree.borrow_mut().state_mut(leaf).end_wait();
    }

    /// Records that a leaf is in its frame. The worker that parked for it continues, then the workers with latches.
    pub(super) fn arrived(&self, wanted: Wanted) {
        let Wanted { leaf, worker, .. } = wanted;
        let was_latched = self.tree.borrow_mut().state_mut(leaf).arrive();
        // A new page may get its frame before its worker parks.
        if worker != self.os.kernel().current() {
            self.os.unpark(worker);
        }
        if rare(was_latched) {
            self.leaf_latch(leaf, LatchClass::PageIo).release(Mode::Ex);
        }
    }

    /// Records that a leaf is written. The workers that wait to change it continue.
    #[inline(always)]
    pub(super) fn written(&self, leaf: Leaf) {
        let was_latched = self.tree.borrow_mut().state_mut(leaf).end_write();
        if rare(was_latched) {
            self.leaf_latch(leaf, LatchClass::PageIo).release(Mode::Sh);
        }
    }
}
