//! What is going on in the engine just now: readings for the time series, waiting tasks by page, counts at the end.

use std::collections::BTreeMap;

use super::geometry::Geometry;
use super::{
    Engine, KEY_EDGE, KEY_GAM, KEY_GRANDPARENT, KEY_LEAF, KEY_PARENT, KEY_PFS, KEY_SHIFT, LABEL_CHECKPOINT, LABEL_LAZY,
    LABEL_LOG, LABEL_PFS,
};
use crate::hint::rare;
use crate::kernel::Ns;
use crate::sqlos::{Resource, WaitType};
use crate::volume::{Device, Volume};

/// All that is counted, up to now; differences of two readings make a time series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Rows inserted.
    pub rows: u64,
    /// Pages read.
    pub reads: u64,
    /// Page writes, gathered or not.
    pub writes: u64,
    /// Pages written.
    pub written_pages: u64,
    /// Log writes.
    pub log_flushes: u64,
    /// Bytes of them, padding included.
    pub log_bytes: u64,
    /// Leaves that were split.
    pub splits: u64,
    /// Index pages above the leaves that were split.
    pub index_splits: u64,
    /// Rows read one by one.
    pub point_reads: u64,
    /// Leaves.
    pub leaf_pages: u64,
    /// Checkpoints that came to their end.
    pub checkpoints: u64,
    /// Pages that they wrote.
    pub checkpoint_pages: u64,
    /// Pages that the lazy writer wrote.
    pub lazy_pages: u64,
    /// Pages that went without a write, and those that a read had to have written first.
    pub evicted_clean: u64,
    /// See there.
    pub evicted_dirty: u64,
    /// Victims that somebody wanted after all.
    pub rescued: u64,
    /// Dirty pages now.
    pub dirty_pages: u64,
    /// Free frames now.
    pub free_frames: u64,
    /// Workers that wait for their core now.
    pub runnable: u64,
    /// I/Os in progress now.
    pub io_in_progress: u64,
    /// How long reads took, in sum.
    pub read_ns: u64,
    /// How long writes took, in sum.
    pub write_ns: u64,
    /// Flash pages that hosts wrote, and that cleaning moved, on all drives.
    pub host_flash_pages: u64,
    /// See there.
    pub moved_flash_pages: u64,
    /// Flash pages that hold data, and all flash pages, on all drives.
    pub mapped_flash_pages: u64,
    /// See there.
    pub flash_pages: u64,
}

/// A page that somebody waits for, in words a DBA knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decoded {
    /// The type of wait.
    pub wait_type: &'static str,
    /// As in "PFS 5:1:1520544": what it is, database, file, page.
    pub resource: String,
}

/// The database's number, as the articles have it.
const DATABASE: u32 = 5;
/// Number of the first data file: 1; of the second: 3, as the log is 2.
const fn file_number(file: u64) -> u64 {
    if file == 0 { 1 } else { file + 2 }
}

impl Engine<'_> {
    /// Rows inserted, and time that sessions computed for them, up to the first read of a page; up to now if there was none.
    #[must_use]
    pub fn memory_phase(&self) -> (u64, Ns) {
        self.memory_phase.get().unwrap_or_else(|| self.work_done())
    }

    /// To be called before a page is read: what follows is no longer the phase in which all of the table was in memory.
    pub(super) fn end_memory_phase(&self) {
        if rare(self.memory_phase.get().is_none()) {
            self.memory_phase.set(Some(self.work_done()));
        }
    }

    fn work_done(&self) -> (u64, Ns) {
        (self.counters.rows.get(), self.os.books().sessions.cpu_ns)
    }

    /// What is counted up to now.
    #[must_use]
    pub fn reading(&self) -> Reading {
        let counters = &self.counters;
        let (log_flushes, log_bytes) = self.log.counts();
        let mut reading = Reading {
            rows: counters.rows.get(),
            reads: counters.reads.get(),
            writes: counters.writes.get(),
            written_pages: counters.written_pages.get(),
            log_flushes,
            log_bytes,
            splits: counters.splits.get(),
            index_splits: counters.index_splits.get(),
            point_reads: counters.point_reads.get(),
            leaf_pages: u64::from(self.tree.borrow().len()),
            checkpoints: counters.checkpoints.get(),
            checkpoint_pages: counters.checkpoint_pages.get(),
            lazy_pages: counters.lazy_pages.get(),
            evicted_clean: counters.evicted_clean.get(),
            evicted_dirty: counters.evicted_dirty.get(),
            rescued: counters.rescued.get(),
            dirty_pages: counters.dirty_pages.get(),
            free_frames: u64::from(self.pool.borrow().free()),
            runnable: u64::from(self.os.runnable()),
            io_in_progress: self.ios.borrow().in_progress() as u64,
            read_ns: counters.read_ns.get(),
            write_ns: counters.write_ns.get(),
            ..Reading::default()
        };
        let volumes = self.volumes.borrow();
        for drive in volumes.iter().flat_map(Volume::devices).filter_map(Device::flash) {
            let counts = drive.counters().ftl;
            reading.host_flash_pages += counts.host_pages;
            reading.moved_flash_pages += counts.moved_pages;
            reading.mapped_flash_pages += u64::from(drive.ftl().mapped_pages());
            reading.flash_pages += u64::from(drive.ftl().shape().flash_pages());
        }
        reading
    }

    /// Who of the sessions waits for what, counted, the most waited for first.
    #[must_use]
    pub fn waiting(&self) -> Vec<(Decoded, u32)> {
        let mut counts: BTreeMap<(WaitType, ResourceKey), u32> = BTreeMap::new();
        for task in self.os.waiting_tasks() {
            let key = match task.resource {
                Resource::Latch(key) => ResourceKey::Latch(key),
                Resource::Event(label) => ResourceKey::Event(label),
                Resource::None => ResourceKey::None,
            };
            *counts.entry((task.wait, key)).or_default() += 1;
        }
        let mut all: Vec<_> = counts.into_iter().collect();
        all.sort_by_key(|&((wait, key), count)| (std::cmp::Reverse(count), wait, key));
        let decoded = all.into_iter().map(|((wait, key), count)| {
            let resource = self.decode(key);
            (
                Decoded {
                    wait_type: wait.name(),
                    resource,
                },
                count,
            )
        });
        decoded.collect()
    }

    fn decode(&self, key: ResourceKey) -> String {
        let key = match key {
            ResourceKey::Latch(key) => key,
            ResourceKey::Event(LABEL_LOG) => return "log".to_owned(),
            ResourceKey::Event(LABEL_CHECKPOINT) => return "checkpoint writes".to_owned(),
            ResourceKey::Event(LABEL_LAZY) => return "lazy writer".to_owned(),
            ResourceKey::Event(label) if label >> 32 == LABEL_PFS >> 32 => return self.pfs_page_of(label ^ LABEL_PFS),
            ResourceKey::Event(_) | ResourceKey::None => return String::new(),
        };
        let low = key & ((1 << KEY_SHIFT) - 1);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half of the key")]
        let index = low as u32;
        let file = file_number(low >> 32);
        match key >> KEY_SHIFT {
            KEY_PFS => self.pfs_page_of(low >> 32),
            KEY_GAM => format!("GAM {DATABASE}:{file}:{}", Geometry::gam_page_number(index)),
            KEY_LEAF | KEY_EDGE => {
                let is_edge = key >> KEY_SHIFT == KEY_EDGE;
                let leaf = if is_edge { self.tree.borrow().last() } else { index };
                let page = self.files.borrow().page_of(leaf);
                let file = file_number(u64::from(page / self.layout.pages_per_file));
                let number = self.geometry.page_number(page % self.layout.pages_per_file);
                format!("data {DATABASE}:{file}:{number}")
            }
            KEY_PARENT => format!("index level 1 no. {low}"),
            KEY_GRANDPARENT => format!("index level 2 no. {low}"),
            other => format!("{other}:{low}"),
        }
    }

    fn pfs_page_of(&self, file: u64) -> String {
        let index = self.files.borrow().next_pfs(u32::try_from(file).unwrap_or(u32::MAX));
        let page = Geometry::pfs_page_number(index);
        format!("PFS {DATABASE}:{}:{page}", file_number(file))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ResourceKey {
    /// By its key.
    Latch(u64),
    Event(u64),
    None,
}
