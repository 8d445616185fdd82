//! The simulated scenario: a server, its drives, and the runs made on them one after another.
//!
//! A scenario is plain data ([`Scenario`] reads from JSON with serde). Sizes are life-size. [`Scenario::scale`] shrinks
//! them, with rows and periods, when the simulation is built. [`Scenario::check`] refuses mistakes first.

mod check;
mod hardware;
mod server;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use hardware::{DriveChoice, Prepared};
pub(crate) use hardware::{check as check_hardware, map_of};
pub use server::{Costs, PfsLatch, PickFile, Server, Switches};

use crate::engine::load::Key;
pub use crate::engine::load::Kind;
pub use crate::volume::VolumeChoice;

/// One block: runs on one set of drives, whose state carries over from run to run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// How many times smaller the world is; 1 is life-size.
    pub scale: u32,
    /// Seeds what belongs to the block rather than to a run: the drives.
    pub seed: u64,
    /// The database server.
    pub server: Server,
    /// Drives by name.
    pub drives: BTreeMap<String, DriveChoice>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, VolumeChoice>,
    /// What is run, in order.
    pub runs: Vec<RunPlan>,
    /// Interval of the time series, in seconds at life-size.
    #[serde(default = "one")]
    pub sample_every_s: f64,
}

const fn one() -> f64 {
    1.0
}

/// One run: a layout of files and a load.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// How many data files, all of one size.
    pub data_files: u32,
    /// The volumes they lie on, in turn.
    pub data_volumes: Vec<String>,
    /// The volume of the log.
    pub log_volume: String,
    /// Bytes of all data files together; `None` for all space left on their volumes.
    #[serde(default)]
    pub data_bytes: Option<u64>,
    /// Bytes of the log file, which is written round and round.
    #[serde(default = "run_defaults::log_bytes")]
    pub log_bytes: u64,
    /// The load.
    pub workload: Workload,
    /// Seeds all that is random in the run.
    pub seed: u64,
    /// Whether all drives are formatted before this run.
    #[serde(default)]
    pub format_before: bool,
    /// Whether the file system puts the files in another place than in the previous run.
    #[serde(default)]
    pub files_shift: bool,
}

/// What a run has if its spec does not say.
pub mod run_defaults {
    crate::figures::constants! { "a run", default: true {
        log_bytes: u64 = 8_000_000_000, Assumed, "A usual size for these loads; it is written round and round";
    }}
}

/// A load, life-size. Rows are divided by the scale, but transactions and connections are not.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Workload {
    /// What the connections do.
    pub kind: Kind,
    /// How many connections, at once.
    pub connections: u32,
    /// Rows that each connection inserts.
    pub rows_per_connection: u64,
    /// Operations in a transaction: rows, most often.
    pub rows_per_transaction: u32,
    /// Keys that only this kind of load has ([`crate::engine::load::Load::keys`]).
    #[serde(flatten)]
    pub own: BTreeMap<String, Option<u64>>,
}

impl Workload {
    /// The value of a key that only this kind of load has; 0 if it is missing.
    #[must_use]
    pub(crate) fn own(&self, key: &Key) -> u64 {
        self.own.get(key.name).copied().flatten().unwrap_or(0)
    }

    /// Rows of the table at a scale, once all is inserted.
    #[must_use]
    pub(crate) fn table_rows(&self, scale: u32) -> u64 {
        let amounts = self.kind.amounts(self);
        let scaled = |rows: u64| (rows / u64::from(scale)).saturating_mul(u64::from(self.connections));
        scaled(amounts.filled_rows).saturating_add(scaled(amounts.inserted_rows))
    }

    /// Operations of all connections at a scale.
    #[must_use]
    pub(crate) fn operations(&self, scale: u32) -> u64 {
        let each = self.kind.amounts(self).operations / u64::from(scale);
        each.saturating_mul(u64::from(self.connections))
    }
}

/// The reason why a scenario can't be run: the mistake, its place, and a solution.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The place in the scenario, as in `runs[3].data_files`.
    pub place: String,
    /// The mistake there, and a solution.
    pub what: String,
}

/// Refuses what is at `place`.
pub(crate) fn refuse<T>(place: impl Into<String>, what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        place: place.into(),
        what: what.into(),
    })
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for Refusal {}
