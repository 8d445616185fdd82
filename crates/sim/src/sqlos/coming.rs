//! What is to come to one scheduler, and when: completions of I/O, and ends of sleep.

use std::collections::VecDeque;

use crate::kernel::{Action, Ns};

/// Actions in the order of their times, and of their coming where times are equal.
///
/// A sorted line and no heap: a scheduler has few of them, and most of those that come last are due last.
#[derive(Debug, Default)]
pub(super) struct Coming {
    line: VecDeque<(Ns, Action)>,
}

impl Coming {
    #[inline]
    pub(super) fn push(&mut self, time_ns: Ns, action: Action) {
        if self.line.back().is_none_or(|last| last.0 <= time_ns) {
            self.line.push_back((time_ns, action));
        } else {
            let place = self.line.partition_point(|other| other.0 <= time_ns);
            self.line.insert(place, (time_ns, action));
        }
    }

    /// Takes out the first, if its time has come.
    #[inline]
    pub(super) fn pop_until(&mut self, now_ns: Ns) -> Option<Action> {
        if self.next_time_ns() > now_ns {
            return None;
        }
        self.line.pop_front().map(|(_, action)| action)
    }

    /// When the first is due; [`Ns::MAX`] if there is none.
    #[inline]
    pub(super) fn next_time_ns(&self) -> Ns {
        self.line.front().map_or(Ns::MAX, |first| first.0)
    }
}
