//! Runs a scenario in JSON from the standard input and prints the outcome of each run at life-size.
//!
//! `cargo run --release --package storagelab-sim --example scenario < FILE`
//!
//! A drive's profile may be given by its name among the ready-made ones, as in `tests/golden`.
#![expect(clippy::print_stdout, reason = "it is for people")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/whole/world/profiles.rs"]
mod profiles;

use std::ops::ControlFlow;

use serde_json::Value;
use storagelab_sim::outcome::RunOutcome;
use storagelab_sim::run::Block;
use storagelab_sim::scenario::Scenario;

fn main() {
    let mut json: Value = serde_json::from_reader(std::io::stdin()).expect("a scenario in JSON");
    for drive in json["drives"].as_object_mut().expect("drives by name").values_mut() {
        if let Some(name) = drive["profile"].as_str() {
            drive["profile"] = profiles::profile(name);
        }
    }
    json["server"] = profiles::server(&json["server"]);
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
    for (whose, rows) in [("", &outcome.waits), ("background ", &outcome.background_waits)] {
        for row in rows.iter().take(6) {
            println!(
                "    {:<34} {:8.0} s + {:7.0} s signal, {:8.3} M",
                format!("{whose}{}", row.wait_type),
                life_s(row.resource_ns, scale),
                life_s(row.signal_ns, scale),
                row.count as f64 * scale as f64 / 1e6,
            );
        }
    }
    for volume in &outcome.volumes {
        println!(
            "    volume {}: {} requests, {} writes into its cache, {} through it, {} read there, {} writes of {:.0} KB from it, link {:.0} %",
            volume.name,
            volume.requests,
            volume.cached_writes,
            volume.through_writes,
            volume.cache_hits,
            volume.destaged_writes,
            volume.destaged_bytes as f64 / 1e3 / volume.destaged_writes.max(1) as f64,
            volume.link_busy_ns as f64 / outcome.elapsed_ns as f64 * 100.0,
        );
    }
    for drive in &outcome.drives {
        let Some(disk) = &drive.disk else {
            println!(
                "    flash drive {}: {:.0} % used, write amplification {:.2}, {:.2} GB of the host's memory",
                drive.name,
                drive.utilisation * 100.0,
                drive.write_amplification,
                drive.host_ram_bytes as f64 * scale as f64 / 1e9,
            );
            continue;
        };
        let requests = (disk.reads + disk.writes).max(1) as f64;
        println!(
            "    disk {}: {} reads, {} writes, busy {:.0} %, seek {:.2} and turn {:.2} of {:.2} ms, {:.2} ms queued",
            drive.name,
            disk.reads,
            disk.writes,
            disk.busy_ns as f64 / outcome.elapsed_ns as f64 * 100.0,
            disk.seek_ns as f64 / 1e6 / requests,
            disk.turn_ns as f64 / 1e6 / requests,
            disk.busy_ns as f64 / 1e6 / requests,
            disk.queued_ns as f64 / 1e6 / requests,
        );
    }
}
