// SPDX-License-Identifier: MIT
//! Multicast routes of routing daemons: whose they are, and that they go when the kernel's do.

use crate::world::*;
use perigee_config::{Feed, Linux as LinuxConfig};
use perigee_fib::MulticastOrigin::{Linux, LinuxAlone};
use perigee_linux::{FeedId, Report, Setup};
use perigee_net::{InterfaceId, MulticastOutput, MulticastRoute};
use perigee_netlink::message::Message;

fn output(interface: u16, ttl: u8) -> MulticastOutput {
    MulticastOutput { interface: InterfaceId(interface), ttl }
}

#[test]
fn a_route_over_the_routers_interfaces_is_taken_over_and_others_are_linuxs_own() {
    let mut world = World::new();
    let routes = [
        multicast("239.1.1.1", Some("10.0.1.2"), Some(A), &[(B, 7)]),
        multicast("239.1.1.1", None, Some(A), &[(A, 1), (B, 1)]),
        // The tunnel of PIM's registers is none of the router's interfaces; another input is gone.
        multicast("239.1.1.2", Some("10.0.1.2"), Some(A), &[(B, 1), (99, 1)]),
        multicast("ff05::1", Some("2001:db8:1::2"), None, &[(B, 1)]),
        multicast("ff05::2", Some("2001:db8:1::2"), Some(B), &[]),
    ];
    routes.into_iter().for_each(|route| world.kernel.set_multicast(route));
    world.settle();
    let route = |group, source: Option<&str>, from: Option<u16>, to: &[MulticastOutput]| MulticastRoute {
        group: ip(group),
        source: source.map(ip),
        from: from.map(InterfaceId),
        to: to.to_vec(),
    };
    let expected = [
        (route("239.1.1.1", None, Some(0), &[output(0, 1), output(1, 1)]), Linux),
        (route("239.1.1.1", Some("10.0.1.2"), Some(0), &[output(1, 7)]), Linux),
        (route("239.1.1.2", Some("10.0.1.2"), Some(0), &[output(1, 1)]), LinuxAlone),
        (route("ff05::1", Some("2001:db8:1::2"), None, &[output(1, 1)]), LinuxAlone),
        (route("ff05::2", Some("2001:db8:1::2"), Some(1), &[]), Linux),
    ];
    assert_eq!(world.router.multicast, expected);
    let sets = world.router.multicast_sets;
    world.kernel.say(Message::MulticastRoute(multicast("ff05::2", Some("2001:db8:1::2"), Some(B), &[])));
    world.settle();
    assert_eq!(world.router.multicast_sets, sets, "nothing has changed");
    // The daemon registers no more, and another route ends.
    world.kernel.set_multicast(multicast("239.1.1.2", Some("10.0.1.2"), Some(A), &[(B, 1)]));
    world.kernel.delete_multicast((ip("ff05::2"), Some(ip("2001:db8:1::2"))));
    world.settle();
    assert_eq!((world.router.multicast[2].1, world.router.multicast.len()), (Linux, 4));
}

/// `feed = "none"` took multicast routes alone.
#[test]
fn a_router_that_follows_nothing_takes_no_multicast_routes() {
    for (feed, feeds, taken) in [
        (Feed::None, vec![FeedId::Kernel], 0),
        (Feed::Fpm, vec![FeedId::Kernel, FeedId::Zebra], 1),
        (Feed::Netlink, vec![FeedId::Kernel], 1),
    ] {
        let linux = LinuxConfig { feed, ..linux() };
        let mut world = World::with(Setup { linux, feeds, ..setup() }, &[]);
        let route = multicast("239.1.1.1", Some("10.0.1.2"), Some(A), &[(B, 1)]);
        world.kernel.set_multicast(route.clone());
        world.settle();
        world.kernel.dump();
        world.settle();
        assert_eq!(world.router.multicast.len(), taken, "{feed:?}");
        world.kernel.delete_multicast(route.key);
        world.settle();
        assert!(world.router.multicast.is_empty());
    }
}

#[test]
fn a_link_that_goes_leaves_its_routes_to_linux() {
    let mut world = World::new();
    world.kernel.set_multicast(multicast("239.1.1.1", Some("10.0.1.2"), Some(A), &[(B, 1)]));
    world.settle();
    assert_eq!(world.router.multicast[0].1, Linux);
    world.kernel.delete_link(B);
    world.settle();
    assert_eq!(world.router.multicast[0].1, LinuxAlone);
    // Numbers of interfaces are others after a reload.
    let sets = world.router.multicast_sets;
    world.follower.interfaces_renumbered();
    world.settle();
    assert!(world.router.multicast_sets > sets);
}

#[test]
fn what_a_dump_does_not_name_is_gone_once_another_confirms_it() {
    let mut world = World::new();
    let key = (ip("239.1.1.1"), Some(ip("10.0.1.2")));
    world.kernel.set_multicast(multicast("239.1.1.1", Some("10.0.1.2"), Some(A), &[(B, 1)]));
    world.settle();
    // The notification is lost.
    world.kernel.multicast.remove(&key);
    world.kernel.dumps = 0;
    world.kernel.reports.push_back(Report::Lost);
    world.kernel.dump();
    world.settle();
    assert_eq!((world.router.multicast.len(), world.kernel.dumps), (0, 2));
    // One that a dump has only missed stays.
    world.kernel.set_multicast(multicast("239.1.1.1", Some("10.0.1.2"), Some(A), &[(B, 1)]));
    world.settle();
    let kept = world.kernel.multicast.remove(&key).unwrap();
    world.kernel.dump();
    world.kernel.multicast.insert(key, kept);
    world.settle();
    assert_eq!(world.router.multicast.len(), 1);
    world.kernel.broken_dump(Vec::new());
    world.settle();
    assert_eq!(world.router.multicast.len(), 1, "an incomplete dump says nothing");
}
