//! A block: runs made one after another on the same drives, whose state is kept from run to run. Runs of the engine and
//! tests of raw I/O are two kinds of blocks ([`Work`]).

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::outcome::{DriveOutcome, VolumeOutcome};
use crate::rack::Rack;
use crate::scenario::{DriveChoice, Prepared, Refusal, VolumeChoice};
use crate::volume::Volume;

/// The reason why a block could not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// The scenario can't be run.
    Refused(Refusal),
    /// The caller asked to stop the run.
    Interrupted,
    /// The simulator found a contradiction in itself, which is a defect. The text describes it.
    Defect(String),
}

impl std::fmt::Display for BlockError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(formatter),
            Self::Interrupted => write!(formatter, "interrupted"),
            Self::Defect(what) => write!(formatter, "a defect of the simulator: {what}"),
        }
    }
}

impl std::error::Error for BlockError {}

impl From<Refusal> for BlockError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The drives and volumes of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Hardware<'s> {
    pub(crate) drives: &'s BTreeMap<String, DriveChoice>,
    pub(crate) volumes: &'s BTreeMap<String, VolumeChoice>,
    pub(crate) scale: u32,
    pub(crate) seed: u64,
}

/// A function that is called several times during a run, and may stop it.
pub type Progress<'p, Step> = &'p mut dyn FnMut(Step) -> ControlFlow<()>;

/// What happens to the previous run's files before a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Before {
    /// The drives are formatted.
    Format,
    /// The files are deleted.
    Delete,
    /// The run uses them.
    Keep,
}

/// A scenario: hardware, and the runs to make on it.
pub trait Work {
    /// The result of a run.
    type Outcome;
    /// The progress of a run.
    type Step;
    /// What the phase that fills tables passes to the measured phase, in addition to the drives' state.
    type Filled: Default;

    /// Checks whether the scenario can be run.
    ///
    /// # Errors
    /// Returns the first thing that is wrong, and how to solve it.
    fn check(&self) -> Result<(), Refusal>;

    /// Returns the drives and volumes.
    fn hardware(&self) -> Hardware<'_>;

    /// Returns the history of flash drives that declare none themselves, or `None` if these are freshly formatted.
    fn prepared(&self) -> Option<Prepared>;

    /// Returns the seed of a run, and what happens to the files before it. Returns `None` if there is no such run.
    fn start_of(&self, run: usize) -> Option<(u64, Before)>;

    /// Returns whether a run begins with a phase that fills tables.
    fn fills(&self, _run: usize) -> bool {
        false
    }

    /// Runs the phase that fills tables, and returns the volumes.
    fn fill(
        &self,
        _run: usize,
        volumes: Vec<Volume>,
        _progress: Progress<'_, Self::Step>,
    ) -> (Vec<Volume>, Result<Self::Filled, BlockError>) {
        (volumes, Ok(Self::Filled::default()))
    }

    /// Runs the measured phase, and returns the volumes.
    fn make(
        &self,
        run: usize,
        filled: Self::Filled,
        volumes: Vec<Volume>,
        every_io: bool,
        progress: Progress<'_, Self::Step>,
    ) -> (Vec<Volume>, Result<Self::Outcome, BlockError>);

    /// Adds the counters of drives and volumes to an outcome.
    fn add(outcome: &mut Self::Outcome, drives: Vec<DriveOutcome>, volumes: Vec<VolumeOutcome>);
}

/// A block: a scenario, its drives, and the number of the next run.
#[derive(Debug)]
pub struct BlockOf<W> {
    pub(crate) scenario: W,
    rack: Rack,
    next_run: usize,
    every_io: bool,
}

impl<W: Work> BlockOf<W> {
    /// Makes a block with new drives. They are freshly formatted unless they have a history.
    ///
    /// # Errors
    /// Returns what the scenario's check refuses.
    pub fn new(scenario: W) -> Result<Self, Refusal> {
        scenario.check()?;
        let hardware = scenario.hardware();
        let mut rack = Rack::new(hardware)?;
        rack.prepare(hardware.seed, scenario.prepared())?;
        Ok(Self::around(scenario, rack, 0))
    }

    /// Continues a block after its first `runs_done` runs, with the drives that [`BlockOf::save_drives`] wrote.
    ///
    /// # Errors
    /// Returns what the scenario's check refuses, or that the bytes are not these drives.
    pub fn resume(scenario: W, runs_done: usize, saved: &[Vec<u8>]) -> Result<Self, Refusal> {
        scenario.check()?;
        let rack = Rack::load(scenario.hardware(), saved)?;
        Ok(Self::around(scenario, rack, runs_done))
    }

    const fn around(scenario: W, rack: Rack, next_run: usize) -> Self {
        Self {
            scenario,
            rack,
            next_run,
            every_io: false,
        }
    }

    /// Returns the state of each drive as bytes, in the order of their names. [`BlockOf::resume`] reads it.
    #[must_use]
    pub fn save_drives(&self) -> Vec<Vec<u8>> {
        self.rack.save()
    }

    /// Checks the mapping tables of the drives.
    ///
    /// # Errors
    /// Returns the first rule that is broken.
    #[cfg(test)]
    pub fn check_drives(&self) -> Result<(), String> {
        self.rack.check()
    }

    /// Sets whether outcomes list every I/O.
    pub const fn list_every_io(&mut self, every_io: bool) {
        self.every_io = every_io;
    }

    /// The number of runs that have been made.
    #[must_use]
    pub const fn runs_done(&self) -> usize {
        self.next_run
    }

    /// Makes the next run, or returns `None` if all have been made. `progress` is called meanwhile and may stop it.
    ///
    /// # Errors
    /// Returns [`BlockError::Interrupted`] if `progress` stopped the run. The block is then unusable.
    pub fn run_next(
        &mut self,
        mut progress: impl FnMut(W::Step) -> ControlFlow<()>,
    ) -> Result<Option<W::Outcome>, BlockError> {
        let run = self.next_run;
        let Some((seed, before)) = self.scenario.start_of(run) else {
            return Ok(None);
        };
        self.next_run += 1;
        self.rack.rest(seed, before);
        let filled = self.fill(run, seed, &mut progress)?;
        let before = self.rack.counters();
        let mut volumes = self.rack.lend()?;
        self.rack.schedule_losses(&mut volumes);
        let (volumes, made) = self.scenario.make(run, filled, volumes, self.every_io, &mut progress);
        let volumes = self.rack.take_back(volumes);
        let mut outcome = made?;
        W::add(&mut outcome, self.rack.outcomes(&before), volumes);
        Ok(Some(outcome))
    }

    /// Fills tables if the run begins with that. Afterwards the drives are at rest, and this work is not counted.
    fn fill(&mut self, run: usize, seed: u64, progress: Progress<'_, W::Step>) -> Result<W::Filled, BlockError> {
        if !self.scenario.fills(run) {
            return Ok(W::Filled::default());
        }
        let volumes = self.rack.lend()?;
        let (volumes, filled) = self.scenario.fill(run, volumes, progress);
        self.rack.take_back(volumes);
        self.rack.settle(seed);
        filled
    }
}
