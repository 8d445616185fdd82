//! New pages of the index: leaves that split, the pages above them, and the frames that they need.

use super::Engine;
use super::above::Level;
use super::geometry::DbPage;
use super::leaf::{Leaf, flag};
use super::session::Session;
use crate::sqlos::{LatchClass, Mode};

impl Engine<'_> {
    /// Splits a full leaf: latches it and its parent, allocates a page, and moves half of the rows.
    pub(super) async fn split(&self, leaf: Leaf, session: &mut Session) {
        {
            let mut tree = self.tree.borrow_mut();
            let state = tree.state_mut(leaf);
            // While this worker's CPU time was charged, another worker or an I/O may have taken the leaf.
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
        let cpu_ns = self.sessions.split.of(session.words.next_u64() >> 32);
        self.os.cpu_unbroken(cpu_ns).await;
        let right = self.leaf_on(page);
        self.tree.borrow_mut().split(leaf, right);
        self.linked(right).await;
        session.log_bytes += self.costs.log_split_bytes.value;
        self.counters.splits.add(1);
    }

    /// Splits a page above the leaves while its parent is latched. This happens once per as many leaf splits as the
    /// page has entries.
    pub(super) async fn split_parent(&self, key: u32, session: &mut Session) {
        let hold = self.above.acquire(key, Level::Grandparent).await;
        self.allocate(None, session).await;
        let cpu_ns = self.sessions.split.of(session.words.next_u64() >> 32);
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

    /// Returns the leaf for a page that was just allocated.
    pub(super) fn leaf_on(&self, page: DbPage) -> Leaf {
        let leaf = self.files.borrow().leaf_on(page);
        leaf.expect("a page is taken with its extent")
    }

    /// Completes the link of leaf `right` to its left neighbour: counts the new leaf and gives it a frame.
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
