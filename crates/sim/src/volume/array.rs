//! A volume over time: its requests pass through link, cache and drives.
//!
//! If the end of a request can be computed at once, it is only a function call. Any other request becomes an
//! *operation*. It waits for its *parts*, each a request to one drive, and continues when the last one is done. The
//! volume has its own event list. A disk has at most one event in it, because it serves one request at a time.

use serde::Serialize;

use super::config::LinkChoice;
use super::device::{Device, Kind, Request, ask_flash};
use super::failure::Failure;
use super::link::Link;
use super::parity::{self, Part};
use super::stripe::{Level, StripeMap};
use crate::kernel::{Action, EventList, Ns, Port, TIME_LIMIT_NS};
use destage::Destage;

/// The answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It will be done at this time. No further answer follows.
    Done(Ns),
    /// [`Volume::advance`] will return its token when it is done.
    Pending,
}

/// A volume's counters in a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counters {
    /// The requests received.
    pub requests: u64,
    /// The requests to its drives.
    pub drive_requests: u64,
    /// Writes that its cache accepted.
    pub cached_writes: u64,
    /// Writes that bypassed the cache because it was full.
    pub through_writes: u64,
    /// Reads served by the cache.
    pub cache_hits: u64,
    /// Writes from the cache to the drives.
    pub destaged_writes: u64,
    /// The bytes of these writes.
    pub destaged_bytes: u64,
}

#[derive(Clone, Debug)]
struct Member {
    device: Device,
    /// For a drive that is no disk, the time when it will have completed all of its requests.
    until: Ns,
    lost: bool,
}

/// The origin of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum For {
    Host,
    Cache,
    Nobody,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    whom: For,
    request: Request,
    token: u32,
    /// The number of parts, or of blocks of the cache, that it waits for.
    waits_for: u32,
    /// For RAID-5: whether the operation waits for its reads and has still to begin its writes.
    reads_first: bool,
}

/// The events of a volume, by their targets. The token is the number of a drive or of an operation.
mod due {
    use crate::kernel::Port;

    /// A disk has completed its request.
    pub(super) const DISK: Port = Port::new(1);
    /// A part of an operation is done.
    pub(super) const PART: Port = Port::new(2);
    /// A request has arrived over the link.
    pub(super) const ARRIVED: Port = Port::new(3);
    /// A reply has arrived over the link.
    pub(super) const REPLIED: Port = Port::new(4);
    /// A drive fails.
    pub(super) const LOST: Port = Port::new(5);
}

/// How a volume serves requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// It is one flash drive, which serves them.
    Alone,
    /// Flash drives serve them. Their completion times are computed at once.
    AtOnce,
    /// It uses a list of events.
    InEvents,
}

/// A volume of drives.
#[derive(Clone, Debug)]
pub struct Volume {
    name: String,
    map: StripeMap,
    offset_bytes: u64,
    members: Vec<Member>,
    way: Way,
    link: Option<Link>,
    destage: Option<Destage>,
    operations: Vec<Operation>,
    free: Vec<u32>,
    events: EventList,
    /// Alternates, so that two equally busy halves of a mirror are read in turn.
    turn: u32,
    failure: Option<Failure>,
    served: Vec<u32>,
    counters: Counters,
}

impl Volume {
    /// Makes a volume over drives at rest. `map` distributes its bytes, which begin at `offset_bytes`.
    ///
    /// # Panics
    /// Panics if the number of drives is not that of the map.
    #[must_use]
    pub fn new(name: &str, map: StripeMap, offset_bytes: u64, devices: Vec<Device>) -> Self {
        assert_eq!(devices.len(), map.drives() as usize, "the map is of these drives");
        let member = |device| Member {
            device,
            until: 0,
            lost: false,
        };
        let mut volume = Self {
            name: name.to_owned(),
            map,
            offset_bytes,
            members: devices.into_iter().map(member).collect(),
            way: Way::InEvents,
            link: None,
            destage: None,
            operations: Vec::new(),
            free: Vec::new(),
            events: EventList::new(),
            turn: 0,
            failure: None,
            served: Vec::new(),
            counters: Counters::default(),
        };
        volume.find_way();
        volume
    }

    /// Returns the volume behind a network.
    #[must_use]
    pub fn with_link(mut self, choice: &LinkChoice) -> Self {
        self.link = Some(Link::new(choice.bytes_per_s, choice.latency_ns));
        self.find_way();
        self
    }

    /// Schedules the failure of a drive. Requests that it serves at that time still complete. A time beyond the limit
    /// is ignored, because no run lasts so long.
    pub fn lose_at(&mut self, at_ns: Ns, drive: u32) {
        self.way = Way::InEvents;
        if at_ns == 0 {
            self.lose(drive);
        } else if at_ns < TIME_LIMIT_NS {
            self.push(at_ns, due::LOST, drive);
        }
    }

    fn find_way(&mut self) {
        let flash = self.members.iter().all(|member| member.device.flash().is_some());
        self.way = if !flash || self.link.is_some() || self.destage.is_some() || self.map.level() == Level::Raid5 {
            Way::InEvents
        } else if self.members.len() == 1 {
            Way::Alone
        } else {
            Way::AtOnce
        };
    }

    /// Returns its capacity in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.map.bytes() - self.offset_bytes
    }

    /// Returns the smallest write in bytes.
    #[must_use]
    pub fn sector_bytes(&self) -> u64 {
        let sectors = self.members.iter().map(|member| member.device.sector_bytes());
        sectors.max().unwrap_or(512)
    }

    /// Returns the host's CPU time for a request of this many bytes.
    #[must_use]
    pub fn host_cpu_for(&self, bytes: u64) -> Ns {
        let each = self.members.iter().map(|member| member.device.host_cpu_for(bytes));
        each.max().unwrap_or(0)
    }

    /// Its drives.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.members.iter().map(|member| &member.device)
    }

    /// Returns the drives. Data in progress or in the cache count as written. Put the drives to rest before they are
    /// used again.
    #[must_use]
    pub fn into_devices(self) -> Vec<Device> {
        self.members.into_iter().map(|member| member.device).collect()
    }

    /// Returns its counters since it was made. A volume of one flash drive doesn't count, because the drive does.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether the volume is only one flash drive, so that its own counters need not be reported.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.way == Way::Alone
    }

    /// Whether all of these bytes have been written. Only a single flash drive can tell; others always return true.
    #[must_use]
    pub fn is_written(&self, offset: u64, bytes: u64) -> bool {
        let flash = self.members.first().and_then(|member| member.device.flash());
        let Some(drive) = flash.filter(|_| self.is_plain()) else {
            return true;
        };
        let page_bytes = u64::from(drive.parameters().flash_page_bytes);
        let from = offset + self.offset_bytes;
        let mut pages = from / page_bytes..(from + bytes).div_ceil(page_bytes);
        pages.all(|page| u32::try_from(page).is_ok_and(|page| drive.ftl().flash_page(page).is_some()))
    }

    /// Returns the time that data took on its link, in both directions.
    #[must_use]
    pub fn link_busy_ns(&self) -> Ns {
        self.link.as_ref().map_or(0, |link| link.busy_ns)
    }

    /// The number of its drives that have failed.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.members.iter().map(|member| u32::from(member.lost)).sum()
    }

    /// Accepts a request at time `now`. Requests must come in order of time, and after all events that are due before.
    ///
    /// # Errors
    /// Fails if the volume has failed.
    ///
    /// # Panics
    /// Panics if the request goes beyond the last byte, or has no bytes.
    #[inline(always)]
    pub fn submit(&mut self, now: Ns, mut request: Request, token: u32) -> Result<Answer, Failure> {
        request.offset += self.offset_bytes;
        let alone = self.way == Way::Alone;
        match &mut self.members[0].device {
            Device::Flash(drive) if alone => Ok(Answer::Done(ask_flash(drive, now, request)?)),
            _ => self.submit_to_array(now, request, token),
        }
    }

    fn submit_to_array(&mut self, now: Ns, request: Request, token: u32) -> Result<Answer, Failure> {
        assert!(
            request.bytes > 0 && request.offset + request.bytes <= self.map.bytes(),
            "{request:?} on a volume of {} bytes",
            self.map.bytes()
        );
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.counters.requests += 1;
        if self.way == Way::AtOnce {
            return self.at_once(now, request).map(Answer::Done);
        }
        let number = self.begin(For::Host, request, token);
        if let Some(link) = &mut self.link {
            let data_bytes = if request.kind.writes() { request.bytes } else { 0 };
            let arrived_ns = link.send_to_array(now, data_bytes);
            self.push(arrived_ns, due::ARRIVED, number);
            return Ok(Answer::Pending);
        }
        let replied_ns = self.arrive(now, number);
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        Ok(match replied_ns {
            Some(done_ns) => {
                self.end(number);
                Answer::Done(done_ns)
            }
            None => Answer::Pending,
        })
    }

    /// Returns when to call [`Volume::advance`] next, or `Ns::MAX` if no event is due.
    #[must_use]
    #[inline]
    pub fn next_event(&self) -> Ns {
        self.events.next_time_ns()
    }

    /// Processes the events up to `now`. Adds the tokens of completed requests to `done`, in the order of completion.
    ///
    /// # Errors
    /// Fails if the volume has failed.
    pub fn advance(&mut self, now: Ns, done: &mut Vec<u32>) -> Result<(), Failure> {
        while let Some((at_ns, event)) = self.events.pop_until(now) {
            let number = event.token();
            match event.port() {
                due::DISK => self.disk_done(at_ns, number, done),
                due::PART => self.part_done(at_ns, number, done),
                due::ARRIVED => {
                    if let Some(replied_ns) = self.arrive(at_ns, number) {
                        self.reply(replied_ns, number);
                    }
                }
                due::REPLIED => {
                    done.push(self.end(number).token);
                }
                due::LOST => self.lose(number),
                port => unreachable!("a volume has no {port:?}"),
            }
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn push(&mut self, at_ns: Ns, port: Port, number: u32) {
        self.events.push(at_ns, Action::call(port, number));
    }

    fn begin(&mut self, whom: For, request: Request, token: u32) -> u32 {
        let operation = Operation {
            whom,
            request,
            token,
            waits_for: 0,
            reads_first: false,
        };
        if let Some(number) = self.free.pop() {
            self.operations[number as usize] = operation;
            return number;
        }
        self.operations.push(operation);
        u32::try_from(self.operations.len() - 1).expect("operations are numbered in 32 bits")
    }

    fn end(&mut self, number: u32) -> Operation {
        self.free.push(number);
        let operation = &mut self.operations[number as usize];
        debug_assert!(operation.whom != For::Nobody, "an operation ends once");
        std::mem::replace(
            operation,
            Operation {
                whom: For::Nobody,
                ..*operation
            },
        )
    }

    fn disk_done(&mut self, now: Ns, drive: u32, done: &mut Vec<u32>) {
        let Device::Disk(disk) = &mut self.members[drive as usize].device else {
            unreachable!("only disks have such events")
        };
        let number = disk.finish();
        let next_ns = disk.next_event();
        if next_ns < Ns::MAX {
            self.push(next_ns, due::DISK, drive);
        }
        self.part_done(now, number, done);
    }

    fn part_done(&mut self, now: Ns, number: u32, done: &mut Vec<u32>) {
        let operation = &mut self.operations[number as usize];
        operation.waits_for -= 1;
        if operation.waits_for > 0 {
            return;
        }
        let Operation {
            whom,
            request,
            reads_first,
            ..
        } = *operation;
        if reads_first {
            operation.reads_first = false;
            let steps = parity::write(&self.map, request.offset, request.bytes, self.first_lost());
            return self.ask_all(now, number, request.kind, &steps.writes);
        }
        match whom {
            For::Host if self.link.is_some() => self.reply(now, number),
            For::Host => {
                done.push(self.end(number).token);
            }
            For::Cache => self.destaged(now, number, done),
            For::Nobody => unreachable!("parts belong to an operation in progress"),
        }
    }

    /// Sends the controller's reply at `at_ns`.
    fn reply(&mut self, at_ns: Ns, number: u32) {
        let request = self.operations[number as usize].request;
        let data_bytes = if request.kind.writes() { 0 } else { request.bytes };
        let there_ns = self
            .link
            .as_mut()
            .map_or(at_ns, |link| link.send_to_host(at_ns, data_bytes));
        self.push(there_ns, due::REPLIED, number);
    }
}

pub mod destage;
mod drives;

#[cfg(test)]
mod tests;
