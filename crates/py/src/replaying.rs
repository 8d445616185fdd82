//! The replay of a trace on a real file, as Python sees it.

use std::path::Path;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use storagelab_sim::replay::Replay;

/// Sends a trace to a file: what was sent, as JSON.
#[pyfunction]
pub(crate) fn replay(py: Python<'_>, path: &str, flags: i32, threads: usize, trace: &str) -> PyResult<String> {
    py.detach(|| {
        let trace: Replay = serde_json::from_str(trace).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let sent = storagelab_replay::send(Path::new(path), flags, threads, &trace).map_err(PyOSError::new_err)?;
        serde_json::to_string(&sent).map_err(|error| PyValueError::new_err(error.to_string()))
    })
}
