//! Sends a trace's requests to a file on each volume, each at its own time or as soon as its dependencies allow.
//!
//! Threads take requests from one queue, in order, by the same rules as simulated replays ([`storagelab_sim::replay`]).
//! All times are counted from the same beginning, so a late request does not delay later ones.

mod file;
mod queue;

use std::path::PathBuf;
use std::thread;

use serde::Serialize;
use storagelab_sim::replay::{Lateness, Replay, What};
use storagelab_sim::{Latencies, LatencyTable};

use file::{Buffer, Target};
use queue::Queue;

/// What was sent. Syncs are sent but not counted.
#[derive(Clone, Debug, Serialize)]
pub struct Sent {
    /// The time from the planned time of the first request to the end of the last one.
    pub elapsed_ns: u64,
    /// How much later than planned the requests were sent.
    pub late: Lateness,
    /// Requests that read.
    pub read: Done,
    /// Requests that wrote.
    pub write: Done,
}

/// Requests in one direction.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Done {
    /// The sum of their bytes.
    pub bytes: u64,
    /// The distribution of their durations.
    pub latency: LatencyTable,
    /// For each second: how many requests ended in it, and the sum of their latencies in nanoseconds.
    pub seconds: Vec<(u64, u64)>,
}

/// Counts the requests in one direction while they are sent.
#[derive(Debug, Default)]
struct Counted {
    bytes: u64,
    latencies: Latencies,
    seconds: Vec<(u64, u64)>,
}

impl Counted {
    fn add(&mut self, bytes: u64, latency_ns: u64, end_ns: u64) {
        let second = usize::try_from(end_ns / 1_000_000_000).unwrap_or(usize::MAX - 1);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, (0, 0));
        }
        self.seconds[second].0 += 1;
        self.seconds[second].1 += latency_ns;
        self.bytes += bytes;
        self.latencies.add(latency_ns);
    }

    fn done(self) -> Done {
        Done {
            bytes: self.bytes,
            latency: self.latencies.table(),
            seconds: self.seconds,
        }
    }
}

/// Sends the requests of a trace with `threads` threads to files of `bytes_each` bytes. Offsets run through all files.
/// The files are opened with `flags`, such as `O_DIRECT`.
///
/// # Errors
/// Returns a message about the first request that failed.
pub fn send(paths: &[PathBuf], bytes_each: u64, flags: i32, threads: usize, replay: &Replay) -> Result<Sent, String> {
    let writes = replay.requests.iter().any(|asked| asked.1 == What::W);
    let longest = replay.requests.iter().map(|asked| asked.3).max().unwrap_or(0);
    let target = Target::open(paths, bytes_each, flags, writes)?;
    let buffers: Vec<Buffer> = (0..threads)
        .map(|slot| Buffer::new(longest, writes, slot as u64))
        .collect();
    let queue = Queue::new(replay, threads);
    thread::scope(|scope| {
        for (slot, mut buffer) in buffers.into_iter().enumerate() {
            let (queue, target) = (&queue, &target);
            scope.spawn(move || {
                while let Some(asked) = queue.next(slot) {
                    let begun_ns = queue.now_ns();
                    let made = target.make(asked, &mut buffer);
                    queue.end(slot, begun_ns, made);
                }
            });
        }
    });
    queue.sent()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use storagelab_sim::replay::{Asked, Pace, Replay, What};

    use super::{Sent, send};

    fn sent(pace: Pace, threads: usize, requests: Vec<Asked>) -> Result<Sent, String> {
        let name = |file| format!("storagelab-replay-{}-{pace:?}-{threads}-{file}", std::process::id());
        let paths = ["a", "b"].map(|file| std::env::temp_dir().join(name(file)));
        for path in &paths {
            std::fs::write(path, vec![0; 8192]).expect("there is room");
        }
        let made = send(&paths, 8192, 0, threads, &Replay { pace, requests });
        let written = std::fs::read(&paths[1]).expect("it is there");
        assert_eq!(
            written[4096..] == [0; 4096],
            made.is_err(),
            "what begins at byte 12288 goes to the second file"
        );
        for path in &paths {
            std::fs::remove_file(path).expect("it is there");
        }
        made
    }

    #[test]
    fn each_request_has_its_own_time_or_none() {
        let ms = |count: u64| count * 1_000_000;
        let requests = vec![
            Asked(0, What::R, 0, 4096),
            Asked(ms(20), What::W, 12288, 4096),
            Asked(ms(30), What::S, 8192, 8192),
            Asked(ms(60), What::R, 0, 512),
        ];
        let paced = sent(Pace::Recorded, 2, requests.clone()).expect("all can be sent");
        assert_eq!((paced.read.bytes, paced.write.bytes), (4608, 4096));
        assert_eq!(
            (paced.read.latency.count, paced.late.late.count),
            (2, 4),
            "a sync is late, too"
        );
        assert!(Duration::from_nanos(paced.elapsed_ns) >= Duration::from_millis(60));
        let fast = sent(Pace::AsFastAsPossible, 1, requests).expect("all can be sent");
        assert!(fast.elapsed_ns < paced.elapsed_ns && fast.late.late.count == 0);
    }

    #[test]
    fn a_request_that_fails_ends_the_replay_and_is_named() {
        let beyond = vec![
            Asked(0, What::R, 0, 512),
            Asked(1, What::R, 16384, 512),
            Asked(1_u64 << 60, What::R, 0, 512),
        ];
        let error = sent(Pace::Recorded, 3, beyond).expect_err("the file ends there");
        assert!(error.starts_with("no file has byte 16384"), "{error}");
    }
}
