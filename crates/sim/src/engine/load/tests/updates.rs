//! A load that only the tests define: updates of rows with random keys, in a table that was filled before.

use super::super::{Amounts, Key, Load};
use crate::engine::Engine;
use crate::engine::counters::Counters;
use crate::engine::session::Session;
use crate::scenario::Workload;
use crate::sqlos::{Machine, Mode};

#[derive(Debug)]
pub(super) struct Updates;

const UPDATES: Key = Key {
    name: "updates_per_connection",
    question: "how many rows does each connection update?",
    least: 1,
    most: 1_000_000_000,
};

impl Load for Updates {
    fn name(&self) -> &'static str {
        "update"
    }

    fn keys(&self) -> &'static [Key] {
        &[UPDATES]
    }

    fn amounts(&self, workload: &Workload) -> Amounts {
        Amounts {
            filled_rows: workload.rows_per_connection,
            inserted_rows: 0,
            operations: workload.own(&UPDATES),
        }
    }

    fn done(&self, counters: &Counters) -> u64 {
        counters.point_reads.get()
    }

    fn start<'r>(&self, engine: &'r Engine<'_>, machine: &mut Machine<'r>) {
        engine.spawn_sessions(machine, async |engine, session| {
            update_rows(engine, session).await;
            engine.commit(session).await;
        });
    }
}

async fn update_rows(engine: &Engine<'_>, session: &mut Session) {
    while session.left > 0 {
        let (word, leaf) = engine.random_leaf(Mode::Ex, session).await;
        engine.tree.borrow_mut().change(leaf);
        session.left -= 1;
        session.cpu_ns += engine.sessions.row.of(word);
        session.log_bytes += engine.costs.log_row_bytes.value;
        engine.counters.point_reads.add(1);
    }
}
