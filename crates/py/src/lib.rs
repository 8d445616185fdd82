//! `storagelab._sim`: the only interface between Rust and Python. It only converts arguments and results.
//! `src/storagelab/_sim.pyi` describes it for Python.

mod block;
mod crossing;

use std::path::PathBuf;

use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use storagelab_sim::Rng;
use storagelab_sim::replay::Replay;

/// The simulator of storagelab, in Rust.
#[pymodule]
mod _sim {
    #[pymodule_export]
    use super::{declared, permutation, replay, stream_seed, version};
    #[pymodule_export]
    use crate::block::{Block, RawBlock, Refused, check, check_raw, resolved};
}

/// Returns the version of the extension. It is the same as the package's.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns the declarations of all parameters of the model, as JSON.
#[pyfunction]
fn declared() -> PyResult<String> {
    serde_json::to_string(&storagelab_sim::declarations()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Returns the seed of the random stream named `stream`, derived from `seed`.
#[pyfunction]
fn stream_seed(seed: u64, stream: &str) -> u64 {
    storagelab_sim::stream_seed(seed, stream)
}

/// Returns the integers from 0 to n - 1 in the random order that stream `stream` of `seed` determines.
#[pyfunction]
fn permutation(py: Python<'_>, seed: u64, stream: &str, n: u32) -> PyResult<Vec<u32>> {
    let mut items = Vec::new();
    items
        .try_reserve_exact(n as usize)
        .map_err(|_| PyMemoryError::new_err(format!("no memory for a permutation of {n} items")))?;
    py.detach(|| {
        items.extend(0..n);
        Rng::stream(seed, stream).shuffle(&mut items);
    });
    Ok(items)
}

/// Sends the requests of a trace to files. Returns what was sent, as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's list becomes one of ours")]
fn replay(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    bytes_each: u64,
    flags: i32,
    threads: usize,
    trace: &str,
) -> PyResult<String> {
    py.detach(|| {
        let trace: Replay = serde_json::from_str(trace).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let sent = storagelab_replay::send(&paths, bytes_each, flags, threads, &trace).map_err(PyOSError::new_err)?;
        serde_json::to_string(&sent).map_err(|error| PyValueError::new_err(error.to_string()))
    })
}
