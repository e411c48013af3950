// SPDX-License-Identifier: MIT
//! Packets from 10.1.0.0/16 networks behind a gateway to destinations behind another, each of a flow of its own.

use crate::traffic::Frame;
use anyhow::Result;
use perigee_net::MacAddr;
use perigee_packet::Ipv4;
use perigee_packet::wire::{ethernet, icmp4, ipv4, protocol, udp};
use std::net::Ipv4Addr;

/// Packets in a source.
pub const PACKETS: u32 = 8192;
/// The router's port that they come in on, and the station that they come from.
pub const IN: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const STATION: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
/// The MTU of the port behind which destinations are.
pub const SMALL_MTU: u16 = 1000;
/// The router's own address there.
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// What the packets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The fast path's, all of them.
    Simple,
    /// Every second one has a TTL of 1.
    Half,
    /// A TTL of 1: Time Exceeded.
    Expired,
    /// No route: Destination Unreachable.
    NoRoute,
    /// 1,028 bytes for an MTU of 1,000, which may not be cut: Fragmentation Needed.
    TooBig,
    /// 1,028 bytes for an MTU of 1,000: two fragments.
    Cut,
    /// An option that records the route: forwarded.
    Options,
    /// Echo requests to the router.
    Echo,
}

impl Kind {
    /// In the order in which they are measured: those that are compared side by side.
    pub const ALL: [Kind; 8] =
        [Kind::Simple, Kind::Half, Kind::Expired, Kind::NoRoute, Kind::TooBig, Kind::Cut, Kind::Options, Kind::Echo];

    /// For tables, files and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Simple => "simple",
            Kind::Half => "half_expired",
            Kind::Expired => "expired",
            Kind::NoRoute => "no_route",
            Kind::TooBig => "too_big",
            Kind::Cut => "cut",
            Kind::Options => "options",
            Kind::Echo => "echo",
        }
    }

    /// The packets.
    pub fn frames(self) -> Result<Vec<Frame>> {
        (0..PACKETS).map(|n| self.frame(n)).collect()
    }

    fn frame(self, n: u32) -> Result<Frame> {
        // 7919 is prime, so that neighbors in the file are of networks far apart.
        let scattered = n.wrapping_mul(7919) % 0x100_0000;
        let source = Ipv4Addr::from_bits(30 << 24 | scattered);
        let destination = match self {
            Kind::NoRoute => Ipv4Addr::from_bits(40 << 24 | scattered),
            Kind::Echo => OWN,
            _ => Ipv4Addr::from_bits(20 << 24 | scattered),
        };
        let options: &[u8] = if self == Kind::Options { &[7, 7, 4, 0, 0, 0, 0, 0] } else { &[] };
        let data = if matches!(self, Kind::TooBig | Kind::Cut) { 1000 } else { 18 };
        let kind = if self == Kind::Echo { protocol::ICMP } else { protocol::UDP };
        let mut repr = ipv4::Repr::new(source, destination, kind, udp::HEADER_LEN + data);
        repr.dont_fragment = self == Kind::TooBig;
        repr.ttl = if self == Kind::Expired || self == Kind::Half && n % 2 == 1 { 1 } else { 64 };
        let header = ipv4::HEADER_LEN + options.len();
        let at = ethernet::HEADER_LEN + header;
        let mut frame = vec![0; at + udp::HEADER_LEN + data];
        ethernet::emit(&mut frame, IN, STATION, ethernet::ethertype::IPV4)?;
        repr.emit_with_options(&mut frame[ethernet::HEADER_LEN..], options)?;
        if self == Kind::Echo {
            let message = icmp4::Message::EchoRequest { identifier: n as u16, sequence: 1, data: &[0; 18] };
            message.emit(&mut frame[at..])?;
        } else {
            udp::emit(&mut frame[at..], 1024 + (n % 60_000) as u16, 9, data)?;
        }
        debug_assert!(Ipv4::new(&frame[ethernet::HEADER_LEN..]).is_ok());
        Ok(frame)
    }
}
