//! Why a volume no longer answers.

use std::fmt;

use super::stripe::Level;
use crate::flash::Offline;

/// Why a volume no longer answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// A flash drive is off-line.
    Offline(Offline),
    /// More drives are gone than it can do without.
    Lost {
        /// The volume.
        volume: String,
        /// How its drives made a volume.
        level: Level,
        /// How many there were.
        drives: u32,
        /// How many are gone.
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
