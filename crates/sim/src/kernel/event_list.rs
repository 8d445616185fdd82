//! The future-event list: a heap of (time, sequence, action), earliest first.

use super::Ns;

/// Times must stay below this: 2^56 ns, or 833 days.
pub const TIME_LIMIT_NS: Ns = 1 << TIME_BITS;

const TIME_BITS: u32 = 56;
const SEQUENCE_BITS: u32 = 40;
const ACTION_BITS: u32 = 32;
const TOKEN_BITS: u32 = 28;
/// Four children a node: half the levels of a binary heap, and the children lie in one cache line.
const ARITY: usize = 4;

const _: () = assert!(TIME_BITS + SEQUENCE_BITS + ACTION_BITS == 128);

/// Whom an event is for: a handler of the executor. Port 0 is the executor itself, which resumes a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(u8);

impl Port {
    /// How many ports there are, the executor's own included.
    pub const COUNT: usize = 16;
    pub(super) const RESUME: Self = Self(0);

    /// Port `number`, from 1 to 15. Ports 1 to 4 are taken by [`crate::sqlos`] where that is in use.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        assert!(number > 0 && (number as usize) < Self::COUNT, "ports are 1 to 15");
        Self(number)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is to happen at an event: a process resumed, or a port called with a token. 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action(u32);

impl Action {
    /// Tokens and process numbers must stay below this: 2^28.
    pub const TOKEN_LIMIT: u32 = 1 << TOKEN_BITS;

    /// Calls the handler at `port` with `token`.
    ///
    /// # Panics
    /// If `token` is not below [`Action::TOKEN_LIMIT`].
    #[must_use]
    pub const fn call(port: Port, token: u32) -> Self {
        assert!(token < Self::TOKEN_LIMIT, "a token has 28 bits");
        Self((port.0 as u32) << TOKEN_BITS | token)
    }

    pub(super) const fn port(self) -> Port {
        Port((self.0 >> TOKEN_BITS) as u8)
    }

    pub(super) const fn token(self) -> u32 {
        self.0 & (Self::TOKEN_LIMIT - 1)
    }
}

/// Events to come, taken out in the order of their times, and of their scheduling where times are equal.
///
/// An event is one 128-bit number, time in the upper 56 bits, a sequence number in the next 40, the action below, so that a
/// single comparison orders two events. Taking out an event leaves a hole at the root, which the next event put in fills:
/// most events of a simulation schedule their successor, and this way each pair costs one pass through the heap, not two.
#[derive(Debug, Default)]
pub struct EventList {
    /// A heap of [`ARITY`] children a node; `heap[0]` means nothing while `hole` is set.
    heap: Vec<u128>,
    hole: bool,
    sequence: u64,
}

impl EventList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            heap: Vec::new(),
            hole: false,
            sequence: 0,
        }
    }

    /// How many events are to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.hole)
    }

    /// True if no event is to come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts in an event at `time_ns`.
    ///
    /// # Panics
    /// If `time_ns` is not below [`TIME_LIMIT_NS`], or after 2^40 events.
    pub fn push(&mut self, time_ns: Ns, action: Action) {
        assert!(time_ns < TIME_LIMIT_NS, "simulated time ran past 833 days");
        assert!(self.sequence < 1 << SEQUENCE_BITS, "a run has at most 2^40 events");
        let key = u128::from(time_ns) << (SEQUENCE_BITS + ACTION_BITS)
            | u128::from(self.sequence << ACTION_BITS | u64::from(action.0) & u64::from(u32::MAX));
        self.sequence += 1;
        if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            self.heap.push(key);
            self.sift_up(key);
        }
    }
}
