//! One drive's behaviour as plain integers: a profile resolved for one format, driver, sector size and scale.

use super::ftl::Shape;
use super::map_cache::MapPart;
use super::mapping_ram::MappingRam;
use crate::kernel::SEC;

/// When garbage collection runs, in blocks of the whole drive.
///
/// Below `start_blocks` free blocks, garbage collection runs alongside the host's writes, and takes turns with them on the flash
/// until `stop_blocks` are free: writes come in bursts, fast while there is room, slow while garbage collection makes room. An
/// idle drive collects by itself up to `idle_blocks`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GarbageCollection {
    /// Garbage collection starts when fewer blocks are free.
    pub start_blocks: u32,
    /// Garbage collection stops when as many blocks are free.
    pub stop_blocks: u32,
    /// While it runs, pages that garbage collection reclaims per 1000 pages that the host writes. Must exceed 1000, or it never
    /// stops.
    pub pace_per_mille: u32,
    /// How long the drive must have been idle.
    pub idle_after_ns: u64,
    /// An idle drive collects until this many blocks are free; 0 for a drive that does not.
    pub idle_blocks: u32,
}

/// All parameters that [`super::Drive`] needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameters {
    /// The dimensions of the map.
    pub shape: Shape,
    /// Bytes of a flash page, which is also the map's page.
    pub flash_page_bytes: u32,
    /// Dies, which work in parallel, each on one operation at a time.
    pub dies: u32,
    /// A die's time to read a page and hand it over.
    pub read_ns: u64,
    /// A die's time to take a page and program it.
    pub program_ns: u64,
    /// A die's time to erase.
    pub erase_ns: u64,
    /// Pages that one such erase frees.
    pub erase_pages: u32,
    /// Jitter of reads and programs, either way, in per mille of their time.
    pub jitter_per_mille: u32,
    /// How many programs waiting on a die go before a later read while a write waits for room in the buffer; otherwise
    /// none do. The operation in progress always does.
    pub programs_before_read: u32,
    /// Flash pages, in thousandths, programmed per write beyond its data.
    pub padding_per_mille: u32,
    /// Overhead of a read besides the die and the link.
    pub read_command_ns: u64,
    /// Overhead of a write besides the link, once its data are in the buffer.
    pub write_command_ns: u64,
    /// From the drive to the host.
    pub link_read_bytes_per_s: u64,
    /// From the host to the drive.
    pub link_write_bytes_per_s: u64,
    /// Pages that the drive buffers before they are programmed. A write is done when its data are here.
    pub buffer_pages: u32,
    /// When garbage collection runs.
    pub garbage_collection: GarbageCollection,
    /// Whether the drive learns which addresses the file system freed. If not, they stay valid until written or
    /// formatted.
    pub trim: bool,
    /// Which part of the map the drive caches; `None` for all of it. Its pages are the last ones of the shape's logical pages.
    pub map_part: Option<MapPart>,
    /// The map's cost in host memory.
    pub mapping: MappingRam,
    /// Host memory that the map may take; `None` for no limit.
    pub host_ram_bytes: Option<u64>,
    /// Mean further delay of an appended piece of log, exponentially distributed: how soon its end is noticed. It delays
    /// nothing else.
    pub log_delay_ns: u64,
    /// CPU time of the host per request.
    pub host_cpu_ns: u64,
    /// CPU time of the host per sector of a request.
    pub host_cpu_sector_ns: u64,
}

impl Parameters {
    /// Says what is wrong with these parameters, if anything is.
    ///
    /// # Errors
    /// A sentence for the author of the figures.
    pub fn check(&self) -> Result<(), String> {
        self.shape.check()?;
        // All else is within the limits of the profile's figures.
        let chosen = [
            ("sector_bytes", u64::from(self.mapping.sector_bytes), 1, 1 << 20),
            ("log_delay_ns", self.log_delay_ns, 0, SEC),
        ];
        for (name, value, least, most) in chosen {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} is {value}: it must be {least} to {most}"));
            }
        }
        self.check_garbage_collection()
    }

    fn check_garbage_collection(&self) -> Result<(), String> {
        let GarbageCollection {
            start_blocks,
            stop_blocks,
            idle_blocks,
            ..
        } = self.garbage_collection;
        if start_blocks > stop_blocks {
            return Err(format!(
                "garbage collection starts at {start_blocks} free blocks and stops at {stop_blocks}: the wrong way"
            ));
        }
        let spare = self.spare_blocks();
        let most = stop_blocks.max(idle_blocks);
        if spare <= most {
            return Err(format!(
                "garbage collection wants {most} free blocks, but this format leaves {spare} spare ones: make the usable capacity \
                 smaller, the raw capacity larger, or collect less far ahead"
            ));
        }
        Ok(())
    }

    /// Blocks beyond those that the host's addresses fill and those that can never hold its data.
    #[must_use]
    pub fn spare_blocks(&self) -> u32 {
        let shape = &self.shape;
        let needed = shape.logical_pages.div_ceil(shape.pages_per_block) + super::ftl::UNUSABLE_BLOCKS;
        shape.blocks.saturating_sub(needed)
    }

    /// CPU time of the host for a request of this many bytes, whose driver looks up every sector. The drive doesn't
    /// spend this time; the caller charges it to the host's CPUs.
    #[must_use]
    pub fn host_cpu_for(&self, bytes: u64) -> u64 {
        self.host_cpu_ns + bytes.div_ceil(u64::from(self.mapping.sector_bytes)) * self.host_cpu_sector_ns
    }

    /// Usable capacity in bytes.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        u64::from(self.host_pages()) * u64::from(self.flash_page_bytes)
    }

    /// Logical pages of the host.
    pub(super) fn host_pages(&self) -> u32 {
        self.shape.logical_pages - self.map_part.map_or(0, |part| part.map_pages)
    }

    pub(super) fn link_ns(bytes: u64, bytes_per_s: u64) -> u64 {
        (bytes * 1_000_000_000).div_ceil(bytes_per_s)
    }
}
