//! The work of a run's connections. A load is one file with a type that implements [`Load`], and a line in [`LOADS`].

use std::fmt::Debug;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Engine;
use super::counters::Counters;
use super::geometry::ROWS_PER_PAGE;
use crate::kernel::Ns;
use crate::scenario::{Costs, Workload};
use crate::sqlos::Machine;

mod mixed;
mod point_read;
mod random_insert;
mod sequential_insert;

/// All kinds of loads.
const LOADS: &[Kind] = &[
    Kind(&random_insert::RandomInsert),
    Kind(&mixed::Mixed),
    Kind(&sequential_insert::SequentialInsert),
    Kind(&point_read::PointRead),
];

/// A kind of load. A run has two phases: one that fills the table, which is not measured, and one that the clock measures.
pub trait Load: Debug + Sync {
    /// Its name in a scenario.
    fn name(&self) -> &'static str;

    /// Its keys, in addition to those of all loads.
    fn keys(&self) -> &'static [Key] {
        &[]
    }

    /// The work of each connection in each phase, life-size.
    fn amounts(&self, workload: &Workload) -> Amounts {
        Amounts {
            filled_rows: 0,
            inserted_rows: workload.rows_per_connection,
            operations: workload.rows_per_connection,
        }
    }

    /// The expected number of point reads in a run of this many operations.
    fn point_reads(&self, _workload: &Workload, _operations: u64) -> u64 {
        0
    }

    /// CPU time of a row that no other worker can spend at the same time.
    fn serial_ns(&self, _costs: &Costs) -> Ns {
        0
    }

    /// An upper estimate of the number of leaves in a table of this many rows.
    fn leaves(&self, rows: u64) -> u64 {
        leaves_of_random_keys(rows)
    }

    /// The number of finished operations.
    fn done(&self, counters: &Counters) -> u64 {
        counters.rows.get()
    }

    /// Adds the sessions to the machine.
    fn start<'r>(&self, engine: &'r Engine<'_>, machine: &mut Machine<'r>);
}

/// A key that only some loads have: a whole number.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, as a question.
    pub question: &'static str,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be.
    pub most: u64,
}

/// The work of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Rows that it inserts, with random keys, before the clock starts.
    pub filled_rows: u64,
    /// Rows that it inserts afterwards.
    pub inserted_rows: u64,
    /// The operations that its transactions are made of.
    pub operations: u64,
}

/// With random keys, leaves are about ln 2 full. Chance and the last splits change this slightly.
fn leaves_of_random_keys(rows: u64) -> u64 {
    let pages = u128::from(rows) * 100 / (66 * u128::from(ROWS_PER_PAGE));
    u64::try_from(pages).unwrap_or(u64::MAX)
}

/// A kind of load, by its name.
#[derive(Clone, Copy, Debug)]
pub struct Kind(pub &'static dyn Load);

impl Kind {
    /// Random inserts, which also fill tables.
    pub const FILLING: Self = Self(&random_insert::RandomInsert);

    /// The kinds that have the key `name`.
    pub fn with_key(name: &str) -> Vec<&'static str> {
        let has = LOADS
            .iter()
            .filter(|kind| kind.keys().iter().any(|key| key.name == name));
        has.map(|kind| kind.name()).collect()
    }
}

impl std::ops::Deref for Kind {
    type Target = dyn Load;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let kind = LOADS.iter().find(|kind| kind.name() == name);
        kind.copied().ok_or_else(|| {
            let names: Vec<&str> = LOADS.iter().map(|kind| kind.name()).collect();
            de::Error::custom(format!("no load '{name}'; there is: {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests;
