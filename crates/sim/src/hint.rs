//! What is rarely so: the compiler puts the code for it aside, and the processor reads what happens all the time in one piece.
//!
//! A step of a simulation runs through many rooms and comes back to each only after it has been through all others: on the
//! processor where it was counted, a third of what could have been done was not done as the instructions were not there yet.
//! Nothing but the speed depends on these hints.

/// Does nothing, in a place to which the compiler expects not to come.
#[cold]
const fn aside() {}

/// Says that `condition` is hardly ever true.
#[inline(always)]
pub(crate) const fn rare(condition: bool) -> bool {
    if condition {
        aside();
    }
    condition
}

/// Puts `value` to the end of a list that hardly ever has to grow.
#[inline(always)]
pub(crate) fn put<T>(list: &mut Vec<T>, value: T) {
    if rare(list.len() == list.capacity()) {
        list.reserve(1);
    }
    list.push(value);
}
