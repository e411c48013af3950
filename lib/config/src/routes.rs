// SPDX-License-Identifier: MIT
//! `[[route]]`: static routes.

use std::collections::HashSet;
use std::net::IpAddr;

use perigee_net::{InterfaceId, Member, Multipath, Prefix, Route, RouteSource, RouteTarget};
use toml::Value;

use super::given::{At, Given};
use super::interfaces::Interface;
use super::kind::{Kind, at, boolean, integer, ip_address, optional, required, required_as, text};
use super::networks::{Networks, a_prefix, device, far, resolve};
use super::reader::Section;
use super::section::{Context, Keys, section, toml_table};

/// The most gateways of one route.
const MOST: usize = Multipath::MAX_MEMBERS;

section! {
    /// A static route: over one gateway, over several, or to nowhere.
    pub(crate) struct PrefixKeys(context) keys {
        /// The destinations.
        prefix: Option<At<Prefix>>, required(at(text("a prefix, such as \"10.0.0.0/8\"", a_prefix))),
            default None => "required", live;
    }
}

section! {
    /// Where a route leads.
    pub(crate) struct ViaKeys(context) keys {
        /// The gateway, or several, over which flows are spread by weight.
        via: Option<Via>, required_as(NO_TARGET, via_kind()),
            default None => "required without `blackhole`, `unreachable` or `prohibit`", live;
        /// The interface that the gateway is on; needed for link-local addresses.
        dev: Option<At<String>>, optional(at(device())),
            default None => "the one whose network has the gateway", live;
        /// Whether the gateway is in no interface's network, but other routes lead to it.
        recursive: Option<At<bool>>, optional(at(boolean())), default None => "`false`", live;
    }
}

section! {
    /// Alternatives to forwarding, and which of several routes is used.
    pub(crate) struct RouteKeys(context) keys {
        /// Drops packets silently.
        blackhole: Option<At<bool>>, optional(at(boolean())), default None => "`false`", live;
        /// Answers with ICMP host unreachable.
        unreachable: Option<At<bool>>, optional(at(boolean())), default None => "`false`", live;
        /// Answers with ICMP administratively prohibited.
        prohibit: Option<At<bool>>, optional(at(boolean())), default None => "`false`", live;
        /// The lower is preferred, before the metric. Routes of other sources have preferences too.
        preference: u8, integer("a preference", 0..=255), default RouteSource::Static.preference(), live;
        /// The lower is preferred.
        metric: u32, integer("a metric", 0..=u32::MAX.into()), default 0, live;
    }
}

section! {
    /// One of several gateways: an element of `via`.
    pub(crate) struct GatewayKeys(context) keys {
        /// The gateway.
        address: Option<At<IpAddr>>, required_as("the gateway's address", at(ip_address())),
            default None => "required", live;
        /// The interface that the gateway is on, as for one gateway.
        dev: Option<At<String>>, optional(at(device())),
            default None => "the one whose network has the gateway", live;
        /// As for one gateway.
        recursive: Option<At<bool>>, optional(at(boolean())), default None => "`false`", live;
        /// The gateway's share of the flows.
        weight: u16, integer("a weight", 1..=Multipath::MAX_WEIGHT.into()), default 1, live;
    }
}

const NO_TARGET: &str = "`via = \"ADDRESS\"`, or blackhole, unreachable or prohibit = true";

/// What `via` holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Via {
    One(At<IpAddr>),
    /// Separate tables, which [`read_several`] reads; here only for printing.
    Several(Vec<GatewayKeys>),
}

fn via_kind() -> Kind<'static, Via> {
    let address = at(ip_address());
    let read = move |given: &Given, _: &str| match given.value.get_ref().is_array() {
        true => Some(Via::Several(Vec::new())),
        false => address.read(given).map(Via::One),
    };
    let print = |via: &Via| match via {
        Via::One(at) => Some(at.value.to_string().into()),
        Via::Several(gateways) => {
            let tables = gateways.iter().map(|gateway| Value::Table(toml_table(gateway.entries())));
            Some(Value::Array(tables.collect()))
        }
    };
    Kind::new("", read, print).described("an IPv4 or IPv6 address, or an array of 1 to 256 tables: see below")
}

impl PrefixKeys {
    /// The key for `prefix`.
    pub fn of(prefix: Prefix) -> Self {
        Self { prefix: Some(At::nowhere(prefix)) }
    }
}

impl ViaKeys {
    /// The keys that describe `route`.
    pub fn of(route: &Route, interfaces: &[Interface]) -> Self {
        match &route.target {
            RouteTarget::Gateway { address, interface } => {
                let gateway = Member { address: Some(*address), interface: *interface, weight: 1 };
                let GatewayKeys { address, dev, recursive, weight: _ } = GatewayKeys::of(&gateway, interfaces);
                Self { via: address.map(Via::One), dev, recursive }
            }
            RouteTarget::Multipath(multipath) => {
                let gateways = multipath.members().iter().map(|gateway| GatewayKeys::of(gateway, interfaces)).collect();
                Self { via: Some(Via::Several(gateways)), dev: None, recursive: None }
            }
            _ => Self { via: None, dev: None, recursive: None },
        }
    }
}

impl RouteKeys {
    /// The keys that describe `route`.
    pub fn of(route: &Route) -> Self {
        let flag = |to: RouteTarget| (route.target == to).then(|| At::nowhere(true));
        Self {
            blackhole: flag(RouteTarget::Blackhole),
            unreachable: flag(RouteTarget::Unreachable),
            prohibit: flag(RouteTarget::Prohibit),
            preference: route.preference,
            metric: route.metric,
        }
    }

    /// The flag that is set, if any; an error after a mistake.
    fn fate(&self, s: &Section) -> Result<Option<RouteTarget>, ()> {
        let flags = [
            (&self.blackhole, RouteTarget::Blackhole),
            (&self.unreachable, RouteTarget::Unreachable),
            (&self.prohibit, RouteTarget::Prohibit),
        ];
        let mut set = flags.into_iter().filter_map(|(flag, to)| Some((flag.as_ref().filter(|at| at.value)?, to)));
        let (first, second) = (set.next(), set.next());
        if let (Some(_), Some((at, _))) = (s.place("via"), &first) {
            s.mistakes()
                .add(&at.span, "found a route that is both sent on and dropped, expected `via` or this, not both");
            return Err(());
        }
        if let Some((at, _)) = second {
            s.mistakes().add(&at.span, "found a second fate for this route, expected one");
            return Err(());
        }
        Ok(first.map(|(_, to)| to))
    }
}

impl GatewayKeys {
    /// The keys that describe `gateway`.
    pub fn of(gateway: &Member, interfaces: &[Interface]) -> Self {
        let Member { address, interface, weight } = gateway;
        let name = |id: InterfaceId| interfaces[id.index()].name.clone();
        Self {
            address: address.map(At::nowhere),
            dev: interface.map(|id| At::nowhere(name(id))),
            recursive: interface.is_none().then(|| At::nowhere(true)),
            weight: *weight,
        }
    }

    /// The gateway, its address of the family of `prefix` and on an interface unless it is recursive.
    fn resolve(self, s: &Section, prefix: Option<&At<Prefix>>, networks: &Networks) -> Option<Member> {
        let Self { address, dev, recursive, weight } = self;
        let recursive = recursive.filter(|recursive| recursive.value);
        let device = dev.and_then(|dev| resolve(&dev, s, networks));
        let there = s.place("dev").is_some();
        let via = address?;
        if let Some(prefix) = prefix
            && prefix.value.addr().is_ipv4() != via.value.is_ipv4()
        {
            let message = format!("found {}, expected an address of the family of {}", via.value, prefix.value);
            s.mistakes().add(&via.span, message);
            return None;
        }
        if there && device.is_none() {
            return None;
        }
        let interface = match recursive {
            Some(recursive) if there => {
                s.mistakes().add(&recursive.span, "found `recursive` beside `dev`, expected one of them");
                return None;
            }
            Some(_) => far(via.value).map(|_| None),
            None => networks.reach(via.value, device).map(Some),
        };
        match interface {
            Ok(interface) => Some(Member { address: Some(via.value), interface, weight }),
            Err(rest) => {
                s.mistakes().add(&via.span, format!("found {}{rest}", via.value));
                None
            }
        }
    }
}

pub(crate) fn read_routes(root: &mut Section, context: &Context, networks: &Networks) -> Vec<(Prefix, Route)> {
    let mut seen = HashSet::new();
    let mut routes = Vec::new();
    for mut section in root.tables("route") {
        let PrefixKeys { prefix } = PrefixKeys::read(&mut section, context);
        let keys = RouteKeys::read(&mut section, context);
        let to = read_target(&mut section, &keys, prefix.as_ref(), context, networks);
        if let (Some(prefix), Some(to)) = (prefix, to) {
            let RouteKeys { preference, metric, .. } = keys;
            if let Some(why) = prefix.value.never_forwarded().filter(|_| leads_on(&to)) {
                let message = format!("found {}, expected a prefix that packets are forwarded to: {why}", prefix.value);
                section.mistakes().add(&prefix.span, message);
            }
            if !seen.insert((prefix.value, preference, metric)) {
                section.mistakes().add(
                    &prefix.span,
                    format!(
                        "found a second route to {} with the metric {metric}, expected another metric",
                        prefix.value
                    ),
                );
            }
            routes.push((
                prefix.value,
                Route { source: RouteSource::Static, preference, metric, target: to, mtu: 0, protocol: None },
            ));
        }
        section.finish();
    }
    routes
}

/// Whether packets would be forwarded by a route: refusing what nobody sends is no mistake.
pub(crate) fn leads_on(target: &RouteTarget) -> bool {
    matches!(target, RouteTarget::Gateway { .. } | RouteTarget::Multipath(_))
}

/// `via`, or exactly one of the flags.
fn read_target(
    s: &mut Section,
    keys: &RouteKeys,
    prefix: Option<&At<Prefix>>,
    context: &Context,
    networks: &Networks,
) -> Option<RouteTarget> {
    let fate = keys.fate(s);
    if !matches!(fate, Ok(None)) {
        // Keys next to a flag or a mistake are not looked at, but they are known.
        s.know(ViaKeys::NAMES);
        return fate.ok().flatten();
    }
    let ViaKeys { via, dev, recursive } = ViaKeys::read(s, context);
    let address = match via {
        Some(Via::Several(_)) => return read_several(s, prefix, context, networks),
        Some(Via::One(address)) => Some(address),
        None => None,
    };
    GatewayKeys { address, dev, recursive, weight: 1 }.resolve(s, prefix, networks).and_then(to_one)
}

/// The elements of `via`.
fn read_several(
    s: &mut Section,
    prefix: Option<&At<Prefix>>,
    context: &Context,
    networks: &Networks,
) -> Option<RouteTarget> {
    let (span, count) = (s.place("via")?, s.elements("via")?);
    let mut gateways = Vec::new();
    for mut section in s.tables("via") {
        let keys = GatewayKeys::read(&mut section, context);
        gateways.extend(keys.resolve(&section, prefix, networks));
        section.finish();
    }
    for (key, at) in ["dev", "recursive"].into_iter().filter_map(|key| Some((key, s.place(key)?))) {
        s.mistakes().add(&at, format!("found `{key}` beside several gateways, expected it with each of them"));
    }
    if count == 0 || count > MOST {
        s.mistakes().add(&span, format!("found a route with {count} gateways, expected 1 to {MOST}"));
    }
    match gateways[..] {
        _ if gateways.len() != count || count > MOST => None,
        [] => None,
        [one] => to_one(one),
        _ => Multipath::new(&gateways).ok().map(RouteTarget::Multipath),
    }
}

/// A route's only gateway: its weight means nothing.
pub(crate) fn to_one(gateway: Member) -> Option<RouteTarget> {
    Some(RouteTarget::Gateway { address: gateway.address?, interface: gateway.interface })
}
