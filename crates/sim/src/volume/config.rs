//! A volume's part of a scenario, and its checks.

use serde::{Deserialize, Serialize};

use super::cache::Destaging;
use super::stripe::{Level, StripeMap};
use crate::kernel::Ns;

/// A volume: one address space for files, over one drive or several.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeChoice {
    /// The names of its drives. Two neighbours make a pair, and consecutive drives make an array of a RAID-100.
    pub drives: Vec<String>,
    /// How several drives make one volume; `None` for a single drive.
    #[serde(default)]
    pub raid: Option<Level>,
    /// The contiguous bytes on a drive.
    #[serde(default = "volume_defaults::stripe_bytes")]
    pub stripe_bytes: u64,
    /// The number of arrays of a RAID-100.
    #[serde(default)]
    pub arrays: Option<u32>,
    /// The first byte of the file system. 32,256 are the old 63 sectors, which align with no stripe or flash page.
    #[serde(default)]
    pub offset_bytes: u64,
    /// A controller's write-back cache.
    #[serde(default)]
    pub cache: Option<CacheChoice>,
    /// The network between host and array.
    #[serde(default)]
    pub link: Option<LinkChoice>,
    /// The drives that fail. No drive is rebuilt within a run.
    #[serde(default)]
    pub lost: Vec<Loss>,
}

/// A controller's write-back cache. Sizes are those of the real world, and shrink with the scale.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheChoice {
    /// The part of the controller's memory that is used for writes.
    pub bytes: u64,
    /// The rate to the other controller's memory. A write is acknowledged when it is in both memories.
    #[serde(default = "cache_defaults::mirror_bytes_per_s")]
    pub mirror_bytes_per_s: u64,
    /// Additional time of the controllers per write. Writes take this time one after another.
    #[serde(default = "cache_defaults::mirror_request_ns")]
    pub mirror_request_ns: Ns,
    /// Additional delay of a write, which does not delay others.
    #[serde(default = "cache_defaults::mirror_latency_ns")]
    pub mirror_latency_ns: Ns,
    /// Blocks are written to the drives while more than this part of the cache is dirty. The others stay, because they
    /// may be written again or get neighbours.
    #[serde(default = "cache_defaults::keep_per_mille")]
    pub keep_per_mille: u32,
    /// The order in which they are written. It is not published. Of the two usual orders, it was fitted to B2: with the
    /// oldest first, two files are the best for two arrays.
    #[serde(default)]
    pub destaging: Destaging,
    /// The most writes in progress from the cache to the drives, per drive.
    #[serde(default = "cache_defaults::writes_per_drive")]
    pub writes_per_drive: u32,
}

/// The network between host and array.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChoice {
    /// The rate in each direction.
    #[serde(default = "link_defaults::bytes_per_s")]
    pub bytes_per_s: u64,
    /// The time one way, including all protocol overhead.
    #[serde(default = "link_defaults::latency_ns")]
    pub latency_ns: Ns,
}

/// The defaults of keys of a volume, for specs that do not set them.
pub mod volume_defaults {
    crate::figures::constants! { "a volume", default: true {
        stripe_bytes: u64 = 131_072, Assumed, "A usual size; the specs of the articles say their own";
    }}
}

/// The defaults of keys of a cache, for specs that do not set them.
pub mod cache_defaults {
    crate::figures::constants! { "a cache", default: true {
        mirror_bytes_per_s: u64 = 800_000_000, Assumed,
            "4 lanes of PCI Express 1 between the controllers, without the protocol's share";
        mirror_request_ns: u64 = 23_000, Fitted,
            "Bounds: 5 to 50 us. 30,000 sequential writes of 8 KB a second, which only the cache can limit"
            [5_000 to 50_000 on "D2"];
        mirror_latency_ns: u64 = 50_000, Assumed,
            "An array behind iSCSI may take far longer: see the specs of articles B and C";
        keep_per_mille: u32 = 800, Published,
            "Arrays of the SANtricity family begin to write at 80 % unless told otherwise (NetApp, What is cache flushing?)";
        writes_per_drive: u32 = 2, Fitted, "Bounds: 1 to 8" [1 to 8 on "B3" "B10"];
    }}
}

/// The defaults of keys of a link, for specs that do not set them.
pub mod link_defaults {
    crate::figures::constants! { "a link", default: true {
        bytes_per_s: u64 = 104_000_000, Published,
            "The articles saw 101 to 106 MB/s over one port of 1 Gbit/s Ethernet";
        latency_ns: u64 = 100_000, Assumed, "One way over iSCSI, protocol included";
    }}
}

/// A drive that fails.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// The name of the drive.
    pub drive: String,
    /// The time from the start of each run to the failure, in seconds at life-size.
    #[serde(default)]
    pub after_s: f64,
}

impl VolumeChoice {
    /// Returns the map over drives. The smallest of them has `drive_bytes`.
    ///
    /// # Errors
    /// Returns what is wrong, and how to solve it.
    pub(crate) fn map(&self, drive_bytes: u64) -> Result<StripeMap, String> {
        let count = u32::try_from(self.drives.len()).map_err(|_| "has too many drives".to_owned())?;
        let level = match self.raid {
            Some(level) => level,
            None if count == 1 => Level::Raid0,
            None => {
                return Err(format!(
                    "has {count} drives: say how they make one volume, with raid = \"0\", \"1\", \"5\", \"10\" or \"100\""
                ));
            }
        };
        if self.arrays.is_some() && level != Level::Raid100 {
            return Err(format!("has arrays, and {level} has none: they are for RAID-100"));
        }
        StripeMap::new(level, count, self.arrays.unwrap_or(0), self.stripe_bytes, drive_bytes)
    }

    /// Checks the volume. `drive_bytes` are those of its smallest drive in the scaled world.
    ///
    /// # Errors
    /// Returns what is wrong, and how to solve it.
    pub(crate) fn check(&self, drive_bytes: u64) -> Result<(), String> {
        if self.drives.is_empty() {
            return Err("has no drives: name at least one".to_owned());
        }
        let map = self.map(drive_bytes)?;
        if !self.offset_bytes.is_multiple_of(512) || self.offset_bytes >= map.bytes() {
            return Err(format!(
                "begins at byte {}: that must be a whole sector of 512 bytes, within {} bytes",
                self.offset_bytes,
                map.bytes()
            ));
        }
        if self
            .cache
            .as_ref()
            .is_some_and(|cache| cache.mirror_bytes_per_s == 0 || cache.writes_per_drive == 0)
        {
            return Err(
                "has a cache whose mirror_bytes_per_s or writes_per_drive is 0: both must be positive".to_owned(),
            );
        }
        if let Some(cache) = self.cache.as_ref().filter(|cache| cache.keep_per_mille > 1000) {
            return Err(format!(
                "has a cache whose keep_per_mille is {}: at most 1000",
                cache.keep_per_mille
            ));
        }
        if self.link.as_ref().is_some_and(|link| link.bytes_per_s == 0) {
            return Err("has a link of 0 bytes_per_s: it must be positive".to_owned());
        }
        for Loss { drive, after_s } in &self.lost {
            if !self.drives.contains(drive) {
                let known = self.drives.join(", ");
                return Err(format!(
                    "loses '{drive}', which is none of its drives; these are: {known}"
                ));
            }
            if !(0.0..1e9).contains(after_s) {
                return Err(format!(
                    "loses '{drive}' after {after_s} seconds: that must be 0 or more"
                ));
            }
        }
        Ok(())
    }
}
