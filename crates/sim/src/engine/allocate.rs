//! Allocates the next page of the table: picks the file, and latches the file's allocation pages.
//!
//! A worker first looks for a free page while it holds the PFS page's latch in SH. Then it marks the page, with the
//! latch in UP. If there is no free page, it takes an extent under the GAM page's latch (*What is allocation
//! bottleneck?*, SQL Server Storage Engine blog, 2009). SH is compatible with UP, so no worker waits for one that only
//! looks. In SQL Server, a worker that wants to look while others queue waits only until the next release, because a
//! release grants the latch to all compatible requests in the queue (C. Bolton and others, *Professional SQL Server
//! 2012 Internals and Troubleshooting*, chapter 7). So its waits for `PAGELATCH_SH` are short. Here latches are granted
//! strictly in order, so a look waits for a separate event. Each release sets that event.

use std::cell::{Cell, RefCell};

use super::files::Files;
use super::geometry::DbPage;
use super::look_ahead::Words;
use super::resource::{Page, label_of_pfs};
use crate::rng::Spread;
use crate::scenario::{PfsLatch, PickFile, Server};
use crate::sqlos::{Event, Hold, Latch, LatchClass, Mode, Sqlos, WaitType};

/// Allocates pages of the data files.
#[derive(Debug)]
pub(super) struct Allocator<'w> {
    os: &'w Sqlos,
    /// The latch mode in which a worker marks a page in a PFS page.
    mode: Mode,
    looks: bool,
    pick_file: PickFile,
    pick_tries: u32,
    pfs_hold: Spread,
    gam_hold: Spread,
    /// The file that was picked last.
    last_file: Cell<u32>,
    /// For each file, the event that a release of its PFS page sets.
    pfs_released: Vec<Event<'w>>,
}

impl<'w> Allocator<'w> {
    /// Makes an allocator for this many files.
    pub(super) fn new(os: &'w Sqlos, server: &Server, files: u32) -> Self {
        let (costs, switches) = (&server.costs, &server.switches);
        let spread = |mean_ns: u64| Spread::new(mean_ns, costs.cpu_jitter_per_mille.value);
        Self {
            os,
            mode: match switches.pfs_latch {
                PfsLatch::Update => Mode::Up,
                PfsLatch::Shared => Mode::Sh,
            },
            looks: switches.pfs_look,
            pick_file: switches.pick_file,
            pick_tries: switches.pick_tries,
            pfs_hold: spread(costs.pfs_hold_ns.value),
            gam_hold: spread(costs.gam_hold_ns.value),
            last_file: Cell::new(0),
            pfs_released: (0..files).map(|file| os.event(label_of_pfs(file))).collect(),
        }
    }

    fn pfs_latch(&self, files: &RefCell<Files>, file: u32) -> Latch<'w> {
        let index = files.borrow().pfs_in_use(file);
        self.os.latch(Page::Pfs { file, index }.key(), LatchClass::Page)
    }

    /// Looks for a free page of a file. Its latch is released afterwards, so another worker may take the page first.
    async fn look_for_page(&self, files: &RefCell<Files>, file: u32) {
        if let Some(look) = self.pfs_latch(files, file).try_acquire(Mode::Sh) {
            look.release();
            return;
        }
        let released = &self.pfs_released[file as usize];
        released.reset();
        released.wait(WaitType::PageLatchSh).await;
    }

    /// Releases a PFS page. The next worker in its queue gets the latch, and all workers that wait to look continue.
    fn release_pfs(&self, file: u32, pfs: Hold<'w>) {
        pfs.release();
        self.pfs_released[file as usize].set();
    }

    /// Allocates a page. The PFS page that covers it is latched to mark it, and the GAM page is latched to take an
    /// extent. `own_file` is the file that this worker picked last. If `kept` is a file, the page comes from it.
    /// Returns `None` if all files are full.
    pub(super) async fn allocate(
        &self,
        files: &RefCell<Files>,
        own_file: &mut u32,
        mut kept: Option<u32>,
        words: &mut Words,
    ) -> Option<DbPage> {
        loop {
            let file = kept.take().or_else(|| self.pick(files, own_file, words))?;
            if self.looks {
                self.look_for_page(files, file).await;
            }
            if files.borrow().needs_extent(file) {
                let taken = self.take_extent(files, file, words).await;
                if self.looks && !taken {
                    // Another worker has taken an extent meanwhile, so this one must look again.
                    continue;
                }
            }
            let pfs = self.pfs_latch(files, file).acquire(self.mode).await;
            self.os.cpu_unbroken(self.pfs_hold.of(words.next_u64() >> 32)).await;
            // While this worker waited, others may have used up the extent or filled the file.
            let ready = !files.borrow().needs_extent(file);
            let page = ready.then(|| files.borrow_mut().take_page(file));
            self.release_pfs(file, pfs);
            if page.is_some() {
                return page;
            }
        }
    }

    /// Takes an extent. Returns false if another worker did so while this one waited, or if no extent is left.
    async fn take_extent(&self, files: &RefCell<Files>, file: u32, words: &mut Words) -> bool {
        let index = files.borrow().next_gam(file);
        let gam = self.os.latch(Page::Gam { file, index }.key(), LatchClass::Page);
        let gam = gam.acquire(Mode::Up).await;
        self.os.cpu_unbroken(self.gam_hold.of(words.next_u64() >> 32)).await;
        let takes = files.borrow().needs_extent(file) && !files.borrow().is_full(file);
        if takes {
            files.borrow_mut().take_extent(file);
        }
        gam.release();
        takes
    }

    /// Picks a file. All files have the same size, so proportional fill uses them in turn. The switches say how
    /// strictly. Returns `None` if all are full.
    fn pick(&self, files: &RefCell<Files>, own_file: &mut u32, words: &mut Words) -> Option<u32> {
        let count = files.borrow().count();
        let mut tries = self.pick_tries;
        loop {
            let file = match self.pick_file {
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
            if files.borrow().is_full(file) {
                if files.borrow().are_full() {
                    return None;
                }
                continue;
            }
            if tries > 0 && count > 1 && self.pfs_latch(files, file).is_barred(self.mode) {
                tries -= 1;
                continue;
            }
            return Some(file);
        }
    }

    /// Returns the next file, in turn, that is not full. Only one worker at a time allocates at the right edge, so
    /// proportional fill uses equal files strictly in turn. Returns `None` if all files are full.
    pub(super) fn next_in_turn(&self, files: &Files) -> Option<u32> {
        let next = |file: u32| (file + 1) % files.count();
        let turns = std::iter::successors(Some(next(self.last_file.get())), |&file| Some(next(file)));
        let mut turns = turns.take(files.count() as usize);
        let found = turns.find(|&file| !files.is_full(file))?;
        self.last_file.set(found);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::layout;
    use super::super::geometry::Geometry;
    use super::*;
    use crate::sqlos::Config;
    use crate::tests::world::server;

    #[test]
    fn files_take_turns_and_a_full_one_is_left_out() {
        let os = Sqlos::new(Config::new(1));
        let server = server(&serde_json::json!({"cores": 1, "memory_bytes": 1 << 30}));
        let allocator = Allocator::new(&os, &serde_json::from_value(server).expect("a server"), 3);
        let mut files = Files::new(Geometry::new(1), &layout(3, 16));
        let turns = |files: &Files| [(); 4].map(|()| allocator.next_in_turn(files));
        assert_eq!(turns(&files), [1, 2, 0, 1].map(Some));
        for file in [2, 1, 0] {
            files.take_extent(file);
            while !files.is_full(file) {
                files.take_page(file);
            }
            let left: Vec<_> = turns(&files).into_iter().flatten().collect();
            assert!(
                left.iter().all(|&turn| turn < file) && left.is_empty() == (file == 0),
                "{left:?}"
            );
        }
    }
}
