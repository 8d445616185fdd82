//! Every I/O of a run, for users who want to see what the simulator did. No result depends on it. Without a trace, it
//! takes only one branch per I/O.

use serde::Serialize;

use crate::kernel::Ns;
use crate::volume::Request;

/// One I/O.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct IoRecord {
    /// The time when it began.
    pub at_ns: Ns,
    /// The time until its end was noticed; `None` if the run ended before.
    pub took_ns: Option<Ns>,
    /// The number of its volume, in the order of the volumes' names.
    pub volume: usize,
    /// `read`, `write`, or `append` for a write of the log.
    pub access: &'static str,
    /// Its first byte on the volume.
    pub offset: u64,
    /// The number of its bytes.
    pub bytes: u64,
}

/// The I/Os of a run so far, in the order of their beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    records: Vec<IoRecord>,
    /// For each token in use, the index of its record.
    open: Vec<usize>,
}

impl Trace {
    /// Records that an I/O begins.
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

    /// Records that an I/O has ended and that its end was noticed.
    pub(crate) fn end(&mut self, token: u32, took_ns: Ns) {
        self.records[self.open[token as usize]].took_ns = Some(took_ns);
    }

    pub(crate) fn take(&mut self) -> Vec<IoRecord> {
        std::mem::take(&mut self.records)
    }
}
