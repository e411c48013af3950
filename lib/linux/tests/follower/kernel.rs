// SPDX-License-Identifier: MIT
//! What a kernel may do, at random, and what the router should have of it then: for the tests here, and for the fuzz
//! target `linux`.

use crate::world::*;
use perigee_fib::MulticastOrigin;
use perigee_helper::PROTOCOL;
use perigee_linux::Effect;
use perigee_net::{
    Interface, InterfaceId, LinuxOnly, MacAddr, Member, MulticastRoute, Multipath, Prefix, Proxy, RouteTarget, Selector,
};
use perigee_netlink::message::{
    Hop, Hops, Message, MulticastKey, NetworkSettings, NextHopTo, ProxyNeighbor, Route, RouteKind,
};
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

fn hop(random: &mut impl Rng, v6: bool, host: u32) -> Hop {
    let port = random.random_range(0..2u32);
    let text = if v6 { format!("2001:db8:{}::{host:x}", port + 1) } else { format!("10.0.{}.{host}", port + 1) };
    via(A + port, &text)
}

/// A plausible route, to one of a few prefixes, so that routes collide.
fn random_route(random: &mut impl Rng) -> Route {
    let v6 = random.random_range(0..3) == 0;
    let n = random.random_range(0..40u32);
    let text =
        if v6 { format!("2001:db8:{:x}::/48", 0x100 + n) } else { format!("10.{}.0.0/{}", 100 + n / 2, 16 + n % 2) };
    let mut route = route(&text, random.random_range(0..2) * 10, &[]);
    match random.random_range(0..8) {
        0 => route.kind = RouteKind::Blackhole,
        1 => route.kind = RouteKind::Unreachable,
        2 | 5 => route.next_hop = random_object(random, v6),
        6 => make_strange(&mut route, random),
        3 | 4 => {
            let hosts = 2..random.random_range(4..7);
            route.hops = hosts.map(|host| hop(random, v6, host)).collect::<Vec<_>>().into();
        }
        _ => {
            let host = random.random_range(2..6);
            route.hops = Hops::One(hop(random, v6, host));
        }
    }
    route
}

/// Makes a route one that Linux alone can forward by, or that is for a part of the packets.
fn make_strange(route: &mut Route, random: &mut impl Rng) {
    let v6 = route.prefix.addr().is_ipv6();
    route.hops = Hops::One(hop(random, v6, 2));
    match random.random_range(0..6) {
        0 => route.kind = RouteKind::Other,
        1 => route.encapsulated = true,
        2 => route.hops = vec![hop(random, v6, 2), Hop { link: 99, ..hop(random, v6, 3) }].into(),
        3 => route.hops = Hops::One(Hop { link: 99, gateway: None, weight: 1 }),
        4 => route.unknown = Some(99),
        // The metric tells its part, so that each has its place in the table.
        _ if v6 => (route.source, route.metric) = (Some(prefix("2001:db8:a::/48")), 100),
        _ => (route.tos, route.metric) = (0x10, 101),
    }
}

/// The id of an object of a family: 1 to 3 are next hops of IPv4, 4 and 5 groups of these; from 11 on those of IPv6.
fn random_object(random: &mut impl Rng, v6: bool) -> u32 {
    random.random_range(1..6) + if v6 { 10 } else { 0 }
}

/// A next-hop object is made, replaced in place or deleted, and with it all its routes and those of its groups change.
fn change_object(kernel: &mut Kernel, random: &mut impl Rng) -> Vec<Message> {
    let v6 = random.random_bool(0.3);
    let id = random_object(random, v6);
    if random.random_range(0..4) == 0 {
        return if kernel.next_hops.contains_key(&id) { kernel.remove_object(id) } else { Vec::new() };
    }
    let to = match id % 10 {
        1..4 => {
            let host = random.random_range(7..10);
            let hop = hop(random, v6, host);
            // Linux makes none over a link that is down or has no carrier.
            if !(kernel.links[&hop.link].up && kernel.links[&hop.link].carrier) {
                return Vec::new();
            }
            NextHopTo::Hop(hop)
        }
        _ => {
            let all = (id / 10 * 10 + 1..id / 10 * 10 + 4).filter(|id| kernel.next_hops.contains_key(id));
            let some: Vec<u32> = all.filter(|_| random.random_bool(0.7)).collect();
            let weighted = some.into_iter().map(|id| (id, random.random_range(1..4)));
            NextHopTo::Group(weighted.collect())
        }
    };
    match &to {
        NextHopTo::Group(members) if members.is_empty() => Vec::new(),
        _ => kernel.replace_object(id, to),
    }
}

fn uses(kernel: &Kernel, route: &Route, link: u32) -> bool {
    ways(kernel, route).iter().any(|hop| hop.link == link)
}

/// One random event in the kernel; returns its notifications.
pub fn step(kernel: &mut Kernel, random: &mut impl Rng) -> Vec<Message> {
    let port = random.random_range(0..2u32);
    let link = A + port;
    match random.random_range(0..31) {
        0 => toggle(kernel, link),
        27..29 => toggle_carrier(kernel, link),
        29.. => change_proxies(kernel, random, link),
        1 | 20..24 => change_object(kernel, random),
        2..6 => {
            let at = random.random_range(0..kernel.routes.len().max(1));
            let Some(key) = kernel.routes.keys().nth(at).copied() else { return Vec::new() };
            let gone = kernel.routes.remove(&key);
            gone.map(|route| Message::RouteGone(kernel.shown(&route))).into_iter().collect()
        }
        6 => lose_a_way(kernel, random),
        7 => {
            // An address comes or goes.
            let extra = address(link, &format!("192.0.2.{}/28", 1 + 16 * random.random_range(0..3)));
            match kernel.addresses.iter().position(|other| *other == extra) {
                Some(at) => {
                    kernel.addresses.remove(at);
                    vec![Message::AddressGone(extra)]
                }
                None => {
                    kernel.addresses.push(extra);
                    vec![Message::Address(extra)]
                }
            }
        }
        8 => {
            let changed = kernel.links.get_mut(&link).unwrap();
            changed.mtu = random.random_range(1280..=1500);
            vec![Message::Link(changed.clone())]
        }
        9 | 10 => change_neighbor(kernel, random, link),
        24..27 => change_multicast(kernel, random),
        _ => {
            let route = random_route(random);
            let known = route.next_hop == 0 || kernel.next_hops.contains_key(&route.next_hop);
            let over_down = [A, B].into_iter().any(|link| !kernel.links[&link].up && uses(kernel, &route, link));
            if !known || over_down {
                return Vec::new();
            }
            let replaces = kernel.routes.insert((route.prefix, route.metric), route.clone()).is_some();
            vec![Message::Route(Route { replaces, ..kernel.shown(&route) })]
        }
    }
}

/// A link goes down, and with it its next-hop objects and IPv4 routes over it, without a notification; IPv6 routes with
/// one. Or it comes up.
fn toggle(kernel: &mut Kernel, index: u32) -> Vec<Message> {
    let changed = kernel.links.get_mut(&index).unwrap();
    changed.up = !changed.up;
    let mut reports = vec![Message::Link(changed.clone())];
    if !kernel.links[&index].up {
        reports.extend(kernel.flush_objects(index));
        let gone: Vec<_> = kernel.routes.values().filter(|route| uses(kernel, route, index)).cloned().collect();
        for route in gone {
            kernel.routes.remove(&(route.prefix, route.metric));
            if route.prefix.addr().is_ipv6() {
                reports.push(Message::RouteGone(route));
            }
        }
    }
    reports
}

/// A link loses its carrier, and with it its next-hop objects, or gets it back.
fn toggle_carrier(kernel: &mut Kernel, index: u32) -> Vec<Message> {
    let changed = kernel.links.get_mut(&index).unwrap();
    changed.carrier = !changed.carrier;
    let mut reports = Vec::new();
    if !changed.carrier {
        reports.extend(kernel.flush_objects(index));
    }
    reports.push(Message::Link(kernel.links[&index].clone()));
    reports
}

/// IPv6 loses one next hop of several.
fn lose_a_way(kernel: &mut Kernel, random: &mut impl Rng) -> Vec<Message> {
    let several =
        |route: &&mut Route| route.prefix.addr().is_ipv6() && route.hops.as_slice().len() > 1 && route.next_hop == 0;
    let Some(route) = kernel.routes.values_mut().find(several) else { return Vec::new() };
    let mut hops = route.hops.as_slice().to_vec();
    let gone = hops.remove(random.random_range(0..hops.len()));
    // Linux removes equal next hops together.
    hops.retain(|hop| (hop.link, hop.gateway) != (gone.link, gone.gateway));
    if hops.is_empty() {
        return Vec::new();
    }
    route.hops = hops.into();
    vec![Message::RouteGone(Route { hops: Hops::One(gone), ..route.clone() })]
}

/// A multicast route comes, changes or goes.
fn change_multicast(kernel: &mut Kernel, random: &mut impl Rng) -> Vec<Message> {
    let group = ["239.1.1.1", "239.1.1.2", "ff05::1"][random.random_range(0..3)];
    let source =
        [None, Some(if group.starts_with('f') { "2001:db8:1::2" } else { "10.0.1.2" })][random.random_range(0..2)];
    // The third link is not the router's.
    let links: Vec<u32> = [A, B, 99].into_iter().filter(|_| random.random_bool(0.5)).collect();
    let outputs: Vec<_> = links.iter().map(|link| (*link, random.random_range(1..4))).collect();
    let route = multicast(group, source, links.first().copied(), &outputs);
    if random.random_bool(0.3) {
        let gone = kernel.multicast.remove(&route.key);
        return gone.map(|route| Message::MulticastRouteGone(route.key)).into_iter().collect();
    }
    kernel.multicast.insert(route.key, route.clone());
    vec![Message::MulticastRoute(route)]
}

/// The multicast routes that the router should have: how many outputs each, and whose it is.
fn expected_multicast(kernel: &Kernel) -> Vec<(MulticastKey, usize, MulticastOrigin)> {
    let each = kernel.multicast.values().map(|route| {
        let ours = |link: &u32| [A, B].contains(link);
        let outputs = route.outputs.iter().filter(|(link, _)| ours(link)).count();
        let all = route.input.as_ref().is_some_and(ours) && outputs == route.outputs.len();
        (route.key, outputs, if all { MulticastOrigin::Linux } else { MulticastOrigin::LinuxAlone })
    });
    each.collect()
}

pub fn same_multicast(world: &World) {
    let shown = |(route, origin): &(MulticastRoute, _)| ((route.group, route.source), route.to.len(), *origin);
    let found: Vec<_> = world.router.multicast.iter().map(shown).collect();
    assert_eq!(found, expected_multicast(&world.kernel));
}

/// The machine answers for another station, or no more; or a switch of that changes. The feed looks for the former.
fn change_proxies(kernel: &mut Kernel, random: &mut impl Rng, link: u32) -> Vec<Message> {
    if random.random_bool(0.5) {
        let address = ip(["10.0.2.77", "2001:db8:1::77"][random.random_range(0..2)]);
        let one =
            ProxyNeighbor { link: [0, link, 99][random.random_range(0..3)], address, router: random.random_bool(0.3) };
        let had = kernel.proxies.len();
        kernel.proxies.retain(|other| (other.link, other.address) != (one.link, one.address));
        if had == kernel.proxies.len() {
            kernel.proxies.insert(one);
        }
        return vec![Message::ProxyNeighbors(kernel.proxies.iter().copied().collect())];
    }
    let place = [link as i32, NetworkSettings::ALL, NetworkSettings::DEFAULT][random.random_range(0..3)];
    let (v6, on) = (random.random_bool(0.5), Some(random.random_bool(0.5)));
    let changed = NetworkSettings { v6, link: place, proxy_neighbors: on, ..NetworkSettings::default() };
    kernel.settings.entry((v6, place)).or_insert(changed).merge(&changed);
    vec![Message::NetworkSettings(changed)]
}

/// For which other stations the router's interfaces should answer.
pub fn expected_proxies(kernel: &Kernel) -> BTreeMap<InterfaceId, Proxy> {
    let on = |v6, link| kernel.settings.get(&(v6, link)).is_some_and(|known| known.proxy_neighbors == Some(true));
    let on = |v6, link| on(v6, NetworkSettings::ALL) || on(v6, link as i32);
    let of = |link: u32| {
        let here = kernel.proxies.iter().filter(|one| [0, link].contains(&one.link));
        let here = here.filter(|one| one.address.is_ipv4() || on(true, link));
        Proxy { arp: on(false, link), addresses: here.map(|one| (one.address, one.router)).collect() }
    };
    let all = [A, B].map(|link| (InterfaceId((link - A) as u16), of(link)));
    all.into_iter().filter(|(_, proxy)| *proxy != Proxy::default()).collect()
}

/// For which other stations interfaces answer, as the effects for the slow path add up.
pub fn follow_proxies(given: &mut BTreeMap<InterfaceId, Proxy>, effects: &[Effect]) {
    for effect in effects {
        if let Effect::SetProxy { interface, proxy } = effect {
            given.insert(*interface, proxy.clone());
        }
    }
    given.retain(|_, proxy| *proxy != Proxy::default());
}

fn change_neighbor(kernel: &mut Kernel, random: &mut impl Rng, link: u32) -> Vec<Message> {
    let text = format!("10.0.{}.{}", link - A + 1, random.random_range(20..23));
    let mut changed = neighbor(link, &text, mac(random.random_range(1..4)));
    changed.permanent = random.random_bool(0.6);
    changed.reachable = random.random_bool(0.5);
    changed.external = random.random_bool(0.3);
    changed.protocol = [0, 4, PROTOCOL][random.random_range(0..3)];
    match random.random_range(0..10) {
        0 => changed.mac = Some(MacAddr([3, 0, 0, 0, 0, 1])),
        1 => (changed.mac, changed.failed) = (None, true),
        _ => {}
    }
    kernel.neighbors.retain(|other| (other.link, other.address) != (link, changed.address));
    if random.random_bool(0.3) {
        return vec![Message::NeighborGone(changed)];
    }
    kernel.neighbors.push(changed);
    vec![Message::Neighbor(changed)]
}

/// What the RIB should have of Linux.
pub fn expected(kernel: &Kernel) -> BTreeMap<(Prefix, u32), RouteTarget> {
    let interface = |hop: &Hop| Some(InterfaceId((hop.link - A) as u16));
    let member = |hop: &Hop| Member { address: hop.gateway, interface: interface(hop), weight: hop.weight };
    let target = |route: &Route| match (route.kind, &ways(kernel, route)[..]) {
        _ if route.tos != 0 || route.source.is_some() => {
            RouteTarget::Selective(Arc::new(Selector { source: route.source, tos: route.tos, metric: route.metric }))
        }
        _ if route.unknown.is_some() => RouteTarget::ToLinux(LinuxOnly::Attribute),
        (RouteKind::Other, _) => RouteTarget::ToLinux(LinuxOnly::Type),
        _ if route.encapsulated => RouteTarget::ToLinux(LinuxOnly::Encapsulation),
        (_, hops) if hops.iter().any(|hop| hop.link == 99) => RouteTarget::ToLinux(LinuxOnly::OtherInterface),
        (RouteKind::Blackhole, _) => RouteTarget::Blackhole,
        (RouteKind::Unreachable, _) => RouteTarget::Unreachable,
        (_, [hop]) => RouteTarget::Gateway { address: hop.gateway.unwrap(), interface: interface(hop) },
        (_, hops) => RouteTarget::Multipath(Multipath::new(&hops.iter().map(member).collect::<Vec<_>>()).unwrap()),
    };
    kernel.routes.iter().map(|(key, route)| (*key, target(route))).collect()
}

/// The neighbors that operators have set, as the effects for the slow path add up.
pub fn follow(set: &mut BTreeMap<(InterfaceId, IpAddr), MacAddr>, effects: Vec<Effect>) {
    for effect in effects {
        match effect {
            Effect::SetNeighbor { interface, address, mac } => drop(set.insert((interface, address), mac)),
            Effect::UnsetNeighbor { interface, address } => drop(set.remove(&(interface, address))),
            _ => {}
        }
    }
}

/// The neighbors that operators have set in the kernel, as far as they can be sent to.
pub fn set_by_operators(kernel: &Kernel) -> BTreeMap<(InterfaceId, IpAddr), MacAddr> {
    let set = kernel.neighbors.iter().filter(|neighbor| neighbor.permanent);
    let key = |link: u32, address| (InterfaceId((link - A) as u16), address);
    set.filter_map(|n| Some((key(n.link, n.address), n.mac.filter(|mac| mac.is_unicast())?))).collect()
}

pub fn same_interfaces(world: &World) {
    for (name, link) in [("a", A), ("b", B)] {
        let (Interface { up, mtu, addresses, .. }, linux) = (world.interface(name), &world.kernel.links[&link]);
        assert_eq!((*up, u32::from(*mtu)), (linux.up, linux.mtu), "{name}");
        let of_linux = world.kernel.addresses.iter().filter(|address| address.link == link);
        let of_linux: BTreeSet<_> = of_linux.map(|address| address.with_prefix).collect();
        assert_eq!(addresses.iter().copied().collect::<BTreeSet<_>>(), of_linux, "{name}");
    }
}
