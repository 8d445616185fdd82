//! What a page map must never do, and how many pages it must copy.
//!
//! The acceptance tests below start from [`Age::Steady`]. They write the drive once before they measure and once more
//! while they measure. Their accuracy depends on the size of the drive. About three blocks can't take part (two
//! half-filled write points and one or two free blocks). One block changes write amplification by 1 / (spare blocks) of
//! itself. At 7 % spare, 8192 blocks have 536 spare ones. So an uncertainty of half a block is 0.1 %. Chance adds less.

use proptest::prelude::*;

use super::{FlashPage, Ftl, Observer, Shape, Streams};
use crate::flash::Age;
use crate::flash::victims::VictimPolicy;
use crate::rng::Rng;
use crate::volume::repeat::holds;

fn shape(blocks: u32, pages_per_block: u32, logical_pages: u32) -> Shape {
    Shape {
        blocks,
        pages_per_block,
        logical_pages,
        victim: VictimPolicy::Greedy,
        streams: Streams::Separate,
    }
}

/// Returns the write amplification of uniform random writes at steady state, with `spare_percent` of spare flash.
fn steady_write_amplification(victim: VictimPolicy, spare_percent: u32) -> f64 {
    let takes_no_part = 3;
    let blocks = 8192;
    let logical_pages = (blocks - takes_no_part) * 64 * 100 / (100 + spare_percent);
    let mut ftl = Ftl::new(Shape {
        victim,
        ..shape(blocks, 64, logical_pages)
    })
    .expect("a good shape");
    let mut rng = Rng::stream(u64::from(spare_percent), "acceptance");
    let age = Age::Steady {
        addresses: logical_pages,
        free_blocks: takes_no_part,
    };
    ftl.age(age, &mut rng).expect("it can be aged");
    ftl.write_at_random(logical_pages, u64::from(logical_pages), &mut rng);
    let before = *ftl.counters();
    ftl.write_at_random(logical_pages, u64::from(logical_pages), &mut rng);
    ftl.counters().since(&before).write_amplification()
}

/// Returns the principal branch of Lambert's W, w such that w e^w = x, by Newton's method, for x from -1/e to 0.
fn lambert_w0(x: f64) -> f64 {
    // Near x = -1/e, Newton's method is slow from below. From the square-root expansion at -1/e it is fast.
    let mut w = -1.0 + (2.0 * (1.0 + std::f64::consts::E * x)).max(0.0).sqrt();
    for _ in 0..100 {
        w -= (w * w.exp() - x) / (w.exp() * (1.0 + w));
    }
    w
}

fn assert_near(measured: f64, expected: f64, tolerance: f64, what: &str) {
    let error = measured / expected - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{what}: {measured:.4}, expected {expected:.4}, off by {:.2} %",
        error * 100.0
    );
}

#[test]
fn cleaning_the_oldest_block_amplifies_random_writes_as_its_formula_says() {
    // The value of the formula in this table at 7 %, 7.82, is rounded.
    for (spare_percent, published) in [(7, 7.82), (15, 4.02), (28, 2.48), (50, 1.72), (100, 1.255)] {
        let a = 1.0 + f64::from(spare_percent) / 100.0;
        let expected = a / (a + lambert_w0(-a * (-a).exp()));
        assert_near(expected, published, 0.003, "the formula against the table");
        let measured = steady_write_amplification(VictimPolicy::Fifo, spare_percent);
        assert_near(measured, expected, 0.005, &format!("FIFO at {spare_percent} %"));
    }
}

#[test]
fn cleaning_the_emptiest_block_amplifies_random_writes_as_published_for_64_pages_a_block() {
    for (spare_percent, published) in [(7, 7.00), (15, 3.80), (28, 2.40), (50, 1.68), (100, 1.24)] {
        let measured = steady_write_amplification(VictimPolicy::Greedy, spare_percent);
        assert_near(measured, published, 0.005, &format!("greedy at {spare_percent} %"));
    }
}

#[test]
fn writing_in_order_copies_nothing_however_often() {
    let mut ftl = Ftl::new(shape(64, 16, 900)).expect("a good shape");
    for _ in 0..5 {
        for page in 0..900 {
            ftl.write(page, &mut ());
        }
    }
    // Pages of the next pass are still in the open block when a block is collected, so a few pages are copied per pass.
    assert!(ftl.counters().write_amplification() < 1.02, "{:?}", ftl.counters());
    assert_eq!(ftl.check(), Ok(()));
}

#[test]
fn a_smaller_format_of_the_same_flash_copies_less() {
    let amplification = |logical_pages| {
        let mut ftl = Ftl::new(shape(1000, 16, logical_pages)).expect("a good shape");
        let mut rng = Rng::stream(1, "formats");
        ftl.overwrite(logical_pages, 2, &mut rng);
        ftl.write_at_random(logical_pages, 40_000, &mut rng);
        ftl.counters().write_amplification()
    };
    let [basic, improved, maximum] = [14_545, 10_181, 7321].map(amplification);
    assert!(
        basic > 2.0 * improved && improved > 1.2 * maximum,
        "{basic} {improved} {maximum}"
    );
}

#[test]
fn keeping_copies_apart_from_fresh_pages_saves_copies_when_some_pages_are_hot() {
    let amplification = |streams| {
        let mut ftl = Ftl::new(Shape {
            streams,
            ..shape(1024, 64, 1024 * 56)
        })
        .expect("a good shape");
        let mut rng = Rng::stream(2, "hot");
        ftl.age(Age::Filled { addresses: 1024 * 56 }, &mut rng)
            .expect("it can be aged");
        for _ in 0..300_000 {
            let hot = rng.below(10) < 9;
            let page = rng.below(if hot { 5_600 } else { 1024 * 56 });
            ftl.write(u32::try_from(page).expect("a page"), &mut ());
        }
        ftl.counters().write_amplification()
    };
    let (separate, shared) = (amplification(Streams::Separate), amplification(Streams::Shared));
    assert!(separate < 0.95 * shared, "{separate} {shared}");
}

#[test]
fn pages_of_a_deleted_file_cost_copies_until_they_are_trimmed() {
    let amplification = |trimmed: bool| {
        let mut ftl = Ftl::new(shape(512, 16, 7400)).expect("a good shape");
        let mut rng = Rng::stream(3, "trim");
        ftl.age(Age::Filled { addresses: 7400 }, &mut rng)
            .expect("it can be aged");
        if trimmed {
            for page in 3700..7400 {
                assert!(ftl.trim(page), "it held data");
            }
        }
        ftl.write_at_random(3700, 30_000, &mut rng);
        assert_eq!(ftl.check(), Ok(()));
        ftl.counters().write_amplification()
    };
    let (trimmed, kept) = (amplification(true), amplification(false));
    assert!(kept > 1.5 * trimmed, "{kept} {trimmed}");
}

#[test]
fn a_shape_without_room_to_clean_is_refused_with_the_way_out() {
    let words = Ftl::new(shape(60, 16, 900)).expect_err("57 blocks of data and 5 that can't hold any");
    assert_eq!(
        words,
        "900 logical pages need at least 62 blocks of 16 pages, but the drive has 60: make the usable capacity smaller, \
         the raw capacity larger, or the scale smaller"
    );
    assert!(
        Ftl::new(shape(64, 24, 900))
            .expect_err("not a power of two")
            .contains("power of two")
    );
}

/// Follows a map through the copies that it reports, and compares the map with them.
#[derive(Default)]
struct Follower {
    moves: u64,
    erases: u64,
}

impl Observer for Follower {
    fn moved(&mut self, from: FlashPage, to: FlashPage) {
        assert_ne!(from, to, "a page is copied to another place");
        self.moves += 1;
    }

    fn erased(&mut self, _block: u32) {
        self.erases += 1;
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u32),
    WriteRun(u32, u32),
    Trim(u32),
    Clean,
    Format,
    SaveAndLoad,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        60 => (0..1000u32).prop_map(Step::Write),
        20 => (0..1000u32, 1..100u32).prop_map(|(page, pages)| Step::WriteRun(page, pages)),
        10 => (0..1000u32).prop_map(Step::Trim),
        5 => Just(Step::Clean),
        1 => Just(Step::Format),
        2 => Just(Step::SaveAndLoad),
    ];
    prop::collection::vec(step, 1..400)
}

fn shapes() -> impl Strategy<Value = Shape> {
    let victim = prop_oneof![Just(VictimPolicy::Greedy), Just(VictimPolicy::Fifo)];
    let streams = prop_oneof![Just(Streams::Separate), Just(Streams::Shared)];
    (0..6u32, 1..300u32, 0..6u32, victim, streams).prop_map(|(shift, logical_pages, spare, victim, streams)| Shape {
        blocks: logical_pages.div_ceil(1 << shift) + super::UNUSABLE_BLOCKS + spare,
        pages_per_block: 1 << shift,
        logical_pages,
        victim,
        streams,
    })
}

#[test]
fn no_sequence_of_writes_trims_formats_and_rests_loses_a_page() {
    holds(300, "no_sequence_of_writes", &(shapes(), steps()), |(shape, steps)| {
        follow(shape, &steps)
    });
}

/// Makes `steps` on a drive of `shape`, and compares it with a plain list of the pages that hold data.
fn follow(shape: Shape, steps: &[Step]) -> Result<(), String> {
    let logical_pages = shape.logical_pages;
    let mut ftl = Ftl::new(shape)?;
    let mut holds = vec![false; logical_pages as usize];
    let mut follower = Follower::default();
    for &step in steps {
        match step {
            Step::Write(page) => write(&mut ftl, &mut holds, &mut follower, page, 1),
            Step::WriteRun(page, pages) => write(&mut ftl, &mut holds, &mut follower, page, pages),
            Step::Trim(page) => {
                let page = page % logical_pages;
                let held = std::mem::replace(&mut holds[page as usize], false);
                if ftl.trim(page) != held {
                    return Err(format!("page {page} was trimmed and {held} is whether it held data"));
                }
            }
            Step::Clean => drop(ftl.collect_block(&mut follower)),
            Step::Format => {
                ftl.format(logical_pages)?;
                holds.fill(false);
            }
            Step::SaveAndLoad => {
                let bytes = ftl.save();
                ftl = Ftl::load(&bytes).map_err(|error| error.to_string())?;
                if ftl.save() != bytes {
                    return Err("a loaded drive saves other bytes".to_owned());
                }
            }
        }
        ftl.check()?;
        if let Some(page) = (0..logical_pages).find(|&page| ftl.flash_page(page).is_some() != holds[page as usize]) {
            return Err(format!("page {page} was lost, or came back, after {step:?}"));
        }
    }
    let counters = ftl.counters();
    if (counters.moved_pages, counters.erased_blocks) != (follower.moves, follower.erases) {
        return Err(format!(
            "{counters:?} against {} copies and {} erases seen",
            follower.moves, follower.erases
        ));
    }
    Ok(())
}

fn write(ftl: &mut Ftl, holds: &mut [bool], follower: &mut Follower, page: u32, pages: u32) {
    let logical_pages = ftl.shape().logical_pages;
    for page in page..page + pages {
        let page = page % logical_pages;
        ftl.write(page, follower);
        holds[page as usize] = true;
    }
}
