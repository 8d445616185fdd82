//! A mechanical disk: an arm that seeks, rotating platters, and a queue that the disk serves in its own order.
//!
//! Modules, from the lowest to the highest. Each uses only modules above it in this list:
//! - [`seek`]: the time of a seek by its distance, from three published figures;
//! - [`places`]: the position of a byte on the platters, in zones whose tracks become shorter inwards;
//! - [`parameters`]: plain integers that say how one disk behaves; [`profile`]: the same as data, each with its source;
//! - [`drive`]: the disk over time ([`Disk`]).
//!
//! Unlike a flash drive, a disk can't say at once when a request will be done, because a later request may be served
//! first. So [`Disk::submit`] only accepts a request, [`Disk::next_event`] returns the time of the next event, and
//! [`Disk::finish`] must be called then. A disk without requests has no event and costs no time.
//!
//! Not modelled: a write cache inside the disk (arrays and servers turn it off, because a power failure would lose
//! acknowledged data), read-ahead for more than one stream at once, and sectors that were moved elsewhere.

pub mod drive;
pub mod parameters;
pub mod places;
pub mod profile;
pub mod seek;

pub use drive::{Counters, Disk};
pub use parameters::{Order, Parameters};
pub use profile::DiskProfile;
