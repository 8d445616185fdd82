//! The simulated engine at work: facts of article A that need no fitting, determinism, conservation, small worlds at random.

mod world;

use std::ops::ControlFlow;

use proptest::prelude::*;
use serde_json::json;
use storagelab_sim::run::{Block, BlockError};
use world::{article_a, float, off, outcomes, read, rest_of, run, waits};

/// Small enough for a debug build.
const SMALL: u32 = 512;

#[test]
fn the_same_scenario_and_seed_give_the_same_bytes() {
    let scenario = article_a(SMALL, &[run(1), run(4)]);
    let bytes = |scenario: &serde_json::Value| serde_json::to_string(&outcomes(scenario)).expect("JSON");
    let first = bytes(&scenario);
    assert_eq!(first, bytes(&scenario));
    let mut other = scenario.clone();
    other["runs"][0]["seed"] = json!(2);
    assert_ne!(first, bytes(&other));
}

#[test]
fn waits_and_cpu_time_are_connections_times_elapsed_to_the_nanosecond() {
    for outcome in outcomes(&article_a(SMALL, &[run(1), run(8), run(128)])) {
        let waits: u64 = outcome.waits.iter().map(|row| row.resource_ns + row.signal_ns).sum();
        let sum = waits + outcome.cpu_ns + outcome.finished_early_ns;
        assert_eq!(sum, u64::from(outcome.connections) * outcome.elapsed_ns);
    }
}

#[test]
fn a_hundred_and_sixty_million_rows_take_about_37_gigabytes_and_0_283_reads_each() {
    const SCALE: u32 = 128;
    let outcome = &outcomes(&article_a(SCALE, &[run(8)]))[0];
    assert_eq!(outcome.rows, 64 * (2_500_000 / u64::from(SCALE)));
    let counters = &outcome.counters;
    let gigabytes = float(counters.table_bytes) * f64::from(SCALE) / 1e9;
    assert!(off(gigabytes, 37.0) < 0.03, "{gigabytes} GB");
    let reads = float(counters.reads) / float(outcome.rows);
    assert!(off(reads, 0.283) < 0.02, "{reads} reads a row");
    // A page is in memory with probability b / x once the table has grown to x times its end: 1 - b - b ln(1/b) on average.
    let b = float(counters.pool_pages) / float(counters.leaf_pages);
    let expected = 1.0 - b - b * (1.0 / b).ln();
    assert!(
        off(reads, expected) < 0.03,
        "{reads} reads a row, by the formula {expected}"
    );
}

#[test]
fn yields_are_the_phase_in_memory() {
    let outcome = &outcomes(&article_a(256, &[run(16)]))[0];
    let in_memory = float(outcome.counters.pool_pages) / float(outcome.counters.leaf_pages);
    let quanta = in_memory * float(outcome.rows) * 60_000.0 / 4e6;
    let yields = float(waits(outcome, "SOS_SCHEDULER_YIELD").count);
    assert!(
        (0.8..1.1).contains(&(yields / quanta)),
        "{yields} yields, {quanta} quanta of work in memory"
    );
    assert_eq!(waits(outcome, "SOS_SCHEDULER_YIELD").resource_ns, 0);
}

#[test]
fn each_commit_waits_for_the_log_once() {
    let mut scenario = article_a(SMALL, &[run(2)]);
    scenario["runs"][0]["workload"] = json!({"kind": "random-insert", "connections": 16, "rows_per_connection": 2_000_000, "rows_per_transaction": 10});
    let outcome = &outcomes(&scenario)[0];
    let transactions = 16 * (2_000_000 / u64::from(SMALL)).div_ceil(10);
    let log = waits(outcome, "WRITELOG");
    assert!(
        log.count <= transactions && off(float(log.count), float(transactions)) < 0.001,
        "{log:?} of {transactions}"
    );
}

#[test]
fn pfs_latches_are_a_matter_of_one_file_and_leave_with_more() {
    let by_files = outcomes(&article_a(256, &[run(1), run(2), run(16)]));
    let share = |outcome| float(waits(outcome, "PAGELATCH_UP").wait_ns()) / float(outcome.elapsed_ns);
    let shares: Vec<f64> = by_files.iter().map(share).collect();
    assert!(
        shares[0] > 1.4 * shares[1] && shares[1] > 10.0 * shares[2],
        "{shares:?} of 64 sessions"
    );
    let at_once = by_files[0].waiting_tasks.iter().flat_map(|sample| &sample.tasks);
    let pfs = at_once.filter(|task| task.resource.starts_with("PFS 5:1:"));
    let most = pfs
        .max_by_key(|task| task.workers)
        .expect("somebody waits for a PFS page");
    assert!(most.workers >= 12 && most.wait_type == "PAGELATCH_UP", "{most:?}");
    let page: u64 = most
        .resource
        .rsplit(':')
        .next()
        .and_then(|page| page.parse().ok())
        .expect("a page");
    assert!(page == 1 || page % 8088 == 0, "{most:?}");
}

#[test]
fn a_pfs_page_updated_under_a_shared_latch_makes_nobody_wait() {
    let mut scenario = article_a(SMALL, &[run(1)]);
    scenario["server"]["switches"] = json!({"pfs_latch": "shared"});
    let outcome = &outcomes(&scenario)[0];
    let pfs = outcome
        .waiting_tasks
        .iter()
        .flat_map(|sample| &sample.tasks)
        .filter(|task| task.resource.starts_with("PFS"));
    assert_eq!(pfs.count(), 0);
}

#[test]
fn a_block_that_is_put_away_goes_on_as_if_it_had_not_been() {
    let scenario = article_a(SMALL, &[run(1), run(4), run(16)]);
    let at_one_go = outcomes(&scenario);
    let mut block = Block::new(read(&scenario)).expect("it can be run");
    block.run_next(|_| ControlFlow::Continue(())).expect("a run");
    let saved = block.save_drives();
    let mut resumed = Block::resume(read(&scenario), block.runs_done(), &saved).expect("it can be resumed");
    assert_eq!(rest_of(&mut resumed), at_one_go[1..]);
}

#[test]
fn a_drive_remembers_what_was_written_before_it_was_formatted() {
    let mut scenario = article_a(SMALL, &[run(1), run(8), run(8)]);
    scenario["runs"][2]["format_before"] = json!(true);
    let used: Vec<f64> = outcomes(&scenario)
        .iter()
        .map(|outcome| outcome.drives[0].utilisation)
        .collect();
    assert!(
        used[1] > 1.3 * used[0] && off(used[2], used[0]) < 0.1,
        "{used:?} of the flash in use"
    );
}

#[test]
fn a_drive_without_memory_for_its_map_fails_the_run_and_says_so() {
    let mut scenario = article_a(SMALL, &[run(1)]);
    scenario["drives"]["ssd"]["driver"] = json!("1.2.7");
    scenario["drives"]["ssd"]["host_ram_bytes"] = json!(100_000_000);
    let outcome = &outcomes(&scenario)[0];
    let failure = outcome.failure.as_deref().expect("it fails");
    assert!(failure.contains("off-line"), "{failure}");
}

#[test]
fn a_run_can_be_stopped() {
    let mut block = Block::new(read(&article_a(SMALL, &[run(1)]))).expect("it can be run");
    let mut steps = 0;
    let stopped = block.run_next(|step| {
        steps += 1;
        assert_eq!((step.run, step.rows_in_all), (0, 64 * (2_500_000 / u64::from(SMALL))));
        if steps == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(stopped, Err(BlockError::Interrupted));
    assert_eq!(steps, 3);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let cases = [
        ("/scale", json!(0), "scale"),
        ("/server/cores", json!(0), "server.cores"),
        ("/server/memory_bytes", json!(1_000_000), "server.memory_bytes"),
        ("/drives/ssd/format", json!("no-such"), "drives.ssd"),
        ("/volumes/a/drives", json!(["hdd"]), "volumes.a"),
        ("/volumes/a/drives", json!(["ssd", "ssd"]), "volumes.a"),
        ("/runs/0/data_files", json!(0), "runs[0].data_files"),
        ("/runs/0/data_files", json!(129), "runs[0].data_files"),
        ("/runs/0/data_volumes", json!(["b"]), "runs[0].data_volumes"),
        ("/runs/0/workload/connections", json!(0), "runs[0].workload.connections"),
        (
            "/runs/0/workload/rows_per_connection",
            json!(1),
            "runs[0].workload.rows_per_connection",
        ),
        (
            "/runs/0/workload/rows_per_connection",
            json!(50_000_000),
            "runs[0].workload.rows_per_connection",
        ),
        (
            "/runs/0/workload/rows_per_transaction",
            json!(0),
            "runs[0].workload.rows_per_transaction",
        ),
    ];
    for (pointer, value, place) in cases {
        let mut scenario = article_a(64, &[run(8)]);
        *scenario.pointer_mut(pointer).expect("a place in the scenario") = value;
        let refusal = Block::new(read(&scenario)).expect_err(pointer);
        assert_eq!(refusal.place, place, "{refusal}");
    }
    let mut pool = article_a(64, &[run(8)]);
    pool["server"]["costs"] = json!({"pool_per_mille": {"value": 1200, "label": "fitted", "source": "none"}});
    let refusal = Block::new(read(&pool)).expect_err("a pool larger than the memory");
    assert_eq!(refusal.place, "server.costs.pool_per_mille");
    let mut files = article_a(64, &[run(8)]);
    files["runs"][0]["data_bytes"] = json!(200_000_000_000_u64);
    let refusal = Block::new(read(&files)).expect_err("files larger than the drive");
    assert_eq!(refusal.place, "runs[0].data_files");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Each run checks itself at its end: no page lost or doubled, frames add up, time adds up, nobody left waiting.
    #[test]
    fn small_worlds_at_random_keep_their_pages_frames_and_time(
        cores in 1_u32..12,
        connections in 1_u32..90,
        files in 1_u32..20,
        rows_per_transaction in 1_u32..2000,
        memory_mb in 4_000_u64..20_000,
        lazy_writer: bool,
        checkpoints: bool,
        notice_at_switch: bool,
        parent_latches: bool,
        pick_tries in 0_u32..3,
        seed: u64,
    ) {
        let mut scenario = article_a(1000, &[run(files), run(files)]);
        scenario["server"] = json!({
            "cores": cores, "memory_bytes": memory_mb * 1_000_000,
            "switches": {"lazy_writer": lazy_writer, "checkpoints": checkpoints, "notice_at_switch": notice_at_switch,
                "parent_latches": parent_latches, "pick_tries": pick_tries},
        });
        scenario["runs"][0]["seed"] = json!(seed);
        scenario["runs"][1]["files_shift"] = json!(true);
        for index in 0..2 {
            scenario["runs"][index]["workload"] = json!({
                "kind": "random-insert", "connections": connections, "rows_per_connection": 60_000_000 / u64::from(connections),
                "rows_per_transaction": rows_per_transaction,
            });
        }
        for outcome in outcomes(&scenario) {
            prop_assert_eq!(outcome.failure, None);
            prop_assert_eq!(outcome.rows, u64::from(connections) * (60_000_000 / u64::from(connections) / 1000));
        }
    }
}
