//! The requests to a drive, its counters, and the reason why it may stop answering.

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
    /// Writes bytes anywhere: a piece of log. Pieces that follow each other within a page are programmed together.
    WriteBytes {
        /// Where the first one goes.
        offset: u64,
        /// How many, whole sectors.
        bytes: u64,
    },
}

/// Why a drive no longer answers: the host has no memory left for its map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offline {
    /// Data on the drive when it went off-line.
    pub mapped_bytes: u64,
    /// The memory that their map would have taken.
    pub mapping_bytes: u64,
    /// The memory that the host had for it.
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

/// Counters since the drive was made; they only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// In the map.
    pub ftl: FtlCounters,
    /// Pages that the host read.
    pub read_pages: u64,
    /// Bytes that the host read.
    pub read_bytes: u64,
    /// Bytes that the host wrote.
    pub written_bytes: u64,
    /// How long writes waited for room in the buffer, summed over pages.
    pub buffer_wait_ns: u64,
    /// Time that dies spent, summed over dies.
    pub die_busy_ns: u64,
    /// Blocks collected while the drive was idle.
    pub idle_collections: u64,
    /// How often garbage collection began to take turns with the host.
    pub collection_bursts: u64,
}

impl Counters {
    /// All but the map's, in the order in which they are saved.
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

    /// What happened since `earlier`.
    #[must_use]
    pub fn since(mut self, mut earlier: Self) -> Self {
        for (now, before) in self.own().into_iter().zip(earlier.own()) {
            *now -= *before;
        }
        self.ftl = self.ftl.since(&earlier.ftl);
        self
    }
}
