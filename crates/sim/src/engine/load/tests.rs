//! Loads in a table that was filled before: reads only, and a load that is defined in a file of these tests.

mod updates;

use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::Kind;
use crate::Block;
use crate::outcome::{RunOutcome, WaitRow};
use crate::scenario::Scenario;
use crate::tests::world::{article_a, float, off, outcomes, read, rest_of, run, waits};

/// This is small enough for a debug build.
const SCALE: u32 = 512;
const CONNECTIONS: u64 = 16;

/// A run that reads a table. Each connection has filled it with `rows` rows.
fn reading(rows: u64, reads: u64) -> Value {
    let mut run = run(4);
    run["workload"] = json!({
        "kind": "point-read", "connections": CONNECTIONS, "rows_per_connection": rows, "rows_per_transaction": 100,
        "reads_per_connection": reads,
    });
    run
}

fn reads_of(rows: u64, reads: u64) -> RunOutcome {
    outcomes(&article_a(SCALE, &[reading(rows, reads)])).remove(0)
}

/// The same run, with updates instead of reads.
fn updating(rows: u64, updates: u64) -> Scenario {
    let mut scenario = read(&article_a(SCALE, &[reading(rows, 1)]));
    let load = &mut scenario.runs[0].workload;
    load.kind = Kind(&updates::Updates);
    load.own = [("updates_per_connection".to_owned(), Some(updates))].into();
    scenario
}

fn all_time_is_accounted_for(outcome: &RunOutcome) -> bool {
    let waited: u64 = outcome.waits.iter().map(WaitRow::wait_ns).sum();
    waited + outcome.cpu_ns + outcome.finished_early_ns == u64::from(outcome.connections) * outcome.elapsed_ns
}

#[test]
fn reads_run_alone_in_a_table_that_was_filled_and_change_nothing() {
    let outcome = reads_of(5_000_000, 2_000_000);
    let counters = &outcome.counters;
    assert_eq!((outcome.failure.as_deref(), outcome.rows), (None, 0));
    assert_eq!(counters.point_reads, CONNECTIONS * (2_000_000 / u64::from(SCALE)));
    let rows = CONNECTIONS * (5_000_000 / u64::from(SCALE));
    let fill = float(rows) / 50.0 / float(counters.leaf_pages);
    assert!(off(fill, std::f64::consts::LN_2) < 0.03, "leaves are {fill} full");
    let changes = [
        counters.splits,
        counters.written_pages,
        counters.log_flushes,
        counters.log_bytes,
    ];
    assert_eq!(
        changes, [0; 4],
        "the inserts are not counted, and their pages were written before"
    );
    assert_eq!(outcome.drives[0].host_pages, 0);
    let others = outcome
        .waits
        .iter()
        .filter(|row| row.wait_type.ends_with("_EX") || row.wait_type == "WRITELOG");
    assert_eq!(others.count(), 0, "{:?}", outcome.waits);
    assert!(all_time_is_accounted_for(&outcome));
}

#[test]
fn as_many_reads_wait_for_their_page_as_do_not_find_it_in_memory() {
    let missed = |outcome: &RunOutcome| float(outcome.counters.reads) / float(outcome.counters.point_reads);
    let (small, large) = (reads_of(1_000_000, 2_000_000), reads_of(10_000_000, 2_000_000));
    assert_eq!(small.counters.reads, 0, "the whole table is in memory");
    let absent = 1.0 - float(large.counters.pool_pages) / float(large.counters.leaf_pages);
    assert!(
        off(missed(&large), absent) < 0.05,
        "{} of reads, {absent} of pages",
        missed(&large)
    );
    assert_eq!(waits(&large, "PAGEIOLATCH_SH").count, large.counters.reads);
    assert!(large.elapsed_ns > small.elapsed_ns);
}

#[test]
fn what_fills_a_table_is_reported_as_progress_without_operations_and_can_be_broken_off() {
    let mut block = Block::new(read(&article_a(SCALE, &[reading(2_000_000, 100_000)]))).expect("a scenario");
    let mut first = None;
    let made = block.run_next(|step| {
        first = Some((step.rows, step.rows_in_all));
        ControlFlow::Break(())
    });
    assert_eq!(made, Err(crate::BlockError::Interrupted));
    assert_eq!(first, Some((0, CONNECTIONS * (100_000 / u64::from(SCALE)))));
}

#[test]
fn a_run_whose_table_cannot_be_filled_fails_in_plain_words_and_the_next_run_is_made() {
    let mut scenario = article_a(SCALE, &[reading(500_000, 100_000), reading(500_000, 100_000)]);
    scenario["runs"][0]["data_bytes"] = json!(5_000_000_000_u64);
    let mut block = Block::new(read(&scenario)).expect("so few rows fit");
    block.scenario.runs[0].workload.rows_per_connection = 5_000_000;
    let [full, after] = &rest_of(&mut block)[..] else {
        panic!("two runs")
    };
    assert!(
        full.failure
            .as_deref()
            .is_some_and(|why| why.starts_with("the data files are full")),
        "{:?}",
        full.failure
    );
    assert_eq!((full.counters.point_reads, full.elapsed_ns), (0, 0));
    assert_eq!(
        (after.failure.as_deref(), after.counters.point_reads),
        (None, CONNECTIONS * 195)
    );
}

#[test]
fn a_load_from_a_file_of_the_tests_own_runs_like_the_others() {
    let mut block = Block::new(updating(5_000_000, 1_000_000)).expect("a scenario");
    let outcome = rest_of(&mut block).remove(0);
    let counters = &outcome.counters;
    let updates = CONNECTIONS * (1_000_000 / u64::from(SCALE));
    assert_eq!(
        (outcome.failure.as_deref(), outcome.rows, counters.splits),
        (None, 0, 0)
    );
    assert_eq!(counters.point_reads, updates, "the load counts its updates so");
    assert!(counters.written_pages > 0 && counters.log_bytes > 0, "{counters:?}");
    assert!(waits(&outcome, "PAGEIOLATCH_EX").count > 0 && waits(&outcome, "WRITELOG").count > 0);
    assert!(all_time_is_accounted_for(&outcome));
    let again = rest_of(&mut Block::new(updating(5_000_000, 1_000_000)).expect("a scenario")).remove(0);
    assert_eq!(again, outcome);
}

#[test]
fn a_load_without_its_key_or_with_a_strange_one_is_refused_by_name() {
    let refusal = |key: &str, value: Value| {
        let mut run = reading(1_000_000, 1_000_000);
        run["workload"][key] = value;
        Block::new(read(&article_a(SCALE, &[run]))).expect_err(key).to_string()
    };
    let place = "runs[0].workload";
    assert!(
        refusal("reads_per_connection", Value::Null).starts_with(&format!("{place}.reads_per_connection: is missing"))
    );
    assert!(
        refusal("read_per_mille", json!(3)).starts_with(&format!("{place}.read_per_mille: is for kind = \"mixed\""))
    );
    assert!(refusal("speed", json!(3)).starts_with(&format!("{place}.speed: is no key of a load")));
}
