// SPDX-License-Identifier: MIT
//! Captures, pcap and pcapng, as `perigee gen --pcap` and `perigee capture` read them: refused in a sentence, or read
//! the same in any pieces, within the limit, and again from what is written of it; what is written is read as it was
//! meant.

use crate::input::Input;
use crate::sentence;
use perigee_api::pcapng::{self, Block, Direction, Packet, Reader};
use perigee_measure::replay::{Capture, Playback, Replay};
use perigee_measure::traffic::Frames;
use std::io::Read;

/// Most bytes of frames that are kept of one capture.
const LIMIT: u64 = 1 << 18;
/// Frames of a replay that are looked at.
const REPLAYED: usize = 64;

/// Runs one input: what it is, how it is read, then bytes or frames.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let kind = input.below(8);
    let pieces: [u8; 8] = input.array();
    match kind {
        0..5 => capture(&pieces, &mut input),
        5 => stream(input.rest(), &pieces),
        _ => written(&pieces, &mut input),
    }
}

/// A file, in pieces as a pipe hands it out.
struct Pieces<'a>(&'a [u8], std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl<'a> Pieces<'a> {
    fn new(file: &'a [u8], lengths: &'a [u8]) -> Pieces<'a> {
        Pieces(file, lengths.iter().cycle())
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = usize::from(*self.1.next().unwrap_or(&1)).max(1).min(self.0.len()).min(to.len());
        let (piece, rest) = self.0.split_at(n);
        to[..n].copy_from_slice(piece);
        self.0 = rest;
        Ok(n)
    }
}

/// Any file.
fn capture(pieces: &[u8], input: &mut Input) {
    let pad = input.chance(128);
    let playback = playback(input);
    let file = input.rest();
    let read = Capture::read(file, pad, LIMIT);
    assert_eq!(Capture::read(Pieces::new(file, pieces), pad, LIMIT), read, "in pieces it means something else");
    let capture = match read {
        Ok(capture) => capture,
        Err(error) => return sentence::check(&error.to_string()),
    };
    let (frames, bytes) = consistent(&capture);
    // No record is shorter than a block with 12 bytes around four.
    assert!(frames <= file.len() / 16 && bytes <= LIMIT, "{frames} frames of {bytes} bytes");
    let again =
        Capture::read(&write(&capture)[..], false, LIMIT).unwrap_or_else(|error| panic!("written again: {error}"));
    assert_same(&again, &capture);
    replayed(capture, &playback);
}

/// Panics if a capture cannot be one; its frames and their bytes.
fn consistent(capture: &Capture) -> (usize, u64) {
    let (mut latest, mut bytes) = (0, 0);
    for number in 0..capture.len() {
        let (frame, time) = capture.frame(number).expect("a frame below the number of frames");
        assert!(
            (14..=65_535).contains(&frame.len()) && time >= latest,
            "frame {number}: {} bytes at {time}",
            frame.len()
        );
        (latest, bytes) = (time, bytes + frame.len() as u64);
    }
    assert!(capture.len() > 0 && capture.frame(capture.len()).is_none() && capture.duration() == latest);
    assert!(capture.disordered() < capture.len() as u64 && capture.mean_size() >= 18.0);
    (capture.len(), bytes)
}

/// A pcapng file with the frames of a capture.
fn write(capture: &Capture) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::begin(&mut file, "a test", &["wan".to_owned()], 0);
    for number in 0..capture.len() {
        let (bytes, time) = capture.frame(number).expect("a frame");
        let (length, bytes) = (bytes.len() as u32, bytes.to_vec());
        pcapng::packet(&mut file, &Packet { interface: 0, time, length, bytes, direction: None, comment: None });
    }
    file
}

fn assert_same(one: &Capture, other: &Capture) {
    assert_eq!(one.len(), other.len());
    (0..one.len()).for_each(|number| assert_eq!(one.frame(number), other.frame(number), "frame {number}"));
}

fn playback(input: &mut Input) -> Playback {
    let speed = match input.below(4) {
        0 => None,
        1 => Some(f64::from_bits(u64::from_le_bytes(input.array()))),
        _ => Some(*input.pick(&[1.0, 0.001, 1e6, 3.7])),
    };
    Playback { speed, loops: input.below(4) as u64, pad: false }
}

/// Frames come one after the other, at times that rise, and as often as they are to be sent.
fn replayed(capture: Capture, playback: &Playback) {
    let (frames, loops) = (capture.len(), playback.loops as usize);
    let mut replay = match Replay::new(capture, playback) {
        Ok(replay) => replay,
        Err(error) => return sentence::check(&error.to_string()),
    };
    let times = replay.times(REPLAYED).to_vec();
    assert!(times.is_sorted() && times.first() == Some(&0), "{times:?}");
    let expected = if loops == 0 { REPLAYED } else { REPLAYED.min(frames * loops) };
    assert_eq!((times.len(), replay.lengths(REPLAYED).len()), (expected, expected));
}

/// All blocks of a stream up to its end or its first fault, read in pieces.
fn blocks(stream: &[u8], pieces: &[u8]) -> (Vec<Block>, Option<String>, bool) {
    let (mut reader, mut blocks, mut rest) = (Reader::default(), Vec::new(), stream);
    let mut lengths = pieces.iter().cycle();
    loop {
        match reader.block() {
            Ok(Some(block)) => blocks.push(block),
            Err(error) => return (blocks, Some(error), true),
            Ok(None) if rest.is_empty() => return (blocks, None, reader.is_empty()),
            Ok(None) => {
                let n = usize::from(*lengths.next().unwrap_or(&1)).max(1).min(rest.len());
                reader.push(&rest[..n]);
                rest = &rest[n..];
            }
        }
    }
}

/// Any bytes that the router's answer to `perigee capture` could be.
fn stream(bytes: &[u8], pieces: &[u8]) {
    let whole = blocks(bytes, &[255]);
    assert_eq!(blocks(bytes, pieces), whole, "in pieces it means something else");
    if let Some(error) = &whole.1 {
        sentence::check(error);
    }
    assert!(whole.0.len() <= bytes.len() / 12);
}

/// What is written is read, by either reader.
fn written(pieces: &[u8], input: &mut Input) {
    let (mut file, names) = (Vec::new(), ["wan", "", "a name of an interface"].map(str::to_owned));
    pcapng::begin(&mut file, &input.text(20), &names, input.long());
    let interface = |name: &String| Block::Interface { name: name.clone() };
    let mut expected: Vec<Block> = std::iter::once(Block::Section).chain(names.iter().map(interface)).collect();
    for _ in 0..input.below(12) {
        let interface = input.below(names.len()) as u32;
        if input.chance(40) {
            let lost = u64::from_le_bytes(input.array());
            pcapng::statistics(&mut file, interface, u64::from_le_bytes(input.array()), lost);
            expected.push(Block::Statistics { interface, lost });
            continue;
        }
        let packet = packet(interface, input);
        pcapng::packet(&mut file, &packet);
        expected.push(Block::Packet(packet));
    }
    assert_eq!(blocks(&file, pieces), (expected.clone(), None, true));
    let packets = expected.iter().filter_map(|block| match block {
        Block::Packet(packet) => Some(packet),
        _ => None,
    });
    let packets: Vec<&Packet> = packets.collect();
    match Capture::read(&file[..], true, LIMIT) {
        Ok(capture) => {
            consistent(&capture);
            assert_eq!(capture.len(), packets.len());
            for (number, packet) in packets.iter().enumerate() {
                let frame = capture.frame(number).expect("a frame").0;
                assert!(
                    frame.len() == packet.bytes.len().max(packet.length as usize) && frame.starts_with(&packet.bytes)
                );
            }
        }
        Err(error) => sentence::check(&error.to_string()),
    }
}

fn packet(interface: u32, input: &mut Input) -> Packet {
    let bytes = input.bytes(120).to_vec();
    let length = bytes.len() as u32 + if input.chance(60) { u32::from(input.word()) } else { 0 };
    let time = u64::from_le_bytes(input.array());
    let direction = *input.pick(&[None, Some(Direction::In), Some(Direction::Out)]);
    // Longer ones are cut.
    let comment = input.chance(100).then(|| input.text(100)).filter(|comment| comment.len() <= 1000);
    Packet { interface, time, length, bytes, direction, comment }
}
