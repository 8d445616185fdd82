//! The state of workers, schedulers and events, and the check that no time is lost. `scheduler` changes this state.

use super::crowds::{Crowd, first_of, nobody_waits};
use super::latch::{LatchTable, Mode};
use super::waits::{Account, WaitType};
use super::{Config, Role};
use crate::kernel::{EventList, Ns};

/// Stands for no worker: the end of a queue, or an idle scheduler.
pub(super) const NOBODY: u32 = u32::MAX;

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It has its core.
    Running,
    /// It waits for its core.
    Runnable,
    /// It waits for a resource.
    Suspended,
    /// It has ended.
    Finished,
    /// It is no worker but another process of the kernel.
    Foreign,
}

/// What a worker waits for, by the engine's key or label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A latch, identified by its key.
    Latch(u64),
    /// An event or a semaphore, by the label that the engine gave it.
    Event(u64),
    /// Something without a name: a time, or a turn on the core.
    None,
}

/// The part of a worker's state that every change needs. It fits into one line of the processor's cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Worker {
    pub(super) state: WorkerState,
    /// The type of its present or last wait.
    pub(super) wait: WaitType,
    pub(super) want: Mode,
    /// The index of the first crowd of its role.
    pub(super) first_crowd: u16,
    pub(super) scheduler: u32,
    /// The next worker in the queue that this worker is in.
    pub(super) next: u32,
    /// The time when its present state began.
    pub(super) since_ns: Ns,
    /// The time when its last wait began.
    pub(super) waits_since_ns: Ns,
    /// The time RUNNING, and the time SUSPENDED in the present wait, that are not in its account yet.
    pub(super) cpu_ns: Ns,
    pub(super) resource_ns: Ns,
    pub(super) resource: Resource,
}

const _: () = assert!(size_of::<Worker>() == 64);

/// The part of a worker's state that is seldom needed.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) born_ns: Ns,
    /// `None` for a process that is no worker.
    pub(super) role: Option<Role>,
    /// The account of its time, except for the latest part, which is in [`Worker`].
    pub(super) account: Account,
}

impl Worker {
    /// Makes the entry of a process that is no worker, so that the table has no gap.
    pub(super) const fn foreign(now_ns: Ns) -> Self {
        Self {
            state: WorkerState::Foreign,
            wait: WaitType::WorkerStart,
            want: Mode::Sh,
            first_crowd: first_of(Role::Background),
            scheduler: 0,
            next: NOBODY,
            since_ns: now_ns,
            waits_since_ns: now_ns,
            cpu_ns: 0,
            resource_ns: 0,
            resource: Resource::None,
        }
    }
}

impl Life {
    pub(super) fn foreign(now_ns: Ns) -> Self {
        Self {
            born_ns: now_ns,
            role: None,
            account: Account::default(),
        }
    }
}

/// A queue of workers, linked by [`Worker::next`]. Each worker is in one queue at most, so queues need no other memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) head: u32,
    tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self {
        head: NOBODY,
        tail: NOBODY,
    };

    pub(super) const fn is_empty(self) -> bool {
        self.head == NOBODY
    }

    pub(super) fn push(&mut self, workers: &mut [Worker], worker: u32) {
        workers[worker as usize].next = NOBODY;
        if self.is_empty() {
            self.head = worker;
        } else {
            workers[self.tail as usize].next = worker;
        }
        self.tail = worker;
    }

    pub(super) fn pop(&mut self, workers: &[Worker]) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let worker = self.head;
        self.head = workers[worker as usize].next;
        Some(worker)
    }
}

#[derive(Debug)]
pub(super) struct Scheduler {
    /// The running worker, or [`NOBODY`] if the scheduler is idle.
    pub(super) running: u32,
    /// Whether it is idle but will soon take the first worker of its queue.
    pub(super) wakes: bool,
    pub(super) runnable: Queue,
    pub(super) runnable_count: u32,
    pub(super) quantum_ends_ns: Ns,
    /// Completions and timers that are not noticed yet. Some of them are in the future.
    pub(super) coming: EventList,
    /// When this scheduler's code will run even if no worker leaves its core; [`Ns::MAX`] if it will not.
    pub(super) alarm_ns: Ns,
    /// The time when it last became busy, and the sum of its busy times before that.
    pub(super) busy_since_ns: Ns,
    pub(super) busy_ns: Ns,
}

/// One [`super::Event`]'s state.
#[derive(Clone, Debug)]
pub(super) struct EventState {
    pub(super) set: bool,
    pub(super) waiters: Queue,
    pub(super) label: u64,
    /// The number of handles. At 0, the slot is free.
    pub(super) references: u32,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) config: Config,
    pub(super) workers: Vec<Worker>,
    pub(super) lives: Vec<Life>,
    pub(super) schedulers: Vec<Scheduler>,
    pub(super) latches: LatchTable,
    pub(super) events: Vec<EventState>,
    pub(super) free_events: Vec<u32>,
    /// The scheduler of the next worker.
    pub(super) next_scheduler: u32,
    pub(super) fingerprint: u64,
    pub(super) crowds: Vec<Crowd>,
}

impl State {
    pub(super) fn new(config: Config) -> Self {
        let scheduler = |_| Scheduler {
            running: NOBODY,
            wakes: false,
            runnable: Queue::EMPTY,
            runnable_count: 0,
            quantum_ends_ns: 0,
            coming: EventList::new(),
            alarm_ns: Ns::MAX,
            busy_since_ns: 0,
            busy_ns: 0,
        };
        Self {
            workers: Vec::new(),
            lives: Vec::new(),
            schedulers: (0..config.schedulers).map(scheduler).collect(),
            latches: LatchTable::default(),
            events: Vec::new(),
            free_events: Vec::new(),
            next_scheduler: 0,
            fingerprint: 0xcbf2_9ce4_8422_2325,
            crowds: nobody_waits(),
            config,
        }
    }

    /// Charges all time up to now, and checks that no nanosecond is lost or counted twice.
    pub(super) fn settle(&mut self, now_ns: Ns) {
        self.charge_all(now_ns);
        for (worker, Life { born_ns, account, .. }) in self.workers.iter().zip(&self.lives) {
            let lived_ns = now_ns - born_ns;
            assert!(
                worker.state == WorkerState::Foreign || account.total_ns() == lived_ns,
                "a worker lived {lived_ns} ns, and its books say {account:?}"
            );
        }
        self.check_cores(now_ns);
    }

    /// Checks the same time by the cores' own records: a core's busy time must be the CPU time of its workers.
    fn check_cores(&self, now_ns: Ns) {
        let mut cpu_ns = vec![0; self.schedulers.len()];
        for (worker, life) in self.workers.iter().zip(&self.lives) {
            cpu_ns[worker.scheduler as usize] += life.account.cpu_ns;
        }
        for (core, cpu_ns) in self.schedulers.iter().zip(cpu_ns) {
            let open_ns = if core.running == NOBODY {
                0
            } else {
                now_ns - core.busy_since_ns
            };
            let busy_ns = core.busy_ns + open_ns;
            assert!(
                busy_ns == cpu_ns,
                "a core was busy for {busy_ns} ns, its workers for {cpu_ns} ns"
            );
        }
    }
}
