//! Runs raw I/O on simulated drives, in the terms of the SQLIO tool.
//!
//! `cargo run --release --package storagelab-sim --example raw_io -- FILE.json` runs a scenario and prints its outcomes
//! as JSON, one per line; `crates/sim/src/raw_io.rs` describes the scenario. Without a file it runs article D, "Solid
//! State Disks and SQL Server": 70 disks in RAID-100 behind a write cache against two flash cards, one line per test.
//! Its options: `--threads 8`, `--outstanding 2`, `--order fifo|elevator|shortest`, `--cache-mb 512`, `--file-gb 64`,
//! `--seconds 30`.
#![expect(clippy::print_stdout, reason = "it is for people")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::ops::ControlFlow;

use serde_json::{Value, json};
use storagelab_sim::raw_io::{RawBlock, RawOutcome, RawScenario};

const DISK: &str = include_str!("../../../src/storagelab/profiles/scsi-15k-300.toml");
const FLASH: &str = include_str!("../../../src/storagelab/profiles/iodrive-320.toml");

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(file) = words.first().filter(|word| !word.starts_with("--")) {
        let text = std::fs::read_to_string(file).expect("a file that can be read");
        let scenario: RawScenario = serde_json::from_str(&text).expect("a scenario");
        for outcome in outcomes(scenario) {
            println!("{}", serde_json::to_string(&outcome).expect("JSON"));
        }
        return;
    }
    let word = |name: &str, default: &str| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1))
            .map_or_else(|| default.to_owned(), Clone::clone)
    };
    article_d(&word);
}

fn outcomes(scenario: RawScenario) -> Vec<RawOutcome> {
    let mut block = RawBlock::new(scenario).unwrap_or_else(|refusal| panic!("{refusal}"));
    let next = || {
        block
            .run_next(|_| ControlFlow::Continue(()))
            .expect("a test without a defect")
    };
    std::iter::from_fn(next).collect()
}

fn article_d(word: &dyn Fn(&str, &str) -> String) {
    let number = |name: &str, default: &str| -> u64 { word(name, default).parse().expect("a whole number") };
    let (threads, outstanding) = (number("--threads", "8"), number("--outstanding", "2"));
    let seconds = number("--seconds", "30");
    let file_bytes = number("--file-gb", "64") * 1_000_000_000;
    let disk: Value = toml::from_str(DISK).expect("a profile");
    let flash: Value = toml::from_str(FLASH).expect("a profile");
    let mut tests = Vec::new();
    for (access, pattern) in [
        ("read", "random"),
        ("read", "sequential"),
        ("write", "random"),
        ("write", "sequential"),
    ] {
        for block_bytes in [8192, 65_536] {
            tests.push(json!({
                "volume": "v", "access": access, "pattern": pattern, "block_bytes": block_bytes, "threads": threads,
                "outstanding": outstanding, "duration_s": seconds, "warm_up_s": seconds as f64 / 3.0, "file_bytes": file_bytes,
                "seed": 1,
            }));
        }
    }
    let disks: Vec<String> = (0..70).map(|number| format!("d{number:02}")).collect();
    let drives: serde_json::Map<String, Value> = disks
        .iter()
        .map(|name| {
            (
                name.clone(),
                json!({"profile": disk, "order": word("--order", "elevator")}),
            )
        })
        .collect();
    let cache_bytes = number("--cache-mb", "512") * 1_048_576;
    let array = json!({
        "scale": 1, "seed": 1, "drives": drives, "tests": tests,
        "volumes": {"v": {"drives": disks, "raid": "100", "arrays": 5, "cache": {"bytes": cache_bytes}}},
    });
    let card = json!({"profile": flash, "format": "basic", "driver": "2.2.3", "sector_bytes": 512});
    let cards = json!({
        "scale": 64, "seed": 1, "drives": {"a": card, "b": card}, "tests": tests,
        "volumes": {"v": {"drives": ["a", "b"], "raid": "0"}},
    });
    for (name, scenario) in [("70 disks", &array), ("two cards", &cards)] {
        let read = serde_json::from_value(scenario.clone()).expect("a scenario");
        for (test, outcome) in tests.iter().zip(outcomes(read)) {
            let what = format!("{} {} {}", test["block_bytes"], test["pattern"], test["access"]);
            let p99 = outcome
                .latency
                .per_mille_ns
                .iter()
                .find(|(per_mille, _)| *per_mille == 990);
            println!(
                "{name:>9}, {what:<24} {:>8.0} IO/s {:>7.1} MB/s, mean {:>7.3} ms, 99 % {:>7.3} ms",
                outcome.ios_per_s,
                outcome.bytes_per_s / 1e6,
                outcome.latency.mean_ns / 1e6,
                p99.map_or(0.0, |(_, ns)| *ns as f64 / 1e6),
            );
        }
    }
}
