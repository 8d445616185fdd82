//! I/Os in progress, and the volumes that process them.

use std::cell::{Cell, Ref, RefCell};

use super::files::Layout;
use super::geometry::{DbPage, PAGE_BYTES};
use super::leaf::Leaf;
use super::pool::{Victim, Wanted};
use crate::hint::{put, rare};
use crate::kernel::{Action, Ns, Port};
use crate::sqlos::Sqlos;
use crate::trace::{IoRecord, Trace};
use crate::volume::{Answer, Failure, Kind, Request, Volume};

/// The event that one part of a split I/O is done. The token is the I/O's slot.
pub(super) const IO_DONE: Port = Port::new(6);
/// The event that the scheduler has noticed the end of an I/O. The token is its slot.
pub(super) const IO_NOTICED: Port = Port::new(7);
/// The event that something is due in a volume. The token is the volume's number.
pub(super) const VOLUME_DUE: Port = Port::new(8);

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The checkpoint writes them.
    Checkpoint,
    /// The lazy writer will free this page's frame.
    Lazy(Victim),
    /// A read needs this page's frame.
    Evict(Victim),
}

/// The object and the purpose of an I/O.
#[derive(Clone, Copy, Debug)]
pub(super) enum Io {
    Read {
        wanted: Wanted,
        frame: u32,
    },
    Write {
        first_leaf: Leaf,
        pages: u32,
        why: Why,
        home: u32,
    },
    Log {
        up_to: u64,
    },
}

impl Io {
    /// Returns the scheduler that notices its end, or `None` if its end is noticed at once.
    ///
    /// The log writer has its own scheduler, without sessions (S. Kandoth and N. Verma, "SQL 2016 - It Just Runs
    /// Faster: Multiple Log Writer Workers", SQL Server Support Blog, 2016). This is assumed for older servers too.
    #[inline(always)]
    const fn home(&self) -> Option<u32> {
        match self {
            Self::Read { wanted, .. } => Some(wanted.home),
            Self::Write { home, .. } => Some(*home),
            Self::Log { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    io: Io,
    begun_ns: Ns,
    /// The number of requests to the volume that are not done yet.
    waits_for: u32,
}

/// A slot for each I/O in progress. The slot's number is the token of the I/O's events.
#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// This is inlined so that the slot is built in place and not copied.
    #[inline(always)]
    fn put(&mut self, slot: Slot) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| self.grow());
        self.slots[number as usize] = slot;
        number
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot {
            io: Io::Log { up_to: 0 },
            begun_ns: 0,
            waits_for: 0,
        });
        u32::try_from(self.slots.len() - 1).expect("a token has 28 bits")
    }

    fn take(&mut self, number: u32) -> Slot {
        put(&mut self.free, number);
        self.slots[number as usize]
    }
}

/// The volumes of a run, and their I/Os in progress.
#[derive(Debug)]
pub(super) struct Ios<'w> {
    os: &'w Sqlos,
    layout: Layout,
    slots: RefCell<Slots>,
    volumes: RefCell<Vec<Volume>>,
    /// For each volume, the CPU time that its drives' driver needs for a page.
    driver_cpu_ns: Vec<Ns>,
    /// This time if it is the same for all volumes, so that no page must be looked up.
    any_driver_cpu_ns: Option<Ns>,
    /// For each volume, the time of its next scheduled call.
    due_ns: Vec<Cell<Ns>>,
    /// Every I/O, if the caller asked for the list.
    trace: Option<RefCell<Trace>>,
    /// I/Os that a volume has just done. It is empty between calls and kept only to reuse its memory.
    done: RefCell<Vec<u32>>,
}

impl<'w> Ios<'w> {
    /// Makes it without I/Os in progress. The volumes are in the order of `layout.volumes`.
    pub(super) fn new(os: &'w Sqlos, layout: Layout, volumes: Vec<Volume>, every_io: bool) -> Self {
        let driver_cpu_ns: Vec<Ns> = volumes.iter().map(|volume| volume.host_cpu_for(PAGE_BYTES)).collect();
        let first = driver_cpu_ns.first().copied();
        Self {
            os,
            layout,
            slots: RefCell::default(),
            any_driver_cpu_ns: first.filter(|first| driver_cpu_ns.iter().all(|other| other == first)),
            driver_cpu_ns,
            due_ns: vec![Cell::new(Ns::MAX); volumes.len()],
            volumes: RefCell::new(volumes),
            done: RefCell::default(),
            trace: every_io.then(RefCell::default),
        }
    }

    /// Returns every I/O so far, if the caller asked for the list.
    pub(super) fn take_trace(&self) -> Option<Vec<IoRecord>> {
        self.trace.as_ref().map(|trace| trace.borrow_mut().take())
    }

    /// The number of I/Os in progress.
    pub(super) fn in_progress(&self) -> usize {
        let slots = self.slots.borrow();
        slots.slots.len() - slots.free.len()
    }

    /// Returns the volumes in their current state.
    pub(super) fn volumes(&self) -> Ref<'_, Vec<Volume>> {
        self.volumes.borrow()
    }

    /// Returns the volumes.
    pub(super) fn take_volumes(&self) -> Vec<Volume> {
        self.volumes.take()
    }

    /// Returns the CPU time that the driver needs for a page. The page is looked up only if volumes differ.
    #[inline]
    pub(super) fn driver_cpu_ns(&self, page: impl FnOnce() -> DbPage) -> Ns {
        self.any_driver_cpu_ns.unwrap_or_else(|| {
            let (volume, _) = self.layout.place(page());
            self.driver_cpu_ns[volume]
        })
    }

    /// Returns the longest CPU time that any driver needs for a page.
    pub(super) fn most_driver_cpu_ns(&self) -> Ns {
        self.driver_cpu_ns.iter().copied().max().unwrap_or(0)
    }

    /// Whether the volume knows that all of a page has been written to it, in this run or before.
    pub(super) fn is_written(&self, page: DbPage) -> bool {
        let (volume, offset) = self.layout.place(page);
        self.volumes()[volume].is_written(offset, PAGE_BYTES)
    }

    /// Begins to read or write adjacent pages of one volume.
    ///
    /// # Errors
    /// Fails if the volume has failed.
    #[inline(always)]
    pub(super) fn submit_pages(&self, io: Io, kind: Kind, first: DbPage, pages: u32) -> Result<(), Failure> {
        let (volume, offset) = self.layout.place(first);
        self.submit(io, volume, kind, offset, u64::from(pages) * PAGE_BYTES)
    }

    /// Begins to write a part of the log.
    ///
    /// # Errors
    /// Fails if the volume has failed.
    pub(super) fn submit_log(&self, io: Io, offset: u64, bytes: u64) -> Result<(), Failure> {
        let (volume, base, _) = self.layout.log;
        let offset = self.layout.shifted(volume, base + offset);
        self.submit(io, volume, Kind::Append, offset, bytes)
    }

    #[inline(always)]
    fn submit(&self, io: Io, volume: usize, kind: Kind, offset: u64, bytes: u64) -> Result<(), Failure> {
        let begun_ns = self.os.now();
        let slot = self.slots.borrow_mut().put(Slot {
            io,
            begun_ns,
            waits_for: 1,
        });
        if let Some(trace) = &self.trace {
            trace
                .borrow_mut()
                .begin(begun_ns, slot, volume, Request { kind, offset, bytes });
        }
        self.submit_slot(slot, io.home(), volume, (kind, offset, bytes))
    }

    fn submit_slot(
        &self,
        slot: u32,
        home: Option<u32>,
        volume: usize,
        (kind, offset, bytes): (Kind, u64, u64),
    ) -> Result<(), Failure> {
        let [(offset, bytes), rest] = self.layout.pieces(volume, offset, bytes);
        let mut answer = self.ask(volume, kind, offset, bytes, slot);
        if rare(rest.1 > 0) {
            answer = self.ask_for_rest(answer, volume, kind, rest, slot);
        }
        match answer {
            Ok(Answer::Done(done_ns)) => {
                let noticed = Action::call(IO_NOTICED, slot);
                match home {
                    Some(home) => self.os.arrive_at(done_ns, home, noticed),
                    None => self.os.kernel().at(done_ns, noticed),
                }
            }
            Ok(Answer::Pending) => {}
            Err(failure) => {
                self.slots.borrow_mut().take(slot);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Sends the second part of an I/O that passes the end of a volume. That part is at the volume's beginning.
    #[cold]
    fn ask_for_rest(
        &self,
        answer: Result<Answer, Failure>,
        volume: usize,
        kind: Kind,
        (offset, bytes): (u64, u64),
        slot: u32,
    ) -> Result<Answer, Failure> {
        let rest = self.ask(volume, kind, offset, bytes, slot);
        Ok(self.both(answer?, rest?, slot))
    }

    #[inline(always)]
    fn ask(&self, volume: usize, kind: Kind, offset: u64, bytes: u64, slot: u32) -> Result<Answer, Failure> {
        let request = Request { kind, offset, bytes };
        let (answer, due_ns) = {
            let volume = &mut self.volumes.borrow_mut()[volume];
            (volume.submit(self.os.now(), request, slot), volume.next_event())
        };
        self.arm(volume, due_ns);
        answer
    }

    /// Combines the answers to the two parts of a split I/O.
    fn both(&self, one: Answer, other: Answer, slot: u32) -> Answer {
        if let (Answer::Done(one_ns), Answer::Done(other_ns)) = (one, other) {
            return Answer::Done(one_ns.max(other_ns));
        }
        self.slots.borrow_mut().slots[slot as usize].waits_for = 2;
        for answer in [one, other] {
            if let Answer::Done(done_ns) = answer {
                self.os.kernel().at(done_ns, Action::call(IO_DONE, slot));
            }
        }
        Answer::Pending
    }

    /// Schedules a call of a volume at `due_ns`, unless an earlier call is scheduled.
    #[inline]
    fn arm(&self, volume: usize, due_ns: Ns) {
        // A flash drive, the most frequent case, never has an event.
        if rare(due_ns < self.due_ns[volume].get()) {
            self.due_ns[volume].set(due_ns);
            let volume = u32::try_from(volume).expect("volumes are few");
            self.os.kernel().at(due_ns, Action::call(VOLUME_DUE, volume));
        }
    }

    /// Schedules a call for each volume that has an event before its first request.
    pub(super) fn arm_all(&self) {
        let due: Vec<Ns> = self.volumes().iter().map(Volume::next_event).collect();
        for (volume, due_ns) in due.into_iter().enumerate() {
            self.arm(volume, due_ns);
        }
    }

    /// Makes a volume process its due events.
    ///
    /// # Errors
    /// Fails if the volume has failed.
    pub(super) fn volume_due(&self, number: u32) -> Result<(), Failure> {
        let (now, volume) = (self.os.now(), number as usize);
        if self.due_ns[volume].get() == now {
            self.due_ns[volume].set(Ns::MAX);
        }
        let mut done = self.done.take();
        let (advanced, due_ns) = {
            let volume = &mut self.volumes.borrow_mut()[volume];
            (volume.advance(now, &mut done), volume.next_event())
        };
        self.arm(volume, due_ns);
        for slot in done.drain(..) {
            self.io_done(slot);
        }
        self.done.replace(done);
        advanced
    }

    /// Records that a request is done. After the last request of an I/O, the I/O's scheduler will notice its end.
    #[inline(always)]
    pub(super) fn io_done(&self, slot: u32) {
        let home = {
            let slot = &mut self.slots.borrow_mut().slots[slot as usize];
            slot.waits_for -= 1;
            if slot.waits_for > 0 {
                return;
            }
            slot.io.home()
        };
        let noticed = Action::call(IO_NOTICED, slot);
        match home {
            Some(home) => self.os.arrive(home, noticed),
            None => self.os.kernel().soon(noticed),
        }
    }

    /// Removes an I/O whose end was noticed. Returns it with its duration.
    pub(super) fn take(&self, slot: u32) -> (Io, Ns) {
        let Slot { io, begun_ns, .. } = self.slots.borrow_mut().take(slot);
        let took_ns = self.os.now() - begun_ns;
        if let Some(trace) = &self.trace {
            trace.borrow_mut().end(slot, took_ns);
        }
        (io, took_ns)
    }
}
