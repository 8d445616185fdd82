//! The clock, the actions that are ready now, and the loop that runs them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use super::Ns;
use super::event_list::{Action, EventList, Port};

/// A process, by its number. Processes are numbered in the order of spawning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId(pub(crate) u32);

impl ProcessId {
    const NONE: Self = Self(u32::MAX);

    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    const fn resumption(self) -> Action {
        assert!(
            self.0 < Action::TOKEN_LIMIT,
            "only a process can wait, and none runs now"
        );
        Action::call(Port::RESUME, self.0)
    }
}

/// The clock and the future events. Processes and handlers share it by plain reference.
#[derive(Debug)]
pub struct Kernel {
    now_ns: Cell<Ns>,
    /// The present [`Executor::run_until`] may reach times up to and including this one.
    limit_ns: Cell<Ns>,
    current: Cell<ProcessId>,
    events: RefCell<EventList>,
    /// The actions that are due at the present time, in order. They come before the next event.
    ready: RefCell<VecDeque<Action>>,
    stopping: Cell<bool>,
    /// Whether the next event must wait, because an action is ready or the run is to stop.
    busy: Cell<bool>,
    may_jump: Cell<bool>,
    jumps: Cell<u64>,
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl Kernel {
    /// Makes a kernel at time 0 without events.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            now_ns: Cell::new(0),
            limit_ns: Cell::new(0),
            current: Cell::new(ProcessId::NONE),
            events: RefCell::new(EventList::new()),
            ready: RefCell::new(VecDeque::new()),
            stopping: Cell::new(false),
            busy: Cell::new(false),
            may_jump: Cell::new(true),
            jumps: Cell::new(0),
        }
    }

    /// The present simulated time.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Ns {
        self.now_ns.get()
    }

    /// Returns the process that runs now.
    ///
    /// In a handler and outside of a run, no process runs. The number that is then returned belongs to no process and
    /// can't be resumed.
    #[must_use]
    #[inline]
    pub fn current(&self) -> ProcessId {
        self.current.get()
    }

    /// Schedules `action` at `time_ns`, after all actions that are already scheduled for that time.
    ///
    /// # Panics
    /// Panics if that time is past.
    #[inline]
    pub fn at(&self, time_ns: Ns, action: Action) {
        assert!(
            time_ns >= self.now(),
            "an event at {time_ns} ns is past, it is {} ns",
            self.now()
        );
        self.events.borrow_mut().push(time_ns, action);
    }

    /// Schedules `action` now, after the actions that are already ready and before the next event.
    #[inline]
    pub fn soon(&self, action: Action) {
        self.ready.borrow_mut().push_back(action);
        self.busy.set(true);
    }

    /// Resumes `process` now, after the actions that are already ready. It must wait, and only this may resume it.
    #[inline]
    pub fn resume(&self, process: ProcessId) {
        self.soon(process.resumption());
    }

    /// Resumes `process` at `time_ns`.
    ///
    /// # Panics
    /// Panics if that time is past.
    #[inline]
    pub fn resume_at(&self, time_ns: Ns, process: ProcessId) {
        self.at(time_ns, process.resumption());
    }

    /// Moves the clock by `length_ns` if nothing else would happen until then. Returns whether it did.
    #[inline]
    pub fn try_advance(&self, length_ns: Ns) -> bool {
        let then_ns = self.now() + length_ns;
        let free = self.may_jump.get()
            && !self.busy.get()
            && then_ns <= self.limit_ns.get()
            && then_ns < self.events.borrow().next_time_ns();
        if free {
            self.now_ns.set(then_ns);
            self.jumps.set(self.jumps.get() + 1);
        }
        free
    }

    /// Sets whether [`Kernel::try_advance`] may succeed. It may by default. Only the speed of a run depends on it, as
    /// tests and a benchmark show.
    #[cfg(any(test, feature = "internals"))]
    pub fn set_jumps(&self, jumps: bool) {
        self.may_jump.set(jumps);
    }

    /// Ends the present run as soon as the running process or handler returns.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.busy.set(true);
    }

    /// Takes out the next ready action, or returns `None` if no action is ready or the run must stop.
    #[inline]
    fn next_ready(&self) -> Option<Action> {
        if self.stopping.get() {
            return None;
        }
        let mut ready = self.ready.borrow_mut();
        let action = ready.pop_front();
        self.busy.set(!ready.is_empty());
        action
    }

    /// The number of events and jumps that have happened.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.events.borrow().taken() + self.jumps.get()
    }
}

/// Why a run returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// [`Kernel::stop`] was called.
    Stopped,
    /// The next event is later than the limit. The clock is at the limit.
    LimitReached,
    /// No event is left. Processes that still wait will wait forever.
    NothingLeft,
}

type Process<'w> = Pin<Box<dyn Future<Output = ()> + 'w>>;
type Handler<'w> = Box<dyn FnMut(u32) + 'w>;

/// Owns the processes and handlers of a simulation, and runs them. It must be built after the world that they borrow.
pub struct Executor<'w> {
    kernel: &'w Kernel,
    processes: Vec<Option<Process<'w>>>,
    handlers: [Option<Handler<'w>>; Port::COUNT],
    at_end: Option<Handler<'w>>,
    unfinished: usize,
}

impl std::fmt::Debug for Executor<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Executor")
            .field("unfinished", &self.unfinished)
            .finish_non_exhaustive()
    }
}

impl<'w> Executor<'w> {
    /// Makes an executor without processes, with the clock and events of `kernel`.
    #[must_use]
    pub fn new(kernel: &'w Kernel) -> Self {
        Self {
            kernel,
            processes: Vec::new(),
            handlers: std::array::from_fn(|_| None),
            at_end: None,
            unfinished: 0,
        }
    }

    /// Adds a process that starts when it is first resumed.
    ///
    /// # Panics
    /// Panics if there are 2^28 processes already.
    pub fn spawn(&mut self, process: impl Future<Output = ()> + 'w) -> ProcessId {
        let id = u32::try_from(self.processes.len()).unwrap_or(Action::TOKEN_LIMIT);
        assert!(id < Action::TOKEN_LIMIT, "a simulation has at most 2^28 processes");
        self.processes.push(Some(Box::pin(process)));
        self.unfinished += 1;
        ProcessId(id)
    }

    /// Sets the handler of `port`. A handler can't wait. It can schedule and resume processes, and change state.
    ///
    /// # Panics
    /// Panics if the port has a handler already.
    pub fn on(&mut self, port: Port, handler: impl FnMut(u32) + 'w) {
        let taken = self.handlers[port.index()].replace(Box::new(handler)).is_some();
        assert!(!taken, "{port:?} has two handlers");
    }

    /// Sets the handler of processes' ends. It gets the number of the process, which is then still the current one.
    ///
    /// # Panics
    /// Panics if there is such a handler already.
    pub fn on_end(&mut self, handler: impl FnMut(u32) + 'w) {
        let taken = self.at_end.replace(Box::new(handler)).is_some();
        assert!(!taken, "a process's end has two handlers");
    }

    /// Runs everything up to and including `limit_ns`, and sets the clock to it. Another call continues the simulation.
    ///
    /// # Panics
    /// Panics if `limit_ns` is past, or if a process or a handler panics.
    pub fn run_until(&mut self, limit_ns: Ns) -> Halt {
        let halt = self.run_events(limit_ns);
        self.kernel.current.set(ProcessId::NONE);
        halt
    }

    fn run_events(&mut self, limit_ns: Ns) -> Halt {
        let kernel = self.kernel;
        assert!(limit_ns >= kernel.now(), "a run can't end in the past");
        kernel.limit_ns.set(limit_ns);
        kernel.stopping.set(false);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if kernel.busy.get() {
                match kernel.next_ready() {
                    Some(action) => self.act(action, &mut context),
                    None if kernel.stopping.get() => return Halt::Stopped,
                    None => {}
                }
                continue;
            }
            let event = kernel.events.borrow_mut().pop_until(limit_ns);
            let Some((time_ns, action)) = event else {
                return self.rest(limit_ns);
            };
            kernel.now_ns.set(time_ns);
            self.act(action, &mut context);
        }
    }

    fn rest(&self, limit_ns: Ns) -> Halt {
        if self.kernel.events.borrow().is_empty() {
            return Halt::NothingLeft;
        }
        self.kernel.now_ns.set(limit_ns);
        Halt::LimitReached
    }

    #[inline]
    fn act(&mut self, action: Action, context: &mut Context<'_>) {
        if action.port() == Port::RESUME {
            self.poll(ProcessId(action.token()), context);
        } else {
            self.kernel.current.set(ProcessId::NONE);
            let handler = self.handlers[action.port().index()].as_mut();
            handler.expect("a called port has a handler")(action.token());
        }
    }

    #[inline]
    fn poll(&mut self, id: ProcessId, context: &mut Context<'_>) {
        let slot = &mut self.processes[id.index()];
        let process = slot.as_mut().expect("a resumed process has not ended");
        self.kernel.current.set(id);
        let poll = process.as_mut().poll(context);
        if poll.is_ready() {
            self.end(id);
        }
    }

    #[cold]
    fn end(&mut self, id: ProcessId) {
        self.processes[id.index()] = None;
        self.unfinished -= 1;
        if let Some(at_end) = &mut self.at_end {
            at_end(id.0);
        }
    }
}
