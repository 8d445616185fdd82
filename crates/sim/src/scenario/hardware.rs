//! The drives and volumes of a scenario. Scenarios of the engine and of raw I/O share this module.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Refusal, Scenario, refuse};
use crate::devices::Profile;
use crate::disk::Order;
use crate::flash::{Age, Parameters, Setup};
use crate::volume::{DeviceParameters, StripeMap, VolumeChoice};

/// What was written to flash drives before.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prepared {
    /// All data on the drive were freed. Reads then find no data, so they are faster than any read of data.
    Formatted,
    /// Every address was written once, in order.
    #[default]
    Filled,
    /// Every address was written many times at random, as in years of use.
    Aged,
}

impl Prepared {
    /// Returns the age of a drive with this history, or `None` if the drive is as new.
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

/// A drive: its profile, and the choices about it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DriveChoice {
    /// The figures of the drive.
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
    /// Flash: whether the drive gets trims for freed addresses; `None` for the profile's value.
    #[serde(default)]
    pub trim: Option<bool>,
    /// Flash: the host memory that the drive's map may take; `None` for no limit.
    #[serde(default)]
    pub host_ram_bytes: Option<u64>,
    /// Flash: what was written to the drive before, if only the operating system formats it. Such a format puts a file
    /// system on the drive and frees nothing. So what was written stays, now and before each run, unless the drive gets
    /// trims. `None` for a drive that its maker's utility formatted.
    #[serde(default)]
    pub history: Option<Prepared>,
    /// Flash: the mean of an additional delay of each log write. It is drawn for each write and each drive, and is the
    /// same at every scale. `None` for no delay.
    #[serde(default)]
    pub log_delay_ns: Option<u64>,
    /// Disk: the order in which it serves its queue; `None` for the profile's value.
    #[serde(default)]
    pub order: Option<Order>,
}

impl DriveChoice {
    /// Returns the drive's parameters in a world `scale` times smaller.
    ///
    /// # Errors
    /// Fails if its profile lacks what is chosen, or is invalid.
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

    /// Like `parameters`, but an error names the drive.
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

/// Returns the map of a volume at a scale.
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

/// Checks drives and volumes.
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
    /// Returns the bytes of a volume at the scenario's scale.
    ///
    /// # Errors
    /// Fails if there is no such volume, or it is invalid.
    pub(crate) fn volume_bytes(&self, name: &str) -> Result<u64, Refusal> {
        let Some(volume) = self.volumes.get(name) else {
            return refuse(format!("volumes.{name}"), "there is no such volume");
        };
        let map = map_of(&self.drives, name, volume, self.scale)?;
        Ok(map.bytes() - volume.offset_bytes)
    }

    /// Returns the smallest write of a volume, in bytes.
    ///
    /// # Errors
    /// Fails if there is no such volume, or it is invalid.
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
