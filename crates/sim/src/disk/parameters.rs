//! One disk's behaviour as plain integers, computed from a profile for one scale.

use serde::{Deserialize, Serialize};

use super::places::Places;
use super::seek::SeekCurve;
use crate::kernel::Ns;

/// The order in which a disk serves its queue.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In order of arrival.
    Fifo,
    /// The arm moves inwards from request to request. After the last one it returns to the outermost request (C-LOOK).
    Elevator,
    /// The request that the head reaches first, with seek and rotation, as a disk with command queueing chooses it.
    Shortest,
}

/// All parameters of a [`super::Disk`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameters {
    /// Usable capacity.
    pub usable_bytes: u64,
    /// Smallest write.
    pub sector_bytes: u32,
    /// The time of one turn.
    pub revolution_ns: Ns,
    /// The number of surfaces. Each has a head.
    pub surfaces: u64,
    /// The bytes of an outer track and of an inner track.
    pub track_bytes: (u64, u64),
    /// The time to switch from one track to the next during a transfer.
    pub track_switch_ns: Ns,
    /// Seek times for reads, including settling: track to track, average, full stroke.
    pub seek_ns: [Ns; 3],
    /// Extra settling time before a write.
    pub write_settle_ns: Ns,
    /// The time of a request apart from arm and platters.
    pub command_ns: Ns,
    /// The transfer rate from the disk's buffer to the host.
    pub interface_bytes_per_s: u64,
    /// How far the disk reads ahead while no request waits.
    pub read_ahead_bytes: u64,
    /// The service order.
    pub order: Order,
    /// How many requests the disk chooses among: the oldest ones. The others wait.
    pub queue_depth: usize,
    /// A request that has waited longer than this is served first, in any order.
    pub patience_ns: Ns,
    /// CPU time of the host per request.
    pub host_cpu_ns: Ns,
}

impl Parameters {
    /// Checks these parameters.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong, for the author of the figures.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("usable_bytes", self.usable_bytes),
            ("sector_bytes", u64::from(self.sector_bytes)),
            ("revolutions_per_minute", self.revolution_ns),
            ("surfaces", self.surfaces),
            ("inner_bytes_per_s", self.track_bytes.1),
            ("interface_bytes_per_s", self.interface_bytes_per_s),
            ("queue_depth", self.queue_depth as u64),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} is 0: it must be positive"));
        }
        if self.track_bytes.0 < self.track_bytes.1 {
            return Err(
                "outer_bytes_per_s is less than inner_bytes_per_s: outer tracks are the longer ones".to_owned(),
            );
        }
        if self.track_switch_ns >= self.revolution_ns {
            return Err("track_switch_ns is longer than a turn".to_owned());
        }
        self.curve(self.places().cylinders()).map(drop)
    }

    pub(super) fn places(&self) -> Places {
        Places::new(
            self.usable_bytes,
            self.surfaces,
            self.track_bytes,
            self.revolution_ns,
            self.track_switch_ns,
        )
    }

    pub(super) fn curve(&self, cylinders: u64) -> Result<SeekCurve, String> {
        let [track, average, full] = self.seek_ns;
        SeekCurve::through(track, average, full, cylinders)
    }
}
