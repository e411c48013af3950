// SPDX-License-Identifier: MIT
//! Groups of next-hop objects that change under routes which name them all the time, as FRR 10 uses them: replaced in
//! place, short of a member, or of the members whose link has gone. The kernel reports the routes then
//! (nexthop_compat_mode), or does not.

use crate::linux_hops::{has, started};
use perigee_tests::{Good, Router, World, wait_until};

perigee_tests::scenarios![groups_and_members_are_replaced_in_place, members_go_with_the_carrier_of_their_link,];

/// A route by each group: an ordinary one, a resilient one, one of IPv6. Its members are the objects `id + 1` and `id +
/// 2`.
const GROUPS: [Group; 3] = [
    Group { id: 10, prefix: "10.9.10.0/24", net: "10.0.", kind: "" },
    Group { id: 20, prefix: "10.9.20.0/24", net: "10.0.", kind: " type resilient buckets 32" },
    Group { id: 30, prefix: "2001:db8:9::/48", net: "2001:db8:", kind: "" },
];
const ONE: &[(&str, u64)] = &[("2.2", 1)];
const TWO: &[(&str, u64)] = &[("3.2", 1)];
const BOTH: &[(&str, u64)] = &[("2.2", 1), ("3.2", 1)];

struct Group {
    id: u32,
    prefix: &'static str,
    /// What addresses of its family begin with.
    net: &'static str,
    kind: &'static str,
}

impl Group {
    /// A gateway's address: of `2.2` it is 10.0.2.2, or 2001:db8:2::2.
    fn address(&self, short: &str) -> String {
        let short = if self.net.contains(':') { short.replace('.', "::") } else { short.to_owned() };
        format!("{}{short}", self.net)
    }

    /// Adds a member, or replaces it in place.
    fn set_member(&self, world: &World, number: u32, gateway: &str, dev: &str) {
        world.ip(&format!("nexthop replace id {} via {} dev {dev}", self.id + number, self.address(gateway)));
    }

    /// Adds the group, or replaces it in place; its members with their weights.
    fn set(&self, world: &World, members: &[(u32, u16)]) {
        let each: Vec<_> = members.iter().map(|(number, weight)| format!("{},{weight}", self.id + number)).collect();
        world.ip(&format!("nexthop replace id {} group {}{}", self.id, each.join("/"), self.kind));
    }
}

/// Whether the kernel says of routes by an object where these lead, and reports them when the object is replaced.
fn set_reports_of_routes(value: &str) {
    let file = "/proc/sys/net/ipv4/nexthop_compat_mode";
    std::fs::write(file, value).unwrap_or_else(|error| panic!("{file}: {error}"));
}

/// Makes groups of both gateways, and routes by them.
fn add_groups(world: &World, router: &Router) {
    for group in &GROUPS {
        group.set_member(world, 1, "2.2", "one");
        group.set_member(world, 2, "3.2", "two");
        group.set(world, &[(1, 1), (2, 1)]);
        let family = if group.net.contains(':') { "-6" } else { "-4" };
        world.ip(&format!("{family} route replace {} nhid {}", group.prefix, group.id));
    }
    lead_to(router, BOTH);
}

/// Waits until all routes lead to these gateways, with these weights, and compares the tables.
#[track_caller]
fn lead_to(router: &Router, gateways: &[(&str, u64)]) {
    for group in &GROUPS {
        let gateways: Vec<_> = gateways.iter().map(|(short, weight)| (group.address(short), *weight)).collect();
        let wanted: Vec<_> = gateways.iter().map(|(address, weight)| (address.as_str(), *weight)).collect();
        has(router, group.prefix, &wanted);
    }
    router.audited();
}

fn groups_and_members_are_replaced_in_place(world: &World) {
    let (_wire, router, _hosts) = started(world);
    for reports in ["1", "0"] {
        set_reports_of_routes(reports);
        add_groups(world, &router);
        let each = |change: &dyn Fn(&Group)| GROUPS.iter().for_each(change);
        each(&|group| group.set_member(world, 1, "2.7", "one"));
        lead_to(&router, &[("2.7", 1), ("3.2", 1)]);
        each(&|group| group.set_member(world, 1, "3.7", "two"));
        lead_to(&router, &[("3.2", 1), ("3.7", 1)]);
        each(&|group| group.set(world, &[(2, 1)]));
        lead_to(&router, TWO);
        each(&|group| group.set_member(world, 1, "2.2", "one"));
        each(&|group| group.set(world, &[(1, 3), (2, 5)]));
        lead_to(&router, &[("2.2", 3), ("3.2", 5)]);
        each(&|group| drop(world.ip(&format!("nexthop del id {}", group.id + 2))));
        lead_to(&router, ONE);
    }
    router.alone();
    router.stop();
}

/// The kernel takes next hops over a link without a carrier out of their groups, and reports nothing but the link.
fn members_go_with_the_carrier_of_their_link(world: &World) {
    let (_wire, router, [_one, two]) = started(world);
    let times_up = || router.log().matches("port two: link up").count();
    for reports in ["1", "0"] {
        set_reports_of_routes(reports);
        add_groups(world, &router);
        two.run("ip link set eth0 down").good();
        lead_to(&router, ONE);
        let before = times_up();
        two.run("ip link set eth0 up").good();
        wait_until("the link to be back", || times_up() > before);
        lead_to(&router, ONE);
        assert_eq!(world.ip("nexthop").matches("dev two").count(), 0, "Linux does not bring them back");
    }
    add_groups(world, &router);
    world.ip("link set two down");
    lead_to(&router, ONE);
    router.alone();
    router.stop();
}
