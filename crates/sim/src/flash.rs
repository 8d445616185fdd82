//! A flash drive: its page map, the cost of cleaning, the times of its operations, and its history.
//!
//! Rooms, from the ground up; each knows only those above it in this list:
//! - `victims`: closed blocks in the order in which they will be cleaned;
//! - [`ftl`]: the page map ([`Ftl`]), its cleaning and its counters, with no idea of time;
//! - [`state`]: that map as bytes, and back;
//! - [`age`]: a drive that has seen years of writes, in a second;
//! - [`parameters`]: plain integers that say how one drive behaves; [`profile`]: the same as data, each with its source;
//! - [`mapping_ram`]: how much of the host's memory the map takes when the host keeps it;
//! - `dies`: until when each die is busy; [`request`]: the requests to a drive, and its counters;
//! - [`drive`]: all of it over time ([`Drive`]).
//!
//! Everything is synchronous: [`Drive::submit`] takes the time of a request and returns the time of its completion, so
//! any event loop can drive it. Times are nanoseconds since the last [`Drive::rest`], pages are flash pages.
//!
//! ```
//! use storagelab_sim::flash::{Age, Drive, DriveProfile, Op, Setup};
//! use storagelab_sim::rng::Rng;
//!
//! # fn story(profile: &DriveProfile) -> Result<(), Box<dyn std::error::Error>> {
//! let setup = Setup {
//!     format: "basic".into(),
//!     driver: "2.2.3".into(),
//!     sector_bytes: 512,
//!     scale: 64,
//!     trim: None,           // as the profile says
//!     host_ram_bytes: None, // as much as its map likes
//!     log_delay_ns: 0,
//! };
//! let mut drive = Drive::new(profile.parameters(&setup)?, Rng::stream(1, "drive"))?;
//!
//! // A drive that has been full, and written at random, for years:
//! let addresses = drive.parameters().shape.logical_pages;
//! let free_blocks = drive.parameters().cleaning.stop_blocks;
//! drive.age(Age::Steady { addresses, free_blocks }, &mut Rng::stream(1, "age"))?;
//!
//! let before = drive.counters();
//! let written = drive.submit(0, Op::Write { page: 17, pages: 4 })?;
//! let logged = drive.submit(10_000, Op::WriteBytes { offset: 9 * 8192, bytes: 1024 })?;
//! let read = drive.submit(20_000, Op::Read { page: 17, pages: 1 })?;
//! assert!(read > 20_000 && written > 0 && logged > 10_000);
//! println!("write amplification {:.2}", drive.counters().since(&before).ftl.write_amplification());
//!
//! // Put away until the next run, and taken up again:
//! let bytes = drive.save();
//! let drive = Drive::load(profile.parameters(&setup)?, &bytes, Rng::stream(2, "drive"))?;
//! # Ok(())
//! # }
//! # let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/storagelab/profiles/iodrive-320.toml"));
//! # story(&toml::from_str(text).unwrap()).unwrap();
//! ```

pub mod age;
mod dies;
pub mod drive;
pub mod ftl;
pub mod mapping_ram;
pub mod parameters;
pub mod profile;
pub mod request;
pub mod state;
pub mod victims;

pub use age::Age;
pub use drive::Drive;
pub use ftl::{FlashPage, Ftl, FtlCounters, Observer, Shape, Streams};
pub use mapping_ram::MappingRam;
pub use parameters::Parameters;
pub use profile::{DriveProfile, Figure, Label, Setup};
pub use request::{Counters, Offline, Op};
pub use state::StateError;
pub use victims::VictimPolicy;
