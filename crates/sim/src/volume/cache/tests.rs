//! What a write-back cache must never do: lose a write, or replace newer data by older data.

use proptest::prelude::*;

use super::{Cache, Destaging, Run, SECTOR_BYTES};
use crate::volume::repeat::holds;

impl Cache {
    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

const BLOCK: u64 = 8192;
const SECTORS: u64 = 160;

fn cache(blocks: u64) -> Cache {
    cache_in(Destaging::Elevator, blocks)
}

fn cache_in(order: Destaging, blocks: u64) -> Cache {
    Cache::new(blocks * BLOCK, BLOCK, 4 * BLOCK, 0, order)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write {
        first: u64,
        sectors: u64,
    },
    Start,
    /// Ends one of the writes in progress.
    Finish(usize),
}

fn steps() -> impl Strategy<Value = (bool, u64, Vec<Step>)> {
    let step = prop_oneof![
        4 => (0..SECTORS, 1_u64..40).prop_map(|(first, sectors)| Step::Write { first, sectors }),
        2 => Just(Step::Start),
        2 => any::<usize>().prop_map(Step::Finish),
    ];
    (any::<bool>(), 1_u64..12, prop::collection::vec(step, 0..200))
}

/// The cache, and beside it the version of each sector as it was written and as it is on the drives.
struct Truth {
    cache: Cache,
    written: Vec<u32>,
    on_drives: Vec<u32>,
    on_their_way: Vec<(Run, Vec<u32>)>,
    /// For each write that went through: the number of blocks that it waits for, its version and its sectors.
    waiting: Vec<(u32, u32, std::ops::Range<usize>)>,
    version: u32,
}

impl Truth {
    fn write(&mut self, first: u64, sectors: u64) {
        let sectors = sectors.min(SECTORS - first);
        self.version += 1;
        let range = index(first)..index(first + sectors);
        self.written[range.clone()].fill(self.version);
        let (offset, bytes) = (first * SECTOR_BYTES, sectors * SECTOR_BYTES);
        if !self.cache.take(offset, bytes) {
            let waiter = u32::try_from(self.waiting.len()).expect("few");
            let blocks = self.cache.take_through(offset, bytes, waiter);
            self.waiting.push((blocks, self.version, range));
        }
    }

    fn start(&mut self) -> bool {
        let run = self.cache.next_urgent().or_else(|| self.cache.next_run());
        let Some(run) = run else { return false };
        let versions = self.written[sectors_of(run)].to_vec();
        self.on_their_way.push((run, versions));
        true
    }

    fn finish(&mut self, which: usize) -> Result<(), String> {
        let (run, versions) = self.on_their_way.swap_remove(which);
        for (sector, version) in sectors_of(run).zip(versions) {
            if version < self.on_drives[sector] {
                return Err(format!(
                    "sector {sector} went back from version {} to {version}",
                    self.on_drives[sector]
                ));
            }
            self.on_drives[sector] = version;
        }
        let mut served = Vec::new();
        self.cache.finish(run, &mut served);
        for waiter in served {
            let (blocks, version, sectors) = &mut self.waiting[waiter as usize];
            *blocks -= 1;
            let there = self.on_drives[sectors.clone()]
                .iter()
                .all(|on_drive| on_drive >= version);
            if *blocks == 0 && !there {
                return Err(format!(
                    "a write through was acknowledged before the drives had it: {sectors:?}"
                ));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let lost = (0..self.written.len()).find(|&sector| {
            self.written[sector] != self.on_drives[sector]
                && !self.cache.holds(sector as u64 * SECTOR_BYTES, SECTOR_BYTES)
        });
        lost.map_or(Ok(()), |sector| {
            Err(format!("sector {sector} is neither here nor on the drives"))
        })
    }
}

fn index(sector: u64) -> usize {
    usize::try_from(sector).expect("small")
}

fn sectors_of(run: Run) -> std::ops::Range<usize> {
    index(run.offset / SECTOR_BYTES)..index((run.offset + run.bytes) / SECTOR_BYTES)
}

#[test]
fn nothing_dirty_is_lost_and_nothing_older_wins() {
    holds(150, "volume::cache", &steps(), |(by_age, blocks, steps)| {
        let order = if by_age { Destaging::Oldest } else { Destaging::Elevator };
        let mut truth = Truth {
            cache: cache_in(order, blocks),
            written: vec![0; index(SECTORS)],
            on_drives: vec![0; index(SECTORS)],
            on_their_way: Vec::new(),
            waiting: Vec::new(),
            version: 0,
        };
        for step in steps {
            match step {
                Step::Write { first, sectors } => truth.write(first, sectors),
                Step::Start => drop(truth.start()),
                Step::Finish(_) if truth.on_their_way.is_empty() => {}
                Step::Finish(which) => truth.finish(which % truth.on_their_way.len())?,
            }
            truth.check()?;
        }
        while truth.start() || !truth.on_their_way.is_empty() {
            truth.finish(truth.on_their_way.len() - 1)?;
        }
        if truth.written != truth.on_drives || !truth.cache.is_empty() {
            return Err("at rest the drives do not have what was written".to_owned());
        }
        let waiting = truth.waiting.iter().filter(|(blocks, ..)| *blocks > 0);
        if waiting.count() > 0 {
            return Err("a write through was never acknowledged".to_owned());
        }
        Ok(())
    });
}

#[test]
fn it_goes_round_in_ascending_order_with_neighbours_together() {
    let mut cache = cache(100);
    for block in [9, 3, 7, 4, 1] {
        assert!(cache.take(block * BLOCK, BLOCK));
    }
    let mut blocks = Vec::new();
    while let Some(run) = cache.next_run() {
        blocks.push((run.offset / BLOCK, run.bytes / BLOCK));
        if blocks.len() == 2 {
            assert!(
                cache.take(2 * BLOCK, BLOCK),
                "behind the hand: it has its turn in the next round"
            );
        }
    }
    assert_eq!(blocks, [(1, 1), (3, 2), (7, 1), (9, 1), (2, 1)]);
}

#[test]
fn what_is_oldest_goes_first_and_takes_its_row_of_stripes_with_it() {
    let mut cache = cache_in(Destaging::Oldest, 100);
    for block in [9, 2, 3, 10, 0, 7] {
        assert!(cache.take(block * BLOCK, BLOCK));
    }
    assert!(cache.take(9 * BLOCK, BLOCK), "written again: it is none the younger");
    let mut blocks = Vec::new();
    while let Some(run) = cache.next_run() {
        blocks.push((run.offset / BLOCK, run.bytes / BLOCK));
    }
    assert_eq!(blocks, [(9, 2), (0, 1), (2, 2), (7, 1)], "rows of four blocks");
}

#[test]
fn what_is_written_while_it_is_on_its_way_waits_for_its_turn_again() {
    let mut cache = cache_in(Destaging::Oldest, 100);
    assert!(cache.take(5 * BLOCK, BLOCK));
    let first = cache.next_run().expect("it is dirty");
    assert!(cache.take(5 * BLOCK, BLOCK) && cache.take(90 * BLOCK, BLOCK));
    assert_eq!(
        cache.next_run().map(|run| run.offset),
        Some(90 * BLOCK),
        "block 5 can't go"
    );
    assert_eq!(cache.next_run(), None);
    cache.finish(first, &mut Vec::new());
    assert_eq!(cache.next_run().map(|run| run.offset), Some(5 * BLOCK));
}

#[test]
fn a_full_cache_takes_only_what_it_has_already() {
    let mut cache = cache(2);
    assert!(cache.take(0, BLOCK) && cache.take(BLOCK, BLOCK));
    assert!(!cache.take(2 * BLOCK, BLOCK), "no room");
    assert!(cache.take(BLOCK, BLOCK), "written again in place");
    let run = cache.next_run().expect("it is dirty");
    assert_eq!((run.offset, run.bytes), (0, 2 * BLOCK));
    assert!(!cache.take(2 * BLOCK, BLOCK), "what is on its way is still here");
    let mut served = Vec::new();
    cache.finish(run, &mut served);
    assert!(cache.is_empty() && cache.take(2 * BLOCK, BLOCK));
}

#[test]
fn a_write_through_goes_before_the_others_and_is_told_once_a_block() {
    let mut cache = cache(1);
    assert!(cache.take(90 * BLOCK, BLOCK));
    assert_eq!(cache.take_through(5 * BLOCK - 512, 1024, 7), 2);
    let run = cache.next_urgent().expect("somebody waits");
    assert_eq!(
        (run.offset, run.bytes),
        (5 * BLOCK - 512, 1024),
        "both blocks in one write"
    );
    let mut served = Vec::new();
    cache.finish(run, &mut served);
    assert_eq!(served, [7, 7]);
}

#[test]
fn what_is_kept_waits_for_neighbours() {
    let mut cache = Cache::new(8 * BLOCK, BLOCK, 4 * BLOCK, 500, Destaging::Elevator);
    for block in [2, 0, 3, 1] {
        assert!(
            cache.take(block * BLOCK, BLOCK) && cache.next_run().is_none(),
            "half of it may stay"
        );
    }
    assert!(cache.take(20 * BLOCK, BLOCK));
    let run = cache.next_run().expect("more than half is dirty");
    assert_eq!((run.offset, run.bytes), (0, 4 * BLOCK), "all of the neighbours at once");
    assert!(cache.next_run().is_none(), "what is on its way is no longer counted");
}
