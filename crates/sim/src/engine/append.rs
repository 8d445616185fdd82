//! Rows of a page each with ascending keys: all connections meet at the right edge of the index.
//!
//! A row takes a new page. Its worker latches the last page exclusively (`PAGELATCH_EX`), and the parent, allocates the next page
//! under the latch of a PFS page, and links it: it is the last one now. Whoever waited for the old last page goes down again.
//!
//! So one worker at a time is at it, whatever the drives, and how long it takes decides. Much of it is finding a page: the
//! place where a worker allocated last is as good as found, unless somebody else has allocated in that file since. Then
//! it searches, and in any file. With as many files as workers each ends up alone in one.

use super::session::Session;
use super::tree::flag;
use super::{Engine, Level, add};
use crate::sqlos::{LatchClass, Mode};

/// The key of all that goes to the right edge.
const RIGHT_EDGE: u32 = u32::MAX;

impl Engine<'_> {
    /// A transaction's rows.
    pub(super) async fn ascending_rows(&self, session: &mut Session) {
        while session.rows_left > 0 {
            session.rows_left -= 1;
            session.cpu_ns += self.row_ns.of(session.rng.next_u64());
            self.charge(session).await;
            while !self.append(session).await {}
            session.log_bytes += self.costs.log_page_row_bytes.value;
        }
        self.charge(session).await;
    }

    /// Puts the next row behind all others; false if somebody else was at the last page: then it is to be tried again.
    async fn append(&self, session: &mut Session) -> bool {
        if let Some(latch) = self.barred_above(RIGHT_EDGE) {
            latch.acquire(Mode::Sh).await.release();
            return false;
        }
        let (last, flags) = {
            let tree = self.tree.borrow();
            (tree.last(), tree.states[tree.last() as usize].flags)
        };
        if flags & flag::ABSENT != 0 {
            // Nobody came for so long that it was let go.
            session.cpu_ns += self.read_cpu_ns(last);
            self.charge(session).await;
            self.fetch(last, Mode::Ex).await;
            return false;
        }
        if flags & flag::BUSY != 0 {
            self.wait_for(last, Mode::Ex).await;
            return false;
        }
        self.tree.borrow_mut().states[last as usize].waiters += 1;
        let hold = self.leaf_latch(last, LatchClass::Page).acquire(Mode::Ex).await;
        let is_last = {
            let mut tree = self.tree.borrow_mut();
            let is_last = tree.last() == last;
            let leaf = &mut tree.states[last as usize];
            leaf.waiters -= 1;
            let free = is_last && leaf.flags & flag::BUSY == 0;
            if free {
                leaf.flags |= flag::SPLITTING | flag::REFERENCED;
            }
            free
        };
        if !is_last {
            return false;
        }
        if self.is_empty() {
            self.put_first_row(last);
        } else if self.switches.parent_latches {
            let parent = self.latch_above(RIGHT_EDGE, Level::Parent).await;
            self.append_page(last, session).await;
            parent.release();
            self.unlatched_above(Level::Parent);
        } else {
            self.append_page(last, session).await;
        }
        self.tree.borrow_mut().states[last as usize].flags &= !flag::SPLITTING;
        hold.release();
        true
    }

    fn is_empty(&self) -> bool {
        self.counters.rows.get() == 0
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
        if session.rng.below(self.costs.index_fanout.value) == 0 {
            self.split_parent(RIGHT_EDGE, session).await;
        }
        let page = self.find_page(session).await;
        let cpu_ns = self.stray(self.costs.append_cpu_ns.value, &mut session.rng);
        self.os.cpu_unbroken(cpu_ns).await;
        let right = self.leaf_on(page);
        self.tree.borrow_mut().append(right);
        add(&self.counters.rows, 1);
        self.linked(last, right).await;
        add(&self.counters.splits, 1);
    }

    /// Allocates a page where this worker allocated last, if nobody has been there since; else after a search.
    async fn find_page(&self, session: &mut Session) -> u32 {
        let kept = session.kept.filter(|_| self.switches.keep_file);
        let kept = kept.filter(|&(file, next_page)| {
            let files = self.files.borrow();
            files.next_page(file) == next_page && !files.is_full(file)
        });
        if kept.is_none() {
            let cpu_ns = self.stray(self.costs.find_page_cpu_ns.value, &mut session.rng);
            self.os.cpu_unbroken(cpu_ns).await;
        }
        let kept = kept.map(|(file, _)| file);
        let page = self.allocate(&mut session.own_file, kept, &mut session.rng).await;
        let file = page / self.layout.pages_per_file;
        session.kept = Some((file, self.files.borrow().next_page(file)));
        page
    }
}
