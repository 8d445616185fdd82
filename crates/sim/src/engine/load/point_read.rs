//! Point reads of rows with random keys, in a table that was filled in the first phase.

use super::{Amounts, Key, Load};
use crate::engine::Engine;
use crate::engine::counters::Counters;
use crate::engine::session::Session;
use crate::scenario::Workload;
use crate::sqlos::{Machine, Mode};

#[derive(Debug)]
pub(super) struct PointRead;

const READS: Key = Key {
    name: "reads_per_connection",
    question: "how many rows does each connection read, once all connections have filled the table?",
    least: 1,
    most: 1 << 48,
};

impl Load for PointRead {
    fn name(&self) -> &'static str {
        "point-read"
    }

    fn keys(&self) -> &'static [Key] {
        &[READS]
    }

    fn amounts(&self, workload: &Workload) -> Amounts {
        Amounts {
            filled_rows: workload.rows_per_connection,
            inserted_rows: 0,
            operations: workload.own(&READS),
        }
    }

    fn point_reads(&self, _workload: &Workload, operations: u64) -> u64 {
        operations
    }

    fn done(&self, counters: &Counters) -> u64 {
        counters.point_reads.get()
    }

    fn start<'r>(&self, engine: &'r Engine<'_>, machine: &mut Machine<'r>) {
        engine.spawn_sessions(machine, async |engine, session| {
            engine.read_rows(session).await;
            engine.commit_nothing(session).await;
        });
    }
}

impl Engine<'_> {
    /// Does the reads of one transaction.
    async fn read_rows(&self, session: &mut Session) {
        while session.left > 0 {
            let (word, _leaf) = self.random_leaf(Mode::Sh, session).await;
            session.left -= 1;
            session.cpu_ns += self.sessions.read_row.of(word);
            self.counters.point_reads.add(1);
        }
    }
}
