//! A disk over time: its queue, the request in service, the position of the arm and the rotation of the platters.
//!
//! A request takes the time of the command (unless it waited longer than that in the queue), the seek, extra settling
//! before a write, the rotation until its first byte is under the head, and the transfer of its bytes. Three cases take
//! less:
//! - A write that was already waiting and begins where the last one ended continues without a pause.
//! - So does a read. It also finds data that passed under the head since the last read, because the disk reads ahead.
//! - A read of data in the buffer takes only the time of the command and the interface.

use std::collections::VecDeque;

use serde::Serialize;

use super::parameters::{Order, Parameters};
use super::places::Places;
use super::seek::SeekCurve;
use crate::kernel::{Ns, SEC};
use crate::rng::Rng;
use crate::saved::{Reader, StateError, Writer};

/// The word "DISKDR", a zero byte, and the version of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"DISKDR\0\x01");

#[derive(Clone, Copy, Debug)]
struct Request {
    token: u32,
    byte: u64,
    bytes: u64,
    write: bool,
    arrived_ns: Ns,
}

/// A stream of sequential requests. It began at byte `first`. Byte `end` passed under the head at `at_ns`.
#[derive(Clone, Copy, Debug)]
struct Stream {
    first: u64,
    end: u64,
    at_ns: Ns,
    write: bool,
}

/// Counters of a disk, since it was made or for one run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counters {
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that continued where the previous one ended, and reads that found their data in the buffer.
    pub in_order: u64,
    /// Time that the arm spent moving and settling.
    pub seek_ns: u64,
    /// Time until the first byte was under the head.
    pub turn_ns: u64,
    /// Time in which a request was in service.
    pub busy_ns: u64,
    /// Time that requests waited for service.
    pub queued_ns: u64,
}

impl Counters {
    fn all(&mut self) -> [&mut u64; 9] {
        [
            &mut self.reads,
            &mut self.writes,
            &mut self.read_bytes,
            &mut self.written_bytes,
            &mut self.in_order,
            &mut self.seek_ns,
            &mut self.turn_ns,
            &mut self.busy_ns,
            &mut self.queued_ns,
        ]
    }

    /// Returns the increase of each counter since `earlier`.
    #[must_use]
    pub fn since(mut self, mut earlier: Self) -> Self {
        for (now, before) in self.all().into_iter().zip(earlier.all()) {
            *now -= *before;
        }
        self
    }
}

/// One disk.
#[derive(Clone, Debug)]
pub struct Disk {
    parameters: Parameters,
    places: Places,
    curve: SeekCurve,
    /// The rotation of the platters at time 0.
    phase_ns: Ns,
    /// The position of the head: the next byte on its track.
    head: u64,
    stream: Option<Stream>,
    queue: VecDeque<Request>,
    serving: Option<(Ns, u32)>,
    counters: Counters,
}

impl Disk {
    /// Makes a disk at rest at time 0, with its arm at the outer edge. `rng` determines the rotation of its platters.
    ///
    /// # Errors
    /// Returns what [`Parameters::check`] refuses.
    pub fn new(parameters: Parameters, mut rng: Rng) -> Result<Self, String> {
        parameters.check()?;
        let places = parameters.places();
        Ok(Self {
            curve: parameters.curve(places.cylinders())?,
            places,
            phase_ns: rng.below(parameters.revolution_ns),
            head: 0,
            stream: None,
            queue: VecDeque::new(),
            serving: None,
            counters: Counters::default(),
            parameters,
        })
    }

    /// Finishes all work and resets the clock to 0. This happens between two runs. The arm stays where it is.
    pub fn rest(&mut self, mut rng: Rng) {
        self.phase_ns = rng.below(self.parameters.revolution_ns);
        self.stream = None;
        self.queue.clear();
        self.serving = None;
    }

    /// The disk's parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The disk's counters since it was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Requests waiting or in service.
    #[must_use]
    pub fn in_progress(&self) -> u64 {
        self.queue.len() as u64 + u64::from(self.serving.is_some())
    }

    /// Returns the distance between the head and a byte, in bytes.
    #[must_use]
    pub fn distance(&self, byte: u64) -> u64 {
        self.head.abs_diff(byte)
    }

    /// Accepts a request. If the disk was idle, [`Disk::next_event`] returns afterwards when the request will be done.
    ///
    /// # Panics
    /// Panics if the request goes beyond the last byte, or has no bytes.
    pub fn submit(&mut self, now: Ns, byte: u64, bytes: u64, write: bool, token: u32) {
        assert!(
            bytes > 0 && byte + bytes <= self.parameters.usable_bytes,
            "{bytes} bytes from {byte} on a disk of {}",
            self.parameters.usable_bytes
        );
        self.queue.push_back(Request {
            token,
            byte,
            bytes,
            write,
            arrived_ns: now,
        });
        if self.serving.is_none() {
            self.serve_next(now);
        }
    }

    /// Returns when the request in service will be done, or `Ns::MAX` if there is none.
    #[must_use]
    pub fn next_event(&self) -> Ns {
        self.serving.map_or(Ns::MAX, |(done_ns, _)| done_ns)
    }

    /// Completes the request in service, returns its token, and begins the next one.
    ///
    /// # Panics
    /// Panics if no request is in service.
    pub fn finish(&mut self) -> u32 {
        let (done_ns, token) = self.serving.take().expect("something is being served");
        if !self.queue.is_empty() {
            self.serve_next(done_ns);
        }
        token
    }

    fn serve_next(&mut self, now: Ns) {
        let next = self.choose(now);
        let request = self.queue.remove(next).expect("it was chosen from the queue");
        let done_ns = self.serve(now, request);
        self.serving = Some((done_ns, request.token));
        let counters = &mut self.counters;
        counters.busy_ns += done_ns - now;
        counters.queued_ns += now - request.arrived_ns;
        if request.write {
            counters.writes += 1;
            counters.written_bytes += request.bytes;
        } else {
            counters.reads += 1;
            counters.read_bytes += request.bytes;
        }
    }

    /// Picks the next request from the queue.
    fn choose(&self, now: Ns) -> usize {
        let oldest_waits_ns = now - self.queue[0].arrived_ns;
        if self.queue.len() == 1 || oldest_waits_ns > self.parameters.patience_ns {
            return 0;
        }
        let seen = self.queue.iter().take(self.parameters.queue_depth).enumerate();
        let next = match self.parameters.order {
            Order::Fifo => Some(0),
            Order::Elevator => {
                // Requests behind the head are served after all requests ahead of it.
                let way = |request: &Request| (request.byte < self.head, request.byte);
                seen.min_by_key(|(_, request)| way(request)).map(|(index, _)| index)
            }
            Order::Shortest => seen
                .min_by_key(|(_, request)| self.positioning(now, request))
                .map(|(index, _)| index),
        };
        next.expect("the queue is not empty")
    }

    /// Returns when the arm or the buffer can begin. The disk processes a command while it serves other requests.
    fn begin(&self, now: Ns, request: &Request) -> Ns {
        now.max(request.arrived_ns + self.parameters.command_ns)
    }

    /// Returns the time until the first byte of a request is under the head, without the command overhead.
    fn positioning(&self, now: Ns, request: &Request) -> Ns {
        if self.goes_on(now, request).is_some() {
            return 0;
        }
        let (arm_ns, turn_ns) = self.reach(now, request);
        arm_ns + turn_ns
    }

    /// Returns the seek time and the rotation time of a request.
    fn reach(&self, now: Ns, request: &Request) -> (Ns, Ns) {
        let revolution_ns = self.parameters.revolution_ns;
        let (from, to) = (self.places.of(self.head), self.places.of(request.byte));
        let settle_ns = if request.write {
            self.parameters.write_settle_ns
        } else {
            0
        };
        let arm_ns = self.curve.time_ns(from.cylinder.abs_diff(to.cylinder)) + settle_ns;
        let there = (self.begin(now, request) + arm_ns + self.phase_ns) % revolution_ns;
        (arm_ns, (to.angle_ns + revolution_ns - there) % revolution_ns)
    }

    /// Returns when a request that continues the last one or is in the buffer will be done; `None` for any other.
    fn goes_on(&self, now: Ns, request: &Request) -> Option<Ns> {
        let Stream {
            first,
            end,
            at_ns,
            write,
        } = self.stream?;
        let last = request.byte + request.bytes;
        if write || request.write {
            let waiting = request.arrived_ns + self.parameters.command_ns <= at_ns && now <= at_ns;
            let passed_ns = || at_ns + self.places.passing_ns(end, request.bytes);
            return (write && request.write && request.byte == end && waiting).then(passed_ns);
        }
        if request.byte < first || last > end + self.parameters.read_ahead_bytes {
            return None;
        }
        let passed_ns = |byte: u64| at_ns + self.places.passing_ns(end, byte.saturating_sub(end));
        let begin = self.begin(now, request);
        if passed_ns(request.byte) > begin {
            return None;
        }
        let sent_ns = (request.bytes * SEC).div_ceil(self.parameters.interface_bytes_per_s);
        Some(passed_ns(last).max(begin + sent_ns))
    }

    /// Serves a request from `now` on, and returns when it will be done.
    fn serve(&mut self, now: Ns, request: Request) -> Ns {
        let end = request.byte + request.bytes;
        let (first, done_ns, passed_ns) = if let Some(done_ns) = self.goes_on(now, &request) {
            let stream = self.stream.expect("it goes on from there");
            self.counters.in_order += 1;
            if end <= stream.end {
                return done_ns;
            }
            // The buffer keeps only the newest data.
            let keeps = end.saturating_sub(self.parameters.read_ahead_bytes);
            let passed_ns = stream.at_ns + self.places.passing_ns(stream.end, end - stream.end);
            // The read-ahead had stopped because the buffer was full. Now it continues.
            let full_at = now.saturating_sub(self.places.passing_ns(stream.end, self.parameters.read_ahead_bytes));
            (stream.first.max(keeps), done_ns, passed_ns.max(full_at))
        } else {
            let (arm_ns, turn_ns) = self.reach(now, &request);
            self.counters.seek_ns += arm_ns;
            self.counters.turn_ns += turn_ns;
            let begin = self.begin(now, &request) + arm_ns + turn_ns;
            let done_ns = begin + self.places.passing_ns(request.byte, request.bytes);
            (request.byte, done_ns, done_ns)
        };
        self.head = end.min(self.parameters.usable_bytes - 1);
        self.stream = (end < self.parameters.usable_bytes).then_some(Stream {
            first,
            end,
            at_ns: passed_ns,
            write: request.write,
        });
        done_ns
    }

    /// Returns this disk at rest, as bytes: the position of its arm, and its counters.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.word(MAGIC);
        out.word(self.parameters.usable_bytes);
        out.word(self.parameters.revolution_ns);
        out.word(self.head);
        let mut counters = self.counters;
        for count in counters.all() {
            out.word(*count);
        }
        out.finish()
    }

    /// Reads a disk that [`Disk::save`] wrote. It is at rest at time 0.
    ///
    /// # Errors
    /// Fails if the bytes don't describe such a disk, or describe one of another size or speed than `parameters` say.
    pub fn load(parameters: Parameters, bytes: &[u8], rng: Rng) -> Result<Self, StateError> {
        let mut disk = Self::new(parameters, rng).map_err(StateError::Impossible)?;
        let mut input = Reader::new(bytes, MAGIC)?;
        let of_disk = (input.word()?, input.word()?);
        disk.head = input.word()?;
        for count in disk.counters.all() {
            *count = input.word()?;
        }
        input.finish()?;
        let wanted = (disk.parameters.usable_bytes, disk.parameters.revolution_ns);
        if of_disk != wanted || disk.head >= of_disk.0 {
            return Err(StateError::Impossible(format!(
                "it is of a disk of {} bytes that turns in {} ns, and the scenario's has {} bytes and turns in {} ns",
                of_disk.0, of_disk.1, wanted.0, wanted.1
            )));
        }
        Ok(disk)
    }
}

#[cfg(test)]
mod tests;
