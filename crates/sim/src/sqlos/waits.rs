//! The wait types, and the books of each worker's time.

use crate::kernel::Ns;

/// Lists the wait types once: the variant, its code, SQL Server's name, what is waited for.
macro_rules! wait_types {
    ($($variant:ident $code:literal $name:literal $meaning:literal)*) => {
        /// What a worker waits for, by SQL Server's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum WaitType {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] $variant,)*
        }

        impl WaitType {
            /// All types, in the order of their declaration, which is that of [`WaitType::index`].
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

/// How many wait types there are.
pub const WAIT_TYPES: usize = WaitType::ALL.len();

impl WaitType {
    /// Its place in [`WaitType::ALL`] and in [`Account::waits`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its number in the fingerprint of a run. It stays if other types change, so that results can be compared.
    #[must_use]
    #[inline(always)]
    pub const fn code(self) -> u8 {
        Self::CODES[self as usize]
    }
}

/// The waits of one type: their number, and both parts of their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))] // never across two lines of the processor's cache
pub struct WaitSum {
    /// The number of ended waits. A wait still open when the books close adds its time, but does not count here.
    pub count: u64,
    /// Time SUSPENDED: the resource was not there.
    pub resource_ns: Ns,
    /// Time RUNNABLE: the resource was there, the core was not.
    pub signal_ns: Ns,
}

impl WaitSum {
    /// Both parts together.
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

/// The account of one worker's time, or of several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Time RUNNING.
    pub cpu_ns: Ns,
    /// Time from the worker's end to the closing of the books.
    pub finished_ns: Ns,
    /// By [`WaitType::index`].
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
    /// The waits of one type.
    #[must_use]
    pub const fn of(&self, wait: WaitType) -> &WaitSum {
        &self.waits[wait.index()]
    }

    /// The length of all waits.
    #[must_use]
    pub fn wait_ns(&self) -> Ns {
        self.waits.iter().map(WaitSum::wait_ns).sum()
    }

    /// All time accounted for: running, waiting, finished.
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
