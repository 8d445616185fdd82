//! The published outputs of the generators, and the properties that the simulator needs.

use std::collections::BTreeSet;

use super::{Rng, SplitMix64, stream_seed};

/// The words are those of the authors' C code for this seed. Other libraries' tests have the same words.
#[test]
fn splitmix64_gives_the_published_words() {
    let published = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ];
    let mut words = SplitMix64::new(1_234_567);
    assert_eq!(published.map(|_| words.next_u64()), published);
}

#[test]
fn splitmix64_of_seed_zero_does_not_start_at_zero() {
    let mut words = SplitMix64::new(0);
    assert_eq!(
        [words.next_u64(), words.next_u64()],
        [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
    );
}

/// The words of the authors' C code from the state 1, 2, 3, 4.
#[test]
fn xoshiro256_plus_plus_gives_the_published_words() {
    let published = [
        41_943_041,
        58_720_359,
        3_588_806_011_781_223,
        3_591_011_842_654_386,
        9_228_616_714_210_784_205,
        9_973_669_472_204_895_162,
        14_011_001_112_246_962_877,
        12_406_186_145_184_390_807,
        15_849_039_046_786_891_736,
        10_450_023_813_501_588_000,
    ];
    let mut rng = Rng { state: [1, 2, 3, 4] };
    assert_eq!(published.map(|_| rng.next_u64()), published);
}

/// Stored results must stay repeatable. If these words change, every seeded experiment changes.
#[test]
fn streams_stay_what_they_are_from_version_to_version() {
    let seeds = [(1, ""), (1, "order"), (2, "order"), (1, "connection/17")].map(|(seed, name)| stream_seed(seed, name));
    assert_eq!(
        seeds,
        [
            6_791_897_765_849_424_158,
            16_852_174_070_545_666_945,
            14_777_433_671_026_867_234,
            15_238_165_805_936_341_922
        ]
    );
    let mut items: Vec<u32> = (0..10).collect();
    Rng::stream(1, "order").shuffle(&mut items);
    assert_eq!(items, [4, 1, 8, 7, 3, 6, 2, 9, 0, 5]);
}

#[test]
fn a_stream_repeats_itself_and_no_other() {
    let draw = |seed, name| {
        let mut rng = Rng::stream(seed, name);
        [(); 8].map(|()| rng.next_u64())
    };
    assert_eq!(draw(7, "drive/0"), draw(7, "drive/0"));
    let names = [
        "drive/0",
        "drive/1",
        "drive/0\0",
        "drive",
        "",
        "\0",
        "a rather longer name than eight bytes",
    ];
    let streams: BTreeSet<_> = names
        .iter()
        .flat_map(|name| (0..50).map(|seed| draw(seed, name)))
        .collect();
    assert_eq!(streams.len(), names.len() * 50);
}

/// Chi-squared over 10 boxes, 9 degrees of freedom: one of 10,000 fair generators is above 33.7. The seed is fixed.
#[test]
fn whole_numbers_below_a_bound_are_equally_likely() {
    let (draws, boxes) = (100_000_u32, 10_u64);
    let mut counts = [0_u32; 10];
    let mut rng = Rng::stream(1, "chi-squared");
    for _ in 0..draws {
        counts[usize::try_from(rng.below(boxes)).expect("small")] += 1;
    }
    let expected = f64::from(draws) / 10.0;
    let chi_squared: f64 = counts
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected)
        .sum();
    assert!(chi_squared < 33.7, "{counts:?}: {chi_squared}");
}

/// The bound is three quarters of all words. A remainder would put half of its results into the lowest third.
#[test]
fn a_large_bound_is_not_biased_towards_small_numbers() {
    let bound = 3_u64 << 62;
    let mut rng = Rng::stream(1, "bias");
    let low_third = (0..30_000).filter(|_| rng.below(bound) < bound / 3).count();
    assert!((9_600..10_400).contains(&low_third), "{low_third} of 30,000");
}

#[test]
fn the_smallest_and_the_largest_bound_are_kept() {
    let mut rng = Rng::stream(1, "bounds");
    assert!((0..100).all(|_| rng.below(1) == 0));
    assert!((0..100).all(|_| rng.below(u64::MAX) < u64::MAX));
}

#[test]
#[should_panic(expected = "no whole number is below 0")]
fn a_bound_of_zero_is_refused() {
    Rng::stream(1, "bounds").below(0);
}

#[test]
fn unit_numbers_fill_the_half_open_interval() {
    let mut rng = Rng::stream(1, "unit");
    let draws: Vec<f64> = (0..100_000).map(|_| rng.unit()).collect();
    assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
    let mean = draws.iter().sum::<f64>() / 100_000.0;
    // The standard error is 1 / sqrt(12 x 100,000) = 0.0009. The limit is five standard errors.
    assert!((mean - 0.5).abs() < 0.0046, "{mean}");
    assert!(draws.iter().any(|&draw| draw < 0.001) && draws.iter().any(|&draw| draw > 0.999));
}

#[test]
fn exponential_times_are_whole_numbers_of_the_same_distribution() {
    let mut rng = Rng::stream(1, "exponential times");
    let draws: Vec<u64> = (0..100_000).map(|_| rng.exponential_ns(1_000_000)).collect();
    #[expect(clippy::cast_precision_loss, reason = "the sum is far below 2^53")]
    let mean = draws.iter().sum::<u64>() as f64 / 1e11;
    assert!((mean - 1.0).abs() < 0.016, "{mean}");
    // A share of e^-x is above x means. The standard errors are at most 160 of 100,000.
    for (means, share) in [(0.5_f64, 60_653), (1.0, 36_788), (2.0, 13_534), (4.0, 1_832)] {
        #[expect(clippy::cast_precision_loss, reason = "a draw is far below 2^53")]
        let above = draws.iter().filter(|&&draw| draw as f64 > means * 1e6).count();
        assert!(above.abs_diff(share) < 800, "{above} above {means}");
    }
    assert_eq!(rng.exponential_ns(0), 0);
}

/// 24 orders, with 23 degrees of freedom. About one of 10,000 fair shuffles is above 57.1. The seed is fixed.
#[test]
fn every_order_of_four_items_is_equally_likely() {
    let mut rng = Rng::stream(1, "orders");
    let mut counts = std::collections::BTreeMap::<[u8; 4], u32>::new();
    for _ in 0..48_000 {
        let mut items = [0, 1, 2, 3];
        rng.shuffle(&mut items);
        *counts.entry(items).or_default() += 1;
    }
    assert_eq!(counts.len(), 24);
    let chi_squared: f64 = counts
        .values()
        .map(|&count| (f64::from(count) - 2000.0).powi(2) / 2000.0)
        .sum();
    assert!(chi_squared < 57.1, "{chi_squared}");
}

#[test]
fn a_shuffle_of_nothing_or_of_one_item_draws_nothing() {
    let mut rng = Rng::stream(1, "orders");
    let untouched = rng.clone().next_u64();
    rng.shuffle::<u8>(&mut []);
    rng.shuffle(&mut [1]);
    assert_eq!(rng.next_u64(), untouched);
}
