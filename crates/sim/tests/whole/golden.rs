//! The same bytes in every build: outcomes and drives of the scenarios in `tests/golden` have the digests stored there.
//!
//! This test is the debug build's half; `tests/test_determinism.py` makes the same runs in the release build that Python has.
//! A different digest means changed simulated results. If that was intended,
//! `STORAGELAB_GOLDEN=renew cargo test -p storagelab-sim golden` writes the new ones.

use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::world::sha256::hex_digest;
use crate::world::{profile, read, server};
use serde_json::Value;
use storagelab_sim::run::Block;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// A scenario as in its file, with the profiles that it names and the server's.
fn scenario(file: &Path) -> Value {
    let text = fs::read_to_string(file).expect("a scenario that is there");
    let mut scenario: Value = serde_json::from_str(&text).expect("a scenario in JSON");
    for drive in scenario["drives"].as_object_mut().expect("drives by name").values_mut() {
        drive["profile"] = profile(drive["profile"].as_str().expect("the name of a profile"));
    }
    scenario["server"] = server(&scenario["server"]);
    scenario
}

/// One line for each run, and one for the drives at the end.
fn digests(name: &str, scenario: &Value) -> String {
    let mut block = Block::new(read(scenario)).expect("a scenario that can be run");
    let mut lines = String::new();
    let mut next = || {
        block
            .run_next(|_| ControlFlow::Continue(()))
            .expect("a run without a defect")
    };
    while let Some(outcome) = next() {
        let json = serde_json::to_string(&outcome).expect("JSON");
        writeln!(lines, "{name} run {} {}", outcome.run, hex_digest(json.as_bytes())).expect("a line");
    }
    let drives = block.save_drives().concat();
    writeln!(lines, "{name} drives {}", hex_digest(&drives)).expect("a line");
    lines
}

#[test]
fn outcomes_and_drives_are_those_that_were_checked_in() {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder of golden scenarios")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    let mut found = String::new();
    for file in &files {
        let name = file.file_stem().and_then(|name| name.to_str()).expect("a name");
        found += &digests(name, &scenario(file));
    }
    let kept = folder().join("digests.txt");
    if std::env::var("STORAGELAB_GOLDEN").is_ok_and(|word| word == "renew") {
        fs::write(&kept, &found).expect("the digests can be written");
    }
    let kept = fs::read_to_string(&kept).expect("the digests that were checked in");
    assert!(
        found == kept,
        "simulated results have changed; if that was meant: \
         STORAGELAB_GOLDEN=renew cargo test -p storagelab-sim golden\nnow:\n{found}\nchecked in:\n{kept}"
    );
}

#[test]
fn a_digest_is_the_published_one() {
    assert_eq!(
        hex_digest(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}
