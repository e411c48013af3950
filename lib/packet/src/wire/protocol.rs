// SPDX-License-Identifier: MIT
//! Protocol numbers of IPv4's protocol and IPv6's next header field (IANA "Protocol Numbers").

/// IPv6 hop-by-hop options (RFC 8200 4.3).
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4 (RFC 792).
pub const ICMP: u8 = 1;
/// IGMP (RFC 3376).
pub const IGMP: u8 = 2;
/// TCP (RFC 9293).
pub const TCP: u8 = 6;
/// UDP (RFC 768).
pub const UDP: u8 = 17;
/// DCCP (RFC 4340); its ports lie where TCP's do.
pub const DCCP: u8 = 33;
/// IPv6 routing header (RFC 8200 4.4).
pub const ROUTING: u8 = 43;
/// IPv6 fragment header (RFC 8200 4.5).
pub const FRAGMENT: u8 = 44;
/// Encapsulating security payload (RFC 4303).
pub const ESP: u8 = 50;
/// Authentication header (RFC 4302).
pub const AUTHENTICATION: u8 = 51;
/// ICMP for IPv6 (RFC 4443).
pub const ICMPV6: u8 = 58;
/// Nothing follows (RFC 8200 4.7).
pub const NO_NEXT_HEADER: u8 = 59;
/// IPv6 destination options (RFC 8200 4.6).
pub const DESTINATION_OPTIONS: u8 = 60;
/// OSPF (RFC 2328).
pub const OSPF: u8 = 89;
/// PIM (RFC 7761).
pub const PIM: u8 = 103;
/// SCTP (RFC 9260); its ports lie where TCP's do.
pub const SCTP: u8 = 132;
/// UDP-Lite (RFC 3828); its ports lie where UDP's do.
pub const UDP_LITE: u8 = 136;
