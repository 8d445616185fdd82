//! Reads and writes of pages: how they start, and what happens when they are done.
//!
//! A read latches its page exclusively, and a write latches its page shared. A worker that wants to change the page
//! waits in `PAGEIOLATCH_EX`. A read needs a free frame. If there is none, a victim must be evicted first, and a dirty
//! victim must be written before that. All of this is part of the worker's wait for the page.

use super::ios::{Io, Why};
use super::leaf::Leaf;
use super::pool::Wanted;
use super::{Engine, Failure};
use crate::engine::log::LogWrite;
use crate::hint::{NEIGHBOUR, touch};
use crate::kernel::Ns;
use crate::volume::{self, Kind};

impl Engine<'_> {
    /// Returns the scheduler that will notice the end of an I/O that starts now.
    pub(super) fn home(&self) -> u32 {
        self.os.current_scheduler().unwrap_or(0)
    }

    /// Returns whether the I/O succeeded. If it did not, the run fails.
    #[inline]
    fn is_well(&self, result: Result<(), volume::Failure>) -> bool {
        result.map_err(|failure| self.fail(Failure::Volume(failure))).is_ok()
    }

    /// Makes a volume process an event that is due.
    pub(super) fn volume_due(&self, number: u32) {
        self.is_well(self.ios.volume_due(number));
    }

    /// Finishes an I/O whose end a scheduler has noticed. The workers that waited for it continue.
    pub(super) fn io_noticed(&self, slot: u32) {
        let (io, took_ns) = self.ios.take(slot);
        match io {
            Io::Read { wanted, frame } => {
                self.counters.read_ns.add(took_ns);
                self.fill_frame(wanted, frame);
                self.serve_frames(wanted.home);
            }
            Io::Write {
                first_leaf,
                pages,
                why,
                home,
            } => self.write_done(first_leaf, pages, why, took_ns, home),
            Io::Log { up_to } => {
                self.log.written(up_to);
                self.write_log();
            }
        }
    }

    /// Reads a leaf into a frame.
    #[inline(always)]
    pub(super) fn submit_read(&self, wanted: Wanted, frame: u32) {
        self.end_memory_phase();
        let page = self.files.borrow().page_of(wanted.leaf);
        let io = Io::Read { wanted, frame };
        if self.is_well(self.ios.submit_pages(io, Kind::Read, page, 1)) {
            self.counters.reads.add(1);
        }
    }

    /// Writes a dirty leaf together with its dirty neighbours on disk. Returns the number of pages, or 0 if the leaf is
    /// in use.
    pub(super) fn start_write(&self, leaf: Leaf, why: Why, home: u32) -> u32 {
        let Some((first_leaf, pages)) = self.gather(leaf) else {
            return 0;
        };
        let first = self.files.borrow().page_of(first_leaf);
        let io = Io::Write {
            first_leaf,
            pages,
            why,
            home,
        };
        if !self.is_well(self.ios.submit_pages(io, Kind::Write, first, pages)) {
            return pages;
        }
        self.counters.writes.add(1);
        self.counters.written_pages.add(u64::from(pages));
        match why {
            Why::Checkpoint => self.counters.checkpoint_pages.add(u64::from(pages)),
            Why::Lazy(_) => self.counters.lazy_pages.add(u64::from(pages)),
            Why::Evict(_) => self.counters.evicted_dirty.add(1),
        }
        pages
    }

    /// Begins to write a dirty page and the dirty pages on both sides of it. Returns the leaf of the first page and the
    /// number of pages, or `None` if the page is in use.
    fn gather(&self, seed: Leaf) -> Option<(Leaf, u32)> {
        let most = u32::try_from(self.costs.gather_pages.value).unwrap_or(u32::MAX);
        let (files, mut tree) = (self.files.borrow(), self.tree.borrow_mut());
        // The states of the neighbouring pages' leaves are near this one in memory, so all are fetched together.
        let beside = [
            seed.number().wrapping_sub(NEIGHBOUR),
            seed.number().wrapping_add(NEIGHBOUR),
        ];
        touch(beside.into_iter().map(|leaf| tree.touch_state(Leaf::new(leaf))));
        let mut take = |leaf: Leaf| tree.begin_write(leaf).then_some(leaf);
        let mut last = take(seed)?;
        let mut first = last;
        let mut pages = 1;
        while pages < most
            && let Some(leaf) = files.after(last).and_then(&mut take)
        {
            last = leaf;
            pages += 1;
        }
        while pages < most
            && let Some(leaf) = files.before(first).and_then(&mut take)
        {
            first = leaf;
            pages += 1;
        }
        Some((first, pages))
    }

    fn write_done(&self, first_leaf: Leaf, pages: u32, why: Why, took_ns: Ns, home: u32) {
        self.counters.write_ns.add(took_ns);
        let mut next = Some(first_leaf);
        for _ in 0..pages {
            let leaf = next.expect("pages that were written together lie side by side");
            next = self.files.borrow().after(leaf);
            self.written(leaf);
        }
        match why {
            Why::Checkpoint => self.checkpoint.written(took_ns),
            Why::Lazy(victim) => {
                self.lazy.written();
                self.free_or_rescue(victim);
            }
            Why::Evict(victim) => {
                self.pool.borrow_mut().end_eviction();
                self.free_or_rescue(victim);
            }
        }
        self.serve_frames(home);
    }

    /// Writes the log blocks that are due.
    pub(super) fn write_log(&self) {
        while let Some(LogWrite { offset, bytes, up_to }) = self.log.next_write() {
            self.counters.log_flushes.add(1);
            self.counters.log_bytes.add(bytes);
            if !self.is_well(self.ios.submit_log(Io::Log { up_to }, offset, bytes)) {
                return;
            }
        }
    }
}
