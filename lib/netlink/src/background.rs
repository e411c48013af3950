// SPDX-License-Identifier: MIT
//! The thread behind a source: how it is started, asked for a dump, woken and stopped, and how its updates and counters
//! come out. What it reads is the business of `feed.rs` and `fpm.rs`.
//!
//! Memory is bounded: updates wait in a channel of [`DEPTH`] places. While it is full the thread waits, and whatever it
//! would read next stays in the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::decode::Tally;
use crate::{Source, SourceCounters, Update};
use perigee_helper::{confine, privileges};

/// Updates that may wait for the reader.
const DEPTH: usize = 64;

/// What both ends can reach.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    dump: AtomicBool,
    wake: OwnedFd,
    dumps: AtomicU64,
    overruns: AtomicU64,
    malformed: AtomicU64,
    skipped: AtomicU64,
}

impl Shared {
    fn wake(&self) {
        // An eventfd that is full wakes the thread just the same.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The reader's end. When it is dropped, the thread ends.
#[derive(Debug)]
pub(crate) struct Background {
    updates: Option<Receiver<Update>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts a thread of this name, without privileges, that runs `body`. `bell` is rung after each update.
    ///
    /// # Errors
    /// The system refuses an eventfd or a thread.
    pub fn start(
        name: &str,
        bell: impl Fn() + Send + 'static,
        body: impl FnOnce(Reporter) + Send + 'static,
    ) -> io::Result<Background> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            dump: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            dumps: AtomicU64::new(0),
            overruns: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        });
        let (sender, updates) = sync_channel(DEPTH);
        let reporter = Reporter { shared: shared.clone(), sender, bell: Box::new(bell) };
        let body = move || {
            let _ = privileges::drop_all();
            // Whether the kernel can is said by others.
            let _ = confine::files(&[]);
            body(reporter);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Background { updates: Some(updates), shared, thread: Some(thread) })
    }
}

impl Source for Background {
    fn next(&mut self) -> Option<Update> {
        self.updates.as_ref()?.try_recv().ok()
    }

    fn dump(&mut self) {
        self.shared.dump.store(true, Ordering::Release);
        self.shared.wake();
    }

    fn counters(&self) -> SourceCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { dumps, overruns, malformed, skipped, .. } = &*self.shared;
        SourceCounters { dumps: get(dumps), overruns: get(overruns), malformed: get(malformed), skipped: get(skipped) }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // With the receiver gone, the thread cannot be waiting for room in the channel.
        self.updates = None;
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic has been reported by the thread itself.
        }
    }
}

/// The thread should end: it was asked to, or nobody takes its updates any more.
#[derive(Debug)]
pub(crate) struct Stopped;

/// The thread's end.
pub(crate) struct Reporter {
    shared: Arc<Shared>,
    sender: SyncSender<Update>,
    bell: Box<dyn Fn() + Send>,
}

impl Reporter {
    /// Passes an update on; waits while the channel is full.
    pub fn pass(&self, update: Update) -> Result<(), Stopped> {
        self.sender.send(update).map_err(|_| Stopped)?;
        (self.bell)();
        Ok(())
    }

    pub fn stopped(&self) -> Result<(), Stopped> {
        if self.shared.stop.load(Ordering::Acquire) { Err(Stopped) } else { Ok(()) }
    }

    /// Asks for a dump, as [`Source::dump`] does.
    pub fn request_dump(&self) {
        self.shared.dump.store(true, Ordering::Release);
    }

    /// Whether a dump has been asked for.
    pub fn dump_requested(&self) -> bool {
        self.shared.dump.load(Ordering::Acquire)
    }

    /// Whether a dump has been asked for; from now on, no longer.
    pub fn take_dump_request(&self) -> bool {
        self.shared.dump.swap(false, Ordering::AcqRel)
    }

    pub fn count_dump(&self) {
        self.shared.dumps.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_overrun(&self) {
        self.shared.overruns.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self, tally: Tally) {
        if tally != Tally::default() {
            self.shared.malformed.fetch_add(tally.malformed, Ordering::Relaxed);
            self.shared.skipped.fetch_add(tally.skipped, Ordering::Relaxed);
        }
    }

    /// Sleeps until one of `fds` can be read, the reader wants something, or the time is over. A signal may cut it
    /// short.
    pub fn sleep(&self, fds: &[BorrowedFd], timeout: Option<Duration>) -> Result<(), Errno> {
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
        let all = fds.iter().copied().chain([self.shared.wake.as_fd()]);
        let mut all: Vec<PollFd> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        // Nothing is in it where one of `fds` woke the thread.
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        Ok(())
    }
}
