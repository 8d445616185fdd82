//! Reads and writes of pages: what is started, what follows when it is done.
//!
//! A page that is read is latched exclusively by the read, one that is written is latched shared by the write; who wants to
//! change it waits, and that is `PAGEIOLATCH_EX`. A read needs a free frame. If there is none, a victim must go first, and if
//! that is dirty it must be written first: all of this is part of the wait for the page that is to be read.

use super::frames::Wanted;
use super::look_ahead::IO_GROUP;
use super::pool::Victim;
use super::tree::{State, Tree, flag};
use super::{Engine, Failure, IO_DONE, IO_NOTICED, VOLUME_DUE, add};
use crate::engine::geometry::PAGE_BYTES;
use crate::engine::log::LogWrite;
use crate::hint::{put, rare};
use crate::kernel::{Action, Ns};
use crate::sqlos::{LatchClass, Mode};
use crate::volume::{self, Answer, Kind, Request, Volume};

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// For the checkpoint.
    Checkpoint,
    /// The lazy writer wants this one's frame.
    Lazy(Victim),
    /// A read wants this one's frame.
    Evict(Victim),
}

#[derive(Clone, Copy, Debug)]
enum Io {
    Read {
        wanted: Wanted,
        frame: u32,
    },
    Write {
        first_leaf: u32,
        pages: u32,
        why: Why,
        home: u32,
    },
    Log {
        up_to: u64,
    },
}

impl Io {
    /// The scheduler that notices its end; none if that is noticed at once.
    ///
    /// The log writer has a scheduler of its own, which no session keeps busy (S. Kandoth and N. Verma, "SQL 2016 - It Just
    /// Runs Faster: Multiple Log Writer Workers", SQL Server Support Blog, 2016; taken so for older servers too).
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
    /// Requests to the volume that it waits for.
    waits_for: u32,
}

/// I/Os in progress.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Inlined, so that the slot is made where it stays: a processor waits for what is stored in parts and then read as a whole
    /// to be copied.
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

    /// How many are in progress.
    pub(super) fn in_progress(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Engine<'_> {
    /// The scheduler that notices the end of what is started now.
    pub(super) fn home(&self) -> u32 {
        self.os.current_scheduler().unwrap_or(0)
    }

    /// Hands bytes at a place to a volume; false if it answers no more.
    #[inline(always)]
    fn submit(&self, io: Io, volume: usize, request: (Kind, u64, u64)) -> bool {
        let begun_ns = self.os.now();
        let slot = self.ios.borrow_mut().put(Slot {
            io,
            begun_ns,
            waits_for: 1,
        });
        self.submit_slot(slot, io.home(), volume, request)
    }

    fn submit_slot(
        &self,
        slot: u32,
        home: Option<u32>,
        volume: usize,
        (kind, offset, bytes): (Kind, u64, u64),
    ) -> bool {
        let [(offset, bytes), rest] = self.layout.pieces(volume, offset, bytes);
        let mut answer = self.ask(volume, kind, offset, bytes, slot);
        if rare(rest.1 > 0) {
            answer = self.ask_for_rest(answer, volume, kind, rest, slot);
        }
        match answer {
            Some(Answer::Done(done_ns)) => {
                let noticed = Action::call(IO_NOTICED, slot);
                match home {
                    Some(home) => self.os.arrive_at(done_ns, home, noticed),
                    None => self.os.kernel().at(done_ns, noticed),
                }
            }
            Some(Answer::Pending) => {}
            None => drop(self.ios.borrow_mut().take(slot)),
        }
        answer.is_some()
    }

    #[inline(always)]
    fn ask(&self, volume: usize, kind: Kind, offset: u64, bytes: u64, slot: u32) -> Option<Answer> {
        let request = Request { kind, offset, bytes };
        let (answer, due_ns) = {
            let volume = &mut self.volumes.borrow_mut()[volume];
            (volume.submit(self.os.now(), request, slot), volume.next_event())
        };
        self.arm(volume, due_ns);
        self.or_failure(answer)
    }

    /// What goes over a volume's end goes on at its beginning.
    #[cold]
    fn ask_for_rest(
        &self,
        answer: Option<Answer>,
        volume: usize,
        kind: Kind,
        (offset, bytes): (u64, u64),
        slot: u32,
    ) -> Option<Answer> {
        let rest = self.ask(volume, kind, offset, bytes, slot);
        self.both(answer, rest, slot)
    }

    /// What becomes of an I/O that was cut in two.
    fn both(&self, one: Option<Answer>, other: Option<Answer>, slot: u32) -> Option<Answer> {
        let answer = match (one?, other?) {
            (Answer::Done(one_ns), Answer::Done(other_ns)) => Answer::Done(one_ns.max(other_ns)),
            (one, other) => {
                self.ios.borrow_mut().slots[slot as usize].waits_for = 2;
                for answer in [one, other] {
                    if let Answer::Done(done_ns) = answer {
                        self.os.kernel().at(done_ns, Action::call(IO_DONE, slot));
                    }
                }
                Answer::Pending
            }
        };
        Some(answer)
    }

    #[inline]
    fn or_failure<T>(&self, answer: Result<T, volume::Failure>) -> Option<T> {
        answer.map_err(|failure| self.fail(Failure::Volume(failure))).ok()
    }

    /// Lets a volume be called at `due_ns`, unless it will be called before that.
    #[inline]
    fn arm(&self, volume: usize, due_ns: Ns) {
        // Of flash, which is most asked for, nothing is ever due.
        if rare(due_ns < self.due_ns[volume].get()) {
            self.due_ns[volume].set(due_ns);
            let volume = u32::try_from(volume).expect("volumes are few");
            self.os.kernel().at(due_ns, Action::call(VOLUME_DUE, volume));
        }
    }

    /// Lets volumes be called for what is due in them without any request.
    pub(super) fn arm_all(&self) {
        let due: Vec<Ns> = self.volumes.borrow().iter().map(Volume::next_event).collect();
        for (volume, due_ns) in due.into_iter().enumerate() {
            self.arm(volume, due_ns);
        }
    }

    /// Something is due in a volume.
    pub(super) fn volume_due(&self, number: u32) {
        let (now, volume) = (self.os.now(), number as usize);
        if self.due_ns[volume].get() == now {
            self.due_ns[volume].set(Ns::MAX);
        }
        let mut done = self.done.take();
        let (advanced, due_ns) = {
            let mut volumes = self.volumes.borrow_mut();
            let advanced = volumes[volume].advance(now, &mut done);
            (advanced, volumes[volume].next_event())
        };
        self.arm(volume, due_ns);
        for slot in done.drain(..) {
            self.io_done(slot);
        }
        self.done.replace(done);
        self.or_failure(advanced);
    }

    /// The volume is done: the I/O's scheduler will notice.
    #[inline(always)]
    pub(super) fn io_done(&self, slot: u32) {
        let home = {
            let slot = &mut self.ios.borrow_mut().slots[slot as usize];
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

    /// The scheduler has noticed: what was waited for is there.
    pub(super) fn io_noticed(&self, slot: u32) {
        let Slot { io, begun_ns, .. } = self.ios.borrow_mut().take(slot);
        let took_ns = self.os.now() - begun_ns;
        match io {
            Io::Read { wanted, frame } => {
                add(&self.counters.read_ns, took_ns);
                self.fill_frame(wanted, frame, flag::REFERENCED);
                self.serve_frames(wanted.home);
            }
            Io::Write {
                first_leaf,
                pages,
                why,
                home,
            } => self.write_done(first_leaf, pages, why, took_ns, home),
            Io::Log { up_to } => {
                self.log.written(up_to);
                self.write_log();
            }
        }
    }

    /// Reads a leaf into a frame.
    #[inline(always)]
    pub(super) fn submit_read(&self, wanted: Wanted, frame: u32) {
        self.end_memory_phase();
        let page = self.files.borrow().page_of(wanted.leaf);
        let (volume, offset) = self.layout.place(page);
        let io = Io::Read { wanted, frame };
        if self.submit(io, volume, (Kind::Read, offset, PAGE_BYTES)) {
            add(&self.counters.reads, 1);
        }
    }

    /// An I/O for a leaf is to come: reads what the drive will need for it, so that it is in the processor's cache by then.
    #[inline]
    pub(super) fn look_ahead(&self, leaf: u32) {
        if let Some(leaves) = self.coming_ios.add(leaf) {
            self.touch(leaves);
        }
    }

    fn touch(&self, leaves: [u32; IO_GROUP]) {
        let (files, volumes) = (self.files.borrow(), self.volumes.borrow());
        let touched = leaves.iter().fold(0, |touched, &leaf| {
            let (volume, offset) = self.layout.place(files.page_of(leaf));
            touched ^ volumes[volume].touch(offset)
        });
        std::hint::black_box(touched); // or the compiler would leave out what nobody uses
    }

    /// Writes a dirty leaf, and its dirty neighbours on disk with it. Returns how many pages that is; 0 if somebody is at it.
    pub(super) fn start_write(&self, leaf: u32, why: Why, home: u32) -> u32 {
        let Some((first_leaf, pages)) = self.gather(leaf) else {
            return 0;
        };
        let (volume, offset) = self.layout.place(self.files.borrow().page_of(first_leaf));
        let bytes = u64::from(pages) * PAGE_BYTES;
        let io = Io::Write {
            first_leaf,
            pages,
            why,
            home,
        };
        if !self.submit(io, volume, (Kind::Write, offset, bytes)) {
            return pages;
        }
        add(&self.counters.writes, 1);
        add(&self.counters.written_pages, u64::from(pages));
        match why {
            Why::Checkpoint => add(&self.counters.checkpoint_pages, u64::from(pages)),
            Why::Lazy(_) => add(&self.counters.lazy_pages, u64::from(pages)),
            Why::Evict(_) => add(&self.counters.evicted_dirty, 1),
        }
        pages
    }

    /// Takes a leaf's latch for a write, if it is dirty and nobody is at it.
    fn latch_for_write(&self, tree: &mut Tree, leaf: u32) -> bool {
        // Not every page of an extent has a leaf yet.
        let Some(State { flags, waiters, .. }) = tree.states.get_mut(leaf as usize) else {
            return false;
        };
        if *flags & (flag::BUSY | flag::DIRTY) != flag::DIRTY || *waiters > 0 {
            return false;
        }
        *flags = *flags & !flag::DIRTY | flag::WRITING;
        self.counters.dirty_pages.set(self.counters.dirty_pages.get() - 1);
        true
    }

    /// Latches a dirty page, and dirty pages on both sides of it; returns the leaf on the first and how many there are. Nothing
    /// if somebody is at it.
    fn gather(&self, seed: u32) -> Option<(u32, u32)> {
        let most = u32::try_from(self.costs.gather_pages.value).unwrap_or(u32::MAX);
        let (files, mut tree) = (self.files.borrow(), self.tree.borrow_mut());
        // The next pages' leaves stand with it, or in the cache lines beside: all are fetched side by side.
        let beside = [seed.wrapping_sub(2), seed.wrapping_add(2)].map(|leaf| tree.touch_state(leaf));
        std::hint::black_box(beside);
        let mut take = |leaf: u32| self.latch_for_write(&mut tree, leaf).then_some(leaf);
        let mut last = take(seed)?;
        let mut first = last;
        let mut pages = 1;
        while pages < most
            && let Some(leaf) = files.after(last).and_then(&mut take)
        {
            last = leaf;
            pages += 1;
        }
        while pages < most
            && let Some(leaf) = files.before(first).and_then(&mut take)
        {
            first = leaf;
            pages += 1;
        }
        Some((first, pages))
    }

    fn write_done(&self, first_leaf: u32, pages: u32, why: Why, took_ns: Ns, home: u32) {
        add(&self.counters.write_ns, took_ns);
        let mut next = Some(first_leaf);
        for _ in 0..pages {
            let leaf = next.expect("pages that were written together lie side by side");
            next = self.files.borrow().after(leaf);
            let was_latched = {
                let flags = &mut self.tree.borrow_mut().states[leaf as usize].flags;
                let was_latched = *flags & flag::LATCHED != 0;
                *flags &= !(flag::WRITING | flag::LATCHED);
                was_latched
            };
            if rare(was_latched) {
                self.leaf_latch(leaf, LatchClass::PageIo).release(Mode::Sh);
            }
        }
        match why {
            Why::Checkpoint => {
                let mean = self.write_latency_ns.get();
                self.write_latency_ns.set(mean - mean / 16 + took_ns / 16);
                self.checkpoint_permits.give();
            }
            Why::Lazy(victim) => {
                self.lazy_permits.give();
                self.free_or_rescue(victim);
            }
            Why::Evict(victim) => {
                self.evictions.set(self.evictions.get() - 1);
                self.free_or_rescue(victim);
            }
        }
        self.serve_frames(home);
    }

    /// Writes what of the log is due.
    pub(super) fn write_log(&self) {
        while let Some(LogWrite { offset, bytes, up_to }) = self.log.next_write() {
            let (volume, base, _) = self.layout.log;
            let offset = self.layout.shifted(volume, base + offset);
            if !self.submit(Io::Log { up_to }, volume, (Kind::Append, offset, bytes)) {
                return;
            }
        }
    }
}
