//! The flash translation layer: the flash page of each logical page, and the garbage collection of blocks.
//!
//! The map is by page. Flash is written at write points, one page after another. When a page is overwritten or trimmed,
//! its old flash page becomes invalid. Garbage collection copies a block's valid pages to a write point and erases the
//! block. *Write amplification* is the number of flash pages programmed per page that the host wrote.
//!
//! The host and the garbage collection have separate write points ([`Streams::Separate`]) or share one. With evenly
//! spread writes this makes no difference. If some pages are written more often than others, separate write points save
//! copies: pages that survived a garbage collection are then not mixed with new pages, which become invalid sooner.
//!
//! Memory: 4 bytes per flash page, 4 bytes per logical page, and 16 to 20 bytes per block.

use super::victims::{Blocks, VictimPolicy};
use crate::hint::{FLASH_PAGES as GROUP, rare, touch};
use serde::{Deserialize, Serialize};

/// The map's value for "no logical page".
pub(super) const NONE: u32 = u32::MAX;

/// A page of the flash, by its number over all blocks. It can hold a logical page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct FlashPage(u32);

impl FlashPage {
    /// The map's value for "no flash page".
    pub(super) const NONE: Self = Self(u32::MAX);

    /// Page `number`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Its index in a table of all flash pages.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Blocks that never hold the host's data: two write points, a free block for each, and one being collected.
pub const UNUSABLE_BLOCKS: u32 = 5;

/// The write points of the host's pages and of the garbage collection's copies.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Streams {
    /// Each has its own write point.
    Separate,
    /// Both use one write point.
    Shared,
}

/// The dimensions of a drive's map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// The number of blocks of the whole drive. Garbage collection collects whole blocks.
    pub blocks: u32,
    /// The number of flash pages in a block: a power of two, at most 32768.
    pub pages_per_block: u32,
    /// The number of pages that the host can address.
    pub logical_pages: u32,
    /// Which block is collected next.
    pub victim: VictimPolicy,
    /// The write point of copies.
    pub streams: Streams,
}

impl Shape {
    /// Checks this shape.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong, for the author of the figures.
    pub fn check(&self) -> Result<(), String> {
        let pages = self.pages_per_block;
        if !pages.is_power_of_two() || pages > 1 << 15 {
            return Err(format!(
                "{pages} pages a block: it must be a power of two, at most 32768"
            ));
        }
        if self.blocks.checked_mul(pages).is_none_or(|all| all == NONE) {
            return Err(format!(
                "{} blocks of {pages} pages: more than 2^32 flash pages",
                self.blocks
            ));
        }
        let needed = self.logical_pages.div_ceil(pages) + UNUSABLE_BLOCKS;
        if self.logical_pages == 0 || self.blocks < needed {
            return Err(format!(
                "{} logical pages need at least {needed} blocks of {pages} pages, but the drive has {}: \
                 make the usable capacity smaller, the raw capacity larger, or the scale smaller",
                self.logical_pages, self.blocks
            ));
        }
        Ok(())
    }

    /// The number of flash pages of the whole drive.
    #[must_use]
    pub fn flash_pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }

    fn shift(&self) -> u32 {
        self.pages_per_block.trailing_zeros()
    }
}

/// Receives the map's operations on the flash, so that time can be charged for them.
pub trait Observer {
    /// Garbage collection copied a page.
    fn moved(&mut self, from: FlashPage, to: FlashPage);
    /// A block was erased.
    fn erased(&mut self, block: u32);
}

/// For callers that need no times.
impl Observer for () {
    fn moved(&mut self, _from: FlashPage, _to: FlashPage) {}
    fn erased(&mut self, _block: u32) {}
}

/// Counters since the drive was made, in pages and blocks. A format does not reset them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FtlCounters {
    /// Pages written by the host.
    pub host_pages: u64,
    /// Pages copied by garbage collection.
    pub moved_pages: u64,
    /// Blocks erased by garbage collection.
    pub erased_blocks: u64,
    /// Pages that held data and were trimmed.
    pub trimmed_pages: u64,
}

impl FtlCounters {
    /// Returns the increase of each counter since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_pages: self.host_pages - earlier.host_pages,
            moved_pages: self.moved_pages - earlier.moved_pages,
            erased_blocks: self.erased_blocks - earlier.erased_blocks,
            trimmed_pages: self.trimmed_pages - earlier.trimmed_pages,
        }
    }

    /// Returns the flash pages programmed per page that the host wrote. It is 1 if the host wrote none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn write_amplification(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        (self.host_pages + self.moved_pages) as f64 / self.host_pages as f64
    }
}

/// The open block of a write point: its next flash page, and the end of its pages. If equal, no block is open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct WritePoint {
    pub(super) next: u32,
    pub(super) end: u32,
}

impl WritePoint {
    /// The number of pages that can still be written to the open block.
    fn room(self) -> usize {
        (self.end - self.next) as usize
    }
}

/// The index of the host's write point. The garbage collection's has the next index.
const HOST: usize = 0;

/// The map of one drive.
#[derive(Clone, Debug)]
pub struct Ftl {
    pub(super) shape: Shape,
    shift: u32,
    copy_point: usize,
    /// The flash page that holds each logical page, or `FlashPage::NONE`.
    pub(super) flash_of: Vec<FlashPage>,
    /// For each flash page, the logical page that was last written to it, or `NONE`. The flash page is valid only if
    /// `flash_of` agrees. A page that becomes invalid is not marked here, because each write would then have to access
    /// a distant place in memory.
    pub(super) logical_of: Vec<u32>,
    /// Erased blocks. The last one in the list is used first.
    pub(super) free: Vec<u32>,
    pub(super) blocks: Blocks,
    pub(super) points: [WritePoint; 2],
    pub(super) mapped: u32,
    pub(super) counters: FtlCounters,
    /// The number of the next blocks to collect that were prefetched. Only the speed depends on it.
    looked_at: usize,
}

impl Ftl {
    /// Makes a drive on which every address is free and every block is erased.
    ///
    /// # Errors
    /// Returns what [`Shape::check`] refuses.
    pub fn new(shape: Shape) -> Result<Self, String> {
        shape.check()?;
        Ok(Self {
            shape,
            shift: shape.shift(),
            copy_point: usize::from(shape.streams == Streams::Separate),
            flash_of: vec![FlashPage::NONE; shape.logical_pages as usize],
            logical_of: vec![NONE; shape.flash_pages() as usize],
            free: (0..shape.blocks).rev().collect(),
            blocks: Blocks::new(shape.victim, shape.blocks, shape.pages_per_block),
            points: [WritePoint::default(); 2],
            mapped: 0,
            counters: FtlCounters::default(),
            looked_at: 0,
        })
    }

    /// Frees every address and erases every block. The host then has `logical_pages` addresses. Counters continue.
    ///
    /// # Errors
    /// Returns what [`Shape::check`] refuses. The drive is then unchanged.
    pub fn format(&mut self, logical_pages: u32) -> Result<(), String> {
        let fresh = Self::new(Shape {
            logical_pages,
            ..self.shape
        })?;
        *self = Self {
            counters: self.counters,
            ..fresh
        };
        Ok(())
    }

    /// The dimensions of the map.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Counters since the drive was made.
    #[must_use]
    pub fn counters(&self) -> &FtlCounters {
        &self.counters
    }

    /// The number of logical pages that hold data.
    #[must_use]
    pub fn mapped_pages(&self) -> u32 {
        self.mapped
    }

    /// Returns the share of the whole flash that holds valid data, from 0 to 1.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        f64::from(self.mapped) / f64::from(self.shape.flash_pages())
    }

    /// The number of erased blocks, without those of the write points.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 blocks")]
    pub fn free_blocks(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns the flash page of a logical page, or `None` if the logical page holds no data.
    ///
    /// # Panics
    /// Panics if there is no such logical page.
    #[must_use]
    #[inline]
    pub fn flash_page(&self, logical: u32) -> Option<FlashPage> {
        let flash = self.flash_of[logical as usize];
        (flash != FlashPage::NONE).then_some(flash)
    }

    /// Reads the flash page of a logical page, to bring it into the processor's cache.
    #[inline]
    pub(super) fn touch(&self, logical: u32) -> u32 {
        self.flash_of.get(logical as usize).map_or(0, |flash| flash.number())
    }

    /// Returns the logical page that a flash page holds, if it is valid.
    #[inline]
    pub(super) fn held_by(&self, flash: FlashPage) -> Option<u32> {
        let logical = self.logical_of[flash.index()];
        let still = logical != NONE && self.flash_of[logical as usize] == flash;
        still.then_some(logical)
    }

    /// Writes a logical page and returns its flash page. If no block is left to write to, it first collects garbage.
    ///
    /// # Panics
    /// Panics if there is no such logical page.
    #[inline]
    pub fn write(&mut self, logical: u32, observer: &mut impl Observer) -> FlashPage {
        let old = self.flash_of[logical as usize];
        if old == FlashPage::NONE {
            self.mapped += 1;
        } else {
            self.invalidate(old);
        }
        self.counters.host_pages += 1;
        if rare(self.points[HOST].room() == 0) {
            // The old flash page is invalid. A garbage collection that comes before the page has a new one must not
            // take it for valid.
            self.flash_of[logical as usize] = FlashPage::NONE;
            self.make_room(observer);
        }
        self.append(HOST, logical)
    }

    /// Fills a page without valid data at the host's write point and returns it. Garbage collection may come first.
    pub fn pad(&mut self, observer: &mut impl Observer) -> FlashPage {
        if self.points[HOST].room() == 0 {
            self.make_room(observer);
        }
        let flash = FlashPage(self.open(HOST).next);
        self.logical_of[flash.index()] = NONE;
        self.points[HOST].next += 1;
        self.close_if_full(HOST);
        flash
    }

    /// Prefetches into the processor's cache what a write of these pages (at most the first [`GROUP`]) will change.
    /// Each step is done for all pages before the next step.
    pub(super) fn look_ahead(&self, logicals: impl Iterator<Item = u32>) {
        let mut places = [FlashPage::NONE; GROUP];
        let mut count = 0;
        for (place, logical) in places.iter_mut().zip(logicals) {
            *place = self.flash_of[logical as usize];
            count += 1;
        }
        self.touch_blocks(&places[..count]);
    }

    /// Reads the state of the blocks of these flash pages.
    #[inline]
    fn touch_blocks(&self, flashes: &[FlashPage]) {
        let blocks = flashes.iter().map(|flash| flash.number() >> self.shift);
        touch(blocks.map(|block| self.blocks.touch(block)));
    }

    /// Frees a logical page. Returns whether it held data.
    ///
    /// # Panics
    /// Panics if there is no such logical page.
    pub fn trim(&mut self, logical: u32) -> bool {
        let old = std::mem::replace(&mut self.flash_of[logical as usize], FlashPage::NONE);
        if old == FlashPage::NONE {
            return false;
        }
        self.mapped -= 1;
        self.counters.trimmed_pages += 1;
        self.invalidate(old);
        true
    }

    #[inline(always)]
    fn invalidate(&mut self, flash: FlashPage) {
        self.blocks.lose_page(flash.number() >> self.shift);
    }

    /// Writes a logical page at a write point, and closes the block if it is full then.
    #[inline]
    fn append(&mut self, point: usize, logical: u32) -> FlashPage {
        let flash = FlashPage(self.open(point).next);
        self.logical_of[flash.index()] = logical;
        self.flash_of[logical as usize] = flash;
        self.fill_up(point, 1);
        self.close_if_full(point);
        flash
    }

    /// Returns a write point. It first opens a block if none is open.
    #[inline]
    fn open(&mut self, point: usize) -> WritePoint {
        let here = &mut self.points[point];
        if rare(here.next == here.end) {
            let block = self.free.pop().expect("a block is kept free for every write point");
            here.next = block << self.shift;
            here.end = here.next + self.shape.pages_per_block;
        }
        *here
    }

    /// Counts pages written at a write point, which must have room for them.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a block has at most 32768 pages")]
    fn fill_up(&mut self, point: usize, pages: usize) {
        let here = &mut self.points[point];
        self.blocks.gain_pages(here.next >> self.shift, pages as u32);
        here.next += pages as u32;
    }

    /// Closes the block of a write point if the last write filled it.
    #[inline]
    fn close_if_full(&mut self, point: usize) {
        let here = self.points[point];
        if rare(here.next == here.end) {
            self.blocks.push((here.end - 1) >> self.shift);
        }
    }
}

mod audit;
mod garbage_collection;

#[cfg(test)]
mod tests;
