// SPDX-License-Identifier: MIT
//! The 5-tuple of one packet, as filters match it: addresses, upper-layer protocol, ports, and what of these the packet does not show.
//!
//! A later fragment does not show the ports of its datagram, nor does a packet that ends before them. Of IPv6, a chain of extension headers
//! that is broken, longer than [`MAX_EXTENSIONS`](super::extension::MAX_EXTENSIONS), or that goes on in a later fragment hides the protocol.

use super::ExtensionHeaders;
use super::extension::is_extension;
use super::protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
use perigee_net::{Key, Key4, Key6, Missing};

/// Protocols whose headers begin with two ports.
pub(crate) const WITH_PORTS: [u8; 5] = [TCP, UDP, DCCP, SCTP, UDP_LITE];

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
    match ExtensionHeaders::new(header[6], payload).upper_layer() {
        // The fragmentable part may begin with extension headers, which are in the first fragment alone.
        Ok(upper) if !is_extension(upper.protocol) => {
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
