// SPDX-License-Identifier: MIT
//! For which other stations the router answers: `ip neigh add proxy`, `proxy_arp`, `proxy_ndp`.

use crate::world::*;
use perigee_linux::Effect;
use perigee_net::{InterfaceId, Proxy};
use perigee_netlink::message::{Message, NetworkSettings, ProxyNeighbor};

const ON_A: InterfaceId = InterfaceId(0);
const ON_B: InterfaceId = InterfaceId(1);

/// What the slow path is given when the kernel has these entries, as (link, address).
fn with(world: &mut World, entries: &[(u32, &str)]) -> Vec<Effect> {
    let entry = |(link, text): &(u32, &str)| ProxyNeighbor { link: *link, address: ip(text), router: false };
    world.kernel.proxies = entries.iter().map(entry).collect();
    let all = world.kernel.proxies.iter().copied().collect();
    world.kernel.say(Message::ProxyNeighbors(all));
    world.settle();
    world.taken()
}

fn switch(world: &mut World, v6: bool, link: i32, on: bool) -> Vec<Effect> {
    let changed = NetworkSettings { v6, link, proxy_neighbors: Some(on), ..NetworkSettings::default() };
    world.kernel.settings.entry((v6, link)).or_insert(changed).merge(&changed);
    world.kernel.say(Message::NetworkSettings(changed));
    world.settle();
    world.taken()
}

fn set(interface: InterfaceId, arp: bool, addresses: &[&str]) -> Effect {
    let addresses = addresses.iter().map(|text| (ip(text), false)).collect();
    Effect::SetProxy { interface, proxy: Proxy { arp, addresses } }
}

#[test]
fn entries_of_a_link_are_answered_there() {
    let mut world = World::new();
    assert_eq!(with(&mut world, &[(A, "10.0.1.77"), (99, "10.0.1.78")]), [set(ON_A, false, &["10.0.1.77"])]);
    assert_eq!(world.status().proxied, 1);
    assert_eq!(with(&mut world, &[(A, "10.0.1.77"), (99, "10.0.1.78")]), [], "the same");
    // Without a link: on all of them.
    let mut everywhere = with(&mut world, &[(0, "10.0.1.77")]);
    everywhere.sort_by_key(|effect| format!("{effect:?}"));
    assert_eq!(everywhere, [set(ON_B, false, &["10.0.1.77"])]);
    assert_eq!(with(&mut world, &[]).len(), 2);
    assert_eq!(world.status().proxied, 0);
}

/// Linux answers solicitations for entries of IPv6 where `proxy_ndp` is set, and every ARP request where `proxy_arp`
/// is.
#[test]
fn switches_are_those_of_the_link_or_of_all() {
    let mut world = World::new();
    assert_eq!(with(&mut world, &[(A, "2001:db8:1::77")]), [], "proxy_ndp is not set");
    assert_eq!(switch(&mut world, true, A as i32, true), [set(ON_A, false, &["2001:db8:1::77"])]);
    assert_eq!(switch(&mut world, false, A as i32, true), [set(ON_A, true, &["2001:db8:1::77"])]);
    assert_eq!(switch(&mut world, true, A as i32, false), [set(ON_A, true, &[])]);
    assert_eq!(switch(&mut world, false, NetworkSettings::ALL, true), [set(ON_B, true, &[])]);
    assert_eq!(switch(&mut world, false, A as i32, false), [], "still set for all");
    assert_eq!(switch(&mut world, false, NetworkSettings::DEFAULT, true), [], "of links to come");
    assert_eq!(switch(&mut world, false, NetworkSettings::ALL, false).len(), 2);
}

#[test]
fn they_go_with_their_twin_and_are_given_again_to_renumbered_interfaces() {
    let mut world = World::new();
    with(&mut world, &[(A, "10.0.1.77")]);
    world.follower.interfaces_renumbered();
    world.settle();
    let given: Vec<_> = world.taken().into_iter().filter(|e| matches!(e, Effect::SetProxy { .. })).collect();
    assert_eq!(given, [set(ON_A, false, &["10.0.1.77"])]);
    world.kernel.delete_link(A);
    world.settle();
    assert!(world.taken().contains(&set(ON_A, false, &[])));
}
