//! Volumes: one address space over any drives, and one way to request an I/O for all kinds of drives.
//!
//! Modules, from the ground up; each knows only those above it in this list:
//! - [`device`]: a drive of either kind ([`Device`]), and a request to it or to a volume ([`Request`]);
//! - [`stripe`]: where a byte of a volume lies on its drives ([`StripeMap`]), for every RAID level;
//! - [`parity`]: the reads and writes that a write to RAID-5 needs;
//! - [`cache`]: the controller's write-back cache, with no idea of time;
//! - [`link`]: the network between host and array;
//! - [`flash_use`]: what flash drives were given to write, and how full they are;
//! - [`failure`]: why a volume no longer answers; [`config`]: a volume's part of a scenario, and its checks;
//! - [`array`]: all of it over time ([`Volume`]).
//!
//! # One way to request
//! [`Volume::submit`] takes the time, a request and a token. If all parts below can compute ahead (flash drives, alone,
//! striped or mirrored; room in a cache), the answer is [`Answer::Done`] with the final time of completion. Otherwise,
//! it is [`Answer::Pending`]. Then [`Volume::next_event`] says when to call the volume next. [`Volume::advance`],
//! called at that time, gives the tokens of the completed requests. The caller needs one event per volume, and none for
//! a volume of flash drives.

pub mod array;
mod cache;
pub mod config;
mod device;
mod failure;
mod flash_use;
mod link;
mod parity;
#[cfg(test)]
pub(crate) mod repeat;
mod stripe;

pub use array::{Answer, Counters, Volume};
pub use config::VolumeChoice;
pub use device::{Device, DeviceParameters, Kind, Request};
pub use failure::Failure;
pub use flash_use::FlashUse;
pub use stripe::StripeMap;
