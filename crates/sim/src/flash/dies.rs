//! The dies of a drive: the time until which each is busy with work of the host and of garbage collection.
//!
//! - A die does one operation at a time, in the order of the requests. A read goes before programs that have not begun.
//!   While a write waits for room in the buffer, the read first waits for as many of these programs as the profile
//!   says. It always waits for the operation in progress. A read can't change completion times that were already
//!   returned for earlier requests, but it delays later ones.
//! - Garbage collection uses the same dies for its reads, programs and erases. It reads ahead, so the program of a
//!   copied page doesn't wait for its own read. An erase block is smaller than a block of the map, so erases are
//!   charged by the number of pages freed, on the dies in turn.
//! - The times of the dies include the transfers between dies and controller. The model assumes that the bus between
//!   them is wide enough.

use super::ftl::{FlashPage, Observer};
use super::parameters::Parameters;
use crate::rng::{Rng, Spread};

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    busy_until: u64,
    reads_until: u64,
}

/// The dies, and the duration of each operation on a die.
#[derive(Clone, Debug)]
pub(super) struct Dies {
    each: Vec<Die>,
    read: Spread,
    program: Spread,
    program_ns: u64,
    erase_ns: u64,
    erase_pages: u32,
    /// The longest time that a read waits for programs that have not begun, while a write waits for room.
    patience_ns: u64,
    rng: Rng,
    /// The pages in freed blocks of the map for which no erase has been charged.
    pub(super) pages_to_erase: u32,
    pub(super) next_to_erase: u32,
    /// The sum of the times that the dies were busy.
    pub(super) busy_ns: u64,
}

impl Dies {
    pub(super) fn new(parameters: &Parameters, rng: Rng) -> Self {
        Self {
            each: vec![Die::default(); parameters.dies as usize],
            read: Spread::new(parameters.read_ns, parameters.jitter_per_mille.into()),
            program: Spread::new(parameters.program_ns, parameters.jitter_per_mille.into()),
            program_ns: parameters.program_ns,
            erase_ns: parameters.erase_ns,
            erase_pages: parameters.erase_pages,
            patience_ns: parameters.program_ns * u64::from(parameters.programs_before_read),
            rng,
            pages_to_erase: 0,
            next_to_erase: 0,
            busy_ns: 0,
        }
    }

    /// Finishes all work and resets the clock to 0. Pages that wait for an erase are kept.
    pub(super) fn rest(&mut self, rng: Rng) {
        self.each.fill(Die::default());
        self.rng = rng;
        self.busy_ns = 0;
    }

    /// Returns when the last die becomes idle.
    pub(super) fn busy_until(&self) -> u64 {
        self.each.iter().map(|die| die.busy_until).max().unwrap_or(0)
    }

    #[inline]
    fn index(&self, flash: FlashPage) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "as many dies as a profile's 32 bits say")]
        let dies = self.each.len() as u32;
        (flash.number() % dies) as usize
    }

    #[inline]
    fn stray(&mut self, time: Spread) -> u64 {
        time.of(self.rng.next_u64() >> 32)
    }

    /// Draws an exponentially distributed time. It is 0 if the mean is 0.
    #[inline]
    pub(super) fn stray_by(&mut self, mean_ns: u64) -> u64 {
        if mean_ns == 0 {
            0
        } else {
            self.rng.exponential_ns(mean_ns)
        }
    }

    /// Reads a flash page for the host. Returns when its data leave the die. Programs go first only if writes wait for
    /// them.
    #[inline]
    pub(super) fn read(&mut self, now: u64, flash: FlashPage, writes_wait: bool) -> u64 {
        let takes = self.stray(self.read);
        let index = self.index(flash);
        let die = &mut self.each[index];
        let queued = die.busy_until.saturating_sub(now);
        let patience_ns = if writes_wait { self.patience_ns } else { 0 };
        let wait = if queued > patience_ns + self.program_ns {
            queued % self.program_ns + patience_ns
        } else {
            queued
        };
        let end = (now + wait).max(die.reads_until) + takes;
        die.reads_until = end;
        die.busy_until = die.busy_until.max(now) + takes;
        self.busy_ns += takes;
        end
    }

    /// Programs a flash page, not before `ready`. Returns when it is done.
    #[inline(always)]
    pub(super) fn program(&mut self, ready: u64, flash: FlashPage) -> u64 {
        let takes = self.stray(self.program);
        let index = self.index(flash);
        self.occupy(ready, index, takes)
    }

    #[inline]
    fn occupy(&mut self, ready: u64, index: usize, takes: u64) -> u64 {
        let die = &mut self.each[index];
        die.busy_until = die.busy_until.max(ready) + takes;
        self.busy_ns += takes;
        die.busy_until
    }
}

/// One garbage collection over time. All of its operations become due at `now`.
pub(super) struct InTime<'a> {
    pub(super) dies: &'a mut Dies,
    pub(super) now: u64,
    pub(super) pages_per_block: u32,
    /// The time when the last operation is done.
    pub(super) done: u64,
}

impl Observer for InTime<'_> {
    #[inline]
    fn moved(&mut self, from: FlashPage, to: FlashPage) {
        let takes = self.dies.stray(self.dies.read);
        let index = self.dies.index(from);
        let read = self.dies.occupy(self.now, index, takes);
        let programmed = self.dies.program(self.now, to);
        self.done = self.done.max(read).max(programmed);
    }

    fn erased(&mut self, _block: u32) {
        let dies = &mut *self.dies;
        dies.pages_to_erase += self.pages_per_block;
        while dies.pages_to_erase >= dies.erase_pages {
            dies.pages_to_erase -= dies.erase_pages;
            let index = dies.index(FlashPage::new(dies.next_to_erase));
            dies.next_to_erase = dies.next_to_erase.wrapping_add(1);
            self.done = self.done.max(dies.occupy(self.now, index, dies.erase_ns));
        }
    }
}
