//! The storage engine: a clustered index in data files, a buffer pool, a log, and the sessions that insert into them.
//!
//! Rooms, from the ground up:
//! - [`geometry`]: pages, extents and allocation pages; [`files`]: where they lie on the drives, and the next free one;
//! - [`tree`]: the leaves of the index, as counts and key intervals; [`pool`]: which of them are in memory;
//! - [`log`]: blocks, flushes and commits;
//! - [`Engine`]: all of it on the cores of [`crate::sqlos`] and the volumes of [`crate::volume`]: `io` (reads, writes and what
//!   follows from them), `frames` (room for pages), `allocate` (the next page, under the latches of PFS and GAM pages),
//!   `session` (inserts and point reads at random keys), `append` (inserts at the right edge), `background` (checkpoint, lazy
//!   writer), `sample` (what is going on just now).
//!
//! # How a row is inserted
//! A session draws a key, finds the leaf, and puts the row in if the leaf is in memory and nobody is at it: that costs CPU
//! time and no event, and many rows may go in as one burst. A burst ends where something has to be waited for: a leaf that is
//! not in memory (`PAGEIOLATCH_EX`), is being written (the same) or split (`PAGELATCH_EX`), a parent whose latch a splitting
//! worker holds (`PAGELATCH_SH`), a full leaf, which needs a page and so the latch of a PFS page (`PAGELATCH_SH` to look for
//! a free one, `PAGELATCH_UP` to mark it), or the commit (`WRITELOG`).

mod allocate;
mod append;
mod background;
pub mod files;
mod frames;
pub mod geometry;
mod io;
pub mod log;
mod look_ahead;
pub mod pool;
mod sample;
mod session;
pub mod tree;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::kernel::{Ns, Port};
use crate::rng::{Rng, Spread};
use crate::scenario::{Costs, RunPlan, Scenario, Switches, WorkloadKind};
use crate::sqlos::{Event, Latch, LatchClass, Machine, Semaphore, Sqlos};
use crate::volume::{self, Volume};

use files::{Files, Layout};
use geometry::{EXTENT_PAGES, Geometry, PAGE_BYTES};
use log::Log;
use pool::Pool;
use tree::Tree;

pub use sample::{Decoded, Reading};

/// A part of an I/O that was cut in two is done; the token is its slot.
const IO_DONE: Port = Port::new(6);
/// The scheduler has noticed it; the token is its slot.
const IO_NOTICED: Port = Port::new(7);
/// Something is due in a volume; the token is its number.
const VOLUME_DUE: Port = Port::new(8);

/// Labels of events, for samples of waiting tasks.
const LABEL_LOG: u64 = 1;
const LABEL_CHECKPOINT: u64 = 2;
const LABEL_LAZY: u64 = 3;
/// With the data file's number in the lower half: a look at its PFS page.
const LABEL_PFS: u64 = 1 << 32;

/// What a latch's key begins with: which kind of page it is for.
const KEY_SHIFT: u32 = 56;
const KEY_LEAF: u64 = 1;
const KEY_PARENT: u64 = 2;
const KEY_GRANDPARENT: u64 = 3;
const KEY_PFS: u64 = 4;
const KEY_GAM: u64 = 5;
/// Whichever leaf is the last.
const KEY_EDGE: u64 = 6;

/// Counted as they happen.
#[derive(Debug, Default)]
struct Counters {
    rows: Cell<u64>,
    splits: Cell<u64>,
    index_splits: Cell<u64>,
    point_reads: Cell<u64>,
    reads: Cell<u64>,
    writes: Cell<u64>,
    written_pages: Cell<u64>,
    checkpoints: Cell<u64>,
    checkpoint_pages: Cell<u64>,
    lazy_pages: Cell<u64>,
    evicted_clean: Cell<u64>,
    evicted_dirty: Cell<u64>,
    rescued: Cell<u64>,
    dirty_pages: Cell<u64>,
    read_ns: Cell<u64>,
    write_ns: Cell<u64>,
}

/// Levels of the index above the leaves; the root is never split for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Parent,
    Grandparent,
}

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

/// The engine of one run.
#[derive(Debug)]
pub struct Engine<'w> {
    os: &'w Sqlos,
    costs: Costs,
    switches: Switches,
    layout: Layout,
    geometry: Geometry,
    scale: u32,
    connections: u32,
    rows_per_connection: u64,
    /// Rows that no connection has begun to insert, if they share.
    stock: Cell<u64>,
    rows_per_transaction: u32,
    kind: WorkloadKind,
    /// How many of a thousand operations are point reads.
    read_per_mille: u32,
    run_seed: u64,
    tree: RefCell<Tree>,
    pool: RefCell<Pool>,
    files: RefCell<Files>,
    volumes: RefCell<Vec<Volume>>,
    /// CPU time that the driver of a volume's drives takes for a page.
    drive_cpu_ns: Vec<Ns>,
    /// The same for whichever drive, if they don't differ.
    any_drive_cpu_ns: Option<Ns>,
    /// When each volume will be called next.
    due_ns: Vec<Cell<Ns>>,
    ios: RefCell<io::Slots>,
    coming_ios: look_ahead::ComingIos,
    /// I/Os that a volume has just done: always empty, but not for nothing.
    done: RefCell<Vec<u32>>,
    /// Leaves that wait for a frame.
    waiting_for_frames: RefCell<VecDeque<frames::Wanted>>,
    evictions: Cell<u32>,
    log: Log<'w>,
    /// How many latches of index pages above the leaves are held or wanted exclusively.
    upper_latches: [Cell<u32>; 2],
    /// How many such pages there are at each level, as many as at life-size.
    upper_pages: [Cell<u64>; 2],
    /// CPU time of a row that is inserted, and of one that is read.
    row_ns: Spread,
    read_row_ns: Spread,
    last_file: Cell<u32>,
    /// For each file: its PFS page has just been let go.
    pfs_released: Vec<Event<'w>>,
    checkpoint_permits: Semaphore<'w>,
    lazy_permits: Semaphore<'w>,
    lazy_wake: Event<'w>,
    /// The lazy writer wakes when fewer pages are free.
    lazy_low_pages: u64,
    /// How long writes of the checkpoint take, a sliding mean.
    write_latency_ns: Cell<Ns>,
    split_rng: RefCell<Rng>,
    counters: Counters,
    /// Rows and CPU time up to the first read of a page, once there was one.
    memory_phase: Cell<Option<(u64, Ns)>>,
    failure: RefCell<Option<Failure>>,
}

/// Why a run could not go on, though its scenario could begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A volume answers no more.
    Volume(volume::Failure),
    /// The table found no page: it came out larger than expected.
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
    /// An engine with an empty table, on volumes in the order of `layout.volumes`.
    ///
    /// # Panics
    /// If the scenario was not checked.
    #[must_use]
    pub fn new(os: &'w Sqlos, scenario: &Scenario, run: &RunPlan, layout: Layout, volumes: Vec<Volume>) -> Self {
        let costs = scenario.server.costs.clone();
        let geometry = Geometry::new(scenario.scale);
        let mut files = Files::new(geometry, &layout);
        files.take_extent(0);
        let root_page = files.take_page(0);
        let root = files.leaf_on(root_page).expect("its extent was taken");
        let frames = u32::try_from(scenario.pool_pages()).expect("the scenario was checked");
        let mut pool = Pool::new(frames);
        let frame = pool.take_free().expect("a pool has frames");
        pool.fill(frame, root);
        let rows_per_connection = run.workload.rows_per_connection / u64::from(scenario.scale);
        let leaves = files::leaves_for(
            rows_per_connection * u64::from(run.workload.connections),
            run.workload.kind,
        );
        let (log_volume, _, log_bytes) = layout.log;
        let sector_bytes = volumes[log_volume].sector_bytes();
        let drive_cpu_ns: Vec<Ns> = volumes.iter().map(|volume| volume.host_cpu_for(PAGE_BYTES)).collect();
        let small = |figure: u64| u32::try_from(figure).unwrap_or(u32::MAX);
        Self {
            os,
            log: Log::new(
                os,
                sector_bytes,
                costs.log_block_bytes.value,
                log_bytes,
                usize::try_from(costs.log_writes.value).unwrap_or(usize::MAX),
            ),
            checkpoint_permits: os.semaphore(small(costs.checkpoint_writes.value), LABEL_CHECKPOINT),
            lazy_permits: os.semaphore(small(costs.lazy_writes.value), LABEL_LAZY),
            lazy_wake: os.event(LABEL_LAZY),
            lazy_low_pages: background::part_of_pool(u64::from(frames), costs.lazy_low_per_mille.value),
            switches: scenario.server.switches.clone(),
            geometry,
            scale: scenario.scale,
            connections: run.workload.connections,
            rows_per_connection,
            stock: Cell::new(rows_per_connection * u64::from(run.workload.connections)),
            rows_per_transaction: run.workload.rows_per_transaction,
            kind: run.workload.kind,
            read_per_mille: run.workload.read_per_mille.unwrap_or(0),
            run_seed: run.seed,
            tree: RefCell::new(Tree::new(root, usize::try_from(leaves).unwrap_or(0))),
            pool: RefCell::new(pool),
            files: RefCell::new(files),
            any_drive_cpu_ns: drive_cpu_ns
                .first()
                .copied()
                .filter(|first| drive_cpu_ns.iter().all(|other| other == first)),
            drive_cpu_ns,
            due_ns: vec![Cell::new(Ns::MAX); volumes.len()],
            ios: RefCell::default(),
            coming_ios: look_ahead::ComingIos::new(&volumes),
            volumes: RefCell::new(volumes),
            done: RefCell::default(),
            waiting_for_frames: RefCell::default(),
            evictions: Cell::new(0),
            upper_latches: Default::default(),
            upper_pages: [Cell::new(1), Cell::new(1)],
            row_ns: Spread::new(costs.row_cpu_ns.value, costs.cpu_jitter_per_mille.value),
            read_row_ns: Spread::new(costs.read_row_cpu_ns.value, costs.cpu_jitter_per_mille.value),
            last_file: Cell::new(0),
            pfs_released: (0_u64..)
                .zip(&layout.files)
                .map(|(file, _)| os.event(LABEL_PFS | file))
                .collect(),
            write_latency_ns: Cell::new(0),
            split_rng: RefCell::new(Rng::stream(run.seed, "splits")),
            counters: Counters::default(),
            memory_phase: Cell::new(None),
            failure: RefCell::new(None),
            layout,
            costs,
        }
    }

    /// Adds all workers and handlers to the machine.
    pub fn start<'r>(&'r self, machine: &mut Machine<'r>)
    where
        'w: 'r,
    {
        machine.on(IO_DONE, |slot| self.io_done(slot));
        machine.on(IO_NOTICED, |slot| self.io_noticed(slot));
        machine.on(VOLUME_DUE, |volume| self.volume_due(volume));
        self.arm_all();
        if self.switches.checkpoints {
            machine.spawn_background(self.checkpoint());
        }
        if self.switches.lazy_writer {
            machine.spawn_background(self.lazy_writer());
        }
        for connection in 0..self.connections {
            // A future for each kind: one for all would be larger, and no longer fit the processor's instruction cache as well.
            match self.kind {
                WorkloadKind::RandomInsert => {
                    machine.spawn_session(self.session(connection, Self::random_rows::<false>))
                }
                WorkloadKind::Mixed => machine.spawn_session(self.session(connection, Self::random_rows::<true>)),
                WorkloadKind::SequentialInsert => machine.spawn_session(self.session(connection, Self::ascending_rows)),
            };
        }
    }

    /// Pages of the buffer pool.
    #[must_use]
    pub fn pool_pages(&self) -> u64 {
        u64::from(self.pool.borrow().len())
    }

    /// Why the run failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// Ends the run, which has failed; the first reason counts.
    fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
        self.os.kernel().stop();
    }

    /// Gives the volumes back.
    #[must_use]
    pub fn take_volumes(&self) -> Vec<Volume> {
        self.volumes.take()
    }

    fn leaf_latch(&self, leaf: u32, class: LatchClass) -> Latch<'w> {
        self.os.latch(KEY_LEAF << KEY_SHIFT | u64::from(leaf), class)
    }

    /// The latch of the index page at `level` above the leaf for `key`.
    ///
    /// Above the leaves there are as many pages as at life-size, so that their latches are as hot: a page is a part of the key
    /// space, one of as many equal ones as there would be pages.
    #[inline]
    fn upper_latch(&self, key: u32, level: Level) -> Latch<'w> {
        let page = (u64::from(key) * self.upper_pages[level as usize].get()) >> 32;
        let kind = match level {
            Level::Parent => KEY_PARENT,
            Level::Grandparent => KEY_GRANDPARENT,
        };
        self.os.latch(kind << KEY_SHIFT | page, LatchClass::Page)
    }

    /// There are so many leaves now.
    fn count_upper_pages(&self, leaves: u32) {
        let fanout = self.costs.index_fanout.value;
        let mut pages = u64::from(leaves) * u64::from(self.scale);
        for level in &self.upper_pages {
            pages /= fanout;
            level.set(pages.max(1));
        }
    }

    /// `mean_ns`, give or take the jitter.
    #[inline]
    fn stray(&self, mean_ns: Ns, words: &mut look_ahead::Words) -> Ns {
        let reach = mean_ns * self.costs.cpu_jitter_per_mille.value / 1000;
        mean_ns - reach + (((words.next_u64() >> 32) * (2 * reach + 1)) >> 32)
    }

    /// Asserts what must hold when all is quiet or not: frames, leaves, rows.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let tree = self.tree.borrow();
        tree.check()?;
        self.pool.borrow().check(&tree)?;
        if tree.rows() != self.counters.rows.get() {
            return Err(format!(
                "{} rows in the leaves, {} inserted",
                tree.rows(),
                self.counters.rows.get()
            ));
        }
        let (files, volumes) = (self.files.borrow(), self.volumes.borrow());
        for (number, state) in (0..).zip(&tree.states).filter(|(_, leaf)| leaf.is_leaf()) {
            let page = files.page_of(number);
            if files.leaf_on(page) != Some(number) {
                return Err(format!("leaf {number} lies on page {page}, which is another's"));
            }
            let in_memory = state.flags & tree::flag::ABSENT == 0;
            if !in_memory && !self.is_written(page, &volumes) {
                return Err(format!("leaf {number} is neither in memory nor on its drive"));
            }
        }
        let dirty = tree
            .states
            .iter()
            .filter(|state| state.flags & tree::flag::DIRTY != 0)
            .count() as u64;
        if dirty != self.counters.dirty_pages.get() {
            return Err(format!(
                "{dirty} leaves are dirty, {} counted",
                self.counters.dirty_pages.get()
            ));
        }
        Ok(())
    }
}

impl Engine<'_> {
    /// Whether all of a page has been written to its volume, this run or before, as far as that can tell.
    fn is_written(&self, page: u32, volumes: &[Volume]) -> bool {
        let (volume, offset) = self.layout.place(page);
        volumes[volume].is_written(offset, PAGE_BYTES)
    }

    /// Asserts what must hold, beside [`Engine::check`], once all sessions have ended: nobody waits, nothing is held.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn check_end(&self) -> Result<(), String> {
        use tree::flag::{LATCHED, NEW, READING, SPLITTING};
        let tree = self.tree.borrow();
        for (number, state) in tree.states.iter().enumerate() {
            if state.waiters > 0 || state.flags & (READING | SPLITTING | NEW | LATCHED) != 0 {
                return Err(format!(
                    "leaf {number} has {} waiters and flags {:#b} after the last session",
                    state.waiters, state.flags
                ));
            }
        }
        let waiting = self.waiting_for_frames.borrow().len();
        let latches = self.os.latches_in_use();
        let upper: u32 = self.upper_latches.iter().map(Cell::get).sum();
        if waiting + latches > 0 || upper > 0 {
            return Err(format!(
                "{waiting} leaves wait for frames, {latches} latches and {upper} above the leaves are in use after the last session"
            ));
        }
        Ok(())
    }
}

/// What belongs to a file before its first data page.
const _: () = assert!(EXTENT_PAGES == 8);
