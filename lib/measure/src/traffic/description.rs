// SPDX-License-Identifier: MIT
//! The description of a traffic, as users write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use perigee_net::MacAddr;
use serde::{Deserialize, Serialize};

use super::error::TrafficError;
use super::range::{Addresses, Range, VlanId};
use super::rss::Rss;
use super::sizes::Sizes;
use super::text::as_text;

/// What the frames carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// `udp`: UDP datagrams.
    #[default]
    Udp,
    /// `tcp-syn`: TCP segments that open a connection; the stamp is their data.
    TcpSyn,
    /// `icmp`: echo requests, of ICMP over IPv4 and of ICMPv6 over IPv6. The source port is their identifier.
    Icmp,
}

/// The IP version of all frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Family {
    /// `ipv4`.
    #[default]
    Ipv4,
    /// `ipv6`.
    Ipv6,
}

impl Protocol {
    const ALL: [Protocol; 3] = [Protocol::Udp, Protocol::TcpSyn, Protocol::Icmp];

    /// Its text.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Udp => "udp",
            Protocol::TcpSyn => "tcp-syn",
            Protocol::Icmp => "icmp",
        }
    }
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
    }

    /// Its name in prose.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Protocol, TrafficError> {
        let known = Protocol::ALL.into_iter().find(|protocol| protocol.name() == text);
        known.ok_or_else(|| TrafficError::text(text, "udp, tcp-syn or icmp (over IPv6, ICMPv6)"))
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Family::Ipv4 { "ipv4" } else { "ipv6" })
    }
}

impl FromStr for Family {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Family, TrafficError> {
        match text {
            "ipv4" => Ok(Family::Ipv4),
            "ipv6" => Ok(Family::Ipv6),
            _ => Err(TrafficError::text(text, "ipv4 or ipv6")),
        }
    }
}

as_text! { Protocol; Family; }

/// Which frames to send. Every field has a default; an empty description is one flow of UDP in frames of 64 bytes.
///
/// In TOML, JSON, a Lua table and on a command line each field is a text (numbers may be numbers):
///
/// ```
/// use perigee_measure::traffic::{Description, Traffic};
///
/// let description: Description = serde_json::from_str(
///     r#"{
///         "sizes": "imix",
///         "source": "198.18.0.1-198.18.0.254",
///         "destination": "zipf(1.1):198.19.0.0/16",
///         "source_port": "random:1024-65535"
///     }"#,
/// )
/// .unwrap();
/// let traffic = Traffic::new(&description).unwrap();
/// assert_eq!(traffic.flows(), 65_536);
/// ```
///
/// All ranges move on by one value from flow to flow, and start again after their last value; when all are back at
/// their starts together, the shorter ones skip a value, until all combinations have come. A `random:` range does the
/// same in a random order. From a `zipf(s):` range, of which there may be one, each frame draws its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Description {
    /// Frame sizes in bytes, with the FCS: `64`, `imix`, `64:7,594:4,1518:1`, `64-1518`, `genome:aaaddg`. The default
    /// is the smallest size that the headers and the stamp fit into: 64 for UDP over IPv4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// `udp`, `tcp-syn` or `icmp`.
    pub protocol: Protocol,
    /// `ipv4` or `ipv6`. The default is that of the addresses; `ipv4` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The number of flows, at most 16,777,216. The default is the number of combinations of all ranges, or 65,536 if
    /// that is more than the limit; with `rss`, 64 per queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Source addresses: `198.18.0.1`, `198.18.0.1-198.18.0.254`, `random:198.18.0.0/24`, `zipf(1.1):198.18.0.0/16`,
    /// `random:routes:FILE`. The default is 198.18.0.2 (RFC 2544 appendix C) or 2001:2::2 (RFC 5180).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Addresses>,
    /// Destination addresses. The default is 198.19.0.2 or 2001:2:0:8000::2, each in the second half of the network
    /// that is reserved for measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<Addresses>,
    /// Source ports: `1024`, `1024-65535`, `random:1024-65535`. The default is 49184 (RFC 2544 appendix C), and
    /// `random:1024-65535` with `rss`. For `icmp` it is the identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<Range<u16>>,
    /// Destination ports. The default is 7 (RFC 2544 appendix C). Not for `icmp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<Range<u16>>,
    /// VLAN ids (tag 0x8100): `100`, `100-199`. The default is no tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Range<VlanId>>,
    /// VLAN ids of a service provider's tag (0x88a8) in front of that of `vlan`. The default is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_vlan: Option<Range<VlanId>>,
    /// Source MAC addresses. The default is 02:00:00:00:00:01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_mac: Option<Range<MacAddr>>,
    /// Destination MAC addresses. The default is that of the group where `destination` is one, else 02:00:00:00:00:02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_mac: Option<Range<MacAddr>>,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// Ports as RFC 4814 has them, where none are given: random, from 1024 on at the source and 1 to 49151
    /// at the destination.
    pub rfc4814: bool,
    /// Flows that receive side scaling spreads evenly over queues (`4`) or puts on one of them (`2/4`, from 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss: Option<Rss>,
    /// Whether the frames go the other way: source and destination swapped, in addresses, ports and MAC addresses, and
    /// in their defaults. Flow for flow it is the answer to the description without it, except with `rss`.
    pub reversed: bool,
    /// What random orders and Zipf's draws follow from.
    pub seed: u64,
    /// Whether each frame carries a stamp: trial, flow, sequence number and time. Without, a receiver can count frames
    /// and nothing more: neither latency nor which flow lost how many. Frames of TCP over IPv4 with a stamp have at
    /// least 76 bytes, those of UDP over IPv6 84.
    pub stamp: bool,
}

impl Default for Description {
    fn default() -> Description {
        Description {
            sizes: None,
            protocol: Protocol::Udp,
            family: None,
            flows: None,
            source: None,
            destination: None,
            source_port: None,
            destination_port: None,
            vlan: None,
            service_vlan: None,
            source_mac: None,
            destination_mac: None,
            ttl: 64,
            dscp: 0,
            rfc4814: false,
            rss: None,
            reversed: false,
            seed: 1,
            stamp: true,
        }
    }
}

impl Description {
    /// The traffic of the opposite direction: [`reversed`](Description#structfield.reversed) is the other way round.
    pub fn opposite(&self) -> Description {
        Description { reversed: !self.reversed, ..self.clone() }
    }

    /// The MAC address of the group that all frames are for, if they are for one (RFC 1112 6.4, RFC 2464 7).
    pub fn group_mac(&self) -> Option<Range<MacAddr>> {
        let range = self.groups().filter(|range| range.len() == 1)?;
        Some(Range::one(MacAddr::of_group(range.first())))
    }

    /// The destinations, if there are groups among them.
    pub fn groups(&self) -> Option<&Range<IpAddr>> {
        match &self.destination {
            Some(Addresses::Range(range)) => {
                Some(range).filter(|range| range.first().is_multicast() || range.last().is_multicast())
            }
            _ => None,
        }
    }

    /// The description with every address, port and MAC address given. Of mixed families, the source's counts here.
    pub(crate) fn with_defaults(&self) -> Description {
        let family = self.given_family().map_or(Family::default(), |(_, family)| family);
        let [source, destination] = match family {
            Family::Ipv4 => [[198, 18, 0, 2], [198, 19, 0, 2]].map(IpAddr::from),
            Family::Ipv6 => [[0x2001, 2, 0, 0, 0, 0, 0, 2], [0x2001, 2, 0, 0x8000, 0, 0, 0, 2]].map(IpAddr::from),
        };
        let one = |address| Some(Addresses::Range(Range::one(address)));
        let icmp = self.protocol == Protocol::Icmp;
        let random = |first, last| Range::new(super::Order::Random, first, last).ok();
        let [random_source, random_destination] = [random(1024, 65_535), random(1, 49_151)];
        let varied = self.rfc4814 || (self.rss.is_some() && !icmp);
        let mac = |last| Some(Range::one(MacAddr([2, 0, 0, 0, 0, last])));
        let source_port = random_source.filter(|_| varied).or(Some(Range::one(49_184)));
        let destination_port = random_destination.filter(|_| self.rfc4814).or(Some(Range::one(7)));
        Description {
            family: Some(family),
            source: self.source.clone().or_else(|| one(source)),
            destination: self.destination.clone().or_else(|| one(destination)),
            source_port: self.source_port.or(source_port),
            destination_port: self.destination_port.or(destination_port.filter(|_| !icmp)),
            source_mac: self.source_mac.or_else(|| mac(1)),
            destination_mac: self.destination_mac.or_else(|| self.group_mac()).or_else(|| mac(2)),
            ..self.clone()
        }
    }

    /// The family that is given, and by which field.
    pub(crate) fn given_family(&self) -> Option<(&'static str, Family)> {
        let of = |field, addresses: &Option<Addresses>| match addresses {
            Some(Addresses::Range(range)) => Some((field, Family::of(range.first()))),
            _ => None,
        };
        let given = self.family.map(|family| ("family", family));
        given.or_else(|| of("source", &self.source)).or_else(|| of("destination", &self.destination))
    }
}
