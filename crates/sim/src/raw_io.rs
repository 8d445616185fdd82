//! Raw I/O on volumes, without a database: requests and bytes per second, and latencies.
//!
//! The terms are those of the SQLIO tool: a number of threads each keep a number of requests of one size outstanding,
//! random or sequential, reads or writes, for some time. A scenario ([`RawScenario`], read from JSON with serde) has
//! drives and volumes like an engine's scenario, and tests made on them one after another; the drives' state carries
//! over. [`crate::RawBlock`] makes the tests.
//!
//! Random requests go anywhere in the file, aligned with its blocks. In sequential order, each thread has its own part
//! of the file, and starts again at its end. The host's CPU time is left out, because nothing waits for a core. A test
//! may send a trace instead ([`replay`]).

mod check;
mod latency;
pub mod replay;
mod series;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::block::{Before, BlockError, Hardware, Progress, Work};
use crate::kernel::{Action, EventList, Ns, Port, scaled_ns};
use crate::outcome::{DriveOutcome, VolumeOutcome};
use crate::rng::Rng;
pub use crate::scenario::Prepared;
use crate::scenario::{DriveChoice, Refusal, VolumeChoice};
use crate::trace::{IoRecord, Trace};
use crate::volume::{Answer, Failure, Kind, Request, Volume};

use replay::Asked;
pub use replay::{Lateness, Replay};

pub use latency::{Latencies, LatencyTable};
pub use series::RawSeries;
use series::Recorder;

/// Tests on one set of drives, whose state carries over from one to the next.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawScenario {
    /// How many times smaller the simulation is, with durations; 1 is life-size. Rates and latencies do not change.
    pub scale: u32,
    /// Seeds what belongs to the block and not to a test: the drives.
    pub seed: u64,
    /// Drives by name.
    pub drives: BTreeMap<String, DriveChoice>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, VolumeChoice>,
    /// The history, before the first test, of flash drives without a history of their own. It does not affect disks.
    #[serde(default)]
    pub prepared: Prepared,
    /// What is tested, in order.
    pub tests: Vec<RawTest>,
}

/// Whether a test reads or writes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// Each request reads or writes, at random.
    #[default]
    Mixed,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Anywhere.
    #[default]
    Random,
    /// One after the other.
    Sequential,
}

/// One test.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawTest {
    /// The volume.
    pub volume: String,
    /// The operation. A test with a trace leaves out this field and the next two.
    #[serde(default)]
    pub access: Access,
    /// Of 1000 mixed requests, how many read.
    #[serde(default = "half")]
    pub reads_per_mille: u32,
    /// Where.
    #[serde(default)]
    pub pattern: Pattern,
    /// Bytes of a request.
    #[serde(default = "sector")]
    pub block_bytes: u64,
    /// A trace to send instead; the duration is then that of its own pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// How many threads.
    #[serde(default = "one")]
    pub threads: u32,
    /// Requests that each thread keeps outstanding.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Duration in seconds at life-size, including the warm-up.
    pub duration_s: f64,
    /// Length of the uncounted warm-up at the beginning, in seconds at life-size.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Bytes of the file, from the beginning of the volume; `None` for all of it.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// Seeds all that is random in the test.
    pub seed: u64,
}

const fn one() -> u32 {
    1
}

const fn half() -> u32 {
    500
}

const fn sector() -> u64 {
    512
}

/// The outcome of a test. Times are simulated nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RawOutcome {
    /// Its place in the scenario.
    pub test: usize,
    /// `None` if it succeeded; otherwise the reason, as readable text.
    pub failure: Option<String>,
    /// The counted time: from the end of the warm-up to the end.
    pub elapsed_ns: Ns,
    /// Requests done in that time.
    pub ios: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Requests a second.
    pub ios_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// How long they took.
    pub latency: LatencyTable,
    /// The counted time, interval by interval.
    pub series: RawSeries,
    /// All requests submitted, including the warm-up; each of them was completed in the end.
    pub submitted: u64,
    /// The drives, over the whole test.
    pub drives: Vec<DriveOutcome>,
    /// Volumes that are more than a flash drive.
    pub volumes: Vec<VolumeOutcome>,
    /// How far the requests of a trace came after their times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Lateness>,
    /// Every I/O, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_io: Option<Vec<IoRecord>>,
}

/// How far a test has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RawStep {
    /// Which test of the block.
    pub test: usize,
    /// Simulated time so far.
    pub at_ns: Ns,
    /// Simulated time at its end.
    pub until_ns: Ns,
}

impl Work for RawScenario {
    type Outcome = RawOutcome;
    type Step = RawStep;
    type Filled = ();

    fn check(&self) -> Result<(), Refusal> {
        Self::check(self)
    }

    fn hardware(&self) -> Hardware<'_> {
        Hardware {
            drives: &self.drives,
            volumes: &self.volumes,
            scale: self.scale,
            seed: self.seed,
        }
    }

    fn prepared(&self) -> Option<Prepared> {
        Some(self.prepared)
    }

    fn start_of(&self, test: usize) -> Option<(u64, Before)> {
        self.tests.get(test).map(|test| (test.seed, Before::Keep))
    }

    fn make(
        &self,
        index: usize,
        (): (),
        mut volumes: Vec<Volume>,
        every_io: bool,
        progress: Progress<'_, RawStep>,
    ) -> (Vec<Volume>, Result<RawOutcome, BlockError>) {
        let test = &self.tests[index];
        let number = self.volumes.keys().position(|name| *name == test.volume);
        let number = number.expect("the scenario was checked");
        let mut running = Running::new(test, self.scale, &mut volumes[number]);
        running.trace = every_io.then(|| (number, Trace::default()));
        let told = |at_ns, until_ns| {
            progress(RawStep {
                test: index,
                at_ns,
                until_ns,
            })
        };
        let made = match &test.replay {
            Some(replay) => running.replay(replay, told).map(|late| running.late = Some(late)),
            None => running.draw(told),
        };
        let outcome = running.outcome(index, made);
        (volumes, outcome)
    }

    fn add(outcome: &mut RawOutcome, drives: Vec<DriveOutcome>, volumes: Vec<VolumeOutcome>) {
        outcome.drives = drives;
        outcome.volumes = volumes;
    }
}

/// Why a test ended early.
enum Early {
    Failed(Failure),
    Interrupted,
}

/// A test in progress.
struct Running<'t, 'v> {
    test: &'t RawTest,
    volume: &'v mut Volume,
    rng: Rng,
    blocks: u64,
    /// For each thread the next block, and the first and the last of its part.
    cursors: Vec<(u64, u64, u64)>,
    /// One for each request outstanding.
    places: Vec<Place>,
    /// Bytes of the counted requests.
    bytes: u64,
    late: Option<Lateness>,
    due: EventList,
    now_ns: Ns,
    warm_ns: Ns,
    end_ns: Ns,
    submitted: u64,
    done: u64,
    latencies: Latencies,
    recorder: Recorder,
    /// Every I/O with the number of the volume, if that was asked for.
    trace: Option<(usize, Trace)>,
}

/// An outstanding request: its submission time, its size and, in a trace, its kind.
#[derive(Clone, Copy, Default)]
struct Place {
    begun_ns: Ns,
    bytes: u64,
    asked: Option<Asked>,
}

/// Requests between two calls of `progress`.
const LOOK_EVERY: u64 = 4096;

impl<'t, 'v> Running<'t, 'v> {
    fn new(test: &'t RawTest, scale: u32, volume: &'v mut Volume) -> Self {
        let blocks = test.blocks(scale, volume.bytes());
        let each = blocks / u64::from(test.threads);
        let part = |thread: u64| (thread * each, thread * each, (thread + 1) * each - 1);
        let (warm_ns, asked_ns) = (scaled_ns(test.warm_up_s, scale), scaled_ns(test.duration_s, scale));
        // All requests of a trace count, however long they take.
        let end_ns = if test.replay.is_some() { Ns::MAX / 4 } else { asked_ns };
        Self {
            test,
            rng: Rng::stream(test.seed, "raw I/O"),
            blocks,
            cursors: (0..u64::from(test.threads)).map(part).collect(),
            places: vec![Place::default(); (test.threads * test.outstanding) as usize],
            bytes: 0,
            late: None,
            due: EventList::new(),
            now_ns: 0,
            warm_ns,
            end_ns,
            submitted: 0,
            done: 0,
            latencies: Latencies::default(),
            recorder: Recorder::new(warm_ns, end_ns, asked_ns, scale),
            trace: None,
            volume,
        }
    }

    /// Makes a test of random requests. Each finished request gives its place to the next one.
    fn draw(&mut self, progress: impl FnMut(Ns, Ns) -> ControlFlow<()>) -> Result<(), Early> {
        self.make(self.end_ns, progress, |test, free| {
            if test.now_ns < test.end_ns {
                free.drain(..).try_for_each(|token| test.submit(token))?;
            }
            Ok(Ns::MAX)
        })
    }

    /// Makes the test until all requests are done. `send` sends the requests that can be sent now through free places.
    /// It returns the time at which there may be more requests that need no further place.
    fn make(
        &mut self,
        until_ns: Ns,
        mut progress: impl FnMut(Ns, Ns) -> ControlFlow<()>,
        mut send: impl FnMut(&mut Self, &mut Vec<u32>) -> Result<Ns, Early>,
    ) -> Result<(), Early> {
        let mut free: Vec<u32> = (0..).take(self.places.len()).collect();
        let mut looked = 0;
        loop {
            let send_ns = send(self, &mut free)?;
            if send_ns == Ns::MAX && self.done == self.submitted {
                return Ok(());
            }
            let (alone_ns, volume_ns) = (self.due.next_time_ns(), self.volume.next_event());
            self.now_ns = send_ns.min(alone_ns).min(volume_ns);
            let were_free = free.len();
            if alone_ns == self.now_ns {
                free.extend(self.due.pop_until(alone_ns).map(|(_, action)| action.token()));
            } else if volume_ns == self.now_ns {
                self.volume.advance(volume_ns, &mut free).map_err(Early::Failed)?;
            }
            for &token in &free[were_free..] {
                self.record(token);
            }
            if self.done >= looked + LOOK_EVERY {
                looked = self.done;
                if progress(self.now_ns, until_ns).is_break() {
                    return Err(Early::Interrupted);
                }
            }
        }
    }

    fn submit(&mut self, token: u32) -> Result<(), Early> {
        let kind = match self.test.access {
            Access::Read => Kind::Read,
            Access::Mixed if self.rng.below(1000) < u64::from(self.test.reads_per_mille) => Kind::Read,
            Access::Write | Access::Mixed => Kind::Write,
        };
        let block = match self.test.pattern {
            Pattern::Random => self.rng.below(self.blocks),
            Pattern::Sequential => {
                let (next, first, last) = &mut self.cursors[(token / self.test.outstanding) as usize];
                let block = *next;
                *next = if block == *last { *first } else { block + 1 };
                block
            }
        };
        let request = Request {
            kind,
            offset: block * self.test.block_bytes,
            bytes: self.test.block_bytes,
        };
        self.send(token, request, None)
    }

    fn send(&mut self, token: u32, request: Request, asked: Option<Asked>) -> Result<(), Early> {
        self.places[token as usize] = Place {
            begun_ns: self.now_ns,
            bytes: request.bytes,
            asked,
        };
        self.submitted += 1;
        if let Some((volume, trace)) = &mut self.trace {
            trace.begin(self.now_ns, token, *volume, request);
        }
        if let Answer::Done(done_ns) = self.volume.submit(self.now_ns, request, token).map_err(Early::Failed)? {
            self.due.push(done_ns, Action::call(DONE, token));
        }
        Ok(())
    }

    /// A request is done.
    fn record(&mut self, token: u32) {
        let Place { begun_ns, bytes, .. } = std::mem::take(&mut self.places[token as usize]);
        let latency_ns = self.now_ns - begun_ns;
        self.done += 1;
        if let Some((_, trace)) = &mut self.trace {
            trace.end(token, latency_ns);
        }
        if self.now_ns > self.warm_ns && self.now_ns <= self.end_ns {
            if self.now_ns > self.recorder.until_ns {
                self.recorder.turn(self.now_ns, self.volume);
            }
            self.latencies.add(latency_ns);
            self.recorder.add(latency_ns);
            self.bytes += bytes;
        }
    }

    fn outcome(self, index: usize, made: Result<(), Early>) -> Result<RawOutcome, BlockError> {
        let failure = match made {
            Ok(()) => None,
            Err(Early::Failed(failure)) => Some(failure.to_string()),
            Err(Early::Interrupted) => return Err(BlockError::Interrupted),
        };
        let latency = self.latencies.table();
        let elapsed_ns = self.end_ns.min(self.now_ns).saturating_sub(self.warm_ns);
        let bytes = self.bytes;
        Ok(RawOutcome {
            test: index,
            failure,
            elapsed_ns,
            ios: latency.count,
            bytes,
            ios_per_s: per_s(latency.count, elapsed_ns),
            bytes_per_s: per_s(bytes, elapsed_ns),
            latency,
            series: self.recorder.finish(self.now_ns, self.volume),
            submitted: self.submitted,
            drives: Vec::new(),
            volumes: Vec::new(),
            late: self.late,
            every_io: self.trace.map(|(_, mut trace)| trace.take()),
        })
    }
}

/// A request is done; the token is its slot among those outstanding.
const DONE: Port = Port::new(1);

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_s(count: u64, elapsed_ns: Ns) -> f64 {
    if elapsed_ns == 0 {
        0.0
    } else {
        count as f64 * 1e9 / elapsed_ns as f64
    }
}
