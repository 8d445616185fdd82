//! The clustered index, with exact counts: each leaf's rows, its interval of the key space, and its splits.
//!
//! Keys are uniform random numbers, and only their place in the key space matters. The rows of a leaf are uniform in
//! its interval, however they were inserted. So the model keeps a count and an interval, and no rows. A full leaf
//! splits in half at the median of its rows. This median is drawn from the beta distribution of the middle order
//! statistic. The leaves are then as full as in a B-tree, about ln 2 on average (A. C. Yao, "On random 2-3 trees", Acta
//! Informatica 9, 1978), and their intervals have unequal widths, as in a real index.
//!
//! A table of equal cells of the key space, one or two per leaf, leads from a key to its leaf. Each cell contains the
//! leaf in which the cell begins. From that leaf, the search sometimes has to go further to the right.

use super::geometry::ROWS_PER_PAGE;
use super::leaf::{Leaf, State, flag};
use crate::hint::rare;
use crate::rng::Rng;

/// All leaves of the index, and how many of them are dirty.
#[derive(Debug)]
pub struct Tree {
    /// The states by leaf number, including those of pages that are not leaves.
    states: Vec<State>,
    /// The first key of each leaf's interval. Only a split needs it.
    lows: Vec<u32>,
    /// The leaf to the right of each, or [`Leaf::NONE`].
    nexts: Vec<Leaf>,
    /// The number of leaves among these pages.
    leaves: u32,
    dirty: u64,
    root: Leaf,
    /// The leaf at the right edge.
    last: Leaf,
    /// For each cell, the leaf that contains the cell's first key.
    cells: Vec<Leaf>,
    shift: u32,
    medians: Medians,
    rng: Rng,
}

impl Tree {
    /// Makes an index of one empty leaf, `root`, in memory. It reserves room for about `leaves` leaves. `rng` decides
    /// where leaves split.
    #[must_use]
    pub fn new(root: Leaf, leaves: usize, rng: Rng) -> Self {
        let mut tree = Self {
            states: Vec::with_capacity(leaves),
            lows: Vec::with_capacity(leaves),
            nexts: Vec::with_capacity(leaves),
            leaves: 0,
            dirty: 0,
            root,
            last: root,
            cells: vec![root; 16],
            shift: 28,
            medians: Medians::new(),
            rng,
        };
        tree.put(root, 0, Leaf::NONE, State::leaf(u32::MAX, 0, 0));
        tree
    }

    /// Adds a leaf whose interval begins at `low`, to the left of `next`.
    fn put(&mut self, leaf: Leaf, low: u32, next: Leaf, state: State) {
        let place = leaf.index();
        if place >= self.states.len() {
            self.states.resize(place + 1, State::NONE);
            self.lows.resize(place + 1, 0);
            self.nexts.resize(place + 1, Leaf::NONE);
        }
        self.states[place] = state;
        self.lows[place] = low;
        self.nexts[place] = next;
        self.leaves += 1;
    }

    /// Adds leaf `right`, in memory and dirty, to the right of `left`. Leaf `left` becomes dirty too.
    fn put_beside(&mut self, left: Leaf, right: Leaf, low: u32, high: u32, rows: u8) {
        let next = std::mem::replace(&mut self.nexts[left.index()], right);
        self.change(left);
        self.dirty += 1;
        self.put(
            right,
            low,
            next,
            State::leaf(high, rows, flag::DIRTY | flag::REFERENCED),
        );
        if next == Leaf::NONE {
            self.last = right;
        }
    }

    /// Returns the state of a leaf's page.
    #[must_use]
    #[inline]
    pub fn state(&self, leaf: Leaf) -> &State {
        &self.states[leaf.index()]
    }

    /// Returns the state of a leaf's page, so that the caller can change it.
    #[inline]
    pub(super) fn state_mut(&mut self, leaf: Leaf) -> &mut State {
        &mut self.states[leaf.index()]
    }

    /// Returns all leaves with their states.
    pub fn states(&self) -> impl Iterator<Item = (Leaf, &State)> {
        let leaves = (0..).map(Leaf::new).zip(&self.states);
        leaves.filter(|(_, state)| state.is_leaf())
    }

    /// The number of leaf numbers in use, including those of pages that are not leaves.
    #[must_use]
    pub fn numbers(&self) -> usize {
        self.states.len()
    }

    /// The number of dirty leaves.
    #[must_use]
    pub const fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Records that a leaf's page is changed.
    pub fn change(&mut self, leaf: Leaf) {
        self.dirty += u64::from(self.states[leaf.index()].change());
    }

    /// Puts one more row into a leaf.
    #[inline]
    pub fn insert_row(&mut self, leaf: Leaf) {
        let state = &mut self.states[leaf.index()];
        state.insert_row();
        self.dirty += u64::from(state.change());
    }

    /// Begins a write of a leaf's page if the leaf exists, is dirty and is not in use. Returns whether it did.
    #[inline]
    pub fn begin_write(&mut self, leaf: Leaf) -> bool {
        // Some pages of an extent may have no leaf yet.
        let begins = self.states.get_mut(leaf.index()).is_some_and(State::begin_write);
        self.dirty -= u64::from(begins);
        begins
    }

    /// Ends all writes in progress. No worker waits for them any more.
    pub(super) fn end_writes(&mut self) {
        for state in &mut self.states {
            state.end_write();
        }
    }

    /// Returns the leaf in which the cell for `key` begins. Now and later, it is the leaf for `key` or is to its left.
    #[must_use]
    #[inline]
    pub fn cell(&self, key: u32) -> Leaf {
        self.cells[(key >> self.shift) as usize]
    }

    /// Returns the leaf for `key`, which must be `leaf` or to its right. A split does not change that, because it does
    /// not move the beginning of a leaf.
    #[must_use]
    #[inline]
    pub fn find_from(&self, mut leaf: Leaf, key: u32) -> Leaf {
        while self.states[leaf.index()].high < key {
            leaf = self.nexts[leaf.index()];
        }
        leaf
    }

    /// Like [`Tree::find_from`], for a `leaf` that was found before and has hardly ever been split since.
    #[inline(always)]
    pub(super) fn find_again(&self, leaf: Leaf, key: u32) -> Leaf {
        if rare(self.states[leaf.index()].high < key) {
            return self.find_from(self.nexts[leaf.index()], key);
        }
        leaf
    }

    /// Reads the state of a leaf into the processor's cache, if the leaf exists.
    #[must_use]
    #[inline]
    pub fn touch_state(&self, leaf: Leaf) -> u32 {
        self.states.get(leaf.index()).map_or(0, |state| state.high)
    }

    /// Splits a full leaf to make room for one more row. The upper half of its rows moves to a new leaf, `right`.
    ///
    /// # Panics
    /// Panics if the leaf is not full.
    pub fn split(&mut self, left: Leaf, right: Leaf) {
        let low = self.lows[left.index()];
        let old = self.states[left.index()];
        assert!(old.is_full(), "only a full leaf splits");
        let width = u64::from(old.high - low) + 1;
        let at = (width * u64::from(self.medians.draw(&mut self.rng))) >> 32;
        #[expect(clippy::cast_possible_truncation, reason = "a part of an interval of 32 bits")]
        let middle = low + at.clamp(1, width.max(2) - 1) as u32;
        self.states[left.index()].halve(middle - 1);
        self.put_beside(left, right, middle, old.high.max(middle), ROWS_PER_PAGE / 2);
        self.redirect(middle, old.high, right);
        if self.cells.len() < self.leaves as usize && self.shift > 0 {
            self.refine();
        }
    }

    /// Returns the leaf at the right edge, where ascending keys are inserted.
    #[must_use]
    pub const fn last(&self) -> Leaf {
        self.last
    }

    /// Adds leaf `right` with one row at the right edge, for keys that ascend one by one. In such a tree a search is
    /// slow, because no cell leads to new leaves. Code that appends rows calls [`Tree::last`] instead.
    pub fn append(&mut self, right: Leaf) {
        let low = self.len();
        self.states[self.last.index()].high = low - 1;
        self.put_beside(self.last, right, low, u32::MAX, 1);
    }

    /// Sets `leaf` in all cells that begin in the interval.
    fn redirect(&mut self, low: u32, high: u32, leaf: Leaf) {
        let first = (u64::from(low) + (1 << self.shift) - 1) >> self.shift;
        let last = u64::from(high >> self.shift);
        for cell in first..=last {
            self.cells[usize::try_from(cell).expect("fewer than 2^32 cells")] = leaf;
        }
    }

    /// Divides each cell in two.
    fn refine(&mut self) {
        self.shift -= 1;
        let mut cells = vec![Leaf::NONE; 1 << (32 - self.shift)];
        let mut leaf = self.root;
        for (cell, entry) in (0_u32..).zip(&mut cells) {
            leaf = self.find_from(leaf, cell << self.shift);
            *entry = leaf;
        }
        self.cells = cells;
    }

    /// The number of rows in all leaves.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.states().map(|(_, state)| u64::from(state.rows())).sum()
    }

    /// The number of leaves.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.leaves
    }

    /// Checks the chain of leaves and the counts.
    ///
    /// # Errors
    /// Returns the first rule that is broken.
    pub fn check(&self) -> Result<(), String> {
        let (mut leaf, mut seen, mut low) = (self.root, 0_u64, 0_u64);
        while leaf != Leaf::NONE {
            let State { high, .. } = *self.state(leaf);
            let own = self.lows[leaf.index()];
            if u64::from(own) != low || high < own {
                return Err(format!(
                    "leaf {leaf} covers {own} to {high}, the one before ends at {low}"
                ));
            }
            low = u64::from(high) + 1;
            seen += 1;
            leaf = self.nexts[leaf.index()];
        }
        let all = u64::from(self.leaves);
        if seen != all || low != 1 << 32 {
            return Err(format!("{seen} of {all} leaves are in the chain, which ends at {low}"));
        }
        let dirty = self.states().filter(|(_, state)| state.is(flag::DIRTY)).count() as u64;
        if dirty != self.dirty {
            return Err(format!("{dirty} leaves are dirty, {} counted", self.dirty));
        }
        Ok(())
    }
}

/// Draws the median of a page's rows, as a fraction of 2^32, with the inverse of its distribution function.
#[derive(Debug)]
struct Medians {
    quantiles: Vec<u32>,
}

impl Medians {
    /// A draw picks one of 2^10 steps between quantiles, and one of 2^22 places within the step.
    const STEP_BITS: u32 = 10;
    const STEPS: usize = 1 << Self::STEP_BITS;
    /// The distribution function is summed over a grid of 2^14 cells.
    const GRID_BITS: u32 = 14;

    fn new() -> Self {
        let mut quantiles = Self::inner_quantiles();
        // The first and the last step are the distribution's tails. Straight lines to 0 and 1 would make them too long.
        let tail = quantiles[1] / 8;
        quantiles[0] = quantiles[1] - tail;
        quantiles[Self::STEPS] = quantiles[Self::STEPS - 1] + tail;
        Self { quantiles }
    }

    /// Returns the quantiles of the 26th of 51 uniform numbers. Its density is in proportion to x^25 (1 - x)^25. The
    /// first quantile is 0 and the last is 1. [`Medians::new`] replaces both.
    fn inner_quantiles() -> Vec<u32> {
        let grid = 1 << Self::GRID_BITS;
        let density = |cell: u32| {
            let x = (f64::from(cell) + 0.5) / f64::from(grid);
            // Only multiplications, because their results are the same on every machine. 4x(1-x) is at most 1.
            (0..ROWS_PER_PAGE / 2).fold(1.0, |product, _| product * (4.0 * x * (1.0 - x)))
        };
        let total: f64 = (0..grid).map(density).sum();
        let mut quantiles = vec![0];
        let mut below = 0.0;
        for cell in 0..grid {
            below += density(cell) / total;
            while quantiles.len() < Self::STEPS && below * in_float(Self::STEPS) >= in_float(quantiles.len()) {
                quantiles.push((cell + 1) << (32 - Self::GRID_BITS));
            }
        }
        quantiles.resize(Self::STEPS + 1, u32::MAX);
        quantiles
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a place within a step is less than the step"
    )]
    fn draw(&self, rng: &mut Rng) -> u32 {
        const PLACE_BITS: u32 = 32 - Medians::STEP_BITS;
        let word = rng.next_u64();
        let step = (word >> (64 - Self::STEP_BITS)) as usize;
        let place = word & ((1 << PLACE_BITS) - 1);
        let (low, high) = (self.quantiles[step], self.quantiles[step + 1]);
        low + ((u64::from(high - low) * place) >> PLACE_BITS) as u32
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
const fn in_float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tree {
        /// Returns the leaf for `key`. Sessions look it up earlier.
        fn find(&self, key: u32) -> Leaf {
            self.find_from(self.cell(key), key)
        }
    }

    fn grown(rows: u32, seed: u64) -> Tree {
        let mut tree = Tree::new(Leaf::new(0), 0, Rng::stream(seed, "splits"));
        let mut rng = Rng::stream(seed, "keys");
        for _ in 0..rows {
            let key = (rng.next_u64() >> 32) as u32;
            let mut leaf = tree.find(key);
            if tree.state(leaf).is_full() {
                tree.split(leaf, Leaf::new(tree.len()));
                leaf = tree.find(key);
            }
            tree.insert_row(leaf);
        }
        tree
    }

    #[test]
    fn random_inserts_leave_pages_ln_2_full() {
        let tree = grown(2_500_000, 1);
        let fill = 2_500_000.0 / f64::from(tree.len()) / f64::from(ROWS_PER_PAGE);
        assert!((fill - std::f64::consts::LN_2).abs() < 0.012, "leaves are {fill} full");
    }

    #[test]
    fn a_hundred_and_sixty_million_rows_take_about_37_gigabytes() {
        let tree = grown(160_000_000 / 64, 3);
        let bytes = f64::from(tree.len()) * 64.0 * 8192.0 * (1.0 + 1.0 / 224.0);
        assert!((bytes / 37e9 - 1.0).abs() < 0.04, "{bytes} bytes");
    }

    #[test]
    fn no_row_and_no_key_is_lost() {
        for (rows, seed) in [(1, 1), (50, 2), (51, 3), (1000, 4), (100_000, 5)] {
            let tree = grown(rows, seed);
            assert_eq!(tree.rows(), u64::from(rows));
            assert_eq!(tree.check(), Ok(()));
        }
    }

    #[test]
    fn ascending_rows_make_a_leaf_each_at_the_right_edge() {
        let mut tree = Tree::new(Leaf::new(3), 0, Rng::stream(1, "splits"));
        tree.insert_row(Leaf::new(3));
        for leaf in [8, 9, 2].map(Leaf::new) {
            tree.append(leaf);
            assert_eq!(tree.last(), leaf);
        }
        assert_eq!((tree.rows(), tree.len(), tree.check()), (4, 4, Ok(())));
        assert_eq!(
            [0, 1, 2, 3, u32::MAX].map(|key| tree.find(key).number()),
            [3, 8, 9, 2, 2]
        );
    }

    #[test]
    fn every_key_finds_the_leaf_whose_interval_it_is_in() {
        let tree = grown(30_000, 9);
        let mut rng = Rng::stream(1, "probes");
        for _ in 0..10_000 {
            let key = (rng.next_u64() >> 32) as u32;
            let leaf = tree.find(key).index();
            assert!((tree.lows[leaf]..=tree.states[leaf].high).contains(&key));
        }
    }

    #[test]
    fn medians_spread_as_the_middle_one_of_51() {
        let medians = Medians::new();
        let mut rng = Rng::stream(1, "medians");
        let draws: Vec<f64> = (0..100_000)
            .map(|_| f64::from(medians.draw(&mut rng)) / 4_294_967_296.0)
            .collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|draw| (draw - mean) * (draw - mean)).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.001, "mean {mean}");
        // The beta distribution of 26 and 26 has the variance 1 / (4 * 53).
        assert!((variance * 212.0 - 1.0).abs() < 0.02, "variance {variance}");
    }
}
