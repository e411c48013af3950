// SPDX-License-Identifier: MIT
//! Frames of every kind that can carry a stamp, written byte by byte from the RFCs, not by the code under test.
#![allow(dead_code, reason = "each test uses a part of it")]

use perigee_packet::wire::protocol;
use proptest::prelude::*;
use rand::RngExt;

/// A number from the environment.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; set it to a number")))
}

/// What stands before the payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layers {
    /// VLAN tags.
    pub tags: usize,
    /// IPv6, else IPv4.
    pub six: bool,
    /// Words of 4 bytes of IPv4 options, or of 8 bytes of IPv6 extension headers.
    pub options: usize,
    pub protocol: u8,
    /// Words of 4 bytes of TCP options.
    pub tcp_options: usize,
}

pub fn layers() -> impl Strategy<Value = Layers> {
    any::<u64>().prop_map(|seed| Layers::random(&mut <rand::rngs::SmallRng as rand::SeedableRng>::seed_from_u64(seed)))
}

impl Layers {
    pub fn random(rng: &mut impl rand::Rng) -> Layers {
        let six = rng.random();
        let icmp = if six { protocol::ICMPV6 } else { protocol::ICMP };
        Layers {
            tags: rng.random_range(0..3),
            six,
            options: if rng.random() { 0 } else { rng.random_range(0..4) },
            protocol: [protocol::UDP, protocol::UDP, protocol::TCP, icmp][rng.random_range(0..4)],
            tcp_options: rng.random_range(0..11),
        }
    }

    /// The header of the upper layer, its checksum zero.
    fn upper(&self, payload: usize) -> Vec<u8> {
        match self.protocol {
            protocol::UDP => {
                let length = (8 + payload) as u16;
                [[0x10, 0x00, 0x20, 0x00], [(length >> 8) as u8, length as u8, 0, 0]].concat()
            }
            protocol::TCP => {
                let mut header = vec![0; 20 + 4 * self.tcp_options];
                header[12] = (5 + self.tcp_options as u8) << 4;
                header
            }
            protocol::ICMP => vec![8, 0, 0, 0, 0x12, 0x34, 0, 1],
            _ => vec![128, 0, 0, 0, 0x12, 0x34, 0, 1],
        }
    }

    /// The whole frame, without checksums.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let upper = [&self.upper(payload.len())[..], payload].concat();
        let mut frame = vec![2; 12];
        for tag in 0..self.tags {
            frame.extend(if tag == 0 && self.tags > 1 { [0x88, 0xa8] } else { [0x81, 0x00] });
            frame.extend([0, 7]);
        }
        if self.six {
            frame.extend([0x86, 0xdd]);
            frame.extend(self.ipv6(&upper));
        } else {
            frame.extend([0x08, 0x00]);
            frame.extend(self.ipv4(&upper));
        }
        frame
    }

    fn ipv4(&self, upper: &[u8]) -> Vec<u8> {
        let header = 20 + 4 * self.options;
        let length = (header + upper.len()) as u16;
        let mut packet = vec![0x40 | (header / 4) as u8, 0, (length >> 8) as u8, length as u8];
        packet.extend([0, 0, 0x40, 0, 64, self.protocol, 0, 0]);
        packet.extend([198, 18, 0, 1, 198, 19, 0, 1]);
        packet.extend(std::iter::repeat_n(1, 4 * self.options));
        packet.extend(upper);
        packet
    }

    fn ipv6(&self, upper: &[u8]) -> Vec<u8> {
        // Hop-by-hop, then destination options, each with padding alone.
        let kinds = [protocol::HOP_BY_HOP, protocol::DESTINATION_OPTIONS, protocol::DESTINATION_OPTIONS];
        let kinds = &kinds[..self.options.min(3)];
        let mut extensions = vec![];
        for i in 0..kinds.len() {
            extensions.extend([*kinds.get(i + 1).unwrap_or(&self.protocol), 0, 1, 4, 0, 0, 0, 0]);
        }
        let length = (extensions.len() + upper.len()) as u16;
        let mut packet = vec![0x60, 0, 0, 0, (length >> 8) as u8, length as u8];
        packet.extend([*kinds.first().unwrap_or(&self.protocol), 64]);
        for address in [1, 2] {
            packet.extend([0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, address]);
        }
        packet.extend(extensions);
        packet.extend(upper);
        packet
    }
}

/// The checksum of the upper layer, computed by brute force over pseudo header, header and payload (RFC 768, RFC 8200
/// 8.1).
pub fn checksum_of(layers: &Layers, payload: &[u8]) -> u16 {
    let upper = [&layers.upper(payload.len())[..], payload].concat();
    let mut words: Vec<u8> = vec![];
    if layers.six {
        for address in [1, 2] {
            words.extend([0x20, 0x01, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, address]);
        }
    } else if layers.protocol != protocol::ICMP {
        words.extend([198, 18, 0, 1, 198, 19, 0, 1]);
    }
    if layers.six || layers.protocol != protocol::ICMP {
        words.extend((upper.len() as u32).to_be_bytes());
        words.extend([0, 0, 0, layers.protocol]);
    }
    words.extend(upper);
    if words.len() % 2 == 1 {
        words.push(0);
    }
    let mut sum: u64 = words.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
