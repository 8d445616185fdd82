//! The database server: its size, its costs, and its ways of working. Ready-made figures are in profiles
//! (`src/storagelab/profiles/servers`), each with its label and source. This module says what they mean.

use serde::{Deserialize, Serialize};

use crate::figures::{Figure, figures};
use crate::kernel::{SEC, US};

/// The server that the database runs on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The number of cores. Each core has one scheduler.
    pub cores: u32,
    /// All of the machine's memory.
    pub memory_bytes: u64,
    /// Its costs.
    pub costs: Costs,
    /// Its ways of working.
    pub switches: Switches,
}

/// The ways of working. Each can be chosen independently.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a way of working that is chosen for itself"
)]
pub struct Switches {
    /// How PFS pages are latched.
    pub pfs_latch: PfsLatch,
    /// Whether a worker looks for a free page in the PFS page, in `PAGELATCH_SH`, before it queues to mark one.
    pub pfs_look: bool,
    /// How a worker picks the file for its next page.
    pub pick_file: PickFile,
    /// If the PFS page of the picked file is latched, the number of other files that a worker tries before it queues.
    pub pick_tries: u32,
    /// Whether a worker that inserts at the right edge stays in the file where it allocated last, as long as no other
    /// worker has allocated there since. If there are enough files, each worker then finally has its own file.
    pub keep_file: bool,
    /// Whether a splitting worker holds the parent's latch while it allocates.
    pub parent_latches: bool,
    /// Whether a lazy writer keeps buffers free. If not, each worker frees its own.
    pub lazy_writer: bool,
    /// Whether there are checkpoints.
    pub checkpoints: bool,
    /// Whether connections share their rows, so that all end at the same time, as at life-size. If not, each has its
    /// own rows, and in a small world some connections end early by chance.
    pub common_stock: bool,
    /// Whether a scheduler notices completed I/O at its next switch. If not, it notices it at once.
    pub notice_at_switch: bool,
}

/// How a PFS page is latched while a page is allocated.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PfsLatch {
    /// By one worker at a time.
    Update,
    /// By any number of workers at the same time, as in newer servers.
    Shared,
}

/// How a worker picks a file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PickFile {
    /// The file after the one that any worker picked last.
    RoundRobin,
    /// The file after the one that this worker picked last.
    RoundRobinPerWorker,
    /// Any file.
    Random,
}

/// The longest allowed cost, and the longest allowed time between checkpoints.
const LONGEST_COST_NS: u64 = SEC;
const LONGEST_PERIOD_NS: u64 = 86_400 * SEC;
/// The largest allowed cost in bytes or in pieces.
const MOST_OF_A_COST: u64 = 1 << 24;

figures! {
    /// Costs in time, bytes or number.
    Costs {
        /// The share of the machine's memory that the buffer pool takes.
        pool_per_mille: Figure<u64> [0, 1000];
        /// The longest time that a worker runs before it yields the core.
        quantum_ns: Figure<u64> [US, LONGEST_COST_NS];
        /// Time that an idle core takes until it runs a worker that became runnable.
        wake_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time to insert a row into a page in memory.
        row_cpu_ns: Figure<u64> [1, LONGEST_COST_NS];
        /// CPU time of a point read of a row in memory.
        read_row_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// Jitter of CPU times in either direction, in per mille.
        cpu_jitter_per_mille: Figure<u64> [0, 1000];
        /// The longest piece of work before a worker checks the state of the world again.
        burst_ns: Figure<u64> [1, LONGEST_COST_NS];
        /// CPU time to split a page.
        split_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time to link a page at the right edge, under the latches of the last page and its parent.
        append_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time to find the next page of a file again after another worker allocated there, under the same latches.
        find_page_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time under the latch of a PFS page.
        pfs_hold_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time under the latch of a GAM page, for an extent.
        gam_hold_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// Index entries of a page above the leaves, ln 2 full.
        index_fanout: Figure<u64> [1, MOST_OF_A_COST];
        /// CPU time to read a page, without the drive's driver.
        read_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time to write a batch of pages, without the drive's driver.
        write_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time to look for a buffer to free.
        free_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// CPU time to commit.
        commit_cpu_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// Most pages in one write.
        gather_pages: Figure<u64> [1, MOST_OF_A_COST];
        /// Time between the starts of two checkpoints.
        checkpoint_period_ns: Figure<u64> [0, LONGEST_PERIOD_NS];
        /// Most writes that a checkpoint has in progress.
        checkpoint_writes: Figure<u64> [1, MOST_OF_A_COST];
        /// A checkpoint pauses if its writes take longer.
        checkpoint_latency_ns: Figure<u64> [US, LONGEST_COST_NS];
        /// The length of this pause.
        checkpoint_pause_ns: Figure<u64> [0, LONGEST_COST_NS];
        /// The lazy writer starts if the free part of the pool is smaller.
        lazy_low_per_mille: Figure<u64> [0, 1000];
        /// The lazy writer stops once this part of the pool is free.
        lazy_high_per_mille: Figure<u64> [0, 1000];
        /// Most writes that the lazy writer has in progress.
        lazy_writes: Figure<u64> [1, MOST_OF_A_COST];
        /// Bytes of log for a row.
        log_row_bytes: Figure<u64> [0, MOST_OF_A_COST];
        /// Bytes of log for a page-sized row, including the log of its new page.
        log_page_row_bytes: Figure<u64> [0, MOST_OF_A_COST];
        /// Bytes of log for a page split.
        log_split_bytes: Figure<u64> [0, MOST_OF_A_COST];
        /// Bytes of log for a transaction's beginning and end.
        log_transaction_bytes: Figure<u64> [0, MOST_OF_A_COST];
        /// The longest block of log.
        log_block_bytes: Figure<u64> [512, MOST_OF_A_COST];
        /// Most log writes in progress.
        log_writes: Figure<u64> [1, MOST_OF_A_COST];
    }
}
