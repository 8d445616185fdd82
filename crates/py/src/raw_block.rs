//! A block of raw I/O tests, as Python sees it: one crossing per test, during which signals and progress are polled.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use storagelab_sim::{RawBlock as Tests, RawScenario, RawStep};

use crate::block::{refusal_error, refused};
use crate::crossing::{broken_off, make_beside, make_next};

/// Tests made one after the other on one set of drives.
#[pyclass(module = "storagelab._sim")]
pub(crate) struct RawBlock {
    /// `None` once a test was broken off, as the state of its drives is then unusable.
    tests: Option<Tests>,
}

#[pymethods]
impl RawBlock {
    /// Starts with drives prepared as the scenario says, or with those of `state` after its first `tests_done` tests.
    #[new]
    #[pyo3(signature = (scenario, tests_done = 0, state = None))]
    fn new(py: Python<'_>, scenario: &str, tests_done: usize, state: Option<Vec<Vec<u8>>>) -> PyResult<Self> {
        let scenario = read(py, scenario)?;
        let made = make_beside(py, move || match state {
            Some(drives) => Tests::resume(scenario, tests_done, &drives),
            None => Tests::new(scenario),
        })?;
        let tests = made.map_err(|refusal| refusal_error(py, &refusal))?;
        Ok(Self { tests: Some(tests) })
    }

    /// Makes the next test and returns its outcome as JSON; `None` when no test is left.
    #[pyo3(signature = (progress = None))]
    fn run_next(&mut self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
        // Progress is reported in simulated milliseconds.
        let told = |step: RawStep| step.at_ns / 1_000_000;
        make_next(py, &mut self.tests, progress, told, |tests, glance| {
            tests.run_next(glance)
        })
    }

    /// The drives as bytes, in the order of their names.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let tests = self.tests.as_ref().ok_or_else(broken_off)?;
        let drives = py.detach(|| tests.save_drives());
        Ok(drives.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }
}

/// Says which raw I/O can't be done, without doing any.
#[pyfunction]
pub(crate) fn check_raw(py: Python<'_>, scenario: &str) -> PyResult<()> {
    let scenario = read(py, scenario)?;
    py.detach(|| scenario.check())
        .map_err(|refusal| refusal_error(py, &refusal))
}

fn read(py: Python<'_>, scenario: &str) -> PyResult<RawScenario> {
    serde_json::from_str(scenario).map_err(|error| refused(py, "scenario", &error.to_string()))
}
