//! Rows with random keys. A burst inserts rows until the session must wait, and reads rows between them if the load is
//! mixed. Other loads use single leaves.

use super::Engine;
use super::leaf::{Leaf, flag};
use super::session::Session;
use super::tree::Tree;
use crate::hint::rare;
use crate::rng::{Rng, Spread};
use crate::sqlos::{Latch, Mode};

/// Decides which of a session's operations are reads. It is a type, so a load of inserts needs no check at run time.
pub(super) trait Mix: Copy {
    /// Whether any operation is a read.
    const READS: bool;

    /// Returns whether the next operation is a read.
    fn reads_next(self, random: &mut Rng) -> bool;
}

/// No operation is a read.
#[derive(Clone, Copy)]
pub(super) struct InsertsOnly;

impl Mix for InsertsOnly {
    const READS: bool = false;

    fn reads_next(self, _: &mut Rng) -> bool {
        false
    }
}

/// `per_mille` of a thousand operations are reads.
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

/// The reason why a burst ends before the transaction is done.
pub(super) enum Stop<'w> {
    /// The burst has used the CPU time of one burst.
    Long,
    /// A page above the leaf is latched.
    Above(Latch<'w>),
    /// The leaf is in use.
    Busy(Leaf),
    /// The leaf is not in memory.
    Absent(Leaf),
    /// The leaf is full.
    Full(Leaf),
}

impl Session {
    /// Returns the mode in which it must latch the leaf for its next row.
    const fn mode(&self) -> Mode {
        if self.reads_next { Mode::Sh } else { Mode::Ex }
    }

    /// Ends a row. The lower half of one random word gives its CPU time, and the upper half gives the next key.
    #[inline(always)]
    fn next_row(&mut self, cpu: Spread, mix: impl Mix, tree: &Tree) {
        self.key = self.words.next_key(tree);
        self.cpu_ns += cpu.of(self.key.word);
        self.reads_next = mix.reads_next(&mut self.reads);
    }
}

impl<'w> Engine<'w> {
    /// Inserts the rows of one transaction, and reads rows between them if the load is mixed.
    pub(super) async fn random_rows(&self, session: &mut Session, mix: impl Mix) {
        self.until_done(session, |session| self.burst(session, mix)).await;
        self.charge(session).await;
    }

    /// Waits until the leaf for a random key is in memory and can be used in `mode`. Returns the leaf, and a random
    /// word for the CPU time of its use. The caller must use the leaf before its next wait.
    pub(super) async fn random_leaf(&self, mode: Mode, session: &mut Session) -> (u64, Leaf) {
        session.key = session.words.next_key(&self.tree.borrow());
        session.reads_next = mode == Mode::Sh;
        let reach = |session: &mut Session| self.reach(&mut self.tree.borrow_mut(), session, session.reads_next);
        let leaf = self.until_done(session, reach).await;
        self.tree.borrow_mut().state_mut(leaf).refer();
        (session.key.word, leaf)
    }

    /// Repeats bursts until one is done. After a burst that stopped early, charges the CPU time of its work, and waits
    /// until the reason for the stop is over.
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
            // This does the same as `charge` without another future, because it runs every few rows.
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
    /// wait. No simulated time passes here: the session's CPU time is added up and charged later.
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

    /// Returns the leaf for the session's next row when it is in memory and free for a read or a change, or why the
    /// session must stop first. If the leaf is in use, most sessions draw another key ([`Engine::meets_users`]).
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
            // In an empty table there is no row to read.
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

    /// Whether a session waits for a leaf that it finds in use. As many leaves are in use as at life-size, but there
    /// are fewer leaves. So without this draw, sessions would find leaves in use too often.
    #[inline(always)]
    fn meets_users(&self, session: &mut Session) -> bool {
        session.words.below(u64::from(self.scale)) == 0
    }
}
