//! Results are equal in every build: outcomes and drives of scenarios in `tests/golden` have the digests stored there.
//!
//! This test makes the runs in the debug build. `tests/test_determinism.py` makes them in the release build for Python.
//! If a digest differs, simulated results have changed. If you intended that, write the new digests with
//! `STORAGELAB_GOLDEN=renew cargo test -p storagelab-sim golden`.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::Block;
use crate::RawBlock;
use crate::tests::world::random::world;
use crate::tests::world::{profile, read, server};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn hex_digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// Returns the scenario in a file, with the profiles that it names.
fn scenario(file: &Path) -> Value {
    let text = fs::read_to_string(file).expect("a scenario that is there");
    let mut scenario: Value = serde_json::from_str(&text).expect("a scenario in JSON");
    for drive in scenario["drives"].as_object_mut().expect("drives by name").values_mut() {
        drive["profile"] = profile(drive["profile"].as_str().expect("the name of a profile"));
    }
    if scenario["tests"].is_null() {
        scenario["server"] = server(&scenario["server"]);
    }
    scenario
}

/// Returns one line for each run or test, and one line for the drives at the end.
fn digests(name: &str, scenario: &Value) -> String {
    if scenario["tests"].is_null() {
        let mut block = Block::new(read(scenario)).expect("a scenario that can be run");
        let runs = std::iter::from_fn(|| {
            let next = block.run_next(|_| ControlFlow::Continue(()));
            next.expect("a run without a defect")
        });
        lines(name, &json_of(runs), &block.save_drives())
    } else {
        let raw = serde_json::from_value(scenario.clone()).expect("a scenario of raw I/O");
        let mut block = RawBlock::new(raw).expect("a scenario that can be run");
        let tests = std::iter::from_fn(|| {
            let next = block.run_next(|_| ControlFlow::Continue(()));
            next.expect("a test without a defect")
        });
        lines(name, &json_of(tests), &block.save_drives())
    }
}

fn json_of<Outcome: Serialize>(outcomes: impl Iterator<Item = Outcome>) -> Vec<String> {
    let json = |outcome: Outcome| serde_json::to_string(&outcome).expect("JSON");
    outcomes.map(json).collect()
}

fn lines(name: &str, outcomes: &[String], drives: &[Vec<u8>]) -> String {
    let mut lines = String::new();
    for (run, outcome) in outcomes.iter().enumerate() {
        writeln!(lines, "{name} run {run} {}", hex_digest(outcome.as_bytes())).expect("a line");
    }
    writeln!(lines, "{name} drives {}", hex_digest(&drives.concat())).expect("a line");
    lines
}

/// Compares the digests found with those in `file`, or writes them there.
fn compare(file: &str, found: &str) {
    let kept = folder().join(file);
    if std::env::var("STORAGELAB_GOLDEN").is_ok_and(|word| word == "renew") {
        fs::write(&kept, found).expect("the digests can be written");
    }
    let kept = fs::read_to_string(&kept).expect("the digests that were checked in");
    assert!(
        found == kept,
        "simulated results have changed; if that was meant: \
         STORAGELAB_GOLDEN=renew cargo test -p storagelab-sim golden\nnow:\n{found}\nchecked in:\n{kept}"
    );
}

#[test]
fn outcomes_and_drives_are_those_that_were_checked_in() {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder of golden scenarios")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    assert!(files.len() >= 9, "{files:?}");
    let mut found = String::new();
    for file in &files {
        let name = file.file_stem().and_then(|name| name.to_str()).expect("a name");
        found += &digests(name, &scenario(file));
    }
    compare("digests.txt", &found);
}

/// The files contain few scenarios. These are many, with all kinds of switches, costs and sizes, on flash drives.
#[test]
fn outcomes_of_random_worlds_are_those_that_were_checked_in() {
    let mut found = String::new();
    for seed in 0..40 {
        let scenario = world(seed).scenario;
        let Ok(mut block) = Block::new(read(&scenario)) else {
            writeln!(found, "world {seed} is refused").expect("a line");
            continue;
        };
        let runs = std::iter::from_fn(|| {
            let next = block.run_next(|_| ControlFlow::Continue(()));
            next.expect("a run without a defect")
        });
        let outcomes = json_of(runs).concat();
        let drives = hex_digest(&block.save_drives().concat());
        writeln!(found, "world {seed} {} {drives}", hex_digest(outcomes.as_bytes())).expect("a line");
    }
    compare("worlds.txt", &found);
}
