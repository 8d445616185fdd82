//! How many sessions wait at the same time, by wait type and kind of resource. It is updated at every wait.

use super::state::{Resource, State, WorkerState};
use super::waits::{WAIT_TYPES, WaitType};
use super::{Role, Sqlos};
use crate::kernel::Ns;

/// The number of kinds of resources. The engine numbers them; 0 is a resource without a name.
const KINDS: u8 = 16;
/// The first bit of the kind in a latch's key and in an event's label.
const KIND_SHIFT: u32 = 56;
/// The number of crowds of one role. The table has first the sessions' crowds, then those of background workers.
const OF_A_ROLE: usize = WAIT_TYPES * KINDS as usize;

/// The sessions that wait in one type of wait for resources of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))] // so that it is never in two lines of the processor's cache
pub(super) struct Crowd {
    now: u32,
    most: u32,
    /// The time when the first of them began to wait.
    since_ns: Ns,
    /// The time in which at least one waited, and the sum of the times of all.
    any_ns: Ns,
    sessions_ns: Ns,
}

/// The sessions that waited in one type of wait for resources of one kind, over a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdSum {
    /// The type of the wait.
    pub wait: WaitType,
    /// The kind of resource.
    pub kind: u8,
    /// The most that waited at the same time.
    pub most: u32,
    /// The time in which at least one waited.
    pub any_ns: Ns,
    /// The sum of the waits of all. Divided by the run's time, it is the mean number of sessions that waited.
    pub sessions_ns: Ns,
}

impl Resource {
    /// Returns the kind's number: the lower half of the first byte of a latch's key or an event's label.
    #[must_use]
    #[inline(always)]
    pub const fn kind(self) -> u8 {
        let (Self::Latch(word) | Self::Event(word)) = self else {
            return 0;
        };
        (word >> KIND_SHIFT) as u8 % KINDS
    }
}

/// Returns the index of the first crowd of this role.
#[expect(clippy::cast_possible_truncation, reason = "the table is small")]
pub(super) const fn first_of(role: Role) -> u16 {
    match role {
        Role::Session => 0,
        Role::Background => OF_A_ROLE as u16,
    }
}

pub(super) fn nobody_waits() -> Vec<Crowd> {
    vec![Crowd::default(); 2 * OF_A_ROLE]
}

impl State {
    /// Counts the worker as waiting.
    #[inline(always)]
    pub(super) fn join_crowd(&mut self, now_ns: Ns, id: u32, wait: WaitType, resource: Resource) {
        let worker = &mut self.workers[id as usize];
        worker.wait = wait;
        worker.resource = resource;
        worker.waits_since_ns = now_ns;
        let crowd = &mut self.crowds[worker.crowd()];
        if crowd.now == 0 {
            crowd.since_ns = now_ns;
        }
        crowd.now += 1;
        crowd.most = crowd.most.max(crowd.now);
    }

    /// Counts the worker as no longer waiting, because it has its core.
    #[inline(always)]
    pub(super) fn leave_crowd(&mut self, now_ns: Ns, id: u32) {
        let worker = &self.workers[id as usize];
        let crowd = &mut self.crowds[worker.crowd()];
        crowd.now -= 1;
        crowd.sessions_ns += now_ns - worker.waits_since_ns;
        if crowd.now == 0 {
            crowd.any_ns += now_ns - crowd.since_ns;
        }
    }
}

impl super::state::Worker {
    #[inline(always)]
    const fn crowd(&self) -> usize {
        self.first_crowd as usize + self.wait.index() * KINDS as usize + self.resource.kind() as usize
    }
}

impl Sqlos {
    /// Returns the crowds of sessions until now, including open waits, by wait type and kind.
    #[must_use]
    pub fn crowds(&self) -> Vec<CrowdSum> {
        let (now_ns, state) = (self.now(), self.state());
        let mut crowds = state.crowds[..OF_A_ROLE].to_vec();
        for crowd in crowds.iter_mut().filter(|crowd| crowd.now > 0) {
            crowd.any_ns += now_ns - crowd.since_ns;
        }
        for worker in &state.workers {
            let waits = matches!(worker.state, WorkerState::Suspended | WorkerState::Runnable);
            if waits && worker.first_crowd == first_of(Role::Session) {
                crowds[worker.crowd()].sessions_ns += now_ns - worker.waits_since_ns;
            }
        }
        let kinds = WaitType::ALL
            .iter()
            .flat_map(|&wait| (0..KINDS).map(move |kind| (wait, kind)));
        let sums = kinds.zip(crowds).map(|((wait, kind), crowd)| CrowdSum {
            wait,
            kind,
            most: crowd.most,
            any_ns: crowd.any_ns,
            sessions_ns: crowd.sessions_ns,
        });
        sums.filter(|sum| sum.most > 0).collect()
    }
}
