//! Hints that change only the speed of a run.
//!
//! Hints to the compiler mark conditions that are rarely true. The compiler moves their code aside, so that the code of
//! the usual case is contiguous. The benefit of all hints was measured on article A with 8 files (instructions counted
//! by callgrind, CPU time in pairs). Without `rare`, `put` and every `inline` attribute, a run takes 25 % more
//! instructions. Without only the plain `#[inline]`, it takes 9 % more.
//!
//! Hints to the processor are reads of memory that only bring data into the processor's cache before they are needed.
//!
//! Tables of a life-size world are larger than the processor's caches. So data that will be needed are read in groups,
//! because the processor fetches a group in parallel. The values are not used ([`touch`]), so results don't depend on
//! them. Five places in the code read ahead. A constant in this file sets how far each of them does:
//! - `engine/look_ahead.rs` reads the leaves of a session's next keys;
//! - `engine/pool.rs` reads the leaves in the next frames for the clock's hand and the checkpoint;
//! - `engine/io.rs` reads the neighbours of a page that is written;
//! - `flash/ftl.rs` reads the blocks whose pages a write replaces;
//! - `flash/ftl/garbage_collection.rs` reads the pages of blocks that will be collected next.
//!
//! Without the first, second and fourth of these, a run of article A with 8 files takes a quarter more CPU time.

/// Does nothing. The compiler treats a call of it as unlikely.
#[cold]
const fn aside() {}

/// Marks `condition` as rarely true.
#[inline(always)]
pub(crate) const fn rare(condition: bool) -> bool {
    if condition {
        aside();
    }
    condition
}

/// Appends `value` to a list that rarely has to grow.
#[inline(always)]
pub(crate) fn put<T>(list: &mut Vec<T>, value: T) {
    if rare(list.len() == list.capacity()) {
        list.reserve(1);
    }
    list.push(value);
}

/// The number of a session's keys that are looked up together.
pub(crate) const KEYS: usize = 8;

/// The number of frames whose leaves are looked up together.
pub(crate) const FRAMES: usize = 16;

/// The distance of the disk neighbours whose leaf is read. Nearer ones are in the same line of the cache.
pub(crate) const NEIGHBOUR: u32 = 2;

/// The number of flash pages that are looked up together.
pub(crate) const FLASH_PAGES: usize = 32;

/// The most pages of blocks to collect that are looked up together. At least one block is looked up.
pub(crate) const COLLECTED_PAGES: u32 = 1024;

/// The entries of a map in one line of the processor's cache.
pub(crate) const LINE: usize = 16;

/// Reads values without using them.
#[inline(always)]
pub(crate) fn touch(values: impl Iterator<Item = u32>) {
    let all = values.fold(0, |all, value| all ^ value);
    std::hint::black_box(all); // otherwise the compiler would drop the unused reads
}
