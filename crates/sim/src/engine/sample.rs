//! The engine's current state: readings for the time series, waiting tasks by page, and counts at the end.

use std::collections::BTreeMap;

use super::Engine;
use super::counters::Counters;
use super::geometry::Geometry;
use super::leaf::Leaf;
use super::resource;
use crate::hint::rare;
use crate::kernel::Ns;
use crate::outcome::WaitingTask;
use crate::sqlos::{Resource, WaitType};
use crate::volume::FlashUse;

/// All counts up to now. The differences between two readings give an interval of a time series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The engine's counters.
    pub counters: Counters,
    /// The number of leaves.
    pub leaf_pages: u64,
    /// The number of pages that are dirty now.
    pub dirty_pages: u64,
    /// The number of workers that wait for their core now.
    pub runnable: u64,
    /// The number of I/Os in progress now.
    pub io_in_progress: u64,
    /// The use of the flash drives.
    pub flash: FlashUse,
}

/// The number of the database in page addresses, as in the published articles.
const DATABASE: u32 = 5;

/// Returns a file's number: 1 for the first data file, 3 for the second, because the log is file 2.
const fn file_number(file: u32) -> u32 {
    if file == 0 { 1 } else { file + 2 }
}

impl Engine<'_> {
    /// Returns the inserted rows and the sessions' CPU time before the first read of a page, or up to now if none came.
    #[must_use]
    pub fn memory_phase(&self) -> (u64, Ns) {
        self.memory_phase.get().unwrap_or_else(|| self.work_done())
    }

    /// Records that a page will be read, so the table is no longer completely in memory.
    pub(super) fn end_memory_phase(&self) {
        if rare(self.memory_phase.get().is_none()) {
            self.memory_phase.set(Some(self.work_done()));
        }
    }

    fn work_done(&self) -> (u64, Ns) {
        (self.counters.rows.get(), self.os.books().sessions.cpu_ns)
    }

    /// Returns the counts up to now.
    #[must_use]
    pub fn reading(&self) -> Reading {
        let tree = self.tree.borrow();
        Reading {
            counters: self.counters.clone(),
            leaf_pages: u64::from(tree.len()),
            dirty_pages: tree.dirty(),
            runnable: u64::from(self.os.runnable()),
            io_in_progress: self.ios.in_progress() as u64,
            flash: FlashUse::of(&self.ios.volumes()),
        }
    }

    /// Returns what sessions wait for and how many wait for each, the largest number first.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingTask> {
        let mut counts: BTreeMap<(WaitType, Resource), u32> = BTreeMap::new();
        for task in self.os.waiting_tasks() {
            *counts.entry((task.wait, task.resource)).or_default() += 1;
        }
        let mut all: Vec<_> = counts.into_iter().collect();
        all.sort_by_key(|&((wait, resource), count)| (std::cmp::Reverse(count), wait, resource));
        let task = |((wait, resource), workers): ((WaitType, Resource), u32)| WaitingTask {
            wait_type: wait.name(),
            resource: self.decode(resource),
            workers,
        };
        all.into_iter().map(task).collect()
    }

    fn decode(&self, resource: Resource) -> String {
        match resource {
            Resource::Latch(key) => self.decode_latch(resource::Page::of(key)),
            Resource::Event(label) => resource::pfs_file_of(label).map_or_else(
                || resource::name_of(resource.kind()).to_owned(),
                |file| self.pfs_page_of(file),
            ),
            Resource::None => String::new(),
        }
    }

    fn decode_latch(&self, page: resource::Page) -> String {
        match page {
            resource::Page::Leaf(leaf) => self.data_page_of(leaf),
            resource::Page::Edge => self.data_page_of(self.tree.borrow().last()),
            resource::Page::Above(level, page) => format!("index level {} no. {page}", level as u32 + 1),
            resource::Page::Pfs { file, .. } => self.pfs_page_of(file),
            resource::Page::Gam { file, index } => {
                let page = Geometry::gam_page_number(index);
                format!("GAM {DATABASE}:{}:{page}", file_number(file))
            }
        }
    }

    fn data_page_of(&self, leaf: Leaf) -> String {
        let files = self.files.borrow();
        let (file, page) = files.place_of(files.page_of(leaf));
        format!(
            "data {DATABASE}:{}:{}",
            file_number(file),
            self.geometry.page_number(page)
        )
    }

    fn pfs_page_of(&self, file: u32) -> String {
        let page = Geometry::pfs_page_number(self.files.borrow().next_pfs(file));
        format!("PFS {DATABASE}:{}:{page}", file_number(file))
    }
}
