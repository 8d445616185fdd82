//! Refusing what can't be, by name, before anything runs.

use super::{Refusal, RunPlan, Scenario};
use crate::engine::geometry::PAGE_BYTES;

/// Limits of what a scenario may ask for.
const MOST_CORES: u32 = 256;
const MOST_CONNECTIONS: u32 = 4096;
const MOST_FILES: u32 = 128;
/// With fewer, sessions would wait for each other's frames.
const LEAST_POOL_PAGES: u64 = 256;
/// Each session may hold a few at once: a leaf, its new neighbour, one being read.
const FRAMES_PER_CONNECTION: u64 = 4;
/// Beyond it a PFS page would cover less than an extent.
const LARGEST_SCALE: u32 = 1000;

pub(super) fn refuse<T>(place: impl Into<String>, what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        place: place.into(),
        what: what.into(),
    })
}

impl Scenario {
    /// Says what can't be run, and the way out.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.scale == 0 || self.scale > LARGEST_SCALE {
            let what = format!(
                "{}: must be 1 (life-size) to {LARGEST_SCALE} (so many times smaller)",
                self.scale
            );
            return refuse("scale", what);
        }
        if !(self.sample_every_s > 0.0 && self.sample_every_s < 1e6) {
            return refuse("sample_every_s", "must be a positive number of seconds");
        }
        self.check_server()?;
        super::hardware::check(&self.drives, &self.volumes, self.scale)?;
        if self.runs.is_empty() {
            return refuse("runs", "there are none: a scenario needs at least one");
        }
        (0..)
            .zip(&self.runs)
            .try_for_each(|(index, run)| self.check_run(index, run))
    }

    /// Pages of the buffer pool at the scenario's scale.
    #[must_use]
    pub fn pool_pages(&self) -> u64 {
        let bytes = u128::from(self.server.memory_bytes) * u128::from(self.server.costs.pool_per_mille.value) / 1000;
        let pages = bytes / u128::from(PAGE_BYTES) / u128::from(self.scale);
        u64::try_from(pages).unwrap_or(u64::MAX)
    }

    fn check_server(&self) -> Result<(), Refusal> {
        let server = &self.server;
        if server.cores == 0 || server.cores > MOST_CORES {
            return refuse("server.cores", format!("{}: must be 1 to {MOST_CORES}", server.cores));
        }
        let costs = &server.costs;
        let positive = [
            ("quantum_ns", &costs.quantum_ns),
            ("row_cpu_ns", &costs.row_cpu_ns),
            ("burst_ns", &costs.burst_ns),
            ("index_fanout", &costs.index_fanout),
            ("gather_pages", &costs.gather_pages),
            ("checkpoint_period_ns", &costs.checkpoint_period_ns),
            ("checkpoint_writes", &costs.checkpoint_writes),
            ("lazy_writes", &costs.lazy_writes),
            ("log_block_bytes", &costs.log_block_bytes),
            ("log_writes", &costs.log_writes),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, figure)| figure.value == 0) {
            return refuse(format!("server.costs.{name}"), "is 0, must be positive");
        }
        if costs.cpu_jitter_per_mille.value > 1000 {
            return refuse("server.costs.cpu_jitter_per_mille", "can't be over 1000");
        }
        if costs.pool_per_mille.value > 1000 {
            return refuse(
                "server.costs.pool_per_mille",
                "the buffer pool can't be larger than the memory: at most 1000",
            );
        }
        let pages = self.pool_pages();
        if !(LEAST_POOL_PAGES..=u64::from(u32::MAX)).contains(&pages) {
            let what = format!(
                "leaves a buffer pool of {pages} pages at scale {}, and it takes at least {LEAST_POOL_PAGES}: more memory, or a \
                 smaller scale",
                self.scale
            );
            return refuse("server.memory_bytes", what);
        }
        Ok(())
    }

    fn check_run(&self, index: usize, run: &RunPlan) -> Result<(), Refusal> {
        let place = |field: &str| format!("runs[{index}].{field}");
        if run.data_files == 0 || run.data_files > MOST_FILES {
            return refuse(
                place("data_files"),
                format!("{}: must be 1 to {MOST_FILES}", run.data_files),
            );
        }
        if run.data_volumes.is_empty() {
            return refuse(place("data_volumes"), "is empty: name at least one volume");
        }
        let known: Vec<&str> = self.volumes.keys().map(String::as_str).collect();
        for (field, name) in run
            .data_volumes
            .iter()
            .map(|name| ("data_volumes", name))
            .chain([("log_volume", &run.log_volume)])
        {
            if !self.volumes.contains_key(name) {
                return refuse(
                    place(field),
                    format!("no volume '{name}'; there is: {}", known.join(", ")),
                );
            }
        }
        let load = &run.workload;
        if load.connections == 0 || load.connections > MOST_CONNECTIONS {
            let place = place("workload.connections");
            return refuse(place, format!("{}: must be 1 to {MOST_CONNECTIONS}", load.connections));
        }
        let least = FRAMES_PER_CONNECTION * u64::from(load.connections);
        if self.pool_pages() < least {
            let pages = self.pool_pages();
            let what = format!(
                "{} need a buffer pool of {least} pages, and at this scale it has {pages}",
                load.connections
            );
            return refuse(place("workload.connections"), what);
        }
        if load.rows_per_transaction == 0 {
            return refuse(
                place("workload.rows_per_transaction"),
                "is 0: a transaction has at least one row",
            );
        }
        let rows = load.rows_per_connection / u64::from(self.scale);
        if rows == 0 {
            let what = format!("{} at scale {} leaves no row", load.rows_per_connection, self.scale);
            return refuse(place("workload.rows_per_connection"), what);
        }
        self.check_room(index, run)
    }

    /// Whether the files fit their volumes, and the table the files.
    fn check_room(&self, index: usize, run: &RunPlan) -> Result<(), Refusal> {
        let place = |field: &str| format!("runs[{index}].{field}");
        let layout = crate::engine::files::Layout::of(self, run).map_err(|what| Refusal {
            place: place("data_files"),
            what,
        })?;
        let rows = run.workload.rows_per_connection / u64::from(self.scale) * u64::from(run.workload.connections);
        let needed = layout.pages_for(rows);
        let there = layout.data_pages();
        if needed > there {
            return refuse(
                place("workload.rows_per_connection"),
                format!(
                    "{rows} rows take about {needed} pages, and the data files have {there} (at scale {}): fewer rows, a larger \
                     drive or another format would fit",
                    self.scale
                ),
            );
        }
        Ok(())
    }
}
