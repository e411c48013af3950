// SPDX-License-Identifier: MIT
//! What a worker remembers of datagrams in fragments: the ports that the first one shows, for the later ones, so that
//! filters judge all fragments of a datagram alike.
//!
//! ```text
//!  first fragment:  source, destination, protocol, identification ──► ports, time
//!  later fragment:  the same                                      ──► these ports, if the first came before it and on this worker
//! ```
//!
//! A later fragment that finds nothing keeps its ports missing, and the strictest rule decides. The table is bounded,
//! and what is new takes the place of what is there: a flood of first fragments makes it forget, and so drops more,
//! never less.

use perigee_net::{Key, Missing};
use perigee_packet::wire::{protocol, tuple};
use perigee_packet::{ExtensionHeaders, Ipv6};
use std::hash::{BuildHasher, RandomState};

/// Datagrams that are remembered, at most.
const DATAGRAMS: usize = 4096;
/// Places that a datagram can be in.
const WAYS: usize = 4;
/// How long the later fragments of a datagram may come, in ns: half of what reassembly waits (RFC 1122 3.3.2).
const WAIT: u64 = 30_000_000_000;

#[derive(Clone, Copy, Default)]
struct Datagram {
    /// A hash of what identifies it, with a secret: nobody can make another datagram that has the same.
    hash: u64,
    ports: [[u8; 2]; 2],
    /// When its first fragment came, in ns.
    time: u64,
}

/// The datagrams of which a worker has seen the first fragment.
#[derive(Default)]
pub struct Fragments {
    /// By hash; empty until there is a fragment.
    datagrams: Vec<Datagram>,
    secret: RandomState,
}

impl Fragments {
    /// Remembers the ports of a key of a first fragment, or gives them to that of a later one. `packet` begins with its
    /// IP header.
    pub fn complete<const N: usize>(&mut self, key: &mut Key<N>, packet: &[u8], now: u64) {
        // Of others nothing is ever missing.
        if !tuple::has_ports(key.protocol) {
            return;
        }
        let Some(identification) = identification::<N>(packet) else { return };
        let hash = self.secret.hash_one((key.source, key.destination, key.protocol, identification));
        if self.datagrams.is_empty() {
            self.datagrams = vec![Datagram::default(); DATAGRAMS];
        }
        let first = hash as usize % (DATAGRAMS / WAYS) * WAYS;
        let ways = &mut self.datagrams[first..first + WAYS];
        let known = ways.iter().position(|datagram| datagram.hash == hash);
        if key.missing == Missing::Nothing {
            // Of those of one burst, any.
            let from = (hash >> 32) as usize;
            let oldest = (0..WAYS).map(|way| (from + way) % WAYS).min_by_key(|way| ways[*way].time).unwrap_or(0);
            let ports = [key.source_port, key.destination_port];
            ways[known.unwrap_or(oldest)] = Datagram { hash, ports, time: now };
        } else if let Some(datagram) = known.map(|way| &ways[way]).filter(|d| now.saturating_sub(d.time) < WAIT) {
            [key.source_port, key.destination_port] = datagram.ports;
            key.missing = Missing::Nothing;
        }
    }
}

/// The number that the fragments of a datagram share.
fn identification<const N: usize>(packet: &[u8]) -> Option<u32> {
    if N == 4 {
        return Some(u16::from_be_bytes(*packet.get(4..6)?.first_chunk()?).into());
    }
    let header = Ipv6::new_truncated(packet).ok()?;
    let mut headers = ExtensionHeaders::new(header.next_header(), header.payload()).filter_map(Result::ok);
    headers.find(|header| header.kind == protocol::FRAGMENT)?.fragment().map(|fragment| fragment.identification)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet of 40 bytes, which says that it is a fragment.
    fn packet(identification: u16, offset: u8, more: bool, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x45;
        packet[3] = 40;
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
        packet[6] = u8::from(more) << 5;
        packet[7] = offset;
        packet[9] = protocol::UDP;
        packet[22..24].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn port(fragments: &mut Fragments, packet: &[u8], now: u64) -> Option<u16> {
        let mut key = tuple::key4(packet).expect("a header");
        assert!(key.fragment);
        fragments.complete(&mut key, packet, now);
        (key.missing == Missing::Nothing).then(|| u16::from_be_bytes(key.destination_port))
    }

    #[test]
    fn later_fragments_have_the_ports_of_the_first_one_of_their_datagram() {
        let mut fragments = Fragments::default();
        let later = |identification| packet(identification, 1, true, 9);
        assert_eq!(port(&mut fragments, &later(1), 5), None, "the first one has not come");
        assert_eq!(port(&mut fragments, &packet(1, 0, true, 53), 5), Some(53));
        assert_eq!(port(&mut fragments, &later(1), 6), Some(53));
        assert_eq!(port(&mut fragments, &packet(1, 2, false, 9), 7), Some(53));
        assert_eq!(port(&mut fragments, &later(2), 7), None, "of another datagram");
        let mut elsewhere = later(1);
        elsewhere[15] = 1;
        assert_eq!(port(&mut fragments, &elsewhere, 7), None, "of another source");
        assert_eq!(port(&mut fragments, &later(1), 5 + WAIT), None, "too late");
        assert_eq!(port(&mut fragments, &packet(1, 0, true, 54), 5 + WAIT), Some(54), "a new datagram of this number");
        assert_eq!(port(&mut fragments, &later(1), 6 + WAIT), Some(54));
    }

    #[test]
    fn a_flood_of_first_fragments_makes_it_forget_and_nothing_else() {
        let mut fragments = Fragments::default();
        port(&mut fragments, &packet(1, 0, true, 53), 0);
        for identification in 2..=u16::MAX {
            port(&mut fragments, &packet(identification, 0, true, 54), 0);
        }
        let found: Vec<_> = (1..=u16::MAX).filter_map(|n| port(&mut fragments, &packet(n, 1, true, 9), 1)).collect();
        assert!(found.len() <= DATAGRAMS && found.len() > DATAGRAMS / 2, "{}", found.len());
        assert!(found.iter().filter(|port| **port != 54).count() <= 1);
    }
}
