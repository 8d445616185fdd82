//! Tests of the simulator as a whole, from its JSON. One program and not one a file: linking is the longest part.

mod devices;
mod engine;
mod golden;
mod raw_io;
mod volumes;
mod workloads;
pub(crate) mod world;
mod worlds;
