//! Stories of schedulers, latches, events and books, one file each; then programs at random.

mod books;
mod events;
mod latches;
mod programs;
mod schedulers;

use std::cell::RefCell;

use super::{Config, Machine, Notice, Progress, Sqlos};
use crate::kernel::{Ns, TIME_LIMIT_NS};

/// So many cores, a quantum of 100 ns, and completions noticed at once: numbers small enough to follow by eye.
fn small(schedulers: u32) -> Config {
    Config {
        quantum_ns: 100,
        notice: Notice::AtOnce,
        ..Config::new(schedulers)
    }
}

/// What happened when, in words.
#[derive(Default)]
struct Log(RefCell<Vec<(Ns, String)>>);

impl Log {
    fn note(&self, os: &Sqlos, what: impl Into<String>) {
        self.0.borrow_mut().push((os.now(), what.into()));
    }

    fn assert(&self, expected: &[(Ns, &str)]) {
        let log = self.0.borrow();
        let log: Vec<(Ns, &str)> = log.iter().map(|(time_ns, what)| (*time_ns, what.as_str())).collect();
        assert_eq!(log, expected);
    }
}

/// Runs the machine until its sessions have ended, and says when that was.
fn run(machine: &mut Machine<'_>) -> Ns {
    let progress = machine.run_until(TIME_LIMIT_NS - 1);
    assert_eq!(progress, Ok(Progress::Finished));
    machine.os.now()
}
