//! What was written to flash drives, what they moved, and how full they are.

use super::{Device, Volume};
use crate::figures::ratio;

/// The sums over several flash drives up to the present time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashUse {
    /// Flash pages that hosts wrote.
    pub host_pages: u64,
    /// Flash pages that garbage collection moved.
    pub moved_pages: u64,
    /// Flash pages that hold data.
    pub mapped_pages: u64,
    /// All flash pages; 0 if there is no flash drive.
    pub pages: u64,
}

impl FlashUse {
    /// Returns the sums over all flash drives of these volumes.
    #[must_use]
    pub fn of(volumes: &[Volume]) -> Self {
        let mut all = Self::default();
        for drive in volumes.iter().flat_map(Volume::devices).filter_map(Device::flash) {
            let counts = drive.counters().ftl;
            all.host_pages += counts.host_pages;
            all.moved_pages += counts.moved_pages;
            all.mapped_pages += u64::from(drive.ftl().mapped_pages());
            all.pages += u64::from(drive.ftl().shape().flash_pages());
        }
        all
    }

    /// Returns the flash pages programmed since `before` per page that hosts wrote. It is 1 if they wrote none.
    #[must_use]
    pub fn write_amplification_since(&self, before: &Self) -> f64 {
        let host = self.host_pages - before.host_pages;
        let moved = self.moved_pages - before.moved_pages;
        if host == 0 { 1.0 } else { ratio(host + moved, host) }
    }

    /// Returns the share of the flash that holds data.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        ratio(self.mapped_pages, self.pages)
    }
}
