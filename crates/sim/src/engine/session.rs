//! A session: the transactions of one connection, and the costs of their operations.

use std::cell::Cell;

use super::Engine;
use super::look_ahead::{Key, Words};
use super::tree::Tree;
use crate::hint::rare;
use crate::kernel::Ns;
use crate::rng::{Rng, Spread};
use crate::scenario::{RunPlan, Scenario};
use crate::sqlos::{Machine, WaitType};

/// The state that all sessions of a run share. Operations are those of the scaled world.
#[derive(Debug)]
pub(super) struct Sessions {
    connections: u32,
    operations_per_connection: u64,
    operations_per_transaction: u32,
    /// If connections share their operations: the number that no connection has begun.
    stock: Option<Cell<u64>>,
    seed: u64,
    /// The CPU times of an inserted row, of a read row, and of a commit.
    pub(super) row: Spread,
    pub(super) read_row: Spread,
    commit: Spread,
    /// CPU time of a split.
    pub(super) split: Spread,
    /// The CPU times at the right edge: to link a page, and to find it.
    pub(super) append: Spread,
    pub(super) find_page: Spread,
}

impl Sessions {
    /// Makes the state from a run's load.
    pub(super) fn new(scenario: &Scenario, run: &RunPlan) -> Self {
        let (load, costs) = (&run.workload, &scenario.server.costs);
        let spread = |mean_ns: Ns| Spread::new(mean_ns, costs.cpu_jitter_per_mille.value);
        let operations_per_connection = load.kind.amounts(load).operations / u64::from(scenario.scale);
        let operations = operations_per_connection * u64::from(load.connections);
        Self {
            connections: load.connections,
            operations_per_connection,
            operations_per_transaction: load.rows_per_transaction,
            stock: scenario.server.switches.common_stock.then(|| Cell::new(operations)),
            seed: run.seed,
            row: spread(costs.row_cpu_ns.value),
            read_row: spread(costs.read_row_cpu_ns.value),
            commit: spread(costs.commit_cpu_ns.value),
            split: spread(costs.split_cpu_ns.value),
            append: spread(costs.append_cpu_ns.value),
            find_page: spread(costs.find_page_cpu_ns.value),
        }
    }
}

/// A session's own state.
pub(super) struct Session {
    pub(super) words: Words,
    /// The key of the next row.
    pub(super) key: Key,
    /// Whether the next row is read instead of inserted. `reads` is the random stream that decides it.
    pub(super) reads_next: bool,
    pub(super) reads: Rng,
    /// Operations left in this transaction.
    pub(super) left: u32,
    /// The CPU time that is not charged yet, and the log that is not submitted yet.
    pub(super) cpu_ns: Ns,
    pub(super) log_bytes: u64,
    pub(super) own_file: u32,
    /// The file in which this session allocated last, and that file's next page at that time.
    pub(super) kept: Option<(u32, u32)>,
}

impl Session {
    fn new(seed: u64, connection: u32, files: u32, tree: &Tree) -> Self {
        let mut words = Words::new(Rng::stream(seed, &format!("connection {connection}")));
        Self {
            key: words.next_key(tree),
            words,
            reads_next: false,
            reads: Rng::stream(seed, &format!("reads of connection {connection}")),
            left: 0,
            cpu_ns: 0,
            log_bytes: 0,
            own_file: connection % files,
            kept: None,
        }
    }
}

impl Engine<'_> {
    /// Adds the sessions of all connections to the machine. `transaction` does the operations in `session.left`, and
    /// then commits.
    pub(super) fn spawn_sessions<'r>(
        &'r self,
        machine: &mut Machine<'r>,
        transaction: impl AsyncFn(&Self, &mut Session) + Copy + 'r,
    ) {
        for connection in 0..self.sessions.connections {
            machine.spawn_session(self.session(connection, transaction));
        }
    }

    /// Does the work of one connection, from its first operation to its last commit.
    async fn session(&self, connection: u32, transaction: impl AsyncFn(&Self, &mut Session)) {
        let sessions = &self.sessions;
        let files = self.files.borrow().count();
        let mut session = Session::new(sessions.seed, connection, files, &self.tree.borrow());
        let own = Cell::new(sessions.operations_per_connection);
        let stock = sessions.stock.as_ref().unwrap_or(&own);
        while stock.get() > 0 {
            let left = u32::try_from(stock.get()).unwrap_or(u32::MAX);
            let batch = left.min(sessions.operations_per_transaction);
            stock.set(stock.get() - u64::from(batch));
            session.left = batch;
            transaction(self, &mut session).await;
        }
    }

    /// Ends a transaction that changed something. It waits until the transaction's log is safe.
    pub(super) async fn commit(&self, session: &mut Session) {
        session.log_bytes += self.costs.log_transaction_bytes.value;
        self.commit_nothing(session).await;
        let flushed = self.log.commit();
        self.write_log();
        flushed.wait(WaitType::WriteLog).await;
    }

    /// Ends a transaction that only read.
    pub(super) async fn commit_nothing(&self, session: &mut Session) {
        session.cpu_ns += self.sessions.commit.of(session.words.next_u64() >> 32);
        self.charge(session).await;
    }

    /// Charges the CPU time of the work done, and submits its log.
    pub(super) async fn charge(&self, session: &mut Session) {
        self.os.cpu(std::mem::take(&mut session.cpu_ns)).await;
        if !self.let_log_out(session) {
            self.log.room().await;
        }
    }

    /// Submits the log of the work done. Returns false if the session must then wait for room in the log.
    #[inline(always)]
    pub(super) fn let_log_out(&self, session: &mut Session) -> bool {
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
}
