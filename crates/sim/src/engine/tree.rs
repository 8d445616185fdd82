//! The clustered index, exact in what it counts: how many rows each leaf has, where in the key space it lies, how it splits.
//!
//! Keys are uniform random numbers, of which only the place in the key space matters. Given a leaf's interval its rows lie
//! uniformly in it, however they came there, so rows needn't be kept: a count and an interval are enough. A full leaf splits
//! half and half, at the median of its rows, and that is a draw from the beta distribution of the middle order statistic.
//! What comes out is a B-tree's own distribution of fills, about ln 2 full on average (A. C. Yao, "On random 2-3 trees", Acta
//! Informatica 9, 1978), and leaves of unequal width, as in a real index.
//!
//! A key finds its leaf through a table of equal cells of the key space, one to two a leaf, each with the leaf in which it begins;
//! from there it is a step to the right now and then.

use super::geometry::ROWS_PER_PAGE;
use crate::hint::rare;
use crate::rng::Rng;

/// No leaf: the end of the chain, or an empty frame.
pub const NO_LEAF: u32 = u32::MAX;

/// What a leaf's page is doing, as bits of [`State::flags`].
pub mod flag {
    /// Changed since it was last written.
    pub const DIRTY: u8 = 1;
    /// Used since the clock's hand last passed.
    pub const REFERENCED: u8 = 1 << 1;
    /// Not in memory.
    pub const ABSENT: u8 = 1 << 2;
    /// Being read.
    pub const READING: u8 = 1 << 3;
    /// Being written.
    pub const WRITING: u8 = 1 << 4;
    /// Latched by a worker that splits it.
    pub const SPLITTING: u8 = 1 << 5;
    /// A new page for which there is no frame yet; it waits like one that is read, but nothing is read.
    pub const NEW: u8 = 1 << 6;
    /// The I/O it is in holds its latch, as somebody waits. Where nobody does, the other bits say as much for less.
    pub const LATCHED: u8 = 1 << 7;
    /// Any of the reasons why a row can't go in just now.
    pub const BUSY: u8 = ABSENT | READING | WRITING | SPLITTING;
    /// Any of the reasons why a row can't be read just now. A page that is written can be read, unless somebody already waits to
    /// change it: who comes later stands behind.
    pub const UNREADABLE: u8 = ABSENT | READING | SPLITTING | LATCHED;
    /// In an I/O.
    pub const IN_IO: u8 = READING | WRITING;
}

/// What is asked of a leaf page all the time, in 8 bytes: all leaves lie close together in the processor's cache then.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The last key of its interval; the first follows the last of the leaf to its left.
    high: u32,
    /// Workers that wait for it, or were let in after a wait and have not gone yet.
    pub waiters: u16,
    /// Rows in it; [`NO_ROWS`] for a page that is no leaf.
    pub rows: u8,
    /// See [`flag`].
    pub flags: u8,
}

const _: () = assert!(size_of::<State>() == 8);

/// More than fit on a page.
const NO_ROWS: u8 = u8::MAX;

impl State {
    /// A page that is no leaf, or not yet.
    const NONE: Self = Self {
        high: 0,
        waiters: 0,
        rows: NO_ROWS,
        flags: 0,
    };

    /// Whether there is a leaf.
    #[must_use]
    pub const fn is_leaf(&self) -> bool {
        self.rows != NO_ROWS
    }
}

/// All leaves of the index. A leaf's number says where its page lies ([`super::files::Files::leaf_on`]), so that neighbours on
/// disk are neighbours here.
#[derive(Debug)]
pub struct Tree {
    /// By number, pages that are no leaves included.
    pub states: Vec<State>,
    /// For each the first key of its interval, which only a split needs.
    lows: Vec<u32>,
    /// For each the leaf to its right, or [`NO_LEAF`].
    nexts: Vec<u32>,
    /// How many of them are leaves.
    leaves: u32,
    root: u32,
    /// The leaf at the right edge.
    last: u32,
    /// For each cell the leaf in which its first key lies.
    cells: Vec<u32>,
    shift: u32,
    medians: Medians,
}

impl Tree {
    /// An index of one empty leaf, number `root`, in memory, with room set aside for about `leaves` of them.
    #[must_use]
    pub fn new(root: u32, leaves: usize) -> Self {
        let mut tree = Self {
            states: Vec::with_capacity(leaves),
            lows: Vec::with_capacity(leaves),
            nexts: Vec::with_capacity(leaves),
            leaves: 0,
            root,
            last: root,
            cells: vec![root; 16],
            shift: 28,
            medians: Medians::new(),
        };
        let state = State {
            high: u32::MAX,
            rows: 0,
            ..State::NONE
        };
        tree.put(root, 0, NO_LEAF, state);
        tree
    }

    /// Makes a leaf whose interval begins at `low`, to the left of `next`.
    fn put(&mut self, leaf: u32, low: u32, next: u32, state: State) {
        let place = leaf as usize;
        if place >= self.states.len() {
            self.states.resize(place + 1, State::NONE);
            self.lows.resize(place + 1, 0);
            self.nexts.resize(place + 1, NO_LEAF);
        }
        self.states[place] = state;
        self.lows[place] = low;
        self.nexts[place] = next;
        self.leaves += 1;
    }

    /// The leaf for `key`.
    #[inline]
    #[must_use]
    pub fn find(&self, key: u32) -> u32 {
        self.find_from(self.cell(key), key)
    }

    /// The leaf in which the cell for `key` begins: that for `key` or one on its left, now and later.
    #[inline]
    #[must_use]
    pub fn cell(&self, key: u32) -> u32 {
        self.cells[(key >> self.shift) as usize]
    }

    /// The leaf for `key`, which is `leaf` or on its right. What was so stays so: a split leaves a leaf where it begins.
    #[inline]
    #[must_use]
    pub fn find_from(&self, mut leaf: u32, key: u32) -> u32 {
        while self.states[leaf as usize].high < key {
            leaf = self.nexts[leaf as usize];
        }
        leaf
    }

    /// The same, where `leaf` has been found before, and has hardly ever been split since.
    #[inline(always)]
    pub(super) fn find_again(&self, leaf: u32, key: u32) -> u32 {
        if rare(self.states[leaf as usize].high < key) {
            return self.find_from(self.nexts[leaf as usize], key);
        }
        leaf
    }

    /// Reads what is known of a leaf, if it is one.
    #[inline]
    #[must_use]
    pub fn touch_state(&self, leaf: u32) -> u32 {
        self.states.get(leaf as usize).map_or(0, |state| state.high)
    }

    /// Splits a full leaf to which one more row comes; the upper half goes to a new leaf, number `right`, in memory and changed.
    ///
    /// # Panics
    /// If the leaf is not full.
    pub fn split(&mut self, left: u32, right: u32, rng: &mut Rng) {
        let low = self.lows[left as usize];
        let old_next = std::mem::replace(&mut self.nexts[left as usize], right);
        let first = &mut self.states[left as usize];
        let old = *first;
        assert!(old.rows >= ROWS_PER_PAGE, "only a full leaf splits");
        let width = u64::from(old.high - low) + 1;
        let at = (width * u64::from(self.medians.draw(rng))) >> 32;
        #[expect(clippy::cast_possible_truncation, reason = "a part of an interval of 32 bits")]
        let middle = low + at.clamp(1, width.max(2) - 1) as u32;
        first.rows -= ROWS_PER_PAGE / 2;
        first.high = middle - 1;
        let state = State {
            high: old.high.max(middle),
            rows: ROWS_PER_PAGE / 2,
            flags: flag::DIRTY | flag::REFERENCED,
            ..State::NONE
        };
        self.put(right, middle, old_next, state);
        if old_next == NO_LEAF {
            self.last = right;
        }
        self.redirect(middle, old.high, right);
        if self.cells.len() < self.leaves as usize && self.shift > 0 {
            self.refine();
        }
    }

    /// The leaf at the right edge, where ascending keys go.
    #[must_use]
    pub const fn last(&self) -> u32 {
        self.last
    }

    /// Adds leaf `right` at the right edge with one row in it, in memory and changed, for the next of keys that ascend one by one.
    /// In such a tree [`Tree::find`] is slow, as no cell leads to new leaves: who appends asks [`Tree::last`].
    pub fn append(&mut self, right: u32) {
        let low = self.len();
        let last = &mut self.states[self.last as usize];
        last.high = low - 1;
        self.nexts[self.last as usize] = right;
        let state = State {
            high: u32::MAX,
            rows: 1,
            flags: flag::DIRTY | flag::REFERENCED,
            ..State::NONE
        };
        self.put(right, low, NO_LEAF, state);
        self.last = right;
    }

    /// Cells that begin in the interval now lead to `leaf`.
    fn redirect(&mut self, low: u32, high: u32, leaf: u32) {
        let first = (u64::from(low) + (1 << self.shift) - 1) >> self.shift;
        let last = u64::from(high >> self.shift);
        for cell in first..=last {
            self.cells[usize::try_from(cell).expect("fewer than 2^32 cells")] = leaf;
        }
    }

    /// Makes two cells of each.
    fn refine(&mut self) {
        self.shift -= 1;
        let mut cells = vec![0; 1 << (32 - self.shift)];
        let mut leaf = self.root;
        for (cell, entry) in (0_u64..).zip(&mut cells) {
            let key = cell << self.shift;
            while u64::from(self.states[leaf as usize].high) < key {
                leaf = self.nexts[leaf as usize];
            }
            *entry = leaf;
        }
        self.cells = cells;
    }

    /// Rows in all leaves together.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let leaves = self.states.iter().filter(|state| state.is_leaf());
        leaves.map(|leaf| u64::from(leaf.rows)).sum()
    }

    /// Leaves so far.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.leaves
    }

    /// Never: there is always a leaf.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Says what is wrong with the chain of leaves, if anything is.
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let (mut leaf, mut seen, mut low) = (self.root, 0_u64, 0_u64);
        while leaf != NO_LEAF {
            let State { high, .. } = self.states[leaf as usize];
            let own = self.lows[leaf as usize];
            if u64::from(own) != low || high < own {
                return Err(format!(
                    "leaf {leaf} covers {own} to {high}, the one before ends at {low}"
                ));
            }
            low = u64::from(high) + 1;
            seen += 1;
            leaf = self.nexts[leaf as usize];
        }
        let all = u64::from(self.leaves);
        if seen != all || low != 1 << 32 {
            return Err(format!("{seen} of {all} leaves are in the chain, which ends at {low}"));
        }
        Ok(())
    }
}

/// Draws from the distribution of the median of a page's rows, as a part of 2^32: by the inverse of its distribution function.
#[derive(Debug)]
struct Medians {
    quantiles: Vec<u32>,
}

impl Medians {
    const STEPS: u32 = 1024;

    /// The boundary is the 26th of 51 uniform numbers: density in proportion to x^25 (1 - x)^25, summed up on a fine grid.
    fn new() -> Self {
        const GRID: u32 = 1 << 14;
        let half = ROWS_PER_PAGE / 2;
        let density = |step: u32| {
            let x = (f64::from(step) + 0.5) / f64::from(GRID);
            // Multiplications only: the same bits on every machine. 4x(1-x) is at most 1.
            (0..half).fold(1.0, |product, _| product * (4.0 * x * (1.0 - x)))
        };
        let total: f64 = (0..GRID).map(density).sum();
        let mut quantiles = vec![0];
        let mut sum = 0.0;
        for step in 0..GRID {
            sum += density(step) / total;
            while quantiles.len() < Self::STEPS as usize && sum * f64::from(Self::STEPS) >= in_float(quantiles.len()) {
                quantiles.push((step + 1) << 18);
            }
        }
        quantiles.resize(Self::STEPS as usize + 1, u32::MAX);
        // The ends of the distribution, which a straight line to 0 and 1 would make too long.
        let ends = quantiles[1] / 2;
        quantiles[0] = quantiles[1] - ends / 4;
        quantiles[Self::STEPS as usize] = quantiles[Self::STEPS as usize - 1] + ends / 4;
        Self { quantiles }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "22 bits of a random word, and a step of 10 bits"
    )]
    fn draw(&self, rng: &mut Rng) -> u32 {
        let word = rng.next_u64();
        let step = (word >> 54) as usize;
        let part = word & 0x3f_ffff;
        let (low, high) = (self.quantiles[step], self.quantiles[step + 1]);
        low + ((u64::from(high - low) * part) >> 22) as u32
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
const fn in_float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(rows: u32, seed: u64) -> Tree {
        let mut tree = Tree::new(0, 0);
        let mut rng = Rng::stream(seed, "keys");
        for _ in 0..rows {
            let key = (rng.next_u64() >> 32) as u32;
            let mut leaf = tree.find(key);
            if tree.states[leaf as usize].rows == ROWS_PER_PAGE {
                tree.split(leaf, tree.len(), &mut rng);
                leaf = tree.find(key);
            }
            tree.states[leaf as usize].rows += 1;
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
        let mut tree = Tree::new(3, 0);
        tree.states[3].rows = 1;
        for leaf in [8, 9, 2] {
            tree.append(leaf);
            assert_eq!(tree.last(), leaf);
        }
        assert_eq!((tree.rows(), tree.len(), tree.check()), (4, 4, Ok(())));
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|key| tree.find(key)), [3, 8, 9, 2, 2]);
    }

    #[test]
    fn every_key_finds_the_leaf_whose_interval_it_is_in() {
        let tree = grown(30_000, 9);
        let mut rng = Rng::stream(1, "probes");
        for _ in 0..10_000 {
            let key = (rng.next_u64() >> 32) as u32;
            let leaf = tree.find(key) as usize;
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
