//! Every I/O of a run, for users who inspect the simulator. Nothing depends on this list. If it is not requested, it
//! costs a run one branch for each I/O.

use serde::Serialize;

use crate::kernel::Ns;
use crate::volume::Request;

/// One I/O: when it began, how long it took until it was noticed (`None` if the run ended before), and what it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct IoRecord {
    /// When it began.
    pub at_ns: Ns,
    /// How long it took until its end was noticed; `None` if the run ended before.
    pub took_ns: Option<Ns>,
    /// The number of its volume, in the order of their names.
    pub volume: usize,
    /// `read`, `write`, or `append` for a piece of log.
    pub access: &'static str,
    /// From which byte of the volume on.
    pub offset: u64,
    /// To how many.
    pub bytes: u64,
}

/// The I/Os of a run so far, in the order of their beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    records: Vec<IoRecord>,
    /// For each token in use, its record.
    open: Vec<usize>,
}

impl Trace {
    /// An I/O begins.
    pub(crate) fn begin(&mut self, at_ns: Ns, token: u32, volume: usize, request: Request) {
        let token = token as usize;
        if token >= self.open.len() {
            self.open.resize(token + 1, usize::MAX);
        }
        self.open[token] = self.records.len();
        self.records.push(IoRecord {
            at_ns,
            took_ns: None,
            volume,
            access: request.kind.name(),
            offset: request.offset,
            bytes: request.bytes,
        });
    }

    /// It has ended, and that was noticed.
    pub(crate) fn end(&mut self, token: u32, took_ns: Ns) {
        self.records[self.open[token as usize]].took_ns = Some(took_ns);
    }

    pub(crate) fn take(&mut self) -> Vec<IoRecord> {
        std::mem::take(&mut self.records)
    }
}
