// SPDX-License-Identifier: MIT
//! Next-hop objects: replaced in place, deleted, lost with a link, and newer than a dump. The kernel says of routes by
//! objects where these lead, and reports them when an object is replaced, or does neither (nexthop_compat_mode).

use crate::world::*;
use perigee_linux::{Input, Report};
use perigee_net::{InterfaceId, Member, Multipath, RouteTarget};
use perigee_netlink::message::{Hop, Link, Message, NextHopTo};

/// One route by a group and one by a member, of each family.
const ROUTES: [(&str, u32); 4] =
    [("10.1.0.0/16", 9), ("10.2.0.0/16", 2), ("2001:db8:a::/48", 19), ("2001:db8:b::/48", 12)];

/// A kernel with two next hops and a group of both, of each family, and routes by them.
fn world(compatible: bool) -> World {
    let mut world = World::new();
    world.kernel.compatible = compatible;
    for (id, hop) in
        [(1, via(A, "10.0.1.2")), (2, via(B, "10.0.2.2")), (11, via(A, "2001:db8:1::2")), (12, via(B, "2001:db8:2::2"))]
    {
        world.kernel.set_object(id, NextHopTo::Hop(hop));
    }
    world.kernel.set_object(9, group(&[1, 2]));
    world.kernel.set_object(19, group(&[11, 12]));
    for (text, id) in ROUTES {
        world.kernel.add(by_object(text, id));
    }
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(both("10.0.1.2", "10.0.2.2")));
    assert_eq!(world.target("2001:db8:a::/48"), Some(both("2001:db8:1::2", "2001:db8:2::2")));
    assert_eq!(world.kernel.dumps, 0);
    world
}

fn group(members: &[u32]) -> NextHopTo {
    NextHopTo::Group(members.iter().map(|id| (*id, 1)).collect())
}

fn both(a: &str, b: &str) -> RouteTarget {
    weighted([(a, 1), (b, 1)])
}

fn weighted([a, b]: [(&str, u16); 2]) -> RouteTarget {
    let member =
        |interface, (text, weight)| Member { address: Some(ip(text)), interface: Some(InterfaceId(interface)), weight };
    RouteTarget::Multipath(Multipath::new(&[member(0, a), member(1, b)]).unwrap())
}

/// The targets of [`ROUTES`].
fn targets(world: &World) -> [Option<RouteTarget>; 4] {
    ROUTES.map(|(text, _)| world.target(text))
}

/// FRR 10 leaves groups to the kernel, which takes members away without a report when their link loses its carrier: the
/// route kept both, and flows took a way that Linux did not have when the link was back.
#[test]
fn a_link_without_a_carrier_has_no_next_hop_objects() {
    for compatible in [true, false] {
        let mut world = world(compatible);
        world.kernel.lose_carrier(B);
        world.settle();
        let left = [Some(gateway(0, "10.0.1.2")), None, Some(gateway(0, "2001:db8:1::2")), None];
        assert_eq!(targets(&world), left, "{compatible}");
        assert_eq!(world.status().next_hops, 4, "{compatible}");
        assert_eq!(world.audit(false).total, 0);
        // Its link is back, the objects are not.
        let dumps = world.kernel.dumps;
        world.kernel.set_link(link(B, "b"));
        world.settle();
        assert_eq!((targets(&world), world.kernel.dumps), (left, dumps), "{compatible}");
        // The last member goes, and with it groups and routes.
        world.kernel.lose_carrier(A);
        world.settle();
        assert_eq!(targets(&world), [None, None, None, None], "{compatible}");
        assert_eq!(world.status().next_hops, 0);
    }
}

/// A carrier that is lost costs no dump where nothing is lost with it.
#[test]
fn a_carrier_without_objects_is_no_reason_to_ask() {
    let mut world = World::new();
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.2")));
    world.kernel.add(route("10.1.0.0/16", 0, &[via(B, "10.0.2.2")]));
    world.kernel.lose_carrier(B);
    world.settle();
    assert_eq!((world.kernel.dumps, world.target("10.1.0.0/16")), (0, Some(gateway(1, "10.0.2.2"))));
}

/// A link may be reported for another reason between the loss of its carrier and the loss of its objects.
#[test]
fn a_dump_before_the_kernel_has_removed_objects_is_not_the_last() {
    let mut world = world(true);
    let lost = Link { carrier: false, ..link(B, "b") };
    world.kernel.set_link(Link { mtu: 1400, ..lost.clone() });
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(both("10.0.1.2", "10.0.2.2")));
    world.kernel.flush_objects(B);
    world.kernel.set_link(Link { mtu: 1400, ..lost });
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(0, "10.0.1.2")));
}

#[test]
fn a_link_that_is_down_has_no_next_hop_objects() {
    let mut world = world(false);
    world.kernel.flush_objects(B);
    world.kernel.set_link(Link { up: false, carrier: false, ..link(B, "b") });
    world.settle();
    let left = [Some(gateway(0, "10.0.1.2")), None, Some(gateway(0, "2001:db8:1::2")), None];
    assert_eq!(targets(&world), left);
}

/// Only objects that routes name themselves were watched: a group's routes kept the old gateway of a member.
#[test]
fn a_member_that_is_replaced_in_place_changes_the_routes_of_its_groups() {
    for compatible in [true, false] {
        let mut world = world(compatible);
        world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.7")));
        world.kernel.set_object(11, NextHopTo::Hop(via(A, "2001:db8:1::7")));
        world.settle();
        assert_eq!(world.target("10.1.0.0/16"), Some(both("10.0.1.7", "10.0.2.2")), "{compatible}");
        assert_eq!(world.target("2001:db8:a::/48"), Some(both("2001:db8:1::7", "2001:db8:2::2")), "{compatible}");
        assert_eq!(world.audit(false).total, 0, "{compatible}");
    }
    // A member of a group that no route names causes no dump.
    let mut world = World::new();
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.2")));
    world.kernel.set_object(9, group(&[1]));
    world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.7")));
    world.settle();
    assert_eq!(world.kernel.dumps, 0);
}

#[test]
fn a_group_that_is_replaced_in_place_changes_its_routes() {
    for compatible in [true, false] {
        let mut world = world(compatible);
        world.kernel.set_object(9, group(&[2]));
        world.kernel.set_object(19, NextHopTo::Group(Box::new([(11, 3), (12, 2)])));
        world.settle();
        assert_eq!(world.target("10.1.0.0/16"), Some(gateway(1, "10.0.2.2")), "{compatible}");
        let uneven = weighted([("2001:db8:1::2", 3), ("2001:db8:2::2", 2)]);
        assert_eq!(world.target("2001:db8:a::/48"), Some(uneven), "{compatible}");
        // What is a member no more changes no route of the group.
        let dumps = world.kernel.dumps;
        world.kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.7")));
        world.settle();
        assert_eq!(world.kernel.dumps, dumps, "{compatible}");
    }
}

#[test]
fn a_member_that_is_deleted_leaves_its_groups() {
    for compatible in [true, false] {
        let mut world = world(compatible);
        world.kernel.delete_object(2);
        world.kernel.delete_object(12);
        world.settle();
        let left = [Some(gateway(0, "10.0.1.2")), None, Some(gateway(0, "2001:db8:1::2")), None];
        assert_eq!(targets(&world), left, "{compatible}");
        world.kernel.delete_object(1);
        world.kernel.delete_object(11);
        world.settle();
        assert_eq!(targets(&world), [None, None, None, None], "{compatible}");
        assert_eq!(world.status().next_hops, 0);
    }
}

/// What happens while a dump is under way is reported after it.
fn during_a_dump(world: &mut World, listed: impl FnOnce(&mut Kernel)) {
    let is_object = |message: &Message| matches!(message, Message::Link(_) | Message::Address(_) | Message::NextHop(_));
    let (first, _): (Vec<_>, Vec<_>) = world.kernel.messages().into_iter().partition(is_object);
    let held = std::mem::take(&mut world.kernel.reports);
    listed(&mut world.kernel);
    let said = std::mem::replace(&mut world.kernel.reports, held);
    let rest = world.kernel.messages().into_iter().filter(|message| !is_object(message));
    let dumped = first.into_iter().chain(rest).map(|message| Report::Message { dumped: true, message });
    let dump: Vec<_> = [Report::DumpBegins].into_iter().chain(dumped).collect();
    world.kernel.reports.extend(dump);
    world.kernel.reports.push_back(Report::DumpEnds { complete: true });
    world.kernel.reports.extend(said);
}

/// A route that moved to an object newer than the dump's list of objects was withdrawn until its notification came.
#[test]
fn a_route_that_a_dump_shows_with_an_object_newer_than_its_list_is_not_gone() {
    for compatible in [true, false] {
        let mut world = world(compatible);
        during_a_dump(&mut world, |kernel| {
            kernel.set_object(7, NextHopTo::Hop(via(A, "10.0.1.7")));
            kernel.add(by_object("10.1.0.0/16", 7));
        });
        while let Some(report) = world.kernel.reports.pop_front() {
            world.input(Input::Reported(perigee_linux::FeedId::Kernel, report));
            assert!(world.target("10.1.0.0/16").is_some(), "{compatible}: packets had no route");
        }
        world.settle();
        assert_eq!(world.target("10.1.0.0/16"), Some(gateway(0, "10.0.1.7")), "{compatible}");
    }
}

#[test]
fn objects_that_change_while_a_dump_is_under_way_are_asked_for_again() {
    for compatible in [true, false] {
        let mut world = world(compatible);
        during_a_dump(&mut world, |kernel| {
            kernel.set_object(1, NextHopTo::Hop(via(A, "10.0.1.7")));
            kernel.lose_carrier(B);
        });
        world.settle();
        let left = [Some(gateway(0, "10.0.1.7")), None, Some(gateway(0, "2001:db8:1::2")), None];
        assert_eq!(targets(&world), left, "{compatible}");
        assert_eq!(world.audit(false).total, 0, "{compatible}");
    }
}

/// The audit's own dump brought the objects up to date, and the difference was repaired before a second dump could show
/// it.
#[test]
fn an_audit_sees_a_group_that_is_another_one_in_linux() {
    for compatible in [true, false] {
        let mut world = world(compatible);
        // As the kernel does it, but without any report.
        world.kernel.next_hops.insert(9, group(&[1]));
        world.kernel.next_hops.insert(12, NextHopTo::Hop(via(B, "2001:db8:2::7")));
        let before = targets(&world);
        let report = world.audit(false);
        let found: Vec<_> = report.differences.iter().map(|d| (d.prefix, d.kind.to_string())).collect();
        let another = |text| (Some(prefix(text)), "another route".to_owned());
        let wanted = [another("10.1.0.0/16"), another("2001:db8:a::/48"), another("2001:db8:b::/48")];
        assert_eq!(found, wanted, "{compatible}");
        let first = report.differences.first().unwrap();
        let rib = "nexthop via 10.0.1.2 dev a weight 1 nexthop via 10.0.2.2 dev b weight 1";
        assert_eq!((first.linux.as_deref(), first.rib.as_deref()), (Some("via 10.0.1.2 dev a"), Some(rib)));
        assert_eq!(targets(&world), before, "an audit that repairs nothing changes nothing");
        assert_eq!(world.audit(true).total, 3, "{compatible}");
        assert_eq!(world.target("10.1.0.0/16"), Some(gateway(0, "10.0.1.2")), "{compatible}");
        assert_eq!(world.target("2001:db8:b::/48"), Some(gateway(1, "2001:db8:2::7")), "{compatible}");
        assert_eq!(world.audit(false).total, 0, "{compatible}");
    }
}

/// An object that is replaced while an audit runs is replaced after it as well.
#[test]
fn an_object_that_changes_during_an_audit_is_asked_for() {
    let mut world = world(false);
    world.follower.begin_audit(world.now, false);
    during_a_dump(&mut world, |kernel| kernel.set_object(9, group(&[1])));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(gateway(0, "10.0.1.2")));
    assert_eq!(world.audits.pop().unwrap().unwrap().total, 0);
}

/// From Linux 6.12 on a group's weights have 16 bits; those of a route's next hops, by which it says where it leads,
/// have 8.
#[test]
fn heavy_members_keep_their_shares() {
    let mut world = world(false);
    world.kernel.set_object(9, NextHopTo::Group(Box::new([(1, 1000), (2, 500)])));
    let mut cut = by_object("10.1.0.0/16", 9);
    let hops = [(via(A, "10.0.1.2"), 1000), (via(B, "10.0.2.2"), 500)];
    let short = |weight: u16| (weight - 1) % 256 + 1;
    cut.hops = hops.map(|(hop, weight)| Hop { weight: short(weight), ..hop }).to_vec().into();
    world.kernel.say(Message::Route(cut));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(weighted([("10.0.1.2", 256), ("10.0.2.2", 128)])));
    world.kernel.set_object(9, NextHopTo::Group(Box::new([(1, 1), (2, u16::MAX)])));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(weighted([("10.0.1.2", 1), ("10.0.2.2", 256)])));
    // Those that fit stay as they are.
    world.kernel.set_object(9, NextHopTo::Group(Box::new([(1, 256), (2, 255)])));
    world.settle();
    assert_eq!(world.target("10.1.0.0/16"), Some(weighted([("10.0.1.2", 256), ("10.0.2.2", 255)])));
}
