//! A drive of any kind, as a volume uses it: flash drives, disks, and the kinds behind a pointer ([`crate::devices`]).

use crate::devices::{self, Model};
use crate::disk::Disk;
use crate::flash::{Drive, Offline, Op};
use crate::hint::rare;
use crate::kernel::Ns;
use crate::rng::Rng;
use crate::saved::StateError;

/// What a request does with bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It reads them.
    Read,
    /// It writes them.
    Write,
    /// It writes them after the previously appended bytes, as for the log. A flash drive programs such writes together.
    Append,
}

impl Kind {
    /// Whether it changes data.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Returns its name in a trace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Append => "append",
        }
    }
}

/// A request to a volume or a device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// Its first byte.
    pub offset: u64,
    /// The number of its bytes.
    pub bytes: u64,
}

/// A drive of any kind.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "flash drives are asked the most, and must not be one pointer farther away"
)]
pub enum Device {
    /// A flash drive. It computes at once when a request will be done.
    Flash(Drive),
    /// A disk. It does not.
    Disk(Box<Disk>),
    /// Another drive, behind a pointer. It does.
    Other(Box<dyn Model>),
}

impl Device {
    /// Returns the smallest write in bytes.
    #[must_use]
    pub fn sector_bytes(&self) -> u64 {
        match self {
            Self::Flash(drive) => u64::from(drive.parameters().mapping.sector_bytes),
            Self::Disk(disk) => u64::from(disk.parameters().sector_bytes),
            Self::Other(model) => model.face().sector_bytes,
        }
    }

    /// Returns the host's CPU time for a request of this many bytes.
    #[must_use]
    pub fn host_cpu_for(&self, bytes: u64) -> Ns {
        match self {
            Self::Flash(drive) => drive.parameters().host_cpu_for(bytes),
            Self::Disk(disk) => disk.parameters().host_cpu_ns,
            Self::Other(model) => model.face().host_cpu_ns,
        }
    }

    /// Finishes all work and resets the clock to 0. This happens between two runs.
    pub fn rest(&mut self, rng: Rng) {
        match self {
            Self::Flash(drive) => drive.rest(rng),
            Self::Disk(disk) => disk.rest(rng),
            Self::Other(model) => model.rest(rng),
        }
    }

    /// Formats the drive. This has no effect on a disk.
    pub fn format(&mut self) {
        match self {
            Self::Flash(drive) => drive.format(),
            Self::Disk(_) => {}
            Self::Other(model) => model.format(),
        }
    }

    /// Tells a flash drive that none of its addresses is in use any more (trim).
    pub fn free_all(&mut self) {
        if let Self::Flash(drive) = self {
            drive.free_all();
        }
    }

    /// Returns the drive at rest, as bytes.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        match self {
            Self::Flash(drive) => drive.save(),
            Self::Disk(disk) => disk.save(),
            Self::Other(model) => devices::save(model.as_ref()),
        }
    }

    /// Returns the flash drive, if it is one.
    #[must_use]
    pub const fn flash(&self) -> Option<&Drive> {
        match self {
            Self::Flash(drive) => Some(drive),
            Self::Disk(_) | Self::Other(_) => None,
        }
    }
}

/// Submits a request to a flash drive, in whole pages unless it is an append. Returns when it will be done.
///
/// # Errors
/// Fails if the drive is off-line.
#[inline(always)]
pub(super) fn ask_flash(drive: &mut Drive, now: Ns, request: Request) -> Result<Ns, Offline> {
    let Request { kind, offset, bytes } = request;
    if rare(kind == Kind::Append) {
        return drive.submit(now, Op::WriteBytes { offset, bytes });
    }
    let page = drive.page_at(offset);
    let pages = drive.page_at(offset + bytes - 1) + 1 - page;
    let op = match kind {
        Kind::Read => Op::Read { page, pages },
        Kind::Write | Kind::Append => Op::Write { page, pages },
    };
    drive.submit(now, op)
}

/// The parameters of a device. A device is made or loaded from them.
#[derive(Clone, Debug)]
pub enum DeviceParameters {
    /// The parameters of a flash drive.
    Flash(crate::flash::Parameters),
    /// The parameters of a disk.
    Disk(crate::disk::Parameters),
    /// A new drive of another kind.
    Other(Box<dyn Model>),
}

impl DeviceParameters {
    /// Returns the usable capacity in bytes.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        match self {
            Self::Flash(parameters) => parameters.usable_bytes(),
            Self::Disk(parameters) => parameters.usable_bytes,
            Self::Other(model) => model.face().usable_bytes,
        }
    }

    /// Returns the smallest write in bytes.
    #[must_use]
    pub fn sector_bytes(&self) -> u64 {
        match self {
            Self::Flash(parameters) => u64::from(parameters.mapping.sector_bytes),
            Self::Disk(parameters) => u64::from(parameters.sector_bytes),
            Self::Other(model) => model.face().sector_bytes,
        }
    }

    /// Makes a new drive.
    ///
    /// # Errors
    /// Fails if such a drive is impossible.
    pub fn make(self, rng: Rng) -> Result<Device, String> {
        match self {
            Self::Flash(parameters) => Drive::new(parameters, rng).map(Device::Flash),
            Self::Disk(parameters) => Disk::new(parameters, rng).map(|disk| Device::Disk(Box::new(disk))),
            Self::Other(mut model) => {
                model.rest(rng);
                Ok(Device::Other(model))
            }
        }
    }

    /// Reads a drive that [`Device::save`] wrote.
    ///
    /// # Errors
    /// Fails if the bytes are not such a drive.
    pub fn load(self, bytes: &[u8], rng: Rng) -> Result<Device, StateError> {
        match self {
            Self::Flash(parameters) => Drive::load(parameters, bytes, rng).map(Device::Flash),
            Self::Disk(parameters) => Disk::load(parameters, bytes, rng).map(|disk| Device::Disk(Box::new(disk))),
            Self::Other(mut model) => {
                devices::load(model.as_mut(), bytes)?;
                model.rest(rng);
                Ok(Device::Other(model))
            }
        }
    }
}
