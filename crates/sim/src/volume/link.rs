//! The network between host and array. All I/O of the array uses it, in both directions at the same time.

use crate::kernel::{Ns, SEC};

/// A link. Data queue in each direction and are sent one after another. Commands and replies are too short to queue.
#[derive(Clone, Debug)]
pub struct Link {
    bytes_per_s: u64,
    latency_ns: Ns,
    request_ns: Ns,
    to_array_until: Ns,
    to_host_until: Ns,
    /// The time that data took, in both directions.
    pub busy_ns: Ns,
}

impl Link {
    /// Makes an idle link. `latency_ns` is one way, including all protocol overhead.
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

    /// Returns the link with this additional time per transfer. Transfers take it one after another.
    #[must_use]
    pub const fn with_request_ns(self, request_ns: Ns) -> Self {
        Self { request_ns, ..self }
    }

    fn takes_ns(&mut self, bytes: u64) -> Ns {
        let takes_ns = self.request_ns + (bytes * SEC).div_ceil(self.bytes_per_s);
        self.busy_ns += takes_ns;
        takes_ns
    }

    /// Sends a request to the array, with the data of a write. Returns when it arrives.
    pub fn send_to_array(&mut self, now: Ns, data_bytes: u64) -> Ns {
        if data_bytes == 0 {
            return now + self.latency_ns;
        }
        self.to_array_until = self.to_array_until.max(now) + self.takes_ns(data_bytes);
        self.to_array_until + self.latency_ns
    }

    /// Sends a reply to the host, with the data of a read. Returns when it arrives.
    pub fn send_to_host(&mut self, now: Ns, data_bytes: u64) -> Ns {
        if data_bytes == 0 {
            return now + self.latency_ns;
        }
        self.to_host_until = self.to_host_until.max(now) + self.takes_ns(data_bytes);
        self.to_host_until + self.latency_ns
    }
}
