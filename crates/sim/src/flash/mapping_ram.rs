//! Host memory of a drive whose driver keeps the map on the host.
//!
//! Such a driver keeps one entry for each contiguous run of sectors, so its memory grows with the data on the drive and
//! with the granularity of the writes. The worst case, one entry per sector, is published for both sector sizes; the
//! bytes of an entry follow from it. Data written in whole database pages has one entry per page.

use serde::{Deserialize, Serialize};

/// The cost of one drive's map, for a given driver and sector size. A drive that keeps its own map costs 0.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MappingRam {
    /// Host memory for `per_data_bytes` of data if every sector is an entry.
    pub worst_case_bytes: u64,
    /// The amount of data to which `worst_case_bytes` refers.
    pub per_data_bytes: u64,
    /// How many times less memory this driver takes than the published worst case.
    pub driver_divisor: u32,
    /// The smallest unit that the map can address.
    pub sector_bytes: u32,
    /// Contiguous bytes in the host's writes: a database page.
    pub extent_bytes: u32,
}

impl MappingRam {
    /// A drive whose map takes no host memory.
    #[cfg(test)]
    pub const ON_DRIVE: Self = Self {
        worst_case_bytes: 0,
        per_data_bytes: 1,
        driver_divisor: 1,
        sector_bytes: 512,
        extent_bytes: 8192,
    };

    /// Host memory for a map of `data_bytes`.
    #[must_use]
    pub fn bytes_for(&self, data_bytes: u64) -> u64 {
        let (numerator, denominator) = self.ratio();
        let bytes = u128::from(data_bytes) * numerator / denominator;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The largest amount of mapped data with which the map takes at most `ram_bytes`.
    #[must_use]
    pub fn data_within(&self, ram_bytes: u64) -> u64 {
        let (numerator, denominator) = self.ratio();
        if numerator == 0 {
            return u64::MAX;
        }
        let bytes = u128::from(ram_bytes) * denominator / numerator;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Bytes of memory per byte of data, as a fraction: an entry covers an extent instead of a sector.
    fn ratio(&self) -> (u128, u128) {
        let numerator = u128::from(self.worst_case_bytes) * u128::from(self.sector_bytes);
        let extent = u128::from(self.extent_bytes.max(self.sector_bytes));
        let denominator = u128::from(self.per_data_bytes) * extent * u128::from(self.driver_divisor);
        (numerator, denominator)
    }
}

#[cfg(test)]
mod tests;
