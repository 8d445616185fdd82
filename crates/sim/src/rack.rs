//! All drives of a block, in the order of their names. Between runs they are at rest, and can be saved as bytes. For
//! each run they are moved into volumes.

use std::collections::BTreeMap;

use crate::block::{Before, Hardware};
use crate::devices::Reported;
use crate::disk;
use crate::flash;
use crate::kernel::scaled_ns;
use crate::outcome::{DriveOutcome, VolumeOutcome};
use crate::rng::Rng;
use crate::scenario::{DriveChoice, Prepared, Refusal, VolumeChoice, refuse};
use crate::volume::{Device, DeviceParameters, Volume};

/// The counters of a drive.
#[derive(Clone, Debug)]
pub(crate) enum DriveCounters {
    Flash(flash::Counters),
    Disk(disk::Counters),
    Other(Reported),
}

/// The drives.
#[derive(Debug)]
pub(crate) struct Rack {
    scale: u32,
    choices: BTreeMap<String, DriveChoice>,
    volumes: BTreeMap<String, VolumeChoice>,
    /// The drives in the order of their names. A drive that is in a volume is `None`.
    drives: Vec<Option<Device>>,
}

impl Rack {
    /// Makes new drives, freshly formatted.
    pub(crate) fn new(hardware: Hardware<'_>) -> Result<Self, Refusal> {
        Self::made_by(hardware, |name, parameters| {
            parameters.make(Rng::stream(hardware.seed, name))
        })
    }

    /// Loads drives that [`Rack::save`] wrote.
    pub(crate) fn load(hardware: Hardware<'_>, saved: &[Vec<u8>]) -> Result<Self, Refusal> {
        let choices = hardware.drives;
        if saved.len() != choices.len() {
            let what = format!(
                "{} drives were saved, and the scenario has {}",
                saved.len(),
                choices.len()
            );
            return refuse("drives", what);
        }
        let mut bytes = saved.iter();
        Self::made_by(hardware, |name, parameters| {
            let bytes = bytes.next().expect("there are as many");
            let drive = parameters.load(bytes, Rng::stream(hardware.seed, name));
            drive.map_err(|error| error.to_string())
        })
    }

    fn made_by(
        hardware: Hardware<'_>,
        mut make: impl FnMut(&str, DeviceParameters) -> Result<Device, String>,
    ) -> Result<Self, Refusal> {
        let mut drives = Vec::new();
        for (name, choice) in hardware.drives {
            let drive = choice
                .parameters(hardware.scale)
                .and_then(|parameters| make(name, parameters));
            drives.push(Some(drive.or_else(|what| refuse(format!("drives.{name}"), what))?));
        }
        Ok(Self {
            scale: hardware.scale,
            choices: hardware.drives.clone(),
            volumes: hardware.volumes.clone(),
            drives,
        })
    }

    /// Returns the drives as bytes.
    pub(crate) fn save(&self) -> Vec<Vec<u8>> {
        self.drives.iter().flatten().map(Device::save).collect()
    }

    /// Checks the maps of the flash drives.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut flash = self.drives.iter().flatten().filter_map(Device::flash);
        flash.try_for_each(|drive| drive.ftl().check())
    }

    /// Puts all drives to rest before a run, and formats them if `before` says so. If files are deleted, or only the
    /// operating system formats a drive, drives with trim are told that the files are gone.
    pub(crate) fn rest(&mut self, seed: u64, before: Before) {
        self.settle(seed);
        for (choice, drive) in self.choices.values().zip(&mut self.drives) {
            let Some(drive) = drive else { continue };
            match before {
                Before::Format if choice.history.is_none() => drive.format(),
                Before::Format | Before::Delete => drive.free_all(),
                Before::Keep => {}
            }
        }
    }

    /// Makes all drives finish their work, and resets their clocks to 0.
    pub(crate) fn settle(&mut self, seed: u64) {
        for (name, drive) in self.choices.keys().zip(&mut self.drives) {
            let Some(drive) = drive else { continue };
            drive.rest(Rng::stream(seed, &format!("drive {name}")));
        }
    }

    /// Moves the drives into volumes. Returns the volumes in the order of their names.
    pub(crate) fn lend(&mut self) -> Result<Vec<Volume>, Refusal> {
        let mut lent = Vec::new();
        for (name, choice) in &self.volumes {
            let map = crate::scenario::map_of(&self.choices, name, choice, self.scale)?;
            let places = choice.drives.iter().map(|drive| place(&self.choices, drive));
            let devices = places.map(|place| self.drives[place].take().expect("a drive has one volume"));
            let mut volume = Volume::new(name, map, choice.offset_bytes, devices.collect());
            if let Some(cache) = &choice.cache {
                volume = volume.with_cache(cache, self.scale);
            }
            if let Some(link) = &choice.link {
                volume = volume.with_link(link);
            }
            lent.push(volume);
        }
        Ok(lent)
    }

    /// Schedules the failures of drives in these volumes.
    pub(crate) fn schedule_losses(&self, volumes: &mut [Volume]) {
        for (choice, volume) in self.volumes.values().zip(volumes) {
            for (number, drive) in (0..).zip(&choice.drives) {
                for loss in choice.lost.iter().filter(|loss| loss.drive == *drive) {
                    volume.lose_at(scaled_ns(loss.after_s, self.scale), number);
                }
            }
        }
    }

    /// Takes the drives back from the volumes. Returns the outcomes of volumes that are more than one flash drive.
    pub(crate) fn take_back(&mut self, volumes: Vec<Volume>) -> Vec<VolumeOutcome> {
        let mut outcomes = Vec::new();
        for ((name, choice), volume) in self.volumes.iter().zip(volumes) {
            if !volume.is_plain() {
                outcomes.push(VolumeOutcome::of(name, &volume));
            }
            for (drive, device) in choice.drives.iter().zip(volume.into_devices()) {
                self.drives[place(&self.choices, drive)] = Some(device);
            }
        }
        outcomes
    }

    /// Returns the present counters of each drive.
    pub(crate) fn counters(&self) -> Vec<DriveCounters> {
        let all = self.drives.iter().flatten().map(|drive| match drive {
            Device::Flash(drive) => DriveCounters::Flash(drive.counters()),
            Device::Disk(disk) => DriveCounters::Disk(disk.counters()),
            Device::Other(model) => DriveCounters::Other(model.reported()),
        });
        all.collect()
    }

    /// Returns each drive's outcome since its counters were `before`.
    pub(crate) fn outcomes(&self, before: &[DriveCounters]) -> Vec<DriveOutcome> {
        let drives = self.choices.keys().zip(self.drives.iter().flatten()).zip(before);
        drives
            .map(|((name, drive), before)| drive_outcome(name, drive, before))
            .collect()
    }

    /// Ages each flash drive as its history says. A flash drive without a history is aged as `others` says.
    pub(crate) fn prepare(&mut self, seed: u64, others: Option<Prepared>) -> Result<(), Refusal> {
        for ((name, choice), drive) in self.choices.iter().zip(&mut self.drives) {
            let Some(Device::Flash(drive)) = drive else { continue };
            let history = choice.history.or(others);
            let Some(age) = history.and_then(|history| history.age(drive.parameters())) else {
                continue;
            };
            let mut rng = Rng::stream(seed, &format!("age {name}"));
            let aged = drive.age(age, &mut rng);
            aged.or_else(|what| refuse(format!("drives.{name}"), what))?;
        }
        Ok(())
    }
}

fn place(choices: &BTreeMap<String, DriveChoice>, drive: &str) -> usize {
    let place = choices.keys().position(|name| name == drive);
    place.expect("the scenario was checked")
}

fn drive_outcome(name: &str, drive: &Device, before: &DriveCounters) -> DriveOutcome {
    match (drive, before) {
        (Device::Flash(drive), DriveCounters::Flash(before)) => {
            let since = drive.counters().since(*before);
            DriveOutcome {
                utilisation: drive.ftl().utilisation(),
                write_amplification: since.ftl.write_amplification(),
                host_pages: since.ftl.host_pages,
                moved_pages: since.ftl.moved_pages,
                host_ram_bytes: drive.host_ram_bytes(),
                die_busy_ns: since.die_busy_ns,
                collection_bursts: since.collection_bursts,
                ..DriveOutcome::without_flash(name)
            }
        }
        (Device::Disk(disk), DriveCounters::Disk(before)) => DriveOutcome {
            disk: Some(disk.counters().since(*before)),
            ..DriveOutcome::without_flash(name)
        },
        (Device::Other(model), DriveCounters::Other(before)) => DriveOutcome {
            device: Some(model.reported().since(before)),
            ..DriveOutcome::without_flash(name)
        },
        _ => unreachable!("a drive stays of its kind"),
    }
}
