//! Tests of schedulers, latches, events and accounts in one file each, and tests of random programs.

mod books;
mod events;
mod latches;
mod programs;
mod schedulers;

use std::cell::RefCell;

use super::{Config, Machine, Notice, Progress, Sqlos};
use crate::kernel::{Ns, TIME_LIMIT_NS};

/// A configuration with small numbers that are easy to follow: a quantum of 100 ns, and completions noticed at once.
fn small(schedulers: u32) -> Config {
    Config {
        quantum_ns: 100,
        notice: Notice::AtOnce,
        ..Config::new(schedulers)
    }
}

/// What happened at which time, in words.
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

/// Runs the machine until its sessions have ended. Returns that time.
fn run(machine: &mut Machine<'_>) -> Ns {
    let progress = machine.run_until(TIME_LIMIT_NS - 1);
    assert_eq!(progress, Ok(Progress::Finished));
    machine.os.now()
}
