//! Prefetching: all reads of memory that only bring data into the processor's cache before they are needed.
//!
//! Tables of a life-size world are larger than the processor's caches. What will be needed is read ahead in groups, as the
//! processor fetches a group in parallel, and what is read is thrown away ([`touch`]): results do not depend on it. Five walks do
//! so, each as far ahead as its constant here says:
//! - `engine/look_ahead.rs`: the leaves of a session's next keys;
//! - `engine/pool.rs`: the leaves in the frames that the clock's hand and the checkpoint come to next;
//! - `engine/io.rs`: the neighbours of a page that is written;
//! - `flash/ftl.rs`: the blocks whose pages a write replaces;
//! - `flash/ftl/garbage_collection.rs`: the pages of blocks about to be collected.
//!
//! Without the first, the second and the fourth, a run of article A with 8 files takes a quarter more CPU time.

/// Keys of a session that are looked up together.
pub(crate) const KEYS: usize = 8;

/// Frames whose leaves are looked up together.
pub(crate) const FRAMES: usize = 16;

/// The number of a page's neighbours on disk, before and behind, whose leaf is looked up: those beside the nearest lie with it.
pub(crate) const NEIGHBOUR: u32 = 2;

/// Flash pages that are looked up together.
pub(crate) const FLASH_PAGES: usize = 32;

/// Most pages of blocks about to be collected that are looked up together; at least those of one block.
pub(crate) const COLLECTED_PAGES: u32 = 1024;

/// Entries of a map per line of the processor's cache.
pub(crate) const LINE: usize = 16;

/// Reads values, and throws them away.
#[inline(always)]
pub(crate) fn touch(values: impl Iterator<Item = u32>) {
    let all = values.fold(0, |all, value| all ^ value);
    std::hint::black_box(all); // otherwise the compiler would drop the unused reads
}
