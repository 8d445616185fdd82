//! Drives and the volumes over them, as a scenario has them. Runs of the engine and of raw I/O share them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Refusal, Scenario, refuse};
use crate::devices::Profile;
use crate::disk::Order;
use crate::flash::{Age, Parameters, Setup};
use crate::volume::{DeviceParameters, StripeMap, VolumeChoice};

/// What flash drives have been through.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prepared {
    /// No writes: all data were freed. Reads then find nothing, and are faster than any read of data.
    Formatted,
    /// Every address written once, in order.
    #[default]
    Filled,
    /// Years of writes at random.
    Aged,
}

impl Prepared {
    /// The age of a drive that has been through it; nothing if it is as new.
    #[must_use]
    pub(crate) fn age(self, drive: &Parameters) -> Option<Age> {
        let addresses = drive.shape.logical_pages;
        match self {
            Self::Formatted => None,
            Self::Filled => Some(Age::Filled { addresses }),
            Self::Aged => Some(Age::Steady {
                addresses,
                free_blocks: drive.garbage_collection.stop_blocks,
            }),
        }
    }
}

/// A drive: its profile, and what is chosen of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DriveChoice {
    /// All about the drive.
    pub profile: Profile,
    /// Flash: one of the profile's formats.
    #[serde(default)]
    pub format: Option<String>,
    /// Flash: one of the profile's drivers.
    #[serde(default)]
    pub driver: Option<String>,
    /// Flash: one of the profile's sector sizes.
    #[serde(default)]
    pub sector_bytes: Option<u32>,
    /// Flash: whether freed addresses are told to the drive; nothing for what the profile says.
    #[serde(default)]
    pub trim: Option<bool>,
    /// Flash: memory of the host that the drive's map may take; nothing for as much as it likes.
    #[serde(default)]
    pub host_ram_bytes: Option<u64>,
    /// Flash: what the drive has been through, if nothing but the operating system formats it. That puts a file system on the
    /// drive and frees nothing: what was written stays, now and before each run, unless the drive is told of freed addresses.
    /// Nothing for a drive whose maker's utility formatted it.
    #[serde(default)]
    pub history: Option<Prepared>,
    /// Flash: mean further delay of a piece of log, drawn anew for each piece and each drive, and the same at every scale;
    /// nothing for none.
    #[serde(default)]
    pub log_delay_ns: Option<u64>,
    /// Disk: in which order it serves its queue; nothing for what the profile says.
    #[serde(default)]
    pub order: Option<Order>,
}

impl DriveChoice {
    /// The drive's parameters in a world so many times smaller.
    ///
    /// # Errors
    /// If its profile lacks what is chosen, or can't be at all.
    pub(crate) fn parameters(&self, scale: u32) -> Result<DeviceParameters, String> {
        match &self.profile {
            Profile::Flash(profile) => {
                if self.order.is_some() {
                    return Err("has an order of its queue, which is for disks: a flash drive has none".to_owned());
                }
                let setup = Setup {
                    format: self.format.clone().unwrap_or_default(),
                    driver: self.driver.clone().unwrap_or_default(),
                    sector_bytes: self.sector_bytes.unwrap_or_default(),
                    scale,
                    trim: self.trim,
                    host_ram_bytes: self.host_ram_bytes,
                    log_delay_ns: self.log_delay_ns.unwrap_or_default(),
                };
                profile.parameters(&setup).map(DeviceParameters::Flash)
            }
            Profile::Disk(profile) => {
                self.refuse_flash_only("a disk")?;
                profile.parameters(scale, self.order).map(DeviceParameters::Disk)
            }
            other => {
                self.refuse_flash_only("a drive of this kind")?;
                if self.order.is_some() {
                    return Err("has an order of its queue, which is for disks: leave it out".to_owned());
                }
                other.make(scale).map(DeviceParameters::Other)
            }
        }
    }

    /// The same for a drive of that name.
    fn named(&self, name: &str, scale: u32) -> Result<DeviceParameters, Refusal> {
        let parameters = self.parameters(scale);
        parameters.or_else(|what| refuse(format!("drives.{name}"), what))
    }

    fn refuse_flash_only(&self, drive: &str) -> Result<(), String> {
        let flash_only = [
            ("format", self.format.is_some()),
            ("driver", self.driver.is_some()),
            ("sector_bytes", self.sector_bytes.is_some()),
            ("trim", self.trim.is_some()),
            ("host_ram_bytes", self.host_ram_bytes.is_some()),
            ("history", self.history.is_some()),
            ("log_delay_ns", self.log_delay_ns.is_some()),
        ];
        match flash_only.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!(
                "has {name}, which is for flash drives: leave it out for {drive}"
            )),
            None => Ok(()),
        }
    }
}

/// The map of a volume at a scale.
pub(crate) fn map_of(
    drives: &BTreeMap<String, DriveChoice>,
    name: &str,
    volume: &VolumeChoice,
    scale: u32,
) -> Result<StripeMap, Refusal> {
    let place = || format!("volumes.{name}");
    let mut smallest = u64::MAX;
    for drive in &volume.drives {
        let Some(choice) = drives.get(drive) else {
            let known: Vec<&str> = drives.keys().map(String::as_str).collect();
            return refuse(place(), format!("no drive '{drive}'; there is: {}", known.join(", ")));
        };
        smallest = smallest.min(choice.named(drive, scale)?.usable_bytes());
    }
    let checked = volume.check(smallest).and_then(|()| volume.map(smallest));
    checked.or_else(|what| refuse(place(), what))
}

/// Refuses impossible drives and volumes.
pub(crate) fn check(
    drives: &BTreeMap<String, DriveChoice>,
    volumes: &BTreeMap<String, VolumeChoice>,
    scale: u32,
) -> Result<(), Refusal> {
    for (name, choice) in drives {
        choice.named(name, scale)?;
    }
    let mut users: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, volume) in volumes {
        map_of(drives, name, volume, scale)?;
        for drive in &volume.drives {
            let Some(other) = users.insert(drive, name) else {
                continue;
            };
            if other == name {
                let what = format!("has its drive '{drive}' twice: a drive has one place");
                return refuse(format!("volumes.{name}"), what);
            }
            let what = format!("its drive '{drive}' is in volume '{other}' too: a drive has one volume");
            return refuse(format!("volumes.{name}.drives"), what);
        }
    }
    Ok(())
}

impl Scenario {
    /// Bytes of a volume at the scenario's scale.
    ///
    /// # Errors
    /// If there is no such volume, or can't be.
    pub(crate) fn volume_bytes(&self, name: &str) -> Result<u64, Refusal> {
        let Some(volume) = self.volumes.get(name) else {
            return refuse(format!("volumes.{name}"), "there is no such volume");
        };
        let map = map_of(&self.drives, name, volume, self.scale)?;
        Ok(map.bytes() - volume.offset_bytes)
    }

    /// The least that can be written to a volume.
    ///
    /// # Errors
    /// If there is no such volume, or can't be.
    pub(crate) fn sector_bytes(&self, name: &str) -> Result<u64, Refusal> {
        let Some(volume) = self.volumes.get(name) else {
            return refuse(format!("volumes.{name}"), "there is no such volume");
        };
        let mut most = 512;
        for drive in &volume.drives {
            most = most.max(self.drives[drive].named(drive, self.scale)?.sector_bytes());
        }
        Ok(most)
    }
}
