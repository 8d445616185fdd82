//! Rules that hold in any world. Small random worlds are drawn from their numbers. Each is run as a whole, and again
//! with a rest in between.
//!
//! `STORAGELAB_WORLD=123 cargo test -p storagelab-sim worlds` runs only world 123. A failure prints this command.
//! `STORAGELAB_WORLDS=1000..3000`, with `--release`, runs that range and takes hours. Worlds from 1000000 on have one
//! odd figure each.
//!
//! The simulator asserts in every run that frames add up and no leaf is in two of them, that every leaf is in memory or
//! on its drive, that every page has one owner, that rows add up, that no worker waits and no latch is held at the end,
//! and that the time of all sessions equals their waits and CPU time to the nanosecond. A debug build also checks at
//! intervals. These tests check what is visible from outside. Tests in `sqlos` check the order and compatibility of
//! latch grants.

#![expect(clippy::print_stdout, reason = "a failing test shows which world it was")]

use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Block;
use crate::flash::{Age, Drive, Parameters};
use crate::outcome::RunOutcome;
use crate::rng::Rng;
use crate::scenario::{RunPlan, Scenario, Workload};
use crate::tests::world::random::{Draw, ODD, World, world};
use crate::volume::DeviceParameters;

/// These worlds take some seconds in a debug build.
const USUAL: Range<u64> = 0..60;

/// The number of worlds by their outcome.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    refused: u64,
    offline: u64,
    full: u64,
    whole: u64,
}

#[test]
fn small_worlds_at_random_lose_no_page_frame_or_nanosecond_and_nobody_is_left_waiting() {
    let variable = |name| std::env::var(name).ok();
    let worlds = chosen(
        variable("STORAGELAB_WORLD").as_deref(),
        variable("STORAGELAB_WORLDS").as_deref(),
    );
    let all = worlds == USUAL;
    let mut tally = Tally::default();
    for seed in worlds {
        judge(seed, |seed| live(seed, &world(seed), &mut tally));
    }
    println!("{tally:?}");
    assert!(
        !all || tally.refused < 10 && tally.offline >= 2 && tally.whole > 60,
        "the worlds are not those that were meant: {tally:?}"
    );
}

#[test]
fn a_figure_that_nobody_would_think_of_is_refused_by_name_or_makes_a_world_like_any_other() {
    let mut tally = Tally::default();
    for seed in ODD..ODD + 100 {
        judge(seed, |seed| live(seed, &world(seed), &mut tally));
    }
    println!("{tally:?}");
    assert!(tally.refused > 30 && tally.whole > 40, "{tally:?}");
}

/// Returns which worlds to run: one, a range, or the usual ones.
fn chosen(one: Option<&str>, many: Option<&str>) -> Range<u64> {
    let number = |text: &str| {
        text.trim()
            .parse()
            .unwrap_or_else(|_| panic!("'{text}' is no number of a world"))
    };
    match (one, many.and_then(|range| range.split_once(".."))) {
        (Some(one), _) => number(one)..number(one) + 1,
        (None, Some((first, end))) => number(first)..number(end),
        (None, None) => USUAL,
    }
}

/// Calls `live`. If the world fails or panics, the message says how to repeat it.
fn judge(seed: u64, live: impl FnOnce(u64) -> Result<(), String>) {
    let why = match catch_unwind(AssertUnwindSafe(|| live(seed))) {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            text.unwrap_or("a panic without words").to_owned()
        }
    };
    panic!("world {seed}: {why}\nagain: STORAGELAB_WORLD={seed} cargo test -p storagelab-sim worlds");
}

fn live(seed: u64, world: &World, tally: &mut Tally) -> Result<(), String> {
    println!("world {seed} {}", world.odd);
    let scenario: Scenario = match serde_json::from_value(world.scenario.clone()) {
        Ok(scenario) => scenario,
        Err(error) if seed >= ODD => {
            println!("world {seed} is refused: {error}");
            tally.refused += 1;
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    };
    if let Err(refusal) = scenario.check() {
        println!("world {seed} is refused: {refusal}");
        tally.refused += 1;
        return Ok(());
    }
    if seed >= ODD && too_large(&scenario) {
        return Ok(());
    }
    let drives = drives_at_first(&scenario, &world.aged_per_mille)?;
    let mut block = Block::resume(scenario.clone(), 0, &drives).map_err(|refusal| refusal.to_string())?;
    let mut outcomes = Vec::new();
    let rest_after = usize::try_from(Draw::new(!seed).from(0, scenario.runs.len() as u64)).expect("a few");
    let mut rested = drives;
    while let Some(outcome) = next(&mut block)? {
        look_at(&scenario, &outcome, tally)?;
        outcomes.push(outcome);
        if outcomes.len() == rest_after {
            rested = block.save_drives();
        }
    }
    let mut resumed = Block::resume(scenario, rest_after, &rested).map_err(|refusal| refusal.to_string())?;
    for outcome in &outcomes[rest_after..] {
        let again = next(&mut resumed)?.ok_or("a block that rested has fewer runs")?;
        same_bytes(outcome, &again)?;
    }
    if resumed.save_drives() != block.save_drives() {
        return Err(format!("the drives end otherwise with a rest after run {rest_after}"));
    }
    Ok(())
}

/// Returns the parameters of a drive. All drives here are flash.
fn flash(scenario: &Scenario, name: &str) -> Result<Parameters, String> {
    match scenario.drives[name].parameters(scenario.scale)? {
        DeviceParameters::Flash(parameters) => Ok(parameters),
        _ => Err(format!("{name} is no flash drive")),
    }
}

/// Whether a world that can be run would take too long.
fn too_large(scenario: &Scenario) -> bool {
    let flash_pages = |name| flash(scenario, name).map_or(0, |drive| drive.shape.flash_pages());
    let rows = |run: &RunPlan| {
        run.workload.rows_per_connection / u64::from(scenario.scale) * u64::from(run.workload.connections)
    };
    scenario.pool_pages() > 100_000
        || scenario.drives.keys().any(|name| flash_pages(name) > 200_000)
        || scenario.runs.iter().any(|run| rows(run) > 100_000)
}

/// Returns the aged drives of the scenario, as bytes.
fn drives_at_first(scenario: &Scenario, aged_per_mille: &[u64]) -> Result<Vec<Vec<u8>>, String> {
    let old = |(name, &per_mille): (&String, &u64)| {
        let parameters = flash(scenario, name)?;
        let (pages, free_blocks) = (
            parameters.shape.logical_pages,
            parameters.garbage_collection.stop_blocks.max(3),
        );
        let mut drive = Drive::new(parameters, Rng::stream(scenario.seed, name))?;
        let addresses = u64::from(pages) * per_mille / 1000;
        if addresses > 0 {
            let addresses = u32::try_from(addresses).expect("no more than there are");
            let age = Age::Steady { addresses, free_blocks };
            // Some odd drives can't be aged to this degree.
            drive.age(age, &mut Rng::stream(scenario.seed, "age")).ok();
        }
        Ok(drive.save())
    };
    scenario.drives.keys().zip(aged_per_mille).map(old).collect()
}

/// Makes the next run. Checks the drives' maps: each logical page has one valid flash page, each block is in one list.
fn next(block: &mut Block) -> Result<Option<RunOutcome>, String> {
    let outcome = block
        .run_next(|_| ControlFlow::Continue(()))
        .map_err(|error| error.to_string())?;
    block.check_drives()?;
    Ok(outcome)
}

fn look_at(scenario: &Scenario, outcome: &RunOutcome, tally: &mut Tally) -> Result<(), String> {
    let plan = &scenario.runs[outcome.run];
    let connections = u64::from(plan.workload.connections);
    let waits: u64 = outcome.waits.iter().map(|row| row.resource_ns + row.signal_ns).sum();
    let lived = waits + outcome.cpu_ns + outcome.finished_early_ns;
    if lived != connections * outcome.elapsed_ns {
        return Err(format!(
            "run {}: {lived} ns of {connections} x {}",
            outcome.run, outcome.elapsed_ns
        ));
    }
    let wanted = plan.workload.rows_per_connection / u64::from(scenario.scale) * connections;
    let tight = scenario.drives.values().any(|drive| drive.host_ram_bytes.is_some());
    match outcome.failure.as_deref() {
        None if outcome.rows == wanted => tally.whole += 1,
        Some(why) if tight && why.contains("off-line") && outcome.rows <= wanted => tally.offline += 1,
        Some(why) if why.contains("files are full") && outcome.rows <= wanted => tally.full += 1,
        other => {
            return Err(format!(
                "run {}: {} of {wanted} rows, {other:?}",
                outcome.run, outcome.rows
            ));
        }
    }
    let counters = &outcome.counters;
    look_at_kind(&plan.workload, outcome)?;
    let shares = outcome.drives.iter().map(|drive| drive.utilisation);
    // A failed run may have stopped in the middle of a split.
    let half_done = u64::from(plan.workload.connections) * u64::from(outcome.failure.is_some());
    if !(counters.splits..=counters.splits + half_done).contains(&(counters.leaf_pages - 1))
        || !shares.into_iter().all(|share| (0.0..1.0).contains(&share))
    {
        return Err(format!("run {}: {counters:?} {:?}", outcome.run, outcome.drives));
    }
    Ok(())
}

/// Checks that a mixed load has a probable number of reads, and that ascending rows have one page each.
fn look_at_kind(load: &Workload, outcome: &RunOutcome) -> Result<(), String> {
    let counters = &outcome.counters;
    let expected = load.kind.point_reads(load, outcome.rows);
    let chance = 8 * (expected * 10).isqrt() + 100;
    let as_many = match load.own.get("read_per_mille") {
        Some(Some(1..)) => counters.point_reads.abs_diff(expected) <= chance,
        _ => counters.point_reads == 0,
    };
    let ascending = load.kind.name() == "sequential-insert";
    if as_many && (!ascending || counters.leaf_pages == outcome.rows.max(1)) {
        return Ok(());
    }
    Err(format!(
        "run {}: {load:?}, {expected} reads expected, {counters:?}",
        outcome.run
    ))
}

fn same_bytes(one: &RunOutcome, other: &RunOutcome) -> Result<(), String> {
    let bytes = |outcome| serde_json::to_string(outcome).expect("JSON");
    if bytes(one) == bytes(other) {
        return Ok(());
    }
    Err(format!(
        "run {} comes out otherwise after a rest before it or earlier",
        one.run
    ))
}

// --- the tools of this file ------------------------------------------------------------------------------------------

#[test]
fn a_world_follows_from_its_number_alone() {
    assert_eq!(world(7).scenario, world(7).scenario);
    assert_ne!(world(7).scenario, world(8).scenario);
}

#[test]
fn one_world_a_range_or_the_usual_ones_can_be_chosen() {
    assert_eq!(chosen(Some("123"), None), 123..124);
    assert_eq!(chosen(None, Some("10..20")), 10..20);
    assert_eq!(chosen(None, None), USUAL);
}

#[test]
fn a_world_that_fails_or_panics_prints_the_command_that_runs_it_again() {
    for live in [
        (|_| Err("it is flat".to_owned())) as fn(u64) -> Result<(), String>,
        |_| panic!("it is {}", "flat"),
    ] {
        let panic = catch_unwind(|| judge(123, live)).expect_err("it fails");
        assert_eq!(
            panic.downcast_ref::<String>().map(String::as_str),
            Some("world 123: it is flat\nagain: STORAGELAB_WORLD=123 cargo test -p storagelab-sim worlds")
        );
    }
}
