//! Volumes. A volume is one address space over any drives. All volumes accept I/O requests in the same way.
//!
//! Modules, from the lowest to the highest. Each uses only modules above it in this list:
//! - [`device`]: a drive of any kind ([`Device`]), and a request to a drive or to a volume ([`Request`]);
//! - [`stripe`]: the position of a volume's byte on its drives ([`StripeMap`]), for every RAID level;
//! - [`parity`]: the reads and writes that a write to RAID-5 needs;
//! - [`cache`]: the controller's write-back cache, without times;
//! - [`link`]: the network between host and array;
//! - [`flash_use`]: what was written to flash drives, and how full they are;
//! - [`failure`]: why a volume has failed; [`config`]: a volume's part of a scenario, and its checks;
//! - [`array`]: the volume over time ([`Volume`]).
//!
//! # Requests
//! [`Volume::submit`] takes the time, a request and a token. If the volume can compute the end of the request at once
//! (flash drives, alone, striped or mirrored; room in a cache), the answer is [`Answer::Done`] with the time of
//! completion, which does not change any more. Otherwise it is [`Answer::Pending`]. [`Volume::next_event`] then says
//! when to call [`Volume::advance`], which gives the tokens of the completed requests. The caller needs one event per
//! volume, and none for a volume of flash drives.

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
