//! The engine's counters. Readings and outcomes are made from them.

use std::cell::Cell;

/// A sum that only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count(Cell<u64>);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.set(self.0.get() + more);
    }

    /// The sum so far.
    #[must_use]
    pub const fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Sums since the beginning of a run. Pages are database pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows inserted.
    pub rows: Count,
    /// Splits of leaves.
    pub splits: Count,
    /// Splits of index pages above the leaves.
    pub index_splits: Count,
    /// Rows read one by one.
    pub point_reads: Count,
    /// Pages read.
    pub reads: Count,
    /// Writes of one or more adjacent pages.
    pub writes: Count,
    /// Pages written.
    pub written_pages: Count,
    /// Checkpoints completed.
    pub checkpoints: Count,
    /// Pages that checkpoints wrote.
    pub checkpoint_pages: Count,
    /// Pages that the lazy writer wrote.
    pub lazy_pages: Count,
    /// Pages evicted without a write.
    pub evicted_clean: Count,
    /// Pages that had to be written before a read could use their frame.
    pub evicted_dirty: Count,
    /// Pages chosen for eviction that were used again before they were evicted.
    pub rescued: Count,
    /// The sum of the times of all reads.
    pub read_ns: Count,
    /// The sum of the times of all writes of pages.
    pub write_ns: Count,
    /// Log writes.
    pub log_flushes: Count,
    /// Bytes of log written, padding included.
    pub log_bytes: Count,
}
