//! Tests of the simulator as a whole, with scenarios in JSON. They are one program, because linking takes so long.

mod devices;
mod engine;
mod golden;
mod raw_io;
mod volumes;
mod workloads;
pub(crate) mod world;
mod worlds;
