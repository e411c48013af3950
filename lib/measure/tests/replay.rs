// SPDX-License-Identifier: MIT
//! Captures of all formats, written here as the drafts describe them, read back and sent; and broken ones.
//!
//! `PERIGEE_FUZZ` multiplies the number of broken files (60,000), `PERIGEE_FUZZ_SEED` is the seed (default: a new one
//! each time).

use perigee_measure::replay::{Capture, LIMIT, Playback, Replay, ReplayError};
use perigee_measure::traffic::Frames;
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Mask, Pool};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; set it to a number")))
}

fn rng() -> SmallRng {
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    SmallRng::seed_from_u64(seed)
}

/// Writes numbers in one of the byte orders.
#[derive(Clone, Copy)]
struct Writer {
    big: bool,
}

impl Writer {
    fn u16(self, number: u16) -> [u8; 2] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn u32(self, number: u32) -> [u8; 4] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn words(self, numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| self.u32(*number)).collect()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(4), 0);
        let length = padded.len() as u32 + 12;
        [&self.words(&[kind, length])[..], &padded, &self.u32(length)].concat()
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [&self.u16(code)[..], &self.u16(value.len() as u16), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn section(self) -> Vec<u8> {
        let body = [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &[body, self.option(4, b"a test")].concat())
    }

    fn interface(self, link: u16, snap: u32, options: &[Vec<u8>]) -> Vec<u8> {
        let options = options.concat();
        self.block(1, &[&self.u16(link)[..], &[0; 2], &self.u32(snap), &options, &[0; 4]].concat())
    }

    fn packet(self, interface: u32, time: u64, length: u32, bytes: &[u8]) -> Vec<u8> {
        let head = self.words(&[interface, (time >> 32) as u32, time as u32, bytes.len() as u32, length]);
        let mut body = [&head[..], bytes].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(6, &[body, self.option(1, b"a comment"), vec![0; 4]].concat())
    }

    fn pcap(self, nanoseconds: bool, kind: u32) -> Vec<u8> {
        let magic = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        [&self.u32(magic)[..], &self.u16(2), &self.u16(4), &self.words(&[0, 0, 262_144, kind])].concat()
    }
}

const BOTH: [Writer; 2] = [Writer { big: false }, Writer { big: true }];

fn read(file: &[u8]) -> Result<Capture, ReplayError> {
    Capture::read(file, false, LIMIT)
}

fn frames(capture: &Capture) -> Vec<(Vec<u8>, u64)> {
    (0..capture.len()).map(|at| capture.frame(at).unwrap()).map(|(bytes, time)| (bytes.to_vec(), time)).collect()
}

/// Frames and their times in ns since 1970, which rise.
fn random_frames(rng: &mut SmallRng, unit: u64) -> Vec<(Vec<u8>, u64)> {
    let mut time = 1_700_000_000_000_000_000u64 / unit * unit;
    let frame = |_| {
        time += rng.random_range(0..3_000_000_000u64) / unit * unit;
        let length = rng.random_range(14..120);
        ((0..length).map(|_| rng.random()).collect(), time)
    };
    (0..9).map(frame).collect()
}

/// A file of one of the formats with these frames, whose times are multiples of a microsecond.
fn file(frames: &[(Vec<u8>, u64)], format: usize) -> Vec<u8> {
    let write = BOTH[format % 2];
    let seconds = |time: &u64| ((*time / 1_000_000_000) as u32, (*time % 1_000_000_000) as u32);
    let record = |(bytes, time): &(Vec<u8>, u64), unit: u32| {
        let (seconds, ns) = seconds(time);
        let length = bytes.len() as u32;
        [&write.words(&[seconds, ns / unit, length, length])[..], bytes].concat()
    };
    // The second counts nanoseconds.
    let interfaces =
        [write.interface(1, 0, &[]), write.interface(1, 65_535, &[write.option(2, b"eth1"), write.option(9, &[9])])];
    let packet = |(at, (bytes, time)): (usize, &(Vec<u8>, u64))| {
        let interface = at as u32 % 2;
        let time = if interface == 0 { time / 1000 } else { *time };
        let statistics = write.block(5, &write.words(&[0, 0, 0]));
        [write.packet(interface, time, bytes.len() as u32, bytes), statistics].concat()
    };
    match format / 2 {
        0 => [write.pcap(false, 1), frames.iter().flat_map(|frame| record(frame, 1000)).collect()].concat(),
        1 => [write.pcap(true, 1), frames.iter().flat_map(|frame| record(frame, 1)).collect()].concat(),
        _ => {
            let packets: Vec<u8> = frames.iter().enumerate().flat_map(packet).collect();
            [write.section(), interfaces.concat(), packets].concat()
        }
    }
}

#[test]
fn all_formats_are_read() {
    let mut rng = rng();
    for turn in 0..600 {
        let written = random_frames(&mut rng, 1000);
        let capture = read(&file(&written, turn % 6)).unwrap();
        let start = written[0].1;
        let expected: Vec<_> = written.iter().map(|(bytes, time)| (bytes.clone(), time - start)).collect();
        assert_eq!(frames(&capture), expected, "format {}", turn % 6);
        assert_eq!((capture.disordered(), capture.duration()), (0, expected[8].1));
    }
}

/// Units of powers of ten and of two (pcapng draft, section 4.2), offsets in seconds.
#[test]
fn times_have_units_and_offsets() {
    for write in BOTH {
        for (resolution, first, second, gap) in [
            (0, 7, 9, 2_000_000_000),
            (3, 7, 9, 2_000_000),
            (12, 7_999, 9_999, 2),
            (19, 70_000_000_000, 90_000_000_000, 2),
            (28, 0, u64::MAX, 1),
            (0x80, 7, 9, 2_000_000_000),
            (0x80 | 10, 1024, 1024 + 512, 500_000_000),
            (0x80 | 63, 0, 1 << 62, 500_000_000),
            (0x80 | 64, 0, 1 << 63, 500_000_000),
            (0x80 | 96, 0, u64::MAX, 0),
        ] {
            let offset = if write.big { (-5i64).to_be_bytes() } else { (-5i64).to_le_bytes() };
            let options = [write.option(9, &[resolution]), write.option(14, &offset)];
            let packets = [write.packet(0, first, 20, &[1; 20]), write.packet(0, second, 20, &[2; 20])];
            let text = [write.section(), write.interface(1, 0, &options), packets.concat()].concat();
            let capture = read(&text).unwrap();
            assert_eq!(capture.duration(), gap, "resolution {resolution:#x}");
        }
        // Two interfaces of which one counts from another second.
        let offset = if write.big { 100i64.to_be_bytes() } else { 100i64.to_le_bytes() };
        let later = write.interface(1, 0, &[write.option(14, &offset)]);
        let packets = [write.packet(0, 101_000_000, 20, &[1; 20]), write.packet(1, 2_000_000, 20, &[2; 20])];
        let text = [write.section(), write.interface(1, 0, &[]), later, packets.concat()].concat();
        assert_eq!(read(&text).unwrap().duration(), 1_000_000_000);
        for resolution in [29, 127, 0x80 | 97, 0xff] {
            let options = [write.option(9, &[resolution])];
            let text = [write.section(), write.interface(1, 0, &options)].concat();
            assert!(read(&text).unwrap_err().to_string().contains("as the unit of time"), "{resolution:#x}");
        }
    }
}

/// Simple and obsolete packet blocks, several sections of both byte orders, an FCS, lengths of 0.
#[test]
fn rare_forms_are_read() {
    let [little, big] = BOTH;
    let old = [&big.u16(0)[..], &[0; 2], &big.words(&[0, 5, 16, 16]), &[3; 16]].concat();
    let text = [
        little.section(),
        little.interface(1, 18, &[]),
        little.packet(0, 1_000, 16, &[1; 16]),
        little.block(3, &[&little.u32(16)[..], &[2; 16]].concat()),
        little.block(0x0bad, &[7; 4000]),
        big.section(),
        big.interface(1, 0, &[]),
        big.block(2, &old),
        big.packet(0, 2_000, 0, &[4; 16]),
    ];
    let expected = [(vec![1; 16], 0), (vec![2; 16], 0), (vec![3; 16], 0), (vec![4; 16], 1_000_000)];
    let capture = read(&text.concat()).unwrap();
    assert_eq!((frames(&capture), capture.disordered()), (expected.to_vec(), 1));
    // Four bytes of FCS behind each frame, in both formats.
    let options = [little.option(13, &[32])];
    let ng = [little.section(), little.interface(1, 0, &options), little.packet(0, 0, 24, &[5; 24])];
    let pcap = [little.pcap(false, 0x2400_0001), little.words(&[0, 0, 24, 24]), vec![5; 24]];
    for text in [ng, pcap] {
        assert_eq!(frames(&read(&text.concat()).unwrap()), [(vec![5; 20], 0)]);
    }
}

#[test]
fn frames_that_were_cut_are_refused_or_padded() {
    let write = BOTH[0];
    let simple = write.block(3, &[&write.u32(100)[..], &[7; 40]].concat());
    let ng = [write.section(), write.interface(1, 40, &[]), write.packet(0, 0, 100, &[7; 40])];
    for text in [
        [write.pcap(false, 1), write.words(&[0, 0, 40, 100]), vec![7; 40]].concat(),
        ng.concat(),
        [&ng[..2].concat()[..], &simple].concat(),
    ] {
        let error = read(&text).unwrap_err();
        assert_eq!(error, ReplayError::Truncated { frame: 1, captured: 40, length: 100 });
        let padded = Capture::read(&text[..], true, LIMIT).unwrap();
        assert_eq!(padded.frame(0).unwrap().0, [vec![7; 40], vec![0; 60]].concat());
    }
}

#[test]
fn mistakes_are_named() {
    let write = BOTH[0];
    let pcap = |records: &[u8]| [&write.pcap(false, 1)[..], records].concat();
    let ng = |blocks: &[Vec<u8>]| [&write.section()[..], &write.interface(1, 0, &[]), &blocks.concat()].concat();
    let mut wrong_end = write.packet(0, 0, 20, &[1; 20]);
    let last = wrong_end.len() - 4;
    wrong_end[last] ^= 4;
    for (text, part) in [
        (vec![], "no frames"),
        (vec![0x1f, 0x8b, 8, 0], "starts with 1f 8b 08 00, expected a pcap or pcapng file"),
        (vec![0xd4], "ends at byte 1 in the middle of a record, after 0 whole frames"),
        (pcap(&[]), "no frames"),
        (pcap(&[1; 9]), "ends at byte 33 in the middle"),
        (pcap(&[write.words(&[0, 0, 20, 20]), vec![0; 19]].concat()), "ends at byte 59 in the middle"),
        (pcap(&write.words(&[0, 0, 1 << 30, 1 << 30])), "damaged at byte 24: found a frame of 1073741824 bytes"),
        (pcap(&[write.words(&[0, 0, 13, 13]), vec![0; 13]].concat()), "frame 1 has 13 bytes, expected 14 to 65535"),
        (pcap(&[write.words(&[0, 0, 70_000, 70_000]), vec![0; 70_000]].concat()), "frame 1 has 70000 bytes"),
        ([write.pcap(false, 113), vec![]].concat(), "frames of link type 113, expected Ethernet (1)"),
        (ng(&[]), "no frames"),
        (ng(&[write.packet(1, 0, 20, &[1; 20])]), "found a packet of interface 1, expected an interface that"),
        (ng(&[wrong_end]), "that ends with 76, expected its length again"),
        (ng(&[write.words(&[6, 8])]), "found a block of 8 bytes"),
        (ng(&[write.words(&[6, 33])]), "found a block of 33 bytes"),
        (ng(&[write.words(&[6, 1 << 21])]), "at most 1048576"),
        (ng(&[write.words(&[0x77, 1 << 21])]), "in the middle of a record"),
        (ng(&[write.block(6, &[0; 8])]), "8 bytes in it"),
        (ng(&[write.block(6, &write.words(&[0, 0, 0, 9, 9]))]), "9 captured bytes in a block of 32"),
        (ng(&[write.block(1, &[0; 4])]), "an interface's block"),
        (ng(&[write.interface(113, 0, &[]), write.packet(1, 0, 20, &[1; 20])]), "link type 113"),
        (write.words(&[0x0a0d_0d0a, 28, 7]), "a byte-order magic number"),
        (write.words(&[0x0a0d_0d0a, 12, 0x1a2b_3c4d]), "a section header of 12 bytes"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let two = pcap(&[&write.words(&[0, 0, 20, 20])[..], &[0; 20], &write.words(&[0, 0, 20, 20]), &[0; 20]].concat());
    let error = Capture::read(&two[..], false, 39).unwrap_err();
    assert_eq!(error, ReplayError::TooLarge { limit: 39 });
    assert!(Capture::read(&two[..], false, 40).is_ok());
    // A frame of 4 GB that is to be padded does not ask for memory.
    let huge = pcap(&[&write.words(&[0, 0, 20, u32::MAX])[..], &[0; 20]].concat());
    assert!(Capture::read(&huge[..], true, u64::MAX).unwrap_err().to_string().contains("frame 1 has 4294967295 bytes"));
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
        let playback = Playback { speed: Some(speed), ..Playback::default() };
        assert!(Replay::new(read(&two).unwrap(), &playback).unwrap_err().to_string().contains("expected a number"));
    }
    assert!(serde_json::from_str::<Playback>(r#"{"loop": 3}"#).unwrap_err().to_string().contains("unknown field"));
}

/// Broken files are refused or read, and never crash; what is read keeps its promises.
#[test]
fn broken_files_never_crash() {
    let mut rng = rng();
    let (mut refused, mut taken) = (0u64, 0u64);
    let count = 60_000 * number("PERIGEE_FUZZ").unwrap_or(1);
    let originals: Vec<Vec<u8>> = (0..6).map(|format| file(&random_frames(&mut rng, 1000), format)).collect();
    for _ in 0..count {
        let mut bytes = originals[rng.random_range(0..6)].clone();
        for _ in 0..rng.random_range(1..4) {
            let reach = if rng.random() { bytes.len() } else { bytes.len().min(120) };
            let at = rng.random_range(0..reach);
            match rng.random_range(0..6) {
                0 => bytes[at] ^= 1 << rng.random_range(0..8),
                1 => bytes[at] = [0, 1, 4, 0x7f, 0x80, 0xff][rng.random_range(0..6)],
                2 => bytes.truncate(at.max(1)),
                3 => bytes.insert(at, rng.random()),
                4 => drop(bytes.splice(at..(at + 4).min(reach), [0xff; 4])),
                _ => bytes[at] = rng.random(),
            }
        }
        match Capture::read(&bytes[..], rng.random(), 10_000) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok(capture) => {
                taken += 1;
                let frames = frames(&capture);
                assert!(frames.iter().all(|(bytes, _)| bytes.len() >= 14) && frames[0].1 == 0);
                assert!(frames.windows(2).all(|pair| pair[0].1 <= pair[1].1));
                let playback = Playback { loops: 0, speed: Some(0.001), pad: false };
                assert_eq!(Replay::new(capture, &playback).unwrap().times(256).len(), 256);
            }
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(taken > count / 20 && refused > count / 20, "{taken} taken, {refused} refused");
}

fn take(replay: &mut Replay, count: usize) -> Vec<Vec<u8>> {
    let pool = HeapPool::leak(256);
    let mut batch = Batch::new(pool);
    for length in replay.lengths(count) {
        batch.push(pool.packet(&vec![0xaa; usize::from(*length)]).unwrap(), 0).unwrap();
    }
    let written = replay.write(&mut batch, Mask::ALL, 0, 0);
    assert_eq!(written, batch.count());
    (0..written).map(|slot| batch.frame(slot as u8).unwrap().to_vec()).collect()
}

#[test]
fn frames_are_sent_in_loops_with_their_times() {
    let write = BOTH[0];
    let record = |us: u32, byte: u8| [&write.words(&[1, us, 20, 20])[..], &[byte; 20]].concat();
    let text = [write.pcap(false, 1), record(100, 1), record(300, 2), record(250, 3)].concat();
    let capture = read(&text).unwrap();
    assert_eq!((capture.disordered(), capture.duration(), capture.mean_size()), (1, 200_000, 24.0));
    let [a, b, c] = [1u8, 2, 3].map(|byte| vec![byte; 20]);
    let mut replay = Replay::new(capture.clone(), &Playback { loops: 2, ..Playback::default() }).unwrap();
    // A mean gap, 100 us, between the loops.
    assert_eq!(replay.times(256), [0, 200_000, 200_000, 300_000, 500_000, 500_000]);
    assert_eq!(replay.lengths(2), [20, 20]);
    assert_eq!(take(&mut replay, 2), [a.clone(), b.clone()]);
    assert_eq!(replay.times(2), [200_000, 300_000]);
    assert_eq!(take(&mut replay, 100), [c.clone(), a.clone(), b.clone(), c.clone()]);
    assert_eq!((replay.lengths(7).len(), replay.times(7).len()), (0, 0));
    assert!(take(&mut replay, 7).is_empty());
    replay.restart();
    assert_eq!(take(&mut replay, 100).len(), 6);
    let playback = Playback { loops: 0, speed: Some(4.0), pad: false };
    let mut replay = Replay::new(capture, &playback).unwrap();
    assert_eq!(replay.times(4), [0, 50_000, 50_000, 75_000]);
    for turn in 0..10_000 {
        assert_eq!(take(&mut replay, 1), [[&a, &b, &c][turn % 3].clone()]);
    }
}

/// A packet of another length is resized; one without room ends the writing, and its frame comes next.
#[test]
fn buffers_may_be_too_small() {
    let write = BOTH[1];
    let record = |length: u32| [&write.words(&[1, 0, length, length])[..], &vec![9; length as usize]].concat();
    let text = [write.pcap(true, 1), record(20), record(9000), record(30)].concat();
    let mut replay = Replay::new(read(&text).unwrap(), &Playback::default()).unwrap();
    let pool = HeapPool::leak(8);
    let mut batch = Batch::new(pool);
    for length in [100, 100, 30] {
        batch.push(pool.packet(&vec![0; length]).unwrap(), 0).unwrap();
    }
    assert_eq!(replay.write(&mut batch, Mask::ALL, 0, 0), 1);
    assert_eq!(batch.frame(0).unwrap(), [9; 20]);
    assert_eq!(replay.lengths(9), [9000, 30]);
}
