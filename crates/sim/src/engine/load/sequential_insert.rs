//! Inserts of page-sized rows with ascending keys. All connections insert at the right edge of the index.
//!
//! Each row takes a new page. Its worker latches the last page exclusively (`PAGELATCH_EX`), allocates the next page
//! under the latch of a PFS page, and links it under the parent's latch as the new last page. Workers that waited for
//! the old last page then wait for the new one. The model assumes that they keep their order, as if one latch covered
//! whichever page is the last.
//!
//! So only one worker inserts at a time, on any drives, and its time per row decides the speed. It spends much of that
//! time to find a page. It finds its next page at once in the file where it allocated last, unless another worker has
//! allocated in that file since. In that case it searches the file whose turn it is. If there are as many files as
//! workers, each worker finally has a file for itself.

use super::Load;
use crate::engine::Engine;
use crate::engine::above::Level;
use crate::engine::geometry::DbPage;
use crate::engine::leaf::{Leaf, flag};
use crate::engine::random_rows::Stop;
use crate::engine::resource::Page;
use crate::engine::session::Session;
use crate::kernel::Ns;
use crate::scenario::Costs;
use crate::sqlos::{LatchClass, Machine, Mode};

#[derive(Debug)]
pub(super) struct SequentialInsert;

impl Load for SequentialInsert {
    fn name(&self) -> &'static str {
        "sequential-insert"
    }

    fn serial_ns(&self, costs: &Costs) -> Ns {
        costs.append_cpu_ns.value + costs.find_page_cpu_ns.value
    }

    /// Returns `rows`, because a row fills a page and so has a leaf of its own.
    fn leaves(&self, rows: u64) -> u64 {
        rows
    }

    fn start<'r>(&self, engine: &'r Engine<'_>, machine: &mut Machine<'r>) {
        engine.spawn_sessions(machine, async |engine, session| {
            engine.ascending_rows(session).await;
            engine.commit(session).await;
        });
    }
}

/// The key of all rows at the right edge.
const RIGHT_EDGE: u32 = u32::MAX;

impl Engine<'_> {
    /// Inserts the rows of one transaction.
    async fn ascending_rows(&self, session: &mut Session) {
        while session.left > 0 {
            session.left -= 1;
            session.cpu_ns += self.sessions.row.of(session.words.next_u64());
            self.charge(session).await;
            self.append(session).await;
            session.log_bytes += self.costs.log_page_row_bytes.value;
        }
        self.charge(session).await;
    }

    /// Waits for this worker's turn and appends the next row after all others.
    async fn append(&self, session: &mut Session) {
        while let Some(latch) = self.above.barred(RIGHT_EDGE) {
            latch.acquire(Mode::Sh).await.release();
        }
        let edge = self.os.latch(Page::Edge.key(), LatchClass::Page);
        let turn = edge.acquire(Mode::Ex).await;
        let last = self.ready_last_page(session).await;
        self.tree.borrow_mut().state_mut(last).begin_split();
        // The table's first page exists before its first row.
        if self.counters.rows.get() == 0 {
            self.tree.borrow_mut().insert_row(last);
            self.counters.rows.add(1);
        } else {
            self.append_page(session).await;
        }
        self.tree.borrow_mut().state_mut(last).end_split();
        turn.release();
    }

    /// Returns the last page when it is in memory and no I/O uses it. Only this worker can use it in its turn.
    async fn ready_last_page(&self, session: &mut Session) -> Leaf {
        let ready = |_: &mut Session| {
            let tree = self.tree.borrow();
            let last = tree.last();
            match tree.state(last) {
                // The page was evicted because no row was inserted for a long time.
                state if state.is(flag::ABSENT) => Err(Stop::Absent(last)),
                state if state.is(flag::BUSY) => Err(Stop::Busy(last)),
                _ => Ok(last),
            }
        };
        self.until_done(session, ready).await
    }

    async fn append_page(&self, session: &mut Session) {
        let page = self.find_page(session).await;
        let parent = self.above.acquire(RIGHT_EDGE, Level::Parent).await;
        if session.words.below(self.costs.index_fanout.value) == 0 {
            self.split_parent(RIGHT_EDGE, session).await;
        }
        let cpu_ns = self.sessions.append.of(session.words.next_u64() >> 32);
        self.os.cpu_unbroken(cpu_ns).await;
        let right = self.leaf_on(page);
        self.tree.borrow_mut().append(right);
        self.counters.rows.add(1);
        self.above.release(parent, Level::Parent);
        self.linked(right).await;
        self.counters.splits.add(1);
    }

    /// Allocates a page in the file where this worker allocated last. If others did so since, it searches first.
    async fn find_page(&self, session: &mut Session) -> DbPage {
        let kept = session.kept.filter(|_| self.switches.keep_file);
        let kept = kept.filter(|&(file, next_page)| {
            let files = self.files.borrow();
            files.next_page(file) == next_page && !files.is_full(file)
        });
        if kept.is_none() {
            let cpu_ns = self.sessions.find_page.of(session.words.next_u64() >> 32);
            self.os.cpu_unbroken(cpu_ns).await;
        }
        let in_turn = || self.allocator.next_in_turn(&self.files.borrow());
        let file = kept.map(|(file, _)| file).or_else(in_turn);
        let page = self.allocate(file, session).await;
        let files = self.files.borrow();
        let (file, _) = files.place_of(page);
        session.kept = Some((file, files.next_page(file)));
        page
    }
}
