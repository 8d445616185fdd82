//! The wait types, and the books of each worker's time.

use crate::kernel::Ns;

/// Lists the wait types once: the variant, SQL Server's name, what is waited for.
macro_rules! wait_types {
    ($($variant:ident $name:literal $meaning:literal)*) => {
        /// What a worker waits for, by SQL Server's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum WaitType {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] $variant,)*
        }

        impl WaitType {
            /// All types, in the order of their declaration, which is that of [`WaitType::index`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

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
    PageLatchKp "PAGELATCH_KP" "a latch on a page in memory, keep mode"
    PageLatchSh "PAGELATCH_SH" "a latch on a page in memory, shared"
    PageLatchUp "PAGELATCH_UP" "a latch on a page in memory, update"
    PageLatchEx "PAGELATCH_EX" "a latch on a page in memory, exclusive"
    PageLatchDt "PAGELATCH_DT" "a latch on a page in memory, destroy"
    PageIoLatchKp "PAGEIOLATCH_KP" "a page that is being read or written, keep mode"
    PageIoLatchSh "PAGEIOLATCH_SH" "a page that is being read or written, shared"
    PageIoLatchUp "PAGEIOLATCH_UP" "a page that is being read or written, update"
    PageIoLatchEx "PAGEIOLATCH_EX" "a page that is being read or written, exclusive"
    PageIoLatchDt "PAGEIOLATCH_DT" "a page that is being read or written, destroy"
    LatchKp "LATCH_KP" "a latch on no page, keep mode"
    LatchSh "LATCH_SH" "a latch on no page, shared"
    LatchUp "LATCH_UP" "a latch on no page, update"
    LatchEx "LATCH_EX" "a latch on no page, exclusive"
    LatchDt "LATCH_DT" "a latch on no page, destroy"
    WriteLog "WRITELOG" "the flush of the log at a commit"
    LogBuffer "LOGBUFFER" "room in the log buffer"
    LogMgrQueue "LOGMGR_QUEUE" "the log writer: nothing to write (idle)"
    Chkpt "CHKPT" "a checkpoint to begin"
    CheckpointQueue "CHECKPOINT_QUEUE" "the checkpoint: not due yet (idle)"
    SleepBpoolFlush "SLEEP_BPOOL_FLUSH" "the checkpoint, throttled so as not to flood the disks"
    LazyWriterSleep "LAZYWRITER_SLEEP" "the lazy writer: enough free pages (idle)"
    IoCompletion "IO_COMPLETION" "an I/O that is not on a data page"
    AsyncIoCompletion "ASYNC_IO_COMPLETION" "an asynchronous I/O, such as the growth of a file"
    WriteCompletion "WRITE_COMPLETION" "a write in progress"
    AsyncNetworkIo "ASYNC_NETWORK_IO" "the client"
    ResourceSemaphore "RESOURCE_SEMAPHORE" "a grant of memory"
    ThreadPool "THREADPOOL" "a worker"
    WaitFor "WAITFOR" "a statement that only waits"
    SleepTask "SLEEP_TASK" "a task that sleeps"
    SosSchedulerYield "SOS_SCHEDULER_YIELD" "a new quantum, the last one being used up: all signal time"
    WorkerStart "WORKER_START" "the first turn on a scheduler: the simulator's own, all signal time, not in SQL Server's table"
}

/// How many wait types there are.
pub const WAIT_TYPES: usize = WaitType::ALL.len();

impl WaitType {
    /// Its place in [`WaitType::ALL`] and in [`Account::waits`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The waits of one type: their number, and both parts of their length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))] // never across two lines of the processor's cache
pub struct WaitSum {
    /// Waits that have ended. A wait still open when the books are closed adds its time, but does not count here.
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
