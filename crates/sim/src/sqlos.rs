//! SQL Server's cooperative scheduling on simulated cores, with every nanosecond of every worker accounted for.
//!
//! # What is modelled
//! Each core has a *scheduler* with one RUNNING worker and a first-in-first-out queue of RUNNABLE ones. A *worker* (a session,
//! the checkpoint, the lazy writer) is one future; it belongs to one scheduler for life, round robin. It is
//! - RUNNING while it awaits [`Sqlos::cpu`],
//! - SUSPENDED from the moment it begins to wait for a resource until the resource is available: *resource time*,
//! - RUNNABLE from then until its core takes it up: *signal time*.
//!
//! So a wait in the books is the same as in `sys.dm_os_wait_stats`: resource + signal, by [`WaitType`].
//!
//! # What was chosen, and why
//! - **Yields.** A quantum of 4 ms starts afresh whenever a worker gets its core. A worker that has used it up and has
//!   more to do goes to the tail of its queue, and `SOS_SCHEDULER_YIELD` counts one wait, without resource time. As in
//!   SQL Server, it also counts one if no other worker is runnable and the worker gets its core back in the same
//!   nanosecond: the yield enters the scheduler's code, and is a wait of length 0. A burst that ends exactly with its
//!   quantum does not yield; the next one would. So a session in memory counts its CPU time / 4 ms, and one that often
//!   waits for I/O counts next to nothing.
//! - **Where a burst may be cut.** SQLOS is cooperative: a worker yields where its code allows it. [`Sqlos::cpu`] may
//!   be cut at the end of every quantum, like a loop over rows; [`Sqlos::cpu_unbroken`] is for code without a yield,
//!   such as a short stretch under a latch: it may overrun, and the next `cpu` yields first.
//! - **Notice.** Completed I/O and expired timers are noticed when the scheduler's code runs, that is at the next switch or
//!   yield on their scheduler ([`Notice::AtSwitch`]), or at once if it is idle. Until then, the waiter is SUSPENDED. A
//!   worker that releases a latch or sets an event makes the waiting worker RUNNABLE at once. At a switch, the
//!   scheduler notices arrivals before the leaving worker goes to the tail.
//! - **Latches** are granted strictly in request order, and belong to the waiter from the grant on, even while it still
//!   queues for its core. Workers don't spin.
//! - **Starting.** The time from a worker's birth to its first turn is signal time of the made-up type `WORKER_START`.
//! - Not modelled: priorities, preemptive waits, moves between schedulers, the cost of a switch, row locks.
//!
//! # Conservation
//! The end of every run, and [`Sqlos::books`] at any time, assert to the nanosecond that CPU + waits + time finished =
//! time lived for each worker, and that each core, by its own record, was busy as long as its workers ran.

mod awaits;
mod crowds;
mod event;
mod latch;
mod machine;
mod scheduler;
mod state;
mod waits;

use std::cell::{Cell, RefCell, RefMut};

pub use awaits::Park;
pub use event::{Event, Semaphore};
use latch::LatchState;
pub use latch::{Hold, Latch, LatchClass, Mode};
pub use machine::{Machine, Progress};
pub use state::Resource;
use state::State;
use state::WorkerState;
pub use waits::{Account, WaitType};

use crate::kernel::{Action, Kernel, MS, Ns, Port, ProcessId};

/// A scheduler notices that a sleeping worker's time has come; the token is the worker.
const WAKE: Port = Port::new(1);
/// An idle scheduler has something to notice; the token is the scheduler.
const ALARM: Port = Port::new(2);
/// An idle scheduler has woken up to run a worker; the token is the scheduler.
const AWAKE: Port = Port::new(3);

/// When a scheduler notices that an I/O is done or a timer has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// In that nanosecond.
    AtOnce,
    /// When a worker leaves the scheduler's core or yields it; at once if the core is idle.
    AtSwitch,
}

/// How the cores are scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// One a core; at least 1.
    pub schedulers: u32,
    /// The longest time that a worker may run without a yield, if its code can yield; at least 1.
    pub quantum_ns: Ns,
    /// When completions are noticed.
    pub notice: Notice,
    /// How long an idle core takes until it runs a worker that became runnable.
    pub wake_ns: Ns,
}

impl Config {
    /// SQL Server's configuration on this many cores: 4 ms, completions noticed at the switch; idle cores wake up at once.
    #[must_use]
    pub const fn new(schedulers: u32) -> Self {
        Self {
            schedulers,
            quantum_ns: 4 * MS,
            notice: Notice::AtSwitch,
            wake_ns: 0,
        }
    }
}

/// A worker that waits for a resource, as in `sys.dm_os_waiting_tasks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    /// Who waits.
    pub worker: ProcessId,
    /// In what type of wait.
    pub wait: WaitType,
    /// For what.
    pub resource: Resource,
    /// Since when.
    pub since_ns: Ns,
    /// The holder, if it is a single worker and not an I/O.
    pub blocker: Option<ProcessId>,
}

/// Whether a run waits for a worker's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Yes: a connection with its work to do.
    Session,
    /// No: the checkpoint, the lazy writer.
    Background,
}

/// One worker's books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerBooks {
    /// Who.
    pub worker: ProcessId,
    /// What for.
    pub role: Role,
    /// The account of its time, from its start until now.
    pub account: Account,
}

/// The account of all workers' time until now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    /// Now.
    pub elapsed_ns: Ns,
    /// All sessions together.
    pub sessions: Account,
    /// All background workers together.
    pub background: Account,
    /// Each worker, in the order of spawning.
    pub workers: Vec<WorkerBooks>,
}

/// The cores, their workers and the resources they wait for. Borrowed by engine code as `&Sqlos`.
#[derive(Debug)]
pub struct Sqlos {
    kernel: Kernel,
    state: RefCell<State>,
    /// Sessions that have not ended.
    open_sessions: Cell<usize>,
}

impl Sqlos {
    /// Idle cores at time 0.
    ///
    /// # Panics
    /// If there is no scheduler, or the quantum is 0.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(config.schedulers > 0, "there must be a scheduler");
        assert!(config.quantum_ns > 0, "a quantum must have a length");
        Self {
            kernel: Kernel::new(),
            state: RefCell::new(State::new(config)),
            open_sessions: Cell::new(0),
        }
    }

    /// The clock and the event list beneath, for devices.
    #[must_use]
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Ns {
        self.kernel.now()
    }

    /// The scheduler of the running worker; `None` in a handler or a process of the kernel's.
    #[must_use]
    pub fn current_scheduler(&self) -> Option<u32> {
        let state = self.state();
        let worker = state.workers.get(self.kernel.current().index())?;
        (worker.state == WorkerState::Running).then_some(worker.scheduler)
    }

    /// A handle to the latch called `key`; the class names its waits.
    #[must_use]
    pub const fn latch(&self, key: u64, class: LatchClass) -> Latch<'_> {
        Latch::new(self, key, class)
    }

    /// Schedules `action` for the moment when `scheduler` next notices completions for which no worker waits, such as a
    /// checkpoint's write. A port of the engine then does the rest.
    #[inline(always)]
    pub fn arrive(&self, scheduler: u32, action: Action) {
        self.state().arrive(&self.kernel, scheduler, action);
    }

    /// The same for a completion due at `time_ns`. It costs no event if the scheduler's code runs soon enough anyway.
    ///
    /// # Panics
    /// If that time is past.
    #[inline]
    pub fn arrive_at(&self, time_ns: Ns, scheduler: u32, action: Action) {
        self.state().arrive_at(&self.kernel, time_ns, scheduler, action);
    }

    /// How many workers are RUNNABLE, on all schedulers.
    #[must_use]
    pub fn runnable(&self) -> u32 {
        self.state().schedulers.iter().map(|core| core.runnable_count).sum()
    }

    /// How many latches are held or wanted.
    #[must_use]
    pub fn latches_in_use(&self) -> usize {
        self.state().latches.len()
    }

    /// The SUSPENDED workers and what they wait for, in the order of their numbers.
    #[must_use]
    pub fn waiting_tasks(&self) -> Vec<WaitingTask> {
        let state = self.state();
        let suspended = (0_u32..)
            .zip(&state.workers)
            .filter(|(_, worker)| worker.state == WorkerState::Suspended);
        let task = |(id, worker): (u32, &state::Worker)| WaitingTask {
            worker: ProcessId(id),
            wait: worker.wait,
            resource: worker.resource,
            since_ns: worker.waits_since_ns,
            blocker: match worker.resource {
                Resource::Latch(key) => state.latches.get(&key).and_then(LatchState::blocker),
                Resource::Event(_) | Resource::None => None,
            },
        };
        suspended.map(task).collect()
    }

    /// The account of all workers' time until now, including open waits. May be called at any time.
    ///
    /// # Panics
    /// If a nanosecond of a worker or of a core is unaccounted for.
    #[must_use]
    pub fn books(&self) -> Books {
        let elapsed_ns = self.now();
        let mut state = self.state();
        state.settle(elapsed_ns);
        let mut books = Books {
            elapsed_ns,
            sessions: Account::default(),
            background: Account::default(),
            workers: Vec::new(),
        };
        for (id, state::Life { role, account, .. }) in (0_u32..).zip(&state.lives) {
            let Some(role) = *role else { continue };
            match role {
                Role::Session => books.sessions.add(account),
                Role::Background => books.background.add(account),
            }
            books.workers.push(WorkerBooks {
                worker: ProcessId(id),
                role,
                account: account.clone(),
            });
        }
        books
    }

    /// A hash of the order in which workers got cores, the times, and their waits. Unequal runs hardly ever share it.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.state().fingerprint
    }

    #[inline]
    fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }
}

#[cfg(test)]
mod tests;
