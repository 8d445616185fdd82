//! Inserts of rows with random keys, mixed with point reads of existing rows.

use super::{Key, Load};
use crate::engine::Engine;
use crate::engine::random_rows::WithReads;
use crate::scenario::Workload;
use crate::sqlos::Machine;

#[derive(Debug)]
pub(super) struct Mixed;

/// The number of reads in a thousand operations. The other operations are inserts.
const READS: Key = Key {
    name: "read_per_mille",
    question: "of a thousand operations of a mixed load, how many read?",
    least: 0,
    most: 990, // about a hundred reads for each row
};

impl Load for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn keys(&self) -> &'static [Key] {
        &[READS]
    }

    fn point_reads(&self, workload: &Workload, operations: u64) -> u64 {
        let reads = workload.own(&READS);
        operations.saturating_mul(reads) / 1000_u64.saturating_sub(reads).max(1)
    }

    fn start<'r>(&self, engine: &'r Engine<'_>, machine: &mut Machine<'r>) {
        let mix = WithReads {
            per_mille: engine.workload.own(&READS),
        };
        engine.spawn_sessions(machine, async move |engine, session| {
            engine.random_rows(session, mix).await;
            engine.commit(session).await;
        });
    }
}
