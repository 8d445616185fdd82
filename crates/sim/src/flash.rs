//! A flash drive: where its pages lie, what its cleaning costs, how long its operations take, and what it remembers.
//!
//! Rooms, from the ground up; each knows only those above it in this list:
//! - [`victims`]: closed blocks in the order in which they will be cleaned;
//! - [`ftl`]: the page map ([`Ftl`]), its cleaning and its counters, with no idea of time;
//! - [`state`]: that map as bytes, and back;
//! - [`age`]: a drive that has seen years of writes, in a second;
//! - [`parameters`]: plain integers that say how one drive behaves; [`profile`]: the same as data, each with its source;
//! - [`mapping_ram`]: how much of the host's memory the map takes when the host keeps it;
//! - [`drive`]: all of it in time ([`Drive`]).
//!
//! Everything is synchronous: [`Drive::submit`] takes the time of a request and returns the time of its completion, so
//! any event loop can drive it. Times are nanoseconds since the last [`Drive::rest`], pages are flash pages.

pub mod age;
pub mod drive;
pub mod ftl;
pub mod mapping_ram;
pub mod parameters;
pub mod profile;
pub mod state;
pub mod victims;

pub use age::Age;
pub use drive::{Counters, Drive, Offline, Op};
pub use ftl::{Ftl, FtlCounters, Observer, Shape, Streams};
pub use mapping_ram::MappingRam;
pub use parameters::Parameters;
pub use profile::{DriveProfile, Figure, Label, Setup};
pub use state::StateError;
pub use victims::VictimPolicy;
