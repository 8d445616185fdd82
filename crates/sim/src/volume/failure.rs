//! Why a volume has failed.

use std::fmt;

use super::stripe::Level;
use crate::flash::Offline;

/// Why a volume has failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// A flash drive is off-line.
    Offline(Offline),
    /// More drives have failed than the volume can do without.
    Lost {
        /// The volume.
        volume: String,
        /// Its RAID level.
        level: Level,
        /// The number of its drives.
        drives: u32,
        /// The number of its drives that have failed.
        lost: u32,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline(offline) => offline.fmt(formatter),
            Self::Lost {
                volume,
                level,
                drives,
                lost,
            } => write!(
                formatter,
                "volume '{volume}' lost {lost} of its {drives} drives, and with them data that {} keeps nowhere else; RAID-1, 5 \
                 and 10 can do without a drive",
                if *drives == 1 {
                    "a single drive".to_owned()
                } else {
                    level.to_string()
                }
            ),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Offline> for Failure {
    fn from(offline: Offline) -> Self {
        Self::Offline(offline)
    }
}
