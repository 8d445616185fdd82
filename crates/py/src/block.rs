//! Classes for Python that make runs one by one. During a run, signals and progress are polled.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use storagelab_sim::{RawScenario, RawStep, Refusal, Scenario, Step};

use crate::crossing::{broken_off, make_beside, make_next};

create_exception!(_sim, Refused, PyValueError);

/// Declares the class of a kind of block. It takes the scenario's type, and the number that progress reports of a step.
macro_rules! block_class {
    ($(#[doc = $doc:literal])+ $class:ident, $core:ty, $scenario:ty, $progress_of:expr) => {
        $(#[doc = $doc])+
        #[pyclass(module = "storagelab._sim")]
        pub(crate) struct $class {
            /// `None` after a run was broken off, because the state of its drives can't be used then.
            runs: Option<$core>,
        }

        #[pymethods]
        impl $class {
            /// Makes a block with new drives, or continues one after `runs_done` runs with the saved drives in `state`.
            #[new]
            #[pyo3(signature = (scenario, runs_done = 0, state = None))]
            fn new(py: Python<'_>, scenario: &str, runs_done: usize, state: Option<Vec<Vec<u8>>>) -> PyResult<Self> {
                let scenario: $scenario = read(py, scenario)?;
                let made = make_beside(py, move || match state {
                    Some(drives) => <$core>::resume(scenario, runs_done, &drives),
                    None => <$core>::new(scenario),
                })?;
                let runs = made.map_err(|refusal| refusal_error(py, &refusal))?;
                Ok(Self { runs: Some(runs) })
            }

            /// The number of runs that have been made.
            #[getter]
            fn runs_done(&self) -> PyResult<usize> {
                self.runs.as_ref().map(<$core>::runs_done).ok_or_else(broken_off)
            }

            /// Makes the next run and returns its outcome as JSON, or `None` when no run is left. If `every_io`, the
            /// outcome lists every I/O.
            #[pyo3(signature = (progress = None, every_io = false))]
            fn run_next(
                &mut self,
                py: Python<'_>,
                progress: Option<&Bound<'_, PyAny>>,
                every_io: bool,
            ) -> PyResult<Option<String>> {
                make_next(py, &mut self.runs, progress, $progress_of, |runs, glance| {
                    runs.list_every_io(every_io);
                    runs.run_next(glance)
                })
            }

            /// Returns each drive's state as bytes, in the order of the drives' names.
            fn state<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
                let runs = self.runs.as_ref().ok_or_else(broken_off)?;
                let drives = py.detach(|| runs.save_drives());
                Ok(drives.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
            }
        }
    };
}

block_class! {
    /// Runs of the engine, made one after the other on one set of drives. Progress is in rows.
    Block, storagelab_sim::Block, Scenario, |step: Step| step.rows
}

block_class! {
    /// Tests of raw I/O, made one after the other on one set of drives. Progress is in simulated milliseconds.
    RawBlock, storagelab_sim::RawBlock, RawScenario, |step: RawStep| step.at_ns / 1_000_000
}

/// Raises `Refused` if the scenario can't be run. It runs nothing.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, scenario: &str) -> PyResult<()> {
    let scenario: Scenario = read(py, scenario)?;
    py.detach(|| scenario.check())
        .map_err(|refusal| refusal_error(py, &refusal))
}

/// Raises `Refused` if the raw I/O can't be done. It sends no I/O.
#[pyfunction]
pub(crate) fn check_raw(py: Python<'_>, scenario: &str) -> PyResult<()> {
    let scenario: RawScenario = read(py, scenario)?;
    py.detach(|| scenario.check())
        .map_err(|refusal| refusal_error(py, &refusal))
}

/// Returns a scenario as JSON, with all defaults filled in. `raw_io` says whether it is one of raw I/O or of runs.
#[pyfunction]
pub(crate) fn resolved(py: Python<'_>, scenario: &str, raw_io: bool) -> PyResult<String> {
    let json = if raw_io {
        serde_json::to_string(&read::<RawScenario>(py, scenario)?)
    } else {
        serde_json::to_string(&read::<Scenario>(py, scenario)?)
    };
    json.map_err(|error| refused(py, "scenario", &error.to_string()))
}

fn read<T: serde::de::DeserializeOwned>(py: Python<'_>, scenario: &str) -> PyResult<T> {
    serde_json::from_str(scenario).map_err(|error| refused(py, "scenario", &error.to_string()))
}

/// Makes a `Refused`. Its attributes `place` and `what` allow Python to word the message in the spec's terms.
fn refused(py: Python<'_>, place: &str, what: &str) -> PyErr {
    let error = Refused::new_err(format!("{place}: {what}"));
    let value = error.value(py);
    match value.setattr("place", place).and_then(|()| value.setattr("what", what)) {
        Ok(()) => error,
        Err(other) => other,
    }
}

pub(crate) fn refusal_error(py: Python<'_>, refusal: &Refusal) -> PyErr {
    refused(py, &refusal.place, &refusal.what)
}
