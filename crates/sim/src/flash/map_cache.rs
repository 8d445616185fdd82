//! The map of a drive whose memory is too small for all of it (DRAM-less). The map is on the flash, after the host's
//! pages. A small cache, such as 64 MB of the host's memory, holds the pages of the map that were used last.
//!
//! A read waits for a page of the map that is not cached. A write does not, because its data are in the buffer. A
//! changed page is programmed before it leaves the cache. The CLOCK algorithm (F. J. Corbató, 1968) picks the page.

use std::ops::RangeInclusive;

use super::ftl::NONE;

/// The sizes of a map and of its cache. Sizes are in flash pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MapPart {
    /// The number of pages of the map. They follow the host's logical pages.
    pub map_pages: u32,
    /// The number of logical pages that one page of the map covers.
    pub covers: u32,
    /// The number of pages of the map that the cache can hold.
    pub cached: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u32,
    changed: bool,
    used: bool,
}

/// Whether a page of the map was cached. If not, it may have replaced a changed page, whose number is given then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taken {
    Cached,
    Missed(Option<u32>),
}

/// The cache. It is empty at first.
#[derive(Clone, Debug)]
pub(super) struct MapCache {
    part: MapPart,
    slots: Vec<Slot>,
    /// For each page of the map, the number of its slot.
    slot_of: Vec<u32>,
    hand: usize,
}

impl MapCache {
    pub(super) fn new(part: MapPart) -> Self {
        Self {
            part,
            slots: Vec::new(),
            slot_of: vec![NONE; part.map_pages as usize],
            hand: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.part);
    }

    /// Returns the pages of the map that cover some logical pages.
    pub(super) fn numbers(&self, page: u32, pages: u32) -> RangeInclusive<u32> {
        page / self.part.covers..=(page + pages - 1) / self.part.covers
    }

    /// Uses a page of the map, and caches it if it is not cached.
    pub(super) fn take(&mut self, number: u32, changes: bool) -> Taken {
        if let Some(slot) = self.slots.get_mut(self.slot_of[number as usize] as usize) {
            slot.used = true;
            slot.changed |= changes;
            return Taken::Cached;
        }
        let fresh = Slot {
            number,
            changed: changes,
            used: true,
        };
        if self.slots.len() < self.part.cached as usize {
            self.slot_of[number as usize] = u32::try_from(self.slots.len()).expect("its limit has 32 bits");
            self.slots.push(fresh);
            return Taken::Missed(None);
        }
        while std::mem::take(&mut self.slots[self.hand].used) {
            self.hand = (self.hand + 1) % self.slots.len();
        }
        let old = std::mem::replace(&mut self.slots[self.hand], fresh);
        self.slot_of[number as usize] = std::mem::replace(&mut self.slot_of[old.number as usize], NONE);
        self.hand = (self.hand + 1) % self.slots.len();
        Taken::Missed(old.changed.then_some(old.number))
    }
}

#[cfg(test)]
mod tests {
    use super::{MapCache, MapPart, Taken};

    #[test]
    fn the_page_that_was_not_used_since_leaves_and_is_named_if_it_was_changed() {
        let mut cache = MapCache::new(MapPart {
            map_pages: 4,
            covers: 10,
            cached: 2,
        });
        assert_eq!(cache.numbers(9, 2), 0..=1);
        assert_eq!(cache.take(0, true), Taken::Missed(None));
        assert_eq!(cache.take(1, false), Taken::Missed(None));
        assert_eq!(cache.take(0, false), Taken::Cached);
        assert_eq!(
            cache.take(2, false),
            Taken::Missed(Some(0)),
            "all were used: the first one leaves"
        );
        assert_eq!(cache.take(2, false), Taken::Cached);
        assert_eq!(
            cache.take(0, false),
            Taken::Missed(None),
            "page 1 was not used since, and not changed"
        );
        assert_eq!(cache.take(2, true), Taken::Cached);
    }
}
