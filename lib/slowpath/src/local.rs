// SPDX-License-Identifier: MIT
//! Fragments to this router, and to groups that it hears: they become whole datagrams before anything else looks at
//! them, so that neither its own echo nor Linux behind the twin sees a fragment. Those of others are never touched (RFC
//! 1812 5.2.6).
//!
//! | fragment | answer |
//! | --- | --- |
//! | IPv4 or IPv6, not all here after 60 s, the first one is | Time Exceeded, code 1 (RFC 1122 3.3.2, RFC 8200 4.5) |
//! | IPv6, others follow, length not a multiple of 8 | Parameter Problem 0 at the payload length (RFC 8200 4.5) |
//! | IPv6, beyond 65,535 bytes | Parameter Problem 0 at the fragment offset (RFC 8200 4.5) |
//! | IPv6, the first one, without all headers | Parameter Problem 3 (RFC 7112 5, RFC 8200 4.5) |
//! | anything else that is refused | none |

use std::net::IpAddr;

use perigee_net::InterfaceId;
use perigee_packet::wire::ethernet::{self, ethertype};
use perigee_packet::wire::{extension, icmp6, ipv6, protocol};
use perigee_packet::{Ipv4, Ipv6};

use crate::frame::Received;
use crate::machine::{SlowPath, Turn};
use crate::reassembly::{Fragment, Key, Refusal, Whole};
use crate::{icmp, icmp6 as own_icmp6};

/// ECN's code point for congestion.
const CONGESTION: u8 = 3;
/// Bytes of TCP that the first fragment must have: up to the flags (RFC 1858 3.2.1).
const FIRST_OF_TCP: usize = 16;
/// Where the payload length is in an IPv6 header.
const PAYLOAD_LENGTH: usize = 4;

/// A fragment header (RFC 8200 4.5) and where it is.
struct FragmentHeader {
    /// In bytes from the IPv6 header's start.
    at: usize,
    /// Where the next header field is that names it.
    named_at: usize,
    /// What the datagram has in its place.
    next_header: u8,
    fields: extension::Fragment,
}

impl FragmentHeader {
    const LEN: usize = 8;

    /// The first one of a packet whose end may be missing.
    fn find<T: AsRef<[u8]>>(packet: &Ipv6<T>) -> Option<FragmentHeader> {
        let mut named_at = 6; // The next header field of the IPv6 header.
        for header in packet.extension_headers().map_while(Result::ok) {
            if let Some(fields) = header.fragment() {
                return Some(FragmentHeader { at: header.offset, named_at, next_header: header.next_header, fields });
            }
            named_at = header.offset;
        }
        None
    }
}

/// Has the IPv6 packet a fragment header, as far as its headers can be read?
pub(crate) fn has_fragment_header(packet: &Ipv6<&[u8]>) -> bool {
    FragmentHeader::find(packet).is_some()
}

impl SlowPath {
    /// A fragment of IPv4; the whole datagram, if it was the last that was missing.
    pub(crate) fn fragment4(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv4<&[u8]>,
    ) -> Option<Received<'static>> {
        if self.leave_to_owner() {
            return None; // Memory for fragments is bounded for the router as a whole.
        }
        if is_tiny(packet) {
            self.counters.drops.fragment_tiny += 1;
            return None;
        }
        let (source, destination) = (IpAddr::V4(packet.source()), IpAddr::V4(packet.destination()));
        let fragment = Fragment {
            key: Key {
                source,
                destination,
                protocol: packet.protocol(),
                identification: u32::from(packet.identification()),
                link: link_of(received, source, destination),
            },
            interface: received.interface,
            head: &received.frame[..ethernet::HEADER_LEN + packet.header_len()],
            header_len: packet.header_len(),
            offset: packet.fragment_offset(),
            more: packet.more_fragments(),
            data: packet.payload(),
            ecn: packet.ecn(),
        };
        self.expire_fragments(turn);
        let Whole { interface, mut frame, congestion } =
            self.reassembly.add(turn.now, &fragment, &mut self.counters).ok()??;
        let total = frame.len() - ethernet::HEADER_LEN;
        let mut whole = Ipv4::new(&mut frame[ethernet::HEADER_LEN..]).ok()?;
        whole.set_total_len(total as u16); // No more than 65,535, by reassembly.
        whole.set_fragment(whole.dont_fragment(), false, 0);
        if congestion {
            whole.set_tos(whole.tos() | CONGESTION);
        }
        whole.fill_checksum();
        self.received_whole(interface, frame)
    }

    /// A packet of IPv6 with a fragment header; the whole datagram, if it was the last that was missing.
    pub(crate) fn fragment6(
        &mut self,
        turn: Turn,
        received: &Received,
        packet: &Ipv6<&[u8]>,
    ) -> Option<Received<'static>> {
        if self.leave_to_owner() {
            return None;
        }
        let header = FragmentHeader::find(packet)?;
        let behind = header.at + FragmentHeader::LEN;
        let end = ipv6::HEADER_LEN + packet.payload_len();
        let extension::Fragment { offset, more, identification } = header.fields;
        let whole = if offset == 0 && !more {
            // An atomic fragment has nothing to do with any other (RFC 6946 4).
            let frame = received.frame[..ethernet::HEADER_LEN + end].to_vec();
            Whole { interface: received.interface, frame, congestion: false }
        } else if offset == 0 && !has_all_headers(packet) {
            self.counters.drops.fragment_headers += 1;
            self.error6(turn, received, packet, own_icmp6::Problem::headers_cut());
            return None;
        } else {
            let (source, destination) = (IpAddr::V6(packet.source()), IpAddr::V6(packet.destination()));
            let link = link_of(received, source, destination);
            let fragment = Fragment {
                key: Key { source, destination, protocol: 0, identification, link },
                interface: received.interface,
                head: &received.frame[..ethernet::HEADER_LEN + behind],
                header_len: header.at - ipv6::HEADER_LEN,
                offset,
                more,
                data: &packet.into_inner()[behind..end],
                ecn: packet.traffic_class() & 3,
            };
            self.expire_fragments(turn);
            match self.reassembly.add(turn.now, &fragment, &mut self.counters) {
                Ok(whole) => whole?,
                Err(refusal) => {
                    if let Some(pointer) = wrong_field(refusal, &header) {
                        self.error6(turn, received, packet, own_icmp6::Problem::fragment(pointer));
                    }
                    return None;
                }
            }
        };
        let Whole { interface, frame, congestion } = whole;
        let frame = without_fragment_header(frame, congestion)?;
        self.judge_whole6(&frame).then(|| self.received_whole(interface, frame)).flatten()
    }

    /// What may not come in fragments: neighbor discovery (RFC 6980 5), and fragments.
    fn judge_whole6(&mut self, frame: &[u8]) -> bool {
        let upper = Ipv6::new(&frame[ethernet::HEADER_LEN..]).ok().and_then(|whole| {
            let upper = whole.upper_layer().ok().filter(|upper| upper.fragment.is_none())?;
            Some((upper.protocol, upper.payload.first().copied()))
        });
        match upper {
            None => self.counters.drops.bad_extension += 1,
            Some((protocol::ICMPV6, Some(kind))) if icmp6::is_neighbor_discovery(kind) => {
                self.counters.drops.nd_fragmented += 1;
            }
            Some(_) => return true,
        }
        false
    }

    /// The datagram as if it had come in one piece, if its interface is still there.
    fn received_whole(&mut self, interface: InterfaceId, frame: Vec<u8>) -> Option<Received<'static>> {
        self.usable(interface)?;
        Received::untagged(interface, frame).ok()
    }

    /// Gives up datagrams whose time is up, and reports it to the senders of first fragments.
    pub(crate) fn expire_fragments(&mut self, turn: Turn) {
        while let Some(expired) = self.reassembly.expire(turn.now, &mut self.counters) {
            let Ok(first) = Received::untagged(expired.interface, expired.frame) else { continue };
            if first.ethertype == ethertype::IPV4 {
                if let Ok(packet) = Ipv4::new(first.payload()) {
                    self.error4(turn, &first, &packet, icmp::Problem::ReassemblyTime);
                }
            } else if let Ok(packet) = Ipv6::new(first.payload()) {
                self.error6(turn, &first, &packet, own_icmp6::Problem::reassembly_time());
            }
        }
    }
}

/// The link, if the addresses mean something only there.
fn link_of(received: &Received, source: IpAddr, destination: IpAddr) -> Option<InterfaceId> {
    let local = |address| match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    (local(source) || local(destination) || destination.is_multicast()).then_some(received.interface)
}

/// Does it leave a part of TCP's header up to its flags to another fragment (RFC 1858 3, RFC 3128 4)? A filter that
/// looks at first fragments would not have seen what it looks for. An honest sender would need a link of 68 bytes and a
/// header full of options.
fn is_tiny(packet: &Ipv4<&[u8]>) -> bool {
    let (offset, len) = (packet.fragment_offset(), packet.payload().len());
    packet.protocol() == protocol::TCP && (offset == 8 || offset == 0 && len < FIRST_OF_TCP)
}

/// Has a first fragment all headers up to and with the upper layer's (RFC 7112 5)?
fn has_all_headers(packet: &Ipv6<&[u8]>) -> bool {
    packet.upper_layer().is_ok_and(|upper| {
        let least = match upper.protocol {
            protocol::TCP => 20,
            protocol::UDP | protocol::UDP_LITE | protocol::ICMPV6 | protocol::ESP => 8,
            protocol::SCTP | protocol::DCCP => 12,
            protocol::NO_NEXT_HEADER => 0,
            _ => 1,
        };
        upper.payload.len() >= least
    })
}

/// The field that is to blame, in bytes from the IPv6 header's start.
fn wrong_field(refusal: Refusal, header: &FragmentHeader) -> Option<usize> {
    match refusal {
        Refusal::Uneven => Some(PAYLOAD_LENGTH),
        Refusal::TooLong => Some(header.at + 2),
        _ => None,
    }
}

/// The frame of a whole datagram: the first fragment's headers without the fragment header, and the whole length.
fn without_fragment_header(mut frame: Vec<u8>, congestion: bool) -> Option<Vec<u8>> {
    let packet = Ipv6::new_truncated(&frame[ethernet::HEADER_LEN..]).ok()?;
    let header = FragmentHeader::find(&packet)?;
    let at = ethernet::HEADER_LEN + header.at;
    frame.drain(at..at + FragmentHeader::LEN);
    let len = u16::try_from(frame.len() - ethernet::HEADER_LEN - ipv6::HEADER_LEN).ok()?;
    frame[ethernet::HEADER_LEN + header.named_at] = header.next_header;
    let mut packet = Ipv6::new_truncated(&mut frame[ethernet::HEADER_LEN..]).ok()?;
    packet.set_payload_len(len);
    if congestion {
        packet.set_traffic_class(packet.traffic_class() | CONGESTION);
    }
    Some(frame)
}
