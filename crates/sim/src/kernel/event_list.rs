//! The future-event list: (time, sequence, action), earliest first; a sorted line, and a heap behind it.

use super::Ns;

/// Times must stay below this: 2^56 ns, or 833 days.
pub const TIME_LIMIT_NS: Ns = 1 << TIME_BITS;

const TIME_BITS: u32 = 56;
const SEQUENCE_BITS: u32 = 40;
const ACTION_BITS: u32 = 32;
const TOKEN_BITS: u32 = 28;

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

    /// The port that is called.
    #[must_use]
    pub const fn port(self) -> Port {
        Port((self.0 >> TOKEN_BITS) as u8)
    }

    /// The token it is called with.
    #[must_use]
    pub const fn token(self) -> u32 {
        self.0 & (Self::TOKEN_LIMIT - 1)
    }
}

/// How many events stand in line at most before half of them go to the heap.
const LINE_LENGTH: usize = 256;

/// Events to come, taken out in the order of their times, and of their scheduling where times are equal.
///
/// An event is one 128-bit number, time in the upper 56 bits, a sequence number in the next 40, the action below, so that a
/// single comparison orders two events. The earliest stand in line, sorted: taking one out is free, and most new events find
/// their place by a short search and a move of a few hundred bytes, which costs less than a pass through a heap. Only a
/// world with more events to come than a line is long has the later ones in a heap behind it.
#[derive(Debug, Default)]
pub struct EventList {
    /// The earliest events, the very next one last. Empty only if the whole list is.
    line: Vec<u128>,
    /// Events that come after all in the line: a heap of four children to each parent, half as deep as one of two.
    heap: Vec<u128>,
    sequence: u64,
}

impl EventList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            line: Vec::new(),
            heap: Vec::new(),
            sequence: 0,
        }
    }

    /// How many events are to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line.len() + self.heap.len()
    }

    /// True if no event is to come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// How many events have been taken out.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.sequence - self.len() as u64
    }

    /// Puts in an event at `time_ns`.
    ///
    /// # Panics
    /// If `time_ns` is not below [`TIME_LIMIT_NS`], or after 2^40 events.
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
        // The new event comes after all of its own time: whatever is not later than that time stays before it.
        let place = self.line.partition_point(|&other| upper_half(other) > upper_half(key));
        if place == 0 && !self.heap.is_empty() {
            self.push_to_heap(key);
            return;
        }
        self.line.insert(place, key);
        if self.line.len() == LINE_LENGTH {
            self.shorten_line();
        }
    }

    /// Takes out the earliest event, unless it is later than `limit_ns`.
    #[inline]
    pub fn pop_until(&mut self, limit_ns: Ns) -> Option<(Ns, Action)> {
        let &key = self.line.last()?;
        let time_ns = time_of(key);
        if time_ns > limit_ns {
            return None;
        }
        self.line.pop();
        if self.line.is_empty() {
            self.fill_line();
        }
        Some((time_ns, action_of(key)))
    }

    /// The time of the earliest event; `Ns::MAX` if there is none.
    #[must_use]
    #[inline]
    pub fn next_time_ns(&self) -> Ns {
        self.line.last().map_or(Ns::MAX, |&key| time_of(key))
    }

    /// Moves the later half of the line to the heap.
    #[cold]
    fn shorten_line(&mut self) {
        let rest = self.line.split_off(LINE_LENGTH / 2);
        let later = std::mem::replace(&mut self.line, rest);
        for &key in later.iter().rev() {
            self.push_to_heap(key);
        }
    }

    /// Moves the earliest events from the heap to the line, which is empty.
    #[cold]
    fn fill_line(&mut self) {
        while self.line.len() < LINE_LENGTH / 2
            && let Some(key) = self.pop_from_heap()
        {
            self.line.push(key);
        }
        self.line.reverse();
    }

    fn push_to_heap(&mut self, key: u128) {
        let mut at = self.heap.len();
        self.heap.push(key);
        let heap = self.heap.as_mut_slice();
        while at > 0 {
            let parent = (at - 1) / 4;
            if heap[parent] <= key {
                break;
            }
            heap[at] = heap[parent];
            at = parent;
        }
        heap[at] = key;
    }

    fn pop_from_heap(&mut self) -> Option<u128> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first_mut() else {
            return Some(last);
        };
        let earliest = std::mem::replace(first, last);
        self.sift_down(last);
        Some(earliest)
    }

    /// Puts `key` where it belongs on the way down from the root, whose present key is given up.
    fn sift_down(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let (child, earliest) = match heap.get(first..) {
                Some([a, b, c, d, ..]) => {
                    // Arithmetic and no branches: which child is earliest can't be predicted.
                    let (left, right) = (a.min(b), c.min(d));
                    let on_left = usize::from(b < a);
                    let on_right = 2 + usize::from(d < c);
                    let is_right = usize::from(right < left);
                    let step = on_left + is_right * (on_right - on_left);
                    (first + step, *left.min(right))
                }
                Some([a, rest @ ..]) => {
                    rest.iter().zip(first + 1..).fold(
                        (first, *a),
                        |best, (&key, at)| if key < best.1 { (at, key) } else { best },
                    )
                }
                _ => break,
            };
            if key <= earliest {
                break;
            }
            heap[at] = earliest;
            at = child;
        }
        heap[at] = key;
    }
}

/// Time and the beginning of the sequence number, which is enough to tell where a new event goes.
const fn upper_half(key: u128) -> u64 {
    (key >> 64) as u64
}

const fn time_of(key: u128) -> Ns {
    (key >> (SEQUENCE_BITS + ACTION_BITS)) as Ns
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest 32 bits are the action")]
const fn action_of(key: u128) -> Action {
    Action(key as u32)
}
