//! A block of runs, as Python sees it: one crossing per run, during which signals and progress are polled.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use storagelab_sim::{Block as Runs, Refusal, Scenario, Step};

use crate::crossing::{broken_off, make_beside, make_next};

create_exception!(_sim, Refused, PyValueError);

/// Runs made one after the other on one set of drives.
#[pyclass(module = "storagelab._sim")]
pub(crate) struct Block {
    /// `None` once a run was broken off, as the state of its drives is then unusable.
    runs: Option<Runs>,
}

#[pymethods]
impl Block {
    /// Starts with new drives, or with those of `state` after its first `runs_done` runs.
    #[new]
    #[pyo3(signature = (scenario, runs_done = 0, state = None))]
    fn new(py: Python<'_>, scenario: &str, runs_done: usize, state: Option<Vec<Vec<u8>>>) -> PyResult<Self> {
        let scenario = read(py, scenario)?;
        let made = make_beside(py, move || match state {
            Some(drives) => Runs::resume(scenario, runs_done, &drives),
            None => Runs::new(scenario),
        })?;
        let runs = made.map_err(|refusal| refusal_error(py, &refusal))?;
        Ok(Self { runs: Some(runs) })
    }

    /// How many runs have been made.
    #[getter]
    fn runs_done(&self) -> PyResult<usize> {
        Ok(self.whole()?.runs_done())
    }

    /// Makes the next run and returns its outcome as JSON; `None` when no run is left.
    #[pyo3(signature = (progress = None))]
    fn run_next(&mut self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
        let told = |step: Step| step.rows;
        make_next(py, &mut self.runs, progress, told, |runs, glance| runs.run_next(glance))
    }

    /// The drives as bytes, in the order of their names.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let runs = self.whole()?;
        let drives = py.detach(|| runs.save_drives());
        Ok(drives.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }
}

impl Block {
    fn whole(&self) -> PyResult<&Runs> {
        self.runs.as_ref().ok_or_else(broken_off)
    }
}

/// Says what can't be run, without running it.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, scenario: &str) -> PyResult<()> {
    let scenario = read(py, scenario)?;
    py.detach(|| scenario.check())
        .map_err(|refusal| refusal_error(py, &refusal))
}

fn read(py: Python<'_>, scenario: &str) -> PyResult<Scenario> {
    serde_json::from_str(scenario).map_err(|error| refused(py, "scenario", &error.to_string()))
}

/// Its `place` and `what` are attributes too, so that Python can word them in the spec's terms.
pub(crate) fn refused(py: Python<'_>, place: &str, what: &str) -> PyErr {
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
