//! A network volume, as cloud providers sell it. It may exceed its baseline rate as long as it has I/O credits.
//!
//! A request costs one credit for each `io_bytes` of it; a partial `io_bytes` costs a whole credit. Credits are earned
//! at the baseline rate, up to the size of the bucket, and spent at most at the burst rate. A request without a credit
//! waits for the next one, so the volume then runs at its baseline. In addition, data queue for a throughput limit, and
//! each request takes a latency, which includes the network's.
//!
//! Credits don't change between two runs: it would take hours to fill the bucket, and testers don't wait that long. A
//! format doesn't fill it either.

use serde::{Deserialize, Serialize};

use super::{Face, Kept, Model};
use crate::figures::{Declared, Figure, Group, check_all, figures};
use crate::kernel::{Ns, SEC, takes_ns};
use crate::rng::{Rng, Spread};
use crate::volume::Request;

figures! {
    /// What the host sees.
    Host {
        /// Usable capacity.
        usable_bytes: Figure<u64> [1 << 20, 1 << 50];
        /// Smallest write.
        sector_bytes: Figure<u32> [512, 1 << 16];
        /// CPU time of the host per request.
        host_cpu_ns: Figure<u64> [0, SEC];
        /// Time from a request's turn to its completion, without its data.
        latency_ns: Figure<u64> [1, SEC];
        /// Jitter of this latency, in either direction.
        jitter_per_mille: Figure<u32> [0, 1000];
        /// The most data, both directions together.
        bytes_per_s: Figure<u64> [1_000_000, 1 << 40];
    }
}

figures! {
    /// I/O credits.
    Credits {
        /// The rate at which the volume earns credits.
        baseline_ios_per_s: Figure<u64> [1, 10_000_000];
        /// The most I/Os a second while there are credits.
        burst_ios_per_s: Figure<u64> [1, 10_000_000];
        /// The most credits that can be saved up.
        bucket_ios: Figure<u64> [1, 1 << 33];
        /// The credits of a new volume.
        first_ios: Figure<u64> [0, 1 << 33];
        /// The most bytes that count as one I/O.
        io_bytes: Figure<u64> [512, 1 << 30];
    }
}

/// The profile of such a volume.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name in specs.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// What the host sees.
    pub host: Host,
    /// Its credits.
    pub credits: Credits,
}

impl Profile {
    /// Returns all figures, by group.
    pub fn declared() -> Vec<(&'static str, Vec<Declared>)> {
        vec![("host", Host::declared()), ("credits", Credits::declared())]
    }

    /// Makes a new volume in a world `scale` times smaller. Capacity and credits shrink. Rates and times don't change.
    ///
    /// # Errors
    /// Returns a message about the invalid figure.
    pub fn make(&self, scale: u64) -> Result<Box<dyn Model>, String> {
        let (host, credits) = (&self.host, &self.credits);
        check_all([host.check_limits(), credits.check_limits()])?;
        if credits.burst_ios_per_s.value < credits.baseline_ios_per_s.value {
            return Err("burst_ios_per_s is less than baseline_ios_per_s: a burst is faster".to_owned());
        }
        // The bucket must hold at least one I/O, or no I/O could ever begin.
        let bucket = (credits.bucket_ios.value * UNITS / scale).max(UNITS);
        Ok(Box::new(Volume {
            face: Face::new(&host.usable_bytes, &host.sector_bytes, &host.host_cpu_ns, scale)?,
            latency: Spread::new(host.latency_ns.value, u64::from(host.jitter_per_mille.value)),
            bytes_per_s: host.bytes_per_s.value,
            baseline_ios_per_s: credits.baseline_ios_per_s.value,
            burst_ns: SEC.div_ceil(credits.burst_ios_per_s.value),
            bucket,
            io_bytes: credits.io_bytes.value,
            credits: (credits.first_ios.value * UNITS / scale).min(bucket),
            credits_at: 0,
            next_at: 0,
            data_until: 0,
            rng: Rng::stream(0, "a volume that was not put to rest yet"),
            counts: Counts::default(),
        }))
    }
}

/// A credit is counted in parts of 1/10^9, so that the credits earned in a nanosecond are a whole number.
const UNITS: u64 = SEC;

#[derive(Clone, Debug, Default)]
struct Counts {
    requests: u64,
    ios: u64,
    bytes: u64,
    ios_without_credit: u64,
    credit_wait_ns: u64,
}

#[derive(Clone, Debug)]
struct Volume {
    face: Face,
    latency: Spread,
    bytes_per_s: u64,
    baseline_ios_per_s: u64,
    /// The shortest time between two I/Os.
    burst_ns: Ns,
    bucket: u64,
    io_bytes: u64,
    /// Credits at time `credits_at`. One I/O costs [`UNITS`].
    credits: u64,
    credits_at: Ns,
    /// The earliest time at which the next I/O may begin.
    next_at: Ns,
    data_until: Ns,
    rng: Rng,
    counts: Counts,
}

impl Volume {
    fn earn_until(&mut self, now: Ns) {
        let earned = u128::from(now - self.credits_at) * u128::from(self.baseline_ios_per_s);
        let room = self.bucket - self.credits;
        self.credits += u64::try_from(earned).unwrap_or(room).min(room);
        self.credits_at = now;
    }

    /// Spends a credit and returns when the next I/O begins.
    fn begin_io(&mut self, now: Ns) -> Ns {
        let mut begins = now.max(self.next_at);
        self.earn_until(begins);
        if self.credits < UNITS {
            let waits_ns = (UNITS - self.credits).div_ceil(self.baseline_ios_per_s);
            begins += waits_ns;
            self.earn_until(begins);
            self.counts.ios_without_credit += 1;
            self.counts.credit_wait_ns += waits_ns;
        }
        self.credits -= UNITS;
        self.next_at = begins + self.burst_ns;
        self.counts.ios += 1;
        begins
    }
}

impl Model for Volume {
    fn face(&self) -> Face {
        self.face
    }

    fn submit(&mut self, now: Ns, Request { bytes, .. }: Request) -> Ns {
        let mut begins = now;
        for _ in 0..bytes.div_ceil(self.io_bytes) {
            begins = self.begin_io(now);
        }
        self.data_until = self.data_until.max(begins) + takes_ns(bytes, self.bytes_per_s);
        self.counts.requests += 1;
        self.counts.bytes += bytes;
        self.data_until + self.latency.of(self.rng.next_u64() >> 32)
    }

    fn rest(&mut self, rng: Rng) {
        self.rng = rng;
        self.credits_at = 0;
        self.next_at = 0;
        self.data_until = 0;
    }

    fn memory(&mut self) -> Vec<Kept<'_>> {
        let counts = &mut self.counts;
        vec![
            Kept::Level("credits_left", &mut self.credits, UNITS),
            Kept::Sum("requests", &mut counts.requests),
            Kept::Sum("ios", &mut counts.ios),
            Kept::Sum("bytes", &mut counts.bytes),
            Kept::Sum("ios_without_credit", &mut counts.ios_without_credit),
            Kept::Sum("credit_wait_ns", &mut counts.credit_wait_ns),
        ]
    }
}

#[cfg(test)]
mod tests;
