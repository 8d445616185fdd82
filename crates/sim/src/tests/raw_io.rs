//! Raw I/O on simulated drives: a scenario's results, their repeatability, and refusals.

use std::ops::ControlFlow;

use crate::BlockError;
use crate::{RawBlock, RawOutcome, RawScenario};
use serde_json::{Value, json};

const SCSI: &str = include_str!("../../../../src/storagelab/profiles/scsi-15k-300.toml");
const IODRIVE: &str = include_str!("../../../../src/storagelab/profiles/iodrive-320.toml");

fn test(access: &str, pattern: &str, block_bytes: u64, outstanding: u32) -> Value {
    json!({
        "volume": "v", "access": access, "pattern": pattern, "block_bytes": block_bytes, "threads": 1,
        "outstanding": outstanding, "duration_s": 30, "warm_up_s": 5, "seed": 1,
    })
}

/// A volume of this many SCSI disks. `how` sets its other keys, in JSON.
fn disks(count: u32, how: &Value, tests: &[Value]) -> Value {
    let profile: Value = toml::from_str(SCSI).expect("a profile");
    let names: Vec<String> = (0..count).map(|number| format!("d{number}")).collect();
    let drives: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), json!({ "profile": profile })))
        .collect();
    let mut volume = how.clone();
    volume["drives"] = json!(names);
    json!({"scale": 1, "seed": 1, "drives": drives, "volumes": {"v": volume}, "tests": tests})
}

fn cards(count: u32, prepared: &str, tests: &[Value]) -> Value {
    let profile: Value = toml::from_str(IODRIVE).expect("a profile");
    let card = json!({"profile": profile, "format": "maximum-write", "driver": "2.2.3", "sector_bytes": 512});
    let names: Vec<String> = (0..count).map(|number| format!("c{number}")).collect();
    let drives: serde_json::Map<String, Value> = names.iter().map(|name| (name.clone(), card.clone())).collect();
    let raid = (count > 1).then_some("0");
    json!({
        "scale": 256, "seed": 1, "drives": drives, "volumes": {"v": {"drives": names, "raid": raid}}, "prepared": prepared,
        "tests": tests,
    })
}

fn read(scenario: &Value) -> RawScenario {
    serde_json::from_value(scenario.clone()).expect("a scenario")
}

fn rest_of(block: &mut RawBlock) -> Vec<RawOutcome> {
    let next = || {
        block
            .run_next(|_| ControlFlow::Continue(()))
            .expect("a test without a defect")
    };
    std::iter::from_fn(next).collect()
}

fn outcomes(scenario: &Value) -> Vec<RawOutcome> {
    rest_of(&mut RawBlock::new(read(scenario)).expect("it can be run"))
}

fn assert_near(figure: f64, expected: f64, tolerance: f64) {
    assert!(
        (figure / expected - 1.0).abs() <= tolerance,
        "{figure}, and by hand {expected}"
    );
}

#[test]
fn one_disk_makes_as_many_random_reads_as_seek_turn_and_transfer_let_it() {
    let tests = [test("read", "random", 8192, 1), test("write", "random", 8192, 1)];
    let made = outcomes(&disks(1, &json!({}), &tests));
    assert_near(made[0].ios_per_s, 1.0 / (0.000_15 + 0.003_1 + 0.002 + 0.000_07), 0.03);
    assert_near(made[1].ios_per_s, 1.0 / (0.000_15 + 0.003_6 + 0.002 + 0.000_07), 0.03);
    assert_near(made[0].latency.mean_ns, 1e9 / made[0].ios_per_s, 0.001);
    assert_near(made[0].bytes_per_s, 8192.0 * made[0].ios_per_s, 1e-9);
}

/// With many requests outstanding, the drives are the limit. A mirrored write takes two accesses, and a read takes one.
#[test]
fn raid_10_writes_half_as_fast_as_it_reads_and_raid_5_a_quarter() {
    let tests = [test("read", "random", 8192, 64), test("write", "random", 8192, 64)];
    let fifo = |mut scenario: Value| {
        for (_, drive) in scenario["drives"].as_object_mut().expect("drives") {
            drive["order"] = json!("fifo");
        }
        outcomes(&scenario)
            .iter()
            .map(|made| made.ios_per_s)
            .collect::<Vec<_>>()
    };
    let (read_s, write_s) = (0.003_1 + 0.002 + 0.000_07, 0.003_6 + 0.002 + 0.000_07);
    let mirrors = fifo(disks(8, &json!({"raid": "10"}), &tests));
    assert_near(mirrors[1], 8.0 / 2.0 / write_s, 0.06);
    assert!(
        mirrors[0] > 8.0 / read_s * 0.95,
        "reads choose the nearer of two arms: {}",
        mirrors[0]
    );
    let parity = fifo(disks(8, &json!({"raid": "5"}), &tests));
    assert!(
        parity[1] < mirrors[1] * 0.8 && parity[1] > mirrors[1] * 0.4,
        "{parity:?} against {mirrors:?}"
    );
}

#[test]
fn an_array_over_one_link_reads_no_faster_than_the_link() {
    let how = json!({"raid": "10", "link": {}});
    let made = outcomes(&disks(4, &how, &[test("read", "sequential", 65_536, 8)]));
    assert_near(made[0].bytes_per_s, 104e6, 0.01);
    let slow = outcomes(&disks(4, &how, &[test("read", "random", 8192, 1)]));
    let bare = outcomes(&disks(4, &json!({"raid": "10"}), &[test("read", "random", 8192, 1)]));
    let beside_ns = slow[0].latency.mean_ns - bare[0].latency.mean_ns;
    assert!(
        (200_000.0..450_000.0).contains(&beside_ns),
        "two latencies and the data: {beside_ns} ns"
    );
}

#[test]
fn controllers_that_mirror_one_write_after_the_other_take_so_many_a_second_whatever_is_outstanding() {
    let cache = json!({"bytes": 1_u64 << 40, "mirror_request_ns": 1_000_000, "mirror_bytes_per_s": 800_000_000});
    let how = json!({"raid": "10", "cache": cache, "link": {}});
    let made = outcomes(&disks(
        4,
        &how,
        &[
            test("write", "sequential", 61_440, 1),
            test("write", "sequential", 61_440, 32),
        ],
    ));
    // A single request waits for the link in both directions, its data and the mirror. 32 wait only for the mirror.
    let (data_ns, link_ns, mirror_ns) = (61_440.0 / 0.104, 200_000.0, 1_076_800.0);
    assert_near(made[0].latency.mean_ns, link_ns + data_ns + mirror_ns + 50_000.0, 0.01);
    assert_near(made[1].ios_per_s, 1e9 / mirror_ns, 0.01);
}

#[test]
fn what_is_oldest_goes_first_or_all_in_ascending_order_as_asked() {
    let rate = |destaging: &str| {
        let cache = json!({"bytes": 268_435_456, "destaging": destaging});
        outcomes(&disks(
            4,
            &json!({"raid": "10", "cache": cache}),
            &[test("write", "random", 8192, 4)],
        ))[0]
            .ios_per_s
    };
    let (oldest, ascending) = (rate("oldest"), rate("elevator"));
    assert!(
        ascending > oldest * 1.2,
        "an arm that sweeps moves less: {ascending} against {oldest}"
    );
}

#[test]
fn a_cache_takes_a_burst_and_then_writes_are_as_slow_as_the_disks() {
    let mut burst = test("write", "random", 8192, 4);
    burst["duration_s"] = json!(0.5);
    burst["warm_up_s"] = json!(0);
    let tests = [burst, test("write", "random", 8192, 4)];
    let made = outcomes(&disks(
        4,
        &json!({"raid": "10", "cache": {"bytes": 268_435_456}}),
        &tests,
    ));
    assert_near(made[0].ios_per_s, 1e9 / 33_240.0, 0.02);
    assert!(
        made[1].ios_per_s < 2000.0 && made[1].ios_per_s > 300.0,
        "{}",
        made[1].ios_per_s
    );
    let volume = &made[1].volumes[0];
    assert!(volume.counters.cached_writes > 0 && volume.counters.through_writes > 0);
    assert_eq!(
        volume.counters.cached_writes + volume.counters.through_writes,
        made[1].submitted
    );
}

#[test]
fn two_cards_read_twice_as_fast_as_one() {
    let tests = [test("read", "random", 65_536, 16)];
    let [one, two] = [1, 2].map(|count| outcomes(&cards(count, "filled", &tests))[0].bytes_per_s);
    assert_near(one, 700e6, 0.03);
    assert_near(two, 1.4e9, 0.05);
}

#[test]
fn an_aged_card_writes_slower_than_a_fresh_one() {
    let tests = [test("write", "random", 8192, 16)];
    let [fresh, aged] = ["formatted", "aged"].map(|prepared| outcomes(&cards(1, prepared, &tests)).remove(0));
    assert!(
        aged.ios_per_s < 0.9 * fresh.ios_per_s,
        "{} {}",
        aged.ios_per_s,
        fresh.ios_per_s
    );
    assert!(aged.drives[0].write_amplification > 1.1);
}

#[test]
fn the_same_scenario_gives_the_same_bytes_also_when_it_was_put_away() {
    let tests = [
        test("write", "random", 8192, 3),
        test("read", "sequential", 65_536, 2),
        test("read", "random", 4096, 5),
    ];
    for scenario in [
        disks(
            4,
            &json!({"raid": "5", "cache": {"bytes": 1_000_000}, "link": {}, "offset_bytes": 32_256}),
            &tests,
        ),
        cards(2, "aged", &tests),
    ] {
        let at_one_go = outcomes(&scenario);
        assert_eq!(at_one_go, outcomes(&scenario));
        let mut block = RawBlock::new(read(&scenario)).expect("it can be run");
        block.run_next(|_| ControlFlow::Continue(())).expect("a test");
        let saved = block.save_drives();
        let mut resumed = RawBlock::resume(read(&scenario), block.runs_done(), &saved).expect("it can be resumed");
        assert_eq!(rest_of(&mut resumed), at_one_go[1..]);
    }
}

#[test]
fn a_failed_volume_is_an_outcome_that_says_why() {
    let how = json!({"raid": "0", "lost": [{"drive": "d1", "after_s": 10}]});
    let made = outcomes(&disks(2, &how, &[test("read", "random", 8192, 4)]));
    let failure = made[0].failure.as_deref().expect("it fails");
    assert!(failure.contains("volume 'v' lost 1 of its 2 drives"), "{failure}");
    assert!(
        made[0].ios > 0 && made[0].elapsed_ns < 6_000_000_000,
        "what was done before is told"
    );
}

#[test]
fn a_test_can_be_stopped() {
    let mut block =
        RawBlock::new(read(&cards(1, "filled", &[test("read", "random", 8192, 8)]))).expect("it can be run");
    assert_eq!(block.run_next(|_| ControlFlow::Break(())), Err(BlockError::Interrupted));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let cases = [
        ("/scale", json!(0), "scale"),
        ("/tests", json!([]), "tests"),
        ("/tests/0/volume", json!("w"), "tests[0].volume"),
        ("/tests/0/block_bytes", json!(1000), "tests[0].block_bytes"),
        ("/tests/0/threads", json!(0), "tests[0].threads"),
        ("/tests/0/outstanding", json!(5000), "tests[0].outstanding"),
        ("/tests/0/warm_up_s", json!(30), "tests[0].duration_s"),
        ("/tests/0/file_bytes", json!(400_000_000_000_u64), "tests[0].file_bytes"),
        ("/tests/0/file_bytes", json!(4096), "tests[0].file_bytes"),
        ("/volumes/v/raid", json!("1"), "volumes.v"),
    ];
    for (pointer, value, place) in cases {
        let mut scenario = disks(1, &json!({}), &[test("read", "random", 8192, 1)]);
        let (parent, key) = pointer.rsplit_once('/').expect("a place");
        scenario.pointer_mut(parent).expect("a place in the scenario")[key] = value;
        let refusal = RawBlock::new(read(&scenario)).expect_err(pointer);
        assert_eq!(refusal.place, place, "{refusal}");
    }
}

#[test]
fn a_small_world_is_as_fast_as_one_four_times_larger() {
    let ios_per_s = |scale: u32| {
        let mut write = test("write", "random", 8192, 32);
        (write["duration_s"], write["warm_up_s"]) = (json!(600), json!(200));
        let mut scenario = disks(4, &json!({"raid": "10", "cache": {"bytes": 536_870_912}}), &[write]);
        scenario["scale"] = json!(scale);
        outcomes(&scenario)[0].ios_per_s
    };
    assert_near(ios_per_s(64), ios_per_s(16), 0.04);
}

#[test]
fn a_drive_that_fails_after_the_end_of_every_run_changes_nothing() {
    let whole = outcomes(&disks(2, &json!({"raid": "0"}), &[test("read", "random", 8192, 4)]));
    let how = json!({"raid": "0", "lost": [{"drive": "d1", "after_s": 999_999_999}]});
    assert_eq!(outcomes(&disks(2, &how, &[test("read", "random", 8192, 4)])), whole);
}
