//! Volumes against hand calculations, and with any requests.

use super::{Answer, Counters, Volume};
use crate::kernel::{Ns, SEC};
use crate::rng::Rng;
use crate::volume::cache::Destaging;
use crate::volume::config::{CacheChoice, LinkChoice};
use crate::volume::repeat::{disk, flash, flash_with_log_delay};
use crate::volume::stripe::Level;
use crate::volume::{Device, Kind, Request, StripeMap};

mod stories;

const STRIPE: u64 = 65_536;

fn volume(level: Level, devices: Vec<Device>) -> Volume {
    let arrays = if level == Level::Raid100 { 2 } else { 0 };
    let count = u32::try_from(devices.len()).expect("few");
    let smallest = devices.iter().map(Device::usable_bytes).min().expect("a drive");
    let map = StripeMap::new(level, count, arrays, STRIPE, smallest).expect("it can be");
    Volume::new("v", map, 0, devices)
}

fn cache(bytes: u64) -> CacheChoice {
    CacheChoice {
        bytes,
        mirror_bytes_per_s: 800_000_000,
        mirror_request_ns: 23_000,
        mirror_latency_ns: 50_000,
        keep_per_mille: 0,
        destaging: Destaging::Elevator,
        writes_per_drive: 4,
    }
}

fn request(kind: Kind, offset: u64, bytes: u64) -> Request {
    Request { kind, offset, bytes }
}

/// Submits a request and processes events until it is done. Returns that time.
fn finish(volume: &mut Volume, now: Ns, request: Request) -> Ns {
    match volume.submit(now, request, 77).expect("it answers") {
        Answer::Done(done_ns) => done_ns,
        Answer::Pending => {
            let mut done = Vec::new();
            loop {
                let at_ns = volume.next_event();
                volume.advance(at_ns, &mut done).expect("it answers");
                if !done.is_empty() {
                    assert_eq!(done, [77]);
                    return at_ns;
                }
            }
        }
    }
}

/// Processes all events that are left.
fn drain(volume: &mut Volume) -> Vec<u32> {
    let mut done = Vec::new();
    while volume.next_event() < Ns::MAX {
        volume.advance(volume.next_event(), &mut done).expect("it answers");
    }
    done
}

#[test]
fn a_mirror_has_written_when_its_slower_half_has() {
    for offset in [0, 8192, 100_000_256, 250_000_384] {
        let write = request(Kind::Write, offset, 8192);
        let alone = |number| finish(&mut volume(Level::Raid0, vec![disk(number)]), 0, write);
        let (one, other) = (alone(1), alone(2));
        assert_ne!(one, other, "their platters stand differently");
        let mirrored = finish(&mut volume(Level::Raid1, vec![disk(1), disk(2)]), 0, write);
        assert_eq!(mirrored, one.max(other));
    }
    let write = request(Kind::Write, 0, 8192);
    let mut mirror = volume(Level::Raid1, vec![flash(1), disk(1)]);
    assert_eq!(
        finish(&mut mirror, 0, write),
        finish(&mut volume(Level::Raid0, vec![disk(1)]), 0, write),
        "flash waits for the disk"
    );
}

#[test]
fn a_mirror_of_flash_waits_for_its_slower_half_too_whichever_that_is() {
    let write = request(Kind::Write, 0, 8192);
    // A drive that has received more data than its buffer holds.
    let busy = || {
        let mut alone = volume(Level::Raid0, vec![flash(1)]);
        for block in 0..2000 {
            finish(&mut alone, 0, request(Kind::Write, block * 8192, 8192));
        }
        alone.into_devices().remove(0)
    };
    let alone = |device| finish(&mut volume(Level::Raid0, vec![device]), 0, write);
    let (slow, quick) = (alone(busy()), alone(flash(2)));
    assert!(slow > 2 * quick, "{slow} {quick}");
    for devices in [vec![busy(), flash(2)], vec![flash(2), busy()]] {
        let mut mirror = volume(Level::Raid1, devices);
        assert_eq!(mirror.submit(0, write, 0), Ok(Answer::Done(slow)));
    }
    let stripes =
        volume(Level::Raid0, vec![busy(), flash(2)]).submit(0, request(Kind::Write, STRIPE - 8192, 16_384), 0);
    assert_eq!(stripes, Ok(Answer::Done(slow)), "and so do stripes");
}

/// The longer of two exponential delays is on average 3 / 2 times as long as one. Stripes wait for one delay.
#[test]
fn a_piece_of_log_on_a_mirror_waits_for_the_longer_of_two_delays_and_nothing_else_is_delayed() {
    let mean_ns = |level: Level, drives: u64, kind: Kind, delay_ns: u64| {
        let mut volume = volume(
            level,
            (0..drives)
                .map(|number| flash_with_log_delay(number, delay_ns))
                .collect(),
        );
        let times = (0..20_000).map(|turn| {
            let now = turn * 10_000_000;
            finish(&mut volume, now, request(kind, turn % 8 * 8192, 8192)) - now
        });
        float(times.sum()) / 20_000.0
    };
    let extra = |level, drives, kind| mean_ns(level, drives, kind, 200_000) - mean_ns(level, drives, kind, 0);
    for (level, drives, expected_ns) in [(Level::Raid0, 1, 2e5), (Level::Raid0, 2, 2e5), (Level::Raid1, 2, 3e5)] {
        let delay_ns = extra(level, drives, Kind::Append);
        // The standard error is 0.7 %.
        assert!((delay_ns / expected_ns - 1.0).abs() < 0.035, "{level}: {delay_ns}");
        assert!(extra(level, drives, Kind::Write).abs() < 1.0, "{level}");
        assert!(extra(level, drives, Kind::Read).abs() < 1.0, "{level}");
    }
}

#[test]
fn reads_go_to_the_less_busy_half() {
    let mut mirror = volume(Level::Raid1, vec![disk(1), disk(2)]);
    for token in 0..10 {
        let read = request(Kind::Read, u64::from(token) * 20_000_256 / 512 * 512, 8192);
        mirror.submit(0, read, token).expect("it answers");
    }
    let busy: Vec<u64> = mirror
        .devices()
        .filter_map(Device::disk)
        .map(crate::disk::Disk::in_progress)
        .collect();
    assert_eq!(busy, [5, 5]);
    let mut flashes = volume(Level::Raid1, vec![flash(1), flash(2)]);
    for _ in 0..10 {
        finish(&mut flashes, 0, request(Kind::Read, 0, 8192));
    }
    let read: Vec<u64> = flashes
        .devices()
        .filter_map(Device::flash)
        .map(|drive| drive.counters().read_pages)
        .collect();
    assert_eq!(read, [5, 5]);
}

/// Returns the requests to drives per request of 8 KB at a random place.
fn parts_for_each(level: Level, drives: u64, kind: Kind) -> f64 {
    let mut volume = volume(level, (0..drives).map(disk).collect());
    let mut rng = Rng::stream(1, "places");
    for token in 0..100 {
        let offset = rng.below(volume.bytes() / 8192) * 8192;
        volume
            .submit(volume_time(&volume), request(kind, offset, 8192), token)
            .expect("it answers");
        drain(&mut volume);
    }
    let Counters {
        requests,
        drive_requests,
        ..
    } = volume.counters();
    assert_eq!(requests, 100);
    assert_eq!(volume.free.len(), volume.operations.len(), "all of them are done");
    f64::from(u32::try_from(drive_requests).expect("few")) / 100.0
}

/// Returns a time after all earlier requests.
fn volume_time(volume: &Volume) -> Ns {
    volume.counters().requests * SEC
}

#[test]
#[expect(clippy::float_cmp, reason = "whole numbers of requests")]
fn each_raid_level_has_its_penalty() {
    assert_eq!(parts_for_each(Level::Raid0, 4, Kind::Write), 1.0);
    assert_eq!(parts_for_each(Level::Raid1, 2, Kind::Write), 2.0);
    assert_eq!(parts_for_each(Level::Raid10, 4, Kind::Write), 2.0);
    assert_eq!(parts_for_each(Level::Raid100, 8, Kind::Write), 2.0);
    assert_eq!(parts_for_each(Level::Raid5, 4, Kind::Write), 4.0);
    for (level, drives) in [
        (Level::Raid0, 4),
        (Level::Raid1, 2),
        (Level::Raid10, 4),
        (Level::Raid5, 4),
    ] {
        assert_eq!(parts_for_each(level, drives, Kind::Read), 1.0, "{level}");
    }
}

#[test]
fn a_raid_5_write_takes_a_read_and_then_a_whole_turn_at_least() {
    let done_ns = finish(
        &mut volume(Level::Raid5, vec![disk(1), disk(2), disk(3)]),
        0,
        request(Kind::Write, 0, 8192),
    );
    assert!(
        done_ns > 4_000_000,
        "{done_ns} ns: its place comes by again only after a turn"
    );
}

/// An offset of 63 sectors. Each request of 8 KB is on two flash pages, and one of eight is on two stripes of 64 KB.
#[test]
fn a_misaligned_partition_costs_what_can_be_counted() {
    let devices = || (0..4).map(disk).collect::<Vec<_>>();
    let map = StripeMap::new(Level::Raid0, 4, 0, STRIPE, devices()[0].usable_bytes()).expect("it can be");
    for (offset_bytes, parts) in [(0, 800), (32_256, 900), (65_536, 800)] {
        let mut volume = Volume::new("v", map, offset_bytes, devices());
        for block in 0..800 {
            volume
                .submit(0, request(Kind::Read, block * 8192, 8192), 0)
                .expect("it answers");
        }
        assert_eq!(volume.counters().drive_requests, parts, "from byte {offset_bytes}");
    }
    let flash_bytes = flash(1).usable_bytes();
    let alone = StripeMap::new(Level::Raid0, 1, 0, STRIPE, flash_bytes).expect("it can be");
    for (offset_bytes, pages) in [(0, 100), (32_256, 200)] {
        let mut volume = Volume::new("v", alone, offset_bytes, vec![flash(1)]);
        let host_pages = |volume: &Volume| {
            let drive = volume.devices().next().and_then(Device::flash).expect("it is flash");
            drive.counters().ftl.host_pages
        };
        let before = host_pages(&volume);
        for block in 0..100 {
            finish(&mut volume, 0, request(Kind::Write, block * 5 * 8192, 8192));
        }
        assert_eq!(host_pages(&volume) - before, pages, "from byte {offset_bytes}");
    }
}

#[test]
fn a_link_carries_what_it_can_and_no_more() {
    let link = LinkChoice {
        bytes_per_s: 104_000_000,
        latency_ns: 100_000,
    };
    let mut volume = volume(Level::Raid0, vec![flash(1), flash(2)]).with_link(&link);
    for token in 0..1000 {
        let read = request(Kind::Read, u64::from(token) * 65_536 % 100_000_000, 65_536);
        assert_eq!(volume.submit(0, read, token), Ok(Answer::Pending));
    }
    let mut last_ns = 0;
    let mut done = Vec::new();
    while volume.next_event() < Ns::MAX {
        last_ns = volume.next_event();
        volume.advance(last_ns, &mut done).expect("it answers");
    }
    assert_eq!(done.len(), 1000);
    // The time is two latencies, the first read's time on the flash, and otherwise only the link's.
    let carried_ns = 1000 * (65_536 * SEC).div_ceil(104_000_000);
    let beside_ns = last_ns - carried_ns;
    assert!(
        (200_000..1_000_000).contains(&beside_ns),
        "{beside_ns} ns beside the link"
    );
}

/// Requests come at random times to one server with a constant service time D. Their mean wait is r D / 2 (1 - r).
#[test]
fn requests_at_random_times_wait_for_the_link_as_theory_has_it() {
    const COUNT: u32 = 250_000; // by chance the mean differs by 0.7 %
    const TAKES_NS: Ns = 65_536;
    const LOAD: f64 = 0.5;
    let link = LinkChoice {
        bytes_per_s: 125_000_000,
        latency_ns: 0,
    };
    // All writes go to one block of the cache, which always has room. The mirror is faster than the link.
    let room = cache(1 << 50);
    let mut volume = volume(Level::Raid0, vec![flash(1)])
        .with_cache(&room, 1)
        .with_link(&link);
    let mut rng = Rng::stream(1, "arrivals");
    let (mut now, mut waited_ns) = (0.0, 0);
    let mut arrived_ns = Vec::new();
    let mut done = Vec::new();
    for token in 0..=COUNT {
        now += float(rng.exponential_ns(whole(float(TAKES_NS) / LOAD)));
        let until_ns = if token < COUNT { whole(now) } else { Ns::MAX - 1 };
        while volume.next_event() <= until_ns {
            let at_ns = volume.next_event();
            volume.advance(at_ns, &mut done).expect("it answers");
            waited_ns += waits(&mut done, at_ns, &arrived_ns);
        }
        if token < COUNT {
            arrived_ns.push(until_ns);
            let write = request(Kind::Write, 0, 8192);
            volume.submit(until_ns, write, token).expect("it answers");
        }
    }
    let mirror_ns = 23_000 + 10_240 + 50_000;
    let mean_ns = float(waited_ns) / f64::from(COUNT) - float(TAKES_NS + mirror_ns);
    let theory_ns = LOAD * float(TAKES_NS) / (2.0 * (1.0 - LOAD));
    assert!(
        (mean_ns / theory_ns - 1.0).abs() <= 0.02,
        "{mean_ns} ns, in theory {theory_ns}"
    );
}

fn waits(done: &mut Vec<u32>, at_ns: Ns, arrived_ns: &[Ns]) -> Ns {
    done.drain(..).map(|token| at_ns - arrived_ns[token as usize]).sum()
}

#[expect(clippy::cast_precision_loss, reason = "figures to compare")]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is positive and small"
)]
fn whole(ns: f64) -> Ns {
    ns as Ns
}

#[test]
fn a_write_is_acknowledged_once_it_is_mirrored_and_a_full_cache_waits_for_the_drives() {
    let mut array = volume(Level::Raid10, (0..4).map(disk).collect()).with_cache(&cache(8192 * 100), 1);
    let mut times = Vec::new();
    for block in 0..110 {
        times.push(finish(
            &mut array,
            0,
            request(Kind::Write, block * 1_000_000 / 8192 * 8192, 8192),
        ));
    }
    let (room, full) = times.split_at(100);
    let mirrored = |number: u64| (number + 1) * (23_000 + 10_240) + 50_000;
    assert!(
        (0..).zip(room).all(|(number, done_ns)| *done_ns == mirrored(number)),
        "{room:?}"
    );
    assert!(full.iter().any(|done_ns| *done_ns > 1_000_000), "{full:?}");
    let Counters {
        cached_writes,
        through_writes,
        ..
    } = array.counters();
    assert!(cached_writes >= 100 && through_writes > 0 && cached_writes + through_writes == 110);
    drain(&mut array);
    let Counters {
        destaged_bytes,
        drive_requests,
        destaged_writes,
        ..
    } = array.counters();
    assert_eq!(destaged_bytes, 110 * 8192, "all of it reached the drives");
    assert_eq!(drive_requests, 2 * destaged_writes, "both halves of a mirror");
}

#[test]
fn what_is_dirty_is_read_from_the_cache() {
    let mut array = volume(Level::Raid1, vec![disk(1), disk(2)]).with_cache(&cache(1 << 30), 1);
    finish(&mut array, 0, request(Kind::Write, 8192, 8192));
    assert_eq!(finish(&mut array, 100_000, request(Kind::Read, 8192, 4096)), 100_000);
    assert_eq!(array.counters().cache_hits, 1);
    drain(&mut array);
    assert!(
        finish(&mut array, SEC, request(Kind::Read, 8192, 4096)) > SEC + 100_000,
        "it is on the disks only"
    );
}

#[test]
fn a_lost_drive_degrades_what_has_another_copy_and_ends_what_has_not() {
    for (level, drives) in [
        (Level::Raid1, 2),
        (Level::Raid5, 3),
        (Level::Raid10, 4),
        (Level::Raid100, 8),
    ] {
        let mut array = volume(level, (0..drives).map(disk).collect());
        array.lose_at(0, 1);
        for kind in [Kind::Write, Kind::Read] {
            for block in 0..50 {
                finish(&mut array, 0, request(kind, block * 8192 * 7, 8192));
            }
        }
        let gone = array.devices().nth(1).and_then(Device::disk).expect("a disk");
        assert_eq!(
            gone.counters(),
            crate::disk::Counters::default(),
            "{level}: nothing more is asked of it"
        );
        assert_eq!(array.lost(), 1);
        // The other half of the mirror, or any second drive of a RAID-5.
        array.lose_at(0, 0);
        let failure = array
            .submit(SEC, request(Kind::Read, 0, 8192), 0)
            .expect_err("too many are gone");
        assert!(
            failure.to_string().contains(&format!("lost 2 of its {drives} drives")),
            "{failure}"
        );
    }
    let mut stripes = volume(Level::Raid0, vec![flash(1), flash(2)]);
    stripes.lose_at(SEC, 1);
    assert_eq!(stripes.next_event(), SEC);
    assert!(finish(&mut stripes, 0, request(Kind::Read, 0, 8192)) < SEC);
    let failure = stripes.advance(SEC, &mut Vec::new()).expect_err("half of it is gone");
    assert!(failure.to_string().contains("RAID-0 keeps nowhere else"), "{failure}");
    assert!(stripes.submit(SEC, request(Kind::Read, 0, 8192), 0).is_err());
}

#[test]
fn a_degraded_raid_5_reads_all_the_others_for_what_is_gone() {
    let mut array = volume(Level::Raid5, (0..5).map(disk).collect());
    array.lose_at(0, 0);
    finish(&mut array, 0, request(Kind::Read, 0, 8192));
    assert_eq!(array.counters().drive_requests, 4);
    finish(&mut array, SEC, request(Kind::Read, STRIPE, 8192));
    assert_eq!(array.counters().drive_requests, 5);
}
