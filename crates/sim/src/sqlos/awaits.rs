//! A worker's use of its core, and its waits for a time or for another worker.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::state::Resource;
use super::waits::WaitType;
use super::{Sqlos, WAKE};
use crate::kernel::{Action, Ns, ProcessId};

impl Sqlos {
    /// Computes for `length_ns` on the worker's core, and yields the core at the end of each quantum.
    #[inline]
    pub const fn cpu(&self, length_ns: Ns) -> Cpu<'_> {
        Cpu {
            os: self,
            left_ns: length_ns,
            piece_ns: 0,
            unbroken: false,
        }
    }

    /// Computes for `length_ns` without a yield, even beyond the quantum.
    #[inline]
    pub const fn cpu_unbroken(&self, length_ns: Ns) -> Cpu<'_> {
        Cpu {
            os: self,
            left_ns: length_ns,
            piece_ns: 0,
            unbroken: true,
        }
    }

    /// Waits for `length_ns`.
    #[inline]
    pub fn sleep(&self, length_ns: Ns, wait: WaitType) -> Until<'_> {
        self.until(self.now() + length_ns, wait)
    }

    /// Waits until `time_ns`, for example for an I/O whose end the device has computed in advance.
    ///
    /// The wait panics if that time is past.
    #[inline]
    pub const fn until(&self, time_ns: Ns, wait: WaitType) -> Until<'_> {
        Until {
            os: self,
            time_ns,
            wait,
            scheduled: false,
        }
    }

    /// Waits for `resource` until [`Sqlos::unpark`] is called. The caller of that must have this worker's number.
    #[inline]
    pub const fn park(&self, wait: WaitType, resource: Resource) -> Park<'_> {
        Park {
            os: self,
            wait,
            resource,
            parked: false,
        }
    }

    /// Makes a parked worker RUNNABLE, because its resource is available.
    #[inline]
    pub fn unpark(&self, worker: ProcessId) {
        self.state().make_runnable(&self.kernel, worker.0);
    }
}

/// A use of the core: [`Sqlos::cpu`].
#[derive(Debug)]
#[must_use = "a worker computes only if it awaits this"]
pub struct Cpu<'w> {
    os: &'w Sqlos,
    left_ns: Ns,
    /// The length of the current piece. It is 0 before the first piece and during a wait for the core.
    piece_ns: Ns,
    unbroken: bool,
}

impl Future for Cpu<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.left_ns -= self.piece_ns;
        if self.left_ns == 0 {
            return Poll::Ready(());
        }
        self.go_on()
    }
}

impl Cpu<'_> {
    fn go_on(&mut self) -> Poll<()> {
        let kernel = &self.os.kernel;
        self.piece_ns = 0;
        while self.left_ns > 0 {
            let Some(piece_ns) = self.next_piece_ns() else {
                return Poll::Pending;
            };
            if !kernel.try_advance(piece_ns) {
                self.piece_ns = piece_ns;
                kernel.resume_at(kernel.now() + piece_ns, kernel.current());
                return Poll::Pending;
            }
            self.left_ns -= piece_ns;
        }
        Poll::Ready(())
    }

    /// Returns how long the worker can continue: to the end of its quantum, or of a new quantum if it may stay. Returns
    /// `None` if it had to leave its core.
    #[inline]
    fn next_piece_ns(&self) -> Option<Ns> {
        let kernel = &self.os.kernel;
        let mut state = self.os.state();
        let worker = state.current(kernel);
        if self.unbroken {
            return Some(self.left_ns);
        }
        let scheduler = state.workers[worker as usize].scheduler as usize;
        let mut quantum_ends_ns = state.schedulers[scheduler].quantum_ends_ns;
        if quantum_ends_ns <= kernel.now() {
            if !state.yield_core(kernel, worker) {
                return None;
            }
            quantum_ends_ns = state.schedulers[scheduler].quantum_ends_ns;
        }
        Some(self.left_ns.min(quantum_ends_ns - kernel.now()))
    }
}

/// A wait for a time: [`Sqlos::sleep`] and [`Sqlos::until`].
#[derive(Debug)]
#[must_use = "a worker waits only if it awaits this"]
pub struct Until<'w> {
    os: &'w Sqlos,
    time_ns: Ns,
    wait: WaitType,
    scheduled: bool,
}

impl Future for Until<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.scheduled {
            return Poll::Ready(());
        }
        self.scheduled = true;
        let kernel = &self.os.kernel;
        let mut state = self.os.state();
        let worker = state.current(kernel);
        let scheduler = state.workers[worker as usize].scheduler;
        state.arrive_at(kernel, self.time_ns, scheduler, Action::call(WAKE, worker));
        state.suspend(kernel, worker, self.wait, Resource::None);
        Poll::Pending
    }
}

/// A wait that another worker or a handler ends: [`Sqlos::park`].
#[derive(Debug)]
#[must_use = "a worker waits only if it awaits this"]
pub struct Park<'w> {
    os: &'w Sqlos,
    wait: WaitType,
    resource: Resource,
    parked: bool,
}

impl Future for Park<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.parked {
            return Poll::Ready(());
        }
        self.parked = true;
        let kernel = &self.os.kernel;
        let mut state = self.os.state();
        let worker = state.current(kernel);
        state.suspend(kernel, worker, self.wait, self.resource);
        Poll::Pending
    }
}

impl Sqlos {
    pub(super) fn on_alarm(&self, scheduler: u32) {
        self.state().alarm(&self.kernel, scheduler);
    }
}
