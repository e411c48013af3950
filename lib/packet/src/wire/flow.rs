// SPDX-License-Identifier: MIT
//! The flow hash: which worker or which of several next hops a packet takes.
//!
//! Both directions of a flow get one value, so that one worker sees both: each end is hashed alone and the two are
//! added. Fragments hash on their addresses only, since all but the first lack the ports and must not part from it.

use std::net::IpAddr;

use crate::wire::ethernet::ethertype;
use crate::wire::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use crate::wire::{Ethernet, Ipv4, Ipv6};

/// The hash of a frame whose network header is at byte `l3` and of type `ethertype` (host order, tags taken off).
///
/// Over addresses, protocol and ports for TCP, UDP, UDP-Lite, SCTP and DCCP; over addresses and protocol for the rest
/// of IP; over addresses for fragments; over both MACs for everything else and for malformed packets. 0 for a frame too
/// short for those. It neither checks the checksum nor needs the packet's end.
#[inline]
pub fn symmetric_hash(frame: &[u8], l3: usize, ethertype: u16) -> u32 {
    let packet = frame.get(l3..).unwrap_or_default();
    let hash = match ethertype {
        ethertype::IPV4 => hash_v4(packet),
        ethertype::IPV6 => hash_v6(packet),
        _ => None,
    };
    let hash = hash.or_else(|| hash_l2(frame)).unwrap_or(0);
    (hash ^ hash >> 32) as u32
}

/// The hash of a packet that is known by its fields; `ports` is `None` for protocols without ports and for fragments,
/// and `protocol` is 0 for fragments.
pub fn symmetric_hash_of(source: IpAddr, destination: IpAddr, protocol: u8, ports: Option<(u16, u16)>) -> u32 {
    let (from, to) = ports.unwrap_or((0, 0));
    let end = |address, port| match address {
        IpAddr::V4(address) => end_v4(address.into(), port),
        IpAddr::V6(address) => end_v6(address.into(), port),
    };
    let hash = join(end(source, from), end(destination, to), protocol);
    (hash ^ hash >> 32) as u32
}

#[inline]
fn hash_v4(packet: &[u8]) -> Option<u64> {
    let packet = Ipv4::new_truncated(packet).ok()?;
    let (source, destination) = (packet.source().into(), packet.destination().into());
    if packet.is_fragment() {
        return Some(join(end_v4(source, 0), end_v4(destination, 0), 0));
    }
    let (from, to) = ports(packet.protocol(), packet.payload());
    Some(join(end_v4(source, from), end_v4(destination, to), packet.protocol()))
}

#[inline]
fn hash_v6(packet: &[u8]) -> Option<u64> {
    let packet = Ipv6::new_truncated(packet).ok()?;
    let (source, destination) = (packet.source().into(), packet.destination().into());
    let upper = packet.upper_layer().ok()?;
    if upper.is_fragment() {
        return Some(join(end_v6(source, 0), end_v6(destination, 0), 0));
    }
    let (from, to) = ports(upper.protocol, upper.payload);
    Some(join(end_v6(source, from), end_v6(destination, to), upper.protocol))
}

fn hash_l2(frame: &[u8]) -> Option<u64> {
    let frame = Ethernet::new(frame).ok()?;
    let end = |mac: [u8; 6]| mix(mac.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    Some(join(end(frame.source().octets()), end(frame.destination().octets()), 0))
}

#[inline]
fn ports(protocol: u8, payload: &[u8]) -> (u16, u16) {
    match (protocol, payload) {
        (TCP | UDP | UDP_LITE | SCTP | DCCP, &[a, b, c, d, ..]) => {
            (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        _ => (0, 0),
    }
}

#[inline]
fn end_v4(address: u32, port: u16) -> u64 {
    mix(u64::from(address) << 16 | u64::from(port))
}

#[inline]
fn end_v6(address: u128, port: u16) -> u64 {
    mix(mix((address >> 64) as u64) ^ address as u64).wrapping_add(mix(u64::from(port)))
}

/// Addition is what makes it symmetric; the last mixing spreads what the sum leaves in the high bits.
#[inline]
fn join(a: u64, b: u64, protocol: u8) -> u64 {
    mix(a.wrapping_add(b).wrapping_add(u64::from(protocol)))
}

/// MurmurHash3's 64-bit finalizer: every input bit flips every output bit with a probability near one half. The
/// constant in front keeps 0 from staying 0.
#[inline]
fn mix(word: u64) -> u64 {
    let mut h = word ^ 0x9e37_79b9_7f4a_7c15;
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::captured::{self, layer};
    use proptest::prelude::*;

    /// The answer's frame: both MACs swapped, and other pairs of fields (each at this byte, of this length).
    fn reversed(frame: &[u8], pairs: &[(usize, usize)]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        for &(at, len) in [(0, 6)].iter().chain(pairs) {
            let (a, b) = frame[at..at + 2 * len].split_at_mut(len);
            a.swap_with_slice(b);
        }
        frame
    }

    #[test]
    fn both_directions_are_one_flow() {
        for hex in [captured::TCP_SYN_4, captured::UDP_4] {
            let there = layer(hex, 0);
            let back = reversed(&there, &[(26, 4), (34, 2)]);
            assert_ne!(there, back);
            assert_eq!(symmetric_hash(&there, 14, 0x0800), symmetric_hash(&back, 14, 0x0800));
        }
        let there = layer(captured::UDP_6, 0);
        let back = reversed(&there, &[(22, 16), (54, 2)]);
        assert_eq!(symmetric_hash(&there, 14, 0x86dd), symmetric_hash(&back, 14, 0x86dd));
        // A real pair: request and reply of one ping.
        let pair =
            [captured::ECHO_REQUEST_4, captured::ECHO_REPLY_4].map(|hex| symmetric_hash(&layer(hex, 0), 14, 0x0800));
        assert_eq!(pair[0], pair[1]);
    }

    #[test]
    fn ports_count_but_not_in_fragments() {
        let hash = |frame: &[u8]| symmetric_hash(frame, 14, 0x0800);
        let whole = layer(captured::UDP_4, 0);
        let mut other = whole.clone();
        other[35] ^= 1;
        assert_ne!(hash(&whole), hash(&other));
        let fragment = |flags: u8, offset: u8, mut frame: Vec<u8>| {
            frame[20..22].copy_from_slice(&[flags, offset]);
            frame
        };
        let first = hash(&fragment(0x20, 0, whole.clone()));
        assert_eq!(first, hash(&fragment(0x20, 0, other)), "first fragments of two flows");
        assert_eq!(first, hash(&fragment(0, 9, whole.clone())), "first and last");
        assert_ne!(first, hash(&whole));
        let mut icmp = fragment(0x20, 0, whole);
        icmp[23] = 1;
        assert_eq!(first, hash(&icmp), "addresses only");
    }

    #[test]
    fn fragments_of_ipv6_stay_together() {
        // Fragment header and UDP ports, put in front of a captured packet's payload.
        let hash = |flags: u8, port: u8| {
            let mut bytes = layer(captured::UDP_6, 0);
            bytes[20] = 44;
            bytes.splice(54..54, [17, 0, 0, flags, 0, 0, 0, 7]);
            bytes[63] = port;
            symmetric_hash(&bytes, 14, 0x86dd)
        };
        let (first, last) = (1, 8);
        assert_eq!(hash(first, 1), hash(last, 2));
        assert_ne!(hash(0, 1), hash(0, 2), "an atomic fragment is whole");
    }

    #[test]
    fn agrees_with_the_fields() {
        let bytes = layer(captured::UDP_6, 0);
        let ip = Ipv6::new(&bytes[14..]).unwrap();
        let (from, to) = (ip.destination().into(), ip.source().into());
        let ports = Some((7777, u16::from_be_bytes([bytes[54], bytes[55]])));
        assert_eq!(symmetric_hash(&bytes, 14, 0x86dd), symmetric_hash_of(from, to, UDP, ports));
    }

    #[test]
    fn no_ip_hashes_on_macs() {
        let hash = |frame: &[u8]| symmetric_hash(frame, 14, 0x0806);
        let [request, reply] = [captured::ARP_REQUEST, captured::ARP_REPLY].map(|hex| layer(hex, 0));
        assert_eq!(hash(&reply), hash(&reversed(&reply, &[])));
        assert_ne!(hash(&reply), hash(&request), "the request is a broadcast");
        assert_ne!(hash(&reply), 0);
        assert_eq!(symmetric_hash(&[1; 13], 14, 0x0800), 0);
    }

    proptest! {
        #[test]
        fn symmetric(a in any::<u128>(), b in any::<u128>(), from in any::<u16>(), to in any::<u16>(), protocol in any::<u8>()) {
            for [x, y] in [[a, b].map(|a| IpAddr::V6(a.into())), [a, b].map(|a| IpAddr::V4((a as u32).into()))] {
                let there = symmetric_hash_of(x, y, protocol, Some((from, to)));
                prop_assert_eq!(there, symmetric_hash_of(y, x, protocol, Some((to, from))));
            }
        }
    }

    /// Neighboring addresses and ports, the usual traffic of a test, spread over 4 workers: no worker's share of 65536
    /// flows is off by more than 5 standard deviations.
    #[test]
    fn spreads_neighboring_flows() {
        let mut shares = [0i64; 4];
        for (host, port) in (0..256u32).flat_map(|host| (0..256u16).map(move |port| (host, port))) {
            let source = IpAddr::V4((0x0a00_0000 + host).into());
            let destination = IpAddr::V4(0xc000_0201.into());
            let hash = symmetric_hash_of(source, destination, UDP, Some((1024 + port, 53)));
            shares[(hash % 4) as usize] += 1;
        }
        let deviation = (65536.0f64 * 0.25 * 0.75).sqrt();
        for share in shares {
            assert!(((share - 16384).abs() as f64) < 5.0 * deviation, "{shares:?}");
        }
    }
}
