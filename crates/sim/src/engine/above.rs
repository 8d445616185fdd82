//! The index pages above the leaves: their number, and the latches of those that are split.

use std::cell::Cell;

use super::resource::Page;
use crate::sqlos::{Hold, Latch, LatchClass, Mode, Sqlos};

/// The levels of the index above the leaves. Splits of the root are too rare to matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Parent,
    Grandparent,
}

/// The pages of one level.
#[derive(Debug)]
struct Pages {
    /// The number of pages.
    count: Cell<u64>,
    /// The number of their latches that are held or requested in exclusive mode.
    latched: Cell<u32>,
}

/// The pages of both levels. Their number is that of the life-size table, so that there is as much contention for a
/// latch. The key space is divided equally among the pages.
#[derive(Debug)]
pub(super) struct Above<'w> {
    os: &'w Sqlos,
    /// Entries per page.
    fanout: u64,
    scale: u32,
    levels: [Pages; 2],
}

impl<'w> Above<'w> {
    /// Makes the pages above an empty table, in a world `scale` times smaller.
    pub(super) fn new(os: &'w Sqlos, fanout: u64, scale: u32) -> Self {
        let one = || Pages {
            count: Cell::new(1),
            latched: Cell::new(0),
        };
        Self {
            os,
            fanout,
            scale,
            levels: [one(), one()],
        }
    }

    /// Returns the latch of the page above the leaf for `key`.
    #[inline]
    fn latch_of(&self, key: u32, level: Level) -> Latch<'w> {
        let page = (u64::from(key) * self.levels[level as usize].count.get()) >> 32;
        self.os.latch(Page::Above(level, page).key(), LatchClass::Page)
    }

    /// Updates the numbers of pages for a new number of leaves.
    pub(super) fn count(&self, leaves: u32) {
        let mut pages = u64::from(leaves) * u64::from(self.scale);
        for level in &self.levels {
            pages /= self.fanout;
            level.count.set(pages.max(1));
        }
    }

    /// The number of latches that are held or requested in exclusive mode.
    #[inline]
    pub(super) fn latched(&self) -> u32 {
        self.levels[0].latched.get() + self.levels[1].latched.get()
    }

    /// Returns the first latch on the path to `key` that a reader must wait for, if there is one.
    #[inline(always)]
    pub(super) fn barred(&self, key: u32) -> Option<Latch<'w>> {
        if self.latched() == 0 {
            None
        } else {
            self.first_barred(key)
        }
    }

    fn first_barred(&self, key: u32) -> Option<Latch<'w>> {
        let levels = [Level::Grandparent, Level::Parent].into_iter();
        let latched = levels.filter(|&level| self.levels[level as usize].latched.get() > 0);
        latched
            .map(|level| self.latch_of(key, level))
            .find(|latch| latch.is_barred(Mode::Sh))
    }

    /// Latches the page above the leaf for `key` exclusively. [`Above::release`] releases it.
    pub(super) async fn acquire(&self, key: u32, level: Level) -> Hold<'w> {
        let latched = &self.levels[level as usize].latched;
        latched.set(latched.get() + 1);
        self.latch_of(key, level).acquire(Mode::Ex).await
    }

    /// Releases a page.
    pub(super) fn release(&self, hold: Hold<'w>, level: Level) {
        hold.release();
        let latched = &self.levels[level as usize].latched;
        latched.set(latched.get() - 1);
    }
}
