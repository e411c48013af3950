// SPDX-License-Identifier: MIT
//! Linux is the router, and its own interfaces are the ports.

use crate::world::*;
use perigee_config::Stack;
use perigee_linux::{Effect, HelperRequest, Port, Setup};
use perigee_net::{InterfaceId, RouteTarget};
use perigee_netlink::message::{Link, Neighbor, Vlan};

const ON_A: InterfaceId = InterfaceId(0);

/// Ports `a` and `b` are Linux's interfaces `eth0` and `eth1`.
fn world() -> World {
    let own = |port: Port, name: &str| Port { own: Some(name.to_owned()), addresses: Vec::new(), ..port };
    let mut setup = Setup { stack: Stack::Linux, ..setup() };
    setup.ports = setup.ports.into_iter().zip(["eth0", "eth1"]).map(|(port, name)| own(port, name)).collect();
    let mut world = World::before_the_first_dump(setup, &[]);
    world.kernel.links = [(A, link(A, "eth0")), (B, link(B, "eth1"))].into();
    world.kernel.dump();
    world.settle();
    world.asked.clear();
    world.effects.clear();
    world
}

fn set(text: &str, last: u8) -> Effect {
    Effect::SetNeighbor { interface: ON_A, address: ip(text), mac: mac(last) }
}

#[test]
fn interfaces_are_as_linux_has_them() {
    let mut world = world();
    assert_eq!(world.interface("a").addresses.len(), 2, "both of Linux's");
    world.kernel.set_link(Link { mtu: 9000, mac: Some(mac(77)), ..link(A, "eth0") });
    world.kernel.add_address(address(A, "10.9.0.1/24"));
    world.settle();
    let interface = world.interface("a");
    assert_eq!((interface.mtu, interface.mac, interface.addresses.len()), (9000, mac(77), 3));
    world.kernel.set_link(Link { up: false, ..link(A, "eth0") });
    world.settle();
    assert!(!world.interface("a").up);
    assert_eq!(world.requests(), [], "nothing of Linux's is changed");
}

#[test]
fn an_interface_that_is_made_again_is_found_by_its_name() {
    let mut world = world();
    world.kernel.delete_link(A);
    world.settle();
    assert_eq!(world.follower.link_at(0, None), None);
    world.pass(2 * SECOND);
    world.kernel.set_link(link(40, "eth7"));
    world.kernel.set_link(link(41, "eth0"));
    world.kernel.add_address(address(41, "10.0.1.1/24"));
    world.kernel.add(route("10.5.0.0/16", 0, &[via(41, "10.0.1.5")]));
    world.settle();
    assert_eq!(world.follower.link_at(0, None), Some((41, "eth0".to_owned())));
    assert_eq!(world.target("10.5.0.0/16"), Some(gateway(0, "10.0.1.5")));
    // The program is at the one that has the name, too.
    world.kernel.set_link(link(41, "uplink"));
    world.settle();
    assert_eq!(world.follower.link_at(0, None), None);
    assert!(matches!(world.target("10.5.0.0/16"), Some(RouteTarget::ToLinux(_))), "{:?}", world.target("10.5.0.0/16"));
    world.kernel.set_link(link(42, "eth0"));
    world.settle();
    assert_eq!(world.follower.link_at(0, None), Some((42, "eth0".to_owned())));
    assert_eq!(world.requests(), []);
}

#[test]
fn vlans_of_linux_are_interfaces() {
    let mut world = world();
    let vlan = Some(Vlan { below: A, id: 7, service: false });
    world.kernel.set_link(Link { vlan, ..link(50, "eth0.7") });
    world.kernel.add_address(address(50, "10.7.0.1/24"));
    world.settle();
    let interface = world.interface("eth0.7");
    assert_eq!((interface.port, interface.vlan, interface.addresses.len()), (0, Some(7), 1));
}

#[test]
fn neighbors_are_linuxs_as_long_as_it_sends_to_them() {
    let mut world = world();
    let seen = |world: &mut World, neighbor: Neighbor| {
        world.kernel.set_neighbor(neighbor);
        world.settle();
        world.taken()
    };
    let one = neighbor(A, "10.0.1.9", mac(9));
    assert_eq!(seen(&mut world, one), [set("10.0.1.9", 9)]);
    let stale = Neighbor { reachable: false, stale: true, ..one };
    assert_eq!(seen(&mut world, stale), [], "Linux would still send there");
    assert_eq!(seen(&mut world, Neighbor { mac: Some(mac(8)), ..one }), [set("10.0.1.9", 8)]);
    let failed = Neighbor { mac: None, reachable: false, failed: true, ..one };
    let unset = Effect::UnsetNeighbor { interface: ON_A, address: ip("10.0.1.9") };
    assert_eq!(seen(&mut world, failed), std::slice::from_ref(&unset));
    assert_eq!(seen(&mut world, failed), []);
    seen(&mut world, one);
    world.kernel.delete_neighbor(one);
    world.settle();
    assert_eq!(world.taken(), [unset]);
}

#[test]
fn linux_is_asked_to_confirm_neighbors_that_it_has_not_heard_from() {
    let mut world = world();
    let stale =
        |last: u8| Neighbor { reachable: false, stale: true, ..neighbor(A, &format!("10.0.1.{last}"), mac(last)) };
    for last in 1..=40 {
        world.kernel.set_neighbor(stale(last));
    }
    // This one has answered since, and this one is gone.
    world.kernel.set_neighbor(neighbor(A, "10.0.1.1", mac(1)));
    world.kernel.delete_neighbor(stale(2));
    world.settle();
    world.pass(SECOND);
    let asked: Vec<Vec<_>> = world
        .requests()
        .into_iter()
        .map(|request| match request {
            HelperRequest::Confirm(neighbors) => neighbors,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [32, 6], "some at a time");
    let all: Vec<_> = asked.into_iter().flatten().collect();
    let expected: Vec<_> = (3..=40).map(|last| (A, ip(&format!("10.0.1.{last}")))).collect();
    assert_eq!(all, expected);
    // None is asked twice before all were asked once.
    for last in 1..=40 {
        world.kernel.set_neighbor(neighbor(A, &format!("10.0.1.{last}"), mac(last)));
        world.kernel.set_neighbor(stale(last));
    }
    world.settle();
    world.pass(SECOND / 4);
    (1..=32).for_each(|last| world.kernel.set_neighbor(stale(last)));
    world.settle();
    world.pass(SECOND / 4);
    let second = world.requests().pop().map(|request| match request {
        HelperRequest::Confirm(neighbors) => neighbors[..8].to_vec(),
        other => panic!("{other:?}"),
    });
    assert_eq!(second, Some((33..=40).map(|last| (A, ip(&format!("10.0.1.{last}")))).collect()));
    world.requests();
    // What the slow path believes to know is not told.
    world.input(perigee_linux::Input::Neighbor { interface: ON_A, address: ip("10.0.1.99"), mac: Some(mac(99)) });
    world.settle();
    assert_eq!(world.requests(), []);
}
