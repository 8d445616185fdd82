//! The next page of the table: which file, and the latches of its allocation pages.

use super::look_ahead::Words;
use super::{Engine, Failure, KEY_GAM, KEY_PFS, KEY_SHIFT};
use crate::scenario::{PfsLatch, PickFile};
use crate::sqlos::{Latch, LatchClass, Mode, WaitType};

impl<'w> Engine<'w> {
    fn pfs_latch(&self, file: u32) -> Latch<'w> {
        let index = self.files.borrow().pfs_in_use(file);
        let key = KEY_PFS << KEY_SHIFT | u64::from(file) << 32 | u64::from(index);
        self.os.latch(key, LatchClass::Page)
    }

    fn gam_latch(&self, file: u32) -> Latch<'w> {
        let index = self.files.borrow().next_gam(file);
        let key = KEY_GAM << KEY_SHIFT | u64::from(file) << 32 | u64::from(index);
        self.os.latch(key, LatchClass::Page)
    }

    /// Allocates a page: the PFS page that covers it is latched while it is marked, the GAM page while an extent is taken.
    /// `own_file` is the file that this worker picked last, `kept` one that it needn't pick.
    pub(super) async fn allocate(&self, own_file: &mut u32, mut kept: Option<u32>, words: &mut Words) -> u32 {
        let mode = match self.switches.pfs_latch {
            PfsLatch::Update => Mode::Up,
            PfsLatch::Shared => Mode::Sh,
        };
        loop {
            let Some(file) = kept.take().or_else(|| self.pick_file(own_file, mode, words)) else {
                self.fail(Failure::FilesFull);
                // Nobody lets the files grow: the run has ended.
                self.os.event(0).wait(WaitType::AsyncIoCompletion).await;
                continue;
            };
            if self.files.borrow().needs_extent(file) {
                self.take_extent(file, words).await;
            }
            let pfs = self.pfs_latch(file).acquire(mode).await;
            let hold_ns = self.stray(self.costs.pfs_hold_ns.value, words);
            self.os.cpu_unbroken(hold_ns).await;
            // While this worker waited, others may have used up the extent or filled the file.
            let ready = !self.files.borrow().needs_extent(file);
            if ready {
                let page = self.files.borrow_mut().take_page(file);
                pfs.release();
                return page;
            }
            pfs.release();
        }
    }

    async fn take_extent(&self, file: u32, words: &mut Words) {
        let gam = self.gam_latch(file).acquire(Mode::Up).await;
        let hold_ns = self.stray(self.costs.gam_hold_ns.value, words);
        self.os.cpu_unbroken(hold_ns).await;
        if self.files.borrow().needs_extent(file) && !self.files.borrow().is_full(file) {
            self.files.borrow_mut().take_extent(file);
        }
        gam.release();
    }

    /// Files have one size, so by proportional fill they take turns. How strictly is a matter of the switches. Nothing if all
    /// are full.
    fn pick_file(&self, own_file: &mut u32, mode: Mode, words: &mut Words) -> Option<u32> {
        let count = self.files.borrow().count();
        let mut tries = self.switches.pick_tries;
        loop {
            let file = match self.switches.pick_file {
                PickFile::RoundRobin => {
                    let next = (self.last_file.get() + 1) % count;
                    self.last_file.set(next);
                    next
                }
                PickFile::RoundRobinPerWorker => {
                    *own_file = (*own_file + 1) % count;
                    *own_file
                }
                PickFile::Random => u32::try_from(words.below(u64::from(count))).unwrap_or(0),
            };
            if self.files.borrow().is_full(file) {
                if self.files.borrow().are_full() {
                    return None;
                }
                continue;
            }
            if tries > 0 && count > 1 && self.pfs_latch(file).is_barred(mode) {
                tries -= 1;
                continue;
            }
            return Some(file);
        }
    }
}
