//! Inserts of rows with random keys, with point reads between them if the load is mixed: bursts of as many rows as go
//! without a wait.

use super::Engine;
use super::leaf::{Leaf, flag};
use super::session::Session;
use super::tree::Tree;
use crate::hint::rare;
use crate::rng::{Rng, Spread};
use crate::sqlos::{Latch, Mode};

/// Which of a session's operations are reads. A type and not a number, so that inserts alone cost no question.
pub(super) trait Mix: Copy {
    /// Whether any of them is.
    const READS: bool;

    /// Whether the next one is.
    fn reads_next(self, random: &mut Rng) -> bool;
}

/// None.
#[derive(Clone, Copy)]
pub(super) struct InsertsOnly;

impl Mix for InsertsOnly {
    const READS: bool = false;

    fn reads_next(self, _: &mut Rng) -> bool {
        false
    }
}

/// This many of a thousand.
#[derive(Clone, Copy)]
pub(super) struct WithReads {
    pub(super) per_mille: u64,
}

impl Mix for WithReads {
    const READS: bool = true;

    fn reads_next(self, random: &mut Rng) -> bool {
        random.below(1000) < self.per_mille
    }
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
    /// The mode in which it must hold the leaf's latch for its next row.
    const fn mode(&self) -> Mode {
        if self.reads_next { Mode::Sh } else { Mode::Ex }
    }

    /// A row is done. One random word serves both: the row's CPU time from its lower half, the next key from its upper half.
    #[inline(always)]
    fn next_row(&mut self, cpu: Spread, mix: impl Mix) {
        let (word, key) = self.words.next_key();
        self.cpu_ns += cpu.of(word);
        self.key = key;
        self.reads_next = mix.reads_next(&mut self.reads);
    }

    /// Another key instead of this one.
    #[inline(always)]
    fn change_key(&mut self, tree: &Tree) {
        self.words.look_ahead(tree);
        self.key = self.words.next_key().1;
    }
}

impl<'w> Engine<'w> {
    /// A transaction's rows, with the rows read between them.
    pub(super) async fn random_rows(&self, session: &mut Session, mix: impl Mix) {
        loop {
            let stop = self.burst(session, mix);
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

    /// Inserts rows, and reads rows if the load is mixed, until the session must wait. Takes no simulated time itself;
    /// the cost is in the session's books.
    fn burst<M: Mix>(&self, session: &mut Session, mix: M) -> Stop<'w> {
        let mut tree = self.tree.borrow_mut();
        let (mut inserted, mut read) = (0, 0);
        let stop = loop {
            session.words.look_ahead(&tree);
            if let Some(stop) = self.stop_before_row(session, inserted) {
                break stop;
            }
            let leaf = tree.find_again(session.key.from, session.key.key);
            let state = tree.state_mut(leaf);
            // An empty table has nothing to read.
            let reads = M::READS && session.reads_next && state.rows() > 0;
            if state.is(if reads { flag::UNREADABLE } else { flag::BUSY }) {
                state.refer();
                if state.is(flag::ABSENT) {
                    break Stop::Absent(leaf);
                }
                if self.meets_users(session) {
                    break Stop::Busy(leaf);
                }
                session.change_key(&tree);
            } else if reads {
                state.refer();
                read += 1;
                session.next_row(self.sessions.read_row, mix);
            } else if state.is_full() {
                break Stop::Full(leaf);
            } else {
                tree.insert_row(leaf);
                inserted += 1;
                session.next_row(self.sessions.row, mix);
            }
        };
        self.count_rows(session, inserted, read);
        stop
    }

    /// Why a burst ends before its next row, whatever the row's leaf.
    #[inline(always)]
    fn stop_before_row(&self, session: &Session, inserted: u32) -> Option<Stop<'w>> {
        if inserted == session.left {
            return Some(Stop::Done);
        }
        if session.cpu_ns >= self.costs.burst_ns.value {
            return Some(Stop::Long);
        }
        if self.above.latched() == 0 {
            return None;
        }
        self.above.barred(session.key.key).map(Stop::Above)
    }

    #[inline(always)]
    fn count_rows(&self, session: &mut Session, inserted: u32, read: u64) {
        session.left -= inserted;
        session.log_bytes += u64::from(inserted) * self.costs.log_row_bytes.value;
        self.counters.rows.add(u64::from(inserted));
        self.counters.point_reads.add(read);
    }
}
