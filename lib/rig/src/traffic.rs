// SPDX-License-Identifier: MIT
//! The packets of a source: IPv4 and UDP to random destinations in a number of prefixes, some of them for the slow
//! path.

use crate::tables;
use anyhow::{Result, ensure};
use perigee_net::{MacAddr, Prefix4};
use perigee_packet::wire::{ethernet, ipv4, protocol, udp};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng};
use std::net::Ipv4Addr;

/// Bytes of a frame's check sequence, which frame sizes count and buffers do not hold.
const FCS: u16 = 4;
/// The shortest and the longest frame, in bytes with its check sequence.
pub const SIZES: std::ops::RangeInclusive<u16> = 64..=1518;
/// Bytes that are written of each frame: those of the shortest, which hold all headers and a stamp.
pub(crate) const HEADERS: usize = 60;
/// Where the stamp is: the first bytes behind the UDP header.
pub(crate) const STAMP: usize = 42;
/// Fewest entries: so many packets pass until one comes again.
const FEWEST: usize = 1 << 16;
const TTL: u8 = 64;
/// What the slow path has to answer: the packet's time is over.
const EXPIRED: u8 = 1;

/// What packets differ by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub destination: [u8; 4],
    pub checksum: [u8; 2],
    pub ttl: u8,
}

/// The packets of a source.
#[derive(Debug)]
pub struct Traffic {
    /// Bytes of a frame in a buffer.
    pub(crate) length: u16,
    pub(crate) template: [u8; HEADERS],
    pub(crate) entries: Vec<Entry>,
}

impl Traffic {
    /// Frames of `size` bytes, check sequence included, that come to the router's port with this MAC address, for one
    /// of `networks` after the other in random order; a share of them, 0 to 1, has a TTL of 1.
    ///
    /// # Errors
    /// A size or a share that is out of bounds, or no networks.
    pub fn new(size: u16, mac: MacAddr, networks: &[Prefix4], punted: f64, seed: u64) -> Result<Traffic> {
        ensure!(SIZES.contains(&size), "frames of {size} bytes: expected {} to {}", SIZES.start(), SIZES.end());
        ensure!((0.0..=1.0).contains(&punted), "a share of {punted} for the slow path: expected 0 to 1");
        ensure!(!networks.is_empty(), "packets are for 0 networks: expected at least 1");
        let mut random = StdRng::seed_from_u64(seed);
        let rounds = FEWEST.div_ceil(networks.len());
        let mut entries = Vec::with_capacity(rounds * networks.len());
        for _ in 0..rounds {
            for network in networks {
                let host = match u32::MAX.checked_shr(network.len().into()).unwrap_or(0) {
                    0 => 0,
                    // A link of two addresses has no others (RFC 3021).
                    1 => random.random_range(0..=1),
                    broadcast => random.random_range(1..broadcast),
                };
                let destination = Ipv4Addr::from_bits(network.addr() | host);
                entries.push((destination, if random.random::<f64>() < punted { EXPIRED } else { TTL }));
            }
        }
        entries.shuffle(&mut random);
        let length = size - FCS;
        let frame = |ttl: u8| -> Result<[u8; HEADERS]> {
            let mut frame = vec![0; length.into()];
            let ip = ethernet::emit(&mut frame, mac, tables::HOST_MAC, 0x0800)?;
            let length = frame.len() - ip - ipv4::HEADER_LEN;
            let mut header = ipv4::Repr::new(tables::HOST, Ipv4Addr::UNSPECIFIED, protocol::UDP, length);
            header.ttl = ttl;
            header.emit(&mut frame[ip..])?;
            let udp = ip + ipv4::HEADER_LEN;
            let payload = frame.len() - udp - udp::HEADER_LEN;
            // Without a checksum (RFC 768): nobody has to correct it for the stamp.
            udp::emit(&mut frame[udp..], 12_345, 9, payload)?;
            Ok(frame.first_chunk().copied().unwrap_or([0; HEADERS]))
        };
        let (template, expired) = (frame(TTL)?, frame(EXPIRED)?);
        let entry = |(destination, ttl): (Ipv4Addr, u8)| {
            let without = if ttl == EXPIRED { &expired } else { &template };
            let checksum = checksum_to([without[24], without[25]], destination);
            Entry { destination: destination.octets(), checksum, ttl }
        };
        let entries = entries.into_iter().map(entry).collect();
        Ok(Traffic { length, template, entries })
    }

    /// One frame of each entry, as far as it is written.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.entries.iter().map(|entry| {
            let mut frame = self.template;
            frame[22] = entry.ttl;
            frame[24..26].copy_from_slice(&entry.checksum);
            frame[30..34].copy_from_slice(&entry.destination);
            frame.to_vec()
        })
    }
}

/// A header's checksum with this destination, from the one with 0.0.0.0 (RFC 1624).
fn checksum_to(without: [u8; 2], destination: Ipv4Addr) -> [u8; 2] {
    let [a, b, c, d] = destination.octets();
    let words = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    let sum = words.into_iter().map(u32::from).sum::<u32>() + u32::from(!u16::from_be_bytes(without));
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_right_checksums_and_cover_all_networks() {
        let networks: Vec<Prefix4> =
            tables::networks(300, 1).into_iter().map(|network| Prefix4::new(network, 24).unwrap()).collect();
        let traffic = Traffic::new(64, MacAddr([2, 0, 0, 0, 0, 0]), &networks, 0.1, 1).unwrap();
        assert!(traffic.entries.len() >= FEWEST && traffic.length == 60);
        let expired = traffic.entries.iter().filter(|entry| entry.ttl == EXPIRED).count() as f64;
        assert!((0.09..0.11).contains(&(expired / traffic.entries.len() as f64)), "{expired}");
        let mut seen = std::collections::HashMap::new();
        for (entry, frame) in traffic.entries.iter().zip(traffic.frames()) {
            let sum: u32 = frame[14..34].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            let network = Prefix4::truncated(u32::from_be_bytes(entry.destination), 24).unwrap();
            *seen.entry(network).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), networks.len());
        assert!(networks.iter().all(|network| seen[network] >= FEWEST / networks.len()));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let network = Prefix4::new(1 << 24, 24).unwrap();
        let new =
            |size, networks: &[Prefix4], punted| Traffic::new(size, MacAddr::ZERO, networks, punted, 1).map(|_| ());
        for (size, networks, punted, says) in [
            (63, &[network][..], 0.0, "63"),
            (1519, &[network], 0.0, "1519"),
            (64, &[], 0.0, "0"),
            (64, &[network], 1.5, "1.5"),
        ] {
            let error = new(size, networks, punted).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
