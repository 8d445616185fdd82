//! The simulated scenario: a server, its drives, and the runs that are made on them one after another.
//!
//! A scenario is plain data ([`Scenario`] is read from JSON with serde) with real-world sizes. [`Scenario::scale`]
//! shrinks these, and rows and periods, in the simulated world. [`Scenario::check`] finds errors before a run.

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

/// One block: runs on one set of drives, which keep their state from run to run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// How many times smaller the world is. 1 is life-size.
    pub scale: u32,
    /// The seed of the drives. Each run has its own seed.
    pub seed: u64,
    /// The database server.
    pub server: Server,
    /// Drives by name.
    pub drives: BTreeMap<String, DriveChoice>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, VolumeChoice>,
    /// The runs, in order.
    pub runs: Vec<RunPlan>,
    /// The interval of the time series, in seconds at life-size.
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
    /// The number of data files. All have the same size.
    pub data_files: u32,
    /// The volumes of the data files, used in turn.
    pub data_volumes: Vec<String>,
    /// The volume of the log.
    pub log_volume: String,
    /// The sum of the data files' bytes; `None` for all space that is left on their volumes.
    #[serde(default)]
    pub data_bytes: Option<u64>,
    /// The bytes of the log file. When the log reaches its end, it continues at its beginning.
    #[serde(default = "run_defaults::log_bytes")]
    pub log_bytes: u64,
    /// The load.
    pub workload: Workload,
    /// The seed of everything that is random in the run.
    pub seed: u64,
    /// Whether all drives are formatted before this run.
    #[serde(default)]
    pub format_before: bool,
    /// Whether the file system puts the files at another place than in the previous run.
    #[serde(default)]
    pub files_shift: bool,
}

/// The defaults of keys of a run, for specs that do not set them.
pub mod run_defaults {
    crate::figures::constants! { "a run", default: true {
        log_bytes: u64 = 8_000_000_000, Assumed, "A usual size for these loads; it is written round and round";
    }}
}

/// A load at life-size. The scale divides its rows, but not its transactions and connections.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Workload {
    /// What the connections do.
    pub kind: Kind,
    /// The number of connections. They work at the same time.
    pub connections: u32,
    /// Rows that each connection inserts.
    pub rows_per_connection: u64,
    /// The operations in a transaction. Usually these are rows.
    pub rows_per_transaction: u32,
    /// The keys that only this kind of load has ([`crate::engine::load::Load::keys`]).
    #[serde(flatten)]
    pub own: BTreeMap<String, Option<u64>>,
}

impl Workload {
    /// Returns the value of a key that only this kind of load has, or 0 if it is missing.
    #[must_use]
    pub(crate) fn own(&self, key: &Key) -> u64 {
        self.own.get(key.name).copied().flatten().unwrap_or(0)
    }

    /// Returns the rows of the table at a scale, after all inserts.
    #[must_use]
    pub(crate) fn table_rows(&self, scale: u32) -> u64 {
        let amounts = self.kind.amounts(self);
        let scaled = |rows: u64| (rows / u64::from(scale)).saturating_mul(u64::from(self.connections));
        scaled(amounts.filled_rows).saturating_add(scaled(amounts.inserted_rows))
    }

    /// Returns the sum of all connections' operations at a scale.
    #[must_use]
    pub(crate) fn operations(&self, scale: u32) -> u64 {
        let each = self.kind.amounts(self).operations / u64::from(scale);
        each.saturating_mul(u64::from(self.connections))
    }
}

/// Why a scenario can't be run: what is wrong, where it is, and how to fix it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The place in the scenario, such as `runs[3].data_files`.
    pub place: String,
    /// The mistake there, and a solution.
    pub what: String,
}

/// Returns a refusal of what is at `place`.
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
