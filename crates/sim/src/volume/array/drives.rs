//! A volume's requests to its drives: the drives of each request, and its parts.

use std::ops::Range;

use super::{Device, Failure, Kind, Level, Ns, Part, Request, Volume, ask_flash, due, parity};
use crate::flash::Offline;
use crate::volume::stripe::Piece;

impl Volume {
    /// Sends a request to flash drives. Returns when it will be done.
    pub(super) fn at_once(&mut self, now: Ns, request: Request) -> Result<Ns, Failure> {
        let mut done_ns = now;
        for piece in self.map.pieces(request.offset, request.bytes) {
            for drive in self.drives_for(now, request.kind, piece) {
                done_ns = done_ns.max(self.ask_member(now, request.kind, piece.on(drive))?);
            }
        }
        Ok(done_ns)
    }

    /// Sends a part to a drive that computes at once when the part will be done. Returns that time.
    fn ask_member(&mut self, now: Ns, kind: Kind, part: Part) -> Result<Ns, Offline> {
        let member = &mut self.members[part.drive as usize];
        let request = Request {
            kind,
            offset: part.offset,
            bytes: part.bytes,
        };
        let done_ns = match &mut member.device {
            Device::Flash(drive) => ask_flash(drive, now, request)?,
            Device::Other(model) => model.submit(now, request),
            Device::Disk(_) => unreachable!("a disk does not know when it will be done"),
        };
        member.until = member.until.max(done_ns);
        self.counters.drive_requests += 1;
        Ok(done_ns)
    }

    /// Returns the drives for a piece: all drives that hold it for a write, and one that has not failed for a read.
    fn drives_for(&mut self, now: Ns, kind: Kind, piece: Piece) -> Range<u32> {
        if kind.writes() {
            return self.map.members(piece.group);
        }
        let copy = self.copy_to_read(now, piece.group, piece.offset);
        copy.map_or(0..0, |drive| drive..drive + 1)
    }

    /// Returns the less busy drive with the same data. Of equally busy disks, it is the one with the nearer arm.
    fn copy_to_read(&mut self, now: Ns, group: u32, offset: u64) -> Option<u32> {
        self.turn ^= 1;
        let turn = self.turn;
        let load = |drive: u32| {
            let member = &self.members[drive as usize];
            match &member.device {
                Device::Flash(_) | Device::Other(_) => (member.until.saturating_sub(now), 0, drive ^ turn),
                Device::Disk(disk) => (disk.in_progress(), disk.distance(offset), drive ^ turn),
            }
        };
        let there = self
            .map
            .members(group)
            .filter(|&drive| !self.members[drive as usize].lost);
        there.min_by_key(|&drive| load(drive))
    }

    /// Returns the first failed drive. In a RAID-5 that still works, no other drive has failed.
    pub(super) fn first_lost(&self) -> Option<u32> {
        let mut drives = (0..).zip(&self.members);
        drives.find(|(_, member)| member.lost).map(|(drive, _)| drive)
    }

    /// Divides a request among the drives.
    pub(super) fn ask_drives(&mut self, now: Ns, number: u32) {
        let request = self.operations[number as usize].request;
        let Request { kind, offset, bytes } = request;
        let lost = self.first_lost();
        let parts = if self.map.level() == Level::Raid5 {
            if kind.writes() {
                let steps = parity::write(&self.map, offset, bytes, lost);
                if !steps.reads.is_empty() {
                    self.operations[number as usize].reads_first = true;
                    return self.ask_all(now, number, Kind::Read, &steps.reads);
                }
                steps.writes
            } else {
                parity::read(&self.map, offset, bytes, lost)
            }
        } else {
            self.mirrored_parts(now, request)
        };
        self.ask_all(now, number, kind, &parts);
    }

    fn mirrored_parts(&mut self, now: Ns, request: Request) -> Vec<Part> {
        let mut parts = Vec::new();
        for piece in self.map.pieces(request.offset, request.bytes) {
            let drives = self.drives_for(now, request.kind, piece);
            let there = drives.filter(|&drive| !self.members[drive as usize].lost);
            parts.extend(there.map(|drive| piece.on(drive)));
        }
        parts
    }

    pub(super) fn ask_all(&mut self, now: Ns, number: u32, kind: Kind, parts: &[Part]) {
        self.operations[number as usize].waits_for = u32::try_from(parts.len()).expect("parts are few");
        for &part in parts {
            let member = &mut self.members[part.drive as usize];
            let Device::Disk(disk) = &mut member.device else {
                match self.ask_member(now, kind, part) {
                    Ok(done_ns) => self.push(done_ns, due::PART, number),
                    Err(offline) => self.failure = Some(offline.into()),
                }
                continue;
            };
            let was_idle = disk.next_event() == Ns::MAX;
            disk.submit(now, part.offset, part.bytes, kind.writes(), number);
            let done_ns = disk.next_event();
            self.counters.drive_requests += 1;
            if was_idle {
                self.push(done_ns, due::DISK, part.drive);
            }
        }
    }

    /// Handles the failure of a drive. The volume fails too if no other drive holds the data.
    pub(super) fn lose(&mut self, drive: u32) {
        self.members[drive as usize].lost = true;
        let lost = self.lost();
        let gone = |group: u32| self.map.members(group).all(|drive| self.members[drive as usize].lost);
        let fatal = match self.map.level() {
            Level::Raid5 => lost > 1,
            _ => (0..self.map.drives() / self.map.copies()).any(gone),
        };
        if fatal {
            self.failure = Some(Failure::Lost {
                volume: self.name.clone(),
                level: self.map.level(),
                drives: self.map.drives(),
                lost,
            });
        }
    }
}
