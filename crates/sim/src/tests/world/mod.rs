//! Worlds for tests: article A's, and small ones. Scenarios are made as JSON, because users send JSON.
#![allow(dead_code, reason = "each test file needs some of it")]

pub(crate) mod profiles;
pub(crate) mod random;

use std::ops::ControlFlow;

use crate::Block;
use crate::outcome::{RunOutcome, WaitRow};
use crate::scenario::Scenario;
use serde_json::{Value, json};

pub(crate) use profiles::{profile, server};

/// The articles' drive, in JSON.
pub(crate) fn drive() -> Value {
    json!({"profile": profile("iodrive-320"), "format": "maximum-write", "driver": "2.2.3", "sector_bytes": 512})
}

/// One run of article A with this many files.
pub(crate) fn run(data_files: u32) -> Value {
    json!({
        "data_files": data_files, "data_volumes": ["a"], "log_volume": "a", "seed": 1,
        "workload": {"kind": "random-insert", "connections": 64, "rows_per_connection": 2_500_000, "rows_per_transaction": 1000},
    })
}

/// Article A's server and drive at a scale.
pub(crate) fn article_a(scale: u32, runs: &[Value]) -> Value {
    json!({
        "scale": scale, "seed": 1,
        "server": server(&json!({"cores": 8, "memory_bytes": 17_179_869_184_u64})),
        "drives": {"ssd": drive()},
        "volumes": {"a": {"drives": ["ssd"]}},
        "runs": runs,
    })
}

pub(crate) fn read(scenario: &Value) -> Scenario {
    serde_json::from_value(scenario.clone()).expect("a scenario")
}

/// Makes all runs of a scenario.
pub(crate) fn outcomes(scenario: &Value) -> Vec<RunOutcome> {
    let mut block = Block::new(read(scenario)).expect("a scenario that can be run");
    rest_of(&mut block)
}

/// Makes the runs of a block that are left.
pub(crate) fn rest_of(block: &mut Block) -> Vec<RunOutcome> {
    let next = || {
        block
            .run_next(|_| ControlFlow::Continue(()))
            .expect("a run without a defect")
    };
    std::iter::from_fn(next).collect()
}

/// Returns the waits of one type.
pub(crate) fn waits(outcome: &RunOutcome, wait_type: &'static str) -> WaitRow {
    let none = WaitRow {
        wait_type,
        resource_ns: 0,
        signal_ns: 0,
        count: 0,
    };
    outcome
        .waits
        .iter()
        .find(|row| row.wait_type == wait_type)
        .cloned()
        .unwrap_or(none)
}

/// Returns the difference between `value` and `expected`, as a fraction of `expected`.
pub(crate) fn off(value: f64, expected: f64) -> f64 {
    (value / expected - 1.0).abs()
}

#[expect(clippy::cast_precision_loss, reason = "figures to compare")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}
