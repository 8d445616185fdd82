//! Simulated time, the future-event list, and the executor that runs `async` functions as simulated processes.
//!
//! # The design
//! A discrete-event simulation is a loop: take the earliest event, set the clock to its time, and perform its action.
//! Most actions resume a *process*. A process is one Rust future of a few hundred bytes, without a stack of its own. It
//! reads like the thing that it models, and stops at each `.await` until its next event.
//!
//! **Executor without wakers.** Rust's `Waker` allows any thread to wake any task at any time. It takes a reference
//! count and a virtual call per wait. Here everything runs on one thread, and the number of the process to wake is
//! always known. So a waiting future stores its process's number with the thing that it waits for
//! ([`Kernel::current`]), and is resumed by that number ([`Kernel::resume`], [`Kernel::at`]). Futures are polled with a
//! waker that does nothing. So a future from another library that relies on its waker would never be resumed.
//!
//! **One order.** Events of the same nanosecond happen in the order in which they were scheduled ([`EventList`]).
//! Resumed processes run in the order in which they were resumed. Nothing depends on addresses, hashes or real time, so
//! a run depends only on its inputs.
//!
//! **One list of events per owner**, all of type [`EventList`]. The kernel's list wakes processes and calls ports. A
//! scheduler's list has the completions that it has not noticed yet ([`crate::sqlos`]). The scheduler reads it when a
//! worker leaves its core, so most completions never become events of the kernel. A volume's list has the events of its
//! drives and its link ([`crate::volume`], `array`). The volume schedules one event of the kernel at the earliest time
//! in its list. A test of raw I/O has a list of the requests whose ends are known, because it has no processes.
//!
//! **References, not counted pointers.** The world (kernel, engine, drives) is built first. Every future borrows it as
//! a plain `&'w`. The [`Executor`], which owns the futures, is built last. State inside the world is in `Cell`s and
//! `RefCell`s. A borrow must never be held across an `.await`.
//!
//! **Two forms of component.** A component that does several things in order (a session, the lazy writer) is a process.
//! A component that only reacts is a *port*: a handler that is called with a number of 28 bits at a chosen time
//! ([`Executor::on`], [`Kernel::at`] with [`Action::call`]). A drive that can compute its completion times in advance
//! needs neither.
//!
//! **Jumps.** If a process sleeps until a time before all other events, the kernel only moves the clock, and the
//! process continues at once ([`Kernel::try_advance`]). The order of all events is exactly the same, as tests check.
//! [`Kernel::set_jumps`] turns jumps off.
//!
//! # Rules for authors of processes
//! - A process awaits one thing at a time, until its end. It uses no `select`, and never drops a started wait.
//! - No `RefCell` borrow is held across an `.await`.
//! - Random numbers come from the component's own stream ([`crate::rng`]).

mod event_list;
mod executor;

pub use event_list::{Action, EventList, Port, TIME_LIMIT_NS};
pub use executor::{Executor, Halt, Kernel, ProcessId};

/// A simulated time, or a duration, in nanoseconds. The clock starts at 0.
pub type Ns = u64;

/// A microsecond.
pub const US: Ns = 1_000;
/// A millisecond.
pub const MS: Ns = 1_000 * US;
/// A second.
pub const SEC: Ns = 1_000 * MS;

/// Returns how long `amount` takes at a rate of `per_s` per second, rounded up to whole nanoseconds.
#[must_use]
pub fn takes_ns(amount: u64, per_s: u64) -> Ns {
    let ns = (u128::from(amount) * u128::from(SEC)).div_ceil(u128::from(per_s));
    u64::try_from(ns).unwrap_or(Ns::MAX / 2)
}

/// Converts seconds at life-size to a world `scale` times smaller. They must be positive and fewer than a million.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive and small"
)]
pub fn scaled_ns(seconds: f64, scale: u32) -> Ns {
    (seconds * 1e9) as Ns / u64::from(scale)
}

#[cfg(test)]
mod tests;
