//! Simulated time, the future-event list, and the executor that turns `async` functions into simulated processes.
//!
//! # The design
//! A discrete-event simulation is a loop: take the earliest event, set the clock to its time, let it act. The actor is
//! mostly a *process*: one Rust future, stackless and of a few hundred bytes, that reads like the thing it models and
//! stops at each `.await` until its next event.
//!
//! **Executor without wakers.** Rust's `Waker` exists so that any thread may wake any task at any time: it costs a
//! reference count and a virtual call per wait. Here everything runs on one thread, and the process to wake is always
//! known by its number. So a waiting future stores its process's number with the resource for which it waits
//! ([`Kernel::current`]), and the number resumes it ([`Kernel::resume`], [`Kernel::at`]). Futures are polled with a
//! waker that does nothing: a future from elsewhere that relies on its waker would never be resumed.
//!
//! **One order.** Events of the same nanosecond happen in the order in which they were scheduled ([`EventList`]), resumed
//! processes in the order in which they were resumed. Nothing depends on addresses, hashes or real time, so a run is a
//! function of its inputs.
//!
//! **A list of events for each owner**, all of one type ([`EventList`]). The kernel's list has the events that wake
//! processes and call ports. A scheduler's list has the completions that it has not noticed yet ([`crate::sqlos`]). The
//! scheduler looks there when a worker leaves its core, so most completions never become events of the kernel. A
//! volume's list has the events that are due on its drives and its link ([`crate::volume`], `array`). It requests one
//! event of the kernel, at its earliest time. A test of raw I/O, without processes, lists its requests.
//!
//! **References, not counted pointers.** The world (kernel, engine, drives) is built first and borrowed by every future as a
//! plain `&'w`; the [`Executor`] that owns the futures is built last. State inside the world is in `Cell`s and
//! `RefCell`s; a borrow must never be held across an `.await`.
//!
//! **Two forms of component.** A component with several steps (a session, the lazy writer, a disk with a queue) is a
//! process. A component that only reacts is a *port*: a handler called with a number of 28 bits at a chosen time
//! ([`Executor::on`], [`Kernel::at`] with [`Action::call`]). A drive that can compute its completion times in advance
//! needs no process at all.
//!
//! **Jumps.** If a process sleeps until a time before every other event, it need not leave the processor. The kernel
//! moves the clock, and the process continues ([`Kernel::try_advance`]). Tests check that the order of everything stays
//! exactly the same. [`Kernel::set_jumps`] turns jumps off.
//!
//! # Rules for those who write processes
//! - A process awaits one thing at a time, to its end: no `select`, no dropping of a started wait.
//! - No `RefCell` borrow across an `.await`.
//! - Random numbers come from the component's own stream ([`crate::rng`]).

mod event_list;
mod executor;

pub use event_list::{Action, EventList, Port, TIME_LIMIT_NS};
pub use executor::{Executor, Halt, Kernel, ProcessId};

/// Simulated time, or a length of it, in nanoseconds. The clock starts at 0.
pub type Ns = u64;

/// A microsecond.
pub const US: Ns = 1_000;
/// A millisecond.
pub const MS: Ns = 1_000 * US;
/// A second.
pub const SEC: Ns = 1_000 * MS;

/// The time that `amount` takes at `per_s` a second, rounded up to a whole nanosecond.
#[must_use]
pub fn takes_ns(amount: u64, per_s: u64) -> Ns {
    let ns = (u128::from(amount) * u128::from(SEC)).div_ceil(u128::from(per_s));
    u64::try_from(ns).unwrap_or(Ns::MAX / 2)
}

/// Seconds at life-size, positive and fewer than a million, in a world `scale` times smaller.
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
