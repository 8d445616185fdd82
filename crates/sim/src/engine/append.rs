//! Rows of a page each with ascending keys: all connections meet at the right edge of the index.
//!
//! A row takes a new page. Its worker latches the last page exclusively (`PAGELATCH_EX`), allocates the next one under the latch
//! of a PFS page, and links it under the parent's latch: it is the last one now. Who waited for the old last page goes on to
//! the new one. They keep their order, as if there were one latch for whichever page is last: an assumption.
//!
//! So one worker at a time is at it, whatever the drives, and how long it takes decides. Much of it is finding a page: the
//! place where a worker allocated last is as good as found, unless somebody else has allocated in that file since. Then
//! it searches in the file whose turn it is. With as many files as workers each ends up alone in one.

use super::session::Session;
use super::tree::flag;
use super::{Engine, KEY_EDGE, KEY_SHIFT, Level, add};
use crate::sqlos::{LatchClass, Mode};

/// The key of all that goes to the right edge.
const RIGHT_EDGE: u32 = u32::MAX;

impl Engine<'_> {
    /// A transaction's rows.
    pub(super) async fn ascending_rows(&self, session: &mut Session) {
        while session.rows_left > 0 {
            session.rows_left -= 1;
            session.cpu_ns += self.row_ns.of(session.words.next_u64());
            self.charge(session).await;
            self.append(session).await;
            session.log_bytes += self.costs.log_page_row_bytes.value;
        }
        self.charge(session).await;
    }

    /// Puts the next row behind all others, once it is its turn.
    async fn append(&self, session: &mut Session) {
        while let Some(latch) = self.barred_above(RIGHT_EDGE) {
            latch.acquire(Mode::Sh).await.release();
        }
        let edge = self.os.latch(KEY_EDGE << KEY_SHIFT, LatchClass::Page);
        let turn = edge.acquire(Mode::Ex).await;
        let last = self.ready_last_page(session).await;
        self.tree.borrow_mut().states[last as usize].flags |= flag::SPLITTING | flag::REFERENCED;
        if self.counters.rows.get() == 0 {
            self.put_first_row(last);
        } else {
            self.append_page(last, session).await;
        }
        self.tree.borrow_mut().states[last as usize].flags &= !flag::SPLITTING;
        turn.release();
    }

    /// The last page, once it is in memory and no I/O is at it; nobody else can be, as it is this worker's turn.
    async fn ready_last_page(&self, session: &mut Session) -> u32 {
        let last = self.tree.borrow().last();
        loop {
            let flags = self.tree.borrow().states[last as usize].flags;
            if flags & flag::BUSY == 0 {
                return last;
            }
            if flags & flag::ABSENT == 0 {
                self.wait_for(last, Mode::Ex).await;
                continue;
            }
            // Nobody came for so long that it was let go.
            session.cpu_ns += self.read_cpu_ns(last);
            self.charge(session).await;
            self.fetch(last, Mode::Ex).await;
        }
    }

    /// The table's first page is there before its first row.
    fn put_first_row(&self, leaf: u32) {
        let leaf = &mut self.tree.borrow_mut().states[leaf as usize];
        leaf.rows = 1;
        add(&self.counters.dirty_pages, u64::from(leaf.flags & flag::DIRTY == 0));
        leaf.flags |= flag::DIRTY;
        add(&self.counters.rows, 1);
    }

    async fn append_page(&self, last: u32, session: &mut Session) {
        let page = self.find_page(session).await;
        let parent = self.latch_above(RIGHT_EDGE, Level::Parent).await;
        if session.words.below(self.costs.index_fanout.value) == 0 {
            self.split_parent(RIGHT_EDGE, session).await;
        }
        let cpu_ns = self.stray(self.costs.append_cpu_ns.value, &mut session.words);
        self.os.cpu_unbroken(cpu_ns).await;
        let right = self.leaf_on(page);
        self.tree.borrow_mut().append(right);
        add(&self.counters.rows, 1);
        parent.release();
        self.unlatched_above(Level::Parent);
        self.linked(last, right).await;
        add(&self.counters.splits, 1);
    }

    /// The file after the one that was searched last. At the right edge one worker at a time allocates, so equal files take turns
    /// strictly, by proportional fill. Nothing if all are full.
    fn next_in_turn(&self) -> Option<u32> {
        let files = self.files.borrow();
        let next = |file: u32| (file + 1) % files.count();
        let turns = std::iter::successors(Some(next(self.last_file.get())), |&file| Some(next(file)));
        let mut turns = turns.take(files.count() as usize);
        let found = turns.find(|&file| !files.is_full(file))?;
        self.last_file.set(found);
        Some(found)
    }

    /// Allocates a page where this worker allocated last, if nobody has been there since; else after a search.
    async fn find_page(&self, session: &mut Session) -> u32 {
        let kept = session.kept.filter(|_| self.switches.keep_file);
        let kept = kept.filter(|&(file, next_page)| {
            let files = self.files.borrow();
            files.next_page(file) == next_page && !files.is_full(file)
        });
        if kept.is_none() {
            let cpu_ns = self.stray(self.costs.find_page_cpu_ns.value, &mut session.words);
            self.os.cpu_unbroken(cpu_ns).await;
        }
        let file = kept.map(|(file, _)| file).or_else(|| self.next_in_turn());
        let page = self.allocate(&mut session.own_file, file, &mut session.words).await;
        let file = page / self.layout.pages_per_file;
        session.kept = Some((file, self.files.borrow().next_page(file)));
        page
    }
}
