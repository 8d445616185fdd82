//! The controller's work. The cache or the drives accept a request, and dirty blocks are written to the drives.

use super::{For, Kind, Ns, Request, Volume};
use crate::volume::cache::{Cache, Run};
use crate::volume::config::CacheChoice;
use crate::volume::link::Link;

/// The cache, and the number of its writes to the drives that are in progress.
#[derive(Clone, Debug)]
pub(super) struct Destage {
    pub(super) cache: Cache,
    mirror: Link,
    pub(super) in_progress: u32,
    most_in_progress: u32,
}

/// Constants of the cache. A spec can't set them.
pub mod cache_constants {
    crate::figures::constants! { "a cache", default: false {
        block_bytes: u64 = 8192, Assumed, "The cache keeps whole blocks, of the size of a database page";
        run_bytes: u64 = 262_144, Assumed, "The most neighbouring data that go to the drives in one write";
    }}
}
use cache_constants::{block_bytes, run_bytes};

impl Volume {
    /// Returns the volume behind a controller's cache, in a world `scale` times smaller.
    #[must_use]
    pub fn with_cache(mut self, choice: &CacheChoice, scale: u32) -> Self {
        let bytes = (choice.bytes / u64::from(scale)).max(block_bytes());
        self.destage = Some(Destage {
            cache: Cache::new(
                bytes,
                block_bytes(),
                run_bytes(),
                choice.keep_per_mille,
                choice.destaging,
            ),
            mirror: Link::new(choice.mirror_bytes_per_s, choice.mirror_latency_ns)
                .with_request_ns(choice.mirror_request_ns),
            in_progress: 0,
            most_in_progress: choice.writes_per_drive.saturating_mul(self.map.drives()),
        });
        self.find_way();
        self
    }

    /// Handles a request that reaches the controller. Returns when the reply leaves it, if that is known now.
    pub(super) fn arrive(&mut self, now: Ns, number: u32) -> Option<Ns> {
        let request = self.operations[number as usize].request;
        let Request { kind, offset, bytes } = request;
        let Some(destage) = &mut self.destage else {
            self.ask_drives(now, number);
            return None;
        };
        if !kind.writes() {
            if destage.cache.holds(offset, bytes) {
                self.counters.cache_hits += 1;
                return Some(now);
            }
            self.ask_drives(now, number);
            return None;
        }
        if destage.cache.take(offset, bytes) {
            let mirrored_ns = destage.mirror.send_to_array(now, bytes);
            self.counters.cached_writes += 1;
            self.destage(now);
            return Some(mirrored_ns);
        }
        self.counters.through_writes += 1;
        self.operations[number as usize].waits_for = destage.cache.take_through(offset, bytes, number);
        self.destage(now);
        None
    }

    /// Starts writes of dirty blocks, as many as are allowed.
    fn destage(&mut self, now: Ns) {
        while let Some(run) = self.next_run() {
            let request = Request {
                kind: Kind::Write,
                offset: run.offset,
                bytes: run.bytes,
            };
            self.counters.destaged_writes += 1;
            self.counters.destaged_bytes += run.bytes;
            let number = self.begin(For::Cache, request, 0);
            self.ask_drives(now, number);
        }
    }

    fn next_run(&mut self) -> Option<Run> {
        let Destage {
            cache,
            in_progress,
            most_in_progress,
            ..
        } = self.destage.as_mut()?;
        let urgent = cache.next_urgent();
        let may = *in_progress < *most_in_progress;
        let run = urgent.or_else(|| if may { cache.next_run() } else { None })?;
        *in_progress += 1;
        Some(run)
    }

    /// Handles the end of a write from the cache to the drives.
    pub(super) fn destaged(&mut self, now: Ns, number: u32, done: &mut Vec<u32>) {
        let request = self.end(number).request;
        let mut served = std::mem::take(&mut self.served);
        if let Some(destage) = &mut self.destage {
            let run = Run {
                offset: request.offset,
                bytes: request.bytes,
            };
            destage.cache.finish(run, &mut served);
            destage.in_progress -= 1;
        }
        for waiter in served.drain(..) {
            self.part_done(now, waiter, done);
        }
        self.served = served;
        self.destage(now);
    }
}
