//! A block: runs made one after another on one set of drives, whose state carries over from run to run. Runs of the engine and
//! tests of raw I/O are blocks of two kinds of scenario ([`Work`]).

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
    /// The caller asked to stop.
    Interrupted,
    /// The simulator contradicts itself. This is a defect; the text has its observations.
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

/// A function that is called from time to time during a run, and may stop it.
pub type Progress<'p, Step> = &'p mut dyn FnMut(Step) -> ControlFlow<()>;

/// The fate of the previous run's files before a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Before {
    /// The drives are formatted.
    Format,
    /// The files are deleted.
    Delete,
    /// The run uses them.
    Keep,
}

/// A scenario: hardware, and runs to make on it.
pub trait Work {
    /// The result of a run.
    type Outcome;
    /// The progress of a run.
    type Step;
    /// The state that the phase that fills tables passes to the measured phase, in addition to the data on the drives.
    type Filled: Default;

    /// Refuses a scenario that can't be run, with a solution.
    ///
    /// # Errors
    /// The first thing that is wrong.
    fn check(&self) -> Result<(), Refusal>;

    /// The drives and volumes.
    fn hardware(&self) -> Hardware<'_>;

    /// The history of flash drives that have no history of their own; `None` for drives in their state after a format.
    fn prepared(&self) -> Option<Prepared>;

    /// The seed of a run, and the steps before it; `None` if there is no such run.
    fn start_of(&self, run: usize) -> Option<(u64, Before)>;

    /// Whether a run begins with a phase that fills tables.
    fn fills(&self, _run: usize) -> bool {
        false
    }

    /// Makes that phase, and returns the volumes.
    fn fill(
        &self,
        _run: usize,
        volumes: Vec<Volume>,
        _progress: Progress<'_, Self::Step>,
    ) -> (Vec<Volume>, Result<Self::Filled, BlockError>) {
        (volumes, Ok(Self::Filled::default()))
    }

    /// Makes the measured phase, and returns the volumes.
    fn make(
        &self,
        run: usize,
        filled: Self::Filled,
        volumes: Vec<Volume>,
        every_io: bool,
        progress: Progress<'_, Self::Step>,
    ) -> (Vec<Volume>, Result<Self::Outcome, BlockError>);

    /// Adds the work of drives and volumes to an outcome.
    fn add(outcome: &mut Self::Outcome, drives: Vec<DriveOutcome>, volumes: Vec<VolumeOutcome>);
}

/// A scenario in progress.
#[derive(Debug)]
pub struct BlockOf<W> {
    pub(crate) scenario: W,
    rack: Rack,
    next_run: usize,
    every_io: bool,
}

impl<W: Work> BlockOf<W> {
    /// New drives, freshly formatted, except drives that have a history.
    ///
    /// # Errors
    /// What the scenario's check says.
    pub fn new(scenario: W) -> Result<Self, Refusal> {
        scenario.check()?;
        let hardware = scenario.hardware();
        let mut rack = Rack::new(hardware)?;
        rack.prepare(hardware.seed, scenario.prepared())?;
        Ok(Self::around(scenario, rack, 0))
    }

    /// Resumes a block after its first `runs_done` runs, with its drives as [`BlockOf::save_drives`] wrote them.
    ///
    /// # Errors
    /// What the scenario's check says, or that the bytes are not such drives.
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

    /// All drives, in the order of their names, as bytes, with which a block can be resumed.
    #[must_use]
    pub fn save_drives(&self) -> Vec<Vec<u8>> {
        self.rack.save()
    }

    /// Checks the maps of the drives.
    ///
    /// # Errors
    /// The first thing that does not hold.
    #[cfg(test)]
    pub fn check_drives(&self) -> Result<(), String> {
        self.rack.check()
    }

    /// Sets whether outcomes list every I/O.
    pub const fn list_every_io(&mut self, every_io: bool) {
        self.every_io = every_io;
    }

    /// How many runs have been made.
    #[must_use]
    pub const fn runs_done(&self) -> usize {
        self.next_run
    }

    /// Makes the next run; nothing if all have been made. `progress` is called at intervals, and may stop the run.
    ///
    /// # Errors
    /// [`BlockError::Interrupted`] if it did; the block is of no use then. A run that failed is an outcome, not an error.
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

    /// Fills tables, if the run begins with this phase. Then the drives are at rest. The phase's work does not count.
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
