//! Hints that change only the speed of a run.
//!
//! To the compiler, for rarely true conditions: it moves their code aside, so that the usual case is contiguous.
//! The benefit of all hints, measured on article A with 8 files (instructions counted by callgrind, CPU time in pairs):
//! without `rare`, `put` and every `inline` attribute a run takes 25 % more instructions; without the plain `#[inline]` alone
//! it takes 9 % more.
//!
//! To the processor: all reads of memory that only bring data into the processor's cache before they are needed.
//!
//! Tables of a life-size world are larger than the processor's caches. Needed data are read ahead in groups, because
//! the processor fetches a group in parallel. The values are discarded ([`touch`]), so results do not depend on them.
//! Five walks read ahead, each by its constant here:
//! - `engine/look_ahead.rs`: the leaves of a session's next keys;
//! - `engine/pool.rs`: the leaves in the frames that the clock's hand and the checkpoint come to next;
//! - `engine/io.rs`: the neighbours of a page that is written;
//! - `flash/ftl.rs`: the blocks whose pages a write replaces;
//! - `flash/ftl/garbage_collection.rs`: the pages of blocks about to be collected.
//!
//! Without the first, the second and the fourth, a run of article A with 8 files takes a quarter more CPU time.

/// Does nothing, at a place that the compiler treats as unlikely.
#[cold]
const fn aside() {}

/// Marks `condition` as hardly ever true.
#[inline(always)]
pub(crate) const fn rare(condition: bool) -> bool {
    if condition {
        aside();
    }
    condition
}

/// Appends `value` to a list that hardly ever has to grow.
#[inline(always)]
pub(crate) fn put<T>(list: &mut Vec<T>, value: T) {
    if rare(list.len() == list.capacity()) {
        list.reserve(1);
    }
    list.push(value);
}

/// Keys of a session that are looked up together.
pub(crate) const KEYS: usize = 8;

/// Frames whose leaves are looked up together.
pub(crate) const FRAMES: usize = 16;

/// Which of a page's neighbours on disk, before and behind, is looked up. The leaves of the nearest ones lie with it.
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
