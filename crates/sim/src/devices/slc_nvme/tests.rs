//! The ready-made drive against hand calculations: writes into the cache and beyond it, and the cache when idle.

use super::Profile;
use crate::devices::{self, Model};
use crate::kernel::{MS, Ns, SEC};
use crate::rng::Rng;
use crate::volume::{Kind, Request};

const TEXT: &str = include_str!("../../../../../src/storagelab/profiles/nvme3-970-evo-plus-1tb.toml");
const MB: u64 = 1_000_000;

fn profile() -> Profile {
    let mut table: toml::Table = TEXT.parse().expect("it is TOML");
    assert_eq!(table.remove("kind"), Some("slc-nvme".into()));
    table.remove("price_usd");
    table.try_into().expect("a shipped profile")
}

fn drive(scale: u64) -> Box<dyn Model> {
    profile().make(scale).expect("a shipped profile")
}

fn request(kind: Kind, offset: u64, bytes: u64) -> Request {
    Request { kind, offset, bytes }
}

/// Writes `bytes` in writes of 1 MB, one after another. Returns the bytes per second, and the time at the end.
fn rate(drive: &mut dyn Model, from_ns: Ns, bytes: u64) -> (u64, Ns) {
    let mut now = from_ns;
    for number in 0..bytes / MB {
        now = drive.submit(now, request(Kind::Write, number % 1000 * MB, MB));
    }
    (bytes * 1000 / ((now - from_ns) / 1_000_000).max(1), now)
}

fn near(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) * 50 <= expected
}

#[test]
fn writes_run_at_the_caches_rate_until_it_is_full_and_then_at_the_flashs_own() {
    let mut drive = drive(1);
    let (fast, now) = rate(drive.as_mut(), 0, 41_000 * MB);
    let (_, now) = rate(drive.as_mut(), now, 3_000 * MB);
    let (slow, _) = rate(drive.as_mut(), now, 10_000 * MB);
    assert!(near(fast, 3_300 * MB), "{fast} bytes a second into the cache");
    assert!(near(slow, 1_700 * MB), "{slow} bytes a second beyond it");
    let reported = drive.reported();
    assert_eq!(reported.levels["slc_cached_bytes"], 42_000 * MB);
    assert_eq!(
        reported.counts["slc_written_bytes"] + reported.counts["native_written_bytes"],
        54_000 * MB
    );
}

#[test]
fn in_a_world_that_is_smaller_the_cache_is_full_after_as_much_of_the_data() {
    let mut small = drive(64);
    let (fast, now) = rate(small.as_mut(), 0, 640 * MB);
    let (_, now) = rate(small.as_mut(), now, 50 * MB);
    let (slow, _) = rate(small.as_mut(), now, 500 * MB);
    assert!(near(fast, 3_300 * MB), "{fast} bytes a second into the cache");
    assert!(near(slow, 1_700 * MB), "{slow} bytes a second beyond it");
}

#[test]
fn a_drive_that_was_idle_has_room_in_its_cache_again() {
    let mut drive = drive(1);
    let (_, full_ns) = rate(drive.as_mut(), 0, 45_000 * MB);
    assert_eq!(drive.reported().levels["slc_cached_bytes"], 42_000 * MB);
    let (fast, now) = rate(drive.as_mut(), full_ns + 60 * SEC, 20_000 * MB);
    assert!(near(fast, 3_300 * MB), "{fast} bytes a second");
    assert!(drive.reported().counts["folded_bytes"] > 20_000 * MB);
    let before = drive.reported().levels["slc_cached_bytes"];
    drive.submit(now + MS, request(Kind::Write, 0, MB));
    assert!(
        drive.reported().levels["slc_cached_bytes"] > before,
        "a pause too short to fold"
    );
}

#[test]
fn idle_time_is_spent_once_however_often_the_drive_is_looked_at() {
    let folded = |looks: u64| {
        let mut drive = drive(1);
        let (_, now) = rate(drive.as_mut(), 0, 42_000 * MB);
        for look in 1..=looks {
            drive.submit(now + look * 4 * SEC / looks, request(Kind::Read, 0, 4096));
        }
        drive.reported().counts["folded_bytes"]
    };
    // Each look is a read, which ends the idle time. So many looks leave less idle time, and never more.
    assert!(
        folded(1) > 0 && folded(4) <= folded(1),
        "{} and {}",
        folded(1),
        folded(4)
    );
}

#[test]
fn reads_take_the_time_of_a_die_and_many_go_at_once() {
    let mut drive = drive(1);
    let alone = drive.submit(0, request(Kind::Read, 0, 4096));
    assert!((50_000..60_000).contains(&alone), "{alone} ns");
    let mut rng = Rng::stream(1, "places");
    let count = 20_000;
    let last = (0..count).map(|_| drive.submit(SEC, request(Kind::Read, rng.below(200_000_000) * 4096, 4096)));
    let ios_per_s = count * SEC / (last.max().expect("some") - SEC);
    assert!((450_000..620_000).contains(&ios_per_s), "{ios_per_s} a second");
}

#[test]
fn a_drive_that_was_put_away_goes_on_with_an_empty_cache_and_all_its_counts() {
    let mut kept = drive(64);
    rate(kept.as_mut(), 0, 500 * MB);
    let bytes = devices::save(kept.as_ref());
    let mut loaded = drive(64);
    devices::load(loaded.as_mut(), &bytes).expect("its own bytes");
    for drive in [&mut kept, &mut loaded] {
        drive.rest(Rng::stream(2, "next"));
        assert_eq!(drive.reported().levels["slc_cached_bytes"], 0);
    }
    assert_eq!(loaded.reported().counts, kept.reported().counts);
    assert_eq!(rate(loaded.as_mut(), 0, 500 * MB), rate(kept.as_mut(), 0, 500 * MB));
    assert!(
        devices::load(drive(32).as_mut(), &bytes).is_err(),
        "a drive of another size"
    );
    assert!(
        devices::load(drive(64).as_mut(), &bytes[..bytes.len() - 8]).is_err(),
        "cut short"
    );
}

#[test]
fn figures_that_cannot_be_are_refused_by_name() {
    let refused = |change: fn(&mut Profile)| {
        let mut profile = profile();
        change(&mut profile);
        profile.make(1).map(|_| ()).expect_err("it can't be")
    };
    assert!(refused(|profile| profile.reads.dies.value = 0).contains("dies is 0, must be at least 1"));
    assert!(
        refused(|profile| profile.writes.slc_bytes_per_s.value = 1_000_000).contains("the cache is the faster one")
    );
}
