//! A disk against hand calculations: random accesses, streams, service orders, and saving.

use super::{Counters, Disk};
use crate::disk::{DiskProfile, Order, Parameters};
use crate::kernel::{MS, Ns, SEC};
use crate::rng::Rng;
use crate::saved::{StateError, Writer};
use crate::volume::repeat::scsi;

const SATA: &str = include_str!("../../../../../src/storagelab/profiles/sata-7k2-1000.toml");

fn sata() -> Parameters {
    let profile: DiskProfile = toml::from_str(SATA).expect("a shipped profile");
    profile.parameters(1, None).expect("a shipped profile")
}

fn new(parameters: Parameters) -> Disk {
    Disk::new(parameters, Rng::stream(1, "disk")).expect("a disk")
}

/// Keeps `outstanding` requests in the queue until `count` are done. Returns when the last one was done.
fn keep_busy(disk: &mut Disk, outstanding: u32, count: u32, mut next: impl FnMut() -> (u64, u64, bool)) -> Ns {
    let (mut submitted, mut now) = (0, 0);
    for done in 0..count {
        while submitted < count && submitted < done + outstanding {
            let (byte, bytes, write) = next();
            disk.submit(now, byte, bytes, write, submitted);
            submitted += 1;
        }
        now = disk.next_event();
        disk.finish();
    }
    now
}

fn random_ms(parameters: &Parameters, outstanding: u32, bytes: u64, write: bool) -> f64 {
    const COUNT: u32 = 20_000;
    let mut rng = Rng::stream(3, "places");
    let blocks = parameters.usable_bytes / bytes;
    let mut disk = new(parameters.clone());
    let now = keep_busy(&mut disk, outstanding, COUNT, || {
        (rng.below(blocks) * bytes, bytes, write)
    });
    float(now) / float(MS) / f64::from(COUNT)
}

#[expect(clippy::cast_precision_loss, reason = "figures to compare")]
fn float(count: u64) -> f64 {
    count as f64
}

fn assert_near(figure: f64, expected: f64, tolerance: f64) {
    assert!(
        (figure / expected - 1.0).abs() <= tolerance,
        "{figure}, and by hand {expected}"
    );
}

/// Mean seek, half a turn, transfer and command. Tracks have one length here, so random bytes are on random tracks.
#[test]
fn a_random_access_takes_seek_half_a_turn_and_transfer() {
    let mut parameters = scsi(1, Order::Fifo);
    parameters.track_bytes.1 = parameters.track_bytes.0;
    let passing_ms = 4.0 * 65_536.0 / float(parameters.track_bytes.0);
    for (write, seek_ms) in [(false, 3.1), (true, 3.6)] {
        let by_hand_ms = 0.15 + seek_ms + 2.0 + passing_ms * (1.0 + 0.35 / 4.0);
        assert_near(random_ms(&parameters, 1, 65_536, write), by_hand_ms, 0.005);
    }
}

/// Outer tracks hold more bytes, so random bytes are a little closer to each other than random tracks.
#[test]
fn the_shipped_disks_make_as_many_random_accesses_as_their_makers_figures_say() {
    for order in [Order::Fifo, Order::Elevator, Order::Shortest] {
        assert_near(
            random_ms(&scsi(1, order), 1, 8192, false),
            0.15 + 3.1 + 2.0 + 0.07,
            0.02,
        );
    }
    assert_near(random_ms(&sata(), 1, 8192, true), 14.0, 0.02);
}

#[test]
fn a_small_world_is_as_slow_as_a_large_one() {
    let [large, small] = [1, 64].map(|scale| random_ms(&scsi(scale, Order::Fifo), 1, 8192, false));
    assert_near(small, large, 0.02);
}

#[test]
fn the_more_it_may_choose_from_the_less_it_moves() {
    let ms = |order, outstanding| random_ms(&scsi(1, order), outstanding, 8192, false);
    assert_near(ms(Order::Fifo, 16), ms(Order::Fifo, 1) - 0.15, 0.01); // commands overlap
    let (fifo, elevator, shortest) = (ms(Order::Fifo, 16), ms(Order::Elevator, 16), ms(Order::Shortest, 16));
    assert!(
        elevator < 0.75 * fifo && shortest < 0.8 * elevator,
        "{fifo} {elevator} {shortest} ms"
    );
    assert!(ms(Order::Elevator, 64) < 0.9 * elevator);
}

#[test]
fn nobody_waits_for_ever() {
    for order in [Order::Elevator, Order::Shortest] {
        let mut parameters = scsi(1, order);
        parameters.patience_ns = 100 * MS;
        let mut disk = new(parameters);
        disk.submit(0, 0, 8192, false, 0);
        disk.submit(0, 200_000_000_000, 8192, false, 999);
        let (mut next, mut now) = (1, 0);
        // Many requests near the arm, renewed again and again.
        loop {
            while disk.in_progress() < 4 {
                disk.submit(now, u64::from(next) * 8192 * 7 % 80_000_000, 8192, false, next);
                next += 1;
            }
            now = disk.next_event();
            if disk.finish() == 999 {
                break;
            }
            assert!(now < 150 * MS, "{order:?}: it still waits at {now} ns");
        }
    }
}

#[test]
fn what_is_read_in_order_comes_at_the_sustained_rate() {
    for (outstanding, bytes) in [(1, 65_536), (4, 8192)] {
        let mut disk = new(scsi(1, Order::Elevator));
        let mut at = 0;
        let now = keep_busy(&mut disk, outstanding, 8_000, || {
            at += bytes;
            (at - bytes, bytes, false)
        });
        assert_near(8_000.0 * float(bytes) / (float(now) / 1e9), 140e6, 0.01);
        assert_eq!(disk.counters().in_order, 7_999);
    }
}

#[test]
fn writes_in_order_stream_if_the_next_one_waits_and_miss_a_turn_if_not() {
    let rate = |outstanding| {
        let mut disk = new(scsi(1, Order::Elevator));
        let mut at = 0;
        let now = keep_busy(&mut disk, outstanding, 2_000, || {
            at += 65_536;
            (at - 65_536, 65_536, true)
        });
        2_000.0 * 65_536.0 / (float(now) / 1e9)
    };
    assert_near(rate(2), 140e6, 0.01);
    // If no next request waits, the sector passes during the command overhead, so each write takes a whole turn.
    assert_near(rate(1), 65_536.0 / 0.004_468, 0.1);
}

#[test]
fn what_was_read_ahead_waits_in_the_buffer_and_no_longer_than_there_is_room() {
    let mut disk = new(scsi(1, Order::Elevator));
    disk.submit(0, 0, 8192, false, 0);
    let first = disk.next_event();
    disk.finish();
    // Much later the read-ahead is complete, so only the times of command and interface are left.
    let later = first + SEC;
    disk.submit(later, 8192, 65_536, false, 1);
    assert_eq!(disk.next_event() - later, 150_000 + 204_800);
    disk.finish();
    // A read far beyond the buffer needs the arm.
    let later = later + SEC;
    disk.submit(later, 50_000_000, 8192, false, 2);
    assert!(disk.next_event() - later > 500_000);
    disk.finish();
    assert_eq!(disk.counters().in_order, 1);
}

#[test]
fn data_near_each_other_are_nearer_in_time() {
    let parameters = scsi(1, Order::Fifo);
    let within = |bytes: u64| {
        let mut rng = Rng::stream(5, "near");
        let mut disk = new(parameters.clone());
        let now = keep_busy(&mut disk, 1, 5_000, || (rng.below(bytes / 8192) * 8192, 8192, false));
        float(now) / 5_000.0
    };
    let times = [3_000_000_000, 30_000_000_000, 300_000_000_000].map(within);
    assert!(times[0] < 0.9 * times[1] && times[1] < 0.7 * times[2], "{times:?}");
}

#[test]
fn its_counters_add_up_to_its_time() {
    let mut disk = new(scsi(64, Order::Fifo));
    let mut rng = Rng::stream(5, "adding");
    let now = keep_busy(&mut disk, 3, 1_000, || {
        let word = rng.next_u64();
        (word % 100_000 * 8192, 8192, word >> 63 == 1)
    });
    let Counters {
        reads,
        writes,
        busy_ns,
        seek_ns,
        turn_ns,
        queued_ns,
        ..
    } = disk.counters();
    assert_eq!(reads + writes, 1_000);
    assert_eq!(busy_ns, now, "it was never idle");
    assert!(seek_ns + turn_ns < busy_ns);
    assert!(queued_ns > busy_ns, "three in the queue: each waited for two others");
}

#[test]
fn a_disk_put_away_goes_on_as_if_it_had_not_been() {
    let parameters = scsi(64, Order::Elevator);
    let mut disk = new(parameters.clone());
    let mut rng = Rng::stream(9, "places");
    keep_busy(&mut disk, 4, 100, || (rng.below(100_000) * 8192, 8192, true));
    let saved = disk.save();
    disk.rest(Rng::stream(2, "next"));
    let mut loaded = Disk::load(parameters.clone(), &saved, Rng::stream(2, "next")).expect("it was saved");
    let both = [&mut disk, &mut loaded].map(|disk| {
        let mut rng = Rng::stream(10, "places");
        let now = keep_busy(disk, 4, 100, || (rng.below(100_000) * 8192, 8192, true));
        (now, disk.counters(), disk.save())
    });
    assert_eq!(both[0], both[1]);
    let mut damaged = saved.clone();
    damaged[20] ^= 1;
    assert!(Disk::load(parameters.clone(), &damaged, Rng::stream(1, "x")).is_err());
    assert!(Disk::load(parameters, b"nonsense", Rng::stream(1, "x")).is_err());
}

#[test]
fn bytes_that_hold_more_than_a_disk_are_refused() {
    let parameters = scsi(64, Order::Elevator);
    let saved = new(parameters.clone()).save();
    let (body, _) = saved.split_last_chunk::<8>().expect("a checksum is last");
    let mut longer = Writer::default();
    for word in body.chunks_exact(8) {
        longer.word(u64::from_le_bytes(word.try_into().expect("8 bytes")));
    }
    longer.word(17);
    let refusal = Disk::load(parameters, &longer.finish(), Rng::stream(1, "x")).expect_err("a word too many");
    assert_eq!(refusal, StateError::Length);
}

#[test]
fn figures_that_cannot_be_are_refused_by_name() {
    let broken = |change: fn(&mut Parameters)| {
        let mut parameters = scsi(1, Order::Fifo);
        change(&mut parameters);
        parameters.check().expect_err("it can't be")
    };
    assert!(broken(|p| p.surfaces = 0).contains("surfaces is 0"));
    assert!(broken(|p| p.track_bytes.1 = 0).contains("inner_bytes_per_s"));
    assert!(broken(|p| p.track_bytes.1 = p.track_bytes.0 + 1).contains("outer_bytes_per_s is less"));
    assert!(broken(|p| p.track_switch_ns = 4_000_000).contains("longer than a turn"));
    assert!(broken(|p| p.seek_ns[1] = 200_000).contains("ascending"));
    assert!(broken(|p| p.queue_depth = 0).contains("queue_depth"));
}
