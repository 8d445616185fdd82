//! The network between host and array: one for all I/O of the array, in both directions at once.

use crate::kernel::{Ns, SEC};

/// A link. Data queue in each direction, one transfer after another; commands and replies are too short to queue.
#[derive(Clone, Debug)]
pub struct Link {
    bytes_per_s: u64,
    latency_ns: Ns,
    request_ns: Ns,
    to_array_until: Ns,
    to_host_until: Ns,
    /// Time that data took, both directions.
    pub busy_ns: Ns,
}

impl Link {
    /// An idle link. `latency_ns` is one way, including all protocol overhead.
    #[must_use]
    pub const fn new(bytes_per_s: u64, latency_ns: Ns) -> Self {
        Self {
            bytes_per_s,
            latency_ns,
            request_ns: 0,
            to_array_until: 0,
            to_host_until: 0,
            busy_ns: 0,
        }
    }

    /// The same, with each transfer taking this much longer, one after another.
    #[must_use]
    pub const fn with_request_ns(self, request_ns: Ns) -> Self {
        Self { request_ns, ..self }
    }

    fn takes_ns(&mut self, bytes: u64) -> Ns {
        let takes_ns = self.request_ns + (bytes * SEC).div_ceil(self.bytes_per_s);
        self.busy_ns += takes_ns;
        takes_ns
    }

    /// When a request reaches the array, with the data of a write.
    pub fn send_to_array(&mut self, now: Ns, data_bytes: u64) -> Ns {
        if data_bytes == 0 {
            return now + self.latency_ns;
        }
        self.to_array_until = self.to_array_until.max(now) + self.takes_ns(data_bytes);
        self.to_array_until + self.latency_ns
    }

    /// When a reply reaches the host, with the data of a read.
    pub fn send_to_host(&mut self, now: Ns, data_bytes: u64) -> Ns {
        if data_bytes == 0 {
            return now + self.latency_ns;
        }
        self.to_host_until = self.to_host_until.max(now) + self.takes_ns(data_bytes);
        self.to_host_until + self.latency_ns
    }
}
