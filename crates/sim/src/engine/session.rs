//! A session: rows with random keys, a transaction after the other.

use super::geometry::ROWS_PER_PAGE;
use super::tree::flag;
use super::{Engine, add};
use crate::kernel::Ns;
use crate::rng::Rng;
use crate::sqlos::{Latch, LatchClass, Mode, WaitType};

/// What a session knows of itself.
struct Session {
    rng: Rng,
    /// The key of the row that is to go in next.
    key: u32,
    /// Rows left in this transaction.
    rows_left: u32,
    /// Work done that has not been charged yet, and the log that it wrote.
    cpu_ns: Ns,
    log_bytes: u64,
    own_file: u32,
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
    fn new(seed: u64, connection: u32, files: u32) -> Self {
        let mut rng = Rng::stream(seed, &format!("connection {connection}"));
        Self {
            key: draw(&mut rng),
            rng,
            rows_left: 0,
            cpu_ns: 0,
            log_bytes: 0,
            own_file: connection % files,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the upper half of a random word")]
fn draw(rng: &mut Rng) -> u32 {
    (rng.next_u64() >> 32) as u32
}

impl<'w> Engine<'w> {
    /// One connection's work, from its first row to its last commit.
    pub(super) async fn session(&self, connection: u32) {
        let mut session = Session::new(self.run_seed, connection, self.files.borrow().count());
        let mut rows = self.rows_per_connection;
        while rows > 0 {
            let batch = u32::try_from(rows).unwrap_or(u32::MAX).min(self.rows_per_transaction);
            rows -= u64::from(batch);
            session.rows_left = batch;
            self.transaction(&mut session).await;
        }
    }

    async fn transaction(&self, session: &mut Session) {
        loop {
            let stop = self.burst(session);
            self.charge(session).await;
            match stop {
                Stop::Long => {}
                Stop::Done => break,
                Stop::Above(latch) => latch.acquire(Mode::Sh).await.release(),
                Stop::Busy(leaf) => self.wait_for(leaf).await,
                Stop::Absent(leaf) => self.fetch(leaf, session).await,
                Stop::Full(leaf) => self.split(leaf, session).await,
            }
        }
        session.cpu_ns += self.stray(self.costs.commit_cpu_ns.value, &mut session.rng);
        session.log_bytes += self.costs.log_transaction_bytes.value;
        self.charge(session).await;
        let flushed = self.log.commit();
        self.write_log(self.os.current_scheduler().unwrap_or(0));
        flushed.wait(WaitType::WriteLog).await;
    }

    /// Spends the CPU time of the work done, and lets its log go out.
    async fn charge(&self, session: &mut Session) {
        self.os.cpu(std::mem::take(&mut session.cpu_ns)).await;
        let log_bytes = std::mem::take(&mut session.log_bytes);
        if log_bytes > 0 {
            self.log.append(log_bytes);
            self.write_log(self.os.current_scheduler().unwrap_or(0));
            self.log.room().await;
        }
    }

    /// Inserts rows as long as nothing has to be waited for. Takes no simulated time: what it took is in the session's books.
    fn burst(&self, session: &mut Session) -> Stop<'w> {
        let costs = &self.costs;
        let mut tree = self.tree.borrow_mut();
        let (mut inserted, mut newly_dirty) = (0_u32, 0_u64);
        let stop = loop {
            if inserted == session.rows_left {
                break Stop::Done;
            }
            if session.cpu_ns >= costs.burst_ns.value {
                break Stop::Long;
            }
            if self.upper_latches.get() > 0
                && let Some(latch) = self.barred_above(session.key, tree.len())
            {
                break Stop::Above(latch);
            }
            let number = tree.find(session.key);
            let leaf = &mut tree.leaves[number as usize];
            if leaf.flags & flag::BUSY != 0 {
                leaf.flags |= flag::REFERENCED;
                break if leaf.flags & flag::ABSENT == 0 { Stop::Busy(number) } else { Stop::Absent(number) };
            }
            if leaf.rows >= ROWS_PER_PAGE {
                break Stop::Full(number);
            }
            leaf.rows += 1;
            newly_dirty += u64::from(leaf.flags & flag::DIRTY == 0);
            leaf.flags |= flag::DIRTY | flag::REFERENCED;
            inserted += 1;
            session.cpu_ns += self.stray(costs.row_cpu_ns.value, &mut session.rng);
            session.key = draw(&mut session.rng);
        };
        drop(tree);
        session.rows_left -= inserted;
        session.log_bytes += u64::from(inserted) * costs.log_row_bytes.value;
        add(&self.counters.rows, u64::from(inserted));
        add(&self.counters.dirty_pages, newly_dirty);
        stop
    }

    /// The latch on the way down to `key` that can't be had for reading now, if there is one.
    fn barred_above(&self, key: u32, leaves: u32) -> Option<Latch<'w>> {
        [2, 1].into_iter().map(|level| self.upper_latch(key, leaves, level)).find(|latch| latch.is_barred(Mode::Sh))
    }

    /// Waits until whoever is at the leaf has gone.
    async fn wait_for(&self, leaf: u32) {
        let in_io = self.tree.borrow().leaves[leaf as usize].flags & flag::IN_IO != 0;
        let class = if in_io { LatchClass::PageIo } else { LatchClass::Page };
        self.leaf_latch(leaf, class).acquire(Mode::Ex).await.release();
    }

    /// Reads a leaf, unless somebody else has begun to.
    async fn fetch(&self, leaf: u32, session: &mut Session) {
        let page = self.tree.borrow().leaves[leaf as usize].page;
        let (drive, _) = self.layout.place(page);
        let cpu_ns = self.costs.read_cpu_ns.value + self.drive_cpu_ns[drive];
        self.os.cpu(self.stray(cpu_ns, &mut session.rng)).await;
        let latch = self.leaf_latch(leaf, LatchClass::PageIo);
        if self.tree.borrow().leaves[leaf as usize].flags & flag::ABSENT != 0
            && let Some(hold) = latch.try_acquire(Mode::Ex)
        {
            hold.hand_over();
            self.start_read(leaf);
        }
        latch.acquire(Mode::Ex).await.release();
    }

    /// Splits a full leaf: latches it and its parent, allocates a page, moves half of the rows.
    async fn split(&self, leaf: u32, session: &mut Session) {
        let leaf_hold = self.leaf_latch(leaf, LatchClass::Page).acquire(Mode::Ex).await;
        let still_full = {
            let leaf = &mut self.tree.borrow_mut().leaves[leaf as usize];
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
            self.upper_latches.set(self.upper_latches.get() + 1);
            let leaves = self.tree.borrow().len();
            let parent = self.upper_latch(session.key, leaves, 1).acquire(Mode::Ex).await;
            self.split_under_parent(leaf, session).await;
            parent.release();
            self.upper_latches.set(self.upper_latches.get() - 1);
        } else {
            self.split_under_parent(leaf, session).await;
        }
        self.tree.borrow_mut().leaves[leaf as usize].flags &= !flag::SPLITTING;
        leaf_hold.release();
    }

    async fn split_under_parent(&self, leaf: u32, session: &mut Session) {
        if session.rng.below(self.costs.index_fanout.value) == 0 {
            self.split_parent(session).await;
        }
        let page = self.allocate(&mut session.own_file, &mut session.rng).await;
        let cpu_ns = self.stray(self.costs.split_cpu_ns.value, &mut session.rng);
        self.os.cpu_unbroken(cpu_ns).await;
        self.add_leaf(leaf, page).await;
        session.log_bytes += self.costs.log_split_bytes.value;
        add(&self.counters.splits, 1);
    }

    /// A full page above the leaves splits, as often as there are entries on one: its own parent is latched meanwhile.
    async fn split_parent(&self, session: &mut Session) {
        self.upper_latches.set(self.upper_latches.get() + 1);
        let leaves = self.tree.borrow().len();
        let hold = self.upper_latch(session.key, leaves, 2).acquire(Mode::Ex).await;
        let _page = self.allocate(&mut session.own_file, &mut session.rng).await;
        let cpu_ns = self.stray(self.costs.split_cpu_ns.value, &mut session.rng);
        self.os.cpu_unbroken(cpu_ns).await;
        self.pool.borrow_mut().keep();
        add(&self.counters.index_splits, 1);
        hold.release();
        self.upper_latches.set(self.upper_latches.get() - 1);
    }

    /// Puts the upper half of a leaf's rows onto a new page, in a frame of its own.
    async fn add_leaf(&self, leaf: u32, page: u32) {
        let free = self.pool.borrow_mut().take_free();
        let right = self.tree.borrow_mut().split(leaf, page, &mut self.split_rng.borrow_mut());
        self.files.borrow_mut().set_owner(page, right);
        let left_was_clean = {
            let flags = &mut self.tree.borrow_mut().leaves[leaf as usize].flags;
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
