//! A run of the engine, and what is recorded during it.

mod fill;

use crate::block::{Before, BlockError, Hardware, Progress, Work};
use crate::engine::files::Layout;
use crate::engine::resource::name_of;
use crate::engine::{Engine, Reading, Table};
use crate::figures::ratio;
use crate::kernel::{Ns, SEC, scaled_ns};
use crate::outcome::{CounterTable, CrowdRow, DriveOutcome, RunOutcome, Series, VolumeOutcome, WaitRow, WaitingSample};
use crate::rng::Rng;
use crate::scenario::{Prepared, Refusal, RunPlan, Scenario};
use crate::sqlos::{self, Account, Config, Machine, Notice, Sqlos, WaitType};
use crate::volume::Volume;

/// Every how many points of the time series waiting tasks are sampled, and the most lines of a sample.
const WAITING_EVERY: usize = 20;
const WAITING_LINES: usize = 8;

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the run.
    pub run: usize,
    /// Operations done so far. Usually these are rows inserted. It is 0 during the phase that fills the table.
    pub rows: u64,
    /// The number of operations in the whole run.
    pub rows_in_all: u64,
}

impl Work for Scenario {
    type Outcome = RunOutcome;
    type Step = Step;
    type Filled = Option<Table>;

    fn check(&self) -> Result<(), Refusal> {
        Self::check(self)
    }

    fn hardware(&self) -> Hardware<'_> {
        Hardware {
            drives: &self.drives,
            volumes: &self.volumes,
            scale: self.scale,
            seed: self.seed,
        }
    }

    fn prepared(&self) -> Option<Prepared> {
        None
    }

    fn start_of(&self, run: usize) -> Option<(u64, Before)> {
        let before = |plan: &RunPlan| {
            if plan.format_before {
                Before::Format
            } else {
                Before::Delete
            }
        };
        self.runs.get(run).map(|plan| (plan.seed, before(plan)))
    }

    fn fills(&self, run: usize) -> bool {
        let load = &self.runs[run].workload;
        load.kind.amounts(load).filled_rows > 0
    }

    fn fill(
        &self,
        run: usize,
        volumes: Vec<Volume>,
        progress: Progress<'_, Step>,
    ) -> (Vec<Volume>, Result<Option<Table>, BlockError>) {
        let (volumes, filled) = fill::fill(self, run, volumes, progress);
        (volumes, filled.map(Some))
    }

    fn make(
        &self,
        run: usize,
        filled: Option<Table>,
        volumes: Vec<Volume>,
        every_io: bool,
        progress: Progress<'_, Step>,
    ) -> (Vec<Volume>, Result<RunOutcome, BlockError>) {
        let plan = &self.runs[run];
        let layout = match self.layout_of(plan) {
            Ok(layout) => layout,
            Err(defect) => return (volumes, Err(defect)),
        };
        let os = Sqlos::new(self.sqlos_config());
        let table = filled.unwrap_or_else(|| Table::empty(self, plan, &layout));
        let engine = Engine::new(&os, self, plan, layout, table, volumes, every_io);
        let made = Run::new(run, self, plan, &os, &engine).make(progress);
        let made = made.map(|outcome| RunOutcome {
            every_io: engine.take_trace(),
            ..outcome
        });
        (engine.take_volumes(), made)
    }

    fn add(outcome: &mut RunOutcome, drives: Vec<DriveOutcome>, volumes: Vec<VolumeOutcome>) {
        outcome.drives = drives;
        outcome.volumes = volumes;
    }
}

impl Scenario {
    /// Returns the position of a run's files.
    fn layout_of(&self, plan: &RunPlan) -> Result<Layout, BlockError> {
        let defect = |(field, what)| BlockError::Defect(format!("{field}: {what}"));
        let mut layout = Layout::of(self, plan).map_err(defect)?;
        if plan.files_shift {
            layout.shift(&mut Rng::stream(plan.seed, "file system"));
        }
        Ok(layout)
    }

    fn sqlos_config(&self) -> Config {
        let server = &self.server;
        Config {
            quantum_ns: server.costs.quantum_ns.value,
            wake_ns: server.costs.wake_ns.value,
            notice: if server.switches.notice_at_switch {
                Notice::AtSwitch
            } else {
                Notice::AtOnce
            },
            ..Config::new(server.cores)
        }
    }
}

/// A run in progress, with its clock and its records.
struct Run<'r, 'w> {
    index: usize,
    plan: &'r RunPlan,
    os: &'w Sqlos,
    engine: &'r Engine<'w>,
    interval_ns: Ns,
    operations: u64,
    start: Reading,
    last: Reading,
    last_ns: Ns,
    series: Series,
    waiting: Vec<WaitingSample>,
}

impl<'r, 'w> Run<'r, 'w> {
    fn new(index: usize, scenario: &Scenario, plan: &'r RunPlan, os: &'w Sqlos, engine: &'r Engine<'w>) -> Self {
        let interval_ns = scaled_ns(scenario.sample_every_s, scenario.scale).max(1);
        let start = engine.reading();
        Self {
            index,
            plan,
            os,
            engine,
            interval_ns,
            operations: plan.workload.operations(scenario.scale),
            last: start.clone(),
            start,
            last_ns: 0,
            series: Series::default(),
            waiting: Vec::new(),
        }
    }

    fn make(mut self, progress: Progress<'_, Step>) -> Result<RunOutcome, BlockError> {
        let mut machine = Machine::new(self.os);
        self.engine.start(&mut machine);
        // If the table could not be filled, the run fails before its first operation.
        while self.engine.failure().is_none() {
            let until = self.last_ns + self.interval_ns;
            let state = machine
                .run_until(until)
                .map_err(|stuck| BlockError::Defect(stuck.to_string()))?;
            self.sample();
            if self.engine.failure().is_none() && state == sqlos::Progress::Finished {
                self.engine.check_end().map_err(BlockError::Defect)?;
                break;
            }
            #[cfg(debug_assertions)]
            if self.series.at_ns.len().is_multiple_of(8 * WAITING_EVERY) {
                self.engine.check().map_err(BlockError::Defect)?;
            }
            let step = Step {
                run: self.index,
                rows: self.engine.operations_done(),
                rows_in_all: self.operations,
            };
            if progress(step).is_break() {
                return Err(BlockError::Interrupted);
            }
        }
        self.engine.check().map_err(BlockError::Defect)?;
        Ok(self.outcome())
    }

    /// Adds a point to the time series. At some points it also samples the waiting tasks.
    fn sample(&mut self) {
        let now_ns = self.os.now();
        let now = self.engine.reading();
        let passed_ns = now_ns - self.last_ns;
        if passed_ns == 0 {
            return;
        }
        let rate = |after: u64, before: u64| ratio(after - before, passed_ns) * ratio(SEC, 1);
        let last = &self.last;
        let series = &mut self.series;
        series.at_ns.push(now_ns);
        series
            .rows_per_s
            .push(rate(now.counters.rows.get(), last.counters.rows.get()));
        series
            .read_bytes_per_s
            .push(8192.0 * rate(now.counters.reads.get(), last.counters.reads.get()));
        series
            .written_bytes_per_s
            .push(8192.0 * rate(now.counters.written_pages.get(), last.counters.written_pages.get()));
        series
            .log_bytes_per_s
            .push(rate(now.counters.log_bytes.get(), last.counters.log_bytes.get()));
        series
            .write_amplification
            .push(now.flash.write_amplification_since(&last.flash));
        series.utilisation.push(now.flash.utilisation());
        series.dirty_pages.push(now.dirty_pages);
        series.runnable.push(now.runnable);
        series.io_in_progress.push(now.io_in_progress);
        if series.at_ns.len().is_multiple_of(WAITING_EVERY) {
            let mut tasks = self.engine.waiting();
            tasks.truncate(WAITING_LINES);
            self.waiting.push(WaitingSample { at_ns: now_ns, tasks });
        }
        self.last = now;
        self.last_ns = now_ns;
    }

    fn outcome(self) -> RunOutcome {
        let books = self.os.books();
        let connections = self.plan.workload.connections;
        let sum = books.sessions.total_ns();
        assert!(
            sum == u64::from(connections) * books.elapsed_ns,
            "waits and CPU time are {sum} ns, connections x elapsed {connections} x {} ns",
            books.elapsed_ns
        );
        RunOutcome {
            run: self.index,
            failure: self.engine.failure().map(|failure| failure.to_string()),
            elapsed_ns: books.elapsed_ns,
            rows: self.last.counters.rows.get(),
            connections,
            waits: wait_rows(&books.sessions),
            cpu_ns: books.sessions.cpu_ns,
            finished_early_ns: books.sessions.finished_ns,
            background_waits: wait_rows(&books.background),
            background_cpu_ns: books.background.cpu_ns,
            counters: self.counters(),
            series: self.series,
            waiting_tasks: self.waiting,
            crowds: crowd_rows(self.os, &books.sessions),
            drives: Vec::new(),
            volumes: Vec::new(),
            every_io: None,
        }
    }

    fn counters(&self) -> CounterTable {
        let (now, counted) = (&self.last, &self.last.counters);
        let (memory_phase_rows, memory_phase_cpu_ns) = self.engine.memory_phase();
        let (reads, writes) = (counted.reads.get(), counted.writes.get());
        CounterTable {
            reads,
            read_latency_ns: counted.read_ns.get() / reads.max(1),
            writes,
            write_latency_ns: counted.write_ns.get() / writes.max(1),
            written_pages: counted.written_pages.get(),
            checkpoint_pages: counted.checkpoint_pages.get(),
            lazy_pages: counted.lazy_pages.get(),
            evicted_clean: counted.evicted_clean.get(),
            evicted_dirty: counted.evicted_dirty.get(),
            rescued: counted.rescued.get(),
            checkpoints: counted.checkpoints.get(),
            log_flushes: counted.log_flushes.get(),
            log_bytes: counted.log_bytes.get(),
            leaf_pages: now.leaf_pages,
            index_pages: counted.index_splits.get(),
            splits: counted.splits.get(),
            point_reads: counted.point_reads.get(),
            memory_phase_rows,
            memory_phase_cpu_ns,
            table_bytes: (now.leaf_pages + counted.index_splits.get()) * crate::engine::geometry::PAGE_BYTES,
            pool_pages: self.engine.pool_pages(),
            write_amplification: now.flash.write_amplification_since(&self.start.flash),
            fingerprint: self.os.fingerprint(),
            events: self.os.kernel().steps(),
        }
    }
}

fn wait_rows(account: &Account) -> Vec<WaitRow> {
    let used = WaitType::ALL.iter().map(|&wait| (wait, account.of(wait)));
    let mut rows: Vec<WaitRow> = used
        .filter(|(_, sum)| sum.count > 0 || sum.wait_ns() > 0)
        .map(|(wait, sum)| WaitRow {
            wait_type: wait.name(),
            resource_ns: sum.resource_ns,
            signal_ns: sum.signal_ns,
            count: sum.count,
        })
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.wait_ns()), row.wait_type));
    rows
}

/// Returns the crowds. Asserts that their times add up to the sessions' waits.
fn crowd_rows(os: &Sqlos, sessions: &Account) -> Vec<CrowdRow> {
    let crowds = os.crowds();
    for &wait in WaitType::ALL {
        let of_wait = crowds.iter().filter(|crowd| crowd.wait == wait);
        let (counted_ns, wait_ns): (Ns, Ns) = (
            of_wait.map(|crowd| crowd.sessions_ns).sum(),
            sessions.of(wait).wait_ns(),
        );
        assert!(
            counted_ns == wait_ns,
            "sessions waited {wait_ns} ns in {}, and {counted_ns} ns by kind of resource",
            wait.name()
        );
    }
    let mut rows: Vec<CrowdRow> = crowds
        .iter()
        .map(|crowd| CrowdRow {
            wait_type: crowd.wait.name(),
            kind: name_of(crowd.kind),
            sessions_ns: crowd.sessions_ns,
            any_ns: crowd.any_ns,
            most: crowd.most,
        })
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.sessions_ns), row.wait_type, row.kind));
    rows
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::Block;
    use crate::tests::world::{profile, server};

    /// The scenario's check leaves room for random differences in the size of a table. This test does not call it.
    #[test]
    fn a_table_that_outgrows_its_files_fails_its_run_in_plain_words_and_the_next_run_is_made() {
        let run = |rows: u64| {
            serde_json::json!({
                "data_files": 3, "data_volumes": ["a"], "log_volume": "a", "seed": 1, "data_bytes": 3_000_000_000_u64,
                "workload": {"kind": "random-insert", "connections": 8, "rows_per_connection": rows, "rows_per_transaction": 10},
            })
        };
        let scenario = serde_json::json!({
            "scale": 1000, "seed": 1, "server": server(&serde_json::json!({"cores": 2, "memory_bytes": 8_000_000_000_u64})),
            "drives": {"ssd": {"profile": profile("iodrive-320"), "format": "basic", "driver": "2.2.3", "sector_bytes": 512}},
            "volumes": {"a": {"drives": ["ssd"]}}, "runs": [run(100_000), run(100_000)],
        });
        let scenario: Scenario = serde_json::from_value(scenario).expect("a scenario");
        let mut block = Block::new(scenario).expect("so few rows fit");
        block.scenario.runs[0].workload.rows_per_connection = 5_000_000;
        let mut next = || {
            block
                .run_next(|_| ControlFlow::Continue(()))
                .expect("no defect")
                .expect("a run")
        };
        let (full, after) = (next(), next());
        assert!(
            full.failure
                .is_some_and(|why| why.starts_with("the data files are full"))
        );
        assert!(full.rows > 5_000 && full.rows < 40_000, "{} rows", full.rows);
        assert_eq!((after.failure, after.rows), (None, 800));
    }
}
