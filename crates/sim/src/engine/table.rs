//! The table of a run: its index, its files, and its pages in memory. It is empty, or was filled in an earlier phase.

use super::Failure;
use super::files::{Files, Layout};
use super::geometry::Geometry;
use super::pool::Pool;
use super::tree::Tree;
use crate::rng::Rng;
use crate::scenario::{RunPlan, Scenario};

/// A table at rest. No I/O is in progress, and no worker waits.
#[derive(Debug)]
pub struct Table {
    pub(super) tree: Tree,
    pub(super) files: Files,
    pub(super) pool: Pool,
    /// Why the table could not be filled, if that failed.
    pub(super) failure: Option<Failure>,
}

impl Table {
    /// Makes a table of one empty page.
    ///
    /// # Panics
    /// Panics if the scenario was not checked.
    #[must_use]
    pub fn empty(scenario: &Scenario, run: &RunPlan, layout: &Layout) -> Self {
        let mut files = Files::new(Geometry::new(scenario.scale), layout);
        files.take_extent(0);
        let root_page = files.take_page(0);
        let root = files.leaf_on(root_page).expect("its extent was taken");
        let frames = u32::try_from(scenario.pool_pages()).expect("the scenario was checked");
        let mut pool = Pool::new(frames);
        let frame = pool.take_free().expect("a pool has frames");
        pool.fill(frame, root);
        let leaves = run.workload.kind.leaves(run.workload.table_rows(scenario.scale));
        let leaves = usize::try_from(leaves).unwrap_or(0);
        Self {
            tree: Tree::new(root, leaves, Rng::stream(run.seed, "splits")),
            files,
            pool,
            failure: None,
        }
    }

    /// Returns the table after its writes in progress are done.
    pub(super) fn rest(mut self) -> Self {
        self.tree.end_writes();
        self.pool.end_evictions();
        self
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tree.rows()
    }
}
