//! The executor with SQLOS on it. It spawns workers and runs until the sessions have ended.

use std::future::Future;

use super::{ALARM, AWAKE, Role, Sqlos, WaitingTask};
use crate::kernel::{Executor, Halt, Ns, Port, ProcessId};

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All sessions have ended. The clock shows that time.
    Finished,
    /// The limit came first. The clock shows the limit, and the run can continue.
    LimitReached,
}

/// No event is left but sessions still wait, for each other or for something that will never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The time when this happened.
    pub at_ns: Ns,
    /// The workers and what they wait for.
    pub waiting: Vec<WaitingTask>,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "at {} ns nothing is left to happen, and these wait for ever:",
            self.at_ns
        )?;
        self.waiting.iter().try_for_each(|task| {
            let worker = task.worker.index();
            write!(
                formatter,
                " worker {worker} for {} ({:?})",
                task.wait.name(),
                task.resource
            )
        })
    }
}

impl std::error::Error for Stuck {}

/// Cores and workers together. It must be built after the world that they borrow.
#[derive(Debug)]
pub struct Machine<'w> {
    pub(super) os: &'w Sqlos,
    executor: Executor<'w>,
}

impl<'w> Machine<'w> {
    /// Makes a machine with the cores of `os`, without workers.
    #[must_use]
    pub fn new(os: &'w Sqlos) -> Self {
        let mut executor = Executor::new(&os.kernel);
        executor.on(ALARM, |scheduler| os.on_alarm(scheduler));
        executor.on(AWAKE, |scheduler| os.state().wake(&os.kernel, scheduler));
        executor.on_end(|process| os.on_end(process));
        Self { os, executor }
    }

    /// Adds a session on the next scheduler in turn. The run lasts until all sessions have ended.
    pub fn spawn_session(&mut self, session: impl Future<Output = ()> + 'w) -> ProcessId {
        self.spawn_worker(Role::Session, None, session)
    }

    /// Adds a worker on the next scheduler in turn. The run doesn't wait for its end.
    pub fn spawn_background(&mut self, worker: impl Future<Output = ()> + 'w) -> ProcessId {
        self.spawn_worker(Role::Background, None, worker)
    }

    /// Adds a worker on the given scheduler, or on the next in turn if none is given.
    pub fn spawn_worker(
        &mut self,
        role: Role,
        scheduler: Option<u32>,
        worker: impl Future<Output = ()> + 'w,
    ) -> ProcessId {
        let os = self.os;
        let process = self.executor.spawn(worker);
        if role == Role::Session {
            os.open_sessions.set(os.open_sessions.get() + 1);
        }
        os.state().adopt(&os.kernel, process, role, scheduler);
        process
    }

    /// Sets the handler of `port`. Ports 6 to 15 are free.
    pub fn on(&mut self, port: Port, handler: impl FnMut(u32) + 'w) {
        self.executor.on(port, handler);
    }

    /// Runs up to `limit_ns`, or until all sessions have ended if that comes first. Between two calls, the caller can
    /// sample, report progress and interrupt. How the run is divided into calls does not change it.
    ///
    /// # Errors
    /// Returns [`Stuck`] if no event is left before that.
    ///
    /// # Panics
    /// Panics if, at the end, a nanosecond of a worker or of a core is not accounted for.
    pub fn run_until(&mut self, limit_ns: Ns) -> Result<Progress, Stuck> {
        if self.os.open_sessions.get() == 0 {
            return Ok(Progress::Finished);
        }
        match self.executor.run_until(limit_ns) {
            _ if self.os.open_sessions.get() == 0 => {
                self.os.state().settle(self.os.now());
                Ok(Progress::Finished)
            }
            Halt::LimitReached | Halt::Stopped => Ok(Progress::LimitReached),
            Halt::NothingLeft => Err(Stuck {
                at_ns: self.os.now(),
                waiting: self.os.waiting_tasks(),
            }),
        }
    }
}

impl Sqlos {
    /// Handles the end of a process. If it was a worker, its account is closed. Other processes need nothing.
    fn on_end(&self, process: u32) {
        let role = {
            let mut state = self.state();
            let role = state.lives.get(process as usize).and_then(|life| life.role);
            if role.is_some() {
                state.finish(&self.kernel, process);
            }
            role
        };
        if role == Some(Role::Session) {
            self.close_session();
        }
    }

    fn close_session(&self) {
        let open = self.open_sessions.get() - 1;
        self.open_sessions.set(open);
        if open == 0 {
            self.kernel.stop();
        }
    }
}
