//! The path between two controllers: what a cache takes is copied to the other controller's memory before it is acknowledged.
//!
//! A pair of controllers has one such path, and several arrays behind it: what one of them is sent keeps the others waiting.

use std::cell::Cell;
use std::rc::Rc;

use super::config::CacheChoice;
use crate::kernel::{Ns, SEC};

/// The path, as one array uses it.
#[derive(Clone, Debug)]
pub struct Mirror {
    bytes_per_s: u64,
    request_ns: Ns,
    latency_ns: Ns,
    /// Until when it is taken, by whichever array.
    until: Rc<Cell<Ns>>,
}

impl Mirror {
    /// A path with nothing on it.
    #[must_use]
    pub fn new(choice: &CacheChoice) -> Self {
        Self {
            bytes_per_s: choice.mirror_bytes_per_s,
            request_ns: choice.mirror_request_ns,
            latency_ns: choice.mirror_latency_ns,
            until: Rc::default(),
        }
    }

    /// The same path as `other`'s, at one's own pace.
    #[must_use]
    pub fn shared_with(self, other: &Self) -> Self {
        let until = Rc::clone(&other.until);
        Self { until, ..self }
    }

    /// When the other controller has what came at `now`, one request after the other. Requests come in the order of their times.
    pub fn copy(&self, now: Ns, bytes: u64) -> Ns {
        let takes_ns = self.request_ns + (bytes * SEC).div_ceil(self.bytes_per_s);
        self.until.set(self.until.get().max(now) + takes_ns);
        self.until.get() + self.latency_ns
    }
}
