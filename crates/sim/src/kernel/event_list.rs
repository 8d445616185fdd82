//! The future-event list: (time, sequence, action), earliest first; a sorted array for few events, a heap for many.

use super::Ns;
use crate::hint::{put, rare};

/// Times must stay below this: 2^56 ns, or 833 days.
pub const TIME_LIMIT_NS: Ns = 1 << TIME_BITS;

const TIME_BITS: u32 = 56;
const SEQUENCE_BITS: u32 = 40;
const ACTION_BITS: u32 = 32;
const TOKEN_BITS: u32 = 28;

const _: () = assert!(TIME_BITS + SEQUENCE_BITS + ACTION_BITS == 128);

/// The target of an event: a handler of the executor. Port 0 is the executor itself, which resumes a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(u8);

impl Port {
    /// How many ports there are, the executor's own included.
    pub const COUNT: usize = 16;
    pub(super) const RESUME: Self = Self(0);

    /// Port `number`, from 1 to 15. [`crate::sqlos`], where used, takes ports 1 to 5.
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

/// The action of an event: resume a process, or call a port with a token. 32 bits.
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

/// From this many events on, the heap is used.
const MANY: usize = 16;
/// Once only this many are left, the sorted array is used again.
const FEW: usize = 8;

/// Future events, taken out in the order of their times, and in scheduling order where times are equal.
///
/// An event is one 128-bit number, time in the upper 56 bits, a sequence number in the next 40, the action below, so that a
/// single comparison orders two events.
///
/// Few events, as for a server of some cores, are kept in a sorted array; many form a heap. Taking out an event leaves
/// a hole at the root, which the next insertion fills: most events of a simulation schedule their successor, and this
/// way each pair costs one pass through the heap, not two.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    /// Few events, the latest first.
    line: Vec<u128>,
    /// Many events, while the array is empty; otherwise this is empty.
    ///
    /// A heap with four children per parent: half as deep as a binary one, and the children are adjacent.
    /// `heap[0]` means nothing while `hole` is set.
    heap: Vec<u128>,
    hole: bool,
    sequence: u64,
}

impl EventList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            line: Vec::new(),
            heap: Vec::new(),
            hole: false,
            sequence: 0,
        }
    }

    /// How many events are to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line.len() + self.heap.len() - usize::from(self.hole)
    }

    /// True if no event is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        if rare(self.hole) {
            self.hole = false;
            self.sift_down(key);
        } else if self.heap.is_empty() && self.line.len() < MANY {
            self.push_to_few(key);
        } else {
            self.push_to_many(key);
        }
    }

    /// Takes out the earliest event, unless it is later than `limit_ns`.
    #[inline(always)]
    pub fn pop_until(&mut self, limit_ns: Ns) -> Option<(Ns, Action)> {
        let few = self.line.last().copied();
        let key = match few {
            Some(key) => key,
            None => self.first_of_many()?,
        };
        let time_ns = time_of(key);
        if time_ns > limit_ns {
            return None;
        }
        if few.is_some() {
            self.line.pop();
        } else if self.heap.len() > FEW {
            self.hole = true;
        } else {
            self.become_few();
        }
        Some((time_ns, action_of(key)))
    }

    /// The time of the earliest event; `Ns::MAX` if there is none.
    #[must_use]
    #[inline]
    pub fn next_time_ns(&self) -> Ns {
        let earliest = self.line.last().copied().or_else(|| match self.heap.as_slice() {
            [first, ..] if !self.hole => Some(*first),
            [_, a, b, c, d, ..] => Some(*a.min(b).min(c.min(d))),
            few => few.iter().skip(1).min().copied(),
        });
        earliest.map_or(Ns::MAX, time_of)
    }

    #[inline(always)]
    fn push_to_few(&mut self, key: u128) {
        put(&mut self.line, key);
        let line = self.line.as_mut_slice();
        let mut at = line.len() - 1;
        while at > 0 && line[at - 1] < key {
            line[at] = line[at - 1];
            at -= 1;
        }
        line[at] = key;
    }

    /// Apart from a hole, which is filled elsewhere.
    fn push_to_many(&mut self, key: u128) {
        // In ascending order, the few are a heap already.
        self.heap.extend(self.line.drain(..).rev());
        self.heap.push(key);
        self.sift_up(key);
    }

    #[inline(always)]
    fn first_of_many(&mut self) -> Option<u128> {
        self.fill_hole();
        self.heap.first().copied()
    }

    /// Takes out the earliest of many, and moves the rest to the sorted array.
    #[cold]
    fn become_few(&mut self) {
        self.heap.sort_unstable_by(|one, other| other.cmp(one));
        self.heap.pop();
        self.line.append(&mut self.heap);
    }

    #[inline]
    fn fill_hole(&mut self) {
        if !self.hole {
            return;
        }
        self.hole = false;
        match self.heap.pop() {
            Some(last) if !self.heap.is_empty() => self.sift_down(last),
            _ => {}
        }
    }

    /// Puts `key` where it belongs on the way down from the root, whose present key is given up.
    #[inline(always)]
    fn sift_down(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            let (child, earliest) = match heap.get(first..) {
                Some([a, b, c, d, ..]) => {
                    // Arithmetic instead of branches: which child is earliest can't be predicted.
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

    /// Puts `key` where it belongs on the way up from the last place, whose present key is given up.
    #[inline]
    fn sift_up(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = heap.len() - 1;
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
}

const fn time_of(key: u128) -> Ns {
    (key >> (SEQUENCE_BITS + ACTION_BITS)) as Ns
}

#[expect(clippy::cast_possible_truncation, reason = "the lowest 32 bits are the action")]
const fn action_of(key: u128) -> Action {
    Action(key as u32)
}
