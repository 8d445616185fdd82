//! A mechanical disk: an arm that seeks, platters that turn, and a queue with its own service order.
//!
//! Rooms, from the ground up; each knows only those above it in this list:
//! - [`seek`]: how long the arm takes by distance, from three published figures;
//! - [`places`]: where on the platters a byte lies, in zones of ever shorter tracks;
//! - [`parameters`]: plain integers that say how one disk behaves; [`profile`]: the same as data, each with its source;
//! - [`drive`]: all of it in time ([`Disk`]).
//!
//! Unlike a flash drive, a disk can't say at once when a request will be done, because a later request may overtake it.
//! So [`Disk::submit`] only accepts a request, [`Disk::next_event`] says when something is due, and [`Disk::finish`] is
//! called at that time. A disk without a queue has no event and costs nothing.
//!
//! Not modelled: a write cache inside the disk (arrays and servers turn it off, because it could lose acknowledged
//! data), read-ahead for more than one stream at once, and remapped sectors.

pub mod drive;
pub mod parameters;
pub mod places;
pub mod profile;
pub mod seek;

pub use drive::{Counters, Disk};
pub use parameters::{Order, Parameters};
pub use profile::DiskProfile;
