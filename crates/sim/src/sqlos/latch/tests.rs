//! The table of latches against a plain model.

use std::collections::BTreeMap;

use super::*;
use crate::rng::Rng;

/// Hundreds of latches come and go, many of them at homes of others; the reference is a tree.
#[test]
fn the_table_finds_every_latch_that_is_held_and_no_other() {
    let mut rng = Rng::stream(1, "latches");
    let mut table = LatchTable::default();
    let mut model = BTreeMap::new();
    for step in 0..40_000_u32 {
        let most = if step < 20_000 { 700 } else { 20 };
        let key = rng.below(2_000);
        if model.contains_key(&key) || model.len() >= most {
            let key = *model
                .range(key..)
                .next()
                .or_else(|| model.iter().next())
                .expect("held")
                .0;
            model.remove(&key);
            let place = table.place(key);
            table.latches[place].ungrant(Mode::Ex);
            table.free(place);
        } else {
            model.insert(key, step);
            assert!(table.try_acquire(key, Mode::Ex, step).is_none());
        }
        let probe = rng.below(2_000);
        assert_eq!(table.owner(probe), model.get(&probe).copied().map(ProcessId));
        assert_eq!(table.len(), model.len());
    }
    for key in 0..2_000 {
        assert_eq!(table.modes_held(key) != 0, model.contains_key(&key));
    }
}
