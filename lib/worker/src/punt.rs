// SPDX-License-Identifier: MIT
//! The way from a worker to the slow path: a bounded ring with one writer and one reader, and a bell for a reader that
//! sleeps. A full ring refuses the packet, so a flood of complex packets costs simple ones nothing but its own share.

use crate::sync::{AtomicBool, Ordering, fence};
use perigee_modules::{PuntSink, Punted};
use std::sync::Arc;

/// Wakes a sleeping slow path.
///
/// The reader calls [`doze`](Bell::doze), looks at its rings once more, and only then sleeps; a writer pushes and then calls
/// [`ring`](Bell::ring). Whatever the order, the reader sees the packet or the writer sees the reader asleep
/// (model-checked in `tests/loom_bell.rs`).
pub struct Bell {
    asleep: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Bell {
    /// A bell that calls `wake` for a sleeping reader (it writes to an eventfd, say).
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Bell {
        Bell { asleep: AtomicBool::new(false), wake: Box::new(wake) }
    }

    /// The reader is about to sleep.
    pub fn doze(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The reader is awake.
    pub fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Something was put in: wakes the reader if it sleeps.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            (self.wake)();
        }
    }
}

/// A worker's end of its punt ring.
pub struct PuntRing {
    ring: rtrb::Producer<Punted>,
    bell: Arc<Bell>,
}

/// A ring for `capacity` packets: the worker's end and the slow path's.
pub fn punt_ring(capacity: usize, bell: Arc<Bell>) -> (PuntRing, rtrb::Consumer<Punted>) {
    let (ring, reader) = rtrb::RingBuffer::new(capacity);
    (PuntRing { ring, bell }, reader)
}

impl PuntSink for PuntRing {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        self.ring.push(packet).map_err(|rtrb::PushError::Full(packet)| packet)
    }

    fn announce(&self) {
        self.bell.ring();
    }

    fn room(&self) -> usize {
        self.ring.slots()
    }
}
