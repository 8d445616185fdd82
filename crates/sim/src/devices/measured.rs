//! A drive whose figures `storagelab drives fit` measured. The model is described in src/storagelab/drives/fitting.py.
//!
//! The time of a request and of its data is that of a single request, multiplied by a factor that grows with the
//! requests in progress when it arrives. In addition, it passes each limit on requests and bytes per second, in order
//! of arrival. A request is in order if it begins where the last one of its direction ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::{Face, Kept, Model};
use crate::figures::{Declared, Figure, Group, check_all, figures};
use crate::kernel::{Ns, SEC, takes_ns};
use crate::rng::Rng;
use crate::volume::{Kind, Request};

figures! {
    /// What the host sees.
    Host {
        /// Usable capacity.
        usable_bytes: Figure<u64> [1 << 20, 1 << 50];
        /// Smallest write.
        sector_bytes: Figure<u32> [512, 1 << 16];
        /// CPU time of the host per request.
        host_cpu_ns: Figure<u64> [0, SEC];
    }
}

figures! {
    /// How requests are served.
    Service {
        /// A lone read anywhere, without its data.
        read_ns: Figure<u64> [1, SEC];
        /// A lone write anywhere, without its data.
        write_ns: Figure<u64> [1, SEC];
        /// A lone read that begins where the last one ended, without its data.
        read_in_order_ns: Figure<u64> [1, SEC];
        /// A lone write that begins where the last one ended, without its data.
        write_in_order_ns: Figure<u64> [1, SEC];
        /// The rate at which the data of a lone read pass.
        read_data_bytes_per_s: Figure<u64> [1_000, 1 << 50];
        /// The rate at which the data of a lone write pass.
        write_data_bytes_per_s: Figure<u64> [1_000, 1 << 50];
        /// Reads that are served at once, in thousandths.
        reads_parallel_per_mille: Figure<u64> [1_000, 1 << 30];
        /// Writes that are served at once, in thousandths.
        writes_parallel_per_mille: Figure<u64> [1_000, 1 << 30];
        /// Requests whose data pass at once, in thousandths.
        data_parallel_per_mille: Figure<u64> [1_000, 1 << 30];
        /// How suddenly requests begin to wait for each other: 1, 2, 4 or 8, from early to not before all are busy.
        knee: Figure<u32> [1, 8];
    }
}

figures! {
    /// The most in a second; without a figure, it was not reached.
    Limits {
        /// Reads a second.
        reads_per_s: Option<Figure<u64>> [1, 1 << 40];
        /// Writes a second.
        writes_per_s: Option<Figure<u64>> [1, 1 << 40];
        /// Reads and writes a second.
        ios_per_s: Option<Figure<u64>> [1, 1 << 40];
        /// Bytes read a second.
        read_bytes_per_s: Option<Figure<u64>> [1, 1 << 50];
        /// Bytes written a second.
        write_bytes_per_s: Option<Figure<u64>> [1, 1 << 50];
        /// Bytes read and written a second.
        bytes_per_s: Option<Figure<u64>> [1, 1 << 50];
    }
}

/// The profile of such a drive.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name in specs.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// What the host sees.
    pub host: Host,
    /// How requests are served.
    pub service: Service,
    /// The most in a second.
    #[serde(default)]
    pub limits: Option<Limits>,
}

impl Profile {
    /// Returns all figures, by group.
    pub fn declared() -> Vec<(&'static str, Vec<Declared>)> {
        vec![
            ("host", Host::declared()),
            ("service", Service::declared()),
            ("limits", Limits::declared()),
        ]
    }

    /// Makes a new drive in a world `scale` times smaller. The capacity shrinks. Rates and times don't change.
    ///
    /// # Errors
    /// Returns a message about the invalid figure.
    pub fn make(&self, scale: u64) -> Result<Box<dyn Model>, String> {
        let (host, service, limits) = (&self.host, &self.service, self.limits.as_ref());
        check_all([
            host.check_limits(),
            service.check_limits(),
            limits.map_or(Ok(()), Group::check_limits),
        ])?;
        if !service.knee.value.is_power_of_two() {
            return Err(format!("knee is {}, must be 1, 2, 4 or 8", service.knee.value));
        }
        Ok(Box::new(Drive {
            face: Face::new(&host.usable_bytes, &host.sector_bytes, &host.host_cpu_ns, scale)?,
            service: service.clone(),
            limits: limits.map_or(Vec::new(), Limits::in_use),
            expected_offsets: [None; 2],
            progressing: BinaryHeap::new(),
            requests: 0,
            bytes: 0,
        }))
    }
}

/// A limit, and the time until which it is used up.
#[derive(Clone, Debug)]
struct Limit {
    /// Whether the limit is for reads or for writes; `None` if it is for both.
    reads: Option<bool>,
    in_bytes: bool,
    per_s: u64,
    until: Ns,
}

impl Limits {
    /// Returns the limits that have a figure.
    fn in_use(&self) -> Vec<Limit> {
        let all = [
            (&self.reads_per_s, Some(true), false),
            (&self.writes_per_s, Some(false), false),
            (&self.ios_per_s, None, false),
            (&self.read_bytes_per_s, Some(true), true),
            (&self.write_bytes_per_s, Some(false), true),
            (&self.bytes_per_s, None, true),
        ];
        let limit = |(figure, reads, in_bytes): (&Option<Figure<u64>>, _, _)| {
            let per_s = figure.as_ref()?.value;
            Some(Limit {
                reads,
                in_bytes,
                per_s,
                until: 0,
            })
        };
        all.into_iter().filter_map(limit).collect()
    }
}

impl Service {
    /// Returns the time of a read or a write. `progressing` is the number of requests in progress, including this one.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times of requests are far below 2^52 ns, and positive"
    )]
    fn takes(&self, reads: bool, in_order: bool, bytes: u64, progressing: u64) -> Ns {
        let alone = match (reads, in_order) {
            (true, false) => &self.read_ns,
            (true, true) => &self.read_in_order_ns,
            (false, false) => &self.write_ns,
            (false, true) => &self.write_in_order_ns,
        };
        let (data_rate, parallel) = if reads {
            (&self.read_data_bytes_per_s, &self.reads_parallel_per_mille)
        } else {
            (&self.write_data_bytes_per_s, &self.writes_parallel_per_mille)
        };
        // The code uses only products, quotients and square roots, because their results are the same on every machine.
        let doublings = self.knee.value.ilog2();
        let power = |of: f64| (0..doublings).fold(of, |so_far, _| so_far * so_far);
        let stretch = |parallel: &Figure<u64>| {
            let waiting = (power(progressing as f64) - 1.0) / power(parallel.value as f64 / 1e3);
            (0..doublings).fold(1.0 + waiting, |so_far, _| so_far.sqrt())
        };
        let data_ns = takes_ns(bytes, data_rate.value) as f64;
        (alone.value as f64 * stretch(parallel) + data_ns * stretch(&self.data_parallel_per_mille)) as Ns
    }
}

#[derive(Clone, Debug)]
struct Drive {
    face: Face,
    service: Service,
    limits: Vec<Limit>,
    /// The offsets at which the next write, and the next read, would be in order.
    expected_offsets: [Option<u64>; 2],
    /// The times when the requests in progress will be done.
    progressing: BinaryHeap<Reverse<Ns>>,
    requests: u64,
    bytes: u64,
}

impl Model for Drive {
    fn face(&self) -> Face {
        self.face
    }

    fn submit(&mut self, now: Ns, Request { kind, offset, bytes }: Request) -> Ns {
        while self.progressing.peek().is_some_and(|Reverse(done)| *done <= now) {
            self.progressing.pop();
        }
        let reads = kind == Kind::Read;
        let in_order = self.expected_offsets[usize::from(reads)].replace(offset + bytes) == Some(offset);
        let progressing = self.progressing.len() as u64 + 1;
        let mut done = now + self.service.takes(reads, in_order, bytes, progressing);
        for limit in &mut self.limits {
            if limit.reads.is_none_or(|only| only == reads) {
                let amount = if limit.in_bytes { bytes } else { 1 };
                limit.until = limit.until.max(now) + takes_ns(amount, limit.per_s);
                done = done.max(limit.until);
            }
        }
        self.progressing.push(Reverse(done));
        self.requests += 1;
        self.bytes += bytes;
        done
    }

    fn rest(&mut self, _: Rng) {
        self.progressing.clear();
        for limit in &mut self.limits {
            limit.until = 0;
        }
        self.expected_offsets = [None; 2];
    }

    fn memory(&mut self) -> Vec<Kept<'_>> {
        vec![
            Kept::Sum("requests", &mut self.requests),
            Kept::Sum("bytes", &mut self.bytes),
        ]
    }
}
