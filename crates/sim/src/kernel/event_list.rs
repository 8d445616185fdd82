//! The future-event list, ordered by time and then by sequence number. A few events are in a line, many in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Ns;
use crate::hint::{put, rare};

/// Times must stay below this: 2^56 ns, or 833 days.
pub const TIME_LIMIT_NS: Ns = 1 << TIME_BITS;

const TIME_BITS: u32 = 56;
const SEQUENCE_BITS: u32 = 40;
const ACTION_BITS: u32 = 32;
const TOKEN_BITS: u32 = 28;

const _: () = assert!(TIME_BITS + SEQUENCE_BITS + ACTION_BITS == 128);

/// The target of an event: a handler of the executor. Port 0 is the executor itself. It resumes a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(u8);

impl Port {
    /// The number of ports, including the executor's own.
    pub const COUNT: usize = 16;
    pub(super) const RESUME: Self = Self(0);

    /// Returns port `number`, from 1 to 15. If [`crate::sqlos`] is used, it takes ports 1 to 5.
    ///
    /// # Panics
    /// Panics if there is no such port.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        assert!(number > 0 && (number as usize) < Self::COUNT, "ports are 1 to 15");
        Self(number)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The action of an event, in 32 bits: resume a process, or call a port with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action(u32);

impl Action {
    /// Tokens and process numbers must stay below this: 2^28.
    pub const TOKEN_LIMIT: u32 = 1 << TOKEN_BITS;

    /// Makes an action that calls the handler at `port` with `token`.
    ///
    /// # Panics
    /// Panics if `token` is not below [`Action::TOKEN_LIMIT`].
    #[must_use]
    pub const fn call(port: Port, token: u32) -> Self {
        assert!(token < Self::TOKEN_LIMIT, "a token has 28 bits");
        Self((port.0 as u32) << TOKEN_BITS | token)
    }

    /// The port that is called.
    #[must_use]
    pub const fn port(self) -> Port {
        Port((self.0 >> TOKEN_BITS) as u8)
    }

    /// The token with which the port is called.
    #[must_use]
    pub const fn token(self) -> u32 {
        self.0 & (Self::TOKEN_LIMIT - 1)
    }
}

/// If there are this many events, the list changes to the heap.
const MANY: usize = 256;
/// If only this many are left, the list changes back to the line.
const FEW: usize = 128;
/// When this many events were taken from the line, they are removed from it.
const SWEEP: usize = 64;

/// Future events. They are taken out in order of time, and at equal times in the order in which they were scheduled.
///
/// An event is one 128-bit number: the time in the upper 56 bits, a sequence number in the next 40, and the action in
/// the lowest 32. So a single comparison orders two events.
///
/// A few events, as for a server of a few cores, are in a sorted line. Most new ones go to its end. Many are in a heap.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    /// The events if they are few, the earliest first. All before index `first` have been taken.
    line: Vec<u128>,
    first: usize,
    /// The events if they are many. The line is then empty. Otherwise the heap is empty.
    heap: BinaryHeap<Reverse<u128>>,
    sequence: u64,
}

impl EventList {
    /// Makes an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            line: Vec::new(),
            first: 0,
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// The number of events in the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line.len() - self.first + self.heap.len()
    }

    /// Whether no event is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of events that have been taken out.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.sequence - self.len() as u64
    }

    /// Adds an event at `time_ns`.
    ///
    /// # Panics
    /// Panics if `time_ns` is not below [`TIME_LIMIT_NS`], or after 2^40 events.
    #[inline(always)]
    pub fn push(&mut self, time_ns: Ns, action: Action) {
        assert!(
            time_ns >> TIME_BITS | self.sequence >> SEQUENCE_BITS == 0,
            "simulated time ran past 833 days, or the run past 2^40 events: {time_ns} ns, {}",
            self.sequence
        );
        let key = u128::from(time_ns) << (SEQUENCE_BITS + ACTION_BITS)
            | u128::from(self.sequence) << ACTION_BITS
            | u128::from(action.0);
        self.sequence += 1;
        if rare(!self.heap.is_empty() || self.line.len() - self.first == MANY) {
            return self.push_to_many(key);
        }
        if self.line.last().is_none_or(|&last| last < key) {
            return put(&mut self.line, key);
        }
        let before = self.line[self.first..].partition_point(|&other| other < key);
        self.line.insert(self.first + before, key);
    }

    fn push_to_many(&mut self, key: u128) {
        self.heap.extend(self.line.drain(..).skip(self.first).map(Reverse));
        self.first = 0;
        self.heap.push(Reverse(key));
    }

    /// Takes out the earliest event, unless it is later than `limit_ns`.
    #[inline(always)]
    pub fn pop_until(&mut self, limit_ns: Ns) -> Option<(Ns, Action)> {
        let Some(&key) = self.line.get(self.first) else {
            return self.pop_from_many(limit_ns);
        };
        if time_of(key) > limit_ns {
            return None;
        }
        self.first += 1;
        if rare(self.first == self.line.len()) {
            self.line.clear();
            self.first = 0;
        } else if rare(self.first == SWEEP) {
            self.line.drain(..SWEEP);
            self.first = 0;
        }
        Some((time_of(key), action_of(key)))
    }

    fn pop_from_many(&mut self, limit_ns: Ns) -> Option<(Ns, Action)> {
        let &Reverse(key) = self.heap.peek().filter(|first| time_of(first.0) <= limit_ns)?;
        self.heap.pop();
        if self.heap.len() <= FEW {
            let latest_first = std::mem::take(&mut self.heap).into_sorted_vec().into_iter();
            self.line.extend(latest_first.rev().map(|Reverse(key)| key));
        }
        Some((time_of(key), action_of(key)))
    }

    /// Returns the time of the earliest event, or `Ns::MAX` if there is none.
    #[must_use]
    #[inline]
    pub fn next_time_ns(&self) -> Ns {
        let earliest = self.line.get(self.first).copied();
        let earliest = earliest.or_else(|| self.heap.peek().map(|first| first.0));
        earliest.map_or(Ns::MAX, time_of)
    }
}

const fn time_of(key: u128) -> Ns {
    (key >> (SEQUENCE_BITS + ACTION_BITS)) as Ns
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest 32 bits are the action")]
const fn action_of(key: u128) -> Action {
    Action(key as u32)
}
