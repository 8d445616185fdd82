//! Other kinds of drives under the engine and raw I/O, in volumes of one and of several drives, also saved and resumed.

use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::tests::world::{article_a, outcomes, profile, read, rest_of, run};
use crate::{Block, RawBlock, RawScenario};

const SCALE: u32 = 1000;
const NVME: &str = "nvme3-970-evo-plus-1tb";
const CLOUD: &str = "cloud-gp2-500";

/// A run with data on volumes `data` and its log on volume `log`.
fn small_run(data: &[&str], log: &str, seed: u64) -> Value {
    let mut run = run(4);
    run["data_volumes"] = json!(data);
    run["log_volume"] = json!(log);
    run["seed"] = json!(seed);
    run["workload"]["connections"] = json!(8);
    run["workload"]["rows_per_connection"] = json!(1_500_000);
    run["workload"]["rows_per_transaction"] = json!(10);
    run["data_bytes"] = json!(40_000_000_000_u64);
    run
}

/// A drive with an SLC cache, a RAID-0 of two cloud volumes, and a mirror of a flash drive and a second SLC drive.
fn scenario() -> Value {
    let runs = [
        small_run(&["nvme", "clouds"], "nvme", 1),
        small_run(&["clouds"], "mirror", 2),
        small_run(&["mirror"], "clouds", 3),
    ];
    let mut scenario = article_a(SCALE, &runs);
    let drive = |name: &str| json!({ "profile": profile(name) });
    scenario["server"]["memory_bytes"] = json!(3_200_000_000_u64);
    scenario["drives"] = json!({
        "nvme": drive(NVME), "twin": drive(NVME), "c1": drive(CLOUD), "c2": drive(CLOUD), "ssd": crate::tests::world::drive(),
    });
    scenario["volumes"] = json!({
        "nvme": {"drives": ["nvme"]}, "clouds": {"drives": ["c1", "c2"], "raid": "0"},
        "mirror": {"drives": ["twin", "ssd"], "raid": "1"},
    });
    scenario
}

#[test]
fn the_engine_runs_on_any_kind_and_each_tells_what_it_did() {
    let made = outcomes(&scenario());
    for outcome in &made {
        assert_eq!((outcome.failure.as_deref(), outcome.rows), (None, 8 * 1500));
    }
    let reported = |run: usize, drive: &str, figure: &str| {
        let drive = made[run].drives.iter().find(|one| one.name == drive);
        drive.and_then(|drive| drive.device.as_ref()).expect("its own figures")[figure]
    };
    assert!(reported(0, "nvme", "writes") > 0 && reported(0, "nvme", "slc_written_bytes") > 0);
    assert!(reported(1, "c1", "ios") > 0 && reported(1, "c2", "ios") > 0);
    assert!(reported(2, "twin", "writes") > 0);
    assert_eq!(reported(2, "nvme", "writes"), 0, "no volume of that run is on it");
    let flash = made[0]
        .drives
        .iter()
        .find(|one| one.name == "ssd")
        .expect("it is there");
    assert!(flash.device.is_none() && flash.disk.is_none());
}

#[test]
fn a_block_on_such_drives_that_is_put_away_goes_on_as_if_it_had_not_been() {
    let scenario = scenario();
    let at_one_go = outcomes(&scenario);
    let mut block = Block::new(read(&scenario)).expect("it can be run");
    block.run_next(|_| ControlFlow::Continue(())).expect("a run");
    let saved = block.save_drives();
    let mut resumed = Block::resume(read(&scenario), block.runs_done(), &saved).expect("it can be resumed");
    assert_eq!(rest_of(&mut resumed), at_one_go[1..]);
    let mut other = saved;
    other.rotate_left(1);
    let refusal = Block::resume(read(&scenario), 1, &other)
        .map(|_| ())
        .expect_err("other drives");
    assert!(refusal.place.starts_with("drives."), "{refusal}");
}

#[test]
fn a_volume_without_credits_makes_a_load_slower() {
    let elapsed_ns = |first: u64| {
        let mut scenario = article_a(SCALE, &[small_run(&["v"], "v", 1)]);
        let mut profile = profile(CLOUD);
        profile["credits"]["first_ios"]["value"] = json!(first);
        scenario["server"]["memory_bytes"] = json!(3_200_000_000_u64);
        scenario["drives"] = json!({"c": {"profile": profile}});
        scenario["volumes"] = json!({"v": {"drives": ["c"]}});
        outcomes(&scenario)[0].elapsed_ns
    };
    let (with, without) = (elapsed_ns(5_400_000), elapsed_ns(0));
    assert!(10 * without > 11 * with, "{with} and {without} ns");
}

fn raw(drives: &Value, every: &Value) -> RawScenario {
    let scenario = json!({
        "scale": 100, "seed": 1, "drives": drives, "volumes": {"v": {"drives": ["d"]}},
        "tests": [{
            "volume": "v", "access": every["access"], "pattern": "random", "block_bytes": 8192, "threads": 1,
            "outstanding": 64, "duration_s": every["duration_s"], "seed": 1,
        }],
    });
    serde_json::from_value(scenario).expect("a scenario")
}

#[test]
fn raw_io_lists_every_request_if_asked_and_is_otherwise_the_same() {
    let drives = json!({"d": {"profile": profile(CLOUD)}});
    let scenario = raw(&drives, &json!({"access": "read", "duration_s": 60}));
    let outcome = |every_io| {
        let mut block = RawBlock::new(scenario.clone()).expect("it can be run");
        block.list_every_io(every_io);
        block
            .run_next(|_| ControlFlow::Continue(()))
            .expect("a test")
            .expect("one")
    };
    let (plain, mut listed) = (outcome(false), outcome(true));
    assert_eq!(plain.every_io, None);
    let every_io = listed.every_io.take().expect("it was asked for");
    assert_eq!(listed, plain, "a trace changes nothing");
    assert_eq!(every_io.len() as u64, plain.submitted);
    assert!(every_io.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    let longest = every_io.iter().filter_map(|io| io.took_ns).max();
    assert_eq!(longest, Some(plain.latency.longest_ns));
    assert!(
        every_io
            .iter()
            .all(|io| (io.access, io.bytes, io.volume) == ("read", 8192, 0))
    );
}

#[test]
fn a_run_lists_every_io_if_asked_and_is_otherwise_the_same() {
    let scenario = article_a(SCALE, &[run(4)]);
    let outcome = |every_io| {
        let mut block = Block::new(read(&scenario)).expect("it can be run");
        block.list_every_io(every_io);
        block
            .run_next(|_| ControlFlow::Continue(()))
            .expect("a run")
            .expect("one")
    };
    let (plain, mut listed) = (outcome(false), outcome(true));
    let every_io = listed.every_io.take().expect("it was asked for");
    assert_eq!(listed, plain, "a trace changes nothing");
    let counted = |access: &str| every_io.iter().filter(|io| io.access == access).count() as u64;
    let counters = &plain.counters;
    assert_eq!(
        [counted("read"), counted("write"), counted("append")],
        [counters.reads, counters.writes, counters.log_flushes]
    );
    let read_ns: u64 = every_io
        .iter()
        .filter(|io| io.access == "read")
        .filter_map(|io| io.took_ns)
        .sum();
    assert_eq!(read_ns / counters.reads.max(1), counters.read_latency_ns);
}

#[test]
fn what_is_for_other_drives_is_refused_by_name() {
    for (key, value, words) in [
        ("format", json!("basic"), "has format, which is for flash drives"),
        ("history", json!("aged"), "has history, which is for flash drives"),
        ("order", json!("fifo"), "which is for disks"),
    ] {
        let mut scenario = scenario();
        scenario["drives"]["nvme"][key] = value;
        let refusal = Block::new(read(&scenario)).map(|_| ()).expect_err(key);
        assert_eq!(refusal.place, "drives.nvme");
        assert!(refusal.what.contains(words), "{refusal}");
    }
    let mut scenario = scenario();
    scenario["drives"]["nvme"]["profile"]["reads"]["speed"] = json!(1);
    let error = serde_json::from_value::<crate::Scenario>(scenario).expect_err("an unknown key");
    assert!(error.to_string().contains("unknown field `speed`"), "{error}");
}
