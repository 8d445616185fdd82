//! Tests that send a trace instead of random or sequential requests, at its own pace or as fast as possible.
//!
//! Requests are sent in their order. Each waits for a free place, and for the requests in progress that it depends on
//! ([`Asked::waits_for`]). If the trace is sent at its own pace, each request also waits for its time.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{Early, Latencies, LatencyTable, Running};
use crate::kernel::Ns;
use crate::volume::{Kind, Request};

/// A trace to be sent.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// When requests are sent.
    pub pace: Pace,
    /// The requests, in order.
    pub requests: Vec<Asked>,
}

/// When the requests of a trace are sent.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// At their own times, or later when there is a free place.
    Recorded,
    /// As soon as there is a free place.
    AsFastAsPossible,
}

/// A request of a trace: its time, its kind, its offset and its bytes. The bytes of a sync are those of its whole file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Asked(pub Ns, pub What, pub u64, pub u64);

/// The kind of a request in a trace.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It reads.
    R,
    /// It writes.
    W,
    /// A sync: what was written before must be safe.
    S,
}

impl Asked {
    /// Whether it depends on `before`, a request that was sent before it and is still in progress. It does if both have
    /// bytes in common, unless both read.
    #[must_use]
    pub fn waits_for(self, before: Self) -> bool {
        let (Self(_, what, offset, bytes), Self(_, earlier, begin, length)) = (self, before);
        let in_common = offset < begin.saturating_add(length) && begin < offset.saturating_add(bytes);
        in_common && (what, earlier) != (What::R, What::R)
    }
}

impl Replay {
    /// Returns the time of the last request.
    pub(super) fn until_ns(&self) -> Ns {
        self.requests.last().map_or(0, |asked| asked.0)
    }

    /// Checks that each request can be sent to a volume of this many bytes.
    pub(super) fn check(&self, volume_bytes: u64) -> Result<(), String> {
        let mut last_ns = 0;
        for (number, Asked(at_ns, what, offset, bytes)) in self.requests.iter().enumerate() {
            let number = number + 1;
            if *at_ns < last_ns {
                return Err(format!("request {number} comes before the one above it"));
            }
            last_ns = *at_ns;
            if *what != What::S && (*bytes == 0 || offset.saturating_add(*bytes) > volume_bytes) {
                return Err(format!(
                    "request {number} is {bytes} bytes at {offset}, and the volume has {volume_bytes}"
                ));
            }
        }
        Ok(())
    }
}

/// How much later than planned the requests of a trace were sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// The planned time of the last request.
    pub asked_ns: Ns,
    /// How long after its time each request was sent. It is empty if they were sent as fast as possible.
    pub late: LatencyTable,
}

impl Running<'_, '_> {
    /// Sends a trace. When it returns, all requests are done.
    pub(super) fn replay(
        &mut self,
        replay: &Replay,
        progress: impl FnMut(Ns, Ns) -> ControlFlow<()>,
    ) -> Result<Lateness, Early> {
        let (mut next, mut late) = (0, Latencies::default());
        self.make(replay.until_ns(), progress, |test, free| {
            while let Some(asked) = replay.requests.get(next).copied() {
                let Asked(at_ns, what, offset, bytes) = asked;
                let mut in_progress = test.places.iter().filter_map(|place| place.asked);
                if free.is_empty() || in_progress.any(|before| asked.waits_for(before)) {
                    break;
                }
                if replay.pace == Pace::Recorded {
                    if at_ns > test.now_ns {
                        return Ok(at_ns);
                    }
                    late.add(test.now_ns - at_ns);
                }
                next += 1;
                let kind = match what {
                    What::R => Kind::Read,
                    What::W => Kind::Write,
                    What::S => continue,
                };
                let token = free.pop().expect("there is one");
                test.send(token, Request { kind, offset, bytes }, Some(asked))?;
            }
            Ok(Ns::MAX)
        })?;
        Ok(Lateness {
            asked_ns: replay.until_ns(),
            late: late.table(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, What};

    #[test]
    fn a_request_waits_for_those_whose_bytes_it_changes_or_needs_and_a_sync_for_all_of_its_file() {
        let (read, write) = (Asked(0, What::R, 4096, 4096), Asked(0, What::W, 4096, 4096));
        let (beside, across) = (Asked(0, What::W, 8192, 512), Asked(0, What::W, 8191, 512));
        let (sync, of_another_file) = (Asked(0, What::S, 0, 16384), Asked(0, What::W, 16384, 512));
        assert!(read.waits_for(write) && write.waits_for(read) && write.waits_for(write) && across.waits_for(read));
        assert!(!read.waits_for(read) && !beside.waits_for(write) && !write.waits_for(beside));
        assert!(sync.waits_for(read) && beside.waits_for(sync));
        assert!(!sync.waits_for(of_another_file) && !of_another_file.waits_for(sync));
    }
}
