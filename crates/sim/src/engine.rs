//! The storage engine: a clustered index in data files, a buffer pool, a log, and the sessions that insert into them.
//!
//! Each part owns its state, and only that part changes it. The parts, from the lowest to the highest:
//! - [`geometry`]: pages, extents and allocation pages; [`files`]: their position on the drives, and the next free
//!   page;
//! - [`leaf`]: the state of a leaf's page; [`tree`]: all leaves, with their rows and key intervals; [`pool`]: leaves in
//!   memory, and leaves that wait for a frame; `above`: the index pages above the leaves, and their latches;
//! - [`log`]: blocks, flushes and commits; `ios`: I/Os in progress, and the volumes; [`counters`]: the engine's
//!   counters;
//! - [`Engine`]: uses these on [`crate::sqlos`]: `io` (reads and writes), `page_wait` (waits for pages in I/O),
//!   `frames` (room for pages), `allocate` (the next page, under latches of PFS and GAM pages), `session`
//!   (transactions), `random_rows` (inserts and point reads in bursts), `split` (new pages), `checkpoint`, `lazy` (the
//!   lazy writer), `sample` (the current state); `resource` names what workers wait for;
//! - [`load`]: the kinds of loads, one file each.
//!
//! # How a row is inserted
//! A session draws a key, finds the leaf, and inserts the row if the leaf is in memory and not latched. That takes CPU
//! time but no event, and many rows may be inserted in one burst. A burst ends at the first wait: for a leaf that is
//! not in memory or is being written (`PAGEIOLATCH_EX`), or is being split (`PAGELATCH_EX`); for a parent whose latch a
//! splitting worker holds (`PAGELATCH_SH`); for a new page when the leaf is full, and so for the latch of a PFS page
//! (`PAGELATCH_SH` to look for a free one, `PAGELATCH_UP` to mark it); or for the commit (`WRITELOG`).

mod above;
mod allocate;
pub(crate) mod checkpoint;
mod counters;
pub mod files;
mod frames;
pub mod geometry;
mod io;
mod ios;
mod lazy;
mod leaf;
pub mod load;
mod log;
mod look_ahead;
mod page_wait;
mod pool;
mod random_rows;
pub(crate) mod resource;
mod sample;
mod session;
mod split;
mod table;
mod tree;

use std::cell::{Cell, RefCell};

use crate::kernel::Ns;
use crate::scenario::{Costs, RunPlan, Scenario, Switches, Workload};
use crate::sqlos::{Latch, LatchClass, Machine, Sqlos, WaitType};
use crate::trace::IoRecord;
use crate::volume::{self, Volume};

use above::Above;
use allocate::Allocator;
use checkpoint::Checkpoint;
use counters::Counters;
use files::{Files, Layout};
use geometry::{EXTENT_PAGES, Geometry};
use ios::{IO_DONE, IO_NOTICED, Ios, VOLUME_DUE};
use lazy::LazyWriter;
use leaf::{Leaf, flag};
use log::Log;
use pool::Pool;
use session::Sessions;
use tree::Tree;

pub use sample::Reading;
pub use table::Table;

/// The engine of one run.
#[derive(Debug)]
pub struct Engine<'w> {
    os: &'w Sqlos,
    costs: Costs,
    switches: Switches,
    geometry: Geometry,
    scale: u32,
    workload: Workload,
    sessions: Sessions,
    /// Rows that were in the table before the first session began.
    filled_rows: u64,
    tree: RefCell<Tree>,
    above: Above<'w>,
    pool: RefCell<Pool>,
    files: RefCell<Files>,
    allocator: Allocator<'w>,
    ios: Ios<'w>,
    log: Log<'w>,
    checkpoint: Checkpoint<'w>,
    lazy: LazyWriter<'w>,
    counters: Counters,
    /// The rows and the CPU time before the first read of a page; `None` before that read.
    memory_phase: Cell<Option<(u64, Ns)>>,
    failure: RefCell<Option<Failure>>,
}

/// The reason why a run failed although its scenario passed the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A volume has failed.
    Volume(volume::Failure),
    /// The table needed more pages than the files have, because it grew larger than expected.
    FilesFull,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volume(failure) => failure.fmt(formatter),
            Self::FilesFull => write!(
                formatter,
                "the data files are full: fewer rows, larger files, a larger drive or another format would help"
            ),
        }
    }
}

impl<'w> Engine<'w> {
    /// Makes the engine of a run on `table`. The volumes are in the order of `layout.volumes`.
    ///
    /// # Panics
    /// Panics if the scenario was not checked.
    #[must_use]
    pub fn new(
        os: &'w Sqlos,
        scenario: &Scenario,
        run: &RunPlan,
        layout: Layout,
        table: Table,
        volumes: Vec<Volume>,
        every_io: bool,
    ) -> Self {
        let server = &scenario.server;
        let costs = &server.costs;
        let filled_rows = table.rows();
        let Table {
            tree,
            files,
            pool,
            failure,
        } = table;
        let (log_volume, _, log_bytes) = layout.log;
        let log = Log::new(
            os,
            volumes[log_volume].sector_bytes(),
            costs.log_block_bytes.value,
            log_bytes,
            usize::try_from(costs.log_writes.value).unwrap_or(usize::MAX),
        );
        let above = Above::new(os, costs.index_fanout.value, scenario.scale);
        if filled_rows > 0 {
            above.count(tree.len());
        }
        Self {
            os,
            geometry: Geometry::new(scenario.scale),
            scale: scenario.scale,
            above,
            allocator: Allocator::new(os, server, files.count()),
            ios: Ios::new(os, layout, volumes, every_io),
            log,
            checkpoint: Checkpoint::new(os, costs),
            lazy: LazyWriter::new(os, costs, pool.len()),
            counters: Counters::default(),
            memory_phase: Cell::new(None),
            failure: RefCell::new(failure),
            workload: run.workload.clone(),
            sessions: Sessions::new(scenario, run),
            filled_rows,
            tree: RefCell::new(tree),
            files: RefCell::new(files),
            pool: RefCell::new(pool),
            costs: costs.clone(),
            switches: server.switches.clone(),
        }
    }

    /// Adds all workers and handlers to the machine.
    pub fn start<'r>(&'r self, machine: &mut Machine<'r>)
    where
        'w: 'r,
    {
        machine.on(IO_DONE, |slot| self.ios.io_done(slot));
        machine.on(IO_NOTICED, |slot| self.io_noticed(slot));
        machine.on(VOLUME_DUE, |volume| self.volume_due(volume));
        self.ios.arm_all();
        if self.switches.checkpoints {
            machine.spawn_background(self.run_checkpoints());
        }
        if self.switches.lazy_writer {
            machine.spawn_background(self.run_lazy_writer());
        }
        self.workload.kind.start(self, machine);
    }

    /// The number of operations of the load that have been done.
    #[must_use]
    pub fn operations_done(&self) -> u64 {
        self.workload.kind.done(&self.counters)
    }

    /// Returns the table, at rest. The sessions must have ended.
    #[must_use]
    pub fn into_table(self) -> Table {
        let table = Table {
            tree: self.tree.into_inner(),
            files: self.files.into_inner(),
            pool: self.pool.into_inner(),
            failure: self.failure.into_inner(),
        };
        table.rest()
    }

    /// The number of pages in the buffer pool.
    #[must_use]
    pub fn pool_pages(&self) -> u64 {
        u64::from(self.pool.borrow().len())
    }

    /// Returns why the run failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// Ends the run as failed. If this is called more than once, the first reason is reported.
    fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
        self.os.kernel().stop();
    }

    /// Fails the run for a worker that gets no page, and never returns.
    async fn fail_for_good<T>(&self) -> T {
        loop {
            self.fail(Failure::FilesFull);
            self.os.event(0).wait(WaitType::AsyncIoCompletion).await;
        }
    }

    /// Returns every I/O of the run, if the caller asked for the list.
    #[must_use]
    pub fn take_trace(&self) -> Option<Vec<IoRecord>> {
        self.ios.take_trace()
    }

    /// Returns the volumes.
    #[must_use]
    pub fn take_volumes(&self) -> Vec<Volume> {
        self.ios.take_volumes()
    }

    fn leaf_latch(&self, leaf: Leaf, class: LatchClass) -> Latch<'w> {
        self.os.latch(resource::Page::Leaf(leaf).key(), class)
    }

    /// Checks the rules about frames, leaves and rows that hold at any time.
    ///
    /// # Errors
    /// Returns the first rule that is broken.
    pub fn check(&self) -> Result<(), String> {
        let tree = self.tree.borrow();
        tree.check()?;
        self.pool.borrow().check(&tree)?;
        let (rows, inserted) = (tree.rows(), self.filled_rows + self.counters.rows.get());
        if rows != inserted {
            return Err(format!("{rows} rows in the leaves, {inserted} inserted"));
        }
        let files = self.files.borrow();
        for (leaf, state) in tree.states() {
            let page = files.page_of(leaf);
            if files.leaf_on(page) != Some(leaf) {
                return Err(format!("leaf {leaf} lies on page {page}, which is another's"));
            }
            if state.is(flag::ABSENT) && !self.ios.is_written(page) {
                return Err(format!("leaf {leaf} is neither in memory nor on its drive"));
            }
        }
        Ok(())
    }

    /// Checks what must hold after all sessions have ended, in addition to [`Engine::check`]: no leaf is awaited, and
    /// no latch is held.
    ///
    /// # Errors
    /// Returns the first rule that is broken.
    pub fn check_end(&self) -> Result<(), String> {
        const AT_WORK: u8 = flag::READING | flag::SPLITTING | flag::NEW | flag::LATCHED;
        for (leaf, state) in self.tree.borrow().states() {
            if state.is_awaited() || state.is(AT_WORK) {
                return Err(format!("leaf {leaf} has {state} after the last session"));
            }
        }
        let waiting = self.pool.borrow().waiting();
        let (latches, above) = (self.os.latches_in_use(), self.above.latched());
        if waiting + latches > 0 || above > 0 {
            return Err(format!(
                "{waiting} leaves wait for frames, {latches} latches and {above} above the leaves are in use after the last session"
            ));
        }
        Ok(())
    }
}

/// The system pages at the start of a file fill exactly one extent.
const _: () = assert!(EXTENT_PAGES == 8);
