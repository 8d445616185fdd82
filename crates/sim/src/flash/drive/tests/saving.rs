//! A drive that is saved and loaded, and random work of all kinds on it.

use super::*;

/// Does random work of every kind. Returns the times of completion.
fn work(drive: &mut Drive, seed: u64) -> Vec<u64> {
    let mut rng = Rng::stream(seed, "work");
    let mut now = 0;
    let mut completions = Vec::new();
    for _ in 0..3000 {
        now += rng.below(400 * US);
        let page = draw(&mut rng, 6900);
        let pages = 1 + draw(&mut rng, 32);
        let op = match rng.below(10) {
            0..4 => read(page),
            4..8 => Op::Write { page, pages },
            8 => Op::WriteBytes {
                offset: u64::from(page) * PAGE + 512,
                bytes: 1024,
            },
            _ => {
                drive.trim(now, page, pages);
                continue;
            }
        };
        completions.push(drive.submit(now, op).expect("it is on-line"));
    }
    completions
}

fn lively() -> Parameters {
    Parameters {
        jitter_per_mille: 250,
        garbage_collection: GarbageCollection {
            idle_after_ns: 300 * US,
            idle_blocks: 10,
            ..parameters().garbage_collection
        },
        ..parameters()
    }
}

#[test]
fn a_drive_taken_up_from_its_bytes_goes_on_as_one_that_rested() {
    let mut kept = filled(lively(), 7000);
    work(&mut kept, 1);
    kept.rest(Rng::stream(1, "drive"));
    let mut rng = Rng::stream(8, "until cleaning");
    while !kept.collecting || kept.owed == 0 {
        kept.submit(0, write(draw(&mut rng, 7000))).expect("it is on-line");
    }
    let mut loaded = Drive::load(lively(), &kept.save(), Rng::stream(2, "drive")).expect("its own bytes");
    kept.rest(Rng::stream(2, "drive"));
    assert_eq!(loaded.counters(), kept.counters());
    assert_eq!(work(&mut loaded, 2), work(&mut kept, 2));
    assert_eq!(loaded.save(), kept.save());
}

#[test]
fn the_same_seed_gives_the_same_times_and_the_same_bytes() {
    let outcome = |seed| {
        let mut drive = Drive::new(lively(), Rng::stream(seed, "drive")).expect("good parameters");
        (work(&mut drive, 1), drive.save())
    };
    let (times, bytes) = outcome(1);
    assert_eq!((times.clone(), bytes.clone()), outcome(1));
    assert_ne!(times, outcome(2).0, "another seed makes other times");
}

#[test]
fn a_saved_drive_is_not_taken_for_one_of_another_format() {
    let saved = drive(parameters()).save();
    let other = Parameters {
        shape: Shape {
            logical_pages: 6000,
            ..parameters().shape
        },
        ..parameters()
    };
    let error = Drive::load(other, &saved, Rng::stream(1, "drive")).expect_err("another format");
    assert!(matches!(error, StateError::Impossible(_)), "{error}");
    let mut damaged = saved;
    damaged[100] ^= 1;
    let error = Drive::load(parameters(), &damaged, Rng::stream(1, "drive")).expect_err("damaged");
    assert_eq!(error, StateError::Checksum);
}

#[test]
fn no_work_of_any_kind_loses_a_page_of_the_drive() {
    let mut drive = filled(lively(), 7000);
    for seed in 0..5 {
        work(&mut drive, seed);
        assert_eq!(drive.ftl().check(), Ok(()), "seed {seed}");
        drive.rest(Rng::stream(seed, "drive"));
    }
}
