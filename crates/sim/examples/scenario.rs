//! Runs a scenario in JSON from the standard input, and prints what came of each run at life-size.
//!
//! `cargo run --release --package storagelab-sim --example scenario < FILE`
//!
//! A drive's profile may be given by its name among the ready-made ones, as in `tests/golden`.
#![expect(clippy::print_stdout, reason = "it is for people")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::ops::ControlFlow;

use serde_json::Value;
use storagelab_sim::outcome::RunOutcome;
use storagelab_sim::run::Block;
use storagelab_sim::scenario::Scenario;

fn named_profile(name: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/storagelab/profiles");
    let text = std::fs::read_to_string(format!("{folder}/{name}.toml")).expect("a ready-made profile");
    toml::from_str(&text).expect("a profile in TOML")
}

fn main() {
    let mut json: Value = serde_json::from_reader(std::io::stdin()).expect("a scenario in JSON");
    for drive in json["drives"].as_object_mut().expect("drives by name").values_mut() {
        if let Some(name) = drive["profile"].as_str() {
            drive["profile"] = named_profile(name);
        }
    }
    let scenario: Scenario = serde_json::from_value(json).expect("a scenario");
    let scale = u64::from(scenario.scale);
    let files: Vec<u32> = scenario.runs.iter().map(|run| run.data_files).collect();
    let mut block = Block::new(scenario).unwrap_or_else(|refusal| panic!("{refusal}"));
    for files in files {
        let outcome = block.run_next(|_| ControlFlow::Continue(()));
        let outcome = outcome
            .unwrap_or_else(|error| panic!("{error}"))
            .expect("as many as planned");
        print(&outcome, files, scale);
    }
}

/// Seconds at life-size.
fn life_s(ns: u64, scale: u64) -> f64 {
    ns as f64 / 1e9 * scale as f64
}

fn print(outcome: &RunOutcome, files: u32, scale: u64) {
    let counts = &outcome.counters;
    let rows = outcome.rows as f64;
    println!(
        "{files} files: {:.0} s, CPU {:.1} us a row, {:.3} page reads and {:.3} point reads a row, {:.1} pages a write, read {:.0} us, \
         write {:.0} us, {} events, {}",
        life_s(outcome.elapsed_ns, scale),
        outcome.cpu_ns as f64 / 1e3 / rows,
        counts.reads as f64 / rows,
        counts.point_reads as f64 / rows,
        counts.written_pages as f64 / counts.writes.max(1) as f64,
        counts.read_latency_ns as f64 / 1e3,
        counts.write_latency_ns as f64 / 1e3,
        counts.events,
        outcome.failure.as_deref().unwrap_or("done"),
    );
    for row in outcome.waits.iter().take(6) {
        println!(
            "    {:<20} {:8.0} s + {:7.0} s signal, {:8.3} M",
            row.wait_type,
            life_s(row.resource_ns, scale),
            life_s(row.signal_ns, scale),
            row.count as f64 * scale as f64 / 1e6,
        );
    }
}
