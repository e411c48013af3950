// SPDX-License-Identifier: MIT
//! What Linux says of addresses: on links that are none of the router's, and what distinguishes them.

use crate::world::*;
use perigee_linux::Effect;
use perigee_net::{AddressAttributes, AddressScope, InterfaceId, MacAddr, RouteTarget, Station};
use perigee_netlink::message::{Address, Hop, Link, Master, Route, RouteKind};

const LO: u32 = 1;

fn addresses(world: &World) -> Vec<String> {
    world.router.interfaces.host_addresses().iter().map(|host| host.address.to_string()).collect()
}

/// A world with a loopback, as Linux has it.
fn with_loopback() -> World {
    let mut world = World::new();
    world.kernel.set_link(link(LO, "lo"));
    let host = AddressAttributes { scope: AddressScope::Host, ..AddressAttributes::default() };
    world.kernel.add_address(Address { attributes: host, ..address(LO, "127.0.0.1/8") });
    world.kernel.add_address(address(LO, "::1/128"));
    world.settle();
    world.effects.clear();
    world
}

fn master(index: u32) -> Master {
    Master { index, kind: "vrf".to_owned(), table: None }
}

#[test]
fn addresses_of_the_loopback_are_the_routers_on_no_interface() {
    let mut world = with_loopback();
    assert_eq!(addresses(&world), [""; 0]);
    world.kernel.set_link(link(77, "dummy0"));
    for (link, text) in
        [(77, "10.255.9.1/24"), (LO, "10.255.0.1/32"), (LO, "2001:db8:ffff::1/128"), (77, "fe80::77/64")]
    {
        world.kernel.add_address(address(link, text));
    }
    world.settle();
    // In the order of links, the loopback's first.
    assert_eq!(addresses(&world), ["10.255.0.1/32", "2001:db8:ffff::1/128", "10.255.9.1/24"]);
    assert!(world.taken().contains(&Effect::InterfacesChanged), "the slow path hears of it");
    world.kernel.delete_address(address(LO, "10.255.0.1/32"));
    world.settle();
    assert_eq!(addresses(&world), ["2001:db8:ffff::1/128", "10.255.9.1/24"]);
    // A link that is down has no addresses that anybody could reach.
    world.kernel.set_link(Link { up: false, ..link(LO, "lo") });
    world.settle();
    assert_eq!(addresses(&world), ["10.255.9.1/24"]);
    world.kernel.delete_link(77);
    world.settle();
    assert_eq!(addresses(&world), [""; 0]);
}

#[test]
fn addresses_of_small_scope_and_those_not_known_to_be_unique_are_not() {
    let mut world = with_loopback();
    let scoped = |scope| AddressAttributes { scope, ..AddressAttributes::default() };
    let plain = address(LO, "10.255.0.1/32");
    world.kernel.add_address(Address { attributes: scoped(AddressScope::Host), ..plain });
    world.kernel.add_address(Address { attributes: scoped(AddressScope::Link), ..address(LO, "10.255.0.2/32") });
    let tentative = Address { tentative: true, ..address(LO, "2001:db8:ffff::1/128") };
    world.kernel.add_address(tentative);
    world.settle();
    assert_eq!(addresses(&world), [""; 0]);
    // Linux reports an address again when something about it has changed.
    world.kernel.add_address(address(LO, "2001:db8:ffff::1/128"));
    world.settle();
    assert_eq!(addresses(&world), ["2001:db8:ffff::1/128"]);
    world.kernel.add_address(Address { duplicate: true, ..tentative });
    world.settle();
    assert_eq!(addresses(&world), [""; 0]);
}

/// A management VRF's addresses are no more the router's than its routes are.
#[test]
fn addresses_in_a_vrf_are_the_routers_if_its_table_is_followed() {
    for (tables, expected) in
        [(vec![254], &["10.255.0.1/32"][..]), (vec![254, 100], &["10.255.0.1/32", "10.8.0.1/24", "10.9.0.1/24"])]
    {
        let mut setup = setup();
        setup.linux.tables = tables;
        let mut world = World::with(setup, &[]);
        world.kernel.set_link(link(LO, "lo"));
        world.kernel.set_link(Link { vrf: Some(100), ..link(70, "red") });
        world.kernel.set_link(Link { master: Some(master(70)), ..link(71, "eth0") });
        world.kernel.set_link(link(72, "br0"));
        world.kernel.set_link(Link { master: Some(master(72)), ..link(73, "eth1") });
        for (link, text) in [(LO, "10.255.0.1/32"), (70, "10.8.0.1/24"), (71, "10.9.0.1/24")] {
            world.kernel.add_address(address(link, text));
        }
        world.settle();
        assert_eq!(addresses(&world), expected);
        // A member of a bridge is in no VRF.
        world.kernel.add_address(address(73, "10.7.0.1/24"));
        world.settle();
        assert!(addresses(&world).contains(&"10.7.0.1/24".to_owned()));
    }
}

/// From a resync on and through it, nothing changes that has not changed in Linux.
#[test]
fn a_dump_leaves_addresses_as_they_are() {
    let mut world = with_loopback();
    world.kernel.add_address(address(LO, "10.255.0.1/32"));
    let deprecated = AddressAttributes { deprecated: true, ..AddressAttributes::default() };
    world.kernel.add_address(Address { attributes: deprecated, ..address(A, "2001:db8:1::aaaa/64") });
    world.settle();
    world.effects.clear();
    world.kernel.dump();
    world.settle();
    assert_eq!(world.taken(), []);
    assert_eq!(addresses(&world), ["10.255.0.1/32"]);
    // What a dump does not name is gone.
    world.kernel.addresses.retain(|known| known.link != LO);
    world.kernel.dump();
    world.settle();
    assert_eq!(addresses(&world), [""; 0]);
}

#[test]
fn an_address_that_becomes_deprecated_says_so() {
    let mut world = World::new();
    let own = address(A, "2001:db8:1::1/64");
    let deprecated = AddressAttributes { deprecated: true, ..AddressAttributes::default() };
    assert!(world.interface("a").attributes.is_empty());
    world.kernel.add_address(Address { attributes: deprecated, ..own });
    world.settle();
    assert_eq!(world.interface("a").attributes_of(own.with_prefix), deprecated);
    assert_eq!(world.interface("a").addresses.len(), 2, "it is the same address");
    assert!(world.taken().contains(&Effect::InterfacesChanged));
    world.kernel.add_address(own);
    world.settle();
    assert!(world.interface("a").attributes.is_empty());
    // Linux has found another station that has it: not the router's, even where its own detection has found none.
    world.kernel.add_address(Address { tentative: true, ..own });
    world.settle();
    assert_eq!(world.interface("a").addresses.len(), 2, "the router detects duplicates of its interfaces itself");
    world.kernel.add_address(Address { tentative: true, duplicate: true, ..own });
    world.settle();
    assert_eq!(world.interface("a").addresses.len(), 1);
}

/// VRRP of FRR: the virtual address was nobody's while it was the master, and the router's, by another MAC address,
/// while it was not.
#[test]
fn a_macvlan_on_a_twin_is_a_virtual_station_while_it_has_a_carrier() {
    let mut world = with_loopback();
    let virtual_mac = MacAddr([0, 0, 0x5e, 0, 1, 5]);
    let vrrp = |carrier| Link { mac: Some(virtual_mac), mac_vlan: Some(A), carrier, ..link(80, "vrrp4") };
    world.kernel.set_link(vrrp(true));
    world.kernel.add_address(address(80, "10.0.1.254/32"));
    world.kernel.add_address(address(80, "fe80::fe/64"));
    // On a link that is none of the router's it is an address like any other.
    world.kernel.set_link(link(90, "eth0"));
    world.kernel.set_link(Link { mac: Some(virtual_mac), mac_vlan: Some(90), ..link(91, "other") });
    world.kernel.add_address(address(91, "10.7.0.1/24"));
    world.settle();
    let stations = |world: &World| -> Vec<_> {
        let all = world.router.interfaces.host_addresses().iter();
        all.map(|host| (host.address.to_string(), host.station)).collect()
    };
    let station = Some(Station { interface: InterfaceId(0), mac: virtual_mac });
    let other = ("10.7.0.1/24".to_owned(), None);
    let both = [("10.0.1.254/32".to_owned(), station), ("fe80::fe/64".to_owned(), station), other.clone()];
    assert_eq!(stations(&world), both);
    let interfaces = &world.router.interfaces;
    assert!(
        interfaces.has_station(InterfaceId(0), virtual_mac) && !interfaces.has_station(InterfaceId(1), virtual_mac)
    );
    // Linux delivers to it whether it is in use or not; the router must not, once another router is the master.
    let to_it = Hop { link: 80, gateway: None, weight: 1 };
    world.kernel.add(Route { kind: RouteKind::Local, table: 255, ..route("10.0.1.254/32", 0, &[to_it]) });
    world.kernel.add(route("10.0.77.0/24", 0, &[to_it]));
    world.kernel.set_link(vrrp(false));
    world.settle();
    assert_eq!(world.router.fib.rib().lookup(ip("10.0.1.254")), None);
    let (_, route) = world.router.fib.rib().lookup(ip("10.0.77.1")).expect("by the interface below");
    assert_eq!(route.target, RouteTarget::Connected { interface: InterfaceId(0) });
    assert_eq!(stations(&world), std::slice::from_ref(&other), "another router is the master");
    world.kernel.set_link(vrrp(true));
    world.settle();
    assert_eq!(stations(&world), both);
    world.kernel.delete_link(80);
    world.settle();
    assert_eq!(stations(&world), std::slice::from_ref(&other));
}
