//! The workers behind the sessions: checkpoint and lazy writer.

use super::Engine;
use super::add;
use super::io::Why;
use super::pool::Victim;
use super::tree::{NO_LEAF, flag};
use crate::kernel::Ns;
use crate::sqlos::WaitType;

/// Pages that the lazy writer lets go before it reckons up its CPU time, and how many frames it looks at for each at most.
const LAZY_BATCH: u32 = 16;
const LAZY_FRAMES: u32 = 1024;
/// How fast the checkpoint forgets how long its writes took while it pauses: to 1/e in this time, in steps of a pause.
const LATENCY_FADES_NS: Ns = 80 * crate::kernel::MS;
/// Frames that the checkpoint looks at in one go, at most.
const CHECKPOINT_FRAMES: u32 = 4096;
/// Pages that the checkpoint has written before it reckons up its CPU time, at most.
const CHECKPOINT_BATCH: u32 = 8;

/// So many thousandths of the pool, in pages.
pub(super) const fn part_of_pool(pages: u64, per_mille: u64) -> u64 {
    pages * per_mille / 1000
}

impl Engine<'_> {
    fn write_cpu_ns(&self) -> Ns {
        let drivers = self.drive_cpu_ns.iter().copied().max().unwrap_or(0);
        self.costs.write_cpu_ns.value + drivers
    }

    /// Writes all dirty pages, once a period, in the order of their frames.
    pub(super) async fn checkpoint(&self) {
        let period_ns = (self.costs.checkpoint_period_ns.value / u64::from(self.scale)).max(1);
        let mut due_ns = period_ns;
        loop {
            self.os
                .until(due_ns.max(self.os.now() + 1), WaitType::CheckpointQueue)
                .await;
            due_ns = self.os.now() + period_ns;
            let mut frame = 0;
            let mut uncharged = 0;
            while let Some((next, leaf)) = self.next_dirty(frame).await {
                frame = next;
                self.checkpoint_page(leaf, &mut uncharged).await;
            }
            self.charge_writes(&mut uncharged).await;
            add(&self.counters.checkpoints, 1);
        }
    }

    /// Spends the CPU time of writes that have been started.
    async fn charge_writes(&self, uncharged: &mut u32) {
        let writes = u64::from(std::mem::take(uncharged));
        self.os.cpu(writes * self.write_cpu_ns()).await;
    }

    /// The first dirty leaf in or after `frame`, and the frame after it.
    async fn next_dirty(&self, mut frame: u32) -> Option<(u32, u32)> {
        loop {
            {
                let (pool, tree) = (self.pool.borrow(), self.tree.borrow());
                let end = pool.len().min(frame + CHECKPOINT_FRAMES);
                while frame < end {
                    pool.look_ahead(frame as usize, &tree);
                    let leaf = pool.leaf_in(frame);
                    frame += 1;
                    if leaf != NO_LEAF && tree.states[leaf as usize].flags & (flag::DIRTY | flag::BUSY) == flag::DIRTY {
                        return Some((frame, leaf));
                    }
                }
                if end == pool.len() {
                    return None;
                }
            }
            self.os.cpu(u64::from(CHECKPOINT_FRAMES)).await;
        }
    }

    async fn checkpoint_page(&self, leaf: u32, uncharged: &mut u32) {
        while self.write_latency_ns.get() > self.costs.checkpoint_latency_ns.value {
            self.charge_writes(uncharged).await;
            self.os
                .sleep(self.costs.checkpoint_pause_ns.value, WaitType::SleepBpoolFlush)
                .await;
            self.forget_latency();
        }
        if *uncharged >= CHECKPOINT_BATCH || self.checkpoint_permits.free() == 0 {
            self.charge_writes(uncharged).await;
        }
        self.checkpoint_permits.take(WaitType::SleepBpoolFlush).await;
        if self.start_write(leaf, Why::Checkpoint, self.home()) == 0 {
            self.checkpoint_permits.give();
        }
        *uncharged += 1;
    }

    /// What was learnt of writes fades in a pause, as fast in a few long ones as in many short ones.
    fn forget_latency(&self) {
        let (mean, pause_ns) = (self.write_latency_ns.get(), self.costs.checkpoint_pause_ns.value);
        let faded = u128::from(mean) * u128::from(pause_ns.min(LATENCY_FADES_NS)) / u128::from(LATENCY_FADES_NS);
        self.write_latency_ns.set(mean - u64::try_from(faded).unwrap_or(mean));
    }

    /// Lets the lazy writer know that buffers are short, if they are.
    #[inline]
    pub(super) fn wake_lazy_writer(&self) {
        if u64::from(self.pool.borrow().free()) < self.lazy_low_pages {
            self.lazy_wake.set();
        }
    }

    /// Keeps buffers free: lets clean pages go, writes dirty ones.
    pub(super) async fn lazy_writer(&self) {
        loop {
            self.lazy_wake.reset();
            self.lazy_wake.wait(WaitType::LazyWriterSleep).await;
            let enough = part_of_pool(self.pool_pages(), self.costs.lazy_high_per_mille.value);
            while u64::from(self.pool.borrow().free()) < enough {
                if !self.lazy_batch(enough).await {
                    self.os.sleep(crate::kernel::MS, WaitType::LazyWriterSleep).await;
                }
            }
        }
    }

    /// Lets a few pages go, up to a dirty one, which is written; false if there was nothing to do.
    async fn lazy_batch(&self, enough: u64) -> bool {
        let mut looks = 0;
        let dirty = loop {
            if looks == LAZY_BATCH || u64::from(self.pool.borrow().free()) >= enough {
                break None;
            }
            looks += 1;
            let Some(victim) = self.next_victim() else { return false };
            if victim.dirty {
                break Some(victim);
            }
            add(&self.counters.evicted_clean, 1);
            self.serve_frames(self.home());
        };
        self.os.cpu(u64::from(looks) * self.costs.free_cpu_ns.value).await;
        if let Some(victim) = dirty {
            self.lazy_write(victim).await;
        }
        true
    }

    /// The next page that may go; a clean one has gone.
    #[inline(always)]
    fn next_victim(&self) -> Option<Victim> {
        let (mut pool, mut tree) = (self.pool.borrow_mut(), self.tree.borrow_mut());
        let most = pool.len().min(LAZY_FRAMES);
        let victim = pool.sweep(&mut tree, most)?;
        if !victim.dirty {
            pool.evict(victim, &mut tree);
        }
        Some(victim)
    }

    async fn lazy_write(&self, victim: Victim) {
        self.look_ahead(victim.leaf);
        self.lazy_permits.take(WaitType::WriteCompletion).await;
        self.os.cpu(self.write_cpu_ns()).await;
        let still = self.pool.borrow().leaf_in(victim.frame) == victim.leaf;
        if !still || self.start_write(victim.leaf, Why::Lazy(victim), self.home()) == 0 {
            self.lazy_permits.give();
        }
    }
}
