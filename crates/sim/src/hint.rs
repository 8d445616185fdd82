//! Hints to the compiler for rarely true conditions: it moves their code aside, so that the usual case is contiguous.
//! Results do not depend on them.
//!
//! Tables of a life-size world are larger than the processor's caches, so what will be needed is read ahead, in groups, and the
//! processor fetches it in parallel. Five places do that: `engine/look_ahead.rs` looks up the keys of a session's next rows,
//! `engine/pool.rs` the leaves in the frames that the clock's hand and the checkpoint come to next, `engine/io.rs` the
//! neighbours of a page that is written, `flash/ftl.rs` the places of pages about to be written, and
//! `flash/ftl/garbage_collection.rs` those of blocks about to be collected. What is read is thrown away.
//!
//! The benefit of all hints, measured on article A with 8 files (instructions counted by callgrind, CPU time in pairs):
//! without `rare`, `put` and every `inline` attribute a run takes 25 % more instructions; without the plain `#[inline]` alone
//! it takes 9 % more; without the look ahead at keys, frames and blocks (`engine/look_ahead.rs`, `Pool::look_ahead`,
//! `Ftl::look_ahead`) it takes a quarter more time.

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
