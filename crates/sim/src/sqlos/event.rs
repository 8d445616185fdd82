//! Events and semaphores: waits that are not for latches, for a time or for a core.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Sqlos;
use super::state::{EventState, Queue, Resource};
use super::waits::WaitType;

impl Sqlos {
    /// Makes an event that is not set. Samples of waiting tasks show its label.
    ///
    /// # Panics
    /// Panics if there are 2^32 events already.
    #[must_use]
    pub fn event(&self, label: u64) -> Event<'_> {
        let mut state = self.state();
        let fresh = EventState {
            set: false,
            waiters: Queue::EMPTY,
            label,
            references: 1,
        };
        let id = if let Some(free) = state.free_events.pop() {
            state.events[free as usize] = fresh;
            free
        } else {
            state.events.push(fresh);
            u32::try_from(state.events.len() - 1).expect("events are numbered in 32 bits")
        };
        Event { os: self, id }
    }

    /// Makes a semaphore with `permits` permits.
    #[must_use]
    pub const fn semaphore(&self, permits: u32, label: u64) -> Semaphore<'_> {
        Semaphore {
            os: self,
            permits: Cell::new(permits),
            waiters: Cell::new(Queue::EMPTY),
            label,
        }
    }
}

/// Something that happens once or repeatedly, such as a flush of the log, room in the log, or work for the lazy writer.
/// Any number of workers may wait for it. After it is set, waits for it end at once until it is reset.
///
/// This is a handle. Its clones are the same event. The event is freed with its last handle.
#[derive(Debug)]
pub struct Event<'w> {
    os: &'w Sqlos,
    id: u32,
}

impl Event<'_> {
    /// Waits until the event is set. Waiting workers become RUNNABLE in the order of their arrival.
    pub const fn wait(&self, wait: WaitType) -> Wait<'_> {
        Wait {
            event: self,
            reason: wait,
            queued: false,
        }
    }

    /// Sets the event. All waiting workers become RUNNABLE at once, as when one worker wakes others.
    pub fn set(&self) {
        self.os.state().fire(&self.os.kernel, self.id);
    }

    /// Resets the event.
    pub fn reset(&self) {
        self.os.state().events[self.id as usize].set = false;
    }
}

impl Clone for Event<'_> {
    fn clone(&self) -> Self {
        self.os.state().events[self.id as usize].references += 1;
        Self {
            os: self.os,
            id: self.id,
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        self.os.state().release_event(self.id);
    }
}

/// A wait for an event: [`Event::wait`].
#[derive(Debug)]
#[must_use = "a worker waits only if it awaits this"]
pub struct Wait<'e> {
    event: &'e Event<'e>,
    reason: WaitType,
    queued: bool,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Event { os, id } = *self.event;
        let mut state = os.state();
        if self.queued || state.events[id as usize].set {
            return Poll::Ready(());
        }
        let worker = state.current(&os.kernel);
        let state = &mut *state;
        let event = &mut state.events[id as usize];
        event.waiters.push(&mut state.workers, worker);
        let resource = Resource::Event(event.label);
        state.suspend(&os.kernel, worker, self.reason, resource);
        self.queued = true;
        Poll::Pending
    }
}

/// Limits how many workers do something at the same time. Examples are writes in progress and free buffers.
#[derive(Debug)]
pub struct Semaphore<'w> {
    os: &'w Sqlos,
    permits: Cell<u32>,
    waiters: Cell<Queue>,
    label: u64,
}

impl Semaphore<'_> {
    /// Waits for a permit. Permits are granted strictly in request order.
    pub const fn take(&self, wait: WaitType) -> Take<'_> {
        Take {
            semaphore: self,
            wait,
            queued: false,
        }
    }

    /// Takes a permit if one is free. Returns whether it did.
    #[must_use]
    pub fn try_take(&self) -> bool {
        let free = self.permits.get() > 0;
        if free {
            self.permits.set(self.permits.get() - 1);
        }
        free
    }

    /// Returns or adds a permit. The first waiting worker gets it, if there is one. It may be called from anywhere.
    pub fn give(&self) {
        let mut state = self.os.state();
        let mut waiters = self.waiters.get();
        if let Some(worker) = waiters.pop(&state.workers) {
            self.waiters.set(waiters);
            state.make_runnable(&self.os.kernel, worker);
        } else {
            self.permits.set(self.permits.get() + 1);
        }
    }

    /// The number of free permits.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.permits.get()
    }
}

/// A wait for a permit: [`Semaphore::take`].
#[derive(Debug)]
#[must_use = "a worker waits only if it awaits this"]
pub struct Take<'s> {
    semaphore: &'s Semaphore<'s>,
    wait: WaitType,
    queued: bool,
}

impl Future for Take<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let semaphore = self.semaphore;
        // A permit is free only if no worker waits, because a returned permit goes first to the head of the queue.
        if self.queued || semaphore.try_take() {
            return Poll::Ready(());
        }
        let kernel = &semaphore.os.kernel;
        let mut state = semaphore.os.state();
        let worker = state.current(kernel);
        let mut waiters = semaphore.waiters.get();
        waiters.push(&mut state.workers, worker);
        semaphore.waiters.set(waiters);
        state.suspend(kernel, worker, self.wait, Resource::Event(semaphore.label));
        self.queued = true;
        Poll::Pending
    }
}
