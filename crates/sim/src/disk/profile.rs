//! A disk's profile. Each figure has its label and its source, as in the profile's file.
//!
//! A larger scale shrinks the disk but not its times. It has fewer cylinders, and the arm takes the same time for the
//! same fraction of the stroke.

use serde::{Deserialize, Serialize};

use super::parameters::{Order, Parameters};
use crate::figures::{Declared, Figure, Group, figures, words};
use crate::kernel::SEC;

figures! {
    /// The disk's geometry.
    Platters {
        /// Usable capacity.
        usable_bytes: Figure<u64>;
        /// Smallest write.
        sector_bytes: Figure<u32>;
        /// Revolutions of the platters in a minute.
        revolutions_per_minute: Figure<u64>;
        /// Number of surfaces. Each has its own head.
        surfaces: Figure<u64>;
        /// Sustained rate over many outer tracks.
        outer_bytes_per_s: Figure<u64>;
        /// Sustained rate over many inner tracks.
        inner_bytes_per_s: Figure<u64>;
        /// Time from one track to the next during a transfer.
        track_switch_ns: Figure<u64>;
    }
}

figures! {
    /// The arm. Times include settling but no command overhead.
    Arm {
        /// Seek to the next track, for a read.
        track_to_track_ns: Figure<u64>;
        /// Seek over all pairs of tracks on average, for a read.
        average_read_ns: Figure<u64>;
        /// Seek over all pairs of tracks on average, for a write.
        average_write_ns: Figure<u64>;
        /// Seek from one end to the other, for a read.
        full_stroke_ns: Figure<u64>;
    }
}

figures! {
    /// Electronics, queue and buffer.
    Electronics {
        /// Time that a request takes besides arm and platters.
        command_ns: Figure<u64>;
        /// Rate from the disk's buffer to the host.
        interface_bytes_per_s: Figure<u64>;
        /// The most bytes that the disk reads ahead.
        read_ahead_bytes: Figure<u64>;
        /// The service order.
        order: Figure<Order>;
        /// The number of requests that the disk chooses among.
        queue_depth: Figure<u32>;
        /// A request that has waited this long goes first.
        patience_ns: Figure<u64>;
        /// CPU time of the host per request.
        host_cpu_ns: Figure<u64>;
    }
}

/// A disk's profile, as in its file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DiskProfile {
    /// Its name in specs.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// The kind of drive: `disk`.
    #[serde(default = "disk", skip_serializing)]
    pub kind: String,
    /// Its geometry.
    pub platters: Platters,
    /// Its arm.
    pub arm: Arm,
    /// Its electronics.
    pub electronics: Electronics,
}

words!(Order: "fifo", "elevator", "shortest");

fn disk() -> String {
    "disk".to_owned()
}

impl DiskProfile {
    /// Returns all figures of such a profile, by group.
    pub(crate) fn declared() -> Vec<(&'static str, Vec<Declared>)> {
        vec![
            ("platters", Platters::declared()),
            ("arm", Arm::declared()),
            ("electronics", Electronics::declared()),
        ]
    }

    /// Returns the disk's parameters in a world `scale` times smaller. Without `order`, the profile's order applies.
    ///
    /// # Errors
    /// Returns a sentence that names the profile and the problem.
    pub(crate) fn parameters(&self, scale: u32, order: Option<Order>) -> Result<Parameters, String> {
        let named = |what: String| format!("drive profile '{}': {what}", self.name);
        let Platters {
            usable_bytes,
            sector_bytes,
            revolutions_per_minute,
            surfaces,
            outer_bytes_per_s,
            inner_bytes_per_s,
            track_switch_ns,
        } = &self.platters;
        if scale == 0 || revolutions_per_minute.value == 0 {
            return Err(named("scale and revolutions_per_minute must be positive".to_owned()));
        }
        let revolution_ns = 60 * SEC / revolutions_per_minute.value;
        // A sustained rate includes the time of the switches between tracks.
        let track_bytes = |rate: u64| {
            let bytes = u128::from(rate) * u128::from(revolution_ns + track_switch_ns.value) / u128::from(SEC);
            u64::try_from(bytes).map_err(|_| named(format!("{rate} bytes a second are too many")))
        };
        let (arm, electronics) = (&self.arm, &self.electronics);
        let settle = arm.average_write_ns.value.checked_sub(arm.average_read_ns.value);
        let parameters = Parameters {
            usable_bytes: usable_bytes.value / u64::from(scale) / u64::from(sector_bytes.value.max(1))
                * u64::from(sector_bytes.value),
            sector_bytes: sector_bytes.value,
            revolution_ns,
            surfaces: surfaces.value,
            track_bytes: (
                track_bytes(outer_bytes_per_s.value)?,
                track_bytes(inner_bytes_per_s.value)?,
            ),
            track_switch_ns: track_switch_ns.value,
            seek_ns: [
                arm.track_to_track_ns.value,
                arm.average_read_ns.value,
                arm.full_stroke_ns.value,
            ],
            write_settle_ns: settle.ok_or_else(|| named("average_write_ns is less than average_read_ns".to_owned()))?,
            command_ns: electronics.command_ns.value,
            interface_bytes_per_s: electronics.interface_bytes_per_s.value,
            read_ahead_bytes: electronics.read_ahead_bytes.value,
            order: order.unwrap_or(electronics.order.value),
            queue_depth: electronics.queue_depth.value as usize,
            patience_ns: electronics.patience_ns.value,
            host_cpu_ns: electronics.host_cpu_ns.value,
        };
        parameters.check().map_err(named)?;
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::DiskProfile;
    use crate::disk::Order;

    const SHIPPED: [(&str, &str); 2] = [
        (
            "scsi-15k-300",
            include_str!("../../../../src/storagelab/profiles/scsi-15k-300.toml"),
        ),
        (
            "sata-7k2-1000",
            include_str!("../../../../src/storagelab/profiles/sata-7k2-1000.toml"),
        ),
    ];

    #[test]
    fn every_shipped_disk_works_in_each_order_at_every_scale() {
        for (name, text) in SHIPPED {
            let profile: DiskProfile = toml::from_str(text).expect("a shipped profile");
            assert_eq!((profile.name.as_str(), profile.kind.as_str()), (name, "disk"));
            for scale in [1, 16, 64, 512, 1000] {
                for order in [Order::Fifo, Order::Elevator, Order::Shortest] {
                    let parameters = profile.parameters(scale, Some(order)).expect("a shipped profile");
                    let lost = profile.platters.usable_bytes.value / u64::from(scale) - parameters.usable_bytes;
                    assert!(lost < 512, "whole sectors, and all of them");
                }
            }
            let refusal = profile.parameters(0, None).expect_err("no scale");
            assert!(refusal.contains(name), "{refusal}");
        }
    }

    #[test]
    fn every_figure_of_a_shipped_disk_has_a_source_and_a_fitted_one_its_bounds() {
        for (name, text) in SHIPPED {
            let table: toml::Table = text.parse().expect("it is TOML");
            let groups = table
                .iter()
                .filter_map(|(group, figures)| Some((group, figures.as_table()?)));
            let mut count = 0;
            for (group, figures) in groups {
                for (figure, content) in figures {
                    let source = content["source"].as_str().expect("a source is text");
                    let bounded = source.starts_with("Bounds") || source.starts_with("Not published");
                    let fitted = content["label"].as_str() == Some("fitted");
                    assert!(
                        source.len() > 8 && (!fitted || bounded),
                        "{name}: {group}.{figure}: {source}"
                    );
                    count += 1;
                }
            }
            assert_eq!(count, 18, "{name}");
        }
    }

    #[test]
    fn a_key_that_there_is_not_is_refused_by_name() {
        let text = SHIPPED[0].1.replace("[arm.full_stroke_ns]", "[arm.speed]");
        let error = toml::from_str::<DiskProfile>(&text).expect_err("no such figure");
        assert!(error.to_string().contains("unknown field `speed`"), "{error}");
    }
}
