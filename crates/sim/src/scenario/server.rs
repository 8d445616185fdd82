//! The database server in figures: each with its label and where it comes from.

use serde::{Deserialize, Serialize};

use crate::flash::{Figure, Label};

/// The server that the database runs on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Cores, one scheduler each.
    pub cores: u32,
    /// All of the machine's memory.
    pub memory_bytes: u64,
    /// What things cost.
    #[serde(default)]
    pub costs: Costs,
    /// How things are done.
    #[serde(default)]
    pub switches: Switches,
}

/// Ways of working that can be chosen one by one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a way of working that is chosen for itself"
)]
pub struct Switches {
    /// How PFS pages are latched.
    pub pfs_latch: PfsLatch,
    /// Whether a worker looks at the PFS page for a free page, in `PAGELATCH_SH`, before it queues for its latch to mark one.
    pub pfs_look: bool,
    /// How a worker picks the file for its next page.
    pub pick_file: PickFile,
    /// How many other files a worker looks at if the PFS page of the one it picked is taken, before it queues.
    pub pick_tries: u32,
    /// Whether a worker that inserts at the right edge goes on in the file where it allocated last, as long as nobody else has
    /// allocated there since. So workers come to have a file each as soon as there are enough. An assumption: what article
    /// C saw is published, the mechanism is not.
    pub keep_file: bool,
    /// Whether a splitting worker holds the parent's latch while it allocates.
    pub parent_latches: bool,
    /// Whether a lazy writer keeps buffers free; if not, each worker frees its own.
    pub lazy_writer: bool,
    /// Whether there are checkpoints.
    pub checkpoints: bool,
    /// Whether connections share their rows, so that all end together, as they do at life-size; if not, each has its own, and
    /// in a small world chance lets some end early.
    pub common_stock: bool,
    /// Whether completed I/O is noticed at a scheduler's next switch; if not, at once.
    pub notice_at_switch: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            pfs_latch: PfsLatch::Update,
            pfs_look: true,
            pick_file: PickFile::Random,
            pick_tries: 0,
            keep_file: true,
            parent_latches: true,
            lazy_writer: true,
            checkpoints: true,
            common_stock: true,
            notice_at_switch: true,
        }
    }
}

/// The latch of a PFS page while a page is allocated.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PfsLatch {
    /// One worker at a time.
    Update,
    /// Any number of workers, as newer servers do it.
    Shared,
}

/// How a worker picks a file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PickFile {
    /// The file after the one that was picked last, by whomever.
    RoundRobin,
    /// The file after the one that this worker picked last.
    RoundRobinPerWorker,
    /// Any file.
    Random,
}

/// Declares the costs with their default, label and source in one place; of fitted ones also the bounds, and once they have
/// been fitted the figures that it was done on: `row_cpu_ns: 60_000, Fitted in [48_000, 64_000] on "A5 A6", "source";`
macro_rules! costs {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $value:literal, $label:ident $(in [$low:literal, $high:literal])? $(on $rows:literal)?, $source:literal;
    )*) => {
        /// What things cost, in time, bytes or number.
        #[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Costs {
            $($(#[doc = $doc])+ pub $name: Figure<u64>,)*
        }

        impl Default for Costs {
            fn default() -> Self {
                Self {
                    $($name: Figure {
                        value: $value,
                        label: Label::$label,
                        source: $source.to_owned(),
                        bounds: None$(.or(Some([$low, $high])))?,
                        fitted_on: concat!($($rows)?).split_whitespace().map(str::to_owned).collect(),
                    },)*
                }
            }
        }

        impl Costs {
            /// All costs with their names, in the order of their declaration.
            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, &Figure<u64>)> {
                vec![$((stringify!($name), &self.$name),)*]
            }
        }
    };
}

costs! {
    /// Part of the machine's memory that is the buffer pool.
    pool_per_mille: 750, Derived, "0.283 reads an insert in article A: a pool of 12.9 of 17.2 GB";
    /// A quantum.
    quantum_ns: 4_000_000, Published, "SQLOS: 4 ms";
    /// CPU time to insert a row into a page in memory.
    row_cpu_ns: 56_500, Fitted in [48_000, 64_000] on "A39",
        "the time that makes as many yields";
    /// CPU time of a point read of a row in memory.
    read_row_cpu_ns: 30_000, Derived,
        "an assumption: half of an insert's, the way down and the loop around it without a row and log to make";
    /// How far CPU times stray, either way, in per mille.
    cpu_jitter_per_mille: 200, Derived, "an assumption: lock-step makes artefacts";
    /// The longest piece of work after which a worker looks at the world again.
    burst_ns: 1_000_000, Derived, "the model's grain: a quarter of a quantum";
    /// CPU time to split a page.
    split_cpu_ns: 40_000, Derived, "an assumption: 25 rows moved";
    /// CPU time to link a page at the right edge, under the latches of the last page and its parent.
    append_cpu_ns: 40_000, Derived, "an assumption: as much as a split, a row of a page copied instead of 25";
    /// CPU time to find the next page of a file again in which somebody else has allocated since, under the same latches.
    find_page_cpu_ns: 86_000, Fitted in [20_000, 160_000] on "C1",
        "PFS and IAM pages searched: what it takes beside the rest to make 130 us a page";
    /// CPU time under the latch of a PFS page.
    pfs_hold_ns: 500, Fitted in [500, 20_000] on "A19",
        "any short time makes a convoy";
    /// CPU time under the latch of a GAM page, for an extent.
    gam_hold_ns: 1_000, Fitted in [500, 20_000] on "A24",
        "a bit is set, as in a PFS page: bounds as for that";
    /// Index entries of a page above the leaves, ln 2 full.
    index_fanout: 224, Derived, "323 entries of 25 bytes, ln 2 full";
    /// CPU time to read a page, without the drive's driver.
    read_cpu_ns: 28_500, Fitted in [5_000, 45_000] on "A33",
        "a wait, an asynchronous read and its completion";
    /// CPU time to write a batch of pages, without the drive's driver.
    write_cpu_ns: 21_000, Fitted in [5_000, 45_000] on "A33",
        "a gathered write and its completion";
    /// CPU time to look for a buffer to free.
    free_cpu_ns: 3_000, Derived, "an assumption";
    /// CPU time to commit.
    commit_cpu_ns: 15_000, Fitted in [10_000, 60_000] on "B16",
        "Bounds are an assumption: a fifth of a row to a row. What keeps a core busy delays the notice of a read";
    /// Pages at most in one write.
    gather_pages: 32, Published, "SQL Server: up to 32 adjacent pages, 256 KB";
    /// Time between the starts of two checkpoints.
    checkpoint_period_ns: 60_000_000_000, Published, "recovery interval 0: about one a minute";
    /// Writes that a checkpoint has in progress at most.
    checkpoint_writes: 100, Derived, "an assumption, of the order of SQL Server's limit for outstanding I/Os";
    /// A checkpoint pauses when its writes take longer than this.
    checkpoint_latency_ns: 20_000_000, Published, "SQL Server: 20 ms";
    /// How long it pauses.
    checkpoint_pause_ns: 5_000_000, Derived, "an assumption";
    /// The lazy writer starts when a smaller part of the pool is free.
    lazy_low_per_mille: 2, Derived, "an assumption";
    /// The lazy writer stops when this part of the pool is free.
    lazy_high_per_mille: 4, Derived, "an assumption";
    /// Writes that the lazy writer has in progress at most.
    lazy_writes: 32, Derived, "an assumption";
    /// Log of a row.
    log_row_bytes: 260, Derived, "the row and about 100 bytes of log record";
    /// Log of a row of a page, that of its new page included.
    log_page_row_bytes: 8_192, Derived, "an assumption: article C doesn't give the row; one that fills its page";
    /// Log of a split.
    log_split_bytes: 4_600, Derived, "25 rows moved, headers";
    /// Log of a transaction's beginning and end.
    log_transaction_bytes: 200, Derived, "two records";
    /// The longest block of log.
    log_block_bytes: 61_440, Published, "SQL Server: 60 KB";
    /// Log writes in progress at most.
    log_writes: 32, Published, "SQL Server 2008: 32 outstanding log writes";
}
