//! A call from Python into the simulator: a run or a test is made without the GIL. Meanwhile signals and progress are
//! polled.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde::Serialize;
use storagelab_sim::BlockError;

use crate::block::refusal_error;

/// The interval at which a run pauses so that Python can handle signals and show progress.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The stack size of the thread: as large as the stack of a process's main thread.
const STACK_BYTES: usize = 8 << 20;

/// Runs `make` on its own thread, so that Python can handle signals meanwhile, because it takes long to age large
/// drives. If a signal ends the wait, the thread keeps running but its result is dropped.
pub(crate) fn make_beside<Made: Send + 'static>(
    py: Python<'_>,
    make: impl FnOnce() -> Made + Send + 'static,
) -> PyResult<Made> {
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let maker = thread::Builder::new().stack_size(STACK_BYTES);
    let maker = maker.spawn(move || drop(sender.send(make())))?;
    loop {
        let (back, news) = py.detach(move || {
            let news = receiver.recv_timeout(LOOK_EVERY);
            (receiver, news)
        });
        receiver = back;
        match news {
            Ok(finished) => return Ok(finished),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let said = maker.join().err().map_or_else(String::new, |panic| words(&*panic));
                return Err(PyRuntimeError::new_err(format!("the drives could not be made: {said}")));
            }
        }
    }
}

/// Calls `next` with the world in `place` and returns the outcome as JSON, or `None` when nothing is left to make.
/// `progress_of` returns the number that progress reports for a step. If the run is broken off, the world is dropped,
/// because its drives can't be used.
pub(crate) fn make_next<World: Send, Step, Outcome: Serialize + Send>(
    py: Python<'_>,
    place: &mut Option<World>,
    progress: Option<&Bound<'_, PyAny>>,
    progress_of: fn(Step) -> u64,
    next: impl FnOnce(&mut World, &mut dyn FnMut(Step) -> ControlFlow<()>) -> Result<Option<Outcome>, BlockError> + Send,
) -> PyResult<Option<String>> {
    let mut world = place.take().ok_or_else(broken_off)?;
    let progress = progress.map(|heard| heard.clone().unbind());
    let mut stopped = None;
    let (world, made) = py.detach(|| {
        let mut looked = Instant::now();
        let mut glance = |step: Step| {
            if looked.elapsed() < LOOK_EVERY {
                return ControlFlow::Continue(());
            }
            looked = Instant::now();
            match Python::attach(|py| look(py, progress.as_ref(), progress_of(step))) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    stopped = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        // A failed assertion in the simulator must not end a campaign: only this block fails.
        let made = catch_unwind(AssertUnwindSafe(|| next(&mut world, &mut glance)));
        (
            world,
            made.unwrap_or_else(|panic| Err(BlockError::Defect(words(&*panic)))),
        )
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    let outcome = made.map_err(|error| match error {
        BlockError::Refused(refusal) => refusal_error(py, &refusal),
        other => PyRuntimeError::new_err(other.to_string()),
    })?;
    *place = Some(world);
    let json = outcome.map(|outcome| py.detach(move || serde_json::to_string(&outcome)));
    json.transpose()
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn look(py: Python<'_>, progress: Option<&Py<PyAny>>, done: u64) -> PyResult<()> {
    py.check_signals()?;
    progress.map_or(Ok(()), |heard| heard.call1(py, (done,)).map(drop))
}

/// Returns the message of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

pub(crate) fn broken_off() -> PyErr {
    PyRuntimeError::new_err("a run of this block was broken off, so its drives are of no use: make a new block")
}
