//! A drive that `storagelab drives fit` measured, by the law with few figures in src/storagelab/drives/fitting.py.
//!
//! A request and its data take the time of a lone one, stretched by those that are in progress when it comes. Beside that it passes
//! each limit on requests and bytes a second, in the order in which requests came. A request is in order if it begins where the last one
//! of its direction ended.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Serialize};

use super::{Model, Reported};
use crate::figures::{Declared, Figure, Group, figures};
use crate::kernel::{Ns, SEC};
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
        /// How fast the data of a lone read pass.
        read_data_bytes_per_s: Figure<u64> [1_000, 1 << 50];
        /// How fast the data of a lone write pass.
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
    /// All figures, by their group.
    pub fn declared() -> Vec<(&'static str, Vec<Declared>)> {
        vec![
            ("host", Host::declared()),
            ("service", Service::declared()),
            ("limits", Limits::declared()),
        ]
    }

    /// A new drive in a world `scale` times smaller: the capacity shrinks; rates and times stay.
    ///
    /// # Errors
    /// The figure that can't be.
    pub fn make(&self, scale: u32) -> Result<Box<dyn Model>, String> {
        let (host, service) = (&self.host, &self.service);
        let limits = self.limits.as_ref();
        for check in [
            host.check_limits(),
            service.check_limits(),
            limits.map_or(Ok(()), Group::check_limits),
        ] {
            check.map_err(|(name, what)| format!("{name} {what}"))?;
        }
        if !service.knee.value.is_power_of_two() {
            return Err(format!("knee is {}, must be 1, 2, 4 or 8", service.knee.value));
        }
        let sector_bytes = u64::from(host.sector_bytes.value);
        let usable_bytes = host.usable_bytes.value / u64::from(scale.max(1)) / sector_bytes * sector_bytes;
        if usable_bytes == 0 {
            return Err(format!("usable_bytes leave no sector at scale {scale}"));
        }
        let served = |random: u64, in_order: u64, data: u64, parallel: u64| Served {
            random_ns: random,
            in_order_ns: in_order,
            data_bytes_per_s: data,
            parallel_per_mille: parallel,
            expected_offset: None,
        };
        let limit = |figure: Option<&Figure<u64>>, reads: Option<bool>, in_bytes: bool| {
            figure.map(|figure| Limit {
                reads,
                in_bytes,
                per_s: figure.value,
                until: 0,
            })
        };
        let all = |limits: &Limits| {
            [
                limit(limits.reads_per_s.as_ref(), Some(true), false),
                limit(limits.writes_per_s.as_ref(), Some(false), false),
                limit(limits.ios_per_s.as_ref(), None, false),
                limit(limits.read_bytes_per_s.as_ref(), Some(true), true),
                limit(limits.write_bytes_per_s.as_ref(), Some(false), true),
                limit(limits.bytes_per_s.as_ref(), None, true),
            ]
        };
        Ok(Box::new(Drive {
            usable_bytes,
            sector_bytes,
            host_cpu_ns: host.host_cpu_ns.value,
            knee: service.knee.value,
            data_parallel_per_mille: service.data_parallel_per_mille.value,
            reads: served(
                service.read_ns.value,
                service.read_in_order_ns.value,
                service.read_data_bytes_per_s.value,
                service.reads_parallel_per_mille.value,
            ),
            writes: served(
                service.write_ns.value,
                service.write_in_order_ns.value,
                service.write_data_bytes_per_s.value,
                service.writes_parallel_per_mille.value,
            ),
            limits: limits.map_or(Vec::new(), |limits| all(limits).into_iter().flatten().collect()),
            progressing: BinaryHeap::new(),
            requests: 0,
            bytes: 0,
        }))
    }
}

/// One direction.
#[derive(Clone, Debug)]
struct Served {
    random_ns: Ns,
    in_order_ns: Ns,
    data_bytes_per_s: u64,
    parallel_per_mille: u64,
    /// Where a request in order would begin.
    expected_offset: Option<u64>,
}

impl Served {
    /// The time of a request among `progressing` ones, itself included.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times of requests are far below 2^52 ns, and positive"
    )]
    fn takes(&mut self, request: Request, progressing: u64, data_parallel_per_mille: u64, knee: u32) -> Ns {
        let in_order = self.expected_offset.replace(request.offset + request.bytes) == Some(request.offset);
        let alone_ns = if in_order { self.in_order_ns } else { self.random_ns };
        // Only products, quotients and square roots, which are the same on every machine.
        let power = |of: f64| (0..knee.ilog2()).fold(of, |so_far, _| so_far * so_far);
        let stretch = |parallel_per_mille: u64| {
            let waiting = (power(progressing as f64) - 1.0) / power(parallel_per_mille as f64 / 1e3);
            (0..knee.ilog2()).fold(1.0 + waiting, |so_far, _| so_far.sqrt())
        };
        let data_ns = passes(request.bytes, self.data_bytes_per_s) as f64;
        (alone_ns as f64 * stretch(self.parallel_per_mille) + data_ns * stretch(data_parallel_per_mille)) as Ns
    }
}

/// A limit, and until when it is used up.
#[derive(Clone, Debug)]
struct Limit {
    /// Whether it is for reads; `None` for both directions.
    reads: Option<bool>,
    in_bytes: bool,
    per_s: u64,
    until: Ns,
}

/// The time that `amount` takes at this rate.
fn passes(amount: u64, per_s: u64) -> Ns {
    u64::try_from((u128::from(amount) * u128::from(SEC)).div_ceil(u128::from(per_s))).unwrap_or(Ns::MAX / 2)
}

#[derive(Clone, Debug)]
struct Drive {
    usable_bytes: u64,
    sector_bytes: u64,
    host_cpu_ns: Ns,
    knee: u32,
    data_parallel_per_mille: u64,
    reads: Served,
    writes: Served,
    limits: Vec<Limit>,
    /// When each request in progress will be done.
    progressing: BinaryHeap<Reverse<Ns>>,
    requests: u64,
    bytes: u64,
}

impl Model for Drive {
    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }

    fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }

    fn host_cpu_ns(&self) -> Ns {
        self.host_cpu_ns
    }

    fn submit(&mut self, now: Ns, request: Request) -> Ns {
        while self.progressing.peek().is_some_and(|Reverse(done)| *done <= now) {
            self.progressing.pop();
        }
        let reads = request.kind == Kind::Read;
        let served = if reads { &mut self.reads } else { &mut self.writes };
        let mut done = now
            + served.takes(
                request,
                self.progressing.len() as u64 + 1,
                self.data_parallel_per_mille,
                self.knee,
            );
        for limit in &mut self.limits {
            if limit.reads.is_none_or(|only| only == reads) {
                let amount = if limit.in_bytes { request.bytes } else { 1 };
                limit.until = limit.until.max(now) + passes(amount, limit.per_s);
                done = done.max(limit.until);
            }
        }
        self.progressing.push(Reverse(done));
        self.requests += 1;
        self.bytes += request.bytes;
        done
    }

    fn rest(&mut self, _: Rng) {
        self.progressing.clear();
        for limit in &mut self.limits {
            limit.until = 0;
        }
        self.reads.expected_offset = None;
        self.writes.expected_offset = None;
    }

    fn memory(&mut self) -> Vec<&mut u64> {
        vec![&mut self.requests, &mut self.bytes]
    }

    fn reported(&self) -> Reported {
        Reported {
            counts: BTreeMap::from([("requests", self.requests), ("bytes", self.bytes)]),
            levels: BTreeMap::new(),
        }
    }
}
