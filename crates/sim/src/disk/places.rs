//! The position of a byte on the platters: its cylinder, and its angle, given as a time of rotation.
//!
//! Bytes are numbered cylinder by cylinder from the outside in, and surface by surface within a cylinder. The zone
//! determines the length of a track. All zones have the same number of cylinders, and the lengths fall evenly from the
//! outermost zone inwards. Each track begins a little later on the circle than the previous one (skew). This delay is
//! exactly the time of the switch, so sequential reads never lose a turn.

use crate::kernel::Ns;

/// The number of zones. Real disks have 15 to 30, and with more than 16 the results would not change.
pub const ZONES: u64 = 16;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Zone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

/// The platters of one disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Places {
    zones: Vec<Zone>,
    surfaces: u64,
    cylinders: u64,
    revolution_ns: Ns,
    skew_ns: Ns,
}

/// The position of a byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The number of the cylinder, counted from the outside.
    pub cylinder: u64,
    /// The time from the zero mark until the byte passes under its head.
    pub angle_ns: Ns,
}

impl Places {
    /// Makes platters that hold `bytes`. The outermost and the innermost zone have tracks of the given bytes.
    ///
    /// # Panics
    /// Panics if a figure is 0. The caller must have checked them.
    #[must_use]
    pub fn new(
        bytes: u64,
        surfaces: u64,
        (outer_track_bytes, inner_track_bytes): (u64, u64),
        revolution_ns: Ns,
        skew_ns: Ns,
    ) -> Self {
        let track_bytes = |zone: u64| outer_track_bytes - (outer_track_bytes - inner_track_bytes) * zone / (ZONES - 1);
        let of_all_zones: u64 = (0..ZONES).map(track_bytes).sum();
        let zone_cylinders = bytes.div_ceil(of_all_zones * surfaces);
        let mut zones = Vec::new();
        let (mut first_byte, mut first_track) = (0, 0);
        for zone in 0..ZONES {
            let track_bytes = track_bytes(zone);
            zones.push(Zone {
                first_byte,
                first_track,
                track_bytes,
            });
            first_track += zone_cylinders * surfaces;
            first_byte += zone_cylinders * surfaces * track_bytes;
        }
        Self {
            zones,
            surfaces,
            cylinders: zone_cylinders * ZONES,
            revolution_ns,
            skew_ns,
        }
    }

    /// How many cylinders there are.
    #[must_use]
    pub fn cylinders(&self) -> u64 {
        self.cylinders
    }

    /// Returns the zone of a byte, the number of its track over all zones, and its offset in the track.
    fn track(&self, byte: u64) -> (&Zone, u64, u64) {
        let after = self.zones.partition_point(|zone| zone.first_byte <= byte);
        let zone = &self.zones[after - 1];
        let inside = byte - zone.first_byte;
        (
            zone,
            zone.first_track + inside / zone.track_bytes,
            inside % zone.track_bytes,
        )
    }

    /// Returns the position of a byte.
    #[must_use]
    pub fn of(&self, byte: u64) -> Place {
        let (zone, track, inside) = self.track(byte);
        let turned = inside * self.revolution_ns / zone.track_bytes + track * self.skew_ns;
        Place {
            cylinder: track / self.surfaces,
            angle_ns: turned % self.revolution_ns,
        }
    }

    /// Returns how long `bytes` from `byte` on take to pass under the heads.
    #[must_use]
    pub fn passing_ns(&self, byte: u64, bytes: u64) -> Ns {
        let (mut at, end, mut passing_ns) = (byte, byte + bytes, 0);
        while at < end {
            let (zone, _, inside) = self.track(at);
            let piece = (end - at).min(zone.track_bytes - inside);
            // This is the difference of two angles, so that the sum over pieces is exactly the whole.
            let angle = |inside: u64| inside * self.revolution_ns / zone.track_bytes;
            passing_ns += angle(inside + piece) - angle(inside);
            at += piece;
            if at < end {
                passing_ns += self.skew_ns;
            }
        }
        passing_ns
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    fn places() -> Places {
        Places::new(300_000_000, 8, (600_000, 360_000), 4_000_000, 350_000)
    }

    #[test]
    fn the_outermost_track_comes_first_and_the_last_byte_is_near_the_centre() {
        let places = places();
        assert_eq!((places.of(0).cylinder, places.of(0).angle_ns), (0, 0));
        let last = places.of(299_999_999);
        assert!(last.cylinder < places.cylinders());
        assert!(
            last.cylinder * 10 > places.cylinders() * 9,
            "{last:?} of {}",
            places.cylinders()
        );
    }

    #[test]
    fn a_track_takes_a_turn_and_the_next_one_begins_as_soon_as_the_head_is_there() {
        let places = places();
        assert_eq!(places.passing_ns(0, 600_000), 4_000_000);
        assert_eq!(places.passing_ns(0, 600_001), 4_000_000 + 350_000 + 6);
        let (first, second) = (places.of(0), places.of(600_000));
        assert_eq!(second.angle_ns, first.angle_ns + 350_000);
    }

    #[test]
    fn pieces_in_order_take_as_long_as_the_whole() {
        let places = places();
        let whole = places.passing_ns(123_000, 1_000_000);
        let mut sum = 0;
        let mut at = 123_000;
        while at < 1_123_000 {
            let piece = 8192.min(1_123_000 - at);
            sum += places.passing_ns(at, piece);
            at += piece;
        }
        // The time of a switch between two pieces is part of neither piece.
        assert!(
            whole - sum <= 3 * 350_000 && (whole - sum).is_multiple_of(350_000),
            "{whole} {sum}"
        );
    }

    #[test]
    fn inner_tracks_are_slower_by_their_length() {
        let places = places();
        let outer = places.passing_ns(0, 60_000);
        let inner = places.passing_ns(299_000_000, 60_000);
        assert_eq!((outer, inner.div_ceil(1000)), (400_000, 667));
    }
}
