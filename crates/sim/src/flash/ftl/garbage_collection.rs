//! Garbage collection: reclaims blocks. It copies the valid pages of a block and then erases the block.
//!
//! The copies change entries in all parts of the map of logical pages. At life-size this map is far larger than the
//! processor's caches. So the entries of all blocks that will probably be collected next are read together, so that the
//! processor fetches them in parallel.

use super::{FlashPage, Ftl, HOST, NONE, Observer};
use crate::hint::{COLLECTED_PAGES, LINE, touch};

/// The host may open a block only if this many are free, because garbage collection copies into the last one.
const FREE_BLOCKS_FOR_HOST: usize = 2;

/// The number of pages that are copied together.
const GROUP: usize = 64;

/// A valid page of a block that is being collected.
#[derive(Clone, Copy)]
struct Valid {
    flash: FlashPage,
    logical: u32,
}

impl Ftl {
    /// Returns how many pages the collection of the next block would copy, or `None` if no block is closed.
    #[must_use]
    pub fn next_victim_valid(&self) -> Option<u32> {
        self.blocks.front().map(|block| self.blocks.valid(block))
    }

    /// Collects blocks until the host can open a block, if it needs one.
    #[cold]
    pub(super) fn make_room(&mut self, observer: &mut impl Observer) {
        if self.free.len() < FREE_BLOCKS_FOR_HOST {
            self.looked_at = 0; // the host has written since the last look, so other blocks may be next
        }
        while self.free.len() < FREE_BLOCKS_FOR_HOST && self.points[HOST].room() == 0 {
            self.collect_block(observer)
                .expect("a drive short of free blocks has closed ones");
        }
    }

    /// Collects one block. Returns the number of pages copied, or `None` if no block is closed.
    pub fn collect_block(&mut self, observer: &mut impl Observer) -> Option<u32> {
        if self.looked_at == 0 {
            self.looked_at = self.look_at_victims();
        }
        let (victim, moved) = self.blocks.pop()?;
        self.looked_at -= 1;
        if moved > 0 {
            self.copy_valid(victim, observer);
        }
        self.free.push(victim);
        self.counters.moved_pages += u64::from(moved);
        self.counters.erased_blocks += 1;
        observer.erased(victim);
        Some(moved)
    }

    /// Prefetches what garbage collection will change until it has reclaimed a block's worth of pages. Returns how many
    /// blocks must be collected for that.
    fn look_at_victims(&self) -> usize {
        let pages = self.shape.pages_per_block;
        let at_most = (COLLECTED_PAGES / pages).max(1) as usize;
        let mut won = 0;
        let victims = self.blocks.in_order().take(at_most).take_while(move |&block| {
            let enough = won >= pages;
            won += pages - self.blocks.valid(block);
            !enough
        });
        let written_to = |block: u32| &self.logical_of[(block << self.shift) as usize..][..pages as usize];
        let count = victims.clone().count();
        let to_copy = victims.filter(|&block| self.blocks.valid(block) > 0);
        let lines = to_copy.clone().flat_map(|block| written_to(block).chunks(LINE));
        touch(lines.map(|line| line[0]));
        touch(to_copy.flat_map(written_to).map(|&logical| self.touch(logical)));
        count
    }

    /// Copies the valid pages of a block.
    fn copy_valid(&mut self, block: u32, observer: &mut impl Observer) {
        let nothing = Valid {
            flash: FlashPage::NONE,
            logical: NONE,
        };
        let mut valid = [nothing; GROUP];
        let first = block << self.shift;
        for flash in (first..first + self.shape.pages_per_block).step_by(GROUP) {
            let count = self.collect_valid(flash, &mut valid);
            self.copy(&valid[..count], observer);
        }
    }

    /// Finds the valid pages among the flash pages from `first` on, up to the length of `valid` or the end of the
    /// block. Returns their number.
    fn collect_valid(&self, first: u32, valid: &mut [Valid; GROUP]) -> usize {
        let pages = GROUP.min(self.shape.pages_per_block as usize);
        let mut count = 0;
        let flashes = (first..).map(FlashPage);
        for (flash, &logical) in flashes.zip(&self.logical_of[first as usize..][..pages]) {
            valid[count] = Valid { flash, logical };
            // The sum replaces a branch, because the processor can't predict which pages are valid.
            count += usize::from(self.flash_of.get(logical as usize) == Some(&flash));
        }
        count
    }

    /// Copies pages to the garbage collection's write point. A group of pages ends where a block ends.
    fn copy(&mut self, mut pages: &[Valid], observer: &mut impl Observer) {
        let point = self.copy_point;
        while !pages.is_empty() {
            let here = self.open(point);
            let (run, later) = pages.split_at(pages.len().min(here.room()));
            let places = &mut self.logical_of[here.next as usize..][..run.len()];
            for ((to, place), page) in (here.next..).zip(places).zip(run) {
                *place = page.logical;
                self.flash_of[page.logical as usize] = FlashPage(to);
                observer.moved(page.flash, FlashPage(to));
            }
            self.fill_up(point, run.len());
            self.close_if_full(point);
            pages = later;
        }
    }
}
