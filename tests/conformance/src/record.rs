// SPDX-License-Identifier: MIT
//! What a row has sent and received, to look at when it fails: as lines, and as captures that other programs read.

use crate::network::Side;
use anyhow::{Context as _, Result};
use perigee_packet::Summary;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// More frames than these are not kept.
const MOST: usize = 5000;

/// Frames in their order.
pub struct Record {
    start: Instant,
    frames: Vec<Frame>,
}

struct Frame {
    at: Duration,
    side: Side,
    sent: bool,
    bytes: Vec<u8>,
}

impl Default for Record {
    fn default() -> Record {
        Record { start: Instant::now(), frames: Vec::new() }
    }
}

impl Record {
    /// A frame was sent to the router.
    pub fn sent(&mut self, side: Side, bytes: &[u8]) {
        self.add(side, true, bytes);
    }

    /// A frame came from the router.
    pub fn received(&mut self, side: Side, bytes: &[u8]) {
        self.add(side, false, bytes);
    }

    fn add(&mut self, side: Side, sent: bool, bytes: &[u8]) {
        if self.frames.len() < MOST {
            self.frames.push(Frame { at: self.start.elapsed(), side, sent, bytes: bytes.to_vec() });
        }
    }

    /// Starts anew.
    pub fn clear(&mut self) {
        *self = Record::default();
    }

    /// A line for each frame.
    pub fn lines(&self) -> Vec<String> {
        let line = |frame: &Frame| {
            let arrow = if frame.sent { "->" } else { "<-" };
            let summary = Summary::of(&frame.bytes);
            format!("{:9.3} ms  {:5} {arrow}  {summary}", frame.at.as_secs_f64() * 1000.0, frame.side.name())
        };
        self.frames.iter().map(line).collect()
    }

    /// Writes what was sent and received on each link to `FOLDER/NAME.LINK.pcap`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        for side in Side::ALL {
            let frames: Vec<&Frame> = self.frames.iter().filter(|frame| frame.side == side).collect();
            if frames.is_empty() {
                continue;
            }
            let path = folder.join(format!("{name}.{side}.pcap"));
            fs::write(&path, pcap(&frames)).with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(())
    }
}

/// The classic format, microseconds, little-endian.
fn pcap(frames: &[&Frame]) -> Vec<u8> {
    let words: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1];
    let mut file: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let length = frame.bytes.len() as u32;
        for word in [frame.at.as_secs() as u32, frame.at.subsec_micros(), length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&frame.bytes);
    }
    file
}
