//! The quick way to age a drive leads to the same state as the slow way.

use super::{Age, draw, fifo_host_pages_per_collection, greedy_steady};
use crate::flash::ftl::{FlashPage, Ftl, FtlCounters, Shape, Streams};
use crate::flash::victims::VictimPolicy;
use crate::rng::Rng;

const LOGICAL_PAGES: u32 = 60_000;

fn ftl(victim: VictimPolicy) -> Ftl {
    Ftl::new(Shape {
        blocks: 2400,
        pages_per_block: 32,
        logical_pages: LOGICAL_PAGES,
        victim,
        streams: Streams::Separate,
    })
    .expect("a good shape")
}

fn aged(victim: VictimPolicy, age: Age, seed: u64) -> Ftl {
    let mut ftl = ftl(victim);
    ftl.age(age, &mut Rng::stream(seed, "age")).expect("it can be aged");
    ftl
}

impl Ftl {
    /// Writes `writes` pages. Each is drawn uniformly from the first `addresses`.
    pub(in crate::flash) fn write_at_random(&mut self, addresses: u32, writes: u64, rng: &mut Rng) {
        for _ in 0..writes {
            self.write(draw(rng, addresses), &mut ());
        }
    }

    /// Writes the first `addresses` in order, then `rounds` times as many at random, to compare a steady state with it.
    pub(in crate::flash) fn overwrite(&mut self, addresses: u32, rounds: u64, rng: &mut Rng) {
        self.age(Age::Filled { addresses }, rng).expect("it can be filled");
        self.write_at_random(addresses, u64::from(addresses) * rounds, rng);
        self.counters = FtlCounters::default();
    }
}

/// Returns the write amplification while half of the addresses are written again at random.
fn next_write_amplification(ftl: &mut Ftl, addresses: u32) -> f64 {
    let mut rng = Rng::stream(9, "after ageing");
    let before = *ftl.counters();
    ftl.write_at_random(addresses, u64::from(addresses) / 2, &mut rng);
    ftl.counters().since(&before).write_amplification()
}

/// Returns the number of blocks for each number of valid pages.
fn spread(ftl: &Ftl) -> Vec<f64> {
    let mut blocks_with = vec![0.0; 33];
    for block in 0..ftl.shape.blocks {
        blocks_with[ftl.blocks.valid(block) as usize] += 1.0;
    }
    blocks_with
}

/// Returns the largest difference between two cumulative sums.
fn farthest_apart(one: &[f64], other: &[f64]) -> f64 {
    let differences = one.iter().zip(other).scan(0.0, |sum: &mut f64, (a, b)| {
        *sum += a - b;
        Some(sum.abs())
    });
    differences.fold(0.0, f64::max)
}

#[test]
fn a_drive_aged_at_once_behaves_as_one_that_was_written_over_and_over() {
    for victim in [VictimPolicy::Greedy, VictimPolicy::Fifo] {
        for addresses in [LOGICAL_PAGES, LOGICAL_PAGES / 2] {
            let mut written = ftl(victim);
            written.overwrite(addresses, 6, &mut Rng::stream(1, "age"));
            let steady = Age::Steady {
                addresses,
                free_blocks: 4,
            };
            let mut at_once = aged(victim, steady, 2);
            assert_eq!(at_once.check(), Ok(()));
            assert_eq!(at_once.mapped_pages(), addresses);
            let apart = farthest_apart(&spread(&written), &spread(&at_once));
            // The Kolmogorov-Smirnov distance. By chance it is below 0.05 for two samples of 2400 in 99 of 100 cases.
            assert!(apart < 0.05 * 2400.0, "{victim:?}, {addresses}: {apart} blocks apart");
            let (slow, quick) = (
                next_write_amplification(&mut written, addresses),
                next_write_amplification(&mut at_once, addresses),
            );
            assert!(
                (slow / quick - 1.0).abs() < 0.01,
                "{victim:?}, {addresses}: {slow} {quick}"
            );
        }
    }
}

#[test]
fn the_greedy_steady_state_holds_all_blocks_and_all_valid_pages() {
    for (valid, blocks) in [
        (60_000.0, 2000.0),
        (60_000.0, 1876.0),
        (30_000.0, 2000.0),
        (100.0, 2000.0),
    ] {
        let steady = greedy_steady(valid, blocks, 32);
        let held: f64 = steady.blocks_with.iter().sum();
        let pages: f64 = (0..)
            .zip(&steady.blocks_with)
            .map(|(count, with)| f64::from(count) * with)
            .sum();
        assert!((held / blocks - 1.0).abs() < 1e-9, "{held} of {blocks} blocks");
        assert!((pages / valid - 1.0).abs() < 1e-9, "{pages} of {valid} pages");
    }
}

/// The formula is b/w = A = a/(a + W0(-a e^-a)). At 28 % spare it gives 2.48, rounded.
#[test]
fn the_fifo_steady_state_is_that_of_the_published_formula() {
    let host_pages = fifo_host_pages_per_collection(640_000.0, 12_800, 64);
    assert!((64.0 / host_pages - 2.48).abs() < 0.005, "{}", 64.0 / host_pages);
}

#[test]
fn ageing_is_the_same_for_the_same_seed_and_not_for_another() {
    let age = Age::Steady {
        addresses: 1000,
        free_blocks: 4,
    };
    let bytes = |seed| aged(VictimPolicy::Greedy, age, seed).save();
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn a_filled_drive_has_written_each_address_once_in_order_and_copied_nothing() {
    let filled = aged(VictimPolicy::Greedy, Age::Filled { addresses: 500 }, 1);
    assert_eq!(
        (0..500).map(|page| filled.flash_page(page)).collect::<Vec<_>>(),
        (0..500).map(|page| Some(FlashPage::new(page))).collect::<Vec<_>>()
    );
    assert_eq!(filled.mapped_pages(), 500);
    assert_eq!(filled.counters().host_pages, 0, "ageing is not the host's doing");
}

#[test]
fn a_drive_can_be_all_but_empty_and_old() {
    let steady = Age::Steady {
        addresses: 1,
        free_blocks: 4,
    };
    let mut ftl = aged(VictimPolicy::Greedy, steady, 1);
    assert_eq!(ftl.check(), Ok(()));
    assert!(next_write_amplification(&mut ftl, 1) < 1.01);
}

#[test]
fn ageing_beyond_what_the_drive_holds_is_refused_in_words() {
    let mut ftl = ftl(VictimPolicy::Greedy);
    let mut rng = Rng::stream(1, "age");
    let too_many = Age::Filled {
        addresses: LOGICAL_PAGES + 1,
    };
    let words = ftl.age(too_many, &mut rng).expect_err("too many addresses");
    assert_eq!(words, "a drive of 60000 pages can't be aged with 60001 of them in use");
    let too_free = Age::Steady {
        addresses: LOGICAL_PAGES,
        free_blocks: 2000,
    };
    let words = ftl.age(too_free, &mut rng).expect_err("too few blocks left");
    assert!(
        words.starts_with("2000 free blocks of 2400 leave no room for 60000 addresses"),
        "{words}"
    );
}
