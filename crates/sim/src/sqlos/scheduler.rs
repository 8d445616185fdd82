//! Changes workers' states between RUNNING, RUNNABLE and SUSPENDED. Each change charges the time since the last one.

use super::crowds::first_of;
use super::state::{Life, NOBODY, Resource, State, Worker, WorkerState};
use super::waits::WaitType;
use super::{ALARM, AWAKE, Notice, Role, WAKE};
use crate::kernel::{Action, Kernel, Ns, ProcessId};

impl State {
    /// Returns the number of the running worker.
    #[inline]
    pub(super) fn current(&self, kernel: &Kernel) -> u32 {
        let ProcessId(worker) = kernel.current();
        let running = self.workers.get(worker as usize);
        assert!(
            running.is_some_and(|running| running.state == WorkerState::Running),
            "only a running worker can use its core or wait: {running:?}"
        );
        worker
    }

    /// Makes the process a worker at the end of its scheduler's queue. Without `scheduler`, schedulers take turns.
    pub(super) fn adopt(&mut self, kernel: &Kernel, process: ProcessId, role: Role, scheduler: Option<u32>) {
        let now_ns = kernel.now();
        let scheduler = scheduler.unwrap_or_else(|| {
            let turn = self.next_scheduler;
            self.next_scheduler = (turn + 1) % self.config.schedulers;
            turn
        });
        self.workers.resize(process.index() + 1, Worker::foreign(now_ns));
        self.lives.resize(process.index() + 1, Life::foreign(now_ns));
        let worker = &mut self.workers[process.index()];
        worker.state = WorkerState::Suspended;
        worker.scheduler = scheduler;
        worker.first_crowd = first_of(role);
        self.lives[process.index()].role = Some(role);
        self.join_crowd(now_ns, process.0, WaitType::WorkerStart, Resource::None);
        self.make_runnable(kernel, process.0);
    }

    /// Charges the time since the last change, and changes the worker's state. The caller passes the present state, so
    /// the processor need not predict a branch on it.
    #[inline]
    fn change(&mut self, now_ns: Ns, id: u32, from: WorkerState, to: WorkerState) {
        debug_assert_eq!(self.workers[id as usize].state, from);
        self.charge(now_ns, id, from);
        self.workers[id as usize].state = to;
    }

    /// Charges the time since the last change, spent in `state`. A wait is added to the account at its end.
    #[expect(
        clippy::inline_always,
        reason = "each caller but one knows the state, and needs one arm of the match"
    )]
    #[inline(always)]
    fn charge(&mut self, now_ns: Ns, id: u32, state: WorkerState) {
        let worker = &mut self.workers[id as usize];
        let passed_ns = now_ns - worker.since_ns;
        worker.since_ns = now_ns;
        match state {
            WorkerState::Running => worker.cpu_ns += passed_ns,
            WorkerState::Suspended => worker.resource_ns += passed_ns,
            WorkerState::Runnable => {
                let resource_ns = std::mem::take(&mut worker.resource_ns);
                let wait = &mut self.lives[id as usize].account.waits[worker.wait.index()];
                wait.resource_ns += resource_ns;
                wait.signal_ns += passed_ns;
            }
            WorkerState::Finished => self.lives[id as usize].account.finished_ns += passed_ns,
            WorkerState::Foreign => {}
        }
    }

    /// Charges all time up to now that is not charged yet, and updates all accounts.
    pub(super) fn charge_all(&mut self, now_ns: Ns) {
        for id in 0..u32::try_from(self.workers.len()).expect("a process number has 28 bits") {
            self.charge(now_ns, id, self.workers[id as usize].state);
            let (worker, account) = (&mut self.workers[id as usize], &mut self.lives[id as usize].account);
            account.cpu_ns += std::mem::take(&mut worker.cpu_ns);
            account.waits[worker.wait.index()].resource_ns += std::mem::take(&mut worker.resource_ns);
        }
    }

    /// Moves the worker to the end of the scheduler's queue, because its resource is available. Wakes the core if it is
    /// idle.
    #[inline]
    pub(super) fn make_runnable(&mut self, kernel: &Kernel, id: u32) {
        self.enqueue(kernel.now(), id, WorkerState::Suspended);
        let scheduler = self.workers[id as usize].scheduler;
        let core = &mut self.schedulers[scheduler as usize];
        if core.running != NOBODY || core.wakes {
            return;
        }
        if self.config.wake_ns == 0 {
            self.wake(kernel, scheduler);
        } else {
            core.wakes = true;
            kernel.at(kernel.now() + self.config.wake_ns, Action::call(AWAKE, scheduler));
        }
    }

    /// Makes an idle core busy. It takes the first worker of its queue.
    pub(super) fn wake(&mut self, kernel: &Kernel, scheduler: u32) {
        let core = &mut self.schedulers[scheduler as usize];
        core.wakes = false;
        core.busy_since_ns = kernel.now();
        self.pick_next(kernel, scheduler);
    }

    #[inline(always)]
    fn enqueue(&mut self, now_ns: Ns, id: u32, from: WorkerState) {
        self.change(now_ns, id, from, WorkerState::Runnable);
        let scheduler = &mut self.schedulers[self.workers[id as usize].scheduler as usize];
        scheduler.runnable.push(&mut self.workers, id);
        scheduler.runnable_count += 1;
    }

    /// Gives the core to the head of the queue, and returns it. It runs after the actions that are already ready.
    #[inline(always)]
    fn pick_next(&mut self, kernel: &Kernel, scheduler: u32) -> u32 {
        let id = self.take_next(kernel, scheduler);
        if id != NOBODY {
            kernel.resume(ProcessId(id));
        }
        id
    }

    #[inline(always)]
    fn take_next(&mut self, kernel: &Kernel, scheduler: u32) -> u32 {
        let now_ns = kernel.now();
        let core = &mut self.schedulers[scheduler as usize];
        let Some(id) = core.runnable.pop(&self.workers) else {
            core.running = NOBODY;
            core.busy_ns += now_ns - core.busy_since_ns;
            self.set_alarm(kernel, scheduler);
            return NOBODY;
        };
        core.runnable_count -= 1;
        core.running = id;
        core.quantum_ends_ns = now_ns + self.config.quantum_ns;
        self.change(now_ns, id, WorkerState::Runnable, WorkerState::Running);
        self.leave_crowd(now_ns, id);
        let wait = self.workers[id as usize].wait;
        self.lives[id as usize].account.waits[wait.index()].count += 1;
        // FNV-1a's step on words. It is fast, and every change of order or time changes all later values.
        let word = now_ns.rotate_left(24) ^ u64::from(id) << 8 ^ u64::from(wait.code());
        self.fingerprint = (self.fingerprint ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        id
    }

    /// Notices completed I/O and timers in the order of their arrival, whenever the scheduler's code runs.
    #[inline]
    fn notice_arrived(&mut self, kernel: &Kernel, scheduler: u32) {
        while let Some((_, action)) = self.schedulers[scheduler as usize].coming.pop_until(kernel.now()) {
            self.deliver(kernel, action);
        }
    }

    /// Ensures that the scheduler's code runs at the next completion.
    #[inline]
    fn set_alarm(&mut self, kernel: &Kernel, scheduler: u32) {
        let core = &mut self.schedulers[scheduler as usize];
        let next_ns = core.coming.next_time_ns();
        if next_ns < core.alarm_ns {
            core.alarm_ns = next_ns;
            kernel.at(next_ns, Action::call(ALARM, scheduler));
        }
    }

    /// Handles an alarm whose time has come. If the core is busy, the alarm has no effect.
    pub(super) fn alarm(&mut self, kernel: &Kernel, scheduler: u32) {
        let core = &mut self.schedulers[scheduler as usize];
        if core.alarm_ns == kernel.now() {
            core.alarm_ns = Ns::MAX;
        }
        if self.looks_now(scheduler) {
            self.notice_arrived(kernel, scheduler);
        }
        if self.looks_now(scheduler) {
            self.set_alarm(kernel, scheduler);
        }
    }

    /// Whether a completion is noticed as soon as it comes.
    #[inline]
    fn looks_now(&self, scheduler: u32) -> bool {
        self.config.notice == Notice::AtOnce || self.schedulers[scheduler as usize].running == NOBODY
    }

    /// Makes the running worker wait. The next worker gets its core.
    pub(super) fn suspend(&mut self, kernel: &Kernel, id: u32, wait: WaitType, resource: Resource) {
        let now_ns = kernel.now();
        self.change(now_ns, id, WorkerState::Running, WorkerState::Suspended);
        self.join_crowd(now_ns, id, wait, resource);
        self.leave_core(kernel, id);
    }

    #[inline(always)]
    fn leave_core(&mut self, kernel: &Kernel, id: u32) {
        let scheduler = self.workers[id as usize].scheduler;
        self.notice_arrived(kernel, scheduler);
        self.pick_next(kernel, scheduler);
    }

    /// Handles the end of the running worker's quantum. Returns true if it keeps its core because no other worker is
    /// runnable.
    pub(super) fn yield_core(&mut self, kernel: &Kernel, id: u32) -> bool {
        let scheduler = self.workers[id as usize].scheduler;
        self.notice_arrived(kernel, scheduler);
        self.join_crowd(kernel.now(), id, WaitType::SosSchedulerYield, Resource::None);
        self.enqueue(kernel.now(), id, WorkerState::Running);
        let next = self.take_next(kernel, scheduler);
        if next != id {
            kernel.resume(ProcessId(next));
        }
        next == id
    }

    /// Ends the running worker.
    pub(super) fn finish(&mut self, kernel: &Kernel, id: u32) {
        self.change(kernel.now(), id, WorkerState::Running, WorkerState::Finished);
        self.leave_core(kernel, id);
    }

    /// Handles a completion that arrives now. It is noticed at once or at the scheduler's next switch.
    pub(super) fn arrive(&mut self, kernel: &Kernel, scheduler: u32, action: Action) {
        if self.looks_now(scheduler) {
            self.deliver(kernel, action);
        } else {
            self.schedulers[scheduler as usize].coming.push(kernel.now(), action);
        }
    }

    /// Schedules a completion that will arrive at `time_ns`.
    #[inline]
    pub(super) fn arrive_at(&mut self, kernel: &Kernel, time_ns: Ns, scheduler: u32, action: Action) {
        assert!(time_ns >= kernel.now(), "an arrival at {time_ns} ns is past");
        self.schedulers[scheduler as usize].coming.push(time_ns, action);
        if self.looks_now(scheduler) {
            self.set_alarm(kernel, scheduler);
        }
    }

    #[inline(always)]
    fn deliver(&mut self, kernel: &Kernel, action: Action) {
        match action.port() {
            WAKE => self.make_runnable(kernel, action.token()),
            _ => kernel.soon(action),
        }
    }

    /// Sets the event and makes all its waiting workers runnable.
    pub(super) fn fire(&mut self, kernel: &Kernel, event: u32) {
        self.events[event as usize].set = true;
        while let Some(worker) = self.events[event as usize].waiters.pop(&self.workers) {
            self.make_runnable(kernel, worker);
        }
    }

    pub(super) fn release_event(&mut self, event: u32) {
        let state = &mut self.events[event as usize];
        state.references -= 1;
        // Workers can still wait without a handle only if a machine is dropped in the middle of a run.
        if state.references == 0 && state.waiters.is_empty() {
            self.free_events.push(event);
        }
    }
}
