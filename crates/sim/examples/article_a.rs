//! Runs one cell of article A, "Multiple data files on SSDs", or several in turn on one drive.
//!
//! `cargo run --release --package storagelab-sim --example article_a -- --scale 64 --files 1,8,128 --format maximum-write`
//!
//! Other options: `--driver 2.2.3`, `--sector 512`, `--seed 1`, `--cores 8`, `--profile FILE`, `--fresh` (format before
//! every layout), `--shift` (files move from run to run), `--cost NAME=NUMBER` and `--switch NAME=JSON` (any of the
//! server's), `--drive GROUP.NAME=NUMBER` (any figure of the drive's), `--tasks` (who waited for what), `--series` (the
//! run in time).
#![expect(clippy::print_stdout, reason = "it is for people")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../tests/whole/world/profiles.rs"]
mod profiles;

use std::ops::ControlFlow;
use std::time::Instant;

use storagelab_sim::outcome::{RunOutcome, WaitRow};
use storagelab_sim::run::Block;
use storagelab_sim::scenario::Scenario;

type Words = Vec<String>;

fn word(words: &Words, name: &str, default: &str) -> String {
    let at = words.iter().position(|word| word == name);
    at.and_then(|at| words.get(at + 1))
        .map_or_else(|| default.to_owned(), Clone::clone)
}

fn number(words: &Words, name: &str, default: &str) -> u64 {
    word(words, name, default).parse().expect("a whole number")
}

fn all<'a>(words: &'a Words, name: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    let values = words
        .iter()
        .zip(words.iter().skip(1))
        .filter(move |(word, _)| *word == name);
    values.map(|(_, value)| {
        let (key, value) = value.split_once('=').expect("NAME=VALUE");
        (key.to_owned(), value.to_owned())
    })
}

/// The scenario as JSON, the form in which callers pass it.
fn scenario(words: &Words) -> Scenario {
    let mut profile = match word(words, "--profile", "").as_str() {
        "" => profiles::profile("iodrive-320"),
        file => toml::from_str(&std::fs::read_to_string(file).expect("a file")).expect("a profile in TOML"),
    };
    for (path, value) in all(words, "--drive") {
        let pointer = format!("/{}/value", path.replace('.', "/"));
        *profile.pointer_mut(&pointer).expect("a figure of the drive") = serde_json::from_str(&value).expect("JSON");
    }
    let has = |name: &str| words.iter().any(|word| word == name);
    let runs: Vec<serde_json::Value> = word(words, "--files", "1,8,128")
        .split(',')
        .map(|files| {
            serde_json::json!({
                "data_files": files.parse::<u32>().expect("a number of files"),
                "data_volumes": ["a"], "log_volume": "a",
                "workload": {"kind": "random-insert", "connections": number(words, "--connections", "64"),
                    "rows_per_connection": number(words, "--rows", "2500000"),
                    "rows_per_transaction": number(words, "--batch", "1000")},
                "seed": number(words, "--seed", "1"), "format_before": has("--fresh"), "files_shift": has("--shift"),
            })
        })
        .collect();
    let mut server = profiles::server(&serde_json::json!({
        "cores": number(words, "--cores", "8"), "memory_bytes": 17_179_869_184_u64,
    }));
    for (name, value) in all(words, "--cost") {
        server["costs"][name]["value"] = serde_json::from_str(&value).expect("a whole number");
    }
    for (name, value) in all(words, "--switch") {
        server["switches"][name] = serde_json::from_str(&value).unwrap_or(serde_json::Value::String(value));
    }
    let json = serde_json::json!({
        "scale": number(words, "--scale", "64"), "seed": 1,
        "server": server,
        "drives": {"ssd": {"profile": profile, "format": word(words, "--format", "maximum-write"),
            "driver": word(words, "--driver", "2.2.3"), "sector_bytes": number(words, "--sector", "512")}},
        "volumes": {"a": {"drives": ["ssd"]}},
        "runs": runs,
    });
    serde_json::from_value(json).expect("a scenario")
}

fn main() {
    let words: Words = std::env::args().skip(1).collect();
    let scenario = scenario(&words);
    let scale = u64::from(scenario.scale);
    let files: Vec<u32> = scenario.runs.iter().map(|run| run.data_files).collect();
    let mut block = match Block::new(scenario) {
        Ok(block) => block,
        Err(refusal) => {
            println!("{refusal}");
            return;
        }
    };
    let mut files = files.into_iter();
    loop {
        let start = Instant::now();
        let outcome = block.run_next(|_| ControlFlow::Continue(()));
        let wall_s = start.elapsed().as_secs_f64();
        let Some(outcome) = outcome.unwrap_or_else(|error| panic!("{error}")) else {
            return;
        };
        print(&outcome, files.next().unwrap_or(0), scale, wall_s, &words);
    }
}

/// Seconds at life-size.
fn life_s(ns: u64, scale: u64) -> f64 {
    ns as f64 / 1e9 * scale as f64
}

fn print(outcome: &RunOutcome, files: u32, scale: u64, wall_s: f64, words: &Words) {
    let counts = &outcome.counters;
    let rows = outcome.rows as f64;
    if let Some(failure) = &outcome.failure {
        println!("FAILED: {failure}");
    }
    println!(
        "{files} files: {:.0} s, {:.2} GB, {:.3} reads a row, CPU {:.1} us a row, {} checkpoints, {:.2} pages a write, \
         read {:.0} us, write {:.0} us, WA {:.2}, utilisation {:.2}, finished early {:.1} %, {:.2} wall s, {:.1} M events",
        life_s(outcome.elapsed_ns, scale),
        counts.table_bytes as f64 * scale as f64 / 1e9,
        counts.reads as f64 / rows,
        outcome.cpu_ns as f64 / 1e3 / rows,
        counts.checkpoints,
        counts.written_pages as f64 / counts.writes.max(1) as f64,
        counts.read_latency_ns as f64 / 1e3,
        counts.write_latency_ns as f64 / 1e3,
        counts.write_amplification,
        outcome.drives[0].utilisation,
        outcome.finished_early_ns as f64 * 100.0 / outcome.elapsed_ns as f64 / f64::from(outcome.connections),
        wall_s,
        counts.events as f64 / 1e6,
    );
    let all_ns: u64 = outcome.waits.iter().map(WaitRow::wait_ns).sum();
    for row in &outcome.waits {
        println!(
            "  {:<20} {:9.0} s = {:9.0} + {:7.0}  {:8.3} M  {:5.1} %  {:8.3} ms + {:6.3} ms",
            row.wait_type,
            life_s(row.wait_ns(), scale),
            life_s(row.resource_ns, scale),
            life_s(row.signal_ns, scale),
            row.count as f64 * scale as f64 / 1e6,
            row.wait_ns() as f64 * 100.0 / all_ns as f64,
            row.resource_ns as f64 / 1e6 / row.count.max(1) as f64,
            row.signal_ns as f64 / 1e6 / row.count.max(1) as f64,
        );
    }
    let has = |name: &str| words.iter().any(|word| word == name);
    if has("--all") {
        println!("  {counts:?}");
        for row in &outcome.background_waits {
            println!(
                "  background {:<20} {:9.0} s {:8.3} M",
                row.wait_type,
                life_s(row.wait_ns(), scale),
                row.count as f64 * scale as f64 / 1e6
            );
        }
    }
    if has("--tasks") {
        for sample in &outcome.waiting_tasks {
            let tasks: Vec<String> = sample
                .tasks
                .iter()
                .take(3)
                .map(|task| format!("{} x {} {}", task.workers, task.wait_type, task.resource))
                .collect();
            println!("  at {:6.0} s: {}", life_s(sample.at_ns, scale), tasks.join("; "));
        }
    }
    if has("--series") {
        let series = &outcome.series;
        for i in (0..series.at_ns.len()).step_by(usize::try_from(number(words, "--every", "30")).unwrap_or(1)) {
            println!(
                "  {:6.0} s: {:7.0} rows/s, read {:6.1} MB/s, write {:6.1} MB/s, log {:5.1} MB/s, WA {:.2}, dirty {:6}, runnable {:3}, I/Os {:4}",
                life_s(series.at_ns[i], scale),
                series.rows_per_s[i],
                series.read_bytes_per_s[i] / 1e6,
                series.written_bytes_per_s[i] / 1e6,
                series.log_bytes_per_s[i] / 1e6,
                series.write_amplification[i],
                series.dirty_pages[i],
                series.runnable[i],
                series.io_in_progress[i]
            );
        }
    }
}
