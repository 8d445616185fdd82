//! A volume's part of a scenario, and its checks.

use serde::{Deserialize, Serialize};

use super::cache::Destaging;
use super::stripe::{Level, StripeMap};
use crate::kernel::Ns;

/// One address space for files, over one drive or several.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeChoice {
    /// Names of its drives. Neighbours make pairs; an array of a RAID-100 is a row of neighbours.
    pub drives: Vec<String>,
    /// How several drives make one volume; `None` for a single drive.
    #[serde(default)]
    pub raid: Option<Level>,
    /// Contiguous bytes on a drive.
    #[serde(default = "volume_defaults::stripe_bytes")]
    pub stripe_bytes: u64,
    /// Arrays of a RAID-100.
    #[serde(default)]
    pub arrays: Option<u32>,
    /// Where the file system begins: 32,256 is the old 63 sectors, which align with no stripe or flash page.
    #[serde(default)]
    pub offset_bytes: u64,
    /// A controller's write-back cache.
    #[serde(default)]
    pub cache: Option<CacheChoice>,
    /// The network between host and array.
    #[serde(default)]
    pub link: Option<LinkChoice>,
    /// Drives that fail. Nothing is rebuilt within a run.
    #[serde(default)]
    pub lost: Vec<Loss>,
}

/// A controller's write-back cache. Sizes are those of the real world, and shrink with the scale.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheChoice {
    /// The part of the controller's memory for writes.
    pub bytes: u64,
    /// To the other controller's memory: a write is acknowledged once it is in both.
    #[serde(default = "cache_defaults::mirror_bytes_per_s")]
    pub mirror_bytes_per_s: u64,
    /// Further time of the controllers per write, one write after another.
    #[serde(default = "cache_defaults::mirror_request_ns")]
    pub mirror_request_ns: Ns,
    /// Further delay of a write that does not delay others.
    #[serde(default = "cache_defaults::mirror_latency_ns")]
    pub mirror_latency_ns: Ns,
    /// Blocks go to the drives while more than this part of the cache is dirty; the rest stays, in case it is written again or
    /// gets neighbours.
    #[serde(default = "cache_defaults::keep_per_mille")]
    pub keep_per_mille: u32,
    /// The order in which they go there. Not published; fitted among the two usual ones, on B2: with the oldest first,
    /// two files are the best for two arrays.
    #[serde(default)]
    pub destaging: Destaging,
    /// Most writes in progress from cache to drives, per drive.
    #[serde(default = "cache_defaults::writes_per_drive")]
    pub writes_per_drive: u32,
}

/// The network between host and array.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkChoice {
    /// In each direction.
    #[serde(default = "link_defaults::bytes_per_s")]
    pub bytes_per_s: u64,
    /// One way, including all protocol overhead.
    #[serde(default = "link_defaults::latency_ns")]
    pub latency_ns: Ns,
}

/// What a volume has if its spec does not say.
pub mod volume_defaults {
    crate::figures::constants! { "a volume", default: true {
        stripe_bytes: u64 = 131_072, Assumed, "A usual size; the specs of the articles say their own";
    }}
}

/// What a cache has if its spec does not say.
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

/// What a link has if its spec does not say.
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
    /// Which one.
    pub drive: String,
    /// How long after the start of each run, in seconds at life-size.
    #[serde(default)]
    pub after_s: f64,
}

impl VolumeChoice {
    /// The map over drives whose smallest has `drive_bytes`.
    ///
    /// # Errors
    /// What is wrong, and the way out.
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

    /// Checks the volume, given the bytes of its smallest drive, which are scaled like everything else.
    ///
    /// # Errors
    /// What is wrong, and the way out.
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
