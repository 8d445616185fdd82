//! The ready-made volume against hand calculations: bursts with credits, the baseline without, credits when idle.

use super::{Profile, UNITS};
use crate::devices::{self, Model};
use crate::kernel::{Ns, SEC};
use crate::rng::Rng;
use crate::volume::{Kind, Request};

const TEXT: &str = include_str!("../../../../../src/storagelab/profiles/cloud-gp2-500.toml");

fn profile() -> Profile {
    let mut table: toml::Table = TEXT.parse().expect("it is TOML");
    assert_eq!(table.remove("kind"), Some("burst-volume".into()));
    table.try_into().expect("a shipped profile")
}

fn volume(scale: u64) -> Box<dyn Model> {
    let mut volume = profile().make(scale).expect("a shipped profile");
    volume.rest(Rng::stream(1, "volume"));
    volume
}

fn read(bytes: u64) -> Request {
    Request {
        kind: Kind::Read,
        offset: 0,
        bytes,
    }
}

/// Makes `count` reads from `from_ns` on, with 64 in progress. Returns the I/Os per second, and the time at the end.
fn rate(volume: &mut dyn Model, from_ns: Ns, count: u64, bytes: u64) -> (u64, Ns) {
    let mut done: std::collections::VecDeque<Ns> = std::iter::repeat_n(from_ns, 64).collect();
    let mut now = from_ns;
    for _ in 0..count {
        // With jitter a later read may end before an earlier one. The oldest read is awaited.
        now = now.max(done.pop_front().expect("64 of them"));
        done.push_back(volume.submit(now, read(bytes)));
    }
    (count * SEC / (now - from_ns), now)
}

fn near(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) * 50 <= expected
}

/// The bucket holds 5.4 million credits, and earns 1,500 a second. So a burst of 3,000 I/Os a second lasts an hour.
#[test]
fn a_volume_bursts_until_its_credits_are_spent_and_then_falls_to_its_baseline() {
    let mut volume = volume(1000);
    let (burst, now) = rate(volume.as_mut(), 0, 10_000, 8192);
    assert!(near(burst, 3_000), "{burst} a second with credits");
    let left = volume.reported().levels["credits_left"];
    assert!(
        left.abs_diff(5_400 - 5_000) < 60,
        "{left} credits are left: half of those spent were earned"
    );
    let (_, now) = rate(volume.as_mut(), now, 2_000, 8192);
    let (baseline, _) = rate(volume.as_mut(), now, 10_000, 8192);
    assert!(near(baseline, 1_500), "{baseline} a second without");
    let reported = volume.reported();
    assert_eq!(reported.levels["credits_left"], 0);
    assert!(reported.counts["ios_without_credit"] > 9_000 && reported.counts["ios"] == 22_000);
}

#[test]
fn an_idle_volume_earns_credits_at_its_baseline_up_to_its_bucket() {
    let mut volume = volume(1000);
    let (_, now) = rate(volume.as_mut(), 0, 15_000, 8192);
    assert_eq!(volume.reported().levels["credits_left"], 0);
    volume.submit(now + 2 * SEC, read(8192));
    let earned = volume.reported().levels["credits_left"];
    assert!((2_900..3_100).contains(&earned), "{earned} in two seconds");
    volume.submit(now + 100 * SEC, read(8192));
    assert_eq!(
        volume.reported().levels["credits_left"],
        5_399,
        "a full bucket, less one"
    );
}

#[test]
fn a_large_request_costs_a_credit_for_each_piece_and_its_data_queue() {
    let mut volume = volume(1);
    volume.submit(0, read(1 << 20));
    assert_eq!(volume.reported().counts["ios"], 4);
    let (_, now) = rate(volume.as_mut(), SEC, 10_000, 262_144);
    let bytes_per_s = 10_000 * 262_144 * SEC / (now - SEC);
    assert!(
        near(bytes_per_s, 262_144_000),
        "{bytes_per_s}: 250 MiB/s, whatever the credits"
    );
}

#[test]
fn one_request_takes_its_latency_and_the_time_of_its_data() {
    let mut volume = volume(1);
    let mean = (1..=1000)
        .map(|second| volume.submit(second * SEC, read(8192)) - second * SEC)
        .sum::<Ns>()
        / 1000;
    assert!((1_000_000..1_070_000).contains(&mean), "{mean} ns");
}

#[test]
fn credits_outlive_a_rest_and_a_save_and_a_format_fills_none() {
    let mut kept = volume(1000);
    rate(kept.as_mut(), 0, 6_000, 8192);
    let mut loaded = volume(1000);
    devices::load(loaded.as_mut(), &devices::save(kept.as_ref())).expect("its own bytes");
    for volume in [&mut kept, &mut loaded] {
        volume.rest(Rng::stream(3, "next"));
        volume.format();
    }
    assert!(kept.reported().levels["credits_left"] < 3_000);
    assert_eq!(loaded.reported().levels, kept.reported().levels);
    assert_eq!(
        rate(loaded.as_mut(), 0, 6_000, 8192),
        rate(kept.as_mut(), 0, 6_000, 8192)
    );
}

#[test]
fn a_bucket_of_a_small_world_still_holds_an_io() {
    let mut profile = profile();
    profile.credits.bucket_ios.value = 5;
    profile.credits.first_ios.value = 5;
    let mut volume = profile.make(1000).expect("it can be");
    volume.rest(Rng::stream(1, "volume"));
    assert!(near(rate(volume.as_mut(), 0, 10_000, 8192).0, 1_500));
    assert_eq!(UNITS, SEC);
}

#[test]
fn a_burst_slower_than_the_baseline_is_refused() {
    let mut profile = profile();
    profile.credits.burst_ios_per_s.value = 100;
    let refusal = profile.make(1).map(|_| ()).expect_err("it can't be");
    assert!(
        refusal.contains("cloud-gp2-500") || refusal.contains("burst_ios_per_s"),
        "{refusal}"
    );
}
