//! A drive's profile. Each figure has its label and its source, as in the profile's file.
//!
//! The figures of a profile are those of the real drive. [`DriveProfile::parameters`] picks a format, a driver and a
//! sector size, shrinks the drive by the scale, and returns plain integers. Capacities and the host's memory shrink.
//! Times, dies, links and the buffer don't, because a scale does not change the clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ftl::{Shape, Streams};
use super::map_cache::MapPart;
use super::mapping_ram::MappingRam;
use super::parameters::{GarbageCollection, Parameters};
use super::victims::VictimPolicy;
use crate::figures::{Declared, Figure, Group, check_all, figures, words};
use crate::kernel::SEC;

figures! {
    /// The drive's geometry.
    Geometry {
        /// All of the flash, including spare.
        raw_bytes: Figure<u64>;
        /// A page of the flash and of the map.
        flash_page_bytes: Figure<u32> [1, 1 << 20];
        /// Pages that are collected together.
        pages_per_block: Figure<u32> [1, 1 << 15];
        /// Pages that one erase of one die frees.
        erase_block_pages: Figure<u32> [1, 1 << 20];
        /// Dies that work in parallel.
        dies: Figure<u32> [1, 1 << 16];
        /// The memory for a part of the map, on a drive that lacks memory for all of it. The rest lies on the flash.
        map_cache_bytes: Option<Figure<u64>> [1, 1 << 40];
        /// With `map_cache_bytes`: the data that a byte of the map covers.
        map_covers_bytes: Option<Figure<u32>> [1, 1 << 20];
    }
}

figures! {
    /// How long things take.
    Timing {
        /// A die's time to read a page and hand it over.
        read_ns: Figure<u64> [0, SEC];
        /// A die's time to take a page and program it.
        program_ns: Figure<u64> [1, SEC];
        /// A die's time to erase.
        erase_ns: Figure<u64> [0, SEC];
        /// Jitter of reads and programs, either way.
        jitter_per_mille: Figure<u32> [0, 1000];
        /// How many waiting programs go before a read that came later, while a write waits for room in the buffer.
        programs_before_read: Figure<u32>;
        /// Overhead of a read besides the die and the link.
        read_command_ns: Figure<u64> [0, SEC];
        /// Time that a write takes besides the link.
        write_command_ns: Figure<u64> [0, SEC];
        /// Rate of the link from the drive to the host.
        link_read_bytes_per_s: Figure<u64> [1_000_000, 1 << 40];
        /// Rate of the link from the host to the drive.
        link_write_bytes_per_s: Figure<u64> [1_000_000, 1 << 40];
        /// Pages that the drive buffers before they are programmed.
        buffer_pages: Figure<u32> [1, 1 << 24];
    }
}

figures! {
    /// How blocks are reclaimed. Shares are of all blocks.
    GarbageCollectionFigures {
        /// Which block is collected next.
        victim: Figure<VictimPolicy>;
        /// Whether garbage collection's copies share blocks with the host's writes.
        streams: Figure<Streams>;
        /// Garbage collection starts when a smaller share is free.
        start_per_mille: Figure<u32>;
        /// Garbage collection stops when this share is free.
        stop_per_mille: Figure<u32>;
        /// While it runs, pages that garbage collection reclaims per 1000 pages that the host writes.
        pace_per_mille: Figure<u32> [1001, 1_000_000];
        /// How long the drive must have been idle before it collects by itself.
        idle_after_ns: Figure<u64> [0, 86_400 * SEC];
        /// An idle drive collects until this share is free.
        idle_per_mille: Figure<u32>;
    }
}

figures! {
    /// The cost of a map that the host keeps.
    MappingFigures {
        /// The amount of data to which the memory figures refer.
        per_data_bytes: Figure<u64> [1, 1 << 50];
        /// Host memory that the maker recommends for this amount.
        advised_bytes: Figure<u64>;
        /// Host memory in the worst case, for each sector size in bytes. The sizes named here are those the drive can have.
        worst_case_bytes: BTreeMap<String, Figure<u64>> [0, 1 << 50];
        /// Contiguous bytes in the host's writes.
        extent_bytes: Figure<u32>;
    }
}

figures! {
    /// The cost of one version of the driver on the host.
    DriverFigures {
        /// CPU time per request.
        host_cpu_ns: Figure<u64> [0, SEC];
        /// CPU time per sector of a request.
        host_cpu_sector_ns: Figure<u64> [0, SEC];
        /// How many times less memory than the published worst case.
        ram_divisor: Figure<u32> [1, 1_000_000];
        /// Flash pages, in thousandths, that the driver programs per write beyond its data: header and padding of its log.
        padding_per_mille: Option<Figure<u32>> [0, 1000];
    }
}

fn flash() -> String {
    "flash".to_owned()
}

/// A flash drive's profile, as in its file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DriveProfile {
    /// Its name in specs.
    pub name: String,
    /// Its display name.
    pub title: String,
    /// The kind of drive: `flash`.
    #[serde(default = "flash", skip_serializing)]
    pub kind: String,
    /// Its price, as information for buyers. The simulator does not use it.
    #[serde(default, skip_serializing)]
    pub price_usd: Option<Figure<f64>>,
    /// Its geometry.
    pub geometry: Geometry,
    /// Usable bytes in each of its formats.
    pub formats: BTreeMap<String, Figure<u64>>,
    /// The factory format. A drive has this format if only an operating system has formatted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_format: Option<Figure<String>>,
    /// How long things take.
    pub timing: Timing,
    /// How blocks are reclaimed.
    #[serde(rename = "cleaning")]
    pub garbage_collection: GarbageCollectionFigures,
    /// Whether the software above the drive sends it trims for freed addresses.
    pub trim: Figure<bool>,
    /// The cost of its map on the host.
    pub mapping: MappingFigures,
    /// Versions of its driver.
    pub drivers: BTreeMap<String, DriverFigures>,
}

words!(VictimPolicy: "greedy", "fifo");
words!(Streams: "separate", "shared");

impl DriveProfile {
    /// Returns all figures of such a profile, by group.
    pub(crate) fn declared() -> Vec<(&'static str, Vec<Declared>)> {
        vec![
            ("geometry", Geometry::declared()),
            ("timing", Timing::declared()),
            ("cleaning", GarbageCollectionFigures::declared()),
            ("mapping", MappingFigures::declared()),
            ("drivers.*", DriverFigures::declared()),
            ("", Loose::declared()),
        ]
    }
}

figures! {
    /// The figures of a profile that are in no group. [`DriveProfile`] has the same fields.
    Loose {
        /// Usable bytes in each of its formats.
        formats: BTreeMap<String, Figure<u64>>;
        /// The factory format: drives that only an operating system has formatted have it. Required if there are several.
        factory_format: Option<Figure<String>>;
        /// Whether the stack above sends trims to the drive for freed addresses.
        trim: Figure<bool>;
    }
}

/// A scenario's choices about a drive.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// One of the profile's formats.
    pub format: String,
    /// One of the profile's drivers.
    pub driver: String,
    /// One of the profile's sector sizes.
    pub sector_bytes: u32,
    /// How many times smaller the world is. 1 is life-size.
    pub scale: u32,
    /// Whether the drive gets trims for freed addresses; `None` for the profile's value.
    #[serde(default)]
    pub trim: Option<bool>,
    /// Memory of the life-size host that the map may take; `None` for no limit.
    #[serde(default)]
    pub host_ram_bytes: Option<u64>,
    /// The mean of an additional delay of each log write.
    #[serde(default)]
    pub log_delay_ns: u64,
}

impl DriveProfile {
    /// Computes the drive's parameters for `setup`, as plain integers.
    ///
    /// # Errors
    /// Returns a sentence that names what this profile lacks or does not allow, and the alternatives.
    pub(crate) fn parameters(&self, setup: &Setup) -> Result<Parameters, String> {
        self.resolve(setup)
            .and_then(|parameters| parameters.check().map(|()| parameters))
            .map_err(|what| format!("drive profile '{}': {what}", self.name))
    }

    fn resolve(&self, setup: &Setup) -> Result<Parameters, String> {
        if setup.scale == 0 {
            return Err("scale is 0: 1 is life-size, more is smaller".to_owned());
        }
        if let Some(factory_format) = &self.factory_format {
            pick("format", &self.formats, &factory_format.value).map_err(|what| format!("factory_format: {what}"))?;
        }
        let driver = pick("driver", &self.drivers, &setup.driver)?;
        check_all([
            self.geometry.check_limits(),
            self.timing.check_limits(),
            self.garbage_collection.check_limits(),
            self.mapping.check_limits(),
            driver.check_limits(),
        ])?;
        let mut shape = self.shape(setup)?;
        let map_part = self.map_part(shape, setup.scale)?;
        shape.logical_pages += map_part.map_or(0, |part| part.map_pages);
        let timing = &self.timing;
        Ok(Parameters {
            shape,
            flash_page_bytes: self.geometry.flash_page_bytes.value,
            dies: self.geometry.dies.value,
            read_ns: timing.read_ns.value,
            program_ns: timing.program_ns.value,
            erase_ns: timing.erase_ns.value,
            erase_pages: self.geometry.erase_block_pages.value,
            jitter_per_mille: timing.jitter_per_mille.value,
            programs_before_read: timing.programs_before_read.value,
            padding_per_mille: driver.padding_per_mille.as_ref().map_or(0, |figure| figure.value),
            read_command_ns: timing.read_command_ns.value,
            write_command_ns: timing.write_command_ns.value,
            link_read_bytes_per_s: timing.link_read_bytes_per_s.value,
            link_write_bytes_per_s: timing.link_write_bytes_per_s.value,
            buffer_pages: timing.buffer_pages.value,
            garbage_collection: self.garbage_collection(shape.blocks),
            trim: setup.trim.unwrap_or(self.trim.value),
            map_part,
            mapping: self.mapping_ram(setup, driver)?,
            host_ram_bytes: setup.host_ram_bytes.map(|bytes| bytes / u64::from(setup.scale)),
            log_delay_ns: setup.log_delay_ns,
            host_cpu_ns: driver.host_cpu_ns.value,
            host_cpu_sector_ns: driver.host_cpu_sector_ns.value,
        })
    }

    fn shape(&self, setup: &Setup) -> Result<Shape, String> {
        let usable = pick("format", &self.formats, &setup.format)?.value;
        let Geometry {
            raw_bytes,
            flash_page_bytes,
            pages_per_block,
            ..
        } = &self.geometry;
        let (page, pages) = (u64::from(flash_page_bytes.value), u64::from(pages_per_block.value));
        let in_pages = |bytes: u64| bytes / u64::from(setup.scale) / page;
        let narrow = |count: u64, what: &str| {
            u32::try_from(count).map_err(|_| format!("{count} {what} are too many to number in 32 bits"))
        };
        Ok(Shape {
            blocks: narrow(in_pages(raw_bytes.value) / pages, "blocks")?,
            pages_per_block: pages_per_block.value,
            logical_pages: narrow(in_pages(usable), "pages")?,
            victim: self.garbage_collection.victim.value,
            streams: self.garbage_collection.streams.value,
        })
    }

    fn map_part(&self, shape: Shape, scale: u32) -> Result<Option<MapPart>, String> {
        let Geometry {
            flash_page_bytes,
            map_cache_bytes,
            map_covers_bytes,
            ..
        } = &self.geometry;
        match (map_cache_bytes, map_covers_bytes) {
            (None, None) => Ok(None),
            (Some(cache), Some(covers)) => Ok(Some(MapPart {
                map_pages: shape.logical_pages.div_ceil(covers.value),
                covers: covers.value,
                cached: u32::try_from(cache.value / u64::from(scale) / u64::from(flash_page_bytes.value))
                    .unwrap_or(u32::MAX)
                    .max(1),
            })),
            _ => Err("map_cache_bytes and map_covers_bytes go together: give both, or none".to_owned()),
        }
    }

    fn garbage_collection(&self, blocks: u32) -> GarbageCollection {
        let figures = &self.garbage_collection;
        let share = |per_mille: u32| {
            let blocks = u64::from(blocks) * u64::from(per_mille) / 1000;
            u32::try_from(blocks).unwrap_or(u32::MAX)
        };
        GarbageCollection {
            start_blocks: share(figures.start_per_mille.value),
            stop_blocks: share(figures.stop_per_mille.value),
            pace_per_mille: figures.pace_per_mille.value,
            idle_after_ns: figures.idle_after_ns.value,
            idle_blocks: share(figures.idle_per_mille.value),
        }
    }

    fn mapping_ram(&self, setup: &Setup, driver: &DriverFigures) -> Result<MappingRam, String> {
        let mapping = &self.mapping;
        let sector = setup.sector_bytes.to_string();
        Ok(MappingRam {
            worst_case_bytes: pick("sector size", &mapping.worst_case_bytes, &sector)?.value,
            per_data_bytes: mapping.per_data_bytes.value,
            driver_divisor: driver.ram_divisor.value,
            sector_bytes: setup.sector_bytes,
            extent_bytes: mapping.extent_bytes.value,
        })
    }
}

fn pick<'a, T>(what: &str, among: &'a BTreeMap<String, T>, name: &str) -> Result<&'a T, String> {
    among.get(name).ok_or_else(|| {
        let names: Vec<&str> = among.keys().map(String::as_str).collect();
        format!("no {what} '{name}'; there is: {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests;
