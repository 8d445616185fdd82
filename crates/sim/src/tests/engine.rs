//! The simulated engine: its waits, determinism, conservation of time, drives and their history, and refusals. Small
//! random worlds are in `worlds.rs`.

use std::ops::ControlFlow;

use crate::engine::files::Layout;
use crate::outcome::RunOutcome;
use crate::rng::Rng;
use crate::tests::world::{article_a, drive, float, off, outcomes, profile, read, rest_of, run, waits};
use crate::{Block, BlockError};
use serde_json::json;

/// This is small enough for a debug build.
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
    let by_files = outcomes(&article_a(256, &[run(1), run(4), run(16)]));
    let share = |outcome| float(waits(outcome, "PAGELATCH_UP").wait_ns()) / float(outcome.elapsed_ns);
    let shares: Vec<f64> = by_files.iter().map(share).collect();
    assert!(
        shares[0] > 1.2 * shares[1] && shares[1] > 3.0 * shares[2],
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
    assert!(page == 1 || page.is_multiple_of(8088), "{most:?}");
}

#[test]
fn who_looks_for_a_free_page_waits_often_but_not_for_the_whole_convoy() {
    let [with, without] = [true, false].map(|look| {
        let mut scenario = article_a(256, &[run(1)]);
        scenario["server"]["switches"]["pfs_look"] = json!(look);
        outcomes(&scenario).remove(0)
    });
    let shared = [&with, &without].map(|outcome| waits(outcome, "PAGELATCH_SH"));
    let updates = [&with, &without].map(|outcome| waits(outcome, "PAGELATCH_UP"));
    let looks = shared[0].count - shared[1].count;
    assert!(
        2 * looks > updates[0].count && looks > shared[1].count,
        "{shared:?} {updates:?}"
    );
    let looked_ns = shared[0].wait_ns().saturating_sub(shared[1].wait_ns());
    let update_ns = updates[0].wait_ns() / updates[0].count;
    assert!(5 * looked_ns / looks < update_ns, "{shared:?} {updates:?}");
    let looking = |outcome: &RunOutcome| {
        let tasks = outcome.waiting_tasks.iter().flat_map(|sample| &sample.tasks);
        let looks = tasks.filter(|task| task.wait_type == "PAGELATCH_SH" && task.resource.starts_with("PFS 5:1:"));
        looks.count()
    };
    assert!(looking(&with) > 0 && looking(&without) == 0);
}

#[test]
fn a_pfs_page_updated_under_a_shared_latch_makes_nobody_wait() {
    let mut scenario = article_a(SMALL, &[run(1)]);
    scenario["server"]["switches"]["pfs_latch"] = json!("shared");
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
        ("/server/memory_bytes", json!(u64::MAX), "server.memory_bytes"),
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
            "/runs/0/workload/rows_per_connection",
            json!(u64::MAX),
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
    for (cost, value) in [
        ("row_cpu_ns", 0),
        ("row_cpu_ns", u64::MAX),
        ("checkpoint_latency_ns", 10),
        ("checkpoint_period_ns", 1_000_000),
        ("log_block_bytes", 16_000_000),
        ("index_fanout", 0),
        ("gather_pages", 1 << 40),
    ] {
        let mut scenario = article_a(64, &[run(8)]);
        scenario["runs"][0]["log_bytes"] = json!(1_000_000);
        scenario["server"]["costs"][cost]["value"] = json!(value);
        let refusal = Block::new(read(&scenario)).expect_err(cost);
        assert_eq!(refusal.place, format!("server.costs.{cost}"), "{refusal}");
    }
    let mut pool = article_a(64, &[run(8)]);
    pool["server"]["costs"]["pool_per_mille"]["value"] = json!(1200);
    let refusal = Block::new(read(&pool)).expect_err("a pool larger than the memory");
    assert_eq!(refusal.place, "server.costs.pool_per_mille");
    let mut files = article_a(64, &[run(8)]);
    files["runs"][0]["data_bytes"] = json!(200_000_000_000_u64);
    let refusal = Block::new(read(&files)).expect_err("files larger than the drive");
    assert_eq!(refusal.place, "runs[0].data_bytes");
}

/// Article A's drive with less flash, so that small tables are spread over all of it.
fn small_drive() -> serde_json::Value {
    let mut drive = drive();
    drive["profile"]["geometry"]["raw_bytes"]["value"] = json!(80_000_000_000_u64);
    drive["profile"]["formats"]["maximum-write"]["value"] = json!(50_000_000_000_u64);
    drive
}

#[test]
fn files_that_were_moved_over_the_end_of_the_drive_go_on_at_its_beginning_and_so_does_their_log() {
    let mut scenario = article_a(1000, &[run(4)]);
    scenario["drives"]["ssd"] = small_drive();
    let plan = &mut scenario["runs"][0];
    plan["files_shift"] = json!(true);
    plan["workload"] =
        json!({"kind": "random-insert", "connections": 8, "rows_per_connection": 200_000, "rows_per_transaction": 10});
    // Finds a seed with which the log begins shortly before the end.
    let checked = read(&scenario);
    let mut layout = Layout::of(&checked, &checked.runs[0]).expect("it fits");
    let mut goes_over = |seed: &u64| {
        layout.shift(&mut Rng::stream(*seed, "file system"));
        layout.shifted(0, 0) + 100_000 > layout.volume_bytes[0]
    };
    scenario["runs"][0]["seed"] = json!((0..100_000).find(|seed| goes_over(seed)));
    let outcome = &outcomes(&scenario)[0];
    assert_eq!((outcome.failure.as_deref(), outcome.rows), (None, 1600));
    assert!(
        outcome.counters.log_bytes > 200_000,
        "{} bytes of log",
        outcome.counters.log_bytes
    );
}

#[test]
fn pieces_of_what_goes_over_the_end_of_the_drive_are_all_of_it() {
    let scenario = read(&article_a(SMALL, &[run(1)]));
    let mut layout = Layout::of(&scenario, &scenario.runs[0]).expect("it fits");
    layout.volume_bytes = vec![10 * 8192 + 4096];
    layout.shift_bytes = vec![9 * 8192];
    let pieces = |offset, bytes| {
        let pieces = layout.pieces(0, layout.shifted(0, offset), bytes).into_iter();
        pieces.filter(|piece| piece.1 > 0).collect::<Vec<_>>()
    };
    assert_eq!(pieces(0, 8192), [(9 * 8192, 8192)]);
    assert_eq!(pieces(0, 3 * 8192), [(9 * 8192, 8192), (0, 2 * 8192)]);
    assert_eq!(pieces(8192, 512), [(0, 512)]);
    assert_eq!(pieces(4096, 8192), [(9 * 8192 + 4096, 4096), (0, 4096)]);
}

#[test]
fn a_drive_that_is_told_of_deleted_files_has_room_for_the_next_ones_and_one_that_is_not_fills_up() {
    let used = |trim: bool| {
        let mut scenario = article_a(SMALL, &[run(2), run(8), run(32)]);
        scenario["drives"]["ssd"]["trim"] = json!(trim);
        let used: Vec<f64> = outcomes(&scenario)
            .iter()
            .map(|outcome| outcome.drives[0].utilisation)
            .collect();
        used
    };
    let (told, untold) = (used(true), used(false));
    assert!(off(told[2], told[0]) < 0.1, "{told:?} of the flash in use");
    assert!(
        untold[2] > untold[1] && untold[1] > 1.3 * untold[0],
        "{untold:?} of the flash in use"
    );
}

#[test]
fn a_drive_that_went_off_line_stays_so_also_over_a_rest_until_it_is_formatted() {
    let mut scenario = article_a(SMALL, &[run(1), run(1), run(1)]);
    scenario["drives"]["ssd"]["host_ram_bytes"] = json!(14_000_000);
    scenario["runs"][2]["format_before"] = json!(true);
    for index in 0..3 {
        let rows = if index == 2 { 100_000 } else { 2_500_000 };
        scenario["runs"][index]["workload"]["rows_per_connection"] = json!(rows);
    }
    let failures = |block: &mut Block| {
        let all = rest_of(block);
        all.iter().map(|outcome| outcome.failure.is_some()).collect::<Vec<_>>()
    };
    let mut block = Block::new(read(&scenario)).expect("it can be run");
    let first = block
        .run_next(|_| ControlFlow::Continue(()))
        .expect("a run")
        .expect("the first");
    assert!(
        first
            .failure
            .is_some_and(|why| why.contains("larger sectors, a newer driver"))
    );
    let mut rested = Block::resume(read(&scenario), 1, &block.save_drives()).expect("it can be resumed");
    assert_eq!(failures(&mut block), [true, false]);
    assert_eq!(failures(&mut rested), [true, false]);
}

/// If only the operating system formats a drive, it keeps what was on it, even if that happens before each run.
#[test]
fn a_drive_that_only_the_operating_system_formats_copies_more_than_one_that_its_maker_formatted_and_goes_on_doing_so() {
    let copies = |history: Option<&str>| {
        let mut runs = [run(1), run(1)];
        for run in &mut runs {
            run["format_before"] = json!(true);
        }
        let mut scenario = article_a(256, &runs);
        scenario["drives"]["ssd"]["format"] = json!("basic");
        scenario["drives"]["ssd"]["history"] = json!(history);
        let made = outcomes(&scenario);
        made.iter()
            .map(|run| run.drives[0].write_amplification)
            .collect::<Vec<_>>()
    };
    let [by_its_maker, new, filled, aged] = [None, Some("formatted"), Some("filled"), Some("aged")].map(copies);
    assert_eq!(
        by_its_maker[0].to_bits(),
        new[0].to_bits(),
        "as it comes from the factory"
    );
    assert!(new[1] >= new[0], "nobody wipes it: {new:?}");
    assert!(filled[0] > 1.05 && aged[0] > 1.5, "{filled:?} {aged:?}");
    assert!(aged[1] > by_its_maker[1] + 0.3, "{aged:?} {by_its_maker:?}");
}

#[test]
fn an_aged_drive_that_is_told_of_freed_addresses_is_as_new_once_a_file_system_is_put_on_it() {
    let mut scenario = article_a(256, &[run(1)]);
    scenario["drives"]["ssd"]["history"] = json!("aged");
    scenario["drives"]["ssd"]["trim"] = json!(true);
    assert!(off(outcomes(&scenario)[0].drives[0].write_amplification, 1.0) < 0.05);
}

#[test]
fn a_disk_has_no_history() {
    let mut scenario = article_a(256, &[run(1)]);
    scenario["drives"]["ssd"] = json!({"profile": profile("scsi-15k-300"), "history": "aged"});
    let refusal = Block::new(read(&scenario)).expect_err("a disk has none");
    assert!(refusal.what.contains("history, which is for flash drives"), "{refusal}");
}
