// SPDX-License-Identifier: MIT
//! What Linux says of addresses: on links that are none of the router's, and what distinguishes them.

use crate::world::*;
use perigee_linux::Effect;
use perigee_net::{AddressAttributes, AddressScope};
use perigee_netlink::message::{Address, Link, Master};

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
