//! A flash drive over time. For each request that arrives, it computes when the request will be done.
//!
//! No process waits in this module. For each die and each direction of the link, the drive keeps the time until which
//! it is busy. A request starts at that time, sets it to a later time, and returns its own completion time. So a
//! request takes some tens of nanoseconds to simulate, and the drive needs no event of its own.
//!
//! - A write is done when its data are in the buffer. If that is full, it waits until its oldest page is programmed.
//! - What the driver adds to writes is programmed in whole pages, after the host's. Such a page has no valid data. It
//!   takes room on the flash until its block is collected, but none in the buffer.
//! - Reads go before programs, except while writes wait for room in the buffer.
//! - If a drive caches a part of its map, a read waits for a missing page of the map ([`super::map_cache`]).
//! - Garbage collection takes turns with the host's writes, or works while the drive is idle; see
//!   [`super::parameters::GarbageCollection`]. `dies` describes its cost.

use super::dies::{Dies, InTime};
use super::ftl::Ftl;
use super::map_cache::{MapCache, Taken};
use super::parameters::Parameters;
use super::request::{Counters, Offline, Op};
use crate::hint::rare;
use crate::rng::Rng;

/// A page of which only the beginning has been written so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct PartPage {
    page: u32,
    filled_bytes: u64,
}

/// One drive: its map, its times, its history.
#[derive(Clone, Debug)]
pub struct Drive {
    parameters: Parameters,
    /// The base-2 logarithm of the page size, if the size is a power of two, because a shift is faster than a division.
    page_shift: Option<u32>,
    ftl: Ftl,
    map_cache: Option<Box<MapCache>>,
    dies: Dies,
    /// For each slot of the buffer, the time when its page will have been programmed. The slots are used in turn.
    buffer: Vec<u64>,
    next_place: usize,
    /// When the last write that had to wait for room in the buffer gets it.
    room_at: u64,
    link_read_until: u64,
    link_write_until: u64,
    link_read_page_ns: u64,
    link_write_page_ns: u64,
    last_request: u64,
    /// Whether garbage collection takes turns with the host.
    collecting: bool,
    /// Thousandths of a page that were added to writes and are not programmed yet.
    padding: u32,
    /// Thousandths of pages that garbage collection still has to reclaim, or negative if blocks yielded more.
    owed: i64,
    part_page: Option<PartPage>,
    /// The largest number of mapped pages for which the host's memory suffices.
    mapped_limit: u32,
    offline: Option<Offline>,
    counters: Counters,
}

impl Drive {
    /// Makes a freshly formatted drive at time 0. `rng` draws the jitter of its times.
    ///
    /// # Errors
    /// Returns what [`Parameters::check`] refuses.
    pub fn new(parameters: Parameters, rng: Rng) -> Result<Self, String> {
        parameters.check()?;
        let ftl = Ftl::new(parameters.shape)?;
        Ok(Self::around(ftl, parameters, rng))
    }

    fn around(ftl: Ftl, parameters: Parameters, rng: Rng) -> Self {
        let page = u64::from(parameters.flash_page_bytes);
        let mapped_limit = parameters.host_ram_bytes.map_or(u32::MAX, |ram| {
            u32::try_from(parameters.mapping.data_within(ram) / page).unwrap_or(u32::MAX)
        });
        Self {
            page_shift: page.is_power_of_two().then(|| page.trailing_zeros()),
            ftl,
            map_cache: parameters.map_part.map(|part| Box::new(MapCache::new(part))),
            dies: Dies::new(&parameters, rng),
            buffer: vec![0; parameters.buffer_pages as usize],
            next_place: 0,
            room_at: 0,
            link_read_until: 0,
            link_write_until: 0,
            link_read_page_ns: Parameters::link_ns(page, parameters.link_read_bytes_per_s),
            link_write_page_ns: Parameters::link_ns(page, parameters.link_write_bytes_per_s),
            last_request: 0,
            collecting: false,
            padding: 0,
            owed: 0,
            part_page: None,
            mapped_limit,
            offline: None,
            counters: Counters::default(),
            parameters,
        }
    }

    /// Finishes all work and resets the clock to 0. This happens between two runs. Data, map, counters and the state of
    /// garbage collection don't change, except that less than a page of padding is dropped.
    pub fn rest(&mut self, rng: Rng) {
        let counters = self.counters();
        self.dies.rest(rng);
        self.counters = counters;
        if let Some(cache) = &mut self.map_cache {
            cache.clear();
        }
        self.buffer.fill(0);
        self.next_place = 0;
        self.padding = 0;
        self.room_at = 0;
        self.link_read_until = 0;
        self.link_write_until = 0;
        self.last_request = 0;
    }

    /// Tells the drive that all files have been deleted. If it gets trims, it then knows that it holds no data. Other
    /// drives, and a drive that is off-line, don't change.
    pub fn free_all(&mut self) {
        if self.parameters.trim && self.offline.is_none() {
            self.trim(0, 0, self.parameters.shape.logical_pages);
        }
    }

    /// Frees every address and erases every block. A drive that was off-line is on-line again.
    ///
    /// # Panics
    /// Never panics, because a valid shape stays valid.
    pub fn format(&mut self) {
        let logical_pages = self.parameters.shape.logical_pages;
        self.ftl.format(logical_pages).expect("its shape was checked");
        self.collecting = false;
        self.owed = 0;
        self.part_page = None;
        self.offline = None;
    }

    /// Formats the drive and ages it; see [`super::Age`]. Its map's counters restart from 0.
    ///
    /// # Errors
    /// Fails if the drive can't be aged in that way.
    pub fn age(&mut self, age: super::Age, rng: &mut Rng) -> Result<(), String> {
        self.format();
        self.ftl.age(age, rng)
    }

    /// The drive's parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The drive's page map.
    #[must_use]
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// The drive's counters since it was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            ftl: *self.ftl.counters(),
            die_busy_ns: self.counters.die_busy_ns + self.dies.busy_ns,
            ..self.counters
        }
    }

    /// Returns the host memory that the drive's map takes now.
    #[must_use]
    pub fn host_ram_bytes(&self) -> u64 {
        self.parameters.mapping.bytes_for(self.mapped_bytes())
    }

    fn mapped_bytes(&self) -> u64 {
        u64::from(self.ftl.mapped_pages()) * u64::from(self.parameters.flash_page_bytes)
    }

    /// Accepts a request at time `now` and returns when it will be done. Requests must come in order of time.
    ///
    /// # Errors
    /// Fails if the drive is off-line, or this request makes it go off-line.
    ///
    /// # Panics
    /// Panics if the request goes beyond the drive's last page, or has no pages or bytes.
    #[inline(always)]
    pub fn submit(&mut self, now: u64, op: Op) -> Result<u64, Offline> {
        debug_assert!(now >= self.last_request, "requests come in the order of their times");
        self.advance(now);
        self.last_request = now;
        if rare(self.offline.is_some())
            && let Some(offline) = self.offline
        {
            return Err(offline);
        }
        let done = match op {
            // A read maps nothing, so it can't exhaust the host's memory.
            Op::Read { page, pages } => return Ok(self.look_up(now, page, pages, false) + self.read(now, page, pages)),
            Op::Write { page, pages } => {
                self.look_up(now, page, pages, true);
                self.write(now, page, pages)
            }
            Op::WriteBytes { offset, bytes } => {
                self.look_up(now, self.page_at(offset), 1, true);
                self.write_bytes(now, offset, bytes)
            }
        };
        self.stay_online().map(|()| done)
    }

    /// Returns the page that contains the byte at `offset`.
    ///
    /// # Panics
    /// Panics if there are more than 2^32 pages before it.
    #[must_use]
    #[inline]
    pub fn page_at(&self, offset: u64) -> u32 {
        let page = match self.page_shift {
            Some(shift) => offset >> shift,
            None => offset / u64::from(self.parameters.flash_page_bytes),
        };
        u32::try_from(page).expect("flash pages are numbered in 32 bits")
    }

    /// Does the drive's background work up to `now`. [`Drive::submit`] does so too. Call this at the end of a pause
    /// without requests.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        if self.parameters.garbage_collection.idle_blocks == 0 {
            return;
        }
        let idle_from = self.last_request + self.parameters.garbage_collection.idle_after_ns;
        if now > idle_from && self.ftl.free_blocks() < self.parameters.garbage_collection.idle_blocks {
            self.collect_while_idle(idle_from, now);
        }
    }

    /// Collects blocks one after another. Each collection begins when the previous one is done.
    fn collect_while_idle(&mut self, from: u64, until: u64) {
        let mut time = from.max(self.dies.busy_until());
        while time < until && self.ftl.free_blocks() < self.parameters.garbage_collection.idle_blocks {
            let worth_it = |valid| valid < self.parameters.shape.pages_per_block;
            if !self.ftl.next_victim_valid().is_some_and(worth_it) {
                break;
            }
            let (_, done) = self.collect_block(time);
            self.counters.idle_collections += 1;
            // Even a block without valid pages takes time. Otherwise this loop would not end.
            time = done.max(time + 1);
        }
        if self.ftl.free_blocks() >= self.parameters.garbage_collection.stop_blocks {
            self.collecting = false;
        }
    }

    /// Caches the pages of the map that a request needs. Returns how long the reads of these pages take.
    #[inline]
    fn look_up(&mut self, now: u64, page: u32, pages: u32, changes: bool) -> u64 {
        if rare(self.map_cache.is_some()) {
            self.look_up_in_part(now, page, pages, changes)
        } else {
            0
        }
    }

    #[cold]
    fn look_up_in_part(&mut self, now: u64, page: u32, pages: u32, changes: bool) -> u64 {
        let (mut done, begin) = (now, self.parameters.host_pages());
        let mut cache = self.map_cache.take().expect("a drive with a part of its map");
        for number in cache.numbers(page, pages) {
            let Taken::Missed(replaced) = cache.take(number, changes) else {
                continue;
            };
            if let Some(changed) = replaced {
                self.write_page(now, begin + changed, 0);
                // The drive itself wrote this page, so it is counted like a page that garbage collection moves.
                self.ftl.counters.host_pages -= 1;
                self.ftl.counters.moved_pages += 1;
            }
            if let Some(flash) = self.ftl.flash_page(begin + number) {
                done = done.max(self.dies.read(now, flash, false));
            }
        }
        self.map_cache = Some(cache);
        done - now
    }

    #[inline]
    fn read(&mut self, now: u64, page: u32, pages: u32) -> u64 {
        assert!(pages > 0, "a read of no pages");
        let writes_wait = self.room_at > now;
        let mut done = now;
        for page in page..page + pages {
            self.link_read_until = self.link_read_until.max(now) + self.link_read_page_ns;
            let found = match self.ftl.flash_page(page) {
                Some(flash) => self.dies.read(now, flash, writes_wait),
                None => now,
            };
            done = done.max(found + self.link_read_page_ns).max(self.link_read_until);
        }
        self.counters.read_pages += u64::from(pages);
        self.counters.read_bytes += u64::from(pages) * u64::from(self.parameters.flash_page_bytes);
        done + self.parameters.read_command_ns
    }

    fn write(&mut self, now: u64, page: u32, pages: u32) -> u64 {
        assert!(pages > 0, "a write of no pages");
        self.close_part_page(page, pages);
        if pages > 1 {
            self.ftl.look_ahead(page..page + pages);
        }
        let mut done = now;
        for page in page..page + pages {
            done = self.write_page(now, page, self.link_write_page_ns);
        }
        self.pad(done);
        self.counters.written_bytes += u64::from(pages) * u64::from(self.parameters.flash_page_bytes);
        done + self.parameters.write_command_ns
    }

    fn write_bytes(&mut self, now: u64, offset: u64, bytes: u64) -> u64 {
        assert!(bytes > 0, "a write of no bytes");
        let page_bytes = u64::from(self.parameters.flash_page_bytes);
        let (mut done, mut at, end) = (now, offset, offset + bytes);
        let mut opens_page = false;
        while at < end {
            let page = u32::try_from(at / page_bytes).expect("pages are numbered in 32 bits");
            let piece = (end - at).min(page_bytes - at % page_bytes);
            let link_ns = Parameters::link_ns(piece, self.parameters.link_write_bytes_per_s);
            let filled_bytes = match self.part_page {
                Some(part) if part.page == page => part.filled_bytes + piece,
                _ => u64::MAX,
            };
            if filled_bytes <= page_bytes {
                // The page is still in the buffer, so this piece joins it.
                self.link_write_until = self.link_write_until.max(now) + link_ns;
                self.part_page = Some(PartPage { page, filled_bytes });
                done = self.link_write_until;
            } else {
                done = self.write_page(now, page, link_ns);
                opens_page = true;
                self.part_page = Some(PartPage {
                    page,
                    filled_bytes: piece,
                });
            }
            at += piece;
        }
        // A piece that shares a page with the previous piece shares its padding too.
        if opens_page {
            self.pad(done);
        }
        self.counters.written_bytes += bytes;
        done + self.parameters.write_command_ns + self.dies.stray_by(self.parameters.log_delay_ns)
    }

    /// Takes a page into the buffer and programs it. Returns when the page is in the buffer.
    #[inline]
    fn write_page(&mut self, now: u64, page: u32, link_ns: u64) -> u64 {
        self.link_write_until = self.link_write_until.max(now) + link_ns;
        let arrived = self.link_write_until;
        let admitted = arrived.max(self.buffer[self.next_place]);
        if admitted > arrived {
            self.counters.buffer_wait_ns += admitted - arrived;
            self.room_at = admitted;
        }
        self.collect_along(admitted);
        let (ftl, mut collection) = self.in_time(admitted);
        let flash = ftl.write(page, &mut collection);
        self.buffer[self.next_place] = self.dies.program(admitted, flash);
        self.next_place += 1;
        if rare(self.next_place == self.buffer.len()) {
            self.next_place = 0;
        }
        admitted
    }

    /// Adds up what the driver adds to writes, and programs each whole page of it.
    #[inline]
    fn pad(&mut self, now: u64) {
        self.padding += self.parameters.padding_per_mille;
        if rare(self.padding >= 1000) {
            self.padding -= 1000;
            self.collect_along(now);
            let (ftl, mut collection) = self.in_time(now);
            let flash = ftl.pad(&mut collection);
            self.dies.program(now, flash);
        }
    }

    /// Returns the map, and an observer that charges the time of a garbage collection at `now`.
    #[inline]
    fn in_time(&mut self, now: u64) -> (&mut Ftl, InTime<'_>) {
        let pages_per_block = self.parameters.shape.pages_per_block;
        let collection = InTime {
            dies: &mut self.dies,
            now,
            pages_per_block,
            done: 0,
        };
        (&mut self.ftl, collection)
    }

    fn trim(&mut self, now: u64, page: u32, pages: u32) -> u64 {
        assert!(pages > 0, "a trim of no pages");
        if self.parameters.trim {
            self.close_part_page(page, pages);
            for page in page..page + pages {
                self.ftl.trim(page);
            }
        }
        now + self.parameters.write_command_ns
    }

    /// Closes the partly filled page if it is one of these pages, which are rewritten or freed now.
    fn close_part_page(&mut self, page: u32, pages: u32) {
        self.part_page = self.part_page.filter(|part| !(page..page + pages).contains(&part.page));
    }

    /// If garbage collection is due, collects blocks for a page that the host writes.
    #[inline]
    fn collect_along(&mut self, now: u64) {
        if !self.collecting {
            if self.ftl.free_blocks() >= self.parameters.garbage_collection.start_blocks {
                return;
            }
            self.collecting = true;
            self.owed = 0;
            self.counters.collection_bursts += 1;
        }
        self.owed += i64::from(self.parameters.garbage_collection.pace_per_mille);
        while self.owed >= 1000 {
            if self.ftl.free_blocks() >= self.parameters.garbage_collection.stop_blocks {
                self.collecting = false;
                return;
            }
            let (moved, _) = self.collect_block(now);
            let won = i64::from(self.parameters.shape.pages_per_block - moved);
            // A block without invalid pages counts as one page, or one write could cause endless garbage collection.
            self.owed -= won.max(1) * 1000;
        }
    }

    /// Collects one block at `now`. Returns the number of pages moved, and when this is done.
    fn collect_block(&mut self, now: u64) -> (u32, u64) {
        let (ftl, mut collection) = self.in_time(now);
        let moved = ftl.collect_block(&mut collection);
        let moved = moved.expect("a drive short of free blocks has closed ones");
        (moved, collection.done)
    }

    fn stay_online(&mut self) -> Result<(), Offline> {
        if rare(self.ftl.mapped_pages() > self.mapped_limit) {
            return self.go_offline();
        }
        Ok(())
    }

    #[cold]
    fn go_offline(&mut self) -> Result<(), Offline> {
        let offline = Offline {
            mapped_bytes: self.mapped_bytes(),
            mapping_bytes: self.host_ram_bytes(),
            host_ram_bytes: self.parameters.host_ram_bytes.unwrap_or(u64::MAX),
        };
        self.offline = Some(offline);
        Err(offline)
    }
}

mod saving;

#[cfg(test)]
mod tests;
