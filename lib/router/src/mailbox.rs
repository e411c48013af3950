// SPDX-License-Identifier: MIT
//! How other threads reach the slow path's thread: the API sends requests through a channel, and a bell wakes it.

use perigee_api::{Backend, Request};
use perigee_worker::Bell;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Where requests go in; also the workers' bell.
#[derive(Clone)]
pub struct Mailbox {
    requests: Sender<Request>,
    bell: Arc<Bell>,
}

/// Where they come out.
pub struct MailboxEnd {
    requests: Receiver<Request>,
    bell: Arc<Bell>,
    wake: OwnedFd,
}

impl Mailbox {
    /// A mailbox and its other end.
    ///
    /// # Errors
    /// The system refuses an eventfd.
    pub fn new() -> std::io::Result<(Mailbox, MailboxEnd)> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let ring = wake.try_clone()?;
        // A full eventfd wakes its reader just the same.
        let bell = Arc::new(Bell::new(move || {
            let _ = rustix::io::write(&ring, &1u64.to_ne_bytes());
        }));
        let (sender, receiver) = channel();
        let end = MailboxEnd { requests: receiver, bell: bell.clone(), wake };
        Ok((Mailbox { requests: sender, bell }, end))
    }

    /// The bell that wakes the slow path.
    pub fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    /// Wakes the slow path, so that it sees whether it should stop.
    pub fn wake(&self) {
        self.bell.ring();
    }
}

impl MailboxEnd {
    /// The bell that wakes the slow path.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// The next request, if one is waiting.
    pub(crate) fn next(&self) -> Option<Request> {
        self.requests.try_recv().ok()
    }

    /// Resets the bell.
    pub(crate) fn clear(&self) {
        // It may be empty, which is not an error: something else woke the thread.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

impl AsFd for MailboxEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Backend for Mailbox {
    fn handle(&self, request: Request) {
        // If the slow path is gone, the request's reply is dropped, and the server answers with an error.
        if self.requests.send(request).is_ok() {
            self.bell.ring();
        }
    }
}
