// SPDX-License-Identifier: MIT
//! The 5-tuple of one packet, as filters match it: addresses, upper-layer protocol, ports, and what of these the packet
//! does not show.
//!
//! A later fragment does not show the ports of its datagram, nor does a packet that ends before them. Of IPv6, a chain
//! of extension headers that is broken, longer than [`MAX_EXTENSIONS`](super::extension::MAX_EXTENSIONS), or that goes
//! on in a later fragment hides the protocol.

use super::ethernet::ethertype;
use super::extension::is_extension;
use super::protocol::{DCCP, FRAGMENT, SCTP, TCP, UDP, UDP_LITE};
use super::{ExtensionHeaders, vlan};
use perigee_net::{Key, Key4, Key6, Missing};

/// Protocols whose headers begin with two ports.
pub(crate) const WITH_PORTS: [u8; 5] = [TCP, UDP, DCCP, SCTP, UDP_LITE];

/// Whether headers of a protocol begin with two ports.
pub fn has_ports(protocol: u8) -> bool {
    WITH_PORTS.contains(&protocol)
}

/// Where the IP header of a frame is, behind the Ethernet header and at most one tag of whatever type, and whether it
/// is IPv6's; `None` for a frame of another type.
pub fn network(frame: &[u8]) -> Option<(usize, bool)> {
    let kind = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let at = if vlan::is_tag(kind(12)?) { 18 } else { 14 };
    match kind(at - 2)? {
        ethertype::IPV4 => Some((at, false)),
        ethertype::IPV6 => Some((at, true)),
        _ => None,
    }
}

/// The key of an IPv4 packet, given from its header on; `None` without 20 bytes of a header. Nothing of it is checked.
pub fn key4(packet: &[u8]) -> Option<Key4> {
    let header = packet.first_chunk::<20>()?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]])).min(packet.len());
    let at = usize::from(header[0] & 0xf) * 4;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let ports = packet[..total].get(at..at + 4).filter(|_| fragment & 0x1fff == 0);
    let [a, b, c, d, e, f, g, h] = std::array::from_fn(|i| header[12 + i]);
    let key = key(header[9], [a, b, c, d], [e, f, g, h], ports.and_then(|ports| ports.first_chunk().copied()));
    Some(Key { fragment: fragment != 0, ..key })
}

/// The key of an IPv6 packet, given from its header on; `None` without a header. Nothing of it is checked.
#[inline(always)]
pub fn key6(packet: &[u8]) -> Option<Key6> {
    let (header, payload) = packet.split_first_chunk::<40>()?;
    let length = u16::from_be_bytes([header[4], header[5]]);
    if let (protocol @ (TCP | UDP), 4.., Some(ports)) = (header[6], length, payload.first_chunk::<4>()) {
        return Some(whole6(header, protocol, Some(*ports)));
    }
    Some(followed(header, &payload[..payload.len().min(length.into())]))
}

/// The same, along the extension headers.
#[inline(never)]
fn followed(header: &[u8; 40], payload: &[u8]) -> Key6 {
    // A second fragment header makes a fragment of a fragment, of which nothing is known.
    let headers = ExtensionHeaders::new(header[6], payload);
    let fragments = headers.clone().filter_map(Result::ok).filter(|header| header.kind == FRAGMENT).count();
    match headers.upper_layer() {
        // The fragmentable part may begin with extension headers, which are in the first fragment alone.
        Ok(upper) if !is_extension(upper.protocol) && fragments < 2 => {
            let ports = upper.payload.first_chunk().filter(|_| upper.has_header());
            Key { fragment: upper.is_fragment(), ..whole6(header, upper.protocol, ports.copied()) }
        }
        _ => Key { missing: Missing::Protocol, ..whole6(header, 0, None) },
    }
}

#[inline(always)]
fn whole6(header: &[u8; 40], protocol: u8, ports: Option<[u8; 4]>) -> Key6 {
    let address = |at: usize| std::array::from_fn(|i| header[at + i]);
    key(protocol, address(8), address(24), ports)
}

/// A key, with the first four bytes behind the IP header, if they are here.
#[inline(always)]
fn key<const N: usize>(protocol: u8, source: [u8; N], destination: [u8; N], ports: Option<[u8; 4]>) -> Key<N> {
    let ports = if WITH_PORTS.contains(&protocol) { ports } else { Some([0; 4]) };
    let missing = if ports.is_some() { Missing::Nothing } else { Missing::Ports };
    let [a, b, c, d] = ports.unwrap_or_default();
    Key { protocol, missing, source, destination, source_port: [a, b], destination_port: [c, d], ..Key::ZERO }
}
