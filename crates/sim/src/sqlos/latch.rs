//! Latches: short locks on pages and other structures in memory, in the modes that the engine uses.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasherDefault, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Sqlos;
use super::state::{NOBODY, Queue, Resource, State, Worker};
use super::waits::WaitType;
use crate::kernel::ProcessId;

/// How a latch is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Shared, to read. It is compatible with `Sh` and `Up`.
    Sh,
    /// Update, for a change during which readers may read, as in a PFS page. It is compatible with `Sh`.
    Up,
    /// Exclusive, for any change. It is compatible with no mode.
    Ex,
}

impl Mode {
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns the modes that can't be held at the same time as this one, as bits.
    const fn conflicts(self) -> u8 {
        match self {
            Self::Sh => Self::Ex.bit(),
            Self::Up => Self::Up.bit() | Self::Ex.bit(),
            Self::Ex => Self::Sh.bit() | Self::Up.bit() | Self::Ex.bit(),
        }
    }
}

/// What is latched. It determines the name of the wait.
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

/// A latch that is held or requested.
#[derive(Clone, Debug)]
pub(super) struct LatchState {
    /// The number of workers that hold it in [`Mode::Sh`]. Only this mode can be held by several workers.
    sharers: u32,
    /// The modes in which it is held, as bits.
    held_modes: u8,
    waiters: Queue,
    /// The worker that holds it in another mode, or nobody if an I/O does.
    owner: u32,
}

impl LatchState {
    const FREE: Self = Self {
        sharers: 0,
        held_modes: 0,
        waiters: Queue::EMPTY,
        owner: NOBODY,
    };

    /// Returns the worker that holds it in another mode than `Sh`.
    pub(super) fn blocker(&self) -> Option<ProcessId> {
        (self.owner != NOBODY).then_some(ProcessId(self.owner))
    }

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

    /// Grants the latch to the head of its queue, if the head's mode is compatible with the present holders.
    fn grant_first(&mut self, workers: &[Worker]) -> Option<u32> {
        let head = self.waiters.head;
        if head == NOBODY || !self.allows(workers[head as usize].want) {
            return None;
        }
        self.waiters.pop(workers);
        self.grant(workers[head as usize].want, head);
        Some(head)
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

/// The latches that are held or requested, by their keys. All other latches take no memory.
pub(super) type LatchTable = HashMap<u64, LatchState, BuildHasherDefault<KeyHasher>>;

/// A multiplication mixes a key's bits, and a rotation moves the best mixed bits to the end.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key is a whole number")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

impl State {
    /// Returns `None` if the latch was granted. Otherwise returns its queue, so that the caller can wait for the latch.
    #[inline(always)]
    fn try_latch(&mut self, key: u64, mode: Mode, holder: u32) -> Option<(&mut Queue, &mut [Worker])> {
        let latch = self.latches.entry(key).or_insert(LatchState::FREE);
        let free = latch.waiters.is_empty() && latch.allows(mode);
        if free {
            latch.grant(mode, holder);
        }
        (!free).then_some((&mut latch.waiters, &mut self.workers))
    }
}

/// One latch, identified by the engine's key, such as a page's address. It is a handle of two words, made when needed.
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

    /// Returns the resource that samples report for workers that wait for this latch.
    #[must_use]
    pub const fn resource(self) -> Resource {
        Resource::Latch(self.key)
    }

    /// Waits until the latch is granted. Grants are strictly in request order, so a worker waits behind any queue, even
    /// in a mode that is compatible with the holders. From the grant on, the worker holds the latch, even before it
    /// gets its core. Under load this makes convoys, as in SQL Server.
    pub const fn acquire(self, mode: Mode) -> Acquire<'w> {
        Acquire {
            latch: self,
            mode,
            queued: false,
        }
    }

    /// Takes the latch if it can be granted now, also outside of workers. An I/O holds a page in this way too: take the
    /// latch, give it to the I/O with [`Hold::hand_over`], and call [`Latch::release`] when the I/O is done.
    #[must_use]
    pub fn try_acquire(self, mode: Mode) -> Option<Hold<'w>> {
        let ProcessId(holder) = self.os.kernel().current();
        let granted = self.os.state().try_latch(self.key, mode, holder).is_none();
        // `then_some` would make a hold even on failure, and then release it.
        granted.then(|| Hold { latch: self, mode })
    }

    /// Releases a hold that was handed over. Grants the latch to those at the head of its queue that can have it.
    ///
    /// # Panics
    /// Panics if nobody holds the latch in `mode`.
    pub fn release(self, mode: Mode) {
        let state = &mut *self.os.state();
        let latch = state.latches.entry(self.key).or_insert(LatchState::FREE);
        latch.ungrant(mode);
        if latch.is_free() {
            state.latches.remove(&self.key);
            return;
        }
        let next = |state: &mut State| state.latches.get_mut(&self.key)?.grant_first(&state.workers);
        while let Some(head) = next(state) {
            state.make_runnable(self.os.kernel(), head);
        }
    }

    /// Whether the latch is held in a mode that is incompatible with `mode`.
    #[must_use]
    pub fn is_barred(self, mode: Mode) -> bool {
        let state = self.os.state();
        state.latches.get(&self.key).is_some_and(|latch| !latch.allows(mode))
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
            let state = &mut *os.state();
            let worker = state.current(kernel);
            if let Some((waiters, workers)) = state.try_latch(key, self.mode, worker) {
                waiters.push(workers, worker);
                workers[worker as usize].want = self.mode;
                state.suspend(kernel, worker, class.wait_type(self.mode), Resource::Latch(key));
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

/// A held latch. When this is dropped, the latch is released.
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

    /// Leaves the latch held. Its new owner, usually an I/O, must call [`Latch::release`] on the returned latch.
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
