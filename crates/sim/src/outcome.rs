//! The outcome of a run: plain data that serde writes as JSON. Times are simulated nanoseconds of the scaled world.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::disk;
use crate::trace::IoRecord;
use crate::volume::{self, Volume};

/// The outcome of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutcome {
    /// The number of the run in the scenario.
    pub run: usize,
    /// `None` if the run succeeded. Otherwise the reason, as readable text.
    pub failure: Option<String>,
    /// The time from the first row to the last commit.
    pub elapsed_ns: u64,
    /// Rows inserted.
    pub rows: u64,
    /// Connections that inserted them.
    pub connections: u32,
    /// The sessions' waits, longest first. Their sum, `cpu_ns` and `finished_early_ns` add up to connections x elapsed.
    pub waits: Vec<WaitRow>,
    /// The sum of the sessions' CPU time.
    pub cpu_ns: u64,
    /// The sum, over sessions, of the time from the session's end to the run's end.
    pub finished_early_ns: u64,
    /// The waits of the background workers: the checkpoint and the lazy writer.
    pub background_waits: Vec<WaitRow>,
    /// The sum of the background workers' CPU time.
    pub background_cpu_ns: u64,
    /// Sums over the run.
    pub counters: CounterTable,
    /// The time series of the run.
    pub series: Series,
    /// Samples of what workers waited for.
    pub waiting_tasks: Vec<WaitingSample>,
    /// How many sessions waited at the same time, the longest waits first.
    pub crowds: Vec<CrowdRow>,
    /// The state of the drives at the end.
    pub drives: Vec<DriveOutcome>,
    /// The volumes, except those that are only one flash drive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeOutcome>,
    /// Every I/O, if the caller asked for the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_io: Option<Vec<IoRecord>>,
}

/// Waits of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// SQL Server's name of the type.
    pub wait_type: &'static str,
    /// The time until the resource was ready.
    pub resource_ns: u64,
    /// The time until the worker got a core after that.
    pub signal_ns: u64,
    /// The number of waits.
    pub count: u64,
}

impl WaitRow {
    /// The sum of resource and signal time.
    #[must_use]
    pub const fn wait_ns(&self) -> u64 {
        self.resource_ns + self.signal_ns
    }
}

/// Waits of one type for resources of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrowdRow {
    /// SQL Server's name for the wait.
    pub wait_type: &'static str,
    /// The kind of resource, as in a sample's resources. It is empty if the kind has no name.
    pub kind: &'static str,
    /// The sum of the sessions' waits. Over all kinds of a wait type, this is the same as in its [`WaitRow`].
    pub sessions_ns: u64,
    /// The time in which at least one session waited.
    pub any_ns: u64,
    /// The most sessions that waited at the same time.
    pub most: u32,
}

/// Sums over a run. Pages are database pages of 8 KB, unless they are called flash pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterTable {
    /// Pages read.
    pub reads: u64,
    /// The mean time of a read until its end is noticed.
    pub read_latency_ns: u64,
    /// Writes of one or more adjacent pages.
    pub writes: u64,
    /// The mean time of a write until its end is noticed.
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
    /// Pages chosen for eviction that were used again before they were evicted.
    pub rescued: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Writes of log.
    pub log_flushes: u64,
    /// Bytes of log written, including padding.
    pub log_bytes: u64,
    /// Leaves.
    pub leaf_pages: u64,
    /// The number of index pages that were added above the leaves.
    pub index_pages: u64,
    /// Splits of leaves.
    pub splits: u64,
    /// Rows read one by one. JSON leaves this out if it is 0.
    #[serde(skip_serializing_if = "is_none")]
    pub point_reads: u64,
    /// Rows inserted before the first page was read. Until then, all of the table was in memory.
    pub memory_phase_rows: u64,
    /// The sessions' CPU time before the first page was read.
    pub memory_phase_cpu_ns: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Pages of the buffer pool.
    pub pool_pages: u64,
    /// Flash pages programmed per page that the host wrote, in this run, over all drives.
    pub write_amplification: f64,
    /// A hash of all that the workers did. Equal runs have equal hashes.
    pub fingerprint: u64,
    /// The number of events in the simulation.
    pub events: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_none(count: &u64) -> bool {
    *count == 0
}

/// The time series of a run, by columns. Rates are per simulated second, over the interval that ends at `at_ns`.
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
    /// Write amplification in the interval. It is 1 if nothing was written.
    pub write_amplification: Vec<f64>,
    /// The share of the flash that holds data.
    pub utilisation: Vec<f64>,
    /// The number of dirty pages.
    pub dirty_pages: Vec<u64>,
    /// The number of workers that wait for their core.
    pub runnable: Vec<u64>,
    /// The number of I/Os of pages and log in progress.
    pub io_in_progress: Vec<u64>,
}

/// What workers waited for at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingSample {
    /// The time.
    pub at_ns: u64,
    /// The waits, those with the most workers first.
    pub tasks: Vec<WaitingTask>,
}

/// Workers that wait in the same type of wait for the same resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingTask {
    /// The type of the wait.
    pub wait_type: &'static str,
    /// The resource in readable form, such as "PFS 5:1:1520544".
    pub resource: String,
    /// The number of these workers.
    pub workers: u32,
}

/// A drive at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveOutcome {
    /// Its name in the scenario.
    pub name: String,
    /// The share of the flash that holds data.
    pub utilisation: f64,
    /// Flash pages programmed per page that the host wrote, in this run.
    pub write_amplification: f64,
    /// Flash pages that the host wrote in this run.
    pub host_pages: u64,
    /// Flash pages that garbage collection moved in this run.
    pub moved_pages: u64,
    /// The host memory that its map takes.
    pub host_ram_bytes: u64,
    /// The sum of the times that its dies were busy.
    pub die_busy_ns: u64,
    /// How often garbage collection began to take turns with the host.
    #[serde(rename = "cleaning_bursts")]
    pub collection_bursts: u64,
    /// The counters of a disk. The flash figures are then 0, and write amplification is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<disk::Counters>,
    /// The figures of a drive of another kind, by its own names. The flash figures are then as for a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<BTreeMap<&'static str, u64>>,
}

impl DriveOutcome {
    /// Makes the outcome of a drive that is not flash, without the drive's own figures.
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
    /// Its counters.
    #[serde(flatten)]
    pub counters: volume::Counters,
    /// The time that data took on its link, in both directions.
    pub link_busy_ns: u64,
    /// The number of failed drives.
    pub lost_drives: u32,
}

impl VolumeOutcome {
    /// Makes the outcome from a volume's counters.
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
