// SPDX-License-Identifier: MIT
//! The way from a worker to the slow path: a bounded ring with one writer and one reader to each of its threads, and a
//! bell for a reader that sleeps. A full ring refuses the packet, so a flood of complex packets costs simple ones
//! nothing but its own share.

use crate::sync::{AtomicBool, Ordering, fence};
use perigee_modules::{PuntSink, Punted, redirect};
use perigee_packet::wire::ethernet::ethertype;
use perigee_packet::wire::flow;
use perigee_packet::wire::vlan::{self, Innermost};
use std::sync::Arc;

/// Wakes a sleeping slow path.
///
/// The reader calls [`doze`](Bell::doze), looks at its rings once more, and only then sleeps; a writer pushes and then
/// calls [`ring`](Bell::ring). Whatever the order, the reader sees the packet or the writer sees the reader asleep
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

/// The other end of a punt ring, in a thread of the slow path.
pub type PuntReader = rtrb::Consumer<Punted>;

/// A worker's ends of its punt rings, one to each thread of the slow path.
pub struct PuntRings {
    rings: Vec<PuntRing>,
}

/// A ring, and what is about to be put into it: the reader's core is shown new packets once per burst, not one by one.
struct PuntRing {
    ring: rtrb::Producer<Punted>,
    bell: Arc<Bell>,
    staged: Vec<Punted>,
    /// Places that are known to be free, besides those for what is staged; the reader may have freed more.
    free: usize,
}

impl PuntRing {
    /// Sees how many places are free.
    fn look(&mut self) -> usize {
        self.free = self.ring.slots() - self.staged.len();
        self.free
    }

    /// Puts in what is staged, and wakes the reader.
    fn publish(&mut self) {
        if let Ok(chunk) = self.ring.write_chunk_uninit(self.staged.len()) {
            chunk.fill_from_iter(self.staged.drain(..));
        }
        self.bell.ring();
    }
}

/// Rings for `capacity` packets each: the worker's ends, and that of each thread of the slow path, which `bells` wake.
/// The first one owns the tables.
pub fn punt_rings(capacity: usize, bells: &[Arc<Bell>]) -> (PuntRings, Vec<PuntReader>) {
    let ring = |bell: &Arc<Bell>| {
        let (ring, reader) = rtrb::RingBuffer::new(capacity);
        (PuntRing { ring, bell: Arc::clone(bell), staged: Vec::new(), free: 0 }, reader)
    };
    let (rings, readers) = bells.iter().map(ring).unzip();
    (PuntRings { rings }, readers)
}

impl PuntRings {
    /// The ring that a packet belongs into: one for all packets of a flow, and for all fragments between two hosts.
    /// What is not IP is the owner's of the tables, as are packets that are followed and copies of what was sent
    /// back.
    fn choose(&self, packet: &Punted) -> usize {
        if self.rings.len() == 1 || packet.trace.is_some() || packet.reason == redirect::SENT_BACK {
            return 0;
        }
        let frame = packet.packet.bytes();
        match vlan::innermost(frame) {
            Ok(Innermost { ethertype: kind @ (ethertype::IPV4 | ethertype::IPV6), offset, .. }) => {
                // The low bits choose: workers are chosen by the high ones, and one worker's flows are to reach all
                // threads.
                flow::symmetric_hash(frame, offset, kind) as usize % self.rings.len()
            }
            _ => 0,
        }
    }
}

impl PuntSink for PuntRings {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        let chosen = self.choose(&packet);
        let ring = &mut self.rings[chosen];
        if ring.free == 0 && ring.look() == 0 {
            return Err(packet);
        }
        ring.free -= 1;
        ring.staged.push(packet);
        Ok(())
    }

    fn announce(&mut self) {
        self.rings.iter_mut().filter(|ring| !ring.staged.is_empty()).for_each(PuntRing::publish);
    }

    fn room(&mut self) -> usize {
        self.rings.iter_mut().map(PuntRing::look).sum()
    }
}
