//! The write-ahead log: blocks that are written, writes that may end in any order, and commits that share flushes.

use std::cell::RefCell;

use crate::sqlos::{Event, Sqlos, WaitType};

/// A part of the log that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// Its first byte in the log file.
    pub offset: u64,
    /// Its length, rounded up to whole sectors.
    pub bytes: u64,
    /// The log is safe up to this position when this part and all earlier parts are written.
    pub up_to: u64,
}

#[derive(Debug)]
struct State<'w> {
    /// The end of the log so far, without padding.
    end: u64,
    /// The log up to this position has been submitted to the drive.
    submitted: u64,
    /// The log up to this position is safe.
    flushed: u64,
    /// Commits wait until the log is safe up to this position.
    wanted: u64,
    /// The position of the next block in the file.
    offset: u64,
    /// The ends of the writes in progress, oldest first, and whether each write is done.
    in_progress: std::collections::VecDeque<(u64, bool)>,
    /// The commits that wait, each with the position up to which the log must be safe for it, in ascending order.
    waiting: std::collections::VecDeque<(u64, Event<'w>)>,
    room: Option<Event<'w>>,
}

/// The log of one run.
#[derive(Debug)]
pub struct Log<'w> {
    os: &'w Sqlos,
    sector_bytes: u64,
    block_bytes: u64,
    file_bytes: u64,
    most_writes: usize,
    state: RefCell<State<'w>>,
}

impl<'w> Log<'w> {
    /// Makes an empty log in a file of `file_bytes`. After the end of the file, it continues at the file's beginning.
    #[must_use]
    pub fn new(os: &'w Sqlos, sector_bytes: u64, block_bytes: u64, file_bytes: u64, most_writes: usize) -> Self {
        Self {
            os,
            sector_bytes,
            block_bytes,
            file_bytes,
            most_writes,
            state: RefCell::new(State {
                end: 0,
                submitted: 0,
                flushed: 0,
                wanted: 0,
                offset: 0,
                in_progress: std::collections::VecDeque::new(),
                waiting: std::collections::VecDeque::new(),
                room: None,
            }),
        }
    }

    /// Adds `bytes` of log records. [`Log::next_write`] then returns the full blocks.
    pub fn append(&self, bytes: u64) {
        self.state.borrow_mut().end += bytes;
    }

    /// Whether a block must be written now. That is a full block, or, if no other write is in progress, a block that a
    /// commit waits for.
    pub fn is_due(&self) -> bool {
        let state = self.state.borrow();
        let full = state.end - state.submitted >= self.block_bytes;
        // Commits that arrive during a flush share the next one.
        let wanted = state.wanted > state.submitted && state.in_progress.is_empty();
        (full || wanted) && state.in_progress.len() < self.most_writes
    }

    /// Returns this block.
    pub fn next_write(&self) -> Option<LogWrite> {
        if !self.is_due() {
            return None;
        }
        let mut state = self.state.borrow_mut();
        let unwritten = state.end - state.submitted;
        let payload = unwritten.min(self.block_bytes);
        let bytes = payload.next_multiple_of(self.sector_bytes);
        if state.offset + bytes > self.file_bytes {
            state.offset = 0;
        }
        let offset = state.offset;
        state.offset += bytes;
        state.submitted += payload;
        let up_to = state.submitted;
        state.in_progress.push_back((up_to, false));
        Some(LogWrite { offset, bytes, up_to })
    }

    /// Records that a write is done. Commits whose log is now safe continue, in order.
    pub fn written(&self, up_to: u64) {
        let mut state = self.state.borrow_mut();
        if let Some(write) = state.in_progress.iter_mut().find(|write| write.0 == up_to) {
            write.1 = true;
        }
        while let Some(&(end, true)) = state.in_progress.front() {
            state.flushed = end;
            state.in_progress.pop_front();
        }
        while state.waiting.front().is_some_and(|commit| commit.0 <= state.flushed) {
            if let Some((_, event)) = state.waiting.pop_front() {
                event.set();
            }
        }
        if let Some(room) = state.room.take() {
            room.set();
        }
    }

    /// Records that the log so far must become safe. Returns the event to wait for.
    pub fn commit(&self) -> Event<'w> {
        let event = self.os.event(super::resource::LABEL_LOG);
        let mut state = self.state.borrow_mut();
        let end = state.end;
        if end <= state.flushed {
            // All of the log was written in full blocks, so no later flush would complete this commit.
            event.set();
        } else {
            state.wanted = end;
            state.waiting.push_back((end, event.clone()));
        }
        event
    }

    /// Whether the unwritten log is within its limit: another write may start, or no further block is full.
    pub fn has_room(&self) -> bool {
        let state = self.state.borrow();
        let backlog = state.end - state.submitted;
        state.in_progress.len() < self.most_writes || backlog < self.block_bytes
    }

    /// Waits until the unwritten log is within its limit.
    pub async fn room(&self) {
        while !self.has_room() {
            let os = self.os;
            let room = {
                let mut state = self.state.borrow_mut();
                state
                    .room
                    .get_or_insert_with(|| os.event(super::resource::LABEL_LOG))
                    .clone()
            };
            room.wait(WaitType::LogBuffer).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlos::Config;

    fn next(log: &Log<'_>) -> Option<(u64, u64, u64)> {
        log.next_write().map(|write| (write.offset, write.bytes, write.up_to))
    }

    #[test]
    fn commits_that_come_during_a_flush_share_the_next_one() {
        let os = Sqlos::new(Config::new(1));
        let log = Log::new(&os, 512, 61_440, 1 << 20, 8);
        log.append(100);
        assert_eq!(next(&log), None, "nobody waits for it");
        let _first = log.commit();
        assert_eq!(next(&log), Some((0, 512, 100)), "padded to a sector");
        for bytes in [100, 800] {
            log.append(bytes);
            let _later = log.commit();
            assert_eq!(next(&log), None, "a flush is in progress");
        }
        log.written(100);
        assert_eq!(next(&log), Some((512, 1024, 1000)));
    }

    #[test]
    fn full_blocks_go_out_at_once_are_safe_in_order_and_start_over_at_the_end_of_the_file() {
        let os = Sqlos::new(Config::new(1));
        let log = Log::new(&os, 512, 1024, 2560, 2);
        log.append(4000);
        assert_eq!(
            [next(&log), next(&log)],
            [Some((0, 1024, 1024)), Some((1024, 1024, 2048))]
        );
        assert!(next(&log).is_none() && !log.has_room(), "two writes at most");
        log.written(2048);
        assert_eq!(log.state.borrow().flushed, 0, "the first is still on its way");
        assert_eq!(next(&log), None);
        log.written(1024);
        assert_eq!(log.state.borrow().flushed, 2048);
        assert_eq!(next(&log), Some((0, 1024, 3072)), "512 bytes are left behind");
        assert!(next(&log).is_none() && log.has_room(), "no further block is full");
    }
}
