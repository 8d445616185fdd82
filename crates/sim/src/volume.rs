//! Volumes: one address space over any drives, and one way to ask for an I/O whatever stands below.
//!
//! Rooms, from the ground up; each knows only those above it in this list:
//! - [`device`]: a drive of either kind ([`Device`]), and what can be asked of it and of a volume ([`Request`]);
//! - [`stripe`]: where a byte of a volume lies on its drives ([`StripeMap`]), for every RAID level;
//! - [`parity`]: which reads and writes a write to RAID-5 takes;
//! - [`cache`]: the controller's write-back cache, with no idea of time;
//! - [`link`]: the network between host and array;
//! - [`failure`]: why a volume answers nothing any more; [`config`]: what a scenario says of a volume, and what can't be;
//! - [`array`]: all of it in time ([`Volume`]).
//!
//! # One way to ask
//! [`Volume::submit`] takes the time, a request and a token. Where all that stands below can reckon ahead (flash drives, alone,
//! striped or mirrored; room in a cache), the answer is [`Answer::Done`] with the time of completion, and nothing more is
//! heard of it. Else it is [`Answer::Pending`]: [`Volume::next_event`] says when the volume wants to be called next, and
//! [`Volume::advance`], called then, gives the tokens of what is done at that time. The caller needs one event a volume, and
//! a volume of flash drives needs none.

pub mod array;
pub mod cache;
pub mod config;
pub mod device;
pub mod failure;
pub mod link;
pub mod parity;
#[cfg(test)]
pub(crate) mod repeat;
pub mod stripe;

pub use array::{Answer, Counters, Volume};
pub use config::{CacheChoice, LinkChoice, Loss, VolumeChoice};
pub use device::{Device, DeviceParameters, Kind, Request};
pub use failure::Failure;
pub use stripe::{Level, StripeMap};
