//! Raw I/O on volumes, without a database: requests and bytes per second, and the time that each request takes.
//!
//! The terms are those of the SQLIO tool. Each of several threads keeps several requests of one size outstanding. They
//! are random or sequential, and read or write, for some time. A scenario ([`RawScenario`], read from JSON with serde)
//! has drives and volumes like an engine's scenario, and tests that are made one after another. The drives keep their
//! state between tests. [`crate::RawBlock`] makes the tests.
//!
//! Random requests go to any block of the file. In sequential order, each thread has its own part of the file, and
//! starts again at the beginning of that part after its end. The host's CPU time is not simulated, so no request waits
//! for a core. A test may send a trace instead ([`replay`]).

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

/// Tests on one set of drives. The drives keep their state between tests.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawScenario {
    /// How many times smaller the world is. Durations shrink too. Rates and times of requests don't. 1 is life-size.
    pub scale: u32,
    /// The seed of the drives. Each test has its own seed.
    pub seed: u64,
    /// Drives by name.
    pub drives: BTreeMap<String, DriveChoice>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, VolumeChoice>,
    /// The history of flash drives that declare none themselves, before the first test. It does not affect disks.
    #[serde(default)]
    pub prepared: Prepared,
    /// The tests, in order.
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
    /// It does both: each request reads or writes, at random.
    #[default]
    Mixed,
}

/// The order of the requests' offsets.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Requests go to random blocks.
    #[default]
    Random,
    /// Requests follow each other.
    Sequential,
}

/// One test.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawTest {
    /// The volume.
    pub volume: String,
    /// Whether it reads or writes. A test with a trace does not use this and the next three fields.
    #[serde(default)]
    pub access: Access,
    /// The number of reads in 1000 mixed requests.
    #[serde(default = "half")]
    pub reads_per_mille: u32,
    /// The order of the requests' offsets.
    #[serde(default)]
    pub pattern: Pattern,
    /// Bytes of a request.
    #[serde(default = "sector")]
    pub block_bytes: u64,
    /// A trace to send instead. Its own pace then gives the duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// The number of threads.
    #[serde(default = "one")]
    pub threads: u32,
    /// The number of requests that each thread keeps outstanding.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Duration in seconds at life-size, including the warm-up.
    pub duration_s: f64,
    /// The length of the warm-up at the beginning, in seconds at life-size. It is not counted.
    #[serde(default)]
    pub warm_up_s: f64,
    /// The bytes of the file, from the beginning of the volume; `None` for all of the volume.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// The seed of everything that is random in the test.
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
    /// The number of the test in the scenario.
    pub test: usize,
    /// `None` if the test succeeded. Otherwise the reason, as readable text.
    pub failure: Option<String>,
    /// The counted time, from the end of the warm-up to the end.
    pub elapsed_ns: Ns,
    /// The requests that were done in that time.
    pub ios: u64,
    /// The bytes of these requests.
    pub bytes: u64,
    /// Requests a second.
    pub ios_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// The distribution of these requests' durations.
    pub latency: LatencyTable,
    /// The time series of the counted time.
    pub series: RawSeries,
    /// All submitted requests, including those of the warm-up. Each was completed in the end.
    pub submitted: u64,
    /// The outcomes of the drives, over the whole test.
    pub drives: Vec<DriveOutcome>,
    /// The volumes, except those that are only one flash drive.
    pub volumes: Vec<VolumeOutcome>,
    /// How much later than planned the requests of a trace were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Lateness>,
    /// Every I/O, if the caller asked for the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_io: Option<Vec<IoRecord>>,
}

/// The progress of a test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RawStep {
    /// The number of the test.
    pub test: usize,
    /// The simulated time so far.
    pub at_ns: Ns,
    /// The simulated time at the end of the test.
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
    /// For each thread, its next block, and the first and the last block of its part.
    cursors: Vec<(u64, u64, u64)>,
    /// A place for each request that may be outstanding.
    places: Vec<Place>,
    /// The bytes of the counted requests.
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
    /// Every I/O with the number of the volume, if the caller asked for the list.
    trace: Option<(usize, Trace)>,
}

/// A request outstanding: the time of its submission, its size, and the request of the trace if there is a trace.
#[derive(Clone, Copy, Default)]
struct Place {
    begun_ns: Ns,
    bytes: u64,
    asked: Option<Asked>,
}

/// The number of requests between two calls of `progress`.
const LOOK_EVERY: u64 = 4096;

impl<'t, 'v> Running<'t, 'v> {
    fn new(test: &'t RawTest, scale: u32, volume: &'v mut Volume) -> Self {
        let blocks = test.blocks(scale, volume.bytes());
        let each = blocks / u64::from(test.threads);
        let part = |thread: u64| (thread * each, thread * each, (thread + 1) * each - 1);
        let (warm_ns, asked_ns) = (scaled_ns(test.warm_up_s, scale), scaled_ns(test.duration_s, scale));
        // All requests of a trace count, so the test ends only after the last one.
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

    /// Makes a test of random or sequential requests. When a request is done, the next one takes its place.
    fn draw(&mut self, progress: impl FnMut(Ns, Ns) -> ControlFlow<()>) -> Result<(), Early> {
        self.make(self.end_ns, progress, |test, free| {
            if test.now_ns < test.end_ns {
                free.drain(..).try_for_each(|token| test.submit(token))?;
            }
            Ok(Ns::MAX)
        })
    }

    /// Makes the test until all requests are done. `send` sends what can be sent now in the free places. It returns the
    /// time when it may send more without another free place.
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

    /// Records that a request is done.
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

/// The event that a request is done. The token is the request's place.
const DONE: Port = Port::new(1);

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_s(count: u64, elapsed_ns: Ns) -> f64 {
    if elapsed_ns == 0 {
        0.0
    } else {
        count as f64 * 1e9 / elapsed_ns as f64
    }
}
