//! Closed formulas for the drive's times, and tests of a drive with a history.

use super::{Drive, Op};
use crate::flash::Age;
use crate::flash::ftl::{Shape, Streams};
use crate::flash::mapping_ram::MappingRam;
use crate::flash::parameters::{GarbageCollection, Parameters};
use crate::flash::victims::VictimPolicy;
use crate::rng::Rng;
use crate::saved::StateError;

mod map_cache;
mod priority;
mod saving;

const US: u64 = 1000;
const S: u64 = 1_000_000_000;
const PAGE: u64 = 8192;

/// 8192 pages on 16 dies, of which the host can use 7000. Figures are round. Link and jitter have no effect.
fn parameters() -> Parameters {
    Parameters {
        shape: Shape {
            blocks: 256,
            pages_per_block: 32,
            logical_pages: 7000,
            victim: VictimPolicy::Greedy,
            streams: Streams::Separate,
        },
        flash_page_bytes: 8192,
        dies: 16,
        read_ns: 50 * US,
        program_ns: 800 * US,
        erase_ns: 3000 * US,
        erase_pages: 128,
        jitter_per_mille: 0,
        programs_before_read: 0,
        padding_per_mille: 0,
        read_command_ns: 20 * US,
        write_command_ns: 10 * US,
        link_read_bytes_per_s: PAGE * 1_000_000,
        link_write_bytes_per_s: PAGE * 1_000_000,
        buffer_pages: 64,
        garbage_collection: GarbageCollection {
            start_blocks: 3,
            stop_blocks: 6,
            pace_per_mille: 1500,
            idle_after_ns: S,
            idle_blocks: 0,
        },
        trim: true,
        mapping: MappingRam::ON_DRIVE,
        host_ram_bytes: None,
        log_delay_ns: 0,
        map_part: None,
        host_cpu_ns: 0,
        host_cpu_sector_ns: 0,
    }
}

fn drive(parameters: Parameters) -> Drive {
    Drive::new(parameters, Rng::stream(1, "drive")).expect("good parameters")
}

/// Makes a drive on which the first `addresses` hold data. The clock is at 0.
fn filled(parameters: Parameters, addresses: u32) -> Drive {
    let mut drive = drive(parameters);
    drive
        .age(Age::Filled { addresses }, &mut Rng::stream(1, "age"))
        .expect("it can be aged");
    drive
}

fn read(page: u32) -> Op {
    Op::Read { page, pages: 1 }
}

fn write(page: u32) -> Op {
    Op::Write { page, pages: 1 }
}

fn draw(rng: &mut Rng, bound: u32) -> u32 {
    u32::try_from(rng.below(u64::from(bound))).expect("below 32 bits")
}

/// Keeps `depth` requests in progress until `count` are submitted. Returns the completions per second up to the last
/// submission, so the requests that are still in progress then do not count.
#[expect(clippy::cast_precision_loss, reason = "a rate for an assertion")]
fn keep_busy(drive: &mut Drive, depth: usize, count: usize, mut next: impl FnMut() -> Op) -> f64 {
    let mut under_way = std::collections::BinaryHeap::new();
    let mut last = 0;
    for submitted in 0..count {
        if submitted >= depth {
            std::cmp::Reverse(last) = under_way.pop().expect("requests are on the way");
        }
        let done = drive.submit(last, next()).expect("it is on-line");
        under_way.push(std::cmp::Reverse(done));
    }
    (count - depth) as f64 * 1e9 / last as f64
}

fn assert_near(measured: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (measured / expected - 1.0).abs() <= tolerance,
        "{what}: {measured}, expected {expected}"
    );
}

#[test]
fn a_lone_read_takes_command_die_and_link() {
    let mut drive = filled(parameters(), 7000);
    let page_on_link_us = 1;
    for (at, page) in [(0, 5), (S, 4711), (2 * S, 5)] {
        assert_eq!(drive.submit(at, read(page)), Ok(at + (20 + 50 + page_on_link_us) * US));
    }
}

#[test]
fn a_lone_write_is_done_once_its_data_are_in_the_buffer() {
    let mut drive = drive(parameters());
    assert_eq!(drive.submit(0, write(3)), Ok((1 + 10) * US));
}

#[test]
fn reading_an_address_that_holds_nothing_asks_no_die() {
    let mut drive = drive(parameters());
    assert_eq!(drive.submit(0, read(3)), Ok((20 + 1) * US));
    assert_eq!(drive.counters().die_busy_ns, 0);
}

#[test]
fn random_reads_reach_as_many_a_second_as_dies_divided_by_read_time() {
    let mut drive = filled(parameters(), 7000);
    let mut rng = Rng::stream(2, "reads");
    let count = 40_000;
    let rate = keep_busy(&mut drive, 1000, count, || read(draw(&mut rng, 7000)));
    assert_near(rate, 16.0 / 50e-6, 0.03, "reads a second");
}

#[test]
fn a_narrow_link_limits_reads_to_its_bytes_a_second() {
    let mut drive = filled(
        Parameters {
            link_read_bytes_per_s: 700_000_000,
            ..parameters()
        },
        7000,
    );
    let mut rng = Rng::stream(2, "reads");
    let count = 20_000;
    let rate = keep_busy(&mut drive, 64, count, || read(draw(&mut rng, 7000)));
    assert_near(rate * 8192.0, 700e6, 0.01, "bytes a second");
}

#[test]
fn large_reads_go_to_the_dies_side_by_side() {
    let mut drive = filled(parameters(), 7000);
    let done = drive
        .submit(0, Op::Read { page: 64, pages: 16 })
        .expect("it is on-line");
    assert_eq!(done, (20 + 50 + 1) * US, "a page on each die");
}

#[test]
fn writes_in_order_reach_what_dies_can_program_and_no_more_than_the_link_carries() {
    let rate = |link_write_bytes_per_s| {
        let mut drive = drive(Parameters {
            link_write_bytes_per_s,
            ..parameters()
        });
        let mut pages = 0..7000;
        keep_busy(&mut drive, 8, 7000, || write(pages.next().expect("a page")))
    };
    assert_near(rate(PAGE * 1_000_000), 16.0 / 800e-6, 0.02, "pages a second by dies");
    assert_near(rate(PAGE * 5000), 5000.0, 0.02, "pages a second by the link");
}

/// For each page of the host, dies do A programs and A - 1 reads, and A pages' share of an erase.
#[test]
fn steady_random_writes_reach_what_dies_can_program_divided_by_write_amplification() {
    for (logical_pages, erase_ns) in [(54_000, 0), (54_000, 3000 * US), (36_000, 3000 * US)] {
        let mut drive = drive(Parameters {
            shape: Shape {
                blocks: 2048,
                logical_pages,
                ..parameters().shape
            },
            read_ns: if erase_ns == 0 { 0 } else { 50 * US },
            erase_ns,
            garbage_collection: GarbageCollection {
                start_blocks: 10,
                stop_blocks: 20,
                ..parameters().garbage_collection
            },
            ..parameters()
        });
        let mut rng = Rng::stream(3, "writes");
        let age = Age::Steady {
            addresses: logical_pages,
            free_blocks: 15,
        };
        drive.age(age, &mut rng).expect("it can be aged");
        let count = 60_000;
        let rate = keep_busy(&mut drive, 64, count, || write(draw(&mut rng, logical_pages)));
        let amplification = drive.counters().ftl.write_amplification();
        let (read_s, erase_s) = if erase_ns == 0 { (0.0, 0.0) } else { (50e-6, 3e-3) };
        let die_s = amplification * (800e-6 + erase_s / 128.0) + (amplification - 1.0) * read_s;
        assert!(amplification > 1.2, "{amplification}");
        assert_near(rate, 16.0 / die_s, 0.025, "pages a second");
    }
}

#[test]
fn reads_of_one_die_are_done_in_the_order_in_which_they_came() {
    let mut drive = filled(
        Parameters {
            jitter_per_mille: 300,
            ..parameters()
        },
        7000,
    );
    let mut rng = Rng::stream(5, "mixed");
    let mut done_on = [0; 16];
    for at in 0..20_000u64 {
        let page = draw(&mut rng, 7000);
        if rng.below(4) == 0 {
            drive.submit(at * 30 * US, write(page)).expect("it is on-line");
        } else {
            let die = drive.ftl().flash_page(page).expect("it holds data").number() % 16;
            let done = drive.submit(at * 30 * US, read(page)).expect("it is on-line");
            assert!(done > done_on[die as usize], "die {die}");
            done_on[die as usize] = done;
        }
    }
}

#[test]
fn a_burst_of_writes_is_taken_at_once_until_the_buffer_is_full() {
    let mut drive = drive(parameters());
    let waits: Vec<u64> = (0..80)
        .map(|page| drive.submit(0, write(page)).expect("it is on-line"))
        .collect();
    assert!(waits[63] < 100 * US, "{}", waits[63]);
    assert!(waits[64] > 800 * US, "{}", waits[64]);
    assert!(drive.counters().buffer_wait_ns > 0);
}

#[test]
fn a_full_drive_writes_in_bursts_and_one_that_is_half_empty_does_not() {
    let spread = |addresses| {
        let mut drive = drive(Parameters {
            garbage_collection: GarbageCollection {
                start_blocks: 4,
                stop_blocks: 16,
                pace_per_mille: 3000,
                ..parameters().garbage_collection
            },
            ..parameters()
        });
        let mut rng = Rng::stream(6, "bursts");
        drive.ftl.overwrite(addresses, 3, &mut rng);
        let mut times = Vec::new();
        let mut now = 0;
        for _ in 0..200 {
            let start = now;
            for _ in 0..100 {
                now = drive
                    .submit(now, write(draw(&mut rng, addresses)))
                    .expect("it is on-line");
            }
            times.push(now - start);
        }
        times.sort_unstable();
        (times[180] / times[20], drive.counters().collection_bursts)
    };
    let (full, bursts) = spread(7000);
    assert!(full >= 3 && bursts > 5, "{full} {bursts}");
    let (half_empty, _) = spread(2000);
    assert!(half_empty < full, "{half_empty} {full}");
}

#[test]
fn while_it_runs_garbage_collection_wins_as_many_pages_for_each_page_written_as_its_pace_says() {
    for pace_per_mille in [1500, 3000] {
        let mut drive = drive(Parameters {
            shape: Shape {
                blocks: 2048,
                logical_pages: 48_000,
                ..parameters().shape
            },
            garbage_collection: GarbageCollection {
                start_blocks: 10,
                stop_blocks: 110,
                pace_per_mille,
                ..parameters().garbage_collection
            },
            ..parameters()
        });
        let mut rng = Rng::stream(10, "pace");
        let age = Age::Steady {
            addresses: 48_000,
            free_blocks: 10,
        };
        drive.age(age, &mut rng).expect("it can be aged");
        let mut burst = |drive: &mut Drive, collecting: bool| {
            let before = drive.counters().ftl.host_pages;
            while drive.collecting == collecting {
                drive.submit(0, write(draw(&mut rng, 48_000))).expect("it is on-line");
            }
            drive.counters().ftl.host_pages - before
        };
        burst(&mut drive, false);
        // In all, a hundred blocks of 32 pages are reclaimed. One of `pace` reclaimed pages is rewritten at once.
        let expected = f64::from(100 * 32) / (f64::from(pace_per_mille) / 1000.0 - 1.0);
        let written = u32::try_from(burst(&mut drive, true)).expect("a few thousand");
        assert_near(f64::from(written), expected, 0.05, "pages written during a burst");
    }
}

#[test]
fn a_drive_left_alone_collects_garbage_by_itself() {
    let mut drive = filled(
        Parameters {
            garbage_collection: GarbageCollection {
                idle_blocks: 20,
                ..parameters().garbage_collection
            },
            ..parameters()
        },
        7000,
    );
    let mut rng = Rng::stream(7, "idle");
    let mut now = 0;
    for _ in 0..4000 {
        now = drive.submit(now, write(draw(&mut rng, 7000))).expect("it is on-line");
    }
    assert!(drive.ftl().free_blocks() < 10);
    drive.advance(now + S / 2);
    assert_eq!(drive.counters().idle_collections, 0, "half a second is not idle yet");
    drive.advance(now + 60 * S);
    assert!(drive.counters().idle_collections > 0);
    assert_eq!(drive.ftl().free_blocks(), 20);
    assert_eq!(drive.ftl().check(), Ok(()));
}

#[test]
fn without_trim_freed_addresses_stay_valid_until_the_next_format() {
    let mapped = |trim| {
        let mut drive = filled(Parameters { trim, ..parameters() }, 7000);
        drive.trim(0, 0, 3000);
        let after_trim = drive.ftl().mapped_pages();
        drive.format();
        (after_trim, drive.ftl().mapped_pages())
    };
    assert_eq!(mapped(true), (4000, 0));
    assert_eq!(mapped(false), (7000, 0));
}

#[test]
fn pieces_of_log_that_share_a_page_are_programmed_once() {
    let mut drive = drive(parameters());
    for piece in 0..32 {
        let op = Op::WriteBytes {
            offset: piece * 512,
            bytes: 512,
        };
        drive.submit(piece * 100 * US, op).expect("it is on-line");
    }
    assert_eq!(
        drive.counters().ftl.host_pages,
        2,
        "32 sectors of 512 bytes are two pages"
    );
    assert_eq!(drive.counters().written_bytes, 32 * 512);
    let large = Op::WriteBytes {
        offset: 2 * PAGE + 4096,
        bytes: 60 * 1024,
    };
    drive.submit(S, large).expect("it is on-line");
    assert_eq!(drive.counters().ftl.host_pages, 2 + 8);
}

#[test]
fn each_write_is_padded_and_pieces_of_log_that_share_a_page_share_their_padding() {
    let mut drive = drive(Parameters {
        padding_per_mille: 1000,
        ..parameters()
    });
    let mut programs_of = |now, op| {
        let before = drive.counters().die_busy_ns;
        drive.submit(now, op).expect("it is on-line");
        (drive.counters().die_busy_ns - before) / (800 * US)
    };
    assert_eq!(programs_of(0, Op::Write { page: 10, pages: 1 }), 2);
    assert_eq!(programs_of(S, Op::Write { page: 20, pages: 8 }), 9);
    let piece = |offset| Op::WriteBytes { offset, bytes: 512 };
    assert_eq!(programs_of(2 * S, piece(0)), 2);
    assert_eq!(programs_of(3 * S, piece(512)), 0);
}

#[test]
fn padding_takes_room_until_its_block_is_collected() {
    let collected = |padding_per_mille| {
        let mut drive = drive(Parameters {
            padding_per_mille,
            ..parameters()
        });
        let logical_pages = drive.parameters().shape.logical_pages;
        let mut now = 0;
        for page in (0..logical_pages).chain(0..logical_pages) {
            now = drive.submit(now, Op::Write { page, pages: 1 }).expect("it is on-line");
        }
        drive.ftl().check().expect("a sound map");
        assert_eq!(drive.ftl().mapped_pages(), logical_pages);
        drive.counters().ftl.erased_blocks
    };
    let (without, with) = (collected(0), collected(1000));
    assert!(with > without + without / 2, "{without} and {with} blocks");
}

#[test]
fn log_written_to_a_page_that_was_trimmed_is_there_again() {
    let mut drive = drive(parameters());
    let piece = |offset| Op::WriteBytes { offset, bytes: 512 };
    drive.submit(0, piece(0)).expect("it is on-line");
    drive.trim(S, 0, 1);
    assert_eq!(drive.ftl().flash_page(0), None);
    drive.submit(2 * S, piece(512)).expect("it is on-line");
    assert!(drive.ftl().flash_page(0).is_some());
}

#[test]
fn the_drive_goes_off_line_when_its_map_outgrows_the_host_and_says_so() {
    let mut drive = drive(Parameters {
        mapping: MappingRam {
            worst_case_bytes: 5_600_000_000,
            per_data_bytes: 80_000_000_000,
            driver_divisor: 1,
            sector_bytes: 512,
            extent_bytes: 512,
        },
        host_ram_bytes: Some(574 * 1000),
        ..parameters()
    });
    // 8192 bytes are 16 sectors with 35.84 bytes each. So a page takes 573.44 bytes, and 1000 pages fit.
    for page in 0..1000 {
        drive
            .submit(u64::from(page) * 1000 * US, write(page))
            .expect("memory suffices");
    }
    assert_eq!(drive.host_ram_bytes(), 573_440);
    drive.submit(S, write(999)).expect("nothing new to map");
    let words = drive
        .submit(2 * S, write(1000))
        .expect_err("memory ran out")
        .to_string();
    assert_eq!(
        words,
        "the drive went off-line: the map of 8200192 bytes of data takes 574013 bytes of the host's memory, and there are \
         574000; larger sectors, a newer driver, a smaller format or more memory for the drive would help"
    );
    assert!(
        drive.submit(3 * S, read(0)).is_err(),
        "off-line is off-line for reads too"
    );
    drive.format();
    assert!(drive.submit(4 * S, write(0)).is_ok(), "a format frees the map");
}

#[test]
fn parameters_that_can_not_be_are_refused_by_name() {
    let refusal = |parameters: Parameters| Drive::new(parameters, Rng::stream(1, "drive")).expect_err("bad parameters");
    let slow = Parameters {
        log_delay_ns: 2 * S,
        ..parameters()
    };
    assert_eq!(refusal(slow), "log_delay_ns is 2000000000: it must be 0 to 1000000000");
    let mut greedy = parameters();
    greedy.garbage_collection.stop_blocks = 40;
    assert!(
        refusal(greedy).starts_with("garbage collection wants 40 free blocks, but this format leaves 32 spare ones")
    );
}
