// SPDX-License-Identifier: MIT
//! `src`, `dst`, `proto`, `sport` and `dport`: the packets that a `[[filter]]` or a `[[steer]]` is about.

use std::net::IpAddr;

use perigee_net::{FiveTuple, PortRange, PortRangeError, Prefix};
use toml::de::DeValue;

use super::given::{At, Parsed, unfit};
use super::kind::{Kind, at, integer_of, optional, text, value};
use super::networks::a_prefix;
use super::reader::Section;
use super::section::{Context, section};
use super::values::{has_ports, protocol};

section! {
    /// The packets that a rule is about; a key that is not there matches everything.
    pub(crate) struct TupleKeys(context) keys {
        /// The source address.
        src: Option<At<Prefix>>, optional(at(addresses())), default None => "any", live;
        /// The destination address, of the same family.
        dst: Option<At<Prefix>>, optional(at(addresses())), default None => "any", live;
        /// The protocol: that of IPv4, or IPv6's after the extension headers.
        proto: Option<At<u8>>, optional(at(protocols())), default None => "any", live;
        /// The source port, of TCP, UDP or SCTP.
        sport: Option<At<PortRange>>, optional(at(ports())), default None => "any", live;
        /// The destination port, of TCP, UDP or SCTP.
        dport: Option<At<PortRange>>, optional(at(ports())), default None => "any", live;
    }
}

impl TupleKeys {
    /// The keys that describe `tuple`.
    pub fn of(tuple: &FiveTuple) -> Self {
        let FiveTuple { src, dst, proto, sport, dport } = *tuple;
        Self {
            src: src.map(At::nowhere),
            dst: dst.map(At::nowhere),
            proto: proto.map(At::nowhere),
            sport: sport.map(At::nowhere),
            dport: dport.map(At::nowhere),
        }
    }
}

/// The keys of a section that say which packets it is about, checked against each other.
pub(crate) fn read_tuple(s: &mut Section, context: &Context) -> FiveTuple {
    let TupleKeys { src, dst, proto, sport, dport } = TupleKeys::read(s, context);
    if let (Some(src), Some(dst)) = (&src, &dst)
        && src.value.addr().is_ipv4() != dst.value.addr().is_ipv4()
    {
        let message = format!("found {}, expected an address of the family of {}", dst.value, src.value);
        s.mistakes().add(&dst.span, message);
    }
    let with_ports = proto.as_ref().is_some_and(|p| has_ports(p.value));
    // A protocol that was not understood might have had ports.
    if !with_ports && (proto.is_some() || s.place("proto").is_none()) {
        for at in [&sport, &dport].into_iter().flatten() {
            s.mistakes().add(
                &at.span,
                "found a port without a protocol that has ports, expected `proto` to be tcp, udp or sctp",
            );
        }
    }
    FiveTuple {
        src: src.map(|at| at.value),
        dst: dst.map(|at| at.value),
        proto: proto.map(|at| at.value),
        sport: sport.map(|at| at.value),
        dport: dport.map(|at| at.value),
    }
}

fn addresses() -> Kind<'static, Prefix> {
    text("a prefix, such as \"10.0.0.0/8\", or an address", |text| match text.parse::<IpAddr>() {
        Ok(address) => Ok(Prefix::host(address)),
        Err(_) => a_prefix(text),
    })
}

fn protocols() -> Kind<'static, u8> {
    let expected = "a protocol: tcp, udp, icmp, icmpv6, sctp, gre, esp, ah, ospf, or a number from 0 to 255";
    let parse = |value: &DeValue| {
        let number = integer_of(value).and_then(|n| u8::try_from(n).ok());
        value.as_str().and_then(protocol).or(number).map_or_else(unfit, Ok)
    };
    value(expected, parse, |number| i64::from(*number).into())
}

fn ports() -> Kind<'static, PortRange> {
    let expected = "a port or a range of ports, such as 80 or \"1024-65535\"";
    value(expected, a_range, |range: &PortRange| range.to_string().into())
}

fn a_range(value: &DeValue) -> Parsed<PortRange> {
    if let Some(text) = value.as_str() {
        return text.parse().map_err(|error: PortRangeError| error.to_string());
    }
    let number = integer_of(value).and_then(|n| u16::try_from(n).ok());
    number.map_or_else(unfit, |port| Ok(PortRange::only(port)))
}
