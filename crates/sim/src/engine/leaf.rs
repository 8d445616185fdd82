//! A leaf of the index: its number, and the state of its page.

use super::geometry::ROWS_PER_PAGE;
use crate::sqlos::Mode;

/// The number of a leaf. It determines the position of the leaf's page ([`super::files::Files::page_of`]), so leaves
/// that are neighbours on disk are also neighbours in the index's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Leaf(u32);

impl Leaf {
    /// Stands for no leaf: the end of the chain, or an empty frame.
    pub const NONE: Self = Self(u32::MAX);

    /// Leaf `number`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Its index in a table of all leaves.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for Leaf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The state of a leaf's page, as bits.
pub mod flag {
    /// Changed since it was last written.
    pub const DIRTY: u8 = 1;
    /// Used since the clock's hand last passed it.
    pub const REFERENCED: u8 = 1 << 1;
    /// Not in memory.
    pub const ABSENT: u8 = 1 << 2;
    /// Being read.
    pub const READING: u8 = 1 << 3;
    /// Being written.
    pub const WRITING: u8 = 1 << 4;
    /// Latched by a worker that splits it.
    pub const SPLITTING: u8 = 1 << 5;
    /// A new page without a frame yet. Workers wait for it as for a page in a read, but no read is made.
    pub const NEW: u8 = 1 << 6;
    /// The I/O holds the page's latch, because a worker waits. If no worker waits, the other bits suffice.
    pub const LATCHED: u8 = 1 << 7;
    /// The states in which no row can be inserted.
    pub const BUSY: u8 = ABSENT | READING | WRITING | SPLITTING;
    /// The states in which no row can be read. A page can be read during its write, unless a worker already waits to
    /// change it. Later workers queue behind that worker.
    pub const UNREADABLE: u8 = ABSENT | READING | SPLITTING | LATCHED;
    /// The states in which the page is in an I/O.
    pub const IN_IO: u8 = READING | WRITING;
}

/// The state of a leaf's page. It has only 8 bytes, so that many states fit into the processor's cache.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The last key of the leaf's interval. Its first key follows the last key of the leaf to its left.
    pub(super) high: u32,
    /// The number of workers that wait for the page, or that waited for it and still use it.
    waiters: u16,
    /// The number of its rows; [`NO_ROWS`] for a page that is no leaf.
    rows: u8,
    /// See [`flag`].
    flags: u8,
}

const _: () = assert!(size_of::<State>() == 8);

/// More rows than fit on a page.
const NO_ROWS: u8 = u8::MAX;

impl State {
    /// The state of a page that is no leaf, or is no leaf yet.
    pub(super) const NONE: Self = Self {
        high: 0,
        waiters: 0,
        rows: NO_ROWS,
        flags: 0,
    };

    /// The state of a leaf in memory whose last key is `high`.
    pub(super) const fn leaf(high: u32, rows: u8, flags: u8) -> Self {
        Self {
            high,
            waiters: 0,
            rows,
            flags,
        }
    }

    /// Whether the page is a leaf.
    #[must_use]
    pub const fn is_leaf(&self) -> bool {
        self.rows != NO_ROWS
    }

    /// Whether any of these flags is set.
    #[must_use]
    pub const fn is(&self, any_of: u8) -> bool {
        self.flags & any_of != 0
    }

    /// How many rows are in it.
    #[must_use]
    pub const fn rows(&self) -> u8 {
        self.rows
    }

    /// Whether the page is full, so that one more row needs another page.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.rows >= ROWS_PER_PAGE
    }

    /// Whether a worker waits for the page.
    #[must_use]
    pub const fn is_awaited(&self) -> bool {
        self.waiters > 0
    }

    /// Marks the page as used.
    pub(super) const fn refer(&mut self) {
        self.flags |= flag::REFERENCED;
    }

    /// Records that one more worker waits for the page.
    pub(super) const fn begin_wait(&mut self) {
        self.waiters += 1;
    }

    /// Records that a worker that had waited no longer uses the page.
    pub(super) const fn end_wait(&mut self) {
        self.waiters -= 1;
    }

    /// Records that one more worker waits, because it can't use `mode` now. Returns whether the page is in an I/O. If
    /// the I/O has no latch yet, also returns the mode in which the I/O must now latch the page.
    pub(super) const fn begin_latched_wait(&mut self, mode: Mode) -> (bool, Option<Mode>) {
        self.waiters += 1;
        let io_mode = match self.flags & (flag::IN_IO | flag::LATCHED) {
            flag::READING => Some(Mode::Ex),
            flag::WRITING if matches!(mode, Mode::Ex) => Some(Mode::Sh),
            _ => None,
        };
        if io_mode.is_some() {
            self.flags |= flag::LATCHED;
        }
        (self.is(flag::IN_IO), io_mode)
    }

    /// Marks the page as being read. It must be absent.
    pub(super) fn begin_read(&mut self) {
        debug_assert_eq!(self.flags & flag::BUSY, flag::ABSENT, "only an absent leaf is read");
        self.flags = flag::READING | flag::REFERENCED;
    }

    /// Marks the page as new, while a worker waits for a frame for it.
    pub(super) const fn begin_frame(&mut self) {
        self.flags |= flag::READING | flag::NEW;
        self.waiters += 1;
    }

    /// Records that the page is in its frame now. A new page is dirty. Returns whether it was latched.
    pub(super) const fn arrive(&mut self) -> bool {
        let latched = self.is(flag::LATCHED);
        let changed = if self.is(flag::NEW) { flag::DIRTY } else { 0 };
        self.flags = changed | flag::REFERENCED;
        latched
    }

    /// Records that the page's write is done. Returns whether it was latched.
    pub(super) const fn end_write(&mut self) -> bool {
        let latched = self.is(flag::LATCHED);
        self.flags &= !(flag::WRITING | flag::LATCHED);
        latched
    }

    /// Records that a worker splits the page, or links its right neighbour.
    pub(super) const fn begin_split(&mut self) {
        self.flags |= flag::SPLITTING | flag::REFERENCED;
    }

    /// Records that this worker is done.
    pub(super) const fn end_split(&mut self) {
        self.flags &= !flag::SPLITTING;
    }

    /// Records that the clock's hand passes. Returns whether the page may be evicted, and clears its mark of use.
    pub(super) const fn pass(&mut self) -> bool {
        if self.is(flag::BUSY) || self.is_awaited() {
            return false;
        }
        let referenced = self.is(flag::REFERENCED);
        self.flags &= !flag::REFERENCED;
        !referenced
    }

    /// Evicts the page if it is clean and unused. Returns whether it did.
    pub(super) const fn let_go(&mut self) -> bool {
        if self.is_awaited() || self.is(flag::DIRTY | flag::REFERENCED | flag::BUSY) {
            return false;
        }
        self.flags = flag::ABSENT;
        true
    }

    /// Begins a write of the page if it is dirty and not in use. Returns whether it did. See
    /// [`super::tree::Tree::begin_write`].
    pub(super) const fn begin_write(&mut self) -> bool {
        if self.flags & (flag::BUSY | flag::DIRTY) != flag::DIRTY || self.is_awaited() {
            return false;
        }
        self.flags = self.flags & !flag::DIRTY | flag::WRITING;
        true
    }

    /// Records that the page is changed. Returns whether it was clean. See [`super::tree::Tree::change`].
    pub(super) const fn change(&mut self) -> bool {
        let was_clean = !self.is(flag::DIRTY);
        self.flags |= flag::DIRTY;
        was_clean
    }

    /// Records one more row. See [`super::tree::Tree::insert_row`].
    pub(super) const fn insert_row(&mut self) {
        self.rows += 1;
        self.flags |= flag::REFERENCED;
    }

    /// Records that half of the rows moved to another leaf, and that `high` is the last key now.
    pub(super) const fn halve(&mut self, high: u32) {
        self.rows -= ROWS_PER_PAGE / 2;
        self.high = high;
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} waiters and flags {:#b}", self.waiters, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_leaves_memory_once_it_is_clean_unused_and_not_awaited() {
        let mut state = State::leaf(9, 3, flag::DIRTY | flag::REFERENCED);
        assert!(!state.pass(), "it was used since the hand last passed");
        assert!(state.pass() && !state.let_go(), "it is dirty");
        assert!(state.begin_write() && !state.begin_write(), "one write at a time");
        assert!(!state.pass(), "it is in use");
        assert!(!state.change() || state.is(flag::DIRTY));
        assert!(
            !state.end_write() && !state.let_go(),
            "it was changed while it was written"
        );
        assert!(state.begin_write() && !state.end_write());
        state.begin_wait();
        assert!(!state.let_go() && !state.pass());
        state.end_wait();
        assert!(state.let_go() && state.is(flag::ABSENT));
    }

    #[test]
    fn the_first_to_wait_for_an_io_takes_its_latch_and_readers_pass_a_write() {
        let mut state = State::leaf(9, 3, flag::WRITING);
        assert_eq!(state.begin_latched_wait(Mode::Sh), (true, None));
        assert_eq!(state.begin_latched_wait(Mode::Ex), (true, Some(Mode::Sh)));
        assert_eq!(
            state.begin_latched_wait(Mode::Ex),
            (true, None),
            "it is latched already"
        );
        assert!(state.is(flag::UNREADABLE) && state.end_write());
        let mut state = State::leaf(9, 3, flag::READING);
        assert_eq!(state.begin_latched_wait(Mode::Sh), (true, Some(Mode::Ex)));
        assert!(state.arrive() && !state.is(flag::DIRTY));
    }
}
