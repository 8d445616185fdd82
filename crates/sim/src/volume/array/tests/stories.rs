//! Any request to any volume is done once, and a repetition gives the same times.

use proptest::prelude::*;

use super::{Volume, cache, request, volume};
use crate::kernel::Ns;
use crate::rng::Rng;
use crate::volume::config::LinkChoice;
use crate::volume::repeat::{disk, flash, holds};
use crate::volume::stripe::Level;
use crate::volume::{Answer, Kind};

/// One of many requests in a test.
#[derive(Clone, Copy, Debug)]
struct Asked {
    after_ns: Ns,
    kind: Kind,
    place: u64,
    sectors: u64,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    level: Level,
    pairs: u64,
    flash: u64,
    cache_blocks: Option<u64>,
    link: bool,
    loses: Option<u32>,
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Append];
const LEVELS: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid10, Level::Raid100];

fn stories() -> impl Strategy<Value = (Shape, Vec<Asked>)> {
    let shape = (
        prop::sample::select(LEVELS.as_slice()),
        1_u64..3,
        0_u64..3,
        prop::option::of(1_u64..40),
        any::<bool>(),
        prop::option::of(0_u32..3),
    )
        .prop_map(|(level, pairs, flash, cache_blocks, link, loses)| Shape {
            level,
            pairs,
            flash,
            cache_blocks,
            link,
            loses: loses.filter(|_| level != Level::Raid0),
        });
    let asked = (
        0_u64..3_000_000,
        prop::sample::select(KINDS.as_slice()),
        0_u64..2000,
        1_u64..300,
    )
        .prop_map(|(after_ns, kind, place, sectors)| Asked {
            after_ns,
            kind,
            place,
            sectors,
        });
    (shape, prop::collection::vec(asked, 1..80))
}

fn build(shape: Shape) -> Volume {
    let count = match shape.level {
        Level::Raid0 => shape.pairs,
        Level::Raid1 => shape.pairs + 1,
        Level::Raid5 => shape.pairs + 2,
        Level::Raid10 => 2 * shape.pairs,
        Level::Raid100 => 4 * shape.pairs,
    };
    let device = |number| {
        if number < shape.flash {
            flash(number)
        } else {
            disk(number)
        }
    };
    let mut built = volume(shape.level, (0..count).map(device).collect());
    if let Some(blocks) = shape.cache_blocks {
        built = built.with_cache(&cache(blocks * 8192), 1);
    }
    if shape.link {
        built = built.with_link(&LinkChoice {
            bytes_per_s: 104_000_000,
            latency_ns: 100_000,
        });
    }
    if let Some(drive) = shape.loses.filter(|drive| u64::from(*drive) < count) {
        built.lose_at(40_000_000, drive);
    }
    built
}

/// Returns all completions in order, or an error.
fn tell(shape: Shape, asked: &[Asked]) -> Result<Vec<(Ns, u32)>, String> {
    let mut volume = build(shape);
    let mut now = 0;
    let mut completions = Vec::new();
    let mut begun_ns = Vec::new();
    let words = |failure: crate::volume::Failure| failure.to_string();
    let advance_to = |volume: &mut Volume, until: Ns, completions: &mut Vec<(Ns, u32)>| {
        let mut done = Vec::new();
        while volume.next_event() <= until && volume.next_event() < Ns::MAX {
            let at_ns = volume.next_event();
            volume.advance(at_ns, &mut done).map_err(words)?;
            completions.extend(done.drain(..).map(|token| (at_ns, token)));
        }
        Ok::<(), String>(())
    };
    for (token, one) in (0..).zip(asked) {
        now += one.after_ns;
        advance_to(&mut volume, now, &mut completions)?;
        let bytes = one.sectors * 512;
        let offset = (one.place * 37 * 512) % (volume.bytes() - bytes) / 512 * 512;
        begun_ns.push(now);
        if let Answer::Done(done_ns) = volume
            .submit(now, request(one.kind, offset, bytes), token)
            .map_err(words)?
        {
            completions.push((done_ns, token));
        }
    }
    advance_to(&mut volume, Ns::MAX, &mut completions)?;
    let mut seen = vec![false; asked.len()];
    for &(done_ns, token) in &completions {
        if std::mem::replace(&mut seen[token as usize], true) {
            return Err(format!("request {token} was done twice"));
        }
        if done_ns < begun_ns[token as usize] {
            return Err(format!("request {token} was done before it came"));
        }
    }
    if let Some(token) = seen.iter().position(|seen| !seen) {
        return Err(format!("request {token} was never done"));
    }
    let requests = volume.counters().requests;
    if !volume.is_plain() && requests != asked.len() as u64 {
        return Err(format!("{requests} requests counted, of {}", asked.len()));
    }
    if let Some(destage) = &volume.destage
        && (!destage.cache.is_empty() || destage.in_progress != 0)
    {
        return Err("at rest something is still in the cache".to_owned());
    }
    if volume.free.len() != volume.operations.len() {
        return Err("at rest an operation is still in progress".to_owned());
    }
    Ok(completions)
}

#[test]
fn whatever_is_asked_of_any_volume_is_done_once_and_always_at_the_same_time() {
    holds(60, "volume::array", &stories(), |(shape, asked)| {
        let first = tell(shape, &asked)?;
        if tell(shape, &asked)? == first {
            Ok(())
        } else {
            Err("the same story has two ends".to_owned())
        }
    });
}

/// A test with requests of all kinds. Its expected end is the same in a debug and a release build, on every machine.
#[test]
fn a_story_told_long_ago_ends_as_it_did_then() {
    let mut rng = Rng::stream(1, "story");
    let asked: Vec<Asked> = (0..400)
        .map(|_| Asked {
            after_ns: rng.below(2_000_000),
            kind: KINDS[usize::try_from(rng.below(3)).expect("small")],
            place: rng.below(2000),
            sectors: 1 + rng.below(300),
        })
        .collect();
    let mut sums = Vec::new();
    for level in [Level::Raid1, Level::Raid5, Level::Raid10, Level::Raid100] {
        let shape = Shape {
            level,
            pairs: 2,
            flash: 1,
            cache_blocks: Some(30),
            link: true,
            loses: Some(1),
        };
        let ends = tell(shape, &asked).expect("it ends");
        let sum = ends.iter().fold(0_u64, |sum, (done_ns, token)| {
            sum.wrapping_mul(31)
                .wrapping_add(*done_ns)
                .wrapping_mul(31)
                .wrapping_add(u64::from(*token))
        });
        sums.push(sum);
    }
    assert_eq!(
        sums,
        [
            13_824_348_843_371_289_074,
            6_818_643_974_211_172_232,
            7_327_357_380_304_164_237,
            14_025_032_713_659_200_709
        ]
    );
}
