// SPDX-License-Identifier: MIT
//! The stamp: what is written is read, damage is recognised, the checksums around it stay, and it is found in every
//! kind of frame, whatever the bytes.
//!
//! `PERIGEE_FUZZ` multiplies the number of random frames (200,000), `PERIGEE_FUZZ_SEED` is their seed.

mod frames;

use frames::{Layers, checksum_of, number};
use perigee_measure::stamp::{Found, LENGTH, Stamp, TIME_BITS, find};
use perigee_packet::wire::protocol;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn stamps() -> impl Strategy<Value = Stamp> {
    let edge = |max: u64| prop_oneof![Just(0), Just(max), 0..=max];
    (edge(0xffff), edge(0xffff_ffff), edge(0xffff_ffff), edge((1 << TIME_BITS) - 1)).prop_map(
        |(run, flow, sequence, time)| Stamp { run: run as u16, flow: flow as u32, sequence: sequence as u32, time },
    )
}

fn written(stamp: &Stamp) -> [u8; LENGTH] {
    let mut bytes = [0xa5; LENGTH];
    stamp.write(&mut bytes);
    bytes
}

/// RFC 1071 as written there: words added, carries brought back in.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

proptest! {
    #[test]
    fn what_is_written_is_read(stamp in stamps(), behind in prop::collection::vec(any::<u8>(), 0..40)) {
        let bytes = written(&stamp);
        prop_assert_eq!(sum(&bytes), 0xffff);
        prop_assert_eq!(Stamp::read(&[&bytes[..], &behind].concat()), Some(stamp));
        prop_assert_eq!(Stamp::read(&bytes[..LENGTH - 1]), None);
    }

    /// All 18 * 255 changes of one byte.
    #[test]
    fn every_changed_byte_is_recognised(stamp in stamps()) {
        let bytes = written(&stamp);
        for at in 0..LENGTH {
            for change in 1..=255 {
                let mut damaged = bytes;
                damaged[at] ^= change;
                prop_assert_eq!(Stamp::read(&damaged), None, "byte {} changed by {:#04x}", at, change);
            }
        }
    }

    /// One word changed: only the two zeros of ones' complement arithmetic are taken for each other.
    #[test]
    fn every_changed_word_is_recognised(stamp in stamps(), at in 0..LENGTH / 2, word in any::<u16>(), zeros in any::<bool>()) {
        let mut damaged = written(&stamp);
        let old = u16::from_be_bytes([damaged[at * 2], damaged[at * 2 + 1]]);
        let word = if zeros { !old } else { word };
        prop_assume!(word != old);
        damaged[at * 2..at * 2 + 2].copy_from_slice(&word.to_be_bytes());
        let missed = matches!((old, word), (0, 0xffff) | (0xffff, 0));
        // Of a stamp whose other words are all zero, the check alone is left, and 18 zeros are no stamp.
        let missed = missed && damaged != [0; LENGTH];
        prop_assert_eq!(Stamp::read(&damaged).is_some(), missed, "word {} from {:#06x} to {:#06x}", at, old, word);
    }

    /// Several bytes changed: recognised unless the sum is the same modulo 65535.
    #[test]
    fn damage_is_recognised_unless_the_sum_stays(
        stamp in stamps(), changes in prop::collection::vec((0..LENGTH, any::<u8>()), 1..6), swap in any::<(bool, prop::sample::Index)>(),
    ) {
        let mut damaged = written(&stamp);
        for (at, to) in changes {
            damaged[at] = to;
        }
        if swap.0 {
            damaged = written(&stamp);
            damaged.rotate_left(swap.1.index(LENGTH / 2) * 2);
        }
        let total: u64 = damaged.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1])).sum();
        let missed = total.is_multiple_of(65535) && total > 0;
        prop_assert_eq!(Stamp::read(&damaged).is_some(), missed);
    }

    #[test]
    fn age_wraps_around(sent in any::<u64>(), age in 0u64..1 << (TIME_BITS - 1)) {
        let stamp = Stamp { time: sent & ((1 << TIME_BITS) - 1), ..Stamp::default() };
        prop_assert_eq!(stamp.age(sent.wrapping_add(age)), Some(age));
        prop_assert_eq!(stamp.age(sent.wrapping_sub(age + 1)), None, "a frame from the future");
    }

    /// Checksums computed with 18 zeros in the stamp's place, by the book, hold for every stamp.
    #[test]
    fn checksums_do_not_see_it(stamp in stamps(), layers in frames::layers(), tail in prop::collection::vec(any::<u8>(), 0..30)) {
        let zeros = [&[0; LENGTH][..], &tail].concat();
        let stamped = [&written(&stamp)[..], &tail].concat();
        prop_assert_eq!(checksum_of(&layers, &zeros), checksum_of(&layers, &stamped));
    }

    #[test]
    fn it_is_found_in_every_frame(stamp in stamps(), layers in frames::layers(), tail in prop::collection::vec(any::<u8>(), 0..30)) {
        let frame = layers.frame(&[&written(&stamp)[..], &tail].concat());
        prop_assert_eq!(find(&frame), Found::Stamp(stamp), "{:?}", layers);
        let at = frame.len() - tail.len() - 1;
        let mut damaged = frame.clone();
        damaged[at] ^= 1;
        let expected = Stamp { time: stamp.time ^ 1, ..stamp };
        prop_assert_eq!(find(&damaged), Found::Broken(expected), "{:?}", layers);
        // Cut off before its end, it is nowhere.
        prop_assert_eq!(find(&frame[..at]), Found::Nothing, "{:?}", layers);
    }

    /// The padding of a short frame may hold a sent frame's bytes, and those are no stamp.
    #[test]
    fn padding_is_not_searched(stamp in stamps(), layers in frames::layers(), length in 0..LENGTH) {
        let bytes = written(&stamp);
        let mut frame = layers.frame(&bytes[..length]);
        frame.extend(&bytes[length..]);
        frame.extend([0; 40]);
        prop_assert_eq!(find(&frame), Found::Nothing, "{:?}", layers);
    }
}

#[test]
fn what_has_no_place_for_a_stamp() {
    let stamp = Stamp { run: 7, flow: 1, sequence: 2, time: 3 };
    let plain = Layers { protocol: protocol::UDP, ..Layers::default() };
    let frame = plain.frame(&written(&stamp));
    assert_eq!(frame.len(), 60, "the smallest frame has room for it");
    assert_eq!(find(&frame), Found::Stamp(stamp));
    let with = |at: usize, to: u8| {
        let mut frame = frame.clone();
        frame[at] = to;
        find(&frame)
    };
    assert_eq!(with(21, 1), Found::Nothing, "a fragment but the first");
    assert_eq!(with(20, 0x20), Found::Stamp(stamp), "the first fragment");
    assert_eq!(with(13, 0x06), Found::Nothing, "ARP");
    assert_eq!(with(12, 0x88), Found::Nothing, "another ethertype");
    assert_eq!(with(23, 89), Found::Nothing, "OSPF");
    assert_eq!(with(23, 1), Found::Nothing, "an ICMP message but an echo");
    let three = Layers { tags: 3, ..plain };
    assert_eq!(find(&three.frame(&written(&stamp))), Found::Nothing, "three tags");
    assert_eq!(find(&[]), Found::Nothing);
    assert_eq!(Stamp::read(&[0; 64]), None, "zeros are no stamp");
}

/// Any bytes: no panic, and a stamp only where one is.
#[test]
fn fuzz() {
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    let times = number("PERIGEE_FUZZ").unwrap_or(1);
    println!("PERIGEE_FUZZ_SEED={seed} PERIGEE_FUZZ={times}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let stamp = Stamp { run: 0x1234, flow: 5, sequence: 6, time: 7 };
    let bytes = written(&stamp);
    let (mut found, mut nothing) = (0, 0);
    for turn in 0..200_000 * times {
        let mut frame = Layers::random(&mut rng).frame(&bytes);
        let stamp_at = frame.len() - LENGTH;
        for _ in 0..rng.random_range(1..5) {
            let at = rng.random_range(0..frame.len().min(if turn % 2 == 0 { 64 } else { usize::MAX }));
            match rng.random_range(0..4) {
                0 => frame[at] = rng.random(),
                1 => frame[at] ^= 1 << rng.random_range(0..8),
                2 => frame.truncate(at.max(1)),
                _ => frame[at] = [0, 1, 0x45, 0x60, 0x81, 0xff][rng.random_range(0..6)],
            }
        }
        match find(&frame) {
            Found::Stamp(read) => {
                let whole = frame.get(stamp_at..stamp_at + LENGTH);
                let moved = frame.windows(LENGTH).any(|window| Stamp::read(window) == Some(read));
                assert!(whole == Some(&bytes) || moved, "{frame:02x?}");
                found += 1;
            }
            Found::Broken(_) => {}
            Found::Nothing => nothing += 1,
        }
    }
    // Both ways are taken often.
    assert!(found > 20_000 && nothing > 20_000, "{found} stamps, {nothing} times nothing");
}
