//! SQL Server's cooperative scheduling on simulated cores. Every nanosecond of every worker is accounted for.
//!
//! # What is modelled
//! Each core has a *scheduler* with one RUNNING worker and a first-in-first-out queue of RUNNABLE ones. A *worker* (a
//! session, the checkpoint, the lazy writer) is one future. It stays on one scheduler, assigned in turn. It is
//! - RUNNING while it awaits [`Sqlos::cpu`],
//! - SUSPENDED from the beginning of a wait until the resource is available: this is *resource time*,
//! - RUNNABLE after that until it gets its core: this is *signal time*.
//!
//! So a wait is counted as in `sys.dm_os_wait_stats`: resource + signal, by [`WaitType`].
//!
//! # What was chosen, and why
//! - **Yields.** A new quantum of 4 ms begins when a worker gets its core. A worker that has used it up and has more to
//!   do goes to the end of its queue. `SOS_SCHEDULER_YIELD` then counts one wait, without resource time. As in SQL
//!   Server, it also counts one if no other worker is runnable. The worker then gets its core back in the same
//!   nanosecond, so this wait has length 0. A burst that ends exactly with its quantum does not yield, but the next one
//!   does. So a session in memory counts its CPU time / 4 ms, and a session that often waits for I/O counts almost
//!   none.
//! - **Where a burst may be cut.** SQLOS is cooperative: a worker yields only where its code allows it. [`Sqlos::cpu`]
//!   is cut at the end of every quantum, like a loop over rows. [`Sqlos::cpu_unbroken`] is for code without a yield,
//!   such as short work under a latch. It may last longer than the quantum, and the next `cpu` then yields first.
//! - **Notice.** A scheduler notices completed I/O and expired timers when its code runs: at its next switch or yield
//!   ([`Notice::AtSwitch`]), or at once if it is idle. Until then the waiting worker is SUSPENDED. A worker that
//!   releases a latch or sets an event makes the waiting worker RUNNABLE at once. At a switch, the scheduler notices
//!   completions before the worker that leaves goes to the end of the queue.
//! - **Latches** are granted strictly in request order. From the grant on, the worker holds the latch, even while it
//!   still queues for its core. Workers don't spin.
//! - **Start.** The time before a worker's first turn is signal time of `WORKER_START`, a type that SQL Server lacks.
//! - Not modelled: priorities, preemptive waits, moves between schedulers, the cost of a switch, row locks.
//!
//! # Conservation
//! At a run's end, and in [`Sqlos::books`], assertions check to the nanosecond that each worker's CPU + waits +
//! finished time is its lifetime, and that each core was busy, by its own record, for the CPU time of its workers.

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

/// The event that a worker's sleep is over, which its scheduler notices. The token is the worker.
const WAKE: Port = Port::new(1);
/// The event that an idle scheduler has something to notice. The token is the scheduler.
const ALARM: Port = Port::new(2);
/// The event that an idle scheduler has woken up to run a worker. The token is the scheduler.
const AWAKE: Port = Port::new(3);

/// When a scheduler notices that an I/O is done or a timer has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// In the same nanosecond.
    AtOnce,
    /// When a worker leaves or yields the scheduler's core, or at once if the core is idle.
    AtSwitch,
}

/// The configuration of the schedulers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of schedulers. Each core has one. At least 1.
    pub schedulers: u32,
    /// The longest time that a worker runs without a yield, if its code can yield. At least 1.
    pub quantum_ns: Ns,
    /// When completions are noticed.
    pub notice: Notice,
    /// The time that an idle core takes until it runs a worker that became runnable.
    pub wake_ns: Ns,
}

impl Config {
    /// SQL Server's configuration: a quantum of 4 ms, and completions noticed at a switch. Idle cores wake up at once.
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
    /// The worker that waits.
    pub worker: ProcessId,
    /// The type of the wait.
    pub wait: WaitType,
    /// The resource that it waits for.
    pub resource: Resource,
    /// The time when the wait began.
    pub since_ns: Ns,
    /// The worker that holds the resource, if a single worker and not an I/O holds it.
    pub blocker: Option<ProcessId>,
}

/// Whether a run lasts until the worker's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It does. The worker is a connection with work to do.
    Session,
    /// It does not. The worker is the checkpoint or the lazy writer.
    Background,
}

/// The account of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerBooks {
    /// The worker.
    pub worker: ProcessId,
    /// Its role.
    pub role: Role,
    /// The account of its time, from its start until now.
    pub account: Account,
}

/// The accounts of all workers' time until now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    /// The present time.
    pub elapsed_ns: Ns,
    /// The sum over all sessions.
    pub sessions: Account,
    /// The sum over all background workers.
    pub background: Account,
    /// The account of each worker, in the order of spawning.
    pub workers: Vec<WorkerBooks>,
}

/// The cores, their workers, and the resources that these wait for. The engine's code borrows it as `&Sqlos`.
#[derive(Debug)]
pub struct Sqlos {
    kernel: Kernel,
    state: RefCell<State>,
    /// The number of sessions that have not ended.
    open_sessions: Cell<usize>,
}

impl Sqlos {
    /// Makes idle cores at time 0.
    ///
    /// # Panics
    /// Panics if there is no scheduler, or the quantum is 0.
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

    /// Returns the clock and the event list, for devices.
    #[must_use]
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the present simulated time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Ns {
        self.kernel.now()
    }

    /// Returns the scheduler of the running worker, or `None` in a handler or in a process that is no worker.
    #[must_use]
    pub fn current_scheduler(&self) -> Option<u32> {
        let state = self.state();
        let worker = state.workers.get(self.kernel.current().index())?;
        (worker.state == WorkerState::Running).then_some(worker.scheduler)
    }

    /// Returns a handle to the latch with the key `key`. The class determines the names of its waits.
    #[must_use]
    pub const fn latch(&self, key: u64, class: LatchClass) -> Latch<'_> {
        Latch::new(self, key, class)
    }

    /// Schedules `action` for the time when `scheduler` next notices completions. This is for completions for which no
    /// worker waits, such as a checkpoint's write. A handler of the engine then does the rest.
    #[inline(always)]
    pub fn arrive(&self, scheduler: u32, action: Action) {
        self.state().arrive(&self.kernel, scheduler, action);
    }

    /// Like [`Sqlos::arrive`], at `time_ns`. No event is needed if the scheduler's code runs soon enough anyway.
    ///
    /// # Panics
    /// Panics if that time is past.
    #[inline]
    pub fn arrive_at(&self, time_ns: Ns, scheduler: u32, action: Action) {
        self.state().arrive_at(&self.kernel, time_ns, scheduler, action);
    }

    /// How many workers are RUNNABLE, on all schedulers.
    #[must_use]
    pub fn runnable(&self) -> u32 {
        self.state().schedulers.iter().map(|core| core.runnable_count).sum()
    }

    /// The number of latches that are held or requested.
    #[must_use]
    pub fn latches_in_use(&self) -> usize {
        self.state().latches.len()
    }

    /// Returns the SUSPENDED workers and what they wait for, in the order of their numbers.
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

    /// Returns the accounts of all workers' time until now, including open waits. It may be called at any time.
    ///
    /// # Panics
    /// Panics if a nanosecond of a worker or of a core is not accounted for.
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

    /// A hash of which worker got a core, when, and after which wait. Equal runs have equal hashes; others hardly ever.
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
