// SPDX-License-Identifier: MIT
//! The in-kernel plane, as the router sees it, and the thread that shows it the tables.
//!
//! The plane reads next hops, neighbors and lookup structures where workers read them, so that what is patched in place
//! is seen at once. What is published as a whole goes through this thread, which is a subscriber like a worker. It
//! acknowledges a version once the kernel has no packet on its way that came before.

use crate::Refusal;
use perigee_fib::{Arena, Subscriber};
use perigee_modules::{Counters, Tables};
use perigee_worker::Stop;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long the thread sleeps if nothing wakes it: it looks whether the router ends.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// What the plane has done with a port's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneShare {
    /// Packets that it has finished, by the port that they came in on: forwarded, or dropped.
    pub finished: u64,
    /// Packets that it has sent, by the port that they left by.
    pub sent: u64,
    /// Packets that it has handed on to workers.
    pub handed_on: u64,
}

/// The in-kernel plane.
pub trait KernelPlane: Send + Sync {
    /// The memory for tables that both planes read.
    fn arena(&self) -> Arc<Arena>;

    /// Forwards by these tables from the next packet on. To be called after a [`grace`](Self::grace) period.
    ///
    /// # Errors
    /// It cannot; it gives all packets to workers then.
    fn publish(&self, tables: &Tables) -> Result<(), Refusal>;

    /// The tables that are published next, or were last, have everything that Linux says: what a router that was killed
    /// has left in the kernel may go.
    fn is_complete(&self) {}

    /// Gives all packets to workers from the next one on. To be called after a [`grace`](Self::grace) period.
    fn stand_aside(&self);

    /// Whether something about ports has changed since the last call, so that tables have to be published again.
    fn has_changed(&self) -> bool;

    /// Waits until no packet is on its way that came before: some 10 ms.
    ///
    /// # Errors
    /// The kernel cannot say it.
    fn grace(&self) -> io::Result<()>;

    /// What it reads otherwise than these tables say, by name, for an audit; shown them again soon if `repair`.
    fn differences(&self, tables: &Tables, repair: bool) -> Vec<String>;

    /// How many packets it has decided about by a filter, by its place in the configuration.
    fn hits(&self, filter: usize) -> u64;

    /// What it has done with a port's packets; `None` for ports of workers.
    fn share(&self, port: u16) -> Option<PlaneShare>;

    /// What it has counted so far, as a worker counts.
    fn counters(&self) -> Arc<Counters>;
}

/// Shows the plane the tables.
pub struct PlaneThread {
    plane: Arc<dyn KernelPlane>,
    tables: Subscriber<Tables>,
    stop: Stop,
    /// The last error, which is said once.
    said: Option<String>,
    /// Whether no packet is on its way that reads older tables than it was shown last.
    settled: bool,
    /// A version that is to be acknowledged then.
    waiting: Option<u64>,
}

impl PlaneThread {
    /// Shows it the first tables.
    pub fn new(plane: Arc<dyn KernelPlane>, tables: Subscriber<Tables>, stop: Stop) -> PlaneThread {
        let mut thread = PlaneThread { plane, tables, stop, said: None, settled: true, waiting: None };
        thread.publish();
        thread
    }

    /// Runs until the router stops.
    pub fn run(&mut self) {
        self.settle();
        while !self.stop.requested() {
            if !self.round() {
                std::thread::park_timeout(LONGEST_SLEEP);
            }
        }
    }

    /// Follows the tables once; returns whether there was something new.
    pub fn round(&mut self) -> bool {
        if !self.settled {
            self.settle();
            return self.settled;
        }
        let next = self.tables.begin_refresh();
        let changed = next.is_some_and(|(_, changed)| changed);
        if next.is_none() && !self.plane.has_changed() {
            return false;
        }
        if changed || next.is_none() {
            self.publish();
        }
        self.waiting = next.map(|(version, _)| version);
        self.settle();
        true
    }

    fn settle(&mut self) {
        self.settled = self.wait();
        if let Some(version) = self.waiting.take_if(|_| self.settled) {
            self.tables.acknowledge(version);
        }
    }

    fn publish(&mut self) {
        let refused = self.plane.publish(&self.tables).err().map(|error| error.to_string());
        if refused != self.said {
            match &refused {
                Some(error) => tracing::warn!("the in-kernel plane hands on all packets: {error}"),
                None => tracing::info!("the in-kernel plane forwards again"),
            }
        }
        self.said = refused;
    }

    /// Waits for a grace period; whether one has passed. Without the kernel's word nothing may be acknowledged: memory
    /// would be used again under its readers.
    fn wait(&self) -> bool {
        let waited = self.plane.grace();
        if let Err(error) = &waited {
            tracing::error!("old tables are kept: {error}");
            std::thread::park_timeout(LONGEST_SLEEP);
        }
        waited.is_ok()
    }
}

/// Before the subscriber goes, after which tables are freed, the kernel has to let go of them.
impl Drop for PlaneThread {
    fn drop(&mut self) {
        if self.settled || self.wait() {
            self.plane.stand_aside();
            self.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::Published;
    use perigee_modules::testing::{routes, tables};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Notes what is asked of it.
    #[derive(Default)]
    struct Pretended {
        events: Mutex<Vec<&'static str>>,
        refuses: AtomicBool,
        fails: AtomicBool,
        changed: AtomicBool,
    }

    impl Pretended {
        fn note(&self, event: &'static str) {
            self.events.lock().unwrap().push(event);
        }

        fn take(&self) -> Vec<&'static str> {
            std::mem::take(&mut self.events.lock().unwrap())
        }
    }

    impl KernelPlane for Pretended {
        fn arena(&self) -> Arc<Arena> {
            unreachable!("nobody asks for it")
        }

        fn publish(&self, _: &Tables) -> Result<(), Refusal> {
            self.note("publish");
            if self.refuses.load(Ordering::Relaxed) { Err("no".into()) } else { Ok(()) }
        }

        fn stand_aside(&self) {
            self.note("stand aside");
        }

        fn has_changed(&self) -> bool {
            self.changed.swap(false, Ordering::Relaxed)
        }

        fn grace(&self) -> io::Result<()> {
            self.note("grace");
            if self.fails.load(Ordering::Relaxed) { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        }

        fn differences(&self, _: &Tables, _: bool) -> Vec<String> {
            Vec::new()
        }

        fn hits(&self, _: usize) -> u64 {
            0
        }

        fn share(&self, _: u16) -> Option<PlaneShare> {
            None
        }

        fn counters(&self) -> Arc<Counters> {
            unreachable!("nobody asks for them")
        }
    }

    #[test]
    fn a_version_is_acknowledged_once_the_kernel_is_done_with_those_before() {
        let (fib, plane) = (routes(), Arc::new(Pretended::default()));
        let mut published = Published::new(tables(&fib, None));
        let mut thread = PlaneThread::new(plane.clone(), published.subscribe(), Stop::default());
        assert_eq!(plane.take(), ["publish"]);
        assert!(!thread.round() && plane.take().is_empty(), "nothing is new");
        let version = published.publish(tables(&fib, None));
        assert!(thread.round() && published.acknowledged(version));
        assert_eq!(plane.take(), ["publish", "grace"]);
        // An epoch alone shows nothing new.
        let epoch = published.grace().epoch;
        assert!(thread.round() && published.acknowledged(epoch));
        assert_eq!(plane.take(), ["grace"]);
        plane.changed.store(true, Ordering::Relaxed);
        assert!(thread.round());
        assert_eq!(plane.take(), ["publish", "grace"]);
    }

    #[test]
    fn without_the_kernels_word_nothing_is_acknowledged_and_nothing_shown() {
        let (fib, plane) = (routes(), Arc::new(Pretended::default()));
        let mut published = Published::new(tables(&fib, None));
        let mut thread = PlaneThread::new(plane.clone(), published.subscribe(), Stop::default());
        plane.fails.store(true, Ordering::Relaxed);
        let version = published.publish(tables(&fib, None));
        plane.take();
        thread.round();
        published.publish(tables(&fib, None));
        thread.round();
        assert_eq!(plane.take(), ["publish", "grace", "grace"], "not shown again before");
        assert!(!published.acknowledged(version));
        plane.fails.store(false, Ordering::Relaxed);
        assert!(thread.round() && published.acknowledged(version));
        assert!(thread.round() && published.slowest().is_none());
        assert_eq!(plane.take(), ["grace", "publish", "grace"]);
        drop(thread);
        assert_eq!(plane.take(), ["stand aside", "grace"], "before tables are freed");
    }

    #[test]
    fn a_refusal_holds_nothing_up() {
        let (fib, plane) = (routes(), Arc::new(Pretended::default()));
        let mut published = Published::new(tables(&fib, None));
        let mut thread = PlaneThread::new(plane.clone(), published.subscribe(), Stop::default());
        plane.refuses.store(true, Ordering::Relaxed);
        let version = published.publish(tables(&fib, None));
        assert!(thread.round() && published.acknowledged(version));
    }
}
