//! A queue between processes, in simulated time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::executor::{Kernel, ProcessId};

/// Messages in the order of sending, from anywhere (processes, workers, handlers) to one process, which is how a device
/// gets its requests. Workers of [`crate::sqlos`] don't receive here, as they would keep their cores meanwhile.
#[derive(Debug)]
pub struct Mailbox<'k, T> {
    kernel: &'k Kernel,
    messages: RefCell<VecDeque<T>>,
    receiver: Cell<Option<ProcessId>>,
}

impl<'k, T> Mailbox<'k, T> {
    /// An empty mailbox.
    #[must_use]
    pub const fn new(kernel: &'k Kernel) -> Self {
        Self {
            kernel,
            messages: RefCell::new(VecDeque::new()),
            receiver: Cell::new(None),
        }
    }

    /// Puts in a message, and resumes the receiver if it waits for one.
    pub fn send(&self, message: T) {
        self.messages.borrow_mut().push_back(message);
        if let Some(receiver) = self.receiver.take() {
            self.kernel.resume(receiver);
        }
    }

    /// Waits for the next message. One process at a time may do this.
    pub const fn receive(&self) -> Receive<'_, 'k, T> {
        Receive { mailbox: self }
    }

    /// How many messages wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.borrow().len()
    }

    /// True if no message waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A wait for a message: [`Mailbox::receive`].
#[derive(Debug)]
#[must_use = "a process receives only if it awaits this"]
pub struct Receive<'m, 'k, T> {
    mailbox: &'m Mailbox<'k, T>,
}

impl<T> Future for Receive<'_, '_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let message = self.mailbox.messages.borrow_mut().pop_front();
        if let Some(message) = message {
            return Poll::Ready(message);
        }
        let other = self.mailbox.receiver.replace(Some(self.mailbox.kernel.current()));
        assert!(other.is_none(), "a mailbox has one receiver");
        Poll::Pending
    }
}
