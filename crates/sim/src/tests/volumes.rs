//! The engine on disks, arrays, caches and links. It uses only volumes, so all that is true on one flash drive must be
//! true here.

use std::ops::ControlFlow;

use crate::Block;
use crate::outcome::RunOutcome;
use crate::tests::world::{article_a, drive, float, off, outcomes, read, rest_of, waits};
use crate::volume::repeat::holds;
use proptest::prelude::*;
use serde_json::{Value, json};

const SCSI: &str = include_str!("../../../../src/storagelab/profiles/scsi-15k-300.toml");
const SATA: &str = include_str!("../../../../src/storagelab/profiles/sata-7k2-1000.toml");
const SCALE: u32 = 512;

fn profile(text: &str) -> Value {
    toml::from_str(text).expect("a profile in TOML")
}

/// A run of 16 connections that insert 2 M rows each, 10 per transaction.
fn run(data_files: u32, data: &[&str], log: &str) -> Value {
    let mut run = crate::tests::world::run(data_files);
    run["data_volumes"] = json!(data);
    run["log_volume"] = json!(log);
    run["data_bytes"] = json!(60_000_000_000_u64);
    run["workload"]["connections"] = json!(16);
    run["workload"]["rows_per_connection"] = json!(2_000_000);
    run["workload"]["rows_per_transaction"] = json!(10);
    run
}

/// Article B's storage: data on two RAID-10 of 4 SCSI disks over iSCSI, and the log on a RAID-10 of 8 SATA disks.
fn article_b(runs: &[Value]) -> Value {
    let mut drives = serde_json::Map::new();
    let mut names = |prefix: &str, count: u32, text: &str| -> Vec<String> {
        let names: Vec<String> = (0..count).map(|number| format!("{prefix}{number}")).collect();
        for name in &names {
            drives.insert(name.clone(), json!({"profile": profile(text)}));
        }
        names
    };
    let (a, b, log) = (names("a", 4, SCSI), names("b", 4, SCSI), names("log", 8, SATA));
    let cache = json!({"bytes": 512 * 1_048_576_u64});
    let mut scenario = article_a(SCALE, runs);
    scenario["server"]["memory_bytes"] = json!(8_000_000_000_u64);
    scenario["drives"] = Value::Object(drives);
    scenario["volumes"] = json!({
        "a": {"drives": a, "raid": "10", "cache": cache, "link": {}},
        "b": {"drives": b, "raid": "10", "cache": cache, "link": {}},
        "log": {"drives": log, "raid": "10", "cache": cache, "link": {}},
    });
    scenario
}

fn bytes(scenario: &Value) -> String {
    serde_json::to_string(&outcomes(scenario)).expect("JSON")
}

#[test]
fn disks_behind_caches_and_links_give_the_same_bytes_twice_and_their_time_adds_up() {
    let scenario = article_b(&[run(1, &["a", "b"], "log"), run(2, &["a", "b"], "log")]);
    assert_eq!(bytes(&scenario), bytes(&scenario));
    for outcome in outcomes(&scenario) {
        let waits: u64 = outcome.waits.iter().map(|row| row.resource_ns + row.signal_ns).sum();
        let sum = waits + outcome.cpu_ns + outcome.finished_early_ns;
        assert_eq!(sum, u64::from(outcome.connections) * outcome.elapsed_ns);
        let log = outcome
            .volumes
            .iter()
            .find(|volume| volume.name == "log")
            .expect("the log's volume");
        assert_eq!(
            log.counters.cached_writes + log.counters.through_writes,
            log.counters.requests,
            "a log is only written"
        );
        assert!(outcome.drives.iter().all(|drive| drive.disk.is_some()));
    }
}

/// Files of one volume follow each other and fill from the beginning. With more files, the same rows are farther apart.
#[test]
fn more_files_on_a_volume_make_longer_strokes() {
    let runs = [run(1, &["a"], "log"), run(16, &["a"], "log")];
    let stroke_ns = |outcome: &RunOutcome| {
        let disks = outcome.drives.iter().filter(|drive| drive.name.starts_with('a'));
        let (seek_ns, seeks) = disks.filter_map(|drive| drive.disk.as_ref()).fold((0, 0), |sum, disk| {
            (sum.0 + disk.seek_ns, sum.1 + disk.reads + disk.writes - disk.in_order)
        });
        float(seek_ns) / float(seeks)
    };
    let made = outcomes(&article_b(&runs));
    let (one, sixteen) = (stroke_ns(&made[0]), stroke_ns(&made[1]));
    assert!(sixteen > 1.1 * one, "{one} and {sixteen} ns");
}

#[test]
fn two_files_use_both_arrays_and_one_file_uses_one() {
    let scenario = article_b(&[run(1, &["a", "b"], "log"), run(2, &["a", "b"], "log")]);
    let by_files = outcomes(&scenario);
    let requests = |run: usize, name: &str| {
        let volume = by_files[run].volumes.iter().find(|volume| volume.name == name);
        volume.expect("a volume").counters.requests
    };
    assert_eq!(requests(0, "b"), 0);
    let (a, b) = (float(requests(1, "a")), float(requests(1, "b")));
    assert!(off(a, b) < 0.1, "{a} and {b} requests");
    assert!(by_files[1].elapsed_ns < by_files[0].elapsed_ns, "and that is faster");
}

#[test]
fn a_block_on_disks_and_flash_that_is_put_away_goes_on_as_if_it_had_not_been() {
    let mut scenario = article_b(&[
        run(2, &["a", "ssd"], "log"),
        run(4, &["ssd", "a"], "a"),
        run(2, &["b"], "ssd"),
    ]);
    scenario["drives"]["flash"] = drive();
    scenario["volumes"]["ssd"] = json!({"drives": ["flash"]});
    let at_one_go = outcomes(&scenario);
    let mut block = Block::new(read(&scenario)).expect("it can be run");
    block.run_next(|_| ControlFlow::Continue(())).expect("a run");
    let saved = block.save_drives();
    assert_eq!(saved.len(), 17);
    let mut resumed = Block::resume(read(&scenario), block.runs_done(), &saved).expect("it can be resumed");
    assert_eq!(rest_of(&mut resumed), at_one_go[1..]);
    for turned in [1, 8] {
        let mut other = saved.clone();
        other.rotate_left(turned);
        let refusal = Block::resume(read(&scenario), 1, &other)
            .map(|block| block.runs_done())
            .expect_err("flash is no disk, SATA no SCSI");
        assert!(refusal.place.starts_with("drives."), "{refusal}");
    }
}

#[test]
fn flash_drives_side_by_side_are_faster_than_one_and_a_mirror_keeps_up() {
    let mut scenario = article_b(&[run(1, &["v"], "v")]);
    scenario["drives"] = json!({"x": drive(), "y": drive()});
    let mut elapsed = |volume: Value| {
        scenario["volumes"] = json!({ "v": volume });
        let outcome = &outcomes(&scenario)[0];
        assert_eq!(outcome.failure, None);
        float(outcome.elapsed_ns)
    };
    let alone = elapsed(json!({"drives": ["x"]}));
    let stripes = elapsed(json!({"drives": ["x", "y"], "raid": "0"}));
    let mirror = elapsed(json!({"drives": ["x", "y"], "raid": "1"}));
    assert!(
        stripes < 1.02 * alone && mirror < 1.1 * alone,
        "{alone} {stripes} {mirror}"
    );
}

#[test]
fn a_run_outlives_a_drive_of_a_mirror_and_not_of_a_raid_0() {
    let mut scenario = article_b(&[run(2, &["a", "b"], "log")]);
    let whole = &outcomes(&scenario)[0];
    scenario["volumes"]["a"]["lost"] = json!([{"drive": "a1", "after_s": 60}]);
    let degraded = &outcomes(&scenario)[0];
    assert_eq!((&degraded.failure, degraded.rows), (&None, whole.rows));
    assert_eq!(degraded.volumes[0].lost_drives, 1);
    let reads = |outcome: &RunOutcome, name: &str| {
        let drive = outcome.drives.iter().find(|drive| drive.name == name);
        drive.and_then(|drive| drive.disk.as_ref()).expect("a disk").reads
    };
    assert!(reads(degraded, "a1") < reads(whole, "a1"), "it answers no more");
    assert!(
        2 * reads(degraded, "a0") > 3 * reads(whole, "a0"),
        "its twin answers for it"
    );
    scenario["volumes"]["a"]["raid"] = json!("0");
    let failed = &outcomes(&scenario)[0];
    let failure = failed.failure.as_deref().expect("it fails");
    assert!(
        failure.contains("volume 'a' lost 1 of its 4 drives") && failure.contains("RAID-0"),
        "{failure}"
    );
    assert!(failed.elapsed_ns < whole.elapsed_ns && failed.rows > 0);
}

#[test]
fn a_log_without_a_cache_waits_for_a_turn_of_the_platters() {
    let mut scenario = article_b(&[run(2, &["a", "b"], "log")]);
    scenario["runs"][0]["workload"]["rows_per_connection"] = json!(200_000);
    let mean_ms = |scenario: &Value| {
        let outcome = &outcomes(scenario)[0];
        let log = waits(outcome, "WRITELOG");
        float(log.resource_ns) / float(log.count) / 1e6
    };
    let cached = mean_ms(&scenario);
    scenario["volumes"]["log"] = json!({"drives": scenario["volumes"]["log"]["drives"], "raid": "10"});
    let uncached = mean_ms(&scenario);
    assert!(
        cached < 3.0 && uncached > 8.0,
        "{cached} ms with, {uncached} ms without"
    );
}

#[test]
fn a_checkpoint_pauses_for_as_long_whether_each_pause_is_short_or_long() {
    let paused = |pause_ns: u64| {
        let mut scenario = article_b(&[run(1, &["a"], "log")]);
        scenario["server"]["costs"]["checkpoint_pause_ns"]["value"] = json!(pause_ns);
        let outcome = &outcomes(&scenario)[0];
        let row = outcome
            .background_waits
            .iter()
            .find(|row| row.wait_type == "SLEEP_BPOOL_FLUSH");
        let row = row.expect("writes take longer than 20 ms");
        (float(row.wait_ns()), float(row.count))
    };
    let (short, long) = (paused(1_250_000), paused(5_000_000));
    assert!((0.75..1.33).contains(&(short.0 / long.0)), "{short:?} against {long:?}");
    assert!(short.1 > long.1 * 1.5, "{short:?} against {long:?}");
}

#[test]
fn what_cannot_be_of_volumes_is_refused_by_name() {
    let cases = [
        (
            "/volumes/a/raid",
            json!(null),
            "volumes.a",
            "say how they make one volume",
        ),
        ("/volumes/a/raid", json!("100"), "volumes.a", "at least two arrays"),
        ("/volumes/a/arrays", json!(2), "volumes.a", "they are for RAID-100"),
        (
            "/volumes/a/drives",
            json!(["a0", "a1", "a2"]),
            "volumes.a",
            "an even number",
        ),
        (
            "/volumes/a/drives",
            json!(["a0", "a1", "a2", "a2"]),
            "volumes.a",
            "twice",
        ),
        (
            "/volumes/b/drives",
            json!(["a0", "b0"]),
            "volumes.b.drives",
            "in volume 'a' too",
        ),
        ("/volumes/a/drives", json!([]), "volumes.a", "no drives"),
        ("/volumes/a/stripe_bytes", json!(1000), "volumes.a", "whole sectors"),
        ("/volumes/a/offset_bytes", json!(100), "volumes.a", "a whole sector"),
        ("/volumes/a/link/bytes_per_s", json!(0), "volumes.a", "must be positive"),
        (
            "/volumes/a/cache/writes_per_drive",
            json!(0),
            "volumes.a",
            "must be positive",
        ),
        (
            "/volumes/a/lost",
            json!([{"drive": "b1"}]),
            "volumes.a",
            "none of its drives",
        ),
        (
            "/drives/a0/format",
            json!("basic"),
            "drives.a0",
            "leave it out for a disk",
        ),
        (
            "/drives/a0/profile/arm/average_read_ns/value",
            json!(1),
            "drives.a0",
            "ascending",
        ),
    ];
    for (pointer, value, place, words) in cases {
        let mut scenario = article_b(&[run(2, &["a", "b"], "log")]);
        let (parent, key) = pointer.rsplit_once('/').expect("a place");
        scenario.pointer_mut(parent).expect("a place in the scenario")[key] = value;
        let refusal = Block::new(read(&scenario)).expect_err(pointer);
        assert_eq!(refusal.place, place, "{refusal}");
        assert!(refusal.what.contains(words), "{pointer}: {refusal}");
    }
    let mut scenario = article_b(&[run(2, &["a", "b"], "log")]);
    scenario["drives"]["a0"]["profile"]["arm"]["speed"] = json!(1);
    let error = serde_json::from_value::<crate::scenario::Scenario>(scenario).expect_err("an unknown key");
    assert!(error.to_string().contains("unknown field `speed`"), "{error}");
}

/// Each run checks itself at its end: pages, frames and time add up, and no worker waits.
#[test]
fn small_worlds_on_any_volumes_keep_their_pages_frames_and_time() {
    const LEVELS: [&str; 4] = ["0", "1", "5", "10"];
    let worlds = (
        prop::sample::select(LEVELS.as_slice()),
        prop::option::of(1_u64..2_000_000_000),
        any::<(bool, bool, bool)>(),
        1_u32..9,
        1_u32..200,
        any::<u64>(),
    );
    holds(
        12,
        "small_worlds_on_any_volumes",
        &worlds,
        |(raid, cache, (link, misaligned, loses), files, rows, seed)| {
            let mut run = run(files, &["a", "b"], "a");
            run["seed"] = json!(seed);
            run["workload"]["rows_per_connection"] = json!(600_000);
            run["workload"]["rows_per_transaction"] = json!(rows);
            let mut moved = run.clone();
            moved["files_shift"] = json!(true);
            let mut scenario = article_b(&[run, moved]);
            scenario["volumes"]["a"]["raid"] = json!(raid);
            scenario["volumes"]["a"]["cache"] = cache.map_or(Value::Null, |bytes| json!({ "bytes": bytes }));
            scenario["volumes"]["a"]["link"] = if link { json!({}) } else { Value::Null };
            scenario["volumes"]["a"]["offset_bytes"] = json!(if misaligned { 32_256 } else { 0 });
            if loses && raid != "0" {
                scenario["volumes"]["a"]["lost"] = json!([{"drive": "a2", "after_s": 20}]);
            }
            for outcome in outcomes(&scenario) {
                if outcome.failure.is_some() || outcome.rows != 16 * (600_000 / u64::from(SCALE)) {
                    return Err(format!("{:?}, {} rows", outcome.failure, outcome.rows));
                }
            }
            Ok(())
        },
    );
}
