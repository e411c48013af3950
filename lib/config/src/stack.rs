// SPDX-License-Identifier: MIT
//! `stack = "linux"`: what is Linux's then, and not the configuration's.

use super::filters::{Filter, FilteredFrom};
use super::linux::{Feed, Linux};
use super::ports::{Plane, Port, STANDARD_MTU};
use super::reader::Section;
use super::router::{Router, Stack};

use perigee_net::FiveTuple;

/// Keys of `[port.NAME]` that are Linux's, and the command that does what they would do.
const PORT_KEYS: [(&str, &str); 8] = [
    ("addresses", "`ip address add`"),
    ("mac", "`ip link set INTERFACE address`"),
    ("promiscuous", "`ip link set INTERFACE promisc on`"),
    ("vlan", "`ip link add link INTERFACE type vlan id ID`"),
    ("directed_broadcast", "`sysctl net.ipv4.conf.INTERFACE.bc_forwarding=1`"),
    ("source_routes", "`sysctl net.ipv4.conf.INTERFACE.accept_source_route=1`"),
    ("multicast_ttl", "the multicast routing daemon's threshold"),
    ("multicast_boundary", "nft"),
];

/// Tables that are Linux's, and the command that does what they would do.
const TABLES: [(&str, &str); 5] = [
    ("route", "`ip route add`"),
    ("routes_file", "`ip -batch`"),
    ("neighbor", "`ip neigh add`"),
    ("multicast", "Linux's own multicast routing daemons"),
    ("steer", "nothing: what is not forwarded is Linux's"),
];

/// Reports keys that Linux has the say about.
fn report(keys: &[(&str, &str)], section: &Section) {
    for (key, instead) in keys {
        if let Some(place) = section.place(key).filter(|_| !section.is_off(key)) {
            let message =
                format!("found `{key}` with `stack = \"linux\"`, expected none: Linux is the router; use {instead}");
            section.mistakes().add(&place, message);
        }
    }
}

/// Every port of Linux's is in the plane.
pub(crate) fn check_router(router: &mut Router, section: &Section) {
    if router.stack != Stack::Linux {
        return;
    }
    report(&[("namespace", "`ip netns exec` to start the router where its interfaces are")], section);
    match section.place("plane").filter(|_| router.plane == Plane::Worker) {
        Some(place) => section.mistakes().add(
            &place,
            "found `plane = \"worker\"` with `stack = \"linux\"`, expected `\"xdp\"`: workers take packets away from Linux",
        ),
        None => router.plane = Plane::Xdp,
    }
}

/// A port is Linux's interface, and keeps what it has.
pub(crate) fn check_port(port: &mut Port, router: &Router, section: &Section) {
    if router.stack != Stack::Linux {
        return;
    }
    report(&PORT_KEYS, section);
    let wrong = |key: &str, found: &str, expected: &str| {
        let place = section.place(key).unwrap_or(section.span.clone());
        section.mistakes().add(&place, format!("found {found} with `stack = \"linux\"`, expected {expected}"));
    };
    if port.plane == Some(Plane::Worker) {
        wrong("plane", "`plane = \"worker\"`", "`\"xdp\"`: workers take packets away from Linux");
    }
    if section.place("twin").is_some() && port.twin {
        wrong("twin", "`twin = true`", "none: the interface itself is what Linux sees");
    }
    // Another kind of port is not in the plane, which has nothing to say about it then.
    let mut plane = Some(Plane::Xdp);
    if section.place("device").is_some() {
        wrong("device", "`device`", "`interface`: Linux's own");
        plane = None;
    }
    if section.place("driver").is_some() && !port.device.is_by_xdp() {
        wrong("driver", "another `driver`", "none");
        plane = None;
    }
    if port.mtu != STANDARD_MTU {
        wrong("mtu", "`mtu`", "none: use `ip link set INTERFACE mtu`");
    }
    (port.twin, port.plane) = (false, plane);
}

/// How many filters of a family the in-kernel plane has room for.
pub const MOST_FILTERS: usize = 255;

/// Routes and neighbors are Linux's, and the in-kernel plane's filters are all that there are.
pub(crate) fn check_file(router: &Router, linux: &Linux, filters: &[Filter], root: &Section) {
    if router.stack != Stack::Linux {
        return;
    }
    report(&TABLES, root);
    if linux.feed == Feed::None {
        let place = root.place("linux").unwrap_or(0..0);
        let message = "found `feed = \"none\"` with `stack = \"linux\"`, expected \"netlink\": what the plane forwards by \
                       is Linux's";
        root.mistakes().add(&place, message);
    }
    let wrong = |found: String, expected: &str| {
        let place = root.place("filter").unwrap_or(0..0);
        root.mistakes().add(&place, format!("found {found} with `stack = \"linux\"`, expected {expected}"));
    };
    if filters.iter().any(|filter| filter.from == FilteredFrom::Linux) {
        wrong("a filter of what comes from Linux".into(), "none: no packet comes from a twin; use nft");
    }
    for (family, is_of_family) in [("IPv4", FiveTuple::ipv4 as fn(&FiveTuple) -> bool), ("IPv6", FiveTuple::ipv6)] {
        let found = filters.iter().filter(|filter| is_of_family(&filter.tuple)).count();
        if found > MOST_FILTERS {
            wrong(
                format!("{found} filters of {family}"),
                "at most 255, as the in-kernel plane compares them one by one",
            );
        }
    }
}
