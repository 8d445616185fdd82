//! The requests to a drive, its counters, and the reason why it may go off-line.

use std::fmt;

use super::ftl::FtlCounters;

/// A request to a drive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Op {
    /// Reads whole pages.
    Read {
        /// The first one.
        page: u32,
        /// How many.
        pages: u32,
    },
    /// Writes whole pages.
    Write {
        /// The first one.
        page: u32,
        /// How many.
        pages: u32,
    },
    /// Writes bytes at any offset, as for the log. Writes that follow each other within a page are programmed together.
    WriteBytes {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes, in whole sectors.
        bytes: u64,
    },
}

/// Why a drive went off-line: the host has too little memory for its map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offline {
    /// The bytes of data on the drive when it went off-line.
    pub mapped_bytes: u64,
    /// The memory that the map of these data would have taken.
    pub mapping_bytes: u64,
    /// The memory that the host had for the map.
    pub host_ram_bytes: u64,
}

impl fmt::Display for Offline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the drive went off-line: the map of {} bytes of data takes {} bytes of the host's memory, and there are {}; \
             larger sectors, a newer driver, a smaller format or more memory for the drive would help",
            self.mapped_bytes, self.mapping_bytes, self.host_ram_bytes
        )
    }
}

impl std::error::Error for Offline {}

/// Counters since the drive was made. They only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// The counters of the map.
    pub ftl: FtlCounters,
    /// Pages that the host read.
    pub read_pages: u64,
    /// Bytes that the host read.
    pub read_bytes: u64,
    /// Bytes that the host wrote.
    pub written_bytes: u64,
    /// The sum, over pages, of the times that writes waited for room in the buffer.
    pub buffer_wait_ns: u64,
    /// The sum of the times that the dies were busy.
    pub die_busy_ns: u64,
    /// Blocks collected while the drive was idle.
    pub idle_collections: u64,
    /// How often garbage collection began to take turns with the host.
    pub collection_bursts: u64,
}

impl Counters {
    /// Returns all counters except the map's, in the order in which they are saved.
    pub(super) fn own(&mut self) -> [&mut u64; 7] {
        [
            &mut self.read_pages,
            &mut self.read_bytes,
            &mut self.written_bytes,
            &mut self.buffer_wait_ns,
            &mut self.die_busy_ns,
            &mut self.idle_collections,
            &mut self.collection_bursts,
        ]
    }

    /// Returns the increase of each counter since `earlier`.
    #[must_use]
    pub fn since(mut self, mut earlier: Self) -> Self {
        for (now, before) in self.own().into_iter().zip(earlier.own()) {
            *now -= *before;
        }
        self.ftl = self.ftl.since(&earlier.ftl);
        self
    }
}
