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
    /// Blocks cleaned while the drive was idle.
    pub idle_cleans: u64,
    /// How often cleaning began to take turns with the host.
    pub cleaning_bursts: u64,
}

impl Counters {
    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            ftl: self.ftl.since(&earlier.ftl),
            read_pages: self.read_pages - earlier.read_pages,
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            buffer_wait_ns: self.buffer_wait_ns - earlier.buffer_wait_ns,
            die_busy_ns: self.die_busy_ns - earlier.die_busy_ns,
            idle_cleans: self.idle_cleans - earlier.idle_cleans,
            cleaning_bursts: self.cleaning_bursts - earlier.cleaning_bursts,
        }
    }
}
