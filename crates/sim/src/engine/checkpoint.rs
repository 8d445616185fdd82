//! The checkpoint: once per period it writes all dirty pages, in the order of their frames.

use std::cell::Cell;

use super::Engine;
use super::ios::Why;
use super::leaf::{Leaf, flag};
use super::resource::LABEL_CHECKPOINT;
use crate::kernel::{MS, Ns};
use crate::scenario::Costs;
use crate::sqlos::{Semaphore, Sqlos, WaitType};

/// Constants of the checkpoint. No profile contains them.
pub(crate) mod constants {
    crate::figures::constants! { "the server", default: false {
        checkpoint_latency_fades_ns: u64 = 80_000_000, Assumed,
            "In this time a pausing checkpoint's mean write time decays to 1/e, whatever the length of a pause";
        checkpoint_look_frames: u32 = 4096, Assumed,
            "The most frames that a checkpoint examines before its CPU time for that is charged";
        checkpoint_look_frame_ns: u64 = 1, Assumed,
            "CPU time to examine a frame: a byte of a table that is read in order";
        checkpoint_uncharged_writes: u32 = 8, Assumed,
            "The most writes that a checkpoint begins before their CPU time is charged";
    }}
}
use constants::{
    checkpoint_latency_fades_ns, checkpoint_look_frame_ns, checkpoint_look_frames, checkpoint_uncharged_writes,
};

/// The state of the checkpoint's writes.
#[derive(Debug)]
pub(super) struct Checkpoint<'w> {
    /// Limits the number of its writes in progress.
    permits: Semaphore<'w>,
    /// The mean duration of recent writes.
    latency_ns: Cell<Ns>,
}

impl<'w> Checkpoint<'w> {
    /// Makes the state before any write.
    pub(super) fn new(os: &'w Sqlos, costs: &Costs) -> Self {
        let most = u32::try_from(costs.checkpoint_writes.value).unwrap_or(u32::MAX);
        Self {
            permits: os.semaphore(most, LABEL_CHECKPOINT),
            latency_ns: Cell::new(0),
        }
    }

    /// Records that a write is done.
    pub(super) fn written(&self, took_ns: Ns) {
        let mean = self.latency_ns.get();
        self.latency_ns.set(mean - mean / 16 + took_ns / 16);
        self.permits.give();
    }

    /// Reduces the mean write time during a pause. A few long pauses reduce it as much as many short ones.
    fn forget(&self, pause_ns: Ns) {
        let (mean, fades_ns) = (self.latency_ns.get(), checkpoint_latency_fades_ns());
        let faded = u128::from(mean) * u128::from(pause_ns.min(fades_ns)) / u128::from(fades_ns);
        self.latency_ns.set(mean - u64::try_from(faded).unwrap_or(mean));
    }
}

impl Engine<'_> {
    /// Returns the CPU time of a write, including the driver's.
    pub(super) fn write_cpu_ns(&self) -> Ns {
        self.costs.write_cpu_ns.value + self.ios.most_driver_cpu_ns()
    }

    /// The worker of the checkpoint.
    pub(super) async fn run_checkpoints(&self) {
        let period_ns = (self.costs.checkpoint_period_ns.value / u64::from(self.scale)).max(1);
        let mut due_ns = period_ns;
        loop {
            self.os
                .until(due_ns.max(self.os.now() + 1), WaitType::CheckpointQueue)
                .await;
            due_ns = self.os.now() + period_ns;
            self.write_dirty_pages().await;
            self.counters.checkpoints.add(1);
        }
    }

    /// The worker that writes all pages after a phase that fills the table.
    pub(crate) async fn write_all_pages(&self) {
        let rows = self.workload.operations(self.scale);
        while self.operations_done() < rows {
            self.os.sleep(MS, WaitType::CheckpointQueue).await;
        }
        while self.tree.borrow().dirty() > 0 {
            self.write_dirty_pages().await;
            self.os.sleep(MS, WaitType::CheckpointQueue).await;
        }
    }

    /// Goes through the frames once and writes each page that is dirty at that time.
    async fn write_dirty_pages(&self) {
        let mut frame = 0;
        let mut uncharged = 0;
        while let Some((next, leaf)) = self.next_dirty(frame).await {
            frame = next;
            self.checkpoint_page(leaf, &mut uncharged).await;
        }
        self.charge_writes(&mut uncharged).await;
    }

    /// Charges the CPU time of the writes that were started since the last charge.
    async fn charge_writes(&self, uncharged: &mut u32) {
        let writes = u64::from(std::mem::take(uncharged));
        self.os.cpu(writes * self.write_cpu_ns()).await;
    }

    /// Returns the first dirty leaf in or after `frame`, and the number of the frame after it.
    async fn next_dirty(&self, mut frame: u32) -> Option<(u32, Leaf)> {
        loop {
            {
                let (pool, tree) = (self.pool.borrow(), self.tree.borrow());
                let end = pool.len().min(frame + checkpoint_look_frames());
                while frame < end {
                    pool.look_ahead(frame as usize, &tree);
                    let leaf = pool.leaf_in(frame);
                    frame += 1;
                    if leaf == Leaf::NONE {
                        continue;
                    }
                    let state = tree.state(leaf);
                    if state.is(flag::DIRTY) && !state.is(flag::BUSY) {
                        return Some((frame, leaf));
                    }
                }
                if end == pool.len() {
                    return None;
                }
            }
            let look_ns = u64::from(checkpoint_look_frames()) * checkpoint_look_frame_ns();
            self.os.cpu(look_ns).await;
        }
    }

    async fn checkpoint_page(&self, leaf: Leaf, uncharged: &mut u32) {
        let pause_ns = self.costs.checkpoint_pause_ns.value;
        while self.checkpoint.latency_ns.get() > self.costs.checkpoint_latency_ns.value {
            self.charge_writes(uncharged).await;
            self.os.sleep(pause_ns, WaitType::SleepBpoolFlush).await;
            self.checkpoint.forget(pause_ns);
        }
        let permits = &self.checkpoint.permits;
        if *uncharged >= checkpoint_uncharged_writes() || permits.free() == 0 {
            self.charge_writes(uncharged).await;
        }
        permits.take(WaitType::SleepBpoolFlush).await;
        if self.start_write(leaf, Why::Checkpoint, self.home()) == 0 {
            permits.give();
        }
        *uncharged += 1;
    }
}
