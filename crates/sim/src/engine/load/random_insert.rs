//! Inserts of rows with random keys.

use super::Load;
use crate::engine::Engine;
use crate::engine::random_rows::InsertsOnly;
use crate::sqlos::Machine;

#[derive(Debug)]
pub(super) struct RandomInsert;

impl Load for RandomInsert {
    fn name(&self) -> &'static str {
        "random-insert"
    }

    fn start<'r>(&self, engine: &'r Engine<'_>, machine: &mut Machine<'r>) {
        engine.spawn_sessions(machine, async |engine, session| {
            engine.random_rows(session, InsertsOnly).await;
            engine.commit(session).await;
        });
    }
}
