//! A flash drive: its page map, the cost of garbage collection, the times of its operations, and its history.
//!
//! Modules, from the lowest to the highest. Each uses only modules above it in this list:
//! - `victims`: closed blocks in the order in which they will be collected;
//! - [`ftl`]: the page map ([`Ftl`]), its garbage collection and its counters, without times;
//! - [`state`]: converts that map to bytes, and back;
//! - [`age`]: puts a drive into the state that years of writes would leave, within a second;
//! - [`parameters`]: one drive's behaviour as plain integers; [`profile`]: the same as data, each with its source;
//! - `map_cache`: the part of the map that a drive with little memory caches;
//! - [`mapping_ram`]: the amount of host memory for the map, if the host keeps it;
//! - `dies`: the time until which each die is busy; [`request`]: the requests to a drive, and its counters;
//! - [`drive`]: the drive over time ([`Drive`]).
//!
//! All functions are synchronous. [`Drive::submit`] takes the time of a request and returns the time of its completion,
//! so it works with any event loop. Times are nanoseconds since the last [`Drive::rest`]. Pages are flash pages.

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

/// The parts that the benchmark of this model measures.
#[cfg(feature = "internals")]
pub mod internals {
    pub use super::Age;
    pub use super::ftl::{Ftl, Shape, Streams};
    pub use super::victims::VictimPolicy;
}
