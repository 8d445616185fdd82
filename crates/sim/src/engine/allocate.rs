//! The next page of the table: which file, and the latches of its allocation pages.
//!
//! A worker looks for a free page first, with the PFS page latched in SH, and then marks it, with the latch in UP; if there is
//! none it takes an extent, under the GAM page's latch (*What is allocation bottleneck?*, SQL Server Storage Engine blog, 2009).
//! SH goes with UP, so nobody waits for those who look. They themselves, asking while others queue, wait for the next release
//! of the page and no longer: whenever a latch is let go, all in its queue who go together get it (C. Bolton and others,
//! *Professional SQL Server 2012 Internals and Troubleshooting*, chapter 7). So looks are short waits for `PAGELATCH_SH` beside
//! the convoy. With latches strictly in the order of asking they need an event of their own, which each release sets.

use super::look_ahead::Words;
use super::{Engine, Failure, KEY_GAM, KEY_PFS, KEY_SHIFT};
use crate::scenario::{PfsLatch, PickFile};
use crate::sqlos::{Hold, Latch, LatchClass, Mode, WaitType};

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

    /// Looks for a free page of a file. Nothing is held afterwards, so others may take it before it is marked.
    async fn look_for_page(&self, file: u32) {
        if let Some(look) = self.pfs_latch(file).try_acquire(Mode::Sh) {
            look.release();
            return;
        }
        let released = &self.pfs_released[file as usize];
        released.reset();
        released.wait(WaitType::PageLatchSh).await;
    }

    /// Lets a PFS page of a file go: to the next in its queue, and to all who wait to look at it.
    fn release_pfs(&self, file: u32, pfs: Hold<'w>) {
        pfs.release();
        self.pfs_released[file as usize].set();
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
            if self.switches.pfs_look {
                self.look_for_page(file).await;
            }
            if self.files.borrow().needs_extent(file) {
                let taken = self.take_extent(file, words).await;
                if self.switches.pfs_look && !taken {
                    // Somebody else has taken one meanwhile: it must look again.
                    continue;
                }
            }
            let pfs = self.pfs_latch(file).acquire(mode).await;
            let hold_ns = self.stray(self.costs.pfs_hold_ns.value, words);
            self.os.cpu_unbroken(hold_ns).await;
            // While this worker waited, others may have used up the extent or filled the file.
            let ready = !self.files.borrow().needs_extent(file);
            let page = ready.then(|| self.files.borrow_mut().take_page(file));
            self.release_pfs(file, pfs);
            if let Some(page) = page {
                return page;
            }
        }
    }

    /// Takes an extent, unless others have done so while it waited for the GAM page, or there is none left.
    async fn take_extent(&self, file: u32, words: &mut Words) -> bool {
        let gam = self.gam_latch(file).acquire(Mode::Up).await;
        let hold_ns = self.stray(self.costs.gam_hold_ns.value, words);
        self.os.cpu_unbroken(hold_ns).await;
        let takes = self.files.borrow().needs_extent(file) && !self.files.borrow().is_full(file);
        if takes {
            self.files.borrow_mut().take_extent(file);
        }
        gam.release();
        takes
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
