//! The simulator of storagelab, as a library independent of Python, the clock and files.
//!
//! Everything in it is a function of its arguments: the same scenario and seed give the same bytes, in a debug or a
//! release build, in this process or another.
#![forbid(unsafe_code)]
#![allow(
    clippy::inline_always,
    reason = "what is called a million times a run, and stayed a call without: a twentieth of all time, as measured"
)]

pub mod disk;
pub mod engine;
pub mod flash;
mod hint;
pub mod kernel;
pub mod outcome;
mod rack;
pub mod raw_io;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod sqlos;
pub mod volume;
mod words;
