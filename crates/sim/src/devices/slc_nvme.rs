//! An `NVMe` drive that writes into an SLC cache first: flash with one bit per cell, which is programmed faster.
//!
//! Data are acknowledged when they are in the drive's buffer. The buffer is written to the cache as long as that has
//! room, and then to the native flash, at its lower rate. After some idle time, a drive moves the cache's data to the
//! flash. Between two runs it moves all of them. Each read takes the time of a die. Many dies read at once.
//!
//! Not modelled: garbage collection of the native flash, so a profile gives the rate of a drive with free space; a
//! cache that shrinks when the drive fills; and heat.

use serde::{Deserialize, Serialize};

use super::{Face, Kept, Model};
use crate::figures::{Declared, Figure, Group, check_all, figures};
use crate::kernel::{Ns, SEC, takes_ns};
use crate::rng::Rng;
use crate::volume::{Kind, Request};

figures! {
    /// What the host sees.
    Host {
        /// Usable capacity.
        usable_bytes: Figure<u64> [1 << 20, 1 << 50];
        /// Smallest write.
        sector_bytes: Figure<u32> [512, 1 << 16];
        /// CPU time of the host per request.
        host_cpu_ns: Figure<u64> [0, SEC];
        /// Rate of the link from the drive to the host.
        link_read_bytes_per_s: Figure<u64> [1_000_000, 1 << 40];
        /// Rate of the link from the host to the drive.
        link_write_bytes_per_s: Figure<u64> [1_000_000, 1 << 40];
    }
}

figures! {
    /// Reads of the flash.
    Reads {
        /// Time from a read's arrival to its data, without the link.
        read_ns: Figure<u64> [1, SEC];
        /// Contiguous bytes that one die holds.
        die_bytes: Figure<u32> [512, 1 << 24];
        /// Dies that read at once.
        dies: Figure<u32> [1, 1 << 16];
    }
}

figures! {
    /// Writes: the buffer, the cache, and the flash behind it.
    Writes {
        /// Time that a write takes besides link and buffer.
        write_command_ns: Figure<u64> [0, SEC];
        /// Data that the drive buffers before they are programmed.
        buffer_bytes: Figure<u64> [1, 1 << 40];
        /// The size of the SLC cache, in data.
        slc_bytes: Figure<u64> [0, 1 << 50];
        /// The rate at which the cache is written.
        slc_bytes_per_s: Figure<u64> [1_000_000, 1 << 40];
        /// The rate of the flash itself, once the cache is full.
        native_bytes_per_s: Figure<u64> [1_000_000, 1 << 40];
        /// How long a drive must have been idle before it moves the cache's data to the flash.
        idle_after_ns: Figure<u64> [0, 86_400 * SEC];
        /// The rate at which it moves this data.
        fold_bytes_per_s: Figure<u64> [1, 1 << 40];
    }
}

/// The profile of such a drive.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name in specs.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// What the host sees.
    pub host: Host,
    /// Reads.
    pub reads: Reads,
    /// Writes.
    pub writes: Writes,
}

impl Profile {
    /// Returns all figures, by group.
    pub fn declared() -> Vec<(&'static str, Vec<Declared>)> {
        vec![
            ("host", Host::declared()),
            ("reads", Reads::declared()),
            ("writes", Writes::declared()),
        ]
    }

    /// Makes a new drive in a world `scale` times smaller. Only the capacities of the drive and its cache shrink.
    ///
    /// # Errors
    /// Returns a message about the invalid figure.
    pub fn make(&self, scale: u64) -> Result<Box<dyn Model>, String> {
        let (host, reads, writes) = (&self.host, &self.reads, &self.writes);
        check_all([host.check_limits(), reads.check_limits(), writes.check_limits()])?;
        if writes.slc_bytes_per_s.value < writes.native_bytes_per_s.value {
            return Err("slc_bytes_per_s is less than native_bytes_per_s: the cache is the faster one".to_owned());
        }
        Ok(Box::new(Drive {
            face: Face::new(&host.usable_bytes, &host.sector_bytes, &host.host_cpu_ns, scale)?,
            link_read_bytes_per_s: host.link_read_bytes_per_s.value,
            link_write_bytes_per_s: host.link_write_bytes_per_s.value,
            read_ns: reads.read_ns.value,
            die_bytes: u64::from(reads.die_bytes.value),
            dies: vec![0; reads.dies.value as usize],
            writes: writes.clone(),
            slc_bytes: writes.slc_bytes.value / scale,
            link_read_until: 0,
            link_write_until: 0,
            programmed_until: 0,
            cached_bytes: 0,
            counts: Counts::default(),
        }))
    }
}

#[derive(Clone, Debug, Default)]
struct Counts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    slc_written_bytes: u64,
    native_written_bytes: u64,
    folded_bytes: u64,
    buffer_wait_ns: u64,
}

#[derive(Clone, Debug)]
struct Drive {
    face: Face,
    link_read_bytes_per_s: u64,
    link_write_bytes_per_s: u64,
    read_ns: Ns,
    die_bytes: u64,
    /// For each die, the time until which it is busy.
    dies: Vec<Ns>,
    writes: Writes,
    /// The size of the cache in this world.
    slc_bytes: u64,
    link_read_until: Ns,
    link_write_until: Ns,
    /// The time when all accepted data will be in the cache or the flash.
    programmed_until: Ns,
    /// Data in the cache.
    cached_bytes: u64,
    counts: Counts,
}

impl Drive {
    /// Moves data from the cache to the flash for the time that the drive has been idle.
    fn fold(&mut self, now: Ns) {
        let dies_until = self.dies.iter().copied().max().unwrap_or(0);
        let idle_from = self.programmed_until.max(dies_until) + self.writes.idle_after_ns.value;
        if now <= idle_from || self.cached_bytes == 0 {
            return;
        }
        let most = u128::from(now - idle_from) * u128::from(self.writes.fold_bytes_per_s.value) / u128::from(SEC);
        let folded = u64::try_from(most).unwrap_or(u64::MAX).min(self.cached_bytes);
        self.cached_bytes -= folded;
        self.counts.folded_bytes += folded;
        // The drive was busy with this until now, so the same idle time is not counted twice.
        self.programmed_until = self
            .programmed_until
            .max(now.saturating_sub(self.writes.idle_after_ns.value));
    }

    fn read(&mut self, now: Ns, offset: u64, bytes: u64) -> Ns {
        let (mut at, end, mut done) = (offset, offset + bytes, now);
        while at < end {
            let piece = (end - at).min(self.die_bytes - at % self.die_bytes);
            let count = self.dies.len() as u64;
            let die = usize::try_from(at / self.die_bytes % count).expect("dies are numbered in 32 bits");
            let read_ns = self.dies[die].max(now) + self.read_ns;
            self.dies[die] = read_ns;
            self.link_read_until = self.link_read_until.max(read_ns) + takes_ns(piece, self.link_read_bytes_per_s);
            done = done.max(self.link_read_until);
            at += piece;
        }
        self.counts.reads += 1;
        self.counts.read_bytes += bytes;
        done
    }

    fn write(&mut self, now: Ns, bytes: u64) -> Ns {
        self.link_write_until = self.link_write_until.max(now) + takes_ns(bytes, self.link_write_bytes_per_s);
        let arrived = self.link_write_until;
        let cached = bytes.min(self.slc_bytes - self.cached_bytes);
        let native = bytes - cached;
        let program_ns = takes_ns(cached, self.writes.slc_bytes_per_s.value)
            + takes_ns(native, self.writes.native_bytes_per_s.value);
        // The buffer's length in time: how long its full content takes to be programmed at the present rate.
        let Writes {
            slc_bytes_per_s,
            native_bytes_per_s,
            ..
        } = &self.writes;
        let rate = if native == 0 {
            slc_bytes_per_s
        } else {
            native_bytes_per_s
        };
        let buffer_ns = takes_ns(self.writes.buffer_bytes.value, rate.value);
        self.programmed_until = self.programmed_until.max(arrived) + program_ns;
        let admitted = arrived.max(self.programmed_until.saturating_sub(buffer_ns));
        self.cached_bytes += cached;
        self.counts.writes += 1;
        self.counts.slc_written_bytes += cached;
        self.counts.native_written_bytes += native;
        self.counts.buffer_wait_ns += admitted - arrived;
        admitted + self.writes.write_command_ns.value
    }
}

impl Model for Drive {
    fn face(&self) -> Face {
        self.face
    }

    fn submit(&mut self, now: Ns, Request { kind, offset, bytes }: Request) -> Ns {
        self.fold(now);
        match kind {
            Kind::Read => self.read(now, offset, bytes),
            Kind::Write | Kind::Append => self.write(now, bytes),
        }
    }

    fn rest(&mut self, _: Rng) {
        self.dies.fill(0);
        self.link_read_until = 0;
        self.link_write_until = 0;
        self.programmed_until = 0;
        self.counts.folded_bytes += self.cached_bytes;
        self.cached_bytes = 0;
    }

    fn memory(&mut self) -> Vec<Kept<'_>> {
        let counts = &mut self.counts;
        vec![
            Kept::Level("slc_cached_bytes", &mut self.cached_bytes, 1),
            Kept::Sum("reads", &mut counts.reads),
            Kept::Sum("read_bytes", &mut counts.read_bytes),
            Kept::Sum("writes", &mut counts.writes),
            Kept::Sum("slc_written_bytes", &mut counts.slc_written_bytes),
            Kept::Sum("native_written_bytes", &mut counts.native_written_bytes),
            Kept::Sum("folded_bytes", &mut counts.folded_bytes),
            Kept::Sum("buffer_wait_ns", &mut counts.buffer_wait_ns),
        ]
    }
}

#[cfg(test)]
mod tests;
