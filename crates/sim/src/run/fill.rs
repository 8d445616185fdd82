//! The phase of a run that fills the table. It inserts rows with random keys, on its own clock, which is not reported.
//!
//! It ends when all pages are written. The pages that its last inserts left in memory are in memory when the measured
//! phase begins. If it fails, the run fails.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::block::{BlockError, Progress};
use crate::engine::{Engine, Table};
use crate::kernel::{MS, Ns};
use crate::scenario::{Kind, RunPlan, Scenario, Workload};
use crate::sqlos::{self, Machine, Sqlos};
use crate::volume::Volume;

use super::Step;

/// The simulated time between two calls of `progress`.
const LOOK_EVERY_NS: Ns = 10 * MS;

/// Fills the table of a run. Returns the volumes and the table.
pub(super) fn fill(
    scenario: &Scenario,
    run: usize,
    volumes: Vec<Volume>,
    progress: Progress<'_, Step>,
) -> (Vec<Volume>, Result<Table, BlockError>) {
    let plan = plan_of(&scenario.runs[run]);
    let layout = match scenario.layout_of(&plan) {
        Ok(layout) => layout,
        Err(defect) => return (volumes, Err(defect)),
    };
    let os = Sqlos::new(scenario.sqlos_config());
    let table = Table::empty(scenario, &plan, &layout);
    let engine = Engine::new(&os, scenario, &plan, layout, table, volumes, false);
    let step = Step {
        run,
        rows: 0,
        rows_in_all: scenario.runs[run].workload.operations(scenario.scale),
    };
    let done = insert_all(&os, &engine, || progress(step));
    let volumes = engine.take_volumes();
    (volumes, done.map(|()| engine.into_table()))
}

/// Returns the plan of a run that fills the table of `run`.
fn plan_of(run: &RunPlan) -> RunPlan {
    let load = &run.workload;
    RunPlan {
        workload: Workload {
            kind: Kind::FILLING,
            rows_per_connection: load.kind.amounts(load).filled_rows,
            own: BTreeMap::new(),
            ..load.clone()
        },
        ..run.clone()
    }
}

fn insert_all(
    os: &Sqlos,
    engine: &Engine<'_>,
    mut progress: impl FnMut() -> ControlFlow<()>,
) -> Result<(), BlockError> {
    let mut machine = Machine::new(os);
    engine.start(&mut machine);
    machine.spawn_session(engine.write_all_pages());
    loop {
        let state = machine.run_until(os.now() + LOOK_EVERY_NS);
        let state = state.map_err(|stuck| BlockError::Defect(stuck.to_string()))?;
        if state == sqlos::Progress::Finished || engine.failure().is_some() {
            return engine.check().map_err(BlockError::Defect);
        }
        if progress().is_break() {
            return Err(BlockError::Interrupted);
        }
    }
}
