//! The queue of a trace's requests. A thread takes the next request when its time has come and no request that it
//! depends on is in progress.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use storagelab_sim::Latencies;
use storagelab_sim::replay::{Asked, Lateness, Pace, Replay, What};

use crate::{Counted, Sent};

/// The queue. Only the first thread in it waits for the time of the next request. Other threads wait for their turn.
pub(crate) struct Queue<'r> {
    replay: &'r Replay,
    began: Instant,
    state: Mutex<State>,
    /// Notified when the place of the first thread becomes free.
    turn: Condvar,
    /// Notified when the first thread may go on: the next request's dependency has ended, or the replay has failed.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    next: usize,
    /// For each thread, the request that it has in progress.
    in_progress: Vec<Option<Asked>>,
    has_first: bool,
    /// Whether the first thread waits for a request in progress to end.
    held: bool,
    failed: Option<String>,
    end_ns: u64,
    late: Latencies,
    read: Counted,
    write: Counted,
}

impl<'r> Queue<'r> {
    /// Makes the queue. Its clock starts now, at the time of the first request.
    pub(crate) fn new(replay: &'r Replay, threads: usize) -> Self {
        Self {
            replay,
            began: Instant::now(),
            state: Mutex::new(State {
                in_progress: vec![None; threads],
                ..State::default()
            }),
            turn: Condvar::new(),
            freed: Condvar::new(),
        }
    }

    /// Returns the nanoseconds since the queue was made.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next request and takes it for a thread. Returns `None` when no request is left.
    pub(crate) fn next(&self, slot: usize) -> Option<Asked> {
        let mut state = self.state();
        while state.has_first {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.has_first = true;
        let taken = loop {
            let Some(asked) = self.replay.requests.get(state.next).copied() else {
                break None;
            };
            if state.failed.is_some() {
                break None;
            }
            if state
                .in_progress
                .iter()
                .flatten()
                .any(|before| asked.waits_for(*before))
            {
                state.held = true;
                state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.held = false;
                continue;
            }
            if self.replay.pace == Pace::Recorded {
                let now_ns = self.now_ns();
                if asked.0 > now_ns {
                    let wait = Duration::from_nanos(asked.0 - now_ns);
                    let waited = self.freed.wait_timeout(state, wait);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
                state.late.add(now_ns - asked.0);
            }
            state.next += 1;
            state.in_progress[slot] = Some(asked);
            break Some(asked);
        };
        state.has_first = false;
        drop(state);
        self.turn.notify_one();
        taken
    }

    /// Records that a thread's request has ended, successfully or not.
    pub(crate) fn end(&self, slot: usize, begun_ns: u64, made: Result<(), String>) {
        let now_ns = self.now_ns();
        let mut state = self.state();
        if let (Some(Asked(_, what, _, bytes)), Ok(())) = (state.in_progress[slot].take(), &made) {
            let counted = match what {
                What::R => Some(&mut state.read),
                What::W => Some(&mut state.write),
                What::S => None,
            };
            if let Some(counted) = counted {
                counted.add(bytes, now_ns - begun_ns, now_ns);
            }
        }
        state.end_ns = state.end_ns.max(now_ns);
        let over = made.is_err();
        if let Err(what) = made {
            state.failed.get_or_insert(what);
        }
        let wanted = state.held || over;
        drop(state);
        if wanted {
            self.freed.notify_one();
        }
    }

    /// Returns what was sent, after all threads have ended.
    pub(crate) fn sent(self) -> Result<Sent, String> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(what) = state.failed {
            return Err(what);
        }
        Ok(Sent {
            elapsed_ns: state.end_ns,
            late: Lateness {
                asked_ns: self.replay.requests.last().map_or(0, |asked| asked.0),
                late: state.late.table(),
            },
            read: state.read.done(),
            write: state.write.done(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use storagelab_sim::replay::{Asked, Pace, Replay, What};

    use super::Queue;

    #[test]
    fn a_request_that_depends_on_another_is_taken_once_that_has_ended() {
        let replay = Replay {
            pace: Pace::AsFastAsPossible,
            requests: vec![Asked(0, What::W, 0, 4096), Asked(0, What::S, 0, 4096)],
        };
        let (queue, ended) = (Queue::new(&replay, 2), AtomicBool::new(false));
        assert!(queue.next(0).is_some());
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(queue.next(1).is_some());
                assert!(
                    ended.load(Ordering::SeqCst),
                    "the sync was taken before the write had ended"
                );
            });
            thread::sleep(Duration::from_millis(20));
            ended.store(true, Ordering::SeqCst);
            queue.end(0, 0, Ok(()));
        });
        assert!(queue.next(0).is_none());
    }
}
