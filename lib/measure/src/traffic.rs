// SPDX-License-Identifier: MIT
//! Which frames a generator sends: a description, checked and compiled, and frames written into batches.
//!
//! ```text
//! description  what users write; each field has a text     range, sizes, rss, routes: the types of its fields
//! compile      every check; description -> Traffic         random, combinations: which values meet in which flow
//! prototype    the headers, and parts of their checksums   heads: the first bytes of the frames of each flow
//! plan         which flow and size the next frames have    columns: what differs in the heads of a burst
//! ```
//!
//! Nothing is computed for a frame that can be computed before: a flow's headers with their checksums are copied, and
//! the stamp, which no checksum depends on ([`crate::stamp`]), is written. Beyond 65,536 flows the fields that differ
//! are written into a prototype instead, and their parts added to the checksums (as in RFC 1624).

mod columns;
mod combinations;
mod compile;
mod description;
mod error;
mod heads;
mod plan;
mod prototype;
mod random;
mod range;
mod routes;
mod rss;
mod sizes;
mod text;

pub use description::{Description, Family, Protocol};
pub use error::TrafficError;
pub use prototype::{Headers, smallest_frame};
pub use range::{Addresses, Order, Range, Value, VlanId};
pub use rss::{MICROSOFT_KEY, Rss, SYMMETRIC_KEY, toeplitz};
pub use sizes::{FCS, LARGEST, SMALLEST, Sizes};

use std::io;
use std::path::Path;

use perigee_packet::{BATCH_SIZE, Batch, Mask};

use crate::stamp::{self, Stamp};
use heads::Heads;
use plan::Plan;
use prototype::{Fitted, Prototype, SHORTEST};

/// The most flows of a traffic.
pub const MOST_FLOWS: u64 = 1 << 24;

/// Frames to send, one after the other: of a description, or of a capture.
pub trait Frames {
    /// The lengths in bytes, without the FCS, of the next `count` frames, of at most 256 and of as many as there are.
    /// They stay the next ones until they are written.
    fn lengths(&mut self, count: usize) -> &[u16];

    /// Writes the next frames into the packets of `mask`, in the order of their slots, and returns their number. The
    /// packets have the lengths that [`lengths`](Frames::lengths) gave, in that order, and any contents; one of another
    /// length is resized. It ends early at a packet without room for its frame, and where no frames are left.
    ///
    /// `now` in ns and `run` are what the stamps say.
    fn write(&mut self, batch: &mut Batch, mask: Mask, now: u64, run: u16) -> usize;

    /// Frames that were written, but will never be sent, as the port took none or their time is over: their sequence
    /// numbers are used again, so a receiver does not miss them. They are the packets of `mask`, and the last ones
    /// that were written; of their flows, the sequence goes on where it was, but the next frame is that behind
    /// them.
    fn unsent(&mut self, batch: &Batch, mask: Mask);

    /// When the next `count` frames are to be sent, in ns after the first one, if they say it themselves; of at most
    /// 256 and of as many as there are. Nothing, where they are sent at whatever rate is asked for.
    fn departures(&mut self, _count: usize) -> &[u64] {
        &[]
    }

    /// How many frames of a flow (by its number in stamps) were written since the start, unsent ones taken off.
    fn written(&self, flow: u32) -> u64;

    /// The next frame is the first again, and all sequence numbers start at 0: for the next trial.
    fn restart(&mut self);
}

/// A compiled description: an endless sequence of frames, always the same one.
///
/// ```
/// use perigee_measure::traffic::{Description, Frames, Traffic};
/// use perigee_packet::{Batch, Mask, Pool, batch::heap::HeapPool};
///
/// let mut traffic = Traffic::new(&Description::default()).unwrap();
/// let pool = HeapPool::leak(32);
/// let mut batch = Batch::new(pool);
/// for length in traffic.lengths(32).to_vec() {
///     batch.push(pool.packet(&vec![0; length.into()]).unwrap(), 0).unwrap();
/// }
/// assert_eq!(traffic.write(&mut batch, Mask::ALL, 1_000, 7), 32);
/// ```
#[derive(Debug)]
pub struct Traffic {
    prototype: Prototype,
    fitted: Vec<Fitted>,
    heads: Heads,
    plan: Plan,
    /// The next sequence number of each flow.
    sequences: Vec<u32>,
    /// What the first flow's number is in stamps.
    first_flow: u32,
    mean_size: f64,
}

impl Traffic {
    /// Checks and compiles a description without route files.
    ///
    /// # Errors
    /// What is wrong with the description; also a route file, as none is read here.
    pub fn new(description: &Description) -> Result<Traffic, TrafficError> {
        Traffic::with_files(description, |_| Err(io::Error::other("no files can be read here")))
    }

    /// Checks and compiles a description; `read` reads its route files.
    ///
    /// # Errors
    /// What is wrong with the description or a route file.
    pub fn with_files(
        description: &Description,
        mut read: impl FnMut(&Path) -> io::Result<String>,
    ) -> Result<Traffic, TrafficError> {
        compile::compile(description, &mut read)
    }

    /// Lets stamps number the flows from here on, not from 0: so that of several traffics, on several queues, each flow
    /// has a number of its own. After the largest number comes 0.
    pub fn number_from(&mut self, first: u32) {
        self.first_flow = first;
    }

    /// How many flows there are; stamps number them from 0, or from [`number_from`](Traffic::number_from).
    pub fn flows(&self) -> u32 {
        self.sequences.len() as u32
    }

    /// Whether the frames carry stamps. If not, a receiver can only count them.
    pub fn is_stamped(&self) -> bool {
        self.prototype.is_stamped()
    }

    /// The mean frame size in bytes, with the FCS, over a period of the sizes.
    pub fn mean_size(&self) -> f64 {
        self.mean_size
    }

    /// The sizes that come up, in bytes with the FCS, as the description lists them.
    pub fn sizes(&self) -> impl Iterator<Item = u16> {
        self.fitted.iter().map(|fitted| fitted.length + FCS)
    }
}

impl Frames for Traffic {
    fn lengths(&mut self, count: usize) -> &[u16] {
        let count = count.min(BATCH_SIZE);
        self.plan.prepare(count);
        &self.plan.lengths[..count]
    }

    fn write(&mut self, batch: &mut Batch, mask: Mask, now: u64, run: u16) -> usize {
        let mask = mask & batch.live();
        let count = mask.count();
        self.plan.prepare(count);
        let Plan { sizes, flows, ranks, .. } = &self.plan;
        self.heads.prepare(&self.prototype, &self.fitted, &sizes[..count], &flows[..count], &ranks[..count]);
        // The usual lengths as constants: a copy of 60 bytes is four instructions then, otherwise a call.
        let written = match (self.prototype.length, self.is_stamped()) {
            (60, true) => self.write_heads::<true>(batch, mask, now, run, 60),
            (64, true) => self.write_heads::<true>(batch, mask, now, run, 64),
            (80, true) => self.write_heads::<true>(batch, mask, now, run, 80),
            (length, true) => self.write_heads::<true>(batch, mask, now, run, length),
            (length, false) => self.write_heads::<false>(batch, mask, now, run, length),
        };
        self.plan.consume(written);
        if written < count {
            self.heads.return_frames(count - written);
        }
        written
    }

    fn unsent(&mut self, batch: &Batch, mask: Mask) {
        let end = self.prototype.length;
        for frame in (mask & batch.live()).iter().filter_map(|slot| batch.frame(slot)) {
            let stamp = frame.get(end - stamp::LENGTH..end).and_then(Stamp::read);
            let flow = stamp.filter(|_| self.is_stamped()).map(|stamp| stamp.flow.wrapping_sub(self.first_flow));
            if let Some(sequence) = flow.and_then(|flow| self.sequences.get_mut(flow as usize)) {
                *sequence = sequence.wrapping_sub(1);
            }
        }
    }

    fn written(&self, flow: u32) -> u64 {
        let index = flow.wrapping_sub(self.first_flow) as usize;
        self.sequences.get(index).map_or(0, |next| u64::from(*next))
    }

    fn restart(&mut self) {
        self.plan.restart();
        self.sequences.fill(0);
        self.heads.restart();
    }
}

impl Traffic {
    /// Writes planned frames that start with heads of `length` bytes.
    #[inline(always)]
    fn write_heads<const STAMPED: bool>(
        &mut self,
        batch: &mut Batch,
        mask: Mask,
        now: u64,
        run: u16,
        length: usize,
    ) -> usize {
        // In variables of their own, all this stays in registers: the compiler cannot know that a packet's bytes are
        // none of it.
        let (heads, stride, columns) = self.heads.view(&self.prototype);
        let (lengths, flows) = (&self.plan.lengths[..], &self.plan.flows[..]);
        let (sequences, filling) = (&mut self.sequences[..], &self.prototype.tail[..]);
        let first_flow = self.first_flow;
        let mut written = 0;
        for mut packet in batch.packets(mask) {
            let bytes = usize::from(lengths[written]);
            if packet.frame().len() != bytes && packet.resize(bytes).is_err() {
                break;
            }
            // A head is at most as long as the shortest frame of the traffic.
            let (head, tail) = packet.frame_mut().split_at_mut(length);
            let flow = flows[written];
            head.copy_from_slice(&heads[flow as usize * stride..][..length]);
            if let Some(columns) = columns {
                columns.write(written, head);
            }
            if STAMPED && let Some((_, last)) = head.split_last_chunk_mut::<{ stamp::LENGTH }>() {
                let sequence = &mut sequences[flow as usize];
                Stamp { run, flow: first_flow.wrapping_add(flow), sequence: *sequence, time: now }.write(last);
                *sequence = sequence.wrapping_add(1);
            }
            if !tail.is_empty() {
                tail.copy_from_slice(&filling[..tail.len()]);
            }
            written += 1;
        }
        written
    }
}

// A head ends where the stamp does: nothing of the payload is in it, as headers and stamp are never shorter than a
// frame.
const _: () = assert!(14 + 20 + 8 + stamp::LENGTH >= SHORTEST);
