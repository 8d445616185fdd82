//! Rows with random keys: bursts of inserts up to the next wait, with point reads between them if the load is mixed;
//! and single leaves for other loads.

use super::Engine;
use super::leaf::{Leaf, flag};
use super::session::Session;
use super::tree::Tree;
use crate::hint::rare;
use crate::rng::{Rng, Spread};
use crate::sqlos::{Latch, Mode};

/// Which of a session's operations are reads. It is a type and not a number, so that pure inserts need no check.
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

/// Why a burst ends before all is done.
pub(super) enum Stop<'w> {
    /// Its burst is long enough.
    Long,
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
    fn next_row(&mut self, cpu: Spread, mix: impl Mix, tree: &Tree) {
        self.key = self.words.next_key(tree);
        self.cpu_ns += cpu.of(self.key.word);
        self.reads_next = mix.reads_next(&mut self.reads);
    }
}

impl<'w> Engine<'w> {
    /// A transaction's rows, with the rows read between them.
    pub(super) async fn random_rows(&self, session: &mut Session, mix: impl Mix) {
        self.until_done(session, |session| self.burst(session, mix)).await;
        self.charge(session).await;
    }

    /// The leaf for a random key, in memory and not in use in a way that blocks `mode`, and a random word for the CPU
    /// time of the operation on it. Waits if necessary. Use the leaf before the next wait.
    pub(super) async fn random_leaf(&self, mode: Mode, session: &mut Session) -> (u64, Leaf) {
        session.key = session.words.next_key(&self.tree.borrow());
        session.reads_next = mode == Mode::Sh;
        let reach = |session: &mut Session| self.reach(&mut self.tree.borrow_mut(), session, session.reads_next);
        let leaf = self.until_done(session, reach).await;
        self.tree.borrow_mut().state_mut(leaf).refer();
        (session.key.word, leaf)
    }

    /// Makes bursts until one has completed the work. After every other burst, it spends the CPU time of the finished
    /// work, and waits until the reason for the stop is over.
    pub(super) async fn until_done<Done>(
        &self,
        session: &mut Session,
        mut burst: impl FnMut(&mut Session) -> Result<Done, Stop<'w>>,
    ) -> Done {
        loop {
            let stop = match burst(session) {
                Ok(done) => return done,
                Err(stop) => stop,
            };
            if let Stop::Absent(leaf) = stop {
                session.cpu_ns += self.read_cpu_ns(leaf);
            }
            // Like `charge`, but without a future in between, because this runs every few rows.
            self.os.cpu(std::mem::take(&mut session.cpu_ns)).await;
            if rare(!self.let_log_out(session)) {
                self.log.room().await;
            }
            match stop {
                Stop::Long => {}
                Stop::Above(latch) => latch.acquire(Mode::Sh).await.release(),
                Stop::Busy(leaf) => self.wait_for(leaf, session.mode()).await,
                Stop::Absent(leaf) => {
                    if self.begin_fetch(leaf) {
                        self.park_for(leaf, session.mode()).await;
                        self.tree.borrow_mut().state_mut(leaf).end_wait();
                    }
                }
                Stop::Full(leaf) => self.split(leaf, session).await,
            }
        }
    }

    /// Inserts rows, and reads rows if the load is mixed, until the transaction has all its rows or the session must
    /// wait. It takes no simulated time itself. The cost is in the session's books.
    fn burst<M: Mix>(&self, session: &mut Session, mix: M) -> Result<(), Stop<'w>> {
        let mut tree = self.tree.borrow_mut();
        let (mut inserted, mut read) = (0, 0);
        let end = loop {
            if inserted == session.left {
                break Ok(());
            }
            let leaf = match self.reach(&mut tree, session, M::READS && session.reads_next) {
                Ok(leaf) => leaf,
                Err(stop) => break Err(stop),
            };
            let state = tree.state_mut(leaf);
            if M::READS && session.reads_next && state.rows() > 0 {
                state.refer();
                read += 1;
                session.next_row(self.sessions.read_row, mix, &tree);
            } else if state.is_full() {
                break Err(Stop::Full(leaf));
            } else {
                tree.insert_row(leaf);
                inserted += 1;
                session.next_row(self.sessions.row, mix, &tree);
            }
        };
        session.left -= inserted;
        session.log_bytes += u64::from(inserted) * self.costs.log_row_bytes.value;
        self.counters.rows.add(u64::from(inserted));
        self.counters.point_reads.add(read);
        end
    }

    /// The leaf for the session's next row, in memory and free for a read or a change, or why the session must stop first. A leaf
    /// in use that a session at life-size would hardly meet ([`Engine::meets_users`]) is left for another key.
    #[inline(always)]
    fn reach(&self, tree: &mut Tree, session: &mut Session, reads: bool) -> Result<Leaf, Stop<'w>> {
        loop {
            if session.cpu_ns >= self.costs.burst_ns.value {
                return Err(Stop::Long);
            }
            if let Some(latch) = self.above.barred(session.key.key) {
                return Err(Stop::Above(latch));
            }
            let leaf = tree.find_again(session.key.from, session.key.key);
            let state = tree.state_mut(leaf);
            // An empty table has nothing to read.
            if !state.is(if reads && state.rows() > 0 {
                flag::UNREADABLE
            } else {
                flag::BUSY
            }) {
                return Ok(leaf);
            }
            state.refer();
            if state.is(flag::ABSENT) {
                return Err(Stop::Absent(leaf));
            }
            if self.meets_users(session) {
                return Err(Stop::Busy(leaf));
            }
            session.key = session.words.next_key(tree);
        }
    }

    /// Whether a session that finds a leaf in use waits for it. As many leaves are in use at once as at life-size, but
    /// there are fewer leaves. Sessions must not meet leaves in use more often than at life-size.
    #[inline(always)]
    fn meets_users(&self, session: &mut Session) -> bool {
        session.words.below(u64::from(self.scale)) == 0
    }
}
