//! One drive's behaviour as plain integers, computed from a profile for one format, driver, sector size and scale.

use super::ftl::Shape;
use super::map_cache::MapPart;
use super::mapping_ram::MappingRam;
use crate::kernel::SEC;

/// When garbage collection runs. Figures are in blocks of the whole drive.
///
/// If fewer than `start_blocks` are free, garbage collection takes turns with the host's writes on the flash until
/// `stop_blocks` are free. So writes come in bursts: they are fast while there is room, and slow during garbage
/// collection. An idle drive collects until `idle_blocks` are free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GarbageCollection {
    /// Garbage collection starts when fewer blocks are free.
    pub start_blocks: u32,
    /// Garbage collection stops when this many blocks are free.
    pub stop_blocks: u32,
    /// During garbage collection, the pages that it reclaims per 1000 pages that the host writes. This must exceed
    /// 1000. Otherwise garbage collection never stops.
    pub pace_per_mille: u32,
    /// How long the drive must have been idle before it collects by itself.
    pub idle_after_ns: u64,
    /// An idle drive collects until this many blocks are free. 0 if the drive never does so.
    pub idle_blocks: u32,
}

/// All parameters of a [`super::Drive`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameters {
    /// The dimensions of the map.
    pub shape: Shape,
    /// The bytes of a flash page. The map has pages of the same size.
    pub flash_page_bytes: u32,
    /// The number of dies. They work in parallel, each on one operation at a time.
    pub dies: u32,
    /// A die's time to read a page and transfer it.
    pub read_ns: u64,
    /// A die's time to receive a page and program it.
    pub program_ns: u64,
    /// A die's time to erase.
    pub erase_ns: u64,
    /// The number of pages that one such erase frees.
    pub erase_pages: u32,
    /// The jitter of reads and programs, plus or minus, in thousandths of their time.
    pub jitter_per_mille: u32,
    /// While a write waits for room in the buffer: the number of programs on a die that go before a later read.
    /// Otherwise the read goes before them. It never goes before the operation in progress.
    pub programs_before_read: u32,
    /// The flash pages, in thousandths, that are programmed per write in addition to its data.
    pub padding_per_mille: u32,
    /// The time of a read apart from the die and the link.
    pub read_command_ns: u64,
    /// The time of a write apart from the link, when its data are in the buffer.
    pub write_command_ns: u64,
    /// The rate from the drive to the host.
    pub link_read_bytes_per_s: u64,
    /// The rate from the host to the drive.
    pub link_write_bytes_per_s: u64,
    /// The pages that the drive buffers before they are programmed. A write is done when its data are in the buffer.
    pub buffer_pages: u32,
    /// When garbage collection runs.
    pub garbage_collection: GarbageCollection,
    /// Whether the drive gets trims for addresses that the file system freed. If not, their data stay valid until they
    /// are written or formatted.
    pub trim: bool,
    /// The part of the map that the drive caches; `None` for all. The map's pages are the last logical pages.
    pub map_part: Option<MapPart>,
    /// The host memory that the map takes.
    pub mapping: MappingRam,
    /// The host memory that the map may take; `None` for no limit.
    pub host_ram_bytes: Option<u64>,
    /// The mean of an additional delay of each log write until its end is noticed. It is exponentially distributed, and
    /// delays no other request.
    pub log_delay_ns: u64,
    /// CPU time of the host per request.
    pub host_cpu_ns: u64,
    /// CPU time of the host per sector of a request.
    pub host_cpu_sector_ns: u64,
}

impl Parameters {
    /// Checks these parameters.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong, for the author of the figures.
    pub fn check(&self) -> Result<(), String> {
        self.shape.check()?;
        // All other figures are within the limits of the profile.
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

    /// Returns the number of blocks that are neither needed for the host's addresses nor unusable for its data.
    #[must_use]
    pub fn spare_blocks(&self) -> u32 {
        let shape = &self.shape;
        let needed = shape.logical_pages.div_ceil(shape.pages_per_block) + super::ftl::UNUSABLE_BLOCKS;
        shape.blocks.saturating_sub(needed)
    }

    /// Returns the host's CPU time for a request of this many bytes, because the driver looks up every sector. The
    /// drive does not take this time. The caller charges it to the host's CPUs.
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
