// SPDX-License-Identifier: MIT
//! Messages built byte by byte, and the same ones cut off, changed and made up.

use super::decode::{Dump, ENOBUFS, Tally, decode};
use super::feed::{Scope, Source, Update, follow};
use super::message::*;
use super::wire::{dump_request, flag, kind, proxies_request};
use perigee_helper::NetlinkSockets;
use perigee_net::{AddressAttributes, AddressScope, MacAddr};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::os::unix::net::UnixDatagram;

/// An attribute, padded.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn word(number: u32) -> [u8; 4] {
    number.to_ne_bytes()
}

/// A message: header, fixed part, attributes.
fn framed(kind: u16, flags: u16, sequence: u32, head: &[u8], attributes: &[Vec<u8>]) -> Vec<u8> {
    let body = [head.to_vec(), attributes.concat()].concat();
    let mut bytes = word((body.len() + 16) as u32).to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(word(sequence));
    bytes.extend(word(0));
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn notification(bytes: &[u8]) -> (Vec<Message>, Tally) {
    let (mut into, mut tally) = (Vec::new(), Tally::default());
    decode(bytes, None, &mut into, &mut tally);
    (into, tally)
}

fn one(bytes: &[u8]) -> Message {
    let (mut messages, tally) = notification(bytes);
    assert_eq!((messages.len(), tally), (1, Tally::default()), "{messages:?}");
    messages.remove(0)
}

/// struct rtmsg: family, length, source length, type of service, table, protocol, scope, kind, flags.
fn route_head(family: u8, length: u8, kind: u8) -> Vec<u8> {
    [vec![family, length, 0, 0, 254, 12, 0, kind], word(0).to_vec()].concat()
}

/// struct rtnexthop with a gateway.
fn way(link: u32, weight: u8, gateway: &[u8]) -> Vec<u8> {
    let inner = attribute(5, gateway);
    let mut bytes = ((inner.len() + 8) as u16).to_ne_bytes().to_vec();
    bytes.extend([0, weight - 1]);
    bytes.extend(word(link));
    bytes.extend(inner);
    bytes
}

/// IFLA_LINKINFO of the VLAN 100 with tags of a type.
fn vlan_info(tag: u16) -> Vec<u8> {
    let data = [attribute(1, &100u16.to_ne_bytes()), attribute(5, &tag.to_be_bytes())].concat();
    [attribute(1, b"vlan\0"), attribute(2, &data)].concat()
}

fn samples() -> Vec<Vec<u8>> {
    let link_head = [vec![0; 4], word(7).to_vec(), word(0x10001).to_vec(), word(0).to_vec()].concat();
    let vlan = vlan_info(0x8100);
    let link = [
        attribute(3, b"wan.100\0"),
        attribute(1, &[2, 0, 0, 0, 0, 7]),
        attribute(4, &word(1400)),
        attribute(5, &word(3)),
        attribute(18, &vlan),
    ];
    let address_head = [vec![2, 24, 0x80, 0], word(7).to_vec()].concat();
    let address = [attribute(1, &[10, 0, 0, 1]), attribute(2, &[10, 0, 0, 1]), attribute(8, &word(0x80))];
    let neighbor_head = [vec![2, 0, 0, 0], word(7).to_vec(), 0x80u16.to_ne_bytes().to_vec(), vec![0, 1]].concat();
    let neighbor = [attribute(1, &[10, 0, 0, 2]), attribute(2, &[2, 0, 0, 0, 0, 9]), attribute(12, &[4])];
    let next_hop_head = [2, 0, 0, 0, 0, 0, 0, 0];
    let next_hop = [attribute(1, &word(5)), attribute(5, &word(7)), attribute(6, &[10, 0, 0, 2])];
    let members = [word(5), [2, 0, 0, 0], word(6), [0, 0, 0, 0]].concat();
    let group = [attribute(1, &word(9)), attribute(2, &members)];
    let plain =
        [attribute(1, &[10, 9, 0, 0]), attribute(5, &[10, 0, 0, 2]), attribute(4, &word(7)), attribute(6, &word(20))];
    let ways = [way(7, 1, &[10, 0, 0, 2]), way(8, 3, &[10, 0, 1, 2])].concat();
    let several = [attribute(1, &[10, 9, 0, 0]), attribute(15, &word(1000)), attribute(9, &ways)];
    let mut six = vec![0; 16];
    six[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    let by_object = [attribute(1, &six), attribute(30, &word(9))];
    let over_v6 = [attribute(18, &[10u16.to_ne_bytes().to_vec(), six.clone()].concat()), attribute(4, &word(7))];
    vec![
        framed(kind::NEW_LINK, 0, 0, &link_head, &link),
        framed(kind::NEW_ADDRESS, 0, 0, &address_head, &address),
        framed(kind::NEW_NEIGHBOR, 0, 0, &neighbor_head, &neighbor),
        framed(kind::NEW_NEXT_HOP, 0, 0, &next_hop_head, &next_hop),
        framed(kind::NEW_NEXT_HOP, 0, 0, &next_hop_head, &group),
        framed(kind::NEW_ROUTE, 0, 0, &route_head(2, 16, 1), &plain),
        framed(kind::NEW_ROUTE, flag::APPEND, 0, &route_head(2, 16, 1), &several),
        framed(kind::DEL_ROUTE, 0, 0, &route_head(10, 32, 1), &by_object),
        framed(kind::NEW_ROUTE, 0, 0, &route_head(2, 0, 1), &over_v6),
        framed(kind::NEW_ROUTE, 0, 0, &route_head(2, 8, 6), &[attribute(1, &[10, 0, 0, 0])]),
        in_a_vrf(kind::NEW_LINK),
        settings(10, -1, &[(2, 1), (4, 0), (5, 1), (6, 0)]),
        framed(kind::NEW_NEIGHBOR, 0, 0, &proxy_head(2, 7, 8), &[attribute(1, &[10, 0, 0, 77])]),
    ]
}

/// An address as `ip address` makes it: head of family, length, flags and scope, then attributes.
fn address_of(head: [u8; 4], attributes: &[Vec<u8>]) -> Address {
    let head = [head.to_vec(), word(7).to_vec()].concat();
    match one(&framed(kind::NEW_ADDRESS, 0, 0, &head, attributes)) {
        Message::Address(address) => address,
        other => panic!("{other:?}"),
    }
}

#[test]
fn addresses_say_their_scope_their_network_and_whether_they_are_deprecated() {
    let own4 = [attribute(1, &[10, 0, 0, 1]), attribute(2, &[10, 0, 0, 1])];
    for (scope, expected) in [
        (0, AddressScope::Global),
        (199, AddressScope::Global),
        (200, AddressScope::Link),
        (253, AddressScope::Link),
        (254, AddressScope::Host),
        (255, AddressScope::Host),
    ] {
        assert_eq!(address_of([2, 24, 0x80, scope], &own4).attributes.scope, expected, "scope {scope}");
    }
    let six: Vec<u8> = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1]].concat();
    let of_flags = |flags: u32| address_of([10, 64, 0x80, 0], &[attribute(1, &six), attribute(8, &word(flags))]);
    let said = |flags| {
        let address = of_flags(flags);
        (address.attributes.deprecated, address.tentative, address.duplicate)
    };
    assert_eq!(said(0x80), (false, false, false));
    assert_eq!(said(0x80 | 0x20), (true, false, false));
    assert_eq!(said(0x80 | 0x40), (false, true, false));
    assert_eq!(said(0x80 | 0x40 | 0x04), (false, false, false), "optimistic");
    assert_eq!(said(0x80 | 0x40 | 0x08), (false, true, true));
    // The scope of a link-local address is in the address.
    assert_eq!(address_of([10, 64, 0x80, 253], &[attribute(1, &six)]).attributes, AddressAttributes::default());
    // A peer's network, and one without a connected route.
    let peer = address_of([2, 32, 0x80, 0], &[attribute(1, &[10, 0, 9, 2]), attribute(2, &[10, 0, 0, 1])]);
    assert_eq!(
        (peer.with_prefix.to_string().as_str(), peer.attributes.toward),
        ("10.0.0.1/32", "10.0.9.2/32".parse().ok())
    );
    let alone = of_flags(0x80 | 0x200);
    assert_eq!((alone.with_prefix.prefix_len, alone.attributes.toward), (128, "2001:db8::/64".parse().ok()));
    assert_eq!(of_flags(0x80).attributes.toward, None);
}

#[test]
fn links_say_what_they_are_members_of() {
    let head = [vec![0; 4], word(7).to_vec(), vec![0; 8]].concat();
    let of = |attributes: &[Vec<u8>]| match one(&framed(kind::NEW_LINK, 0, 0, &head, attributes)) {
        Message::Link(link) => (link.master, link.vrf),
        other => panic!("{other:?}"),
    };
    let info = |kind: &[u8]| attribute(18, &[attribute(1, kind), attribute(2, &attribute(1, &word(100)))].concat());
    assert_eq!(of(&[attribute(3, b"red\0"), info(b"vrf\0")]), (None, Some(100)));
    assert_eq!(of(&[attribute(3, b"vx\0"), info(b"vxlan\0")]), (None, None));
    assert_eq!(
        of(&[attribute(3, b"eth0\0"), attribute(10, &word(3))]),
        (Some(Master { index: 3, kind: String::new(), table: None }), None)
    );
}

/// struct netconfmsg, padded, with its NETCONFA_*.
fn settings(family: u8, link: i32, values: &[(u16, u32)]) -> Vec<u8> {
    let values = values.iter().map(|(kind, value)| attribute(*kind, &word(*value)));
    let attributes: Vec<_> = [attribute(1, &link.to_ne_bytes())].into_iter().chain(values).collect();
    framed(kind::NEW_NETWORK_SETTINGS, 0, 0, &[family, 0, 0, 0], &attributes)
}

/// struct ndmsg of an address that the machine answers for.
fn proxy_head(family: u8, link: u32, flags: u8) -> Vec<u8> {
    [vec![family, 0, 0, 0], word(link).to_vec(), vec![0, 0, flags, 5]].concat()
}

/// `ip neigh add proxy`, which was taken for a neighbor and left out in silence.
#[test]
fn addresses_that_the_machine_answers_for() {
    let six = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let proxy = |family, link, flags, address: &[u8]| {
        framed(kind::NEW_NEIGHBOR, 0, 0, &proxy_head(family, link, flags), &[attribute(1, address)])
    };
    let expected = ProxyNeighbor { link: 7, address: "10.0.0.77".parse().unwrap(), router: false };
    assert_eq!(one(&proxy(2, 7, 8, &[10, 0, 0, 77])), Message::ProxyNeighbor(expected));
    let expected = ProxyNeighbor { link: 0, address: "2001:db8::9".parse().unwrap(), router: true };
    assert_eq!(one(&proxy(10, 0, 0x88, &six)), Message::ProxyNeighbor(expected));
    let none = framed(kind::NEW_NEIGHBOR, 0, 0, &proxy_head(2, 7, 8), &[]);
    for wrong in [proxy(2, 7, 8, &six), proxy(10, 7, 8, &[10, 0, 0, 1]), none] {
        assert_eq!(notification(&wrong), (vec![], Tally { malformed: 1, skipped: 0 }));
    }
    // One that goes is reported by no kernel that is known; it is no neighbor that goes.
    let gone = framed(kind::DEL_NEIGHBOR, 0, 0, &proxy_head(2, 7, 8), &[attribute(1, &[10, 0, 0, 77])]);
    assert_eq!(notification(&gone), (vec![], Tally { malformed: 0, skipped: 1 }));
    let request = proxies_request(9);
    assert_eq!((request.len(), request[26]), (28, 8), "struct ndmsg with NTF_PROXY");
}

/// A link in a VRF: IFLA_MASTER, and in IFLA_LINKINFO what it belongs to.
fn in_a_vrf(kind: u16) -> Vec<u8> {
    let head = [vec![0; 4], word(7).to_vec(), word(1).to_vec(), word(0).to_vec()].concat();
    let info = [attribute(1, b"tun\0"), attribute(4, b"vrf\0"), attribute(5, &attribute(1, &word(100)))].concat();
    framed(kind, 0, 0, &head, &[attribute(3, b"wan\0"), attribute(10, &word(9)), attribute(18, &info)])
}

#[test]
fn a_link_that_belongs_to_another() {
    let master = Some(Master { index: 9, kind: "vrf".into(), table: Some(100) });
    let link = Link { index: 7, name: "wan".into(), up: true, master, ..Link::default() };
    assert_eq!(one(&in_a_vrf(kind::NEW_LINK)), Message::Link(link));
    assert_eq!(one(&in_a_vrf(kind::DEL_LINK)), Message::LinkGone(7));
}

/// A twin that is moved to another namespace was taken for one that is deleted.
#[test]
fn a_link_that_is_in_another_namespace_now() {
    let head = [vec![0; 4], word(7).to_vec(), word(0).to_vec(), word(0).to_vec()].concat();
    let attributes = [attribute(3, b"wan\0"), attribute(45, &word(0))];
    assert_eq!(one(&framed(kind::DEL_LINK, 0, 0, &head, &attributes)), Message::LinkMoved(7));
}

#[test]
fn states_and_marks_of_neighbors() {
    let neighbor = |state: u16, flags: u8| {
        let head = [vec![2, 0, 0, 0], word(7).to_vec(), state.to_ne_bytes().to_vec(), vec![flags, 1]].concat();
        let attributes = [attribute(1, &[10, 0, 0, 2]), attribute(2, &[2, 0, 0, 0, 0, 9]), attribute(12, &[158])];
        let Message::Neighbor(n) = one(&framed(kind::NEW_NEIGHBOR, 0, 0, &head, &attributes)) else { panic!() };
        assert_eq!(n.protocol, 158);
        (n.mac.is_some(), n.permanent, n.reachable, n.failed, n.external)
    };
    assert_eq!(neighbor(0x02, 0x10), (true, false, true, false, true));
    assert_eq!(neighbor(0x04, 0), (true, false, false, false, false), "stale");
    assert_eq!(neighbor(0x40, 0), (true, true, false, false, false), "no ARP");
    assert_eq!(neighbor(0x20, 0), (false, false, false, true, false), "its old MAC address does not count");
    assert_eq!(neighbor(0x01, 0), (false, false, false, false, false), "incomplete");
}

#[test]
fn settings_of_links() {
    let all = settings(2, 7, &[(2, 1), (3, 2), (8, 0), (4, 1), (5, 0), (6, 1)]);
    let expected = NetworkSettings {
        v6: false,
        link: 7,
        forwarding: Some(true),
        reverse_path: Some(2),
        multicast_forwarding: Some(true),
        broadcast_forwarding: Some(false),
        proxy_neighbors: Some(false),
        ignore_routes_with_linkdown: Some(true),
    };
    assert_eq!(one(&all), Message::NetworkSettings(expected));
    // A notification names what has changed.
    let one_of_all = NetworkSettings { v6: true, link: NetworkSettings::ALL, forwarding: Some(true), ..<_>::default() };
    assert_eq!(one(&settings(10, -1, &[(2, 1)])), Message::NetworkSettings(one_of_all));
    let mut merged = expected;
    merged.merge(&NetworkSettings { proxy_neighbors: Some(true), link: 7, ..<_>::default() });
    assert_eq!(merged, NetworkSettings { proxy_neighbors: Some(true), ..expected });
    let gone = framed(kind::DEL_NETWORK_SETTINGS, 0, 0, &[2, 0, 0, 0], &[attribute(1, &word(7))]);
    assert_eq!(one(&gone), Message::NetworkSettingsGone(false, 7));
    let mpls = settings(28, 7, &[(7, 1)]);
    assert_eq!(notification(&mpls), (vec![], Tally { malformed: 0, skipped: 1 }));
    let no_link = framed(kind::NEW_NETWORK_SETTINGS, 0, 0, &[2, 0, 0, 0], &[attribute(2, &word(1))]);
    let short = framed(kind::NEW_NETWORK_SETTINGS, 0, 0, &[2, 0, 0, 0], &[attribute(1, &[7, 0])]);
    let any = settings(2, 7, &[(3, 256)]);
    assert!(matches!(one(&any), Message::NetworkSettings(said) if said.reverse_path == Some(u8::MAX)));
    for wrong in [no_link, short] {
        assert_eq!(notification(&wrong), (vec![], Tally { malformed: 1, skipped: 0 }));
    }
}

#[test]
fn messages_say_what_they_say() {
    let all = samples();
    let link = Link {
        index: 7,
        name: "wan.100".into(),
        up: true,
        carrier: true,
        mtu: 1400,
        mac: Some(MacAddr([2, 0, 0, 0, 0, 7])),
        vlan: Some(Vlan { below: 3, id: 100, service: false }),
        mac_vlan: None,
        master: None,
        vrf: None,
    };
    assert_eq!(one(&all[0]), Message::Link(link.clone()));
    let attributes = [attribute(3, b"wan.s\0"), attribute(5, &3u32.to_ne_bytes()), attribute(18, &vlan_info(0x88a8))];
    let service = framed(kind::NEW_LINK, 0, 0, &[&[0; 4], &7u32.to_ne_bytes()[..], &[0; 8]].concat(), &attributes);
    let Message::Link(service) = one(&service) else { panic!("a link") };
    assert_eq!(service.vlan, Some(Vlan { below: 3, id: 100, service: true }));
    let mac_vlan = |more: &[Vec<u8>]| {
        let info = attribute(18, &attribute(1, b"macvlan\0"));
        let attributes = [&[attribute(3, b"vrrp4\0"), attribute(5, &3u32.to_ne_bytes()), info][..], more].concat();
        let message = framed(kind::NEW_LINK, 0, 0, &[&[0; 4], &7u32.to_ne_bytes()[..], &[0; 8]].concat(), &attributes);
        let Message::Link(link) = one(&message) else { panic!("a link") };
        link.mac_vlan
    };
    assert_eq!((mac_vlan(&[]), mac_vlan(&[attribute(37, &0u32.to_ne_bytes())])), (Some(3), None));
    let address = Address::new(7, "10.0.0.1/24".parse().unwrap());
    assert_eq!(one(&all[1]), Message::Address(address));
    let neighbor = Neighbor {
        link: 7,
        address: "10.0.0.2".parse().unwrap(),
        mac: Some(MacAddr([2, 0, 0, 0, 0, 9])),
        permanent: true,
        reachable: false,
        stale: false,
        failed: false,
        external: false,
        protocol: 4,
    };
    assert_eq!(one(&all[2]), Message::Neighbor(neighbor));
    let hop = |link, gateway: &str, weight| Hop { link, gateway: Some(gateway.parse().unwrap()), weight };
    assert_eq!(one(&all[3]), Message::NextHop(NextHop { id: 5, to: NextHopTo::Hop(hop(7, "10.0.0.2", 1)) }));
    let group = NextHopTo::Group([(5, 3), (6, 1)].into());
    assert_eq!(one(&all[4]), Message::NextHop(NextHop { id: 9, to: group }));
    let plain = Route {
        prefix: "10.9.0.0/16".parse().unwrap(),
        table: 254,
        protocol: 12,
        kind: RouteKind::Unicast,
        tos: 0,
        source: None,
        metric: 20,
        hops: Hops::One(hop(7, "10.0.0.2", 1)),
        next_hop: 0,
        appended: false,
        replaces: false,
        encapsulated: false,
        mtu: 0,
        unknown: None,
    };
    assert_eq!(one(&all[5]), Message::Route(plain.clone()));
    let hops = Hops::Many([hop(7, "10.0.0.2", 1), hop(8, "10.0.1.2", 3)].into());
    let several = Route { table: 1000, metric: 0, hops, appended: true, ..plain.clone() };
    assert_eq!(one(&all[6]), Message::Route(several));
    let prefix = "2001:db8::/32".parse().unwrap();
    let by_object = Route { prefix, metric: 0, hops: Hops::None, next_hop: 9, ..plain.clone() };
    assert_eq!(one(&all[7]), Message::RouteGone(by_object));
    let hops = Hops::One(hop(7, "2001:db8::", 1));
    let over_v6 = Route { prefix: "0.0.0.0/0".parse().unwrap(), metric: 0, hops, ..plain.clone() };
    assert_eq!(one(&all[8]), Message::Route(over_v6));
    let nowhere = Route { prefix: "10.0.0.0/8".parse().unwrap(), metric: 0, hops: Hops::None, ..plain };
    assert_eq!(one(&all[9]), Message::Route(Route { kind: RouteKind::Blackhole, ..nowhere }));
}

/// Of netlink and of FPM, which has the same messages.
#[test]
fn every_protocol_of_a_route_is_read() {
    for protocol in 0..=u8::MAX {
        for new in [kind::NEW_ROUTE, kind::DEL_ROUTE] {
            let mut head = route_head(2, 16, 1);
            head[5] = protocol;
            let message = framed(new, 0, 0, &head, &[attribute(1, &[10, 9, 0, 0]), attribute(4, &word(7))]);
            let (Message::Route(route) | Message::RouteGone(route)) = one(&message) else { panic!("a route") };
            assert_eq!(route.protocol, protocol);
        }
    }
}

/// What changes where a route's packets go was left out in silence.
#[test]
fn a_route_says_for_whom_it_is_and_what_is_not_known() {
    let of = |head: Vec<u8>, attributes: &[Vec<u8>]| match one(&framed(
        kind::NEW_ROUTE,
        flag::REPLACE,
        0,
        &head,
        attributes,
    )) {
        Message::Route(route) => route,
        other => panic!("{other:?}"),
    };
    let four = attribute(1, &[10, 9, 0, 0]);
    let mut tos = route_head(2, 16, 1);
    tos[3] = 0x10;
    let route = of(tos, std::slice::from_ref(&four));
    assert_eq!((route.tos, route.replaces, route.unknown, route.mtu), (0x10, true, None, 0));
    let six: Vec<u8> = [&[0x20, 1, 0xd, 0xb8][..], &[0; 12]].concat();
    let mut from = route_head(10, 32, 1);
    from[2] = 48;
    assert_eq!(of(from.clone(), &[attribute(2, &six)]).source, "2001:db8::/48".parse().ok());
    assert_eq!(notification(&framed(kind::NEW_ROUTE, 0, 0, &from, &[])).1, Tally { malformed: 1, skipped: 0 });
    let metrics = [attribute(10, &word(64)), attribute(2, &word(1300)), attribute(1, &word(4))].concat();
    assert_eq!(of(route_head(2, 16, 1), &[four.clone(), attribute(0x8000 | 8, &metrics)]).mtu, 1300);
    // Display, traffic classes, sources of this machine's own packets, lifetimes: no matter for what is forwarded.
    let no_matter = [7, 11, 12, 20, 21, 23, 24].map(|kind| attribute(kind, &[0; 4]));
    assert_eq!(of(route_head(2, 16, 1), &no_matter).unknown, None);
    for unknown in [19, 31, 99] {
        let route = of(route_head(2, 16, 1), &[four.clone(), attribute(unknown, &[0; 4]), attribute(200, &[])]);
        assert_eq!(route.unknown, Some(unknown));
    }
    let kinds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 77].map(|kind| of(route_head(2, 16, kind), &[]).kind);
    use RouteKind::*;
    assert_eq!(
        kinds,
        [Unicast, Local, Broadcast, Anycast, Multicast, Blackhole, Unreachable, Prohibit, Other, Other, Other]
    );
}

/// struct fib_rule_hdr and FRA_*.
#[test]
fn a_rule_says_which_packets_it_is_for() {
    let head = |family: u8, lengths: [u8; 2], tos: u8, table: u8, action: u8, flags: u32| {
        [vec![family, lengths[0], lengths[1], tos, table, 0, 0, action], flags.to_ne_bytes().to_vec()].concat()
    };
    let rule = |head: Vec<u8>, attributes: &[Vec<u8>]| match one(&framed(kind::NEW_RULE, 0, 0, &head, attributes)) {
        Message::Rule(rule) => rule,
        other => panic!("{other:?}"),
    };
    let plain = Rule { priority: 100, action: RuleAction::Table(1000), ..Rule::default() };
    let (priority, table) = (attribute(6, &word(100)), attribute(15, &word(1000)));
    let none = attribute(14, &u32::MAX.to_ne_bytes());
    assert_eq!(rule(head(2, [0, 0], 0, 252, 1, 0), &[priority.clone(), table.clone(), none]), plain);
    let with = |attributes: &[Vec<u8>]| {
        rule(head(2, [16, 24], 0, 0, 1, 0), &[&[priority.clone(), table.clone()], attributes].concat())
    };
    let range = |first: u16, last: u16| [first.to_ne_bytes(), last.to_ne_bytes()].concat();
    let whole = [
        attribute(1, &[10, 1, 0, 0]),
        attribute(2, &[10, 2, 3, 0]),
        attribute(3, b"wan\0"),
        attribute(22, &[17]),
        attribute(23, &range(1, 9)),
        attribute(24, &range(53, 53)),
        attribute(14, &word(0)),
    ];
    let expected = Rule {
        destination: "10.1.0.0/16".parse().ok(),
        source: "10.2.3.0/24".parse().ok(),
        input: Some("wan".into()),
        protocol: Some(17),
        source_ports: "1-9".parse().ok(),
        destination_ports: "53".parse().ok(),
        suppressed: Some(0),
        ..plain.clone()
    };
    assert_eq!(with(&whole), expected);
    // A mark, a user, an output, a tunnel; a mark of 0 is none.
    for more in [
        attribute(10, &word(5)),
        attribute(20, &[word(1000), word(2000)].concat()),
        attribute(17, b"lo\0"),
        attribute(12, &[0, 0, 1, 0]),
    ] {
        assert_eq!(with(&[more]), Rule { asks_for_more: true, ..plain.clone() });
    }
    assert_eq!(with(&[attribute(10, &word(0))]), plain);
    // Linux looks for what it forwards as user 0, without a mark.
    assert_eq!(with(&[attribute(20, &[word(0), word(99)].concat())]), plain);
    assert_eq!(with(&[attribute(10, &word(4)), attribute(16, &word(3))]), plain);
    assert_eq!(with(&[attribute(25, &[0])]).unknown, Some(25));
    assert_eq!(with(&[attribute(19, &[1])]), Rule { by_vrf: true, ..plain.clone() });
    assert_eq!(with(&[attribute(25, &[0x2e])]), Rule { tos: 0xb8, ..plain.clone() });
    assert_eq!(with(&[attribute(77, &[1])]), Rule { unknown: Some(77), ..plain.clone() });
    let actions =
        [(2, RuleAction::Jump(300)), (3, RuleAction::Nothing), (6, RuleAction::Refuse), (8, RuleAction::Refuse)];
    for (action, expected) in actions.into_iter().chain([(99, RuleAction::Unknown(99))]) {
        assert_eq!(
            rule(head(10, [0, 0], 0, 0, action, 2), &[attribute(4, &word(300))]),
            Rule { is_v6: true, inverted: true, priority: 0, action: expected, ..plain.clone() }
        );
    }
    assert!(matches!(one(&framed(kind::DEL_RULE, 0, 0, &head(2, [0, 0], 0, 254, 1, 0), &[])), Message::RuleGone(_)));
    for wrong in [attribute(23, &range(9, 1)), attribute(1, &[10, 1]), attribute(6, &[1])] {
        assert_eq!(notification(&framed(kind::NEW_RULE, 0, 0, &head(2, [16, 0], 0, 0, 1, 0), &[wrong])).1.malformed, 1);
    }
}

/// struct nexthop_grp: Linux 6.12 has made the byte behind the weight a part of it, and a resilient group has
/// its attributes.
#[test]
fn a_group_has_weights_of_two_bytes_and_a_type() {
    let head = [0; 8];
    let members = [word(5), [0xe7, 3, 0, 0], word(6), [0xff, 0xff, 0, 0]].concat();
    let resilient = [attribute(1, &32u16.to_ne_bytes()), attribute(2, &word(12_000))].concat();
    let attributes = [
        attribute(1, &word(9)),
        attribute(3, &1u16.to_ne_bytes()),
        attribute(2, &members),
        attribute(0x8000 | 12, &resilient),
    ];
    let group = NextHopTo::Group([(5, 1000), (6, u16::MAX)].into());
    let next_hop = NextHop { id: 9, to: group };
    assert_eq!(one(&framed(kind::NEW_NEXT_HOP, 0, 0, &head, &attributes)), Message::NextHop(next_hop));
}

#[test]
fn a_datagram_has_many_messages_and_an_end() {
    let mut bytes = samples().concat();
    bytes.extend(framed(kind::DONE, flag::DUMP_INTERRUPTED, 0, &word(0), &[]));
    let (mut into, mut tally) = (Vec::new(), Tally::default());
    let dump = decode(&bytes, Some(0), &mut into, &mut tally);
    assert_eq!(dump, Dump { done: true, interrupted: true, error: None });
    assert_eq!((into.len(), tally), (samples().len(), Tally::default()));
    // An answer to another request is ignored.
    let dump = decode(&bytes, Some(7), &mut into, &mut tally);
    assert_eq!((dump, into.len()), (Dump::default(), samples().len()));
    let refused = framed(kind::ERROR, 0, 3, &word((-105i32) as u32), &[]);
    assert_eq!(decode(&refused, Some(3), &mut into, &mut tally).error, Some(ENOBUFS));
    let lowest = framed(kind::ERROR, 0, 3, &word(i32::MIN as u32), &[]);
    assert_eq!(decode(&lowest, Some(3), &mut into, &mut tally).error, Some(i32::MAX));
}

#[test]
fn what_is_of_no_concern_is_counted() {
    let bridge = framed(kind::NEW_NEIGHBOR, 0, 0, &[7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0], &[]);
    let mpls = framed(kind::NEW_ROUTE, 0, 0, &route_head(28, 20, 1), &[]);
    let mut cloned = framed(kind::NEW_ROUTE, 0, 0, &route_head(2, 32, 1), &[attribute(1, &[10, 0, 0, 1])]);
    cloned[16 + 9] |= 2;
    let unknown = framed(77, 0, 0, &[0; 12], &[]);
    for bytes in [bridge, mpls, cloned, unknown] {
        assert_eq!(notification(&bytes), (vec![], Tally { malformed: 0, skipped: 1 }));
    }
    let too_long = framed(kind::NEW_ROUTE, 0, 0, &route_head(2, 33, 1), &[attribute(1, &[10, 0, 0, 1])]);
    let no_name = framed(kind::NEW_LINK, 0, 0, &[0; 16], &[]);
    let short = framed(kind::NEW_ROUTE, 0, 0, &route_head(2, 24, 1)[..11], &[]);
    let wrong_family = framed(kind::NEW_ROUTE, 0, 0, &route_head(2, 24, 1), &[attribute(1, &[0; 16])]);
    for bytes in [too_long, no_name, short, wrong_family] {
        assert_eq!(notification(&bytes), (vec![], Tally { malformed: 1, skipped: 0 }));
    }
}

#[test]
fn whatever_the_bytes_are() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    let rounds = std::env::var("PERIGEE_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1) * 200_000u64;
    println!("PERIGEE_FUZZ_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut samples = samples();
    let outputs = [output(5, 1), output(6, 32)].concat();
    let attributes = [attribute(1, &[239, 1, 2, 3]), attribute(2, &[10, 0, 0, 1]), attribute(9, &outputs)];
    samples.push(multicast(128, kind::NEW_ROUTE, 253, 0, &attributes));
    let rule = [attribute(1, &[10, 1, 0, 0]), attribute(6, &word(100)), attribute(24, &word(0x0035_0035))];
    samples.push(framed(kind::NEW_RULE, 0, 0, &[2, 16, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0], &rule));
    let (mut into, mut tally) = (Vec::new(), Tally::default());
    for _ in 0..rounds {
        let mut bytes = samples[random.random_range(0..samples.len())].clone();
        match random.random_range(0..4) {
            0 => bytes.truncate(random.random_range(0..=bytes.len())),
            1 => bytes.iter_mut().for_each(|byte| *byte = random.random()),
            _ => {}
        }
        for _ in 0..random.random_range(0..4) {
            if !bytes.is_empty() {
                let at = random.random_range(0..bytes.len());
                bytes[at] =
                    if random.random() { random.random() } else { bytes[at] ^ (1 << random.random_range(0..8)) };
            }
        }
        if random.random_range(0..8) == 0 {
            bytes.extend(&samples[random.random_range(0..samples.len())]);
        }
        into.clear();
        let sequence = random.random::<bool>().then_some(0);
        decode(&bytes, sequence, &mut into, &mut tally);
        for message in &into {
            if let Message::Route(route) | Message::RouteGone(route) = message {
                assert!(route.hops.as_slice().iter().all(|hop| (1..=256).contains(&hop.weight)), "{route:?}");
                let longest = if route.prefix.addr().is_ipv4() { 32 } else { 128 };
                assert!(route.prefix.len() <= longest);
            }
            if let Message::MulticastRoute(MulticastRoute { key, .. }) | Message::MulticastRouteGone(key) = message {
                let (group, source) = key;
                assert!(group.is_multicast() && source.is_none_or(|source| source.is_ipv4() == group.is_ipv4()));
            }
        }
    }
    assert!(tally.malformed > 0 && tally.skipped > 0, "the fuzzer reaches both: {tally:?}");
}

#[test]
fn requests_are_as_long_as_they_say() {
    let request = dump_request(kind::GET_ROUTE, 2, 12, 9);
    assert_eq!(request.len(), 28);
    assert_eq!(u32::from_ne_bytes(request[..4].try_into().unwrap()), 28);
    assert_eq!(request[16], 2);
}

/// A multicast route: table, flags, attributes.
fn multicast(family: u8, kind: u16, table: u8, flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let length = if family == 128 { 32 } else { 128 };
    let head = [vec![family, length, length, 0, table, 17, 0, 5], word(flags).to_vec()].concat();
    framed(kind, 0, 0, &head, attributes)
}

/// struct rtnexthop of a multicast route.
fn output(link: u32, ttl: u8) -> Vec<u8> {
    [&8u16.to_ne_bytes()[..], &[0, ttl], &word(link)].concat()
}

#[test]
fn multicast_routes() {
    let (group, source) = ([239, 1, 2, 3], [10, 0, 0, 1]);
    // IPv6's default table is the main one.
    let attributes = |source: &[u8], group: &[u8]| {
        let outputs = [output(5, 1), output(6, 32)].concat();
        // The table, the counters, and when it was last used.
        let rest = [
            attribute(15, &word(if group.len() == 4 { 253 } else { 254 })),
            attribute(17, &[0; 24]),
            attribute(23, &[0; 8]),
        ]
        .concat();
        vec![attribute(2, source), attribute(1, group), attribute(3, &word(4)), attribute(9, &outputs), rest]
    };
    let four = attributes(&source, &group);
    let key = (group.into(), Some(source.into()));
    let route = MulticastRoute { key, input: Some(4), outputs: vec![(5, 1), (6, 32)] };
    let new = |table, flags, attributes: &[Vec<u8>]| multicast(128, kind::NEW_ROUTE, table, flags, attributes);
    assert_eq!(one(&new(253, 0, &four)), Message::MulticastRoute(route.clone()));
    assert_eq!(one(&multicast(128, kind::DEL_ROUTE, 253, 0, &four)), Message::MulticastRouteGone(key));
    let (source6, group6) = ([0x20; 16], [0xff; 16]);
    let six = multicast(129, kind::NEW_ROUTE, 254, 0, &attributes(&source6, &group6));
    let key = (group6.into(), Some(source6.into()));
    assert_eq!(one(&six), Message::MulticastRoute(MulticastRoute { key, ..route.clone() }));
    // Of any source; and with interfaces that are gone.
    let any = one(&new(253, 0, &attributes(&[0; 4], &group)));
    assert_eq!(any, Message::MulticastRoute(MulticastRoute { key: (group.into(), None), ..route }));
    let key = (group.into(), Some(source.into()));
    let bare = one(&new(253, 0, &four[..2]));
    assert_eq!(bare, Message::MulticastRoute(MulticastRoute { key, input: None, outputs: Vec::new() }));
    // One that waits for a daemon, one of another table, one for all groups.
    let other_table = [&four[..4], &[attribute(15, &word(1000))]].concat();
    let main = multicast(128, kind::NEW_ROUTE, 254, 0, &four[..4]);
    let default6 = multicast(129, kind::NEW_ROUTE, 253, 0, &attributes(&source6, &group6)[..4]);
    let any_group = new(253, 0, &attributes(&[0; 4], &[0; 4]));
    for skipped in [new(253, 0x20, &four), new(252, 0, &other_table), any_group, main, default6] {
        assert_eq!(notification(&skipped), (vec![], Tally { malformed: 0, skipped: 1 }));
    }
    // Without a group, with an address of the other family, with an output that is cut off or too long.
    let wrong = [
        four[..1].to_vec(),
        attributes(&source6, &group),
        vec![four[1].clone(), attribute(9, &[9, 0, 0, 1, 5, 0, 0, 0])],
        vec![four[1].clone(), attribute(9, &[4, 0, 0, 1, 5, 0, 0, 0])],
    ];
    for wrong in wrong {
        assert_eq!(notification(&new(253, 0, &wrong)), (vec![], Tally { malformed: 1, skipped: 0 }));
    }
}

/// A kernel that knows no multicast routes dumps the routes of all families instead (rtnetlink_rcv_msg). They were all
/// read three times, with each dump.
#[test]
fn a_kernel_without_multicast_routing_repeats_its_routes_no_more() {
    let ((dumps, kernel), (monitor, _silent)) = (UnixDatagram::pair().unwrap(), UnixDatagram::pair().unwrap());
    [&dumps, &monitor].into_iter().for_each(|ours| ours.set_nonblocking(true).unwrap());
    let sockets = NetlinkSockets { monitor: monitor.into(), dumps: dumps.into() };
    let mut source = follow(sockets, Scope::Everything, || ()).unwrap();
    for first in [true, false] {
        let (mut families, mut over) = (Vec::new(), false);
        while !over {
            let mut request = [0; 64];
            kernel.recv(&mut request).unwrap();
            let (asked, family) = (u16::from_ne_bytes([request[4], request[5]]), request[16]);
            let sequence = u32::from_ne_bytes([request[8], request[9], request[10], request[11]]);
            let attributes = [attribute(1, &[10, 20, 0, 0]), attribute(4, &word(5))];
            let route = framed(kind::NEW_ROUTE, 2, sequence, &route_head(2, 16, 1), &attributes);
            if asked == kind::GET_ROUTE {
                families.push(family);
            }
            if asked == kind::GET_ROUTE && family != 10 {
                kernel.send(&route).unwrap();
            }
            kernel.send(&framed(kind::DONE, 2, sequence, &word(0), &[])).unwrap();
            // The last one of a dump; it is asked again now and then.
            over = !families.is_empty() && (asked, request[26]) == (kind::GET_NEIGHBOR, 8);
        }
        assert_eq!(families, if first { vec![2, 10, 128, 129] } else { vec![2, 10] });
        let mut dumped = Vec::new();
        loop {
            match source.next() {
                Some(Update::Dumped(messages)) => dumped.extend(messages),
                Some(Update::DumpEnds { complete }) => break assert!(complete),
                Some(_) => {}
                None => std::thread::yield_now(),
            }
        }
        assert!(
            matches!(&dumped[..], [Message::Route(_), Message::ProxyNeighbors(none)] if none.is_empty()),
            "{dumped:?}"
        );
        source.dump();
    }
}
