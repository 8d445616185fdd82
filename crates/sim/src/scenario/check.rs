//! Refuses impossible scenarios before a run is made, and names the wrong key.

use super::{Kind, Refusal, RunPlan, Scenario, Server, Workload, refuse};
use crate::engine::files::{Layout, index_pages_for};
use crate::engine::geometry::{EXTENT_PAGES, Geometry, PAGE_BYTES};
use crate::figures::Group;
use crate::figures::life_size;
use crate::kernel::{MS, TIME_LIMIT_NS};

/// Limits on the numbers in a scenario.
const MOST_CORES: u32 = 256;
const MOST_CONNECTIONS: u32 = 4096;
const MOST_FILES: u32 = 128;
/// With fewer pages, sessions would wait for each other's frames.
const LEAST_POOL_PAGES: u64 = 256;
/// Each session may hold a few frames at the same time: for a leaf, its new neighbour, and a leaf that is being read.
const FRAMES_PER_CONNECTION: u64 = 4;
/// The most pages of a buffer pool: 8 TiB.
const MOST_POOL_PAGES: u64 = 1 << 30;
/// The extents that a file may leave unused, because they are partly used or by chance.
const EXTENTS_PER_FILE: u64 = 4;
/// At a larger scale, a PFS page would cover less than an extent.
const LARGEST_SCALE: u32 = 1000;
/// The most rows of a table in the scaled world. With more, the 32 bits of a key would not suffice to split pages.
const MOST_ROWS: u64 = 1 << 31;
/// The most index pages above the leaves, at life-size.
const MOST_INDEX_PAGES: u64 = 1 << 31;
/// The shortest scaled period of checkpoints. With a shorter one, the simulation would hardly do anything else.
const SHORTEST_PERIOD_NS: u64 = MS;
/// The longest sum of the CPU times of a run's rows: about 200 days.
const LONGEST_RUN_NS: u64 = TIME_LIMIT_NS / 4;

impl Scenario {
    /// Checks whether the scenario can be run.
    ///
    /// # Errors
    /// Returns the first thing that is wrong, and how to fix it.
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

    /// Returns the pages of the buffer pool at the scenario's scale.
    #[must_use]
    pub(crate) fn pool_pages(&self) -> u64 {
        let bytes = u128::from(self.server.memory_bytes) * u128::from(self.server.costs.pool_per_mille.value) / 1000;
        let pages = bytes / u128::from(PAGE_BYTES) / u128::from(self.scale);
        u64::try_from(pages).unwrap_or(u64::MAX)
    }

    fn check_server(&self) -> Result<(), Refusal> {
        let server = &self.server;
        if server.cores == 0 || server.cores > MOST_CORES {
            return refuse("server.cores", format!("{}: must be 1 to {MOST_CORES}", server.cores));
        }
        server.check_costs()?;
        let least_ns = SHORTEST_PERIOD_NS * u64::from(self.scale);
        if server.costs.checkpoint_period_ns.value < least_ns {
            let what = format!(
                "is {}, must be at least {least_ns} at scale {}",
                server.costs.checkpoint_period_ns.value, self.scale
            );
            return refuse("server.costs.checkpoint_period_ns", what);
        }
        if server.switches.pick_tries > MOST_FILES {
            let what = format!("{}: must be at most {MOST_FILES}", server.switches.pick_tries);
            return refuse("server.pick_tries", what);
        }
        let pages = self.pool_pages();
        if pages > MOST_POOL_PAGES {
            let what = format!("leaves a buffer pool of {pages} pages, and it can have {MOST_POOL_PAGES}: less memory");
            return refuse("server.memory_bytes", what);
        }
        if pages < LEAST_POOL_PAGES {
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
        check_own_keys(load).or_else(|(name, what)| refuse(place(&format!("workload.{name}")), what))?;
        self.check_rows(index, run)?;
        self.check_room(index, run)
    }

    fn check_rows(&self, index: usize, run: &RunPlan) -> Result<(), Refusal> {
        let place = || format!("runs[{index}].workload.rows_per_connection");
        let (load, costs) = (&run.workload, &self.server.costs);
        let (rows, operations) = (load.table_rows(self.scale), load.operations(self.scale));
        if rows == 0 || operations == 0 {
            let what = format!(
                "{} at scale {} leaves no row",
                run.workload.rows_per_connection, self.scale
            );
            return refuse(place(), what);
        }
        if rows > MOST_ROWS {
            return refuse(
                place(),
                format!(
                    "{rows} rows in all at this scale, and there can be {MOST_ROWS}: fewer rows, or a larger scale"
                ),
            );
        }
        let commit_ns = costs.commit_cpu_ns.value / u64::from(run.workload.rows_per_transaction);
        let read_ns = costs.read_row_cpu_ns.value + costs.read_cpu_ns.value;
        let row_ns = costs.row_cpu_ns.value + costs.read_cpu_ns.value + commit_ns;
        let of_rows_ns = rows.saturating_mul(row_ns);
        let reads = load.kind.point_reads(load, operations);
        let of_reads_ns = reads.saturating_mul(read_ns);
        let serial_ns = rows.saturating_mul(load.kind.serial_ns(costs));
        let parallel_ns = of_rows_ns.saturating_add(of_reads_ns) / u64::from(self.server.cores);
        if parallel_ns.max(serial_ns) > LONGEST_RUN_NS {
            let what = "these rows would take months by their CPU time alone: fewer rows, or smaller server.costs";
            return refuse(place(), what);
        }
        let leaves = load.kind.leaves(rows);
        if leaves * u64::from(self.scale) / costs.index_fanout.value > MOST_INDEX_PAGES {
            let what = "these rows take more pages above the leaves than there can be: fewer rows, or a larger \
                        server.costs.index_fanout";
            return refuse(place(), what);
        }
        let kept = index_pages_for(leaves, costs.index_fanout.value);
        let least = kept + FRAMES_PER_CONNECTION * u64::from(run.workload.connections);
        if self.pool_pages() < least {
            let what = format!(
                "{rows} rows have about {kept} index pages above the leaves, which stay in memory, and the buffer pool has {} \
                 pages: more memory, or fewer rows",
                self.pool_pages()
            );
            return refuse(place(), what);
        }
        Ok(())
    }

    /// Checks that the files fit on their volumes, and that the table fits into the files.
    fn check_room(&self, index: usize, run: &RunPlan) -> Result<(), Refusal> {
        let place = |field: &str| format!("runs[{index}].{field}");
        let layout = Layout::of(self, run).or_else(|(field, what)| refuse(place(field), what))?;
        let block_bytes = self.log_block_bytes(&layout)?;
        if block_bytes > layout.log.2 {
            let what = format!(
                "at scale {} a block of log, which does not shrink, takes up to {}, and the log has {}: a larger log, or a smaller \
                 scale",
                self.scale,
                life_size(block_bytes, self.scale),
                life_size(layout.log.2, self.scale)
            );
            return refuse("server.costs.log_block_bytes", what);
        }
        let rows = run.workload.table_rows(self.scale);
        let leaves = run.workload.kind.leaves(rows);
        let unused = EXTENTS_PER_FILE * u64::from(EXTENT_PAGES) * u64::from(run.data_files);
        let needed = leaves + index_pages_for(leaves, self.server.costs.index_fanout.value) + unused;
        let there = layout.table_pages(Geometry::new(self.scale));
        if needed > there {
            return refuse(
                place("workload.rows_per_connection"),
                format!(
                    "{} rows take about {} of pages, and the data files have room for {}: fewer rows, a larger drive or another \
                     format would fit",
                    rows * u64::from(self.scale),
                    life_size(needed * PAGE_BYTES, self.scale),
                    life_size(there * PAGE_BYTES, self.scale)
                ),
            );
        }
        Ok(())
    }

    /// Returns the bytes of the longest block of log, padded to the sectors of its volume.
    fn log_block_bytes(&self, layout: &Layout) -> Result<u64, Refusal> {
        let sector_bytes = self.sector_bytes(&layout.volumes[layout.log.0])?;
        Ok(self.server.costs.log_block_bytes.value.next_multiple_of(sector_bytes))
    }
}

/// Checks the keys that only some loads have. An error names a key that is missing, beyond its limits or not allowed.
fn check_own_keys(load: &Workload) -> Result<(), (String, String)> {
    for key in load.kind.keys() {
        let limits = format!("{} to {}", key.least, key.most);
        let what = match load.own.get(key.name).copied().flatten() {
            None => format!("is missing: {} {limits}", key.question),
            Some(value) if value < key.least || value > key.most => format!("{value}: must be {limits}"),
            Some(_) => continue,
        };
        return Err((key.name.to_owned(), what));
    }
    let mut given = load
        .own
        .iter()
        .filter(|(_, value)| value.is_some())
        .map(|(name, _)| name);
    let strange = given.find(|name| load.kind.keys().iter().all(|key| key.name != *name));
    strange.map_or(Ok(()), |name| Err((name.clone(), strange_key(load, name))))
}

fn strange_key(load: &Workload, name: &str) -> String {
    let kind = load.kind.name();
    match Kind::with_key(name).as_slice() {
        [] => "is no key of a load: leave it out".to_owned(),
        kinds => format!(
            "is for kind = \"{}\" alone: leave it out for \"{kind}\"",
            kinds.join("\" or \"")
        ),
    }
}

impl Server {
    fn check_costs(&self) -> Result<(), Refusal> {
        let costs = &self.costs;
        if costs.pool_per_mille.value > 1000 {
            return refuse(
                "server.costs.pool_per_mille",
                "the buffer pool can't be larger than the memory: at most 1000",
            );
        }
        let limits = costs.check_limits();
        limits.or_else(|(name, what)| refuse(format!("server.costs.{name}"), what))
    }
}
