//! The simulator of storagelab. This library depends neither on Python nor on the real clock or files.
//!
//! The results depend only on the arguments. The same scenario and seed give the same bytes in every process, in a
//! debug or a release build.
//!
//! A scenario is JSON. [`Block`] makes the runs of a [`Scenario`], [`RawBlock`] the tests of a [`RawScenario`]. Others
//! use only the names in this file: the modules are private, so that the compiler finds unused code.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use storagelab_sim::{RawBlock, RawScenario};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/storagelab/profiles/scsi-15k-300.toml"));
//! # let profile: serde_json::Value = toml::from_str(text)?;
//! let scenario = serde_json::json!({
//!     "scale": 1, "seed": 1,
//!     "drives": {"disk": {"profile": profile}}, // as in a profile's file
//!     "volumes": {"v": {"drives": ["disk"]}},
//!     "tests": [{
//!         "volume": "v", "access": "read", "pattern": "random", "block_bytes": 8192, "outstanding": 4,
//!         "duration_s": 2.0, "seed": 1,
//!     }],
//! });
//! let scenario: RawScenario = serde_json::from_value(scenario)?;
//! let mut block = RawBlock::new(scenario).map_err(|refusal| refusal.to_string())?;
//! let outcome = block.run_next(|_| ControlFlow::Continue(()))?.expect("one test");
//! assert!((150.0..500.0).contains(&outcome.ios_per_s));
//!
//! let drives = block.save_drives(); // keep these until the next test
//! # assert_eq!(drives.len(), 1);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::inline_always,
    reason = "what is called a million times a run, and stayed a call without: a twentieth of all time, as measured"
)]
#![allow(
    unreachable_pub,
    reason = "`pub` in a private module means the whole crate; what leaves the crate is named below"
)]
#![allow(
    clippy::struct_field_names,
    reason = "names end with their unit, and some structs have fields of one unit only"
)]
#![allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "a state in a table is asked where it lies, whatever its size"
)]

mod block;
mod declared;
mod devices;
mod disk;
mod engine;
mod figures;
mod flash;
mod hint;
mod kernel;
mod outcome;
mod rack;
mod raw_io;
mod rng;
mod run;
mod saved;
mod scenario;
mod sqlos;
#[cfg(test)]
mod tests;
mod trace;
mod volume;

pub use block::{Before, BlockError, BlockOf, Work};
pub use declared::{Declarations, declarations};
pub use outcome::RunOutcome;
pub use raw_io::{Latencies, LatencyTable, RawOutcome, RawScenario, RawStep, replay};
pub use rng::{Rng, stream_seed};
pub use run::Step;
pub use scenario::{Refusal, Scenario};

/// Runs of the engine.
pub type Block = BlockOf<Scenario>;

/// Tests of raw I/O.
pub type RawBlock = BlockOf<RawScenario>;

/// The parts that the benchmarks measure. Others must not use them.
#[cfg(feature = "internals")]
pub mod internals {
    pub use crate::flash::internals as flash;
    pub use crate::kernel::{Action, EventList, Executor, Kernel, Ns, Port};
    pub use crate::sqlos::{Config, LatchClass, Machine, Mode, Sqlos, WaitType};
}
