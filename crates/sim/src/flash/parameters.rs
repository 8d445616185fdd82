//! One drive's behaviour as plain integers: a profile resolved for one format, driver, sector size and scale.

use super::ftl::Shape;
use super::mapping_ram::MappingRam;
use crate::kernel::SEC;

/// The slowest link, in bytes a second.
const SLOWEST_LINK: u64 = 1_000_000;

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
        let positive = [
            ("flash_page_bytes", u64::from(self.flash_page_bytes)),
            ("dies", u64::from(self.dies)),
            ("program_ns", self.program_ns),
            ("erase_block_pages", u64::from(self.erase_pages)),
            ("link_read_bytes_per_s", self.link_read_bytes_per_s),
            ("link_write_bytes_per_s", self.link_write_bytes_per_s),
            ("buffer_pages", u64::from(self.buffer_pages)),
            ("mapping ram_divisor", u64::from(self.mapping.driver_divisor)),
            ("mapping per_data_bytes", self.mapping.per_data_bytes),
            ("sector_bytes", u64::from(self.mapping.sector_bytes)),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} is 0: it must be positive"));
        }
        self.check_limits()?;
        if self.jitter_per_mille > 1000 {
            return Err(format!(
                "jitter_per_mille is {}: it can't be over 1000",
                self.jitter_per_mille
            ));
        }
        self.check_garbage_collection()
    }

    /// Values beyond these would overflow a sum or the memory, and describe no real drive.
    fn check_limits(&self) -> Result<(), String> {
        let times = [
            ("read_ns", self.read_ns),
            ("program_ns", self.program_ns),
            ("erase_ns", self.erase_ns),
            ("read_command_ns", self.read_command_ns),
            ("write_command_ns", self.write_command_ns),
            ("log_delay_ns", self.log_delay_ns),
            ("host_cpu_ns", self.host_cpu_ns),
            ("host_cpu_sector_ns", self.host_cpu_sector_ns),
        ];
        let limits = times.map(|(name, value)| (name, value, SEC)).into_iter().chain([
            ("idle_after_ns", self.garbage_collection.idle_after_ns, 86_400 * SEC),
            ("flash_page_bytes", u64::from(self.flash_page_bytes), 1 << 20),
            ("sector_bytes", u64::from(self.mapping.sector_bytes), 1 << 20),
            ("dies", u64::from(self.dies), 1 << 16),
            ("padding_per_mille", u64::from(self.padding_per_mille), 1000),
            ("buffer_pages", u64::from(self.buffer_pages), 1 << 24),
            ("worst_case_bytes", self.mapping.worst_case_bytes, 1 << 50),
        ]);
        for (name, value, most) in limits {
            if value > most {
                return Err(format!("{name} is {value}: it can't be over {most}"));
            }
        }
        let links = [
            ("link_read_bytes_per_s", self.link_read_bytes_per_s),
            ("link_write_bytes_per_s", self.link_write_bytes_per_s),
        ];
        match links.iter().find(|(_, value)| *value < SLOWEST_LINK) {
            Some((name, value)) => Err(format!("{name} is {value}: it can't be under {SLOWEST_LINK}")),
            None => Ok(()),
        }
    }

    fn check_garbage_collection(&self) -> Result<(), String> {
        let GarbageCollection {
            start_blocks,
            stop_blocks,
            pace_per_mille,
            idle_blocks,
            ..
        } = self.garbage_collection;
        if start_blocks > stop_blocks {
            return Err(format!(
                "garbage collection starts at {start_blocks} free blocks and stops at {stop_blocks}: the wrong way"
            ));
        }
        if pace_per_mille <= 1000 {
            return Err(format!(
                "pace_per_mille is {pace_per_mille}: garbage collection must win more than the host writes, over 1000"
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
        u64::from(self.shape.logical_pages) * u64::from(self.flash_page_bytes)
    }

    pub(super) fn link_ns(bytes: u64, bytes_per_s: u64) -> u64 {
        (bytes * 1_000_000_000).div_ceil(bytes_per_s)
    }
}
