// SPDX-License-Identifier: MIT
//! `[[steer]]`: packets that the device puts into the slow path's own queue.

use perigee_net::FiveTuple;
use toml::de::DeValue;

use super::given::{At, unfit};
use super::kind::{Kind, at, integer_of, optional, text, value};
use super::ports::Port;
use super::reader::Section;
use super::section::{Context, Entry, Keys, Reload, section};
use super::tuples::{TupleKeys, read_tuple};
use super::values::ethertype;

section! {
    /// Packets that the device, if it can, puts into the slow path's own queue, so that a flood of others cannot crowd
    /// them out: an Ethernet type, or addresses, protocol and ports.
    pub(crate) struct SteerKeys(context) keys {
        /// The port that it is about.
        port: Option<String>, optional(port_of(context)), default None => "every port", restart;
        /// The Ethernet type.
        ethertype: Option<At<u16>>, optional(at(ethertypes())), default None => "none", restart;
    }
}

/// `[[steer]]`: packets that the device puts into the slow path's own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steer {
    /// Index in [`Config::ports`](super::Config::ports); every port if `None`.
    pub port: Option<u16>,
    /// Which packets.
    pub what: SteerMatch,
}

/// What a hardware filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerMatch {
    /// The Ethernet type.
    EtherType(u16),
    /// Addresses, protocol, ports.
    FiveTuple(FiveTuple),
}

impl SteerKeys {
    /// The keys that describe `steer`, besides those of its tuple.
    pub fn of(steer: &Steer, ports: &[Port]) -> Self {
        let Steer { port, what } = steer;
        let ethertype = match what {
            SteerMatch::EtherType(kind) => Some(At::nowhere(*kind)),
            SteerMatch::FiveTuple(_) => None,
        };
        Self { port: port.map(|index| ports[usize::from(index)].name.clone()), ethertype }
    }
}

impl Steer {
    /// What it looks at besides the Ethernet type.
    pub(crate) fn tuple(&self) -> FiveTuple {
        match self.what {
            SteerMatch::EtherType(_) => FiveTuple::default(),
            SteerMatch::FiveTuple(tuple) => tuple,
        }
    }
}

pub(crate) fn read_steers(root: &mut Section, context: &Context) -> Vec<Steer> {
    let mut steers = Vec::new();
    for mut section in root.tables("steer") {
        let SteerKeys { port, ethertype } = SteerKeys::read(&mut section, context);
        // A name that is not there was reported, or the ports were.
        let index = |name: &String| context.ports.iter().position(|port| port == name).unwrap_or(0);
        let port = port.as_ref().map(|name| index(name) as u16);
        let tuple = read_tuple(&mut section, context);
        let what = match (ethertype, tuple == FiveTuple::default()) {
            (Some(ethertype), true) => Some(SteerMatch::EtherType(ethertype.value)),
            (Some(ethertype), false) => {
                section.mistakes().add(
                    &ethertype.span,
                    "found an Ethernet type together with addresses, a protocol or ports, expected one or the other",
                );
                None
            }
            (None, false) => Some(SteerMatch::FiveTuple(tuple)),
            (None, true) => {
                if section.place("ethertype").is_none() {
                    section.miss("ethertype", "`ethertype`, or some of src, dst, proto, sport and dport");
                }
                None
            }
        };
        steers.extend(what.map(|what| Steer { port, what }));
        section.finish();
    }
    steers
}

/// All keys of a steer. Devices get their rules when they start: unlike those of a filter, these need a restart.
pub(crate) fn steered(keys: &SteerKeys, tuple: &TupleKeys) -> Vec<Entry> {
    let tuple = tuple.entries().into_iter().map(|entry| Entry { reload: Reload::Restart, ..entry });
    keys.entries().into_iter().chain(tuple).collect()
}

fn port_of<'k>(context: &'k Context) -> Kind<'k, String> {
    let names: Vec<_> = context.ports.iter().take(8).copied().collect();
    let known = |text: &str| !context.sure || context.ports.contains(&text);
    let expected = format!("one of the ports {}", names.join(", "));
    text(expected, move |text| if known(text) { Ok(text.to_owned()) } else { unfit() }).described("the name of a port")
}

fn ethertypes() -> Kind<'static, u16> {
    let expected = "an Ethernet type from 0x600 to 0xffff, or arp, ipv4, ipv6, lacp or lldp";
    let parse = |value: &DeValue| {
        let number = integer_of(value).and_then(|n| u16::try_from(n).ok());
        value.as_str().and_then(ethertype).or(number.filter(|n| *n >= 0x600)).map_or_else(unfit, Ok)
    };
    value(expected, parse, |kind| i64::from(*kind).into())
}
