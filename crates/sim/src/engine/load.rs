//! What the connections of a run do. A load is a file with a type that implements [`Load`], and a line in [`LOADS`].

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

/// A kind of load. A run has two phases. The first fills the table and is not measured. The second is measured.
pub trait Load: Debug + Sync {
    /// Its name in a scenario.
    fn name(&self) -> &'static str;

    /// The keys of its workload, in addition to those of all loads.
    fn keys(&self) -> &'static [Key] {
        &[]
    }

    /// Returns how much each connection does in each phase, at life-size.
    fn amounts(&self, workload: &Workload) -> Amounts {
        Amounts {
            filled_rows: 0,
            inserted_rows: workload.rows_per_connection,
            operations: workload.rows_per_connection,
        }
    }

    /// Returns the expected number of point reads among this many operations.
    fn point_reads(&self, _workload: &Workload, _operations: u64) -> u64 {
        0
    }

    /// Returns the part of a row's CPU time in which no other worker can insert.
    fn serial_ns(&self, _costs: &Costs) -> Ns {
        0
    }

    /// Returns about how many leaves a table of this many rows has, rather too many.
    fn leaves(&self, rows: u64) -> u64 {
        leaves_of_random_keys(rows)
    }

    /// Returns how many operations have been done.
    fn done(&self, counters: &Counters) -> u64 {
        counters.rows.get()
    }

    /// Adds the sessions to the machine.
    fn start<'r>(&self, engine: &'r Engine<'_>, machine: &mut Machine<'r>);
}

/// A key that only some loads have. Its value is a whole number.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, as a question.
    pub question: &'static str,
    /// The smallest allowed value.
    pub least: u64,
    /// The largest allowed value.
    pub most: u64,
}

/// The work of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Rows with random keys that it inserts before the measured phase.
    pub filled_rows: u64,
    /// Rows that it inserts in the measured phase.
    pub inserted_rows: u64,
    /// The number of operations in its transactions.
    pub operations: u64,
}

/// Estimates leaves, rather too many: with random keys they are about ln 2 (0.69) full, and 0.66 is assumed.
fn leaves_of_random_keys(rows: u64) -> u64 {
    let pages = u128::from(rows) * 100 / (66 * u128::from(ROWS_PER_PAGE));
    u64::try_from(pages).unwrap_or(u64::MAX)
}

/// A kind of load, by its name.
#[derive(Clone, Copy, Debug)]
pub struct Kind(pub &'static dyn Load);

impl Kind {
    /// Random inserts. The phase that fills tables uses them.
    pub const FILLING: Self = Self(&random_insert::RandomInsert);

    /// Returns the names of the kinds that have the key `name`.
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
