//! A session: rows with random keys, inserted and read, a transaction after the other.

use std::cell::Cell;

use super::geometry::ROWS_PER_PAGE;
use super::look_ahead::{Key, Words};
use super::tree::{State, Tree, flag};
use super::{Engine, Level, add};
use crate::hint::rare;
use crate::kernel::Ns;
use crate::rng::Rng;
use crate::sqlos::{Hold, Latch, LatchClass, Mode, WaitType};

/// What a session knows of itself.
pub(super) struct Session {
    pub(super) words: Words,
    /// The key of the next row.
    key: Key,
    /// Whether that row is to be read, not inserted, and the stream that says so.
    reading: bool,
    reads: Rng,
    /// Rows left in this transaction.
    pub(super) rows_left: u32,
    /// Work done that has not been charged yet, and the log that it wrote.
    pub(super) cpu_ns: Ns,
    pub(super) log_bytes: u64,
    pub(super) own_file: u32,
    /// The file in which it has allocated last, and that file's next page then.
    pub(super) kept: Option<(u32, u32)>,
}

/// Why a burst ended.
enum Stop<'w> {
    /// It has become long enough.
    Long,
    /// The transaction has all its rows.
    Done,
    /// A page on the way down is latched.
    Above(Latch<'w>),
    /// Somebody is at the leaf.
    Busy(u32),
    /// The leaf is not in memory.
    Absent(u32),
    /// The leaf is full.
    Full(u32),
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

    /// How it must hold the latch of the leaf for its next row.
    const fn mode(&self) -> Mode {
        if self.reading { Mode::Sh } else { Mode::Ex }
    }
}

impl<'w> Engine<'w> {
    /// One connection's work, from its first row to its last commit: `rows` does a transaction's.
    pub(super) async fn session(&self, connection: u32, rows: impl AsyncFn(&Self, &mut Session)) {
        let files = self.files.borrow().count();
        let mut session = Session::new(self.run_seed, connection, files, &self.tree.borrow());
        let own = Cell::new(self.rows_per_connection);
        let stock = if self.switches.common_stock { &self.stock } else { &own };
        while stock.get() > 0 {
            let batch = u32::try_from(stock.get())
                .unwrap_or(u32::MAX)
                .min(self.rows_per_transaction);
            stock.set(stock.get() - u64::from(batch));
            session.rows_left = batch;
            rows(self, &mut session).await;
            self.commit(&mut session).await;
        }
    }

    /// A transaction's rows, and between them those that are read if the load is mixed.
    pub(super) async fn random_rows<const MIXED: bool>(&self, session: &mut Session) {
        loop {
            let stop = self.burst::<MIXED>(session);
            if let Stop::Absent(leaf) = stop {
                session.cpu_ns += self.read_cpu_ns(leaf);
            }
            // As `charge` does it; but this is done for every few rows.
            self.os.cpu(std::mem::take(&mut session.cpu_ns)).await;
            if rare(!self.let_log_out(session)) {
                self.log.room().await;
            }
            match stop {
                Stop::Long => {}
                Stop::Done => break,
                Stop::Above(latch) => latch.acquire(Mode::Sh).await.release(),
                Stop::Busy(leaf) => self.wait_for(leaf, session.mode()).await,
                // As `fetch` does it, without a future in between.
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
        session.cpu_ns += self.stray(self.costs.commit_cpu_ns.value, &mut session.words);
        session.log_bytes += self.costs.log_transaction_bytes.value;
        self.charge(session).await;
        let flushed = self.log.commit();
        self.write_log();
        flushed.wait(WaitType::WriteLog).await;
    }

    /// Spends the CPU time of the work done, and lets its log go out.
    pub(super) async fn charge(&self, session: &mut Session) {
        self.os.cpu(std::mem::take(&mut session.cpu_ns)).await;
        if !self.let_log_out(session) {
            self.log.room().await;
        }
    }

    /// Lets the log of the work done go out; false if the session must wait for room in it then.
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

    /// Inserts rows, and reads rows if the load is mixed, as long as nothing has to be waited for. Takes no simulated time: what it
    /// took is in the session's books.
    fn burst<const MIXED: bool>(&self, session: &mut Session) -> Stop<'w> {
        let costs = &self.costs;
        let mut tree = self.tree.borrow_mut();
        let (mut inserted, mut read, mut newly_dirty) = (0_u32, 0_u64, 0_u64);
        let stop = loop {
            session.words.look_ahead(&tree);
            if inserted == session.rows_left {
                break Stop::Done;
            }
            if session.cpu_ns >= costs.burst_ns.value {
                break Stop::Long;
            }
            if self.upper_latches[0].get() + self.upper_latches[1].get() > 0
                && let Some(latch) = self.barred_above(session.key.key)
            {
                break Stop::Above(latch);
            }
            let number = tree.find_again(session.key.from, session.key.key);
            let leaf = &mut tree.states[number as usize];
            // An empty table has nothing to read.
            let reads = MIXED && session.reading && leaf.rows > 0;
            let barring = if reads { flag::UNREADABLE } else { flag::BUSY };
            if leaf.flags & barring != 0 {
                leaf.flags |= flag::REFERENCED;
                if leaf.flags & flag::ABSENT != 0 {
                    break Stop::Absent(number);
                }
                // As many leaves are in use at once as at life-size, of fewer: they must not be met more often.
                if session.words.below(u64::from(self.scale)) == 0 {
                    break Stop::Busy(number);
                }
                session.words.look_ahead(&tree);
                session.key = session.words.next_key().1;
                continue;
            }
            if reads {
                leaf.flags |= flag::REFERENCED;
                read += 1;
            } else if leaf.rows >= ROWS_PER_PAGE {
                break Stop::Full(number);
            } else {
                leaf.rows += 1;
                newly_dirty += u64::from(leaf.flags & flag::DIRTY == 0);
                leaf.flags |= flag::DIRTY | flag::REFERENCED;
                inserted += 1;
            }
            // One random word does for both: the row's CPU time from its lower half, the next key from its upper half.
            let (word, key) = session.words.next_key();
            session.cpu_ns += if reads { self.read_row_ns } else { self.row_ns }.of(word);
            session.key = key;
            if MIXED {
                session.reading = session.reads.below(1000) < u64::from(self.read_per_mille);
            }
        };
        drop(tree);
        session.rows_left -= inserted;
        session.log_bytes += u64::from(inserted) * costs.log_row_bytes.value;
        add(&self.counters.rows, u64::from(inserted));
        if MIXED {
            add(&self.counters.point_reads, read);
        }
        add(&self.counters.dirty_pages, newly_dirty);
        stop
    }

    /// The latch on the way down to `key` that can't be had for reading now, if there is one.
    pub(super) fn barred_above(&self, key: u32) -> Option<Latch<'w>> {
        let levels = [Level::Grandparent, Level::Parent].into_iter();
        let latched = levels.filter(|&level| self.upper_latches[level as usize].get() > 0);
        latched
            .map(|level| self.upper_latch(key, level))
            .find(|latch| latch.is_barred(Mode::Sh))
    }

    /// Waits until whoever is at the leaf has gone, as far as it bars `mode`.
    pub(super) async fn wait_for(&self, leaf: u32, mode: Mode) {
        let (in_io, must_latch) = {
            let leaf = &mut self.tree.borrow_mut().states[leaf as usize];
            leaf.waiters += 1;
            let io_mode = match leaf.flags & (flag::IN_IO | flag::LATCHED) {
                flag::READING => Some(Mode::Ex),
                flag::WRITING if mode == Mode::Ex => Some(Mode::Sh),
                _ => None,
            };
            if io_mode.is_some() {
                leaf.flags |= flag::LATCHED;
            }
            (leaf.flags & flag::IN_IO != 0, io_mode)
        };
        let latch = self.leaf_latch(leaf, if in_io { LatchClass::PageIo } else { LatchClass::Page });
        if let Some(io_mode) = must_latch {
            let _io = latch
                .try_acquire(io_mode)
                .expect("nobody is at a page that is in I/O")
                .hand_over();
        }
        latch.acquire(mode).await.release();
        self.tree.borrow_mut().states[leaf as usize].waiters -= 1;
    }

    /// CPU time for a read.
    pub(super) fn read_cpu_ns(&self, leaf: u32) -> Ns {
        self.look_ahead(leaf);
        let driver_ns = self.any_drive_cpu_ns.unwrap_or_else(|| {
            let (volume, _) = self.layout.place(self.files.borrow().page_of(leaf));
            self.drive_cpu_ns[volume]
        });
        self.costs.read_cpu_ns.value + driver_ns
    }

    /// Reads a leaf, unless somebody else has begun to.
    pub(super) async fn fetch(&self, leaf: u32, mode: Mode) {
        if self.begin_fetch(leaf) {
            self.park_for(leaf, mode).await;
            self.end_fetch(leaf);
        }
    }

    /// Starts to read a leaf; false if somebody else has. The running worker parks for it next.
    #[inline(always)]
    fn begin_fetch(&self, leaf: u32) -> bool {
        {
            let State { flags, waiters, .. } = &mut self.tree.borrow_mut().states[leaf as usize];
            if rare(*flags & flag::ABSENT == 0) {
                return false;
            }
            *waiters += 1;
        }
        self.start_read(leaf);
        true
    }

    #[inline(always)]
    fn end_fetch(&self, leaf: u32) {
        self.tree.borrow_mut().states[leaf as usize].waiters -= 1;
    }

    /// Splits a full leaf: latches it and its parent, allocates a page, moves half of the rows.
    async fn split(&self, leaf: u32, session: &mut Session) {
        // While the work so far was charged, others may have come to the leaf, or an I/O.
        let busy = self.tree.borrow().states[leaf as usize].flags & flag::BUSY != 0;
        if busy {
            return;
        }
        self.tree.borrow_mut().states[leaf as usize].waiters += 1;
        let leaf_hold = self.leaf_latch(leaf, LatchClass::Page).acquire(Mode::Ex).await;
        let still_full = {
            let leaf = &mut self.tree.borrow_mut().states[leaf as usize];
            leaf.waiters -= 1;
            let full = leaf.rows >= ROWS_PER_PAGE && leaf.flags & flag::BUSY == 0;
            if full {
                leaf.flags |= flag::SPLITTING | flag::REFERENCED;
            }
            full
        };
        if !still_full {
            return;
        }
        if self.switches.parent_latches {
            let parent = self.latch_above(session.key.key, Level::Parent).await;
            self.split_under_parent(leaf, session).await;
            parent.release();
            self.unlatched_above(Level::Parent);
        } else {
            self.split_under_parent(leaf, session).await;
        }
        self.tree.borrow_mut().states[leaf as usize].flags &= !flag::SPLITTING;
        leaf_hold.release();
    }

    async fn split_under_parent(&self, leaf: u32, session: &mut Session) {
        if session.words.below(self.costs.index_fanout.value) == 0 {
            self.split_parent(session.key.key, session).await;
        }
        let page = self.allocate(&mut session.own_file, None, &mut session.words).await;
        let cpu_ns = self.stray(self.costs.split_cpu_ns.value, &mut session.words);
        self.os.cpu_unbroken(cpu_ns).await;
        self.add_leaf(leaf, page).await;
        session.log_bytes += self.costs.log_split_bytes.value;
        add(&self.counters.splits, 1);
    }

    /// A full page above the leaves splits, as often as there are entries on one: its own parent is latched meanwhile.
    pub(super) async fn split_parent(&self, key: u32, session: &mut Session) {
        let hold = self.latch_above(key, Level::Grandparent).await;
        let _page = self.allocate(&mut session.own_file, None, &mut session.words).await;
        let cpu_ns = self.stray(self.costs.split_cpu_ns.value, &mut session.words);
        self.os.cpu_unbroken(cpu_ns).await;
        self.pool.borrow_mut().keep();
        add(&self.counters.index_splits, 1);
        hold.release();
        self.unlatched_above(Level::Grandparent);
    }

    pub(super) async fn latch_above(&self, key: u32, level: Level) -> Hold<'w> {
        let latches = &self.upper_latches[level as usize];
        latches.set(latches.get() + 1);
        self.upper_latch(key, level).acquire(Mode::Ex).await
    }

    pub(super) fn unlatched_above(&self, level: Level) {
        let latches = &self.upper_latches[level as usize];
        latches.set(latches.get() - 1);
    }

    /// Puts the upper half of a leaf's rows onto a new page, in a frame of its own.
    async fn add_leaf(&self, leaf: u32, page: u32) {
        let right = self.leaf_on(page);
        self.tree
            .borrow_mut()
            .split(leaf, right, &mut self.split_rng.borrow_mut());
        self.linked(leaf, right).await;
    }

    /// The number of the leaf for a page that was just allocated.
    pub(super) fn leaf_on(&self, page: u32) -> u32 {
        let leaf = self.files.borrow().leaf_on(page);
        leaf.expect("a page is taken with its extent")
    }

    /// What follows once leaf `right` has been linked to the one on its left: there is one more, both are dirty, and the new one
    /// has a frame.
    pub(super) async fn linked(&self, leaf: u32, right: u32) {
        let leaves = self.tree.borrow().len();
        let free = self.pool.borrow_mut().take_free();
        self.count_upper_pages(leaves);
        let left_was_clean = {
            let flags = &mut self.tree.borrow_mut().states[leaf as usize].flags;
            let clean = *flags & flag::DIRTY == 0;
            *flags |= flag::DIRTY;
            clean
        };
        add(&self.counters.dirty_pages, 1 + u64::from(left_was_clean));
        match free {
            Some(frame) => self.pool.borrow_mut().fill(frame, right),
            None => self.wait_for_frame(right).await,
        }
        self.wake_lazy_writer();
    }
}
