//! A session: inserts and reads rows with random keys, one transaction after another.

use std::cell::Cell;

use super::Engine;
use super::above::Level;
use super::geometry::DbPage;
use super::leaf::{Leaf, flag};
use super::look_ahead::{Key, Words};
use super::tree::Tree;
use crate::hint::rare;
use crate::kernel::Ns;
use crate::rng::{Rng, Spread};
use crate::scenario::{RunPlan, Scenario, WorkloadKind};
use crate::sqlos::{Latch, LatchClass, Mode, WaitType};

/// The work of all sessions of a run, in rows of the scaled world.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) kind: WorkloadKind,
    pub(super) connections: u32,
    rows_per_connection: u64,
    rows_per_transaction: u32,
    /// Rows that no connection has begun to insert, if connections share them.
    stock: Option<Cell<u64>>,
    /// Point reads per thousand operations.
    read_per_mille: u32,
    seed: u64,
    /// CPU times of an inserted row, of a read row, and of a commit.
    pub(super) row: Spread,
    read_row: Spread,
    commit: Spread,
    /// CPU time of a split.
    split: Spread,
    /// CPU times at the right edge: linking a page, and finding it.
    pub(super) append: Spread,
    pub(super) find_page: Spread,
}

impl Load {
    /// As a run has it.
    pub(super) fn new(scenario: &Scenario, run: &RunPlan) -> Self {
        let (load, costs) = (&run.workload, &scenario.server.costs);
        let spread = |mean_ns: Ns| Spread::new(mean_ns, costs.cpu_jitter_per_mille.value);
        let rows_per_connection = load.rows_per_connection / u64::from(scenario.scale);
        let rows = rows_per_connection * u64::from(load.connections);
        Self {
            kind: load.kind,
            connections: load.connections,
            rows_per_connection,
            rows_per_transaction: load.rows_per_transaction,
            stock: scenario.server.switches.common_stock.then(|| Cell::new(rows)),
            read_per_mille: load.read_per_mille.unwrap_or(0),
            seed: run.seed,
            row: spread(costs.row_cpu_ns.value),
            read_row: spread(costs.read_row_cpu_ns.value),
            commit: spread(costs.commit_cpu_ns.value),
            split: spread(costs.split_cpu_ns.value),
            append: spread(costs.append_cpu_ns.value),
            find_page: spread(costs.find_page_cpu_ns.value),
        }
    }

    /// Rows of all connections.
    pub(super) fn rows(&self) -> u64 {
        self.rows_per_connection * u64::from(self.connections)
    }
}

/// A session's own state.
pub(super) struct Session {
    pub(super) words: Words,
    /// The key of the next row.
    key: Key,
    /// Whether that row is to be read instead of inserted, and the stream that decides it.
    reading: bool,
    reads: Rng,
    /// Rows left in this transaction.
    pub(super) rows_left: u32,
    /// Work done but not charged yet, and the log that it wrote.
    pub(super) cpu_ns: Ns,
    pub(super) log_bytes: u64,
    pub(super) own_file: u32,
    /// The file in which it allocated last, and that file's next page at that time.
    pub(super) kept: Option<(u32, u32)>,
}

/// Why a burst ended.
enum Stop<'w> {
    /// It is long enough.
    Long,
    /// The transaction has all its rows.
    Done,
    /// A page on the way down is latched.
    Above(Latch<'w>),
    /// The leaf is in use.
    Busy(Leaf),
    /// The leaf is not in memory.
    Absent(Leaf),
    /// The leaf is full.
    Full(Leaf),
}

impl Session {
    fn new(seed: u64, connection: u32, files: u32, tree: &Tree) -> Self {
        let mut words = Words::new(Rng::stream(seed, &format!("connection {connection}")));
        words.look_ahead(tree);
        Self {
            key: words.next_key().1,
            words,
            reading: false,
            reads: Rng::stream(seed, &format!("reads of connection {connection}")),
            rows_left: 0,
            cpu_ns: 0,
            log_bytes: 0,
            own_file: connection % files,
            kept: None,
        }
    }

    /// The mode in which it must hold the leaf's latch for its next row.
    const fn mode(&self) -> Mode {
        if self.reading { Mode::Sh } else { Mode::Ex }
    }
}

impl<'w> Engine<'w> {
    /// One connection's work, from its first row to its last commit: `rows` does that of one transaction.
    pub(super) async fn session(&self, connection: u32, rows: impl AsyncFn(&Self, &mut Session)) {
        let load = &self.load;
        let files = self.files.borrow().count();
        let mut session = Session::new(load.seed, connection, files, &self.tree.borrow());
        let own = Cell::new(load.rows_per_connection);
        let stock = load.stock.as_ref().unwrap_or(&own);
        while stock.get() > 0 {
            let left = u32::try_from(stock.get()).unwrap_or(u32::MAX);
            let batch = left.min(load.rows_per_transaction);
            stock.set(stock.get() - u64::from(batch));
            session.rows_left = batch;
            rows(self, &mut session).await;
            self.commit(&mut session).await;
        }
    }

    /// A transaction's rows, with the rows read between them if the load is mixed.
    pub(super) async fn random_rows<const MIXED: bool>(&self, session: &mut Session) {
        loop {
            let stop = self.burst::<MIXED>(session);
            if let Stop::Absent(leaf) = stop {
                session.cpu_ns += self.read_cpu_ns(leaf);
            }
            // Like `charge`, but without a future in between, as this runs every few rows.
            self.os.cpu(std::mem::take(&mut session.cpu_ns)).await;
            if rare(!self.let_log_out(session)) {
                self.log.room().await;
            }
            match stop {
                Stop::Long => {}
                Stop::Done => break,
                Stop::Above(latch) => latch.acquire(Mode::Sh).await.release(),
                Stop::Busy(leaf) => self.wait_for(leaf, session.mode()).await,
                // Like `fetch`.
                Stop::Absent(leaf) => {
                    if self.begin_fetch(leaf) {
                        self.park_for(leaf, session.mode()).await;
                        self.end_fetch(leaf);
                    }
                }
                Stop::Full(leaf) => self.split(leaf, session).await,
            }
        }
    }

    async fn commit(&self, session: &mut Session) {
        session.cpu_ns += self.load.commit.of(session.words.next_u64() >> 32);
        session.log_bytes += self.costs.log_transaction_bytes.value;
        self.charge(session).await;
        let flushed = self.log.commit();
        self.write_log();
        flushed.wait(WaitType::WriteLog).await;
    }

    /// Spends the CPU time of the work done, and submits its log.
    pub(super) async fn charge(&self, session: &mut Session) {
        self.os.cpu(std::mem::take(&mut session.cpu_ns)).await;
        if !self.let_log_out(session) {
            self.log.room().await;
        }
    }

    /// Submits the log of the work done; false if the session must then wait for room in the log.
    #[inline(always)]
    fn let_log_out(&self, session: &mut Session) -> bool {
        let log_bytes = std::mem::take(&mut session.log_bytes);
        if log_bytes == 0 {
            return true;
        }
        self.log.append(log_bytes);
        if rare(self.log.is_due()) {
            self.write_log();
        }
        self.log.has_room()
    }

    /// Inserts rows, and reads rows if the load is mixed, until the session must wait. Takes no simulated time itself;
    /// the cost is in the session's books.
    fn burst<const MIXED: bool>(&self, session: &mut Session) -> Stop<'w> {
        let (costs, load) = (&self.costs, &self.load);
        let mut tree = self.tree.borrow_mut();
        let (mut inserted, mut read) = (0_u32, 0_u64);
        let stop = loop {
            session.words.look_ahead(&tree);
            if inserted == session.rows_left {
                break Stop::Done;
            }
            if session.cpu_ns >= costs.burst_ns.value {
                break Stop::Long;
            }
            if self.above.latched() > 0
                && let Some(latch) = self.above.barred(session.key.key)
            {
                break Stop::Above(latch);
            }
            let leaf = tree.find_again(session.key.from, session.key.key);
            let state = tree.state_mut(leaf);
            // An empty table has nothing to read.
            let reads = MIXED && session.reading && state.rows() > 0;
            if state.is(if reads { flag::UNREADABLE } else { flag::BUSY }) {
                state.refer();
                if state.is(flag::ABSENT) {
                    break Stop::Absent(leaf);
                }
                // As many leaves are in use at once as at life-size, but there are fewer leaves: sessions must not meet
                // them more often.
                if session.words.below(u64::from(self.scale)) == 0 {
                    break Stop::Busy(leaf);
                }
                session.words.look_ahead(&tree);
                session.key = session.words.next_key().1;
                continue;
            }
            if reads {
                state.refer();
                read += 1;
            } else if state.is_full() {
                break Stop::Full(leaf);
            } else {
                tree.insert_row(leaf);
                inserted += 1;
            }
            // One random word serves both: the row's CPU time from its lower half, the next key from its upper half.
            let (word, key) = session.words.next_key();
            session.cpu_ns += if reads { load.read_row } else { load.row }.of(word);
            session.key = key;
            if MIXED {
                session.reading = session.reads.below(1000) < u64::from(load.read_per_mille);
            }
        };
        session.rows_left -= inserted;
        session.log_bytes += u64::from(inserted) * costs.log_row_bytes.value;
        self.counters.rows.add(u64::from(inserted));
        self.counters.point_reads.add(read);
        stop
    }

    /// Waits until the leaf is no longer used in a way that bars `mode`.
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

    /// CPU time for a read.
    pub(super) fn read_cpu_ns(&self, leaf: Leaf) -> Ns {
        let page = || self.files.borrow().page_of(leaf);
        self.costs.read_cpu_ns.value + self.ios.driver_cpu_ns(page)
    }

    /// Reads a leaf, unless another worker has begun to.
    pub(super) async fn fetch(&self, leaf: Leaf, mode: Mode) {
        if self.begin_fetch(leaf) {
            self.park_for(leaf, mode).await;
            self.end_fetch(leaf);
        }
    }

    /// Starts to read a leaf; false if another worker has. The running worker parks for it next.
    #[inline(always)]
    fn begin_fetch(&self, leaf: Leaf) -> bool {
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

    #[inline(always)]
    fn end_fetch(&self, leaf: Leaf) {
        self.tree.borrow_mut().state_mut(leaf).end_wait();
    }

    /// Splits a full leaf: latches it and its parent, allocates a page, moves half of the rows.
    async fn split(&self, leaf: Leaf, session: &mut Session) {
        {
            let mut tree = self.tree.borrow_mut();
            let state = tree.state_mut(leaf);
            // While the work so far was charged, other workers or an I/O may have taken the leaf.
            if state.is(flag::BUSY) {
                return;
            }
            state.begin_wait();
        }
        let leaf_hold = self.leaf_latch(leaf, LatchClass::Page).acquire(Mode::Ex).await;
        let is_still_full = {
            let mut tree = self.tree.borrow_mut();
            let state = tree.state_mut(leaf);
            state.end_wait();
            let full = state.is_full() && !state.is(flag::BUSY);
            if full {
                state.begin_split();
            }
            full
        };
        if !is_still_full {
            return;
        }
        if self.switches.parent_latches {
            let parent = self.above.acquire(session.key.key, Level::Parent).await;
            self.split_under_parent(leaf, session).await;
            self.above.release(parent, Level::Parent);
        } else {
            self.split_under_parent(leaf, session).await;
        }
        self.tree.borrow_mut().state_mut(leaf).end_split();
        leaf_hold.release();
    }

    async fn split_under_parent(&self, leaf: Leaf, session: &mut Session) {
        if session.words.below(self.costs.index_fanout.value) == 0 {
            self.split_parent(session.key.key, session).await;
        }
        let page = self.allocate(None, session).await;
        let cpu_ns = self.load.split.of(session.words.next_u64() >> 32);
        self.os.cpu_unbroken(cpu_ns).await;
        let right = self.leaf_on(page);
        self.tree.borrow_mut().split(leaf, right);
        self.linked(right).await;
        session.log_bytes += self.costs.log_split_bytes.value;
        self.counters.splits.add(1);
    }

    /// Splits a page above the leaves, needed once per as many leaf splits as it has entries; latches its parent
    /// meanwhile.
    pub(super) async fn split_parent(&self, key: u32, session: &mut Session) {
        let hold = self.above.acquire(key, Level::Grandparent).await;
        self.allocate(None, session).await;
        let cpu_ns = self.load.split.of(session.words.next_u64() >> 32);
        self.os.cpu_unbroken(cpu_ns).await;
        self.pool.borrow_mut().keep();
        self.counters.index_splits.add(1);
        self.above.release(hold, Level::Grandparent);
    }

    /// Allocates a page, in file `kept` if it is given. If the files are full, the run fails.
    pub(super) async fn allocate(&self, kept: Option<u32>, session: &mut Session) -> DbPage {
        let Session { own_file, words, .. } = session;
        let page = self.allocator.allocate(&self.files, own_file, kept, words).await;
        match page {
            Some(page) => page,
            None => self.fail_for_good().await,
        }
    }

    /// The leaf for a page that was just allocated.
    pub(super) fn leaf_on(&self, page: DbPage) -> Leaf {
        let leaf = self.files.borrow().leaf_on(page);
        leaf.expect("a page is taken with its extent")
    }

    /// Completes the link of leaf `right` to the one on its left: there is one leaf more, and it has a frame.
    pub(super) async fn linked(&self, right: Leaf) {
        let leaves = self.tree.borrow().len();
        self.above.count(leaves);
        let free = self.pool.borrow_mut().take_free();
        match free {
            Some(frame) => self.pool.borrow_mut().fill(frame, right),
            None => self.wait_for_frame(right).await,
        }
        self.wake_lazy_writer();
    }
}
