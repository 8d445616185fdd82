//! The flash translation layer: which flash page holds which logical page, and how blocks are reclaimed.
//!
//! The map is by page. Flash is written at write points, one page after another. A page that is overwritten or trimmed
//! leaves an invalid page behind, and garbage collection reclaims a block by copying its valid pages to a write point and erasing
//! it. *Write amplification* is the number of flash pages programmed per page that the host wrote.
//!
//! The host and the garbage collection have a write point each ([`Streams::Separate`]), or share one. If writes are
//! evenly spread, this makes no difference. If some pages are hotter than others, separate write points keep pages that
//! survived a collection apart from fresh pages. This saves copies, because fresh pages become invalid sooner.
//!
//! Memory: 4 bytes per flash page, 4 bytes per logical page, and 16 to 20 bytes per block.

use super::victims::{Blocks, VictimPolicy};
use crate::hint::{FLASH_PAGES as GROUP, rare, touch};
use serde::{Deserialize, Serialize};

/// The map's value for "no logical page".
pub(super) const NONE: u32 = u32::MAX;

/// A page of the flash, by its number over all blocks: the current place of a logical page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct FlashPage(u32);

impl FlashPage {
    /// The map's value for "nowhere".
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

    /// Its place in a table of all flash pages.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Blocks that can never hold the host's data: two write points, one free block for each, and one that is being collected.
pub const UNUSABLE_BLOCKS: u32 = 5;

/// Where the host's pages and the garbage collection's copies go.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Streams {
    /// To a write point each.
    Separate,
    /// To one write point.
    Shared,
}

/// The dimensions of a drive's map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    /// Blocks of the whole drive, the unit of garbage collection.
    pub blocks: u32,
    /// Flash pages in a block: a power of two, at most 32768.
    pub pages_per_block: u32,
    /// Pages that the host can address.
    pub logical_pages: u32,
    /// Which block is collected next.
    pub victim: VictimPolicy,
    /// Where copies go.
    pub streams: Streams,
}

impl Shape {
    /// Checks this shape.
    ///
    /// # Errors
    /// A sentence for the author of the figures.
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

    /// Flash pages of the whole drive.
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

/// For callers who need no times.
impl Observer for () {
    fn moved(&mut self, _from: FlashPage, _to: FlashPage) {}
    fn erased(&mut self, _block: u32) {}
}

/// Counters since the drive was made, in pages and blocks. Formatting does not reset them.
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
    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            host_pages: self.host_pages - earlier.host_pages,
            moved_pages: self.moved_pages - earlier.moved_pages,
            erased_blocks: self.erased_blocks - earlier.erased_blocks,
            trimmed_pages: self.trimmed_pages - earlier.trimmed_pages,
        }
    }

    /// Flash pages programmed per page that the host wrote; 1 if it wrote none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn write_amplification(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        (self.host_pages + self.moved_pages) as f64 / self.host_pages as f64
    }
}

/// The open block of a write point: the next flash page, and the one after its last. Equal: no block is open.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct WritePoint {
    pub(super) next: u32,
    pub(super) end: u32,
}

impl WritePoint {
    /// How many pages can be written to the open block.
    fn room(self) -> usize {
        (self.end - self.next) as usize
    }
}

/// Index of the host's write point; the garbage collection's follows it.
const HOST: usize = 0;

/// The map of one drive.
#[derive(Clone, Debug)]
pub struct Ftl {
    pub(super) shape: Shape,
    shift: u32,
    copy_point: usize,
    /// The flash page that holds each logical page, or `FlashPage::NONE`.
    pub(super) flash_of: Vec<FlashPage>,
    /// For each flash page the logical page last written to it, or `NONE`. It still holds that page only if `flash_of`
    /// agrees. A page that becomes invalid is not marked here, because the mark would cost each write an access to a
    /// distant place in memory.
    pub(super) logical_of: Vec<u32>,
    /// Erased blocks; the last one is used first.
    pub(super) free: Vec<u32>,
    pub(super) blocks: Blocks,
    pub(super) points: [WritePoint; 2],
    pub(super) mapped: u32,
    pub(super) counters: FtlCounters,
    /// How many of the next blocks to collect were prefetched; it affects only speed.
    looked_at: usize,
}

impl Ftl {
    /// A drive on which every address is free and every block erased.
    ///
    /// # Errors
    /// What [`Shape::check`] says.
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

    /// Frees every address and erases every block, leaving the host `logical_pages` addresses. Counters continue.
    ///
    /// # Errors
    /// What [`Shape::check`] says; the drive is then unchanged.
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

    /// Logical pages that hold data.
    #[must_use]
    pub fn mapped_pages(&self) -> u32 {
        self.mapped
    }

    /// The share of the whole flash that holds valid data, from 0 to 1.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        f64::from(self.mapped) / f64::from(self.shape.flash_pages())
    }

    /// Erased blocks available, without the write points.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^32 blocks")]
    pub fn free_blocks(&self) -> u32 {
        self.free.len() as u32
    }

    /// The flash page that holds a logical page, if any does.
    ///
    /// # Panics
    /// If there is no such logical page.
    #[must_use]
    #[inline]
    pub fn flash_page(&self, logical: u32) -> Option<FlashPage> {
        let flash = self.flash_of[logical as usize];
        (flash != FlashPage::NONE).then_some(flash)
    }

    /// Reads the state of a logical page.
    #[inline]
    pub(super) fn touch(&self, logical: u32) -> u32 {
        self.flash_of.get(logical as usize).map_or(0, |flash| flash.number())
    }

    /// The logical page that a flash page holds, if it holds one.
    #[inline]
    pub(super) fn held_by(&self, flash: FlashPage) -> Option<u32> {
        let logical = self.logical_of[flash.index()];
        let still = logical != NONE && self.flash_of[logical as usize] == flash;
        still.then_some(logical)
    }

    /// Writes a logical page, and returns its flash page. If no block is left, garbage collection comes first.
    ///
    /// # Panics
    /// If there is no such logical page.
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
            // The old place is invalid. It must not look valid to a garbage collection that comes before the page has a
            // new place.
            self.flash_of[logical as usize] = FlashPage::NONE;
            self.make_room(observer);
        }
        self.append(HOST, logical)
    }

    /// Fills a page at the host's write point with nothing valid, garbage collection first as for a write; returns the flash page.
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

    /// Prefetches into the processor's cache the data that the writes of these pages (the first [`GROUP`] of them) will
    /// change. It makes each step for all pages before the next step.
    pub(super) fn look_ahead(&self, logicals: impl Iterator<Item = u32>) {
        let mut places = [FlashPage::NONE; GROUP];
        let mut count = 0;
        for (place, logical) in places.iter_mut().zip(logicals) {
            *place = self.flash_of[logical as usize];
            count += 1;
        }
        self.touch_blocks(&places[..count]);
    }

    /// Reads the state of the blocks of these flash pages, if there are any.
    #[inline]
    fn touch_blocks(&self, flashes: &[FlashPage]) {
        let blocks = flashes.iter().map(|flash| flash.number() >> self.shift);
        touch(blocks.map(|block| self.blocks.touch(block)));
    }

    /// Frees a logical page; returns whether it held data.
    ///
    /// # Panics
    /// If there is no such logical page.
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

    /// Puts a logical page at a write point, and closes the block if that filled it.
    #[inline]
    fn append(&mut self, point: usize, logical: u32) -> FlashPage {
        let flash = FlashPage(self.open(point).next);
        self.logical_of[flash.index()] = logical;
        self.flash_of[logical as usize] = flash;
        self.fill_up(point, 1);
        self.close_if_full(point);
        flash
    }

    /// A write point, with a block open.
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

    /// Counts pages put at a write point that has room for them.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a block has at most 32768 pages")]
    fn fill_up(&mut self, point: usize, pages: usize) {
        let here = &mut self.points[point];
        self.blocks.gain_pages(here.next >> self.shift, pages as u32);
        here.next += pages as u32;
    }

    /// Closes the block of a write point that was just written to, if that filled it.
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
