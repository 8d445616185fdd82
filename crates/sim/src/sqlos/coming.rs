//! One scheduler's future arrivals: completions of I/O, and ends of sleep.

use crate::hint::{put, rare};
use crate::kernel::{Action, Ns};

/// Taken actions are removed once there are this many, and at least as many as those to come.
const SWEEP: usize = 64;

/// Actions in the order of their times, and of their arrival where times are equal.
///
/// A sorted array instead of an [`crate::kernel::EventList`]: a scheduler has few actions, and most of those added last are due
/// last. With the list, a run of article A takes 3 % more instructions.
#[derive(Debug, Default)]
pub(super) struct Coming {
    line: Vec<(Ns, Action)>,
    /// How many, from the front, have been taken.
    taken: usize,
}

impl Coming {
    #[inline]
    pub(super) fn push(&mut self, time_ns: Ns, action: Action) {
        let new = (time_ns, action);
        put(&mut self.line, new);
        // Those that are due later move up by one place each.
        let mut waiting = self.line[self.taken..].iter_mut().rev();
        let Some(mut place) = waiting.next() else { return };
        for before in waiting {
            if before.0 <= time_ns {
                break;
            }
            *place = *before;
            place = before;
        }
        *place = new;
    }

    /// Takes out the first, if its time has come.
    #[inline]
    pub(super) fn pop_until(&mut self, now_ns: Ns) -> Option<Action> {
        let &(time_ns, action) = self.line.get(self.taken)?;
        if time_ns > now_ns {
            return None;
        }
        self.taken += 1;
        if rare(self.taken == self.line.len()) {
            self.line.clear();
            self.taken = 0;
        } else if rare(self.taken >= SWEEP && 2 * self.taken >= self.line.len()) {
            self.line.drain(..self.taken);
            self.taken = 0;
        }
        Some(action)
    }

    /// When the first is due; [`Ns::MAX`] if there is none.
    #[inline]
    pub(super) fn next_time_ns(&self) -> Ns {
        self.line.get(self.taken).map_or(Ns::MAX, |first| first.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Port;
    use crate::rng::Rng;

    #[test]
    fn what_comes_is_noticed_in_the_order_of_time_and_then_of_coming_and_never_too_early() {
        let mut rng = Rng::stream(1, "coming");
        let (mut coming, mut sorted) = (Coming::default(), Vec::new());
        for token in 0..1000 {
            let time_ns = rng.below(300);
            coming.push(time_ns, Action::call(Port::new(1), token));
            sorted.push((time_ns, token));
        }
        sorted.sort_unstable();
        for &(time_ns, token) in &sorted {
            assert_eq!(coming.next_time_ns(), time_ns);
            assert!(time_ns == 0 || coming.pop_until(time_ns - 1).is_none());
            assert_eq!(coming.pop_until(time_ns).map(Action::token), Some(token));
        }
        assert_eq!(coming.next_time_ns(), Ns::MAX);
    }
}
