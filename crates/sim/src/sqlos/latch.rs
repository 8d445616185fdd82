//! Latches: short locks on pages and other structures in memory, in the modes in which the engine takes them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Sqlos;
use super::state::{NOBODY, Queue, Resource, State};
use super::waits::WaitType;
use crate::kernel::{Kernel, ProcessId};

/// How a latch is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Shared: to read. Compatible with `Sh` and `Up`.
    Sh,
    /// Update: to change what readers may see half done, as in a PFS page. Compatible with `Sh`.
    Up,
    /// Exclusive: to change. Compatible with nothing.
    Ex,
}

impl Mode {
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The modes that can't be held beside this one, as bits.
    const fn conflicts(self) -> u8 {
        match self {
            Self::Sh => Self::Ex.bit(),
            Self::Up => Self::Up.bit() | Self::Ex.bit(),
            Self::Ex => Self::Sh.bit() | Self::Up.bit() | Self::Ex.bit(),
        }
    }
}

/// What is latched; it decides the name of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatchClass {
    /// A page in memory: `PAGELATCH_*`.
    Page,
    /// A page that is being read or written: `PAGEIOLATCH_*`.
    PageIo,
}

impl LatchClass {
    /// The type of a wait for a latch of this class in `mode`.
    #[must_use]
    pub const fn wait_type(self, mode: Mode) -> WaitType {
        match (self, mode) {
            (Self::Page, Mode::Sh) => WaitType::PageLatchSh,
            (Self::Page, Mode::Up) => WaitType::PageLatchUp,
            (Self::Page, Mode::Ex) => WaitType::PageLatchEx,
            (Self::PageIo, Mode::Sh) => WaitType::PageIoLatchSh,
            (Self::PageIo, Mode::Up) => WaitType::PageIoLatchUp,
            (Self::PageIo, Mode::Ex) => WaitType::PageIoLatchEx,
        }
    }
}

/// A latch that is held or wanted.
#[derive(Clone, Copy, Debug)]
struct LatchState {
    /// How many hold it in [`Mode::Sh`], the one that several can hold at once.
    sharers: u32,
    /// The modes in which it is held, as bits.
    held_modes: u8,
    waiters: Queue,
    /// The holder in a mode that only one can hold; nobody if it is an I/O.
    owner: u32,
}

impl LatchState {
    const FREE: Self = Self {
        sharers: 0,
        held_modes: 0,
        waiters: Queue::EMPTY,
        owner: NOBODY,
    };

    const fn is_free(&self) -> bool {
        self.held_modes == 0 && self.waiters.is_empty()
    }

    const fn allows(&self, mode: Mode) -> bool {
        self.held_modes & mode.conflicts() == 0
    }

    #[inline]
    fn grant(&mut self, mode: Mode, holder: u32) {
        self.held_modes |= mode.bit();
        match mode {
            Mode::Sh => self.sharers += 1,
            Mode::Up | Mode::Ex => self.owner = holder,
        }
    }

    #[inline]
    fn ungrant(&mut self, mode: Mode) {
        assert!(
            self.held_modes & mode.bit() != 0,
            "a latch is released in a mode in which nobody holds it: {mode:?}"
        );
        match mode {
            Mode::Sh => {
                self.sharers -= 1;
                if self.sharers > 0 {
                    return;
                }
            }
            Mode::Up | Mode::Ex => self.owner = NOBODY,
        }
        self.held_modes &= !mode.bit();
    }
}

/// Marks a place without a key.
const NO_KEY: u64 = u64::MAX;

/// The latches that are held or wanted; all others take no memory, however many pages there are.
///
/// A hash table with open addressing: a latch is at the place of its key's hash, or in the next free one after that.
#[derive(Debug)]
pub(super) struct LatchTable {
    /// A power of two of places, at most half of them taken: the key there, or [`NO_KEY`].
    keys: Vec<u64>,
    /// The latch there.
    latches: Vec<LatchState>,
    taken: usize,
}

impl Default for LatchTable {
    fn default() -> Self {
        Self::with_places(64)
    }
}

impl LatchTable {
    fn with_places(count: usize) -> Self {
        Self {
            keys: vec![NO_KEY; count],
            latches: vec![LatchState::FREE; count],
            taken: 0,
        }
    }

    pub(super) fn owner(&self, key: u64) -> Option<ProcessId> {
        let owner = self.latches[self.place(key)].owner;
        (owner != NOBODY).then_some(ProcessId(owner))
    }

    pub(super) const fn len(&self) -> usize {
        self.taken
    }

    #[inline]
    fn modes_held(&self, key: u64) -> u8 {
        self.latches[self.place(key)].held_modes
    }

    /// Where the search for a key begins: one multiplication spreads its bits, and the upper ones are taken.
    #[inline]
    fn home(&self, key: u64) -> usize {
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        spread as usize & (self.keys.len() - 1)
    }

    /// The place of a key, or the free one where it would go.
    #[inline]
    fn place(&self, key: u64) -> usize {
        let mut place = self.home(key);
        loop {
            let there = self.keys[place];
            if there == key || there == NO_KEY {
                return place;
            }
            place = (place + 1) & (self.keys.len() - 1);
        }
    }

    /// `None` if the latch was granted; otherwise the latch, for a caller that wants to wait for it.
    #[inline(always)]
    fn try_acquire(&mut self, key: u64, mode: Mode, holder: u32) -> Option<&mut LatchState> {
        let mut place = self.place(key);
        if self.keys[place] == NO_KEY {
            place = self.take(place, key);
        }
        let latch = &mut self.latches[place];
        let free = latch.waiters.is_empty() && latch.allows(mode);
        if free {
            latch.grant(mode, holder);
        }
        (!free).then_some(latch)
    }

    /// Takes the free place found for a key, or another one if the table must grow first.
    #[inline]
    fn take(&mut self, mut place: usize, key: u64) -> usize {
        debug_assert_ne!(key, NO_KEY, "this key is taken");
        if 2 * self.taken >= self.keys.len() {
            self.grow();
            place = self.place(key);
        }
        self.taken += 1;
        self.keys[place] = key;
        place
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Self::with_places(2 * self.keys.len());
        larger.taken = self.taken;
        for (&key, latch) in self.keys.iter().zip(&self.latches).filter(|&(&key, _)| key != NO_KEY) {
            let place = larger.place(key);
            larger.keys[place] = key;
            larger.latches[place] = *latch;
        }
        *self = larger;
    }

    /// Frees the place of a latch that nobody holds or wants any more. Latches behind it that would be nearer to their
    /// home there move up.
    #[inline]
    fn free(&mut self, mut gap: usize) {
        self.taken -= 1;
        let last = self.keys.len() - 1;
        let mut place = gap;
        loop {
            place = (place + 1) & last;
            let key = self.keys[place];
            if key == NO_KEY {
                break;
            }
            let from_home = place.wrapping_sub(self.home(key)) & last;
            let from_gap = place.wrapping_sub(gap) & last;
            if from_home >= from_gap {
                self.keys[gap] = key;
                self.latches[gap] = self.latches[place];
                gap = place;
            }
        }
        self.keys[gap] = NO_KEY;
        self.latches[gap] = LatchState::FREE;
    }
}

impl State {
    /// Grants the latch to a worker and returns true, or puts the worker into the latch's queue, SUSPENDED.
    fn acquire_latch(&mut self, kernel: &Kernel, id: u32, key: u64, mode: Mode, class: LatchClass) -> bool {
        let Some(latch) = self.latches.try_acquire(key, mode, id) else {
            return true;
        };
        latch.waiters.push(&mut self.workers, id);
        self.workers[id as usize].want = mode;
        self.suspend(kernel, id, class.wait_type(mode), Resource::Latch(key));
        false
    }

    /// Gives back one hold, and grants the latch to those at the head of its queue who can have it now.
    fn release_latch(&mut self, kernel: &Kernel, key: u64, mode: Mode) {
        let place = self.latches.place(key);
        let latch = &mut self.latches.latches[place];
        latch.ungrant(mode);
        if latch.is_free() {
            self.latches.free(place);
        } else {
            self.grant_waiters(kernel, place);
        }
    }

    fn grant_waiters(&mut self, kernel: &Kernel, place: usize) {
        loop {
            let latch = &mut self.latches.latches[place];
            let head = latch.waiters.head;
            if head == NOBODY || !latch.allows(self.workers[head as usize].want) {
                return;
            }
            latch.waiters.pop(&self.workers);
            latch.grant(self.workers[head as usize].want, head);
            self.make_runnable(kernel, head);
        }
    }
}

/// One latch, identified by the engine's key, such as a page's address. A handle of two words, made on the spot.
#[derive(Clone, Copy, Debug)]
pub struct Latch<'w> {
    os: &'w Sqlos,
    key: u64,
    class: LatchClass,
}

impl<'w> Latch<'w> {
    pub(super) const fn new(os: &'w Sqlos, key: u64, class: LatchClass) -> Self {
        Self { os, key, class }
    }

    /// The reported resource of its waiters.
    #[must_use]
    pub const fn resource(self) -> Resource {
        Resource::Latch(self.key)
    }

    /// Waits until the latch is granted: strictly in request order, so behind any queue, even in a mode compatible with
    /// the holders. A worker that waited holds the latch from the grant on, even before it gets its core: under load
    /// this makes convoys, as in SQL Server.
    pub const fn acquire(self, mode: Mode) -> Acquire<'w> {
        Acquire {
            latch: self,
            mode,
            queued: false,
        }
    }

    /// Takes the latch if that needs no wait. This is also how an I/O comes to hold a page: take it, [`Hold::hand_over`] it
    /// to the I/O, and [`Latch::release`] it when the I/O is done. Works outside of workers too.
    #[must_use]
    pub fn try_acquire(self, mode: Mode) -> Option<Hold<'w>> {
        let ProcessId(holder) = self.os.kernel().current();
        let granted = self.os.state().latches.try_acquire(self.key, mode, holder).is_none();
        // Not `then_some`, which would make a hold even on failure, and so release it.
        granted.then(|| Hold { latch: self, mode })
    }

    /// Releases a hold that was handed over.
    ///
    /// # Panics
    /// If nobody holds the latch in `mode`.
    pub fn release(self, mode: Mode) {
        self.os.state().release_latch(self.os.kernel(), self.key, mode);
    }

    /// Whether anybody holds the latch in a mode beside which `mode` can't be held.
    #[must_use]
    pub fn is_barred(self, mode: Mode) -> bool {
        self.os.state().latches.modes_held(self.key) & mode.conflicts() != 0
    }
}

/// A wait for a latch: [`Latch::acquire`].
#[derive(Debug)]
#[must_use = "a latch is acquired only if this is awaited"]
pub struct Acquire<'w> {
    latch: Latch<'w>,
    mode: Mode,
    queued: bool,
}

impl<'w> Future for Acquire<'w> {
    type Output = Hold<'w>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Hold<'w>> {
        let Latch { os, key, class } = self.latch;
        if !self.queued {
            let kernel = os.kernel();
            let mut state = os.state();
            let worker = state.current(kernel);
            if !state.acquire_latch(kernel, worker, key, self.mode, class) {
                self.queued = true;
                return Poll::Pending;
            }
        }
        Poll::Ready(Hold {
            latch: self.latch,
            mode: self.mode,
        })
    }
}

/// A held latch; dropping this releases it.
#[derive(Debug)]
#[must_use = "the latch is released as soon as this is dropped"]
pub struct Hold<'w> {
    latch: Latch<'w>,
    mode: Mode,
}

impl<'w> Hold<'w> {
    /// Releases the latch explicitly.
    pub fn release(self) {
        drop(self);
    }

    /// Leaves the latch held; its new owner, usually an I/O, must call [`Latch::release`] on the returned latch.
    #[must_use = "somebody must release the latch"]
    pub fn hand_over(self) -> Latch<'w> {
        let latch = self.latch;
        std::mem::forget(self);
        latch
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.latch.release(self.mode);
    }
}

#[cfg(test)]
mod tests;
