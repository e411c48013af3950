// SPDX-License-Identifier: MIT
//! The flow hash: which worker or which of several next hops a packet takes.
//!
//! Both directions of a flow get one value, so that one worker sees both: each end is hashed alone and the two are added.
//! Fragments hash on their addresses only, since all but the first lack the ports and must not part from it.

use std::net::IpAddr;

use crate::ethernet::ethertype;
use crate::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use crate::{Ethernet, Ipv4, Ipv6};

/// The hash of a frame whose network header is at byte `l3` and of type `ethertype` (host order, tags taken off).
///
/// Over addresses, protocol and ports for TCP, UDP, UDP-Lite, SCTP and DCCP; over addresses and protocol for the rest of IP;
/// over addresses for fragments; over both MACs for everything else and for malformed packets. 0 for a frame too short
/// for those. It neither checks the checksum nor needs the packet's end.
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

/// The same for a packet known by its fields; `ports` is `None` for protocols without and for fragments, and `protocol`
/// is 0 for fragments.
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

/// MurmurHash3's 64-bit finalizer: every input bit flips every output bit with a probability near one half. The constant
/// in front keeps 0 from staying 0.
#[inline]
fn mix(word: u64) -> u64 {
    let mut h = word ^ 0x9e37_79b9_7f4a_7c15;
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}
