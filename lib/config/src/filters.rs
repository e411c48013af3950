// SPDX-License-Identifier: MIT
//! `[[filter]]` for the fast path and `[[steer]]` for the device.

use std::net::IpAddr;

use perigee_net::{FiveTuple, PortRange, PortRangeError, Prefix};
use toml::de::DeValue;

use super::model::{Action, Filter, Port, Steer, SteerMatch};
use super::reader::{At, Parsed, Section, integer_of, unfit};
use super::routing::a_prefix;
use super::values::{ethertype, has_ports, protocol};

pub(super) fn read_filters(root: &mut Section) -> Vec<Filter> {
    let mut filters = Vec::new();
    for mut section in root.tables("filter") {
        let tuple = read_tuple(&mut section);
        let expected = "\"accept\" or \"drop\"";
        let action = section.text("action", expected, |text| match text {
            "accept" => Ok(Action::Accept),
            "drop" => Ok(Action::Drop),
            _ => unfit(),
        });
        if let Some(action) = section.require("action", expected, action) {
            filters.push(Filter { tuple, action: action.value });
        }
        section.finish();
    }
    filters
}

pub(super) fn read_steers(root: &mut Section, ports: &[Port], sure: bool) -> Vec<Steer> {
    let mut steers = Vec::new();
    for mut section in root.tables("steer") {
        let port = section.text("port", &format!("one of the ports {}", names(ports)), |text| {
            match ports.iter().position(|port| port.name == text) {
                Some(index) => Ok(index as u16),
                None if !sure => Ok(0),
                None => unfit(),
            }
        });
        let expected = "an Ethernet type from 0x600 to 0xffff, or arp, ipv4, ipv6, lacp or lldp";
        let ether = section.read("ethertype", expected, |value| {
            let number = integer_of(value).and_then(|n| u16::try_from(n).ok());
            let kind = value.as_str().and_then(ethertype).or(number.filter(|n| *n >= 0x600));
            kind.map_or_else(unfit, Ok)
        });
        let tuple = read_tuple(&mut section);
        let what = match (ether, tuple == FiveTuple::default()) {
            (Some(ether), true) => Some(SteerMatch::EtherType(ether.value)),
            (Some(ether), false) => {
                section.mistakes().add(
                    &ether.span,
                    "found an Ethernet type together with addresses, a protocol or ports, expected one or the other",
                );
                None
            }
            (None, false) => Some(SteerMatch::FiveTuple(tuple)),
            (None, true) => {
                section.require("ethertype", "`ethertype`, or some of src, dst, proto, sport and dport", None)
            }
        };
        if let Some(what) = what {
            steers.push(Steer { port: port.map(|p| p.value), what });
        }
        section.finish();
    }
    steers
}

fn names(ports: &[Port]) -> String {
    let names: Vec<_> = ports.iter().take(8).map(|port| port.name.as_str()).collect();
    names.join(", ")
}

/// `src`, `dst`, `proto`, `sport` and `dport`, each of which may be absent.
fn read_tuple(s: &mut Section) -> FiveTuple {
    let prefix = "a prefix, such as \"10.0.0.0/8\", or an address";
    let src = s.text("src", prefix, prefix_or_address);
    let dst = s.text("dst", prefix, prefix_or_address);
    if let (Some(src), Some(dst)) = (&src, &dst)
        && src.value.addr().is_ipv4() != dst.value.addr().is_ipv4()
    {
        let message = format!("found {}, expected an address of the family of {}", dst.value, src.value);
        s.mistakes().add(&dst.span, message);
    }
    let expected = "a protocol: tcp, udp, icmp, icmpv6, sctp, gre, esp, ah, ospf, or a number from 0 to 255";
    let proto_there = s.place("proto").is_some();
    let proto = s.read("proto", expected, |value| {
        let number = integer_of(value).and_then(|n| u8::try_from(n).ok());
        value.as_str().and_then(protocol).or(number).map_or_else(unfit, Ok)
    });
    let range = "a port or a range of ports, such as 80 or \"1024-65535\"";
    let sport = s.read("sport", range, ports);
    let dport = s.read("dport", range, ports);
    let with_ports = proto.as_ref().is_some_and(|p| has_ports(p.value));
    // A protocol that was not understood might have had ports.
    if !with_ports && (proto.is_some() || !proto_there) {
        for at in [&sport, &dport].into_iter().flatten() {
            s.mistakes().add(
                &at.span,
                "found a port without a protocol that has ports, expected `proto` to be tcp, udp or sctp",
            );
        }
    }
    FiveTuple {
        src: src.map(|at: At<Prefix>| at.value),
        dst: dst.map(|at| at.value),
        proto: proto.map(|at| at.value),
        sport: sport.map(|at| at.value),
        dport: dport.map(|at| at.value),
    }
}

fn prefix_or_address(text: &str) -> Parsed<Prefix> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(Prefix::host(address)),
        Err(_) => a_prefix(text),
    }
}

fn ports(value: &DeValue) -> Parsed<PortRange> {
    if let Some(text) = value.as_str() {
        return text.parse().map_err(|error: PortRangeError| error.to_string());
    }
    let number = integer_of(value).and_then(|n| u16::try_from(n).ok());
    number.map_or_else(unfit, |port| Ok(PortRange::only(port)))
}
