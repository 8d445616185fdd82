//! A flash drive: its page map, the cost of garbage collection, the times of its operations, and its history.
//!
//! Rooms, from the ground up; each knows only those above it in this list:
//! - `victims`: closed blocks in the order in which they will be collected;
//! - [`ftl`]: the page map ([`Ftl`]), its garbage collection and its counters, with no idea of time;
//! - [`state`]: that map as bytes, and back;
//! - [`age`]: a drive that has seen years of writes, in a second;
//! - [`parameters`]: plain integers that say how one drive behaves; [`profile`]: the same as data, each with its source;
//! - `map_cache`: the part of the map that a drive with little memory caches;
//! - [`mapping_ram`]: how much of the host's memory the map takes when the host keeps it;
//! - `dies`: until when each die is busy; [`request`]: the requests to a drive, and its counters;
//! - [`drive`]: all of it over time ([`Drive`]).
//!
//! Everything is synchronous: [`Drive::submit`] takes the time of a request and returns the time of its completion, so
//! any event loop can drive it. Times are nanoseconds since the last [`Drive::rest`], pages are flash pages.

mod age;
mod dies;
mod drive;
mod ftl;
mod map_cache;
mod mapping_ram;
mod parameters;
mod profile;
mod request;
mod state;
mod victims;

pub use age::Age;
pub use drive::Drive;
pub use ftl::FtlCounters;
pub use parameters::Parameters;
pub use profile::{DriveProfile, Setup};
pub use request::{Counters, Offline, Op};

/// What the bench of this model measures.
#[cfg(feature = "internals")]
pub mod internals {
    pub use super::Age;
    pub use super::ftl::{Ftl, Shape, Streams};
    pub use super::victims::VictimPolicy;
}
