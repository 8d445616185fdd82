//! The wait types, and the account of each worker's time.

use crate::kernel::Ns;

/// Lists each wait type once: its variant, its code, SQL Server's name, and what the worker waits for.
macro_rules! wait_types {
    ($($variant:ident $code:literal $name:literal $meaning:literal)*) => {
        /// What a worker waits for, by SQL Server's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum WaitType {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] $variant,)*
        }

        impl WaitType {
            /// All types, in the order of their declaration. [`WaitType::index`] is an index into this list.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            const CODES: &'static [u8] = &[$($code,)*];

            /// The name under which SQL Server reports it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

wait_types! {
    PageLatchSh 1 "PAGELATCH_SH" "a latch on a page in memory, shared"
    PageLatchUp 2 "PAGELATCH_UP" "a latch on a page in memory, update"
    PageLatchEx 3 "PAGELATCH_EX" "a latch on a page in memory, exclusive"
    PageIoLatchSh 6 "PAGEIOLATCH_SH" "a page that is being read or written, shared"
    PageIoLatchUp 7 "PAGEIOLATCH_UP" "a page that is being read or written, update; no code of the engine waits so"
    PageIoLatchEx 8 "PAGEIOLATCH_EX" "a page that is being read or written, exclusive"
    WriteLog 15 "WRITELOG" "the flush of the log at a commit"
    LogBuffer 16 "LOGBUFFER" "room in the log buffer"
    CheckpointQueue 19 "CHECKPOINT_QUEUE" "the checkpoint: not due yet (idle)"
    SleepBpoolFlush 20 "SLEEP_BPOOL_FLUSH" "the checkpoint, throttled so as not to flood the disks"
    LazyWriterSleep 21 "LAZYWRITER_SLEEP" "the lazy writer: enough free pages (idle)"
    AsyncIoCompletion 23 "ASYNC_IO_COMPLETION" "an asynchronous I/O, such as the growth of a file"
    WriteCompletion 24 "WRITE_COMPLETION" "a write in progress"
    SosSchedulerYield 30 "SOS_SCHEDULER_YIELD" "a new quantum, the last one being used up: all signal time"
    WorkerStart 31 "WORKER_START" "the first turn on a scheduler: the simulator's own, all signal time, not in SQL Server's table"
}

/// The number of wait types.
pub const WAIT_TYPES: usize = WaitType::ALL.len();

impl WaitType {
    /// Returns its index in [`WaitType::ALL`] and in [`Account::waits`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns its number in a run's fingerprint. It never changes, so that results can be compared.
    #[must_use]
    #[inline(always)]
    pub const fn code(self) -> u8 {
        Self::CODES[self as usize]
    }
}

/// The waits of one type: their number, and both parts of their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))] // so that it is never in two lines of the processor's cache
pub struct WaitSum {
    /// The waits that have ended. An open wait adds its time when the account is read, but is not counted.
    pub count: u64,
    /// The time SUSPENDED, when the resource was not available.
    pub resource_ns: Ns,
    /// The time RUNNABLE, when the resource was available but the core was not.
    pub signal_ns: Ns,
}

impl WaitSum {
    /// Returns the sum of both parts.
    #[must_use]
    pub const fn wait_ns(&self) -> Ns {
        self.resource_ns + self.signal_ns
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.resource_ns += other.resource_ns;
        self.signal_ns += other.signal_ns;
    }
}

/// The account of one worker's time, or the sum over several workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The time RUNNING.
    pub cpu_ns: Ns,
    /// The time from the worker's end until the account was read.
    pub finished_ns: Ns,
    /// The waits, by [`WaitType::index`].
    pub waits: [WaitSum; WAIT_TYPES],
}

impl Default for Account {
    fn default() -> Self {
        Self {
            cpu_ns: 0,
            finished_ns: 0,
            waits: [WaitSum::default(); WAIT_TYPES],
        }
    }
}

impl Account {
    /// Returns the waits of one type.
    #[must_use]
    pub const fn of(&self, wait: WaitType) -> &WaitSum {
        &self.waits[wait.index()]
    }

    /// Returns the sum of the lengths of all waits.
    #[must_use]
    pub fn wait_ns(&self) -> Ns {
        self.waits.iter().map(WaitSum::wait_ns).sum()
    }

    /// Returns the sum of all times in the account: running, waiting, and finished.
    #[must_use]
    pub fn total_ns(&self) -> Ns {
        self.cpu_ns + self.wait_ns() + self.finished_ns
    }

    /// Adds another account to this one.
    pub fn add(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.finished_ns += other.finished_ns;
        for (sum, more) in self.waits.iter_mut().zip(&other.waits) {
            sum.add(more);
        }
    }
}
