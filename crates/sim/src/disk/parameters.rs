//! The behaviour of one disk as plain integers, from a profile at one scale.

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
    /// The arm goes inwards from request to request, and from the last one back to the outermost (C-LOOK).
    Elevator,
    /// The request that the head reaches soonest, by seek and rotation together, as in a disk with command queueing.
    Shortest,
}

/// All parameters that [`super::Disk`] needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameters {
    /// Usable capacity.
    pub usable_bytes: u64,
    /// Smallest write.
    pub sector_bytes: u32,
    /// One turn.
    pub revolution_ns: Ns,
    /// Surfaces with a head each.
    pub surfaces: u64,
    /// Bytes of an outer and of an inner track.
    pub track_bytes: (u64, u64),
    /// From one track to the next during a transfer.
    pub track_switch_ns: Ns,
    /// Seek times for reads, settling included: track to track, average, full stroke.
    pub seek_ns: [Ns; 3],
    /// Extra settling time before a write.
    pub write_settle_ns: Ns,
    /// Overhead of a request besides arm and platters.
    pub command_ns: Ns,
    /// From the disk's buffer to the host.
    pub interface_bytes_per_s: u64,
    /// The amount that the disk reads ahead while it has no other work.
    pub read_ahead_bytes: u64,
    /// The service order.
    pub order: Order,
    /// The number of requests among which it chooses, the oldest first. The others wait outside.
    pub queue_depth: usize,
    /// A request that has waited this long goes first, whatever the order.
    pub patience_ns: Ns,
    /// CPU time of the host per request.
    pub host_cpu_ns: Ns,
}

impl Parameters {
    /// Checks these parameters.
    ///
    /// # Errors
    /// A sentence for the author of the figures.
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
