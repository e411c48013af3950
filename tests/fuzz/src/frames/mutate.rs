// SPDX-License-Identifier: MIT
//! Changes of frames: of bytes, of lengths, and of header fields where they are. Most of what a router has to refuse is
//! a good packet with one wrong field, which random bytes hardly ever are.

use super::router::{ADDRESSES4, ADDRESSES6, VLAN, mac_addresses};
use super::templates::Template;
use perigee_packet::wire::checksum;
use perigee_packet::wire::protocol;
use rand::{Rng, RngExt};

/// The longest frame that a buffer holds.
const LONGEST: usize = 65_535;
/// Bytes that lengths, types and flags go wrong by.
const ODD: [u8; 12] = [0, 1, 2, 0x0f, 0x3f, 0x40, 0x45, 0x60, 0x7f, 0x80, 0xfe, 0xff];
/// Protocols that are looked at, and one that is not.
const PROTOCOLS: [u8; 14] = [0, 1, 2, 6, 17, 43, 44, 51, 58, 59, 60, 89, 132, 253];
/// IPv4 options, good and bad.
const OPTIONS: [&[u8]; 10] = [
    &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    &[68, 4, 5, 0xf0],
    &[131, 7, 4, 10, 0, 2, 2, 0],
    &[137, 7, 4, 10, 0, 3, 2, 0],
    &[148, 4, 0, 0],
    &[1, 1, 1, 1],
    &[7, 3, 4, 0],
    &[131, 0, 4, 0],
    &[68, 40, 5, 1, 0, 0, 0, 0],
];

/// Makes a frame from a template: copied into `frame`, then changed up to three times. Returns the port it comes in by.
pub fn frame(frame: &mut Vec<u8>, templates: &[Template], random: &mut impl Rng) -> u16 {
    let template = &templates[random.random_range(0..templates.len())];
    frame.clear();
    frame.extend_from_slice(&template.frame);
    let changes = random.random_range(0..4u32);
    for _ in 0..changes {
        let other = &templates[random.random_range(0..templates.len())].frame;
        change(frame, other, random);
    }
    // So that not all changes of an IPv4 header end at its checksum.
    if changes > 0 && random.random_range(0..4u32) > 0 {
        fix(frame);
    }
    frame.truncate(LONGEST);
    if random.random_range(0..32u32) == 0 { random.random_range(0..super::router::PORTS) } else { template.port }
}

/// One change.
fn change(frame: &mut Vec<u8>, other: &[u8], random: &mut impl Rng) {
    match random.random_range(0..12u32) {
        0..4 => bytes(frame, other, random),
        4 => ethernet(frame, random),
        _ => match layer(frame) {
            Some((0x0800, at)) => header4(frame, at, random),
            Some((0x86dd, at)) => header6(frame, at, random),
            _ => bytes(frame, other, random),
        },
    }
}

/// Where the network header starts, behind up to two VLAN tags, and its type.
fn layer(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = 12;
    for _ in 0..3 {
        let kind = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
        at += 2;
        if kind != 0x8100 && kind != 0x88a8 {
            return Some((kind, at));
        }
        at += 2;
    }
    None
}

fn bytes(frame: &mut Vec<u8>, other: &[u8], random: &mut impl Rng) {
    if frame.is_empty() {
        return frame.extend_from_slice(other);
    }
    // Most near the front, where types, lengths and addresses are.
    let reach = if random.random_range(0..4u32) == 0 { frame.len() } else { frame.len().min(70) };
    let at = random.random_range(0..reach);
    match random.random_range(0..9u32) {
        0 | 1 => frame[at] ^= 1 << random.random_range(0..8u32),
        2 => frame[at] = ODD[random.random_range(0..ODD.len())],
        3 => frame[at] = random.random(),
        4 => frame.truncate(at),
        5 => frame.insert(at, random.random()),
        6 => drop(frame.remove(at)),
        // Spliced: the front of one, the rest of another.
        7 => {
            frame.truncate(at);
            frame.extend_from_slice(other.get(at..).unwrap_or(&[]));
        }
        _ => {
            let tail = [1, 20, 60, 600, 1500, 9000][random.random_range(0..6usize)];
            // The longest are rare: copying them is all that would be done.
            let tail = if random.random_range(0..64u32) == 0 { LONGEST } else { tail };
            let length = frame.len() + random.random_range(0..=tail);
            frame.resize(length, 0x5a);
        }
    }
}

fn ethernet(frame: &mut Vec<u8>, random: &mut impl Rng) {
    if frame.len() < 14 {
        return;
    }
    let macs = mac_addresses();
    let mac = macs[random.random_range(0..macs.len())].octets();
    match random.random_range(0..6u32) {
        0 => frame[..6].copy_from_slice(&mac),
        1 => frame[6..12].copy_from_slice(&mac),
        2 => {
            let kinds: [[u8; 2]; 6] = [[8, 0], [0x86, 0xdd], [8, 6], [0x81, 0], [0, 46], [0x88, 0xcc]];
            frame[12..14].copy_from_slice(&kinds[random.random_range(0..kinds.len())]);
        }
        3 => {
            let id = [0, VLAN as u8, 8, 1][random.random_range(0..4usize)];
            let kind = [0x81, 0x88][random.random_range(0..2usize)];
            drop(frame.splice(12..12, [kind, if kind == 0x88 { 0xa8 } else { 0 }, random.random::<u8>() & 0xf0, id]));
        }
        4 if frame[12] == 0x81 && frame.len() >= 18 => drop(frame.drain(12..16)),
        _ => frame.truncate(random.random_range(0..=frame.len().min(18))),
    }
}

/// A field of an IPv4 header.
fn header4(frame: &mut Vec<u8>, at: usize, random: &mut impl Rng) {
    if frame.len() < at + 20 {
        return;
    }
    let addresses = &ADDRESSES4;
    match random.random_range(0..9u32) {
        0 => frame[at] = random.random_range(0..=255u32) as u8 & 0x1f | 0x40,
        1 => {
            let right = frame.len() - at;
            length(frame, at + 2, right, random);
        }
        2 => frame[at + 6..at + 8].copy_from_slice(&random.random::<u16>().to_be_bytes()),
        3 => frame[at + 8] = [0, 1, 2, 64, 255][random.random_range(0..5usize)],
        4 => frame[at + 9] = PROTOCOLS[random.random_range(0..PROTOCOLS.len())],
        5 => frame[at + 12..at + 16].copy_from_slice(&addresses[random.random_range(0..addresses.len())].octets()),
        6 => frame[at + 16..at + 20].copy_from_slice(&addresses[random.random_range(0..addresses.len())].octets()),
        7 => {
            let options = OPTIONS[random.random_range(0..OPTIONS.len())];
            let words = usize::from(frame[at] & 15) + options.len() / 4;
            if words <= 15 {
                frame[at] = 0x40 | words as u8;
                frame.splice(at + 20..at + 20, options.iter().copied());
                let total = (frame.len() - at).min(LONGEST) as u16;
                frame[at + 2..at + 4].copy_from_slice(&total.to_be_bytes());
            }
        }
        _ => frame[at + 10..at + 12].copy_from_slice(&random.random::<u16>().to_be_bytes()),
    }
}

/// A field of an IPv6 header, or an extension header more.
fn header6(frame: &mut Vec<u8>, at: usize, random: &mut impl Rng) {
    if frame.len() < at + 40 {
        return;
    }
    let addresses = &ADDRESSES6;
    match random.random_range(0..8u32) {
        0 => frame[at] = random.random(),
        1 => {
            let right = frame.len() - at - 40;
            length(frame, at + 4, right, random);
        }
        2 => frame[at + 6] = PROTOCOLS[random.random_range(0..PROTOCOLS.len())],
        3 => frame[at + 7] = [0, 1, 2, 64, 255][random.random_range(0..5usize)],
        4 => frame[at + 8..at + 24].copy_from_slice(&addresses[random.random_range(0..addresses.len())].octets()),
        5 => frame[at + 24..at + 40].copy_from_slice(&addresses[random.random_range(0..addresses.len())].octets()),
        _ => {
            let kinds = [protocol::HOP_BY_HOP, protocol::ROUTING, protocol::FRAGMENT, protocol::DESTINATION_OPTIONS];
            let units = random.random_range(0..3usize);
            let mut header = vec![0; 8 + 8 * units];
            random.fill_bytes(&mut header[2..]);
            // Mostly of the right length, and with options that are known.
            header[1] = if random.random_range(0..8u32) == 0 { random.random() } else { units as u8 };
            if random.random_range(0..2u32) == 0 {
                (header[2], header[3]) = ([0, 1, 5, 0x1e, 0x5e, 0x9e, 0xde, 0xc2][random.random_range(0..8usize)], 4);
            }
            header[0] = std::mem::replace(&mut frame[at + 6], kinds[random.random_range(0..4usize)]);
            frame.splice(at + 40..at + 40, header);
            let payload = (frame.len() - at - 40).min(LONGEST) as u16;
            frame[at + 4..at + 6].copy_from_slice(&payload.to_be_bytes());
        }
    }
}

/// A length that is a little wrong, or very.
fn length(frame: &mut [u8], at: usize, right: usize, random: &mut impl Rng) {
    let wrong = match random.random_range(0..4u32) {
        0 => right.saturating_sub(random.random_range(1..24usize)),
        1 => right + random.random_range(1..24usize),
        2 => random.random_range(0..48usize),
        _ => random.random_range(0..=LONGEST),
    };
    frame[at..at + 2].copy_from_slice(&(wrong.min(LONGEST) as u16).to_be_bytes());
}

/// Makes an IPv4 header's checksum right, if there is room for it.
fn fix(frame: &mut [u8]) {
    let Some((0x0800, at)) = layer(frame) else { return };
    let Some(&first) = frame.get(at) else { return };
    let header = usize::from(first & 15) * 4;
    if header >= 20 && frame.len() >= at + header {
        frame[at + 10..at + 12].fill(0);
        let sum = checksum::ipv4_header(&frame[at..at + header]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
}
