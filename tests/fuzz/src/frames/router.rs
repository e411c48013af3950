// SPDX-License-Identifier: MIT
//! The router that frames are for: three ports and a VLAN, with something for every module of the fast path to do.

use crate::bed;
use perigee_net::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Its ports.
pub const PORTS: u16 = 3;
/// The VLAN of port b.
pub const VLAN: u16 = 7;
/// A port to which the filter lets nothing through.
pub const FILTERED: u16 = 4001;

/// The configuration. Its lookup structures are those that are soonest made, as each input has a router of its own.
pub fn configuration(workers: usize, slow_paths: usize) -> String {
    configuration_with(workers, slow_paths, "dxr16")
}

/// The same with another lookup structure for IPv4.
pub fn configuration_with(workers: usize, slow_paths: usize, v4: &str) -> String {
    let cores = ["[0]", "[0, 1]"][workers - 1];
    let router = format!("cores = {cores}\nslow_paths = {slow_paths}\nfib = [\"{v4}\", \"range6\"]\npunt_ring = 256\n");
    format!("[router]\n{router}{TABLES}{}", bed::neighbors(&NEIGHBORS))
}

/// The station behind each interface whose MAC address is known: its others are asked for.
const NEIGHBORS: [(&str, MacAddr); 8] = [
    ("10.0.1.2", MacAddr([2, 0, 0, 0, 1, 1])),
    ("10.0.2.2", MacAddr([2, 0, 0, 0, 2, 1])),
    ("10.0.3.2", MacAddr([2, 0, 0, 0, 3, 1])),
    ("10.0.7.2", MacAddr([2, 0, 0, 0, 7, 1])),
    ("2001:db8:1::2", MacAddr([2, 0, 0, 0, 1, 1])),
    ("2001:db8:2::2", MacAddr([2, 0, 0, 0, 2, 1])),
    ("2001:db8:3::2", MacAddr([2, 0, 0, 0, 3, 1])),
    ("2001:db8:7::2", MacAddr([2, 0, 0, 0, 7, 1])),
];

const TABLES: &str = r#"
[port.a]
device = "heap0"
twin = false
addresses = ["10.0.1.1/24", "2001:db8:1::1/64", "fe80::1/64"]
[port.b]
device = "heap1"
twin = false
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
urpf = "loose"
[port.b.vlan.7]
mtu = 1280
addresses = ["10.0.7.1/24", "2001:db8:7::1/64"]
urpf = "strict"
[port.c]
device = "heap2"
twin = false
addresses = ["10.0.3.1/24", "2001:db8:3::1/64"]
directed_broadcast = true
source_routes = true
multicast_boundary = ["239.255.0.0/16"]
[[route]]
prefix = "198.51.100.0/24"
via = "10.0.2.2"
[[route]]
prefix = "198.51.101.0/24"
via = "10.0.3.77"
[[route]]
prefix = "192.0.2.0/24"
blackhole = true
[[route]]
prefix = "203.0.113.0/24"
unreachable = true
[[route]]
prefix = "100.64.0.0/10"
prohibit = true
[[route]]
prefix = "198.18.0.0/15"
via = [{ address = "10.0.2.2", weight = 2 }, { address = "10.0.3.2" }, { address = "10.0.7.2" }]
[[route]]
prefix = "2001:db8:100::/48"
via = "2001:db8:2::2"
[[route]]
prefix = "2001:db8:101::/48"
via = "2001:db8:3::77"
[[route]]
prefix = "2001:db8:102::/48"
blackhole = true
[[route]]
prefix = "2001:db8:103::/48"
unreachable = true
[[route]]
prefix = "2001:db8:104::/48"
prohibit = true
[[route]]
prefix = "2001:db8:105::/48"
via = [{ address = "2001:db8:2::2" }, { address = "2001:db8:3::2" }]
[[multicast]]
group = "239.1.1.1"
from = "a"
to = ["b", "c"]
[[multicast]]
group = "ff05::1"
from = "a"
to = ["b", "c"]
[[filter]]
proto = "udp"
dport = 4001
action = "drop"
[[filter]]
src = "10.66.0.0/16"
action = "drop"
"#;

/// An IPv4 address of every kind that the router knows.
pub const ADDRESSES4: [Ipv4Addr; 24] = [
    Ipv4Addr::new(198, 51, 100, 9),
    Ipv4Addr::new(198, 18, 5, 5),
    Ipv4Addr::new(10, 0, 1, 2),
    Ipv4Addr::new(10, 0, 2, 2),
    Ipv4Addr::new(10, 0, 3, 2),
    Ipv4Addr::new(10, 0, 7, 2),
    Ipv4Addr::new(10, 0, 2, 99),
    Ipv4Addr::new(198, 51, 101, 1),
    Ipv4Addr::new(192, 0, 2, 1),
    Ipv4Addr::new(203, 0, 113, 1),
    Ipv4Addr::new(100, 64, 0, 1),
    Ipv4Addr::new(10, 0, 1, 1),
    Ipv4Addr::new(10, 0, 7, 1),
    Ipv4Addr::new(8, 8, 8, 8),
    Ipv4Addr::new(10, 0, 3, 255),
    Ipv4Addr::new(10, 0, 2, 0),
    Ipv4Addr::BROADCAST,
    Ipv4Addr::UNSPECIFIED,
    Ipv4Addr::LOCALHOST,
    Ipv4Addr::new(224, 0, 0, 5),
    Ipv4Addr::new(239, 1, 1, 1),
    Ipv4Addr::new(239, 255, 1, 1),
    Ipv4Addr::new(240, 0, 0, 1),
    Ipv4Addr::new(169, 254, 1, 1),
];

/// An IPv6 address of every kind that the router knows.
pub const ADDRESSES6: [Ipv6Addr; 22] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 9),
    Ipv6Addr::new(0x2001, 0xdb8, 0x105, 0, 0, 0, 0, 5),
    Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 99),
    Ipv6Addr::new(0x2001, 0xdb8, 0x101, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0x102, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0x103, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0x104, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2620, 0xfe, 0, 0, 0, 0, 0, 9),
    Ipv6Addr::UNSPECIFIED,
    Ipv6Addr::LOCALHOST,
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1),
    Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 1),
];

/// MAC addresses that frames are to or from: the router's, stations', groups', and none.
pub fn mac_addresses() -> [MacAddr; 8] {
    [
        MacAddr(bed::mac(0)),
        MacAddr(bed::mac(1)),
        MacAddr(bed::mac(2)),
        NEIGHBORS[0].1,
        MacAddr::BROADCAST,
        MacAddr::ZERO,
        MacAddr([1, 0, 0x5e, 1, 1, 1]),
        MacAddr([0x33, 0x33, 0, 0, 0, 1]),
    ]
}
