//! The outcome of a run: plain data that serde writes as JSON. Times are simulated nanoseconds of the scaled world.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::disk;
use crate::trace::IoRecord;
use crate::volume::{self, Volume};

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutcome {
    /// Its place in the scenario.
    pub run: usize,
    /// `None` if it succeeded; otherwise the reason, as readable text.
    pub failure: Option<String>,
    /// From the first row to the last commit.
    pub elapsed_ns: u64,
    /// Rows inserted.
    pub rows: u64,
    /// Connections that inserted them.
    pub connections: u32,
    /// The sessions' waits, longest first; with `cpu_ns` and `finished_early_ns` they add up to connections x elapsed.
    pub waits: Vec<WaitRow>,
    /// Time that sessions computed.
    pub cpu_ns: u64,
    /// Time from each session's end to the run's.
    pub finished_early_ns: u64,
    /// The waits of the workers in the background: the checkpoint, the lazy writer.
    pub background_waits: Vec<WaitRow>,
    /// Time that these computed.
    pub background_cpu_ns: u64,
    /// Sums over the run.
    pub counters: CounterTable,
    /// The run over time.
    pub series: Series,
    /// Samples of the waiting workers and their resources.
    pub waiting_tasks: Vec<WaitingSample>,
    /// The number of sessions that waited at once, the longest waits first.
    pub crowds: Vec<CrowdRow>,
    /// The drives at the end.
    pub drives: Vec<DriveOutcome>,
    /// Volumes that are more than a flash drive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeOutcome>,
    /// Every I/O, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_io: Option<Vec<IoRecord>>,
}

/// Waits of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// SQL Server's name for it.
    pub wait_type: &'static str,
    /// Waiting for the resource.
    pub resource_ns: u64,
    /// Waiting for a core once the resource is ready.
    pub signal_ns: u64,
    /// How many waits.
    pub count: u64,
}

impl WaitRow {
    /// Resource and signal together.
    #[must_use]
    pub const fn wait_ns(&self) -> u64 {
        self.resource_ns + self.signal_ns
    }
}

/// Waits of one type for things of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrowdRow {
    /// SQL Server's name for the wait.
    pub wait_type: &'static str,
    /// The resource, as in a sample; empty if it has no name.
    pub kind: &'static str,
    /// Time that sessions waited: over a wait type, the same as in its [`WaitRow`].
    pub sessions_ns: u64,
    /// Time in which at least one did.
    pub any_ns: u64,
    /// The most sessions at once.
    pub most: u32,
}

/// Sums over a run. Pages are database pages of 8 KB unless they are flash pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterTable {
    /// Pages read.
    pub reads: u64,
    /// Mean time of a read at the drive, until noticed.
    pub read_latency_ns: u64,
    /// Writes of pages, gathered or not.
    pub writes: u64,
    /// Mean time of a write at the drive, until noticed.
    pub write_latency_ns: u64,
    /// Pages written.
    pub written_pages: u64,
    /// Pages that checkpoints wrote.
    pub checkpoint_pages: u64,
    /// Pages that the lazy writer wrote.
    pub lazy_pages: u64,
    /// Pages evicted without a write.
    pub evicted_clean: u64,
    /// Pages that had to be written before a read could use their frame.
    pub evicted_dirty: u64,
    /// Victims that were used again before they could leave.
    pub rescued: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Writes of log.
    pub log_flushes: u64,
    /// Bytes of log, padding included.
    pub log_bytes: u64,
    /// Leaves.
    pub leaf_pages: u64,
    /// Index pages above them that were added.
    pub index_pages: u64,
    /// Splits of leaves.
    pub splits: u64,
    /// Rows read one by one; left out of JSON if there are none.
    #[serde(skip_serializing_if = "is_none")]
    pub point_reads: u64,
    /// Rows inserted before the first page was read, while the whole table was in memory.
    pub memory_phase_rows: u64,
    /// Time that sessions computed up to then.
    pub memory_phase_cpu_ns: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Pages of the buffer pool.
    pub pool_pages: u64,
    /// Flash pages programmed per page that the host wrote, in this run, over all drives.
    pub write_amplification: f64,
    /// A hash over the workers' history: equal in equal runs.
    pub fingerprint: u64,
    /// Events of the simulation.
    pub events: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// A run over time, column by column; rates are per simulated second, over the interval that ends at `at_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// The ends of the intervals.
    pub at_ns: Vec<u64>,
    /// Rows a second.
    pub rows_per_s: Vec<f64>,
    /// Bytes of pages read a second.
    pub read_bytes_per_s: Vec<f64>,
    /// Bytes of pages written a second.
    pub written_bytes_per_s: Vec<f64>,
    /// Bytes of log written a second.
    pub log_bytes_per_s: Vec<f64>,
    /// Write amplification in the interval; 1 if nothing was written.
    pub write_amplification: Vec<f64>,
    /// Share of the flash that holds data.
    pub utilisation: Vec<f64>,
    /// Dirty pages.
    pub dirty_pages: Vec<u64>,
    /// Workers that wait for their core.
    pub runnable: Vec<u64>,
    /// I/Os of pages and log in progress.
    pub io_in_progress: Vec<u64>,
}

/// Who waited for what at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingSample {
    /// When.
    pub at_ns: u64,
    /// The waits, those with the most workers first.
    pub tasks: Vec<WaitingTask>,
}

/// Workers that wait for one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingTask {
    /// In which type of wait.
    pub wait_type: &'static str,
    /// For what, decoded: "PFS 5:1:1520544".
    pub resource: String,
    /// How many of them.
    pub workers: u32,
}

/// A drive at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveOutcome {
    /// Its name in the scenario.
    pub name: String,
    /// Share of the flash that holds data.
    pub utilisation: f64,
    /// Flash pages programmed per page that the host wrote, in this run.
    pub write_amplification: f64,
    /// Flash pages that the host wrote in this run.
    pub host_pages: u64,
    /// Flash pages that garbage collection moved in this run.
    pub moved_pages: u64,
    /// Memory of the host that its map takes.
    pub host_ram_bytes: u64,
    /// Time that its dies worked, in sum.
    pub die_busy_ns: u64,
    /// How often garbage collection began to take turns with the host.
    #[serde(rename = "cleaning_bursts")]
    pub collection_bursts: u64,
    /// For a disk: its work. The flash figures are then 0, or 1 for write amplification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<disk::Counters>,
    /// For a drive of another kind: its work, by its own names. The flash figures are then as for a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<BTreeMap<&'static str, u64>>,
}

impl DriveOutcome {
    /// Of a drive that is not flash, before its own figures.
    pub(crate) fn without_flash(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            utilisation: 0.0,
            write_amplification: 1.0,
            host_pages: 0,
            moved_pages: 0,
            host_ram_bytes: 0,
            die_busy_ns: 0,
            collection_bursts: 0,
            disk: None,
            device: None,
        }
    }
}

/// What a volume did in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeOutcome {
    /// Its name in the scenario.
    pub name: String,
    /// What it counted.
    #[serde(flatten)]
    pub counters: volume::Counters,
    /// Time that data took on its link, both directions.
    pub link_busy_ns: u64,
    /// Failed drives.
    pub lost_drives: u32,
}

impl VolumeOutcome {
    /// From what it counted.
    #[must_use]
    pub(crate) fn of(name: &str, volume: &Volume) -> Self {
        Self {
            name: name.to_owned(),
            counters: volume.counters(),
            link_busy_ns: volume.link_busy_ns(),
            lost_drives: volume.lost(),
        }
    }
}
