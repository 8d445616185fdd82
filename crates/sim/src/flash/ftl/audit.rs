//! The rules about a map that hold at any time.

use super::{FlashPage, Ftl};
use crate::flash::victims::VictimPolicy;

impl Ftl {
    /// Checks that each mapped logical page has its own flash page, that the counts of valid pages are right, and that
    /// every block is in exactly one list. It takes time in proportion to the size of the drive.
    ///
    /// # Errors
    /// Returns the first rule that is broken.
    pub fn check(&self) -> Result<(), String> {
        self.check_map()?;
        self.check_blocks()
    }

    fn check_map(&self) -> Result<(), String> {
        let mut mapped = 0;
        for (logical, &flash) in (0..).zip(&self.flash_of) {
            if flash != FlashPage::NONE {
                mapped += 1;
                if self.logical_of.get(flash.index()) != Some(&logical) {
                    return Err(format!(
                        "logical page {logical} maps to flash page {}, which holds another",
                        flash.number()
                    ));
                }
            }
        }
        let held = self.count_held(0..self.shape.flash_pages());
        if mapped != self.mapped || held != mapped {
            return Err(format!(
                "{mapped} logical pages are mapped, {held} flash pages are valid, {} are counted",
                self.mapped
            ));
        }
        Ok(())
    }

    /// Returns how many of these flash pages are valid.
    fn count_held(&self, pages: std::ops::Range<u32>) -> u32 {
        pages
            .map(|flash| u32::from(self.held_by(FlashPage(flash)).is_some()))
            .sum()
    }

    fn check_blocks(&self) -> Result<(), String> {
        let mut seen = vec![0u32; self.shape.blocks as usize];
        let open = self.points.iter().filter(|point| point.next != point.end);
        let open_blocks = open.clone().map(|point| point.next >> self.shift);
        for block in self
            .free
            .iter()
            .copied()
            .chain(self.blocks.in_order())
            .chain(open_blocks)
        {
            seen[block as usize] += 1;
        }
        if let Some(block) = seen.iter().position(|&times| times != 1) {
            return Err(format!("block {block} stands in {} places instead of one", seen[block]));
        }
        for block in 0..self.shape.blocks {
            let counted = self.blocks.valid(block);
            let first = block << self.shift;
            let valid = self.count_held(first..first + self.shape.pages_per_block);
            if valid != counted {
                return Err(format!("block {block} has {valid} valid pages, counted as {counted}"));
            }
        }
        if let Some(block) = self.free.iter().find(|&&block| self.blocks.valid(block) > 0) {
            return Err(format!("free block {block} holds valid pages"));
        }
        for point in open {
            if self.count_held(point.next..point.end) > 0 {
                return Err(format!(
                    "a page not yet written at or after flash page {} is valid",
                    point.next
                ));
            }
        }
        let counts = self.blocks.in_order().map(|block| self.blocks.valid(block));
        if self.shape.victim == VictimPolicy::Greedy && !counts.is_sorted() {
            return Err("closed blocks are not in the order of their valid pages".to_owned());
        }
        Ok(())
    }
}
