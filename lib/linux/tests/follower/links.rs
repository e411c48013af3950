// SPDX-License-Identifier: MIT
//! Links, addresses, VLANs, MTUs, carrier.

use crate::world::*;
use perigee_helper::LinkChange;
use perigee_linux::{Effect, FeedId, HelperRequest, Input, Report, Setup};
use perigee_net::{Interface, InterfaceAddress, InterfaceId, MacAddr, Namespace, ReversePath, RouteTarget};
use perigee_netlink::message::{Hop, Link, Master, Message, NetworkSettings, Vlan};

fn down(index: u32, name: &str) -> Link {
    Link { up: false, carrier: false, ..link(index, name) }
}

fn vlan(index: u32, name: &str, below: u32, vlan: u16) -> Link {
    Link { vlan: Some(Vlan { below, id: vlan, service: false }), ..link(index, name) }
}

fn change(index: u32, name: &str) -> LinkChange {
    LinkChange { name: name.to_owned(), index: Some(index), ..LinkChange::default() }
}

#[test]
fn interfaces_are_what_their_twins_are() {
    let mut world = World::new();
    world.kernel.set_link(Link { mtu: 1400, ..link(A, "a") });
    world.kernel.add_address(address(A, "192.0.2.1/28"));
    world.settle();
    let a = world.interface("a").clone();
    assert_eq!((a.mtu, a.up), (1400, true));
    let texts: Vec<_> = a.addresses.iter().map(InterfaceAddress::to_string).collect();
    assert_eq!(texts, ["10.0.1.1/24", "2001:db8:1::1/64", "192.0.2.1/28"]);
    assert_eq!(world.taken(), [Effect::InterfacesChanged]);
    assert_eq!(world.interface("b").mtu, 1500);
    world.kernel.set_link(Link { mtu: 1400, ..link(A, "a") });
    world.kernel.add_address(address(A, "192.0.2.1/28"));
    world.settle();
    assert!(world.taken().is_empty(), "nothing has changed");
    assert_eq!(world.kernel.dumps, 0);
    // Another length of the same address is another address.
    world.kernel.say(Message::Address(address(A, "192.0.2.1/29")));
    world.settle();
    assert_eq!(world.interface("a").addresses.len(), 4);
    world.kernel.say(Message::Link(Link { mtu: 60, ..link(A, "a") }));
    world.settle();
    assert_eq!(world.interface("a").mtu, 68, "every IPv4 link carries 68 bytes");
}

/// A reload renumbers the interfaces before Linux reports what the helper has changed: the old addresses came back.
#[test]
fn what_the_router_changed_itself_is_not_taken_back_before_linux_reports_it() {
    let mut world = World::new();
    let changed = LinkChange {
        mtu: Some(1400),
        remove: vec!["10.0.1.1/24".parse().unwrap()],
        add: vec!["192.0.2.1/28".parse().unwrap(), "2001:db8:1::1/64".parse().unwrap()],
        ..change(A, "a")
    };
    world.input(Input::LinkChanged(changed.clone()));
    world.settle();
    let texts = |world: &World| -> Vec<_> { world.interface("a").addresses.iter().map(ToString::to_string).collect() };
    assert_eq!(
        (texts(&world), world.interface("a").mtu),
        (vec!["2001:db8:1::1/64".to_owned(), "192.0.2.1/28".into()], 1400)
    );
    // Linux's own report changes nothing any more.
    world.taken();
    world.kernel.delete_address(address(A, "10.0.1.1/24"));
    world.kernel.set_link(Link { mtu: 1400, ..link(A, "a") });
    world.kernel.add_address(address(A, "192.0.2.1/28"));
    world.settle();
    assert!(world.taken().is_empty());
    world.input(Input::LinkChanged(LinkChange { name: "nobody's".to_owned(), ..changed }));
    assert_eq!(texts(&world).len(), 2);
}

#[test]
fn an_address_that_goes_takes_ipv4_routes_along_unreported() {
    let mut world = World::new();
    world.kernel.add_address(address(A, "192.0.2.1/28"));
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "192.0.2.2")]));
    world.settle();
    world.kernel.routes.clear();
    world.kernel.delete_address(address(A, "192.0.2.1/28"));
    world.kernel.say(Message::AddressGone(address(A, "192.0.2.1/28")));
    world.settle();
    assert_eq!((world.kernel.dumps, world.target("10.1.0.0/16")), (1, None));
    assert_eq!(world.interface("a").addresses.len(), 2);
    world.kernel.delete_address(address(A, "2001:db8:1::1/64"));
    world.kernel.say(Message::AddressGone(address(99, "192.0.2.1/28")));
    world.settle();
    assert_eq!(world.kernel.dumps, 1, "IPv6 says of each route that it is gone");
    assert_eq!(world.interface("a").addresses.len(), 1);
}

#[test]
fn a_link_that_goes_down_takes_ipv4_routes_along_unreported() {
    let mut world = World::new();
    world.kernel.add(route("10.1.0.0/16", 0, &[via(A, "10.0.1.2")]));
    world.settle();
    world.taken();
    world.kernel.routes.clear();
    world.kernel.set_link(down(A, "a"));
    world.settle();
    assert_eq!((world.kernel.dumps, world.target("10.1.0.0/16")), (1, None));
    assert!(!world.interface("a").up && world.interface("b").up);
    assert!(world.requests().is_empty());
    world.kernel.set_link(down(A, "a"));
    world.settle();
    assert_eq!(world.kernel.dumps, 1, "it was down already");
    world.kernel.set_link(link(A, "a"));
    world.settle();
    assert_eq!(world.kernel.dumps, 1);
    assert!(world.interface("a").up);
}

/// The kernel takes the link-local address away when a link goes down, and does not give it back to a TAP.
#[test]
fn a_link_that_comes_up_has_its_link_local_address_restored() {
    let mut world = World::new();
    world.kernel.set_link(down(B, "b"));
    world.kernel.set_link(link(B, "b"));
    world.kernel.set_link(down(77, "other"));
    world.kernel.set_link(link(77, "other"));
    world.settle();
    let add = vec!["fe80::ff:fe00:1/64".parse().unwrap()];
    assert_eq!(world.changes(), [LinkChange { add, ..change(B, "b") }]);
    // Linux has no IPv6 on a link with less than 1280 bytes.
    let mut setup = setup();
    setup.ports[0].mtu = 1279;
    setup.ports[1].mtu = 1280;
    let mut world = World::with(setup, &[]);
    for (index, name) in [(A, "a"), (B, "b")] {
        world.kernel.set_link(Link { mtu: 1279, ..down(index, name) });
        world.kernel.set_link(Link { mtu: 1279, ..link(index, name) });
    }
    world.settle();
    let added: Vec<_> = world.changes().into_iter().map(|change| (change.name, change.add.len())).collect();
    assert_eq!(added, [("a".to_owned(), 0), ("b".to_owned(), 1)]);
}

/// Found by the first run on a kernel with VLANs.
#[test]
fn a_vlan_of_the_configuration_that_comes_up_has_its_link_local_address_restored() {
    let mut world = World::with(setup(), &[("b.7", 1, 7)]);
    for (index, name, id) in [(30, "b.7", 7), (31, "b.8", 8)] {
        world.kernel.set_link(vlan(index, name, B, id));
        world.settle();
        world.kernel.set_link(Link { up: false, ..vlan(index, name, B, id) });
        world.kernel.set_link(vlan(index, name, B, id));
        world.settle();
    }
    // To its own, which the operator has made, the kernel gives one.
    let add = vec!["fe80::ff:fe00:1/64".parse().unwrap()];
    assert_eq!(world.changes(), [LinkChange { add, ..change(30, "b.7") }]);
}

#[test]
fn the_link_local_address_is_that_of_the_mac_where_none_is_there() {
    let missing = perigee_linux::missing_link_local;
    let text = |own: Option<InterfaceAddress>| own.map(|own| own.to_string());
    let own = MacAddr([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
    let expected = Some("fe80::11:22ff:fe33:4455/64".to_owned());
    assert_eq!(text(missing(&["10.0.0.1/8".parse().unwrap(), "2001:db8::1/64".parse().unwrap()], own, 1280)), expected);
    assert_eq!(text(missing(&[], own, 1279)), None);
    assert_eq!(text(missing(&["fe80::1/64".parse().unwrap()], own, 1500)), None);
}

#[test]
fn the_carrier_of_a_port_is_its_twins() {
    let mut setup = setup();
    setup.ports[1].twin = None;
    let namespace: Option<Namespace> = None;
    let mut world = World::before_the_first_dump(setup, &[]);
    let carrier = |up| LinkChange { carrier: Some(up), namespace: namespace.clone(), ..change(A, "a") };
    assert_eq!(world.changes(), [carrier(true)], "b has no twin");
    world.input(Input::PortLink { port: 0, up: false });
    world.input(Input::PortLink { port: 1, up: false });
    world.input(Input::PortLink { port: 9, up: false });
    assert_eq!(world.changes(), [carrier(false)]);
    let mut alone = World::before_the_first_dump(Setup { helper: false, ..crate::world::setup() }, &[]);
    assert!(alone.changes().is_empty(), "there is nobody to ask");
    alone.kernel.dump();
    alone.kernel.set_link(Link { mtu: 9000, ..link(A, "a") });
    alone.settle();
    assert!(alone.requests().is_empty());
}

#[test]
fn a_twin_with_too_large_an_mtu_is_set_back() {
    let mut world = World::new();
    world.kernel.set_link(Link { mtu: 1501, ..link(A, "a") });
    world.settle();
    assert_eq!(world.interface("a").mtu, 1500);
    assert_eq!(world.changes(), [LinkChange { mtu: Some(1500), ..change(A, "a") }]);
    world.kernel.set_link(Link { mtu: 1500, ..link(A, "a") });
    world.settle();
    assert!(world.changes().is_empty());
    // By the name that it has in Linux now.
    world.kernel.set_link(Link { mtu: 1501, ..link(A, "renamed") });
    world.settle();
    assert_eq!(world.changes(), [LinkChange { mtu: Some(1500), ..change(A, "renamed") }]);
}

#[test]
fn a_twin_is_changed_in_its_namespace() {
    let namespace: Namespace = "blue".parse().unwrap();
    let setup = Setup { namespace: Some(namespace.clone()), ..crate::world::setup() };
    let mut world = World::with(setup, &[]);
    world.input(Input::PortLink { port: 0, up: true });
    let expected = LinkChange { carrier: Some(true), namespace: Some(namespace), ..change(A, "a") };
    assert_eq!(world.changes(), [expected]);
}

#[test]
fn a_vlan_on_a_twin_becomes_an_interface() {
    let mut world = World::new();
    world.kernel.set_link(vlan(30, "b.7", B, 7));
    world.kernel.add_address(address(30, "10.0.7.1/24"));
    world.kernel.add(route("10.7.0.0/16", 0, &[via(30, "10.0.7.2")]));
    world.settle();
    let Interface { port, vlan: id, mtu, mac: own, up, addresses, .. } = world.interface("b.7").clone();
    assert_eq!((port, id, mtu, own, up), (1, Some(7), 1500, mac(1), true));
    assert_eq!(addresses, ["10.0.7.1/24".parse().unwrap()]);
    assert_eq!(world.target("10.7.0.0/16"), Some(gateway(2, "10.0.7.2")));
    // Not the router's business: a VLAN on another link, and one that does not exist.
    world.kernel.set_link(vlan(31, "x.8", 77, 8));
    world.kernel.set_link(vlan(32, "b.4095", B, 4095));
    world.settle();
    assert_eq!(world.router.interfaces.iter().count(), 3);
    world.kernel.set_link(vlan(33, "b.4094", B, 4094));
    world.kernel.set_link(vlan(34, "b.1", B, 1));
    world.settle();
    assert_eq!(world.router.interfaces.iter().count(), 5);
    // It goes, and stays as a number that is down.
    world.kernel.routes.clear();
    world.kernel.delete_link(30);
    world.settle();
    assert!(!world.interface("b.7").up && world.interface("b.7").addresses.is_empty());
    assert_eq!(world.target("10.7.0.0/16"), None);
    // It comes back under another number in Linux, and is the same interface.
    world.kernel.set_link(vlan(40, "b.7", B, 7));
    world.kernel.add(route("10.7.0.0/16", 0, &[Hop { link: 40, gateway: None, weight: 1 }]));
    world.settle();
    assert!(world.interface("b.7").up);
    let target = RouteTarget::Connected { interface: InterfaceId(2) };
    assert_eq!((world.target("10.7.0.0/16"), world.router.interfaces.iter().count()), (Some(target), 5));
}

#[test]
fn a_vlan_is_adopted_in_the_middle_of_the_first_dump() {
    let mut world = World::before_the_first_dump(setup(), &[]);
    world.kernel.links.insert(30, vlan(30, "b.7", B, 7));
    world.kernel.routes.insert((prefix("10.7.0.0/16"), 0), route("10.7.0.0/16", 0, &[via(30, "10.0.7.2")]));
    world.kernel.dump();
    world.settle();
    assert_eq!(world.target("10.7.0.0/16"), Some(gateway(2, "10.0.7.2")));
    assert_eq!(world.kernel.dumps, 1, "one dump was enough");
}

#[test]
fn nothing_is_done_before_the_first_dump_begins() {
    let mut world = World::before_the_first_dump(setup(), &[]);
    world.kernel.say(Message::Link(vlan(30, "b.7", B, 7)));
    world.kernel.say(Message::Link(down(A, "a")));
    world.settle();
    assert_eq!(world.router.interfaces.iter().count(), 2);
    assert!(world.interface("a").up, "the configuration knows more");
    world.input(Input::Reported(FeedId::Kernel, Report::DumpBegins));
    world.settle();
    assert_eq!(world.router.interfaces.iter().count(), 3);
    assert!(world.interface("a").up, "not before it is whole");
}

#[test]
fn a_vlan_of_the_configuration_follows_linux_or_else_its_port() {
    let mut world = World::with(setup(), &[("b.7", 1, 7)]);
    assert!(world.interface("b.7").up, "Linux has none of that number: the router's alone");
    world.kernel.set_link(down(B, "b"));
    world.settle();
    assert!(!world.interface("b.7").up, "up with its port");
    world.kernel.set_link(link(B, "b"));
    world.kernel.set_link(Link { up: false, ..vlan(30, "b.7", B, 7) });
    world.kernel.add_address(address(30, "10.0.7.1/24"));
    world.settle();
    assert!(!world.interface("b.7").up && world.interface("b").up);
    assert_eq!(world.router.interfaces.iter().count(), 3, "it is the configuration's");
    world.kernel.set_link(vlan(30, "b.7", B, 7));
    world.settle();
    assert!(world.interface("b.7").up);
    world.kernel.delete_link(30);
    world.settle();
    assert!(world.interface("b.7").up && world.interface("b.7").addresses == ["10.0.7.1/24".parse().unwrap()]);
}

/// Its frames have other tags than an interface with that number would send: found by the first run on a kernel with
/// VLANs.
#[test]
fn a_service_vlan_is_no_interface() {
    let mut world = World::new();
    world.kernel.set_link(Link { vlan: Some(Vlan { below: B, id: 7, service: true }), ..link(30, "b.s7") });
    world.kernel.add_address(address(30, "10.0.7.1/24"));
    world.settle();
    assert_eq!(world.router.interfaces.iter().count(), 2);
    world.kernel.set_link(vlan(31, "b.7", B, 7));
    world.settle();
    assert!(world.interface("b.7").up && world.interface("b.7").addresses.is_empty());
}

#[test]
fn interfaces_have_an_end() {
    let vlans: Vec<(String, u16)> = (1..=InterfaceId::LIMIT.min(4094)).map(|id| (format!("b.{id}"), id)).collect();
    let mut world = World::new();
    for (name, id) in &vlans {
        world.kernel.links.insert(1000 + u32::from(*id), vlan(1000 + u32::from(*id), name, B, *id));
    }
    world.kernel.dump();
    world.settle();
    let expected = (vlans.len() + 2).min(usize::from(InterfaceId::LIMIT));
    assert_eq!(world.router.interfaces.iter().count(), expected);
}

#[test]
fn a_dump_takes_links_and_addresses_that_it_does_not_name() {
    let mut world = World::new();
    world.kernel.set_link(vlan(30, "b.7", B, 7));
    world.kernel.add_address(address(A, "192.0.2.1/28"));
    world.settle();
    world.kernel.links.remove(&30);
    world.kernel.addresses.retain(|known| *known != address(A, "192.0.2.1/28"));
    world.kernel.addresses.push(address(B, "192.0.2.17/28"));
    world.kernel.dump();
    world.settle();
    assert!(!world.interface("b.7").up);
    assert_eq!((world.interface("a").addresses.len(), world.interface("b").addresses.len()), (2, 3));
    assert_eq!((world.status().links, world.status().addresses), (2, 5));
}

#[test]
fn links_that_are_none_of_the_routers_change_nothing() {
    let mut world = World::new();
    world.kernel.set_link(link(77, "eth0"));
    world.kernel.add_address(address(77, "127.0.0.2/8"));
    world.kernel.add_address(address(77, "fe80::77/64"));
    world.settle();
    world.kernel.delete_link(77);
    world.settle();
    world.pass(SECOND);
    assert!(world.taken().is_empty() && world.requests().is_empty());
    assert_eq!(world.router.interfaces.iter().count(), 2);
    let asked: Vec<HelperRequest> = world.requests();
    assert!(asked.is_empty());
}

#[test]
fn settings_of_links_are_kept_as_they_change() {
    let mut world = World::new();
    let of_a = NetworkSettings { link: A as i32, ..NetworkSettings::default() };
    let forwarding = NetworkSettings { forwarding: Some(false), reverse_path: Some(1), ..of_a };
    world.kernel.say(Message::NetworkSettings(forwarding));
    world.kernel.say(Message::NetworkSettings(NetworkSettings { proxy_neighbors: Some(true), ..of_a }));
    world.settle();
    let both = NetworkSettings { proxy_neighbors: Some(true), ..forwarding };
    assert_eq!(world.follower.network_settings(false, A as i32), both);
    let six = NetworkSettings { v6: true, proxy_neighbors: Some(false), ..of_a };
    assert_eq!(world.follower.network_settings(true, A as i32), six, "those of IPv6 are others");
    world.kernel.say(Message::NetworkSettingsGone(true, A as i32));
    world.settle();
    assert_eq!(world.follower.network_settings(false, A as i32), both);
    world.kernel.say(Message::NetworkSettingsGone(false, A as i32));
    world.settle();
    assert_eq!(world.follower.network_settings(false, A as i32), of_a);
    world.kernel.say(Message::NetworkSettings(forwarding));
    world.kernel.delete_link(A);
    world.settle();
    assert_eq!(world.follower.network_settings(false, A as i32), of_a, "they go with their link");
}

/// The helper was asked by the port's name, and a renamed twin kept its carrier and lost its link-local address, in
/// silence.
#[test]
fn a_twin_that_is_renamed_is_still_asked_for() {
    let mut world = World::new();
    world.kernel.set_link(down(A, "uplink"));
    world.kernel.set_link(link(A, "uplink"));
    world.settle();
    let add = vec![InterfaceAddress { address: mac(0).link_local().into(), prefix_len: 64 }];
    assert_eq!(world.changes(), [LinkChange { add, ..change(A, "uplink") }]);
    world.input(Input::PortLink { port: 0, up: false });
    assert_eq!(world.changes(), [LinkChange { carrier: Some(false), ..change(A, "uplink") }]);
    assert_eq!(world.follower.link_at(0, None), Some((A, "uplink".to_owned())));
    // Another link that has the port's name now is none of its business.
    world.kernel.set_link(link(40, "a"));
    let changed = LinkChange { mtu: Some(1400), ..change(A, "uplink") };
    world.settle();
    world.input(Input::LinkChanged(changed));
    world.settle();
    assert_eq!(world.interface("a").mtu, 1400);
    world.kernel.set_link(vlan(41, "up.7", A, 7));
    world.settle();
    assert_eq!(world.follower.link_at(0, Some(7)), Some((41, "up.7".to_owned())));
    assert_eq!(world.follower.link_at(1, Some(7)), None);
}

/// Hosts learned the twin's MAC address from Linux, and what they sent to it was not the port's.
#[test]
fn a_twin_with_another_mac_address_gets_its_own_back() {
    let mut world = World::new();
    let with = |last| Link { mac: Some(mac(last)), ..link(A, "a") };
    world.kernel.set_link(with(0));
    world.settle();
    assert!(world.changes().is_empty() && world.status().differences.is_empty());
    world.kernel.set_link(with(9));
    world.settle();
    assert_eq!(world.changes(), [LinkChange { mac: Some(mac(0)), ..change(A, "a") }]);
    let [sentence] = &world.status().differences[..] else { panic!("{:?}", world.status().differences) };
    assert!(sentence.contains(&mac(9).to_string()) && sentence.contains(&mac(0).to_string()), "{sentence}");
    assert_eq!(world.interface("a").mac, mac(0), "the port's stays");
    world.kernel.set_link(with(0));
    world.settle();
    assert!(world.changes().is_empty() && world.status().differences.is_empty());
    // A VLAN on it may be an operator's, whose interfaces the helper does not touch.
    world.kernel.set_link(Link { mac: Some(mac(9)), ..vlan(30, "a.7", A, 7) });
    world.settle();
    assert!(world.changes().is_empty());
    let [sentence] = &world.status().differences[..] else { panic!("{:?}", world.status().differences) };
    assert!(sentence.contains("ip link set a.7 address"), "{sentence}");
}

#[test]
fn a_twin_that_belongs_to_another_interface_is_named() {
    let mut world = World::new();
    let differences = |world: &mut World, a: Option<(&str, Option<u32>)>, b: Option<(&str, Option<u32>)>| {
        for (index, name, master) in [(A, "a", a), (B, "b", b)] {
            let master = master.map(|(kind, table)| Master { index: 50, kind: kind.to_owned(), table });
            world.kernel.set_link(Link { master, ..link(index, name) });
        }
        world.settle();
        world.status().differences
    };
    world.kernel.set_link(link(50, "upper"));
    let bridge = differences(&mut world, Some(("bridge", None)), None);
    assert!(matches!(&bridge[..], [one] if one.contains("a belongs to the bridge upper")), "{bridge:?}");
    let unnamed = differences(&mut world, Some(("", None)), None);
    assert!(matches!(&unnamed[..], [one] if one.contains("the interface upper")), "{unnamed:?}");
    let left_out = differences(&mut world, None, Some(("vrf", Some(100))));
    assert!(matches!(&left_out[..], [one] if one.contains("b is in the VRF upper, whose table 100")), "{left_out:?}");
    // The main table is followed: of two VRFs, or of one and none, the packets meet.
    let mixed = differences(&mut world, Some(("vrf", Some(254))), None);
    assert!(matches!(&mixed[..], [one] if one.contains("keeps no VRFs apart")), "{mixed:?}");
    let together = differences(&mut world, Some(("vrf", Some(254))), Some(("vrf", Some(254))));
    assert!(together.is_empty(), "{together:?}");
}

#[test]
fn a_twin_that_is_moved_to_another_namespace_is_made_again() {
    let mut world = World::new();
    world.kernel.links.remove(&A);
    world.kernel.say(Message::LinkMoved(A));
    world.settle();
    world.pass(SECOND);
    let asked = world.requests();
    assert!(asked.iter().any(|request| matches!(request, HelperRequest::Twin(0, _))), "{asked:?}");
}

#[test]
fn settings_of_linux_that_the_router_does_not_have_are_named() {
    let mut world = World::new();
    let set = |world: &mut World, changed: NetworkSettings| {
        world.kernel.say(Message::NetworkSettings(changed));
        world.settle();
        world.status().differences
    };
    let of_a = NetworkSettings { link: A as i32, ..NetworkSettings::default() };
    let all = NetworkSettings { link: NetworkSettings::ALL, reverse_path: Some(2), ..of_a };
    assert!(set(&mut world, all).is_empty(), "distributions set it");
    let strict = set(&mut world, NetworkSettings { reverse_path: Some(1), ..of_a });
    assert!(
        matches!(&strict[..], [one] if one.contains("conf.a.rp_filter is 1") && one.contains("strict")),
        "{strict:?}"
    );
    let both = set(&mut world, NetworkSettings { broadcast_forwarding: Some(true), ..of_a });
    assert!(matches!(&both[..], [one, _] if one.contains("conf.a.bc_forwarding")), "{both:?}");
    let off = NetworkSettings { reverse_path: Some(0), broadcast_forwarding: Some(false), ..of_a };
    assert!(set(&mut world, off).is_empty());
    // The router checks sources there itself.
    let mut list: Vec<Interface> = world.router.interfaces.iter().map(|(_, interface)| interface.clone()).collect();
    list[0].policy.urpf = ReversePath::Loose;
    world.router.interfaces = perigee_fib::Interfaces::new(list).unwrap();
    assert!(set(&mut world, NetworkSettings { reverse_path: Some(1), ..of_a }).is_empty());
}

/// Linux's switch is not the router's: whoever turns it is told.
#[test]
fn forwarding_that_is_switched_off_in_linux_is_named() {
    let mut world = World::new();
    let mut set = |v6, link, on| {
        let changed = NetworkSettings { v6, link, forwarding: Some(on), ..NetworkSettings::default() };
        world.kernel.say(Message::NetworkSettings(changed));
        world.settle();
        world.status().differences
    };
    assert!(set(false, NetworkSettings::ALL, false).is_empty(), "it was off before");
    assert!(set(false, NetworkSettings::ALL, true).is_empty());
    assert!(set(false, A as i32, true).is_empty() && set(false, A as i32, false).is_empty(), "the helper sets it so");
    let off = set(false, NetworkSettings::ALL, false);
    assert!(matches!(&off[..], [one] if one.contains("net.ipv4.ip_forward was set to 0")), "{off:?}");
    set(true, NetworkSettings::ALL, true);
    assert_eq!(set(true, NetworkSettings::ALL, false).len(), 2);
    assert_eq!(set(true, NetworkSettings::ALL, true).len(), 1);
    assert!(set(false, NetworkSettings::ALL, true).is_empty());
}
