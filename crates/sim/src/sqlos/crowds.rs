//! The number of sessions that wait at once, by wait type and kind of resource, counted at every wait.

use super::state::{Resource, State, WorkerState};
use super::waits::{WAIT_TYPES, WaitType};
use super::{Role, Sqlos};
use crate::kernel::Ns;

/// Kinds of resources, as the engine numbers them; 0 is a resource without a name.
const KINDS: u8 = 16;
/// The bit at which the kind begins in the key of a latch and in the label of an event.
const KIND_SHIFT: u32 = 56;
/// Crowds of sessions come first in the table, then those of workers in the background.
const OF_A_ROLE: usize = WAIT_TYPES * KINDS as usize;

/// Sessions that wait for resources of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))] // never across two lines of the processor's cache
pub(super) struct Crowd {
    now: u32,
    most: u32,
    /// When the first of them came.
    since_ns: Ns,
    /// Time with at least one, and the time of all of them.
    any_ns: Ns,
    sessions_ns: Ns,
}

/// Sessions that waited for things of one kind, over a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdSum {
    /// In what type of wait.
    pub wait: WaitType,
    /// For what kind of resource.
    pub kind: u8,
    /// The most at once.
    pub most: u32,
    /// Time in which at least one waited.
    pub any_ns: Ns,
    /// The total time of their waits. Divided by the run's time, it is the mean number of sessions.
    pub sessions_ns: Ns,
}

impl Resource {
    /// The engine's number for what it is: the lower half of the first byte of a latch's key or an event's label.
    #[must_use]
    #[inline(always)]
    pub const fn kind(self) -> u8 {
        let (Self::Latch(word) | Self::Event(word)) = self else {
            return 0;
        };
        (word >> KIND_SHIFT) as u8 % KINDS
    }
}

/// Where the crowds of this role begin.
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
    /// The worker begins to wait.
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

    /// The worker waits no longer: it has its core.
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
    /// The crowds of sessions until now, open waits included, by wait type and kind.
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
