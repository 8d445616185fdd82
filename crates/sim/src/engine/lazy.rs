//! The lazy writer: keeps frames free by evicting clean pages and writing dirty ones.

use super::Engine;
use super::ios::Why;
use super::pool::Victim;
use super::resource::LABEL_LAZY;
use crate::scenario::Costs;
use crate::sqlos::{Event, Semaphore, Sqlos, WaitType};

/// Limits on the pages evicted before their CPU time is charged, and on the frames examined for each page.
const BATCH: u32 = 16;
const FRAMES: u32 = 1024;

/// The conditions under which the lazy writer works, and the most writes that it may have in progress.
#[derive(Debug)]
pub(super) struct LazyWriter<'w> {
    wake: Event<'w>,
    permits: Semaphore<'w>,
    /// The lazy writer wakes when fewer than `low` frames are free, and works until `high` frames are free.
    low: u32,
    high: u32,
}

impl<'w> LazyWriter<'w> {
    /// Makes it for a pool of this many frames.
    pub(super) fn new(os: &'w Sqlos, costs: &Costs, frames: u32) -> Self {
        let part = |per_mille: u64| u32::try_from(u64::from(frames) * per_mille / 1000).unwrap_or(u32::MAX);
        Self {
            wake: os.event(LABEL_LAZY),
            permits: os.semaphore(u32::try_from(costs.lazy_writes.value).unwrap_or(u32::MAX), LABEL_LAZY),
            low: part(costs.lazy_low_per_mille.value),
            high: part(costs.lazy_high_per_mille.value),
        }
    }

    /// Records that a write is done.
    pub(super) fn written(&self) {
        self.permits.give();
    }
}

impl Engine<'_> {
    /// Wakes the lazy writer if few frames are free.
    #[inline]
    pub(super) fn wake_lazy_writer(&self) {
        if self.pool.borrow().free() < self.lazy.low {
            self.lazy.wake.set();
        }
    }

    fn has_enough_free(&self) -> bool {
        self.pool.borrow().free() >= self.lazy.high
    }

    /// The worker of the lazy writer.
    pub(super) async fn run_lazy_writer(&self) {
        loop {
            self.lazy.wake.reset();
            self.lazy.wake.wait(WaitType::LazyWriterSleep).await;
            while !self.has_enough_free() {
                if !self.lazy_batch().await {
                    self.os.sleep(crate::kernel::MS, WaitType::LazyWriterSleep).await;
                }
            }
        }
    }

    /// Evicts a few clean pages, until it finds a dirty one and writes that. Returns false if there was nothing to do.
    async fn lazy_batch(&self) -> bool {
        let mut looks = 0;
        let dirty = loop {
            if looks == BATCH || self.has_enough_free() {
                break None;
            }
            looks += 1;
            let Some(victim) = self.next_victim() else { return false };
            if victim.dirty {
                break Some(victim);
            }
            self.counters.evicted_clean.add(1);
            self.serve_frames(self.home());
        };
        self.os.cpu(u64::from(looks) * self.costs.free_cpu_ns.value).await;
        if let Some(victim) = dirty {
            self.lazy_write(victim).await;
        }
        true
    }

    /// Returns the next page that may be evicted. If it is clean, it is evicted here.
    #[inline(always)]
    fn next_victim(&self) -> Option<Victim> {
        let (mut pool, mut tree) = (self.pool.borrow_mut(), self.tree.borrow_mut());
        let most = pool.len().min(FRAMES);
        let victim = pool.sweep(&mut tree, most)?;
        pool.let_go(victim, &mut tree);
        Some(victim)
    }

    async fn lazy_write(&self, victim: Victim) {
        let permits = &self.lazy.permits;
        permits.take(WaitType::WriteCompletion).await;
        self.os.cpu(self.write_cpu_ns()).await;
        let is_still_there = self.pool.borrow().leaf_in(victim.frame) == victim.leaf;
        if !is_still_there || self.start_write(victim.leaf, Why::Lazy(victim), self.home()) == 0 {
            permits.give();
        }
    }
}
