// SPDX-License-Identifier: MIT
//! A capture sent again: read from a pcap or pcapng file, with its own timing, faster or slower, or at any rate; once,
//! some times, or for ever.
//!
//! [`Capture::read`] keeps all frames in memory, up to a limit. [`Replay`] is a source of [`Frames`] like
//! [`Traffic`](crate::traffic::Traffic): for a rate, pace it in the same way; for the capture's timing, ask for the
//! [`times`](Replay::times) of the next frames. Frames are sent as they were captured, without stamps: a receiver can
//! count them.

mod formats;

use std::io::Read;
use std::num::NonZeroU64;

use perigee_packet::{BATCH_SIZE, Batch, Mask};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::traffic::Frames;

/// The most bytes that the frames of a capture may have, unless another limit is given: 1 GiB.
pub const LIMIT: u64 = 1 << 30;

/// Bytes of an Ethernet header.
const SHORTEST: usize = 14;
/// Bytes of the longest frame in memory.
const LONGEST: usize = 65_535;

/// How a capture is sent, as users write it.
///
/// ```
/// let playback: perigee_measure::replay::Playback = serde_json::from_str(r#"{"speed": 2, "loops": 10}"#).unwrap();
/// assert_eq!(playback.speed, Some(2.0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Playback {
    /// The capture's timing, so many times as fast: 1 is the original, 0.5 half as fast. Without, frames are sent at
    /// whatever rate the generator is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// How often the capture is sent; 0 is for ever.
    pub loops: u64,
    /// Whether frames that were not captured whole are filled up with zeros. Otherwise they are refused.
    pub pad: bool,
}

impl Default for Playback {
    fn default() -> Playback {
        Playback { speed: None, loops: 1, pad: false }
    }
}

/// Why a file cannot be replayed. `at` counts the file's bytes from 0, `frame` its frames from 1.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReplayError {
    /// Neither pcap nor pcapng.
    #[error("the capture starts with {found}, expected a pcap or pcapng file; uncompress it if it is compressed")]
    Unknown {
        /// The first bytes.
        found: String,
    },
    /// The file ends too early.
    #[error(
        "the capture ends at byte {at} in the middle of a record, after {frames} whole frames; copy or capture it again"
    )]
    Cut {
        /// Where it ends.
        at: u64,
        /// The frames before.
        frames: u64,
    },
    /// A field with an impossible value.
    #[error("the capture is damaged at byte {at}: found {found}, expected {expected}; copy or capture it again")]
    Damaged {
        /// Where the record starts.
        at: u64,
        /// The field and its value.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Not Ethernet.
    #[error("the capture has frames of link type {found}, expected Ethernet (1); capture on an Ethernet interface")]
    LinkType {
        /// The type, from the registry of tcpdump.org.
        found: u32,
    },
    /// A frame that was not captured whole.
    #[error(
        "frame {frame} was captured with {captured} of its {length} bytes; capture with a larger snap length (tcpdump -s 0), or \
         replay with pad = true"
    )]
    Truncated {
        /// The frame.
        frame: u64,
        /// Bytes in the file.
        captured: u32,
        /// Bytes on the wire.
        length: u32,
    },
    /// A frame that cannot be sent.
    #[error("frame {frame} has {found} bytes, expected 14 to 65535; remove it from the capture")]
    Length {
        /// The frame.
        frame: u64,
        /// Its bytes.
        found: u32,
    },
    /// Too many bytes.
    #[error("the capture has more than {limit} bytes of frames; replay a part of it (editcap -r, tcpdump -c)")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// No frame at all.
    #[error("the capture has no frames, expected at least one; use another file")]
    Empty,
    /// A speed that is none.
    #[error("found a speed of {found}, expected a number from 0.001 to 1000000; 1 is the capture's own")]
    Speed {
        /// The speed, as a text.
        found: String,
    },
    /// The system's reason.
    #[error("the capture cannot be read ({0}); check the file")]
    Io(String),
}

/// A frame of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Where its bytes end; they start where those of the frame before end.
    end: usize,
    /// In ns after the first frame; never before the frame ahead of it.
    time: u64,
}

/// The frames of a capture, in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    disordered: u64,
}

impl Capture {
    /// Reads a pcap file (with microseconds or nanoseconds, of either byte order) or a pcapng file (all packet blocks,
    /// of all interfaces). `pad` fills frames that were not captured whole with zeros. At most `limit` bytes of
    /// frames are kept.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub fn read(from: impl Read, pad: bool, limit: u64) -> Result<Capture, ReplayError> {
        let mut keeper = Keeper { pad, limit, ..Keeper::default() };
        formats::read(from, &mut keeper)?;
        let Keeper { bytes, entries, disordered, .. } = keeper;
        if entries.is_empty() { Err(ReplayError::Empty) } else { Ok(Capture { bytes, entries, disordered }) }
    }

    /// The number of frames, at least 1.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// A frame, counted from 0, without its FCS, and its time in ns after the first one's.
    pub fn frame(&self, number: usize) -> Option<(&[u8], u64)> {
        let entry = self.entries.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.entries[before].end);
        Some((&self.bytes[start..entry.end], entry.time))
    }

    /// From the first frame to the last one, in ns.
    pub fn duration(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.time)
    }

    /// The mean frame size in bytes, with the FCS.
    pub fn mean_size(&self) -> f64 {
        self.bytes.len() as f64 / self.entries.len() as f64 + f64::from(crate::traffic::FCS)
    }

    /// How many frames have an earlier time than the frame ahead of them. They count as if they came at the same time.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }
}

/// Collects the frames of a file.
#[derive(Debug, Default)]
struct Keeper {
    pad: bool,
    limit: u64,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// The first frame's time in ns.
    start: Option<i128>,
    disordered: u64,
}

impl Keeper {
    fn frames(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Takes a frame with `length` bytes on the wire, of which `captured` are there, at a time in ns.
    fn frame(&mut self, captured: &[u8], length: u32, time: i128) -> Result<(), ReplayError> {
        let frame = self.frames() + 1;
        // A length of 0 or too small a one is a fault of some writers: what is there was on the wire.
        let whole = captured.len().max(length as usize);
        if !(SHORTEST..=LONGEST).contains(&whole) {
            return Err(ReplayError::Length { frame, found: whole as u32 });
        }
        if captured.len() < whole && !self.pad {
            return Err(ReplayError::Truncated { frame, captured: captured.len() as u32, length });
        }
        let end = self.bytes.len() + whole;
        if end as u64 > self.limit {
            return Err(ReplayError::TooLarge { limit: self.limit });
        }
        self.bytes.extend_from_slice(captured);
        self.bytes.resize(end, 0);
        let start = *self.start.get_or_insert(time);
        let before = self.entries.last().map_or(0, |entry| entry.time);
        let time = time.saturating_sub(start);
        self.disordered += u64::from(time < i128::from(before));
        let time = u64::try_from(time.max(before.into())).unwrap_or(u64::MAX);
        self.entries.push(Entry { end, time });
        Ok(())
    }
}

/// A capture that is being sent.
///
/// ```
/// # let pcap = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1, 7, 0, 14, 14].map(u32::to_le_bytes).concat();
/// # let file = [&pcap[..], &[0; 14]].concat();
/// use perigee_measure::replay::{Capture, LIMIT, Playback, Replay};
/// use perigee_measure::traffic::Frames;
///
/// let capture = Capture::read(&file[..], false, LIMIT).unwrap();
/// let mut replay = Replay::new(capture, &Playback { loops: 3, ..Playback::default() }).unwrap();
/// assert_eq!(replay.lengths(32), [14, 14, 14]);
/// ```
#[derive(Debug)]
pub struct Replay {
    capture: Capture,
    loops: Option<NonZeroU64>,
    /// Whether a speed was asked for.
    timed: bool,
    speed: f64,
    /// From the start of a loop to that of the next, in ns of the capture: its duration and a mean gap, of 0 for one
    /// frame.
    turn: u64,
    /// Number of the next frame's loop, from 0, and the frame's number in it.
    next: (u64, usize),
    lengths: Vec<u16>,
    times: Vec<u64>,
}

impl Replay {
    /// Starts at the first frame.
    ///
    /// # Errors
    /// A speed outside 0.001 to 1,000,000.
    pub fn new(capture: Capture, playback: &Playback) -> Result<Replay, ReplayError> {
        let speed = playback.speed.unwrap_or(1.0);
        if !(0.001..=1e6).contains(&speed) {
            return Err(ReplayError::Speed { found: speed.to_string() });
        }
        let gaps = capture.len() as u64 - 1;
        let turn = capture.duration().saturating_add(capture.duration().checked_div(gaps).unwrap_or(0));
        let loops = NonZeroU64::new(playback.loops);
        let timed = playback.speed.is_some();
        Ok(Replay { capture, loops, timed, speed, turn, next: (0, 0), lengths: Vec::new(), times: Vec::new() })
    }

    /// The capture.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// When the next `count` frames, of at most 256 and of as many as there are, are to be sent, in ns after the first
    /// frame, at the playback's speed, or at the capture's if it has none. Between two loops there is a mean gap; a
    /// capture without duration has none.
    pub fn times(&mut self, count: usize) -> &[u64] {
        let mut times = std::mem::take(&mut self.times);
        times.clear();
        times.extend(self.coming(count).map(|(turn, number)| {
            let offset = u128::from(turn) * u128::from(self.turn) + u128::from(self.capture.entries[number].time);
            (offset as f64 / self.speed) as u64
        }));
        self.times = times;
        &self.times
    }

    /// Loop and number of the next frames.
    fn coming(&self, count: usize) -> impl Iterator<Item = (u64, usize)> {
        let (frames, loops) = (self.capture.len(), self.loops);
        let mut next = self.next;
        let step = move || {
            if loops.is_some_and(|loops| next.0 >= loops.get()) {
                return None;
            }
            let now = next;
            next = if now.1 + 1 == frames { (now.0 + 1, 0) } else { (now.0, now.1 + 1) };
            Some(now)
        };
        std::iter::from_fn(step).take(count.min(BATCH_SIZE))
    }
}

impl Frames for Replay {
    fn lengths(&mut self, count: usize) -> &[u16] {
        let mut lengths = std::mem::take(&mut self.lengths);
        lengths.clear();
        let length = |number| self.capture.frame(number).map_or(0, |(bytes, _)| bytes.len() as u16);
        lengths.extend(self.coming(count).map(|(_, number)| length(number)));
        self.lengths = lengths;
        &self.lengths
    }

    /// `now` and `run` do not count, as there are no stamps.
    fn write(&mut self, batch: &mut Batch, mask: Mask, _now: u64, _run: u16) -> usize {
        let coming = self.coming((mask & batch.live()).count());
        let mut next = self.next;
        let mut written = 0;
        for ((turn, number), mut packet) in coming.zip(batch.packets(mask)) {
            let Some((bytes, _)) = self.capture.frame(number) else { break };
            if packet.frame().len() != bytes.len() && packet.resize(bytes.len()).is_err() {
                break;
            }
            packet.frame_mut().copy_from_slice(bytes);
            next = if number + 1 == self.capture.len() { (turn + 1, 0) } else { (turn, number + 1) };
            written += 1;
        }
        self.next = next;
        written
    }

    /// Nothing is to be done: there are no sequence numbers.
    fn unsent(&mut self, _batch: &Batch, _mask: Mask) {}

    fn departures(&mut self, count: usize) -> &[u64] {
        if self.timed { self.times(count) } else { &[] }
    }

    /// No frame of a capture has a stamp.
    fn written(&self, _flow: u32) -> u64 {
        0
    }

    fn restart(&mut self) {
        self.next = (0, 0);
    }
}
