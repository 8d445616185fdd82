//! The host memory that a drive's map takes if the drive's driver keeps the map on the host.
//!
//! Such a driver keeps one entry for each contiguous range of sectors. So its memory grows with the data on the drive,
//! and with smaller writes. The worst case is one entry per sector. Its memory is published for both sector sizes, and
//! the bytes of an entry follow from it. Data written in whole database pages have one entry per page.

use serde::{Deserialize, Serialize};

/// The figures of one drive's map, for a driver and a sector size. A drive that keeps its own map takes no host memory.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MappingRam {
    /// The host memory for `per_data_bytes` of data if every sector has an entry.
    pub worst_case_bytes: u64,
    /// The amount of data to which `worst_case_bytes` refers.
    pub per_data_bytes: u64,
    /// The published worst case divided by this driver's memory.
    pub driver_divisor: u32,
    /// The smallest unit that the map can address.
    pub sector_bytes: u32,
    /// The contiguous bytes in the host's writes: a database page.
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

    /// Returns the host memory for the map of `data_bytes`.
    #[must_use]
    pub fn bytes_for(&self, data_bytes: u64) -> u64 {
        let (numerator, denominator) = self.ratio();
        let bytes = u128::from(data_bytes) * numerator / denominator;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns how much data can be mapped before the map takes more than `ram_bytes`.
    #[must_use]
    pub fn data_within(&self, ram_bytes: u64) -> u64 {
        let (numerator, denominator) = self.ratio();
        if numerator == 0 {
            return u64::MAX;
        }
        let bytes = u128::from(ram_bytes) * denominator / numerator;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of memory per byte of data, as a fraction. An entry covers `extent_bytes` instead of a sector.
    fn ratio(&self) -> (u128, u128) {
        let numerator = u128::from(self.worst_case_bytes) * u128::from(self.sector_bytes);
        let extent = u128::from(self.extent_bytes.max(self.sector_bytes));
        let denominator = u128::from(self.per_data_bytes) * extent * u128::from(self.driver_divisor);
        (numerator, denominator)
    }
}

#[cfg(test)]
mod tests;
