//! Loads other than random inserts: mixed loads with point reads, and page-sized rows at the right edge of the index.

use crate::Block;
use crate::outcome::{RunOutcome, WaitRow};
use crate::tests::world::{article_a, float, off, outcomes, read, run, waits};
use serde_json::{Value, json};

/// This is small enough for a debug build.
const SCALE: u32 = 512;

fn mixed(read_per_mille: u32) -> Value {
    let mut run = run(8);
    run["workload"] = json!({
        "kind": "mixed", "read_per_mille": read_per_mille, "connections": 16, "rows_per_connection": 5_000_000,
        "rows_per_transaction": 100,
    });
    run
}

/// Article C's load.
fn sequential(data_files: u32) -> Value {
    let mut run = run(data_files);
    run["workload"] = json!({
        "kind": "sequential-insert", "connections": 16, "rows_per_connection": 819_200, "rows_per_transaction": 100,
    });
    run
}

fn of(runs: &[Value]) -> Vec<RunOutcome> {
    outcomes(&article_a(SCALE, runs))
}

fn json(outcome: &RunOutcome) -> String {
    serde_json::to_string(outcome).expect("JSON")
}

#[test]
fn a_mixed_load_without_reads_is_a_random_insert_to_the_byte() {
    let without = mixed(0);
    let mut plain = without.clone();
    plain["workload"] = json!({
        "kind": "random-insert", "connections": 16, "rows_per_connection": 5_000_000, "rows_per_transaction": 100,
    });
    assert_eq!(json(&of(&[without])[0]), json(&of(&[plain])[0]));
}

#[test]
fn reads_join_the_inserts_in_their_part_and_wait_for_pages_in_a_wait_of_their_own() {
    let [few, many] = &of(&[mixed(100), mixed(600)])[..] else {
        panic!("two runs")
    };
    for (outcome, part) in [(few, 0.1), (many, 0.6)] {
        let (rows, reads) = (outcome.rows, outcome.counters.point_reads);
        assert_eq!(rows, 16 * (5_000_000 / u64::from(SCALE)));
        assert!(
            off(float(reads) / float(rows + reads), part) < 0.02,
            "{reads} reads beside {rows} rows"
        );
        let (shared, exclusive) = (waits(outcome, "PAGEIOLATCH_SH"), waits(outcome, "PAGEIOLATCH_EX"));
        // Reads and inserts use random pages, so equal shares of both miss memory. A page that is being written stops
        // only inserts. With a thousand misses, chance is 3 %.
        let missed = float(shared.count) / float(reads);
        assert!(
            missed > 0.05 && missed < 1.1 * float(exclusive.count) / float(rows),
            "{shared:?} {exclusive:?} of {reads} reads and {rows} rows"
        );
    }
    assert!(many.elapsed_ns > few.elapsed_ns && many.counters.reads > 2 * few.counters.reads);
}

#[test]
fn reads_make_no_page_dirty_and_no_log() {
    let [none, many] = &of(&[mixed(0), mixed(800)])[..] else {
        panic!("two runs")
    };
    let log_of_rows = |outcome: &RunOutcome| float(outcome.counters.log_bytes) / float(outcome.rows);
    assert!(off(log_of_rows(many), log_of_rows(none)) < 0.2, "padding apart");
    assert_eq!(
        waits(many, "WRITELOG").count.abs_diff(waits(none, "WRITELOG").count) / 50,
        0
    );
    // There are four reads per row. If reads made pages dirty, several times as many pages would be written per row.
    let written = |outcome: &RunOutcome| float(outcome.counters.written_pages) / float(outcome.rows);
    assert!(
        written(many) < 2.5 * written(none),
        "{} {}",
        written(many),
        written(none)
    );
}

#[test]
fn ascending_rows_take_a_page_each_and_no_page_is_ever_read() {
    let outcome = &of(&[sequential(4)])[0];
    let counters = &outcome.counters;
    assert_eq!(
        (outcome.failure.as_deref(), outcome.rows),
        (None, 16 * (819_200 / u64::from(SCALE)))
    );
    assert_eq!(
        (counters.leaf_pages, counters.reads, counters.splits),
        (outcome.rows, 0, outcome.rows - 1)
    );
    assert!(counters.log_bytes > 8192 * outcome.rows, "{counters:?}");
    let pages_a_write = float(counters.written_pages) / float(counters.writes);
    assert!(pages_a_write > 12.0, "{pages_a_write} pages a write");
    let all: u64 = outcome.waits.iter().map(WaitRow::wait_ns).sum();
    assert_eq!(
        all + outcome.cpu_ns + outcome.finished_early_ns,
        u64::from(outcome.connections) * outcome.elapsed_ns
    );
    let edge = waits(outcome, "PAGELATCH_EX").wait_ns() + waits(outcome, "PAGELATCH_SH").wait_ns();
    assert!(
        2 * edge > all,
        "most of the time goes to the last page and its parent: {:?}",
        outcome.waits
    );
}

#[test]
fn the_right_edge_is_as_slow_with_any_number_of_files_until_each_worker_has_one() {
    let elapsed = |keep: bool| -> Vec<f64> {
        let mut scenario = article_a(SCALE, &[1, 4, 8, 16].map(sequential));
        scenario["server"]["switches"]["keep_file"] = json!(keep);
        let all = outcomes(&scenario);
        all.iter().map(|outcome| float(outcome.elapsed_ns)).collect()
    };
    let kept = elapsed(true);
    assert!(off(kept[1], kept[0]) < 0.15 && off(kept[2], kept[0]) < 0.25, "{kept:?}");
    assert!(kept[3] < 0.7 * kept[2], "{kept:?}");
    let searched = elapsed(false);
    assert!(off(searched[3], searched[0]) < 0.15, "{searched:?}");
}

#[test]
fn one_connection_has_the_right_edge_for_itself() {
    let mut alone = sequential(1);
    alone["workload"]["connections"] = json!(1);
    let outcome = &of(&[alone])[0];
    assert_eq!(
        waits(outcome, "PAGELATCH_EX").count + waits(outcome, "PAGELATCH_UP").count,
        0
    );
}

#[test]
fn what_a_load_cannot_have_is_refused_by_name() {
    let with = |mut run: Value, field: &str, value: Value| {
        run["workload"][field] = value;
        run
    };
    let mut small = sequential(8);
    small["data_bytes"] = json!(100_000_000_000_u64);
    let cases = [
        (
            with(mixed(0), "read_per_mille", json!(991)),
            "read_per_mille",
            "0 to 990",
        ),
        (
            with(mixed(0), "read_per_mille", Value::Null),
            "read_per_mille",
            "is missing",
        ),
        (
            with(run(8), "read_per_mille", json!(0)),
            "read_per_mille",
            "kind = \"mixed\"",
        ),
        (
            with(sequential(8), "read_per_mille", json!(300)),
            "read_per_mille",
            "leave it out for \"sequential-insert\"",
        ),
        (small, "rows_per_connection", "fewer rows"),
        (
            with(sequential(8), "rows_per_connection", json!(1_300_000)),
            "rows_per_connection",
            "fewer rows",
        ),
    ];
    for (run, field, words) in cases {
        let refusal = Block::new(read(&article_a(64, &[run]))).expect_err(field);
        assert_eq!(refusal.place, format!("runs[0].workload.{field}"), "{refusal}");
        assert!(refusal.what.contains(words), "{refusal}");
    }
}
