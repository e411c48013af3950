// SPDX-License-Identifier: MIT
//! Packets to groups through a whole router on heap packets: by routes of the configuration and of Linux, alike by both
//! paths.

mod common;

use common::*;
use perigee_api::answers::MulticastEntry;
use perigee_api::queries::{Reload, ShowDrops, ShowMulticast, ShowPorts};
use perigee_net::{InterfaceAddress, MacAddr, Prefix};
use perigee_netlink::message::{Address, Hop, Hops, Link, Message, MulticastRoute, Route, RouteKind};
use perigee_netlink::{Source, SourceCounters, Update};
use perigee_packet::wire::{ethernet, ipv6, protocol};
use perigee_packet::{Ipv4, Ipv6};
use perigee_router::{LinuxFeeds, Lookups};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const PORTS: &str = r#"
[router]
cores = [0]
[port.a]
device = "heap0"
TWIN
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.b]
device = "heap1"
TWIN
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
[port.c]
device = "heap2"
TWIN
addresses = ["10.0.3.1/24", "2001:db8:3::1/64"]
"#;

struct Router {
    bed: Bed,
    path: PathBuf,
    twin: &'static str,
    _folder: tempfile::TempDir,
}

impl Router {
    /// A router with these lines, without Linux.
    fn alone(lines: &str) -> Router {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.toml");
        let text = PORTS.replace("TWIN", "twin = false") + lines;
        let bed = Bed::new(&text, &path, ONE_EACH);
        Router { bed, path, twin: "twin = false", _folder: folder }.started()
    }

    fn beside(kernel: &Kernel, lines: &str) -> Router {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.toml");
        let feeds = LinuxFeeds { netlink: Some(Box::new(kernel.clone())), ..LinuxFeeds::default() };
        let text = PORTS.replace("TWIN", "") + lines;
        let bed = Bed::beside_linux(&text, &path, ONE_EACH, Lookups::default(), feeds);
        Router { bed, path, twin: "", _folder: folder }.started()
    }

    /// Addresses are found to be unique, and the worker has seen that its script forwards groups.
    fn started(mut self) -> Router {
        self.bed.pass(3);
        self.receive(0, &to_group4("239.255.255.250", 1));
        self
    }

    fn reload(&mut self, lines: &str) {
        std::fs::write(&self.path, PORTS.replace("TWIN", self.twin) + lines).unwrap();
        ask(&mut self.bed, Reload { script: None, text: None }).unwrap();
        self.bed.settle();
        (0..3).for_each(|port| drop(self.bed.sent(port)));
    }

    /// A port receives a frame; returns what each port sends.
    fn receive(&mut self, port: usize, frame: &[u8]) -> [Vec<Vec<u8>>; 3] {
        assert!(self.bed.receive[port][0].inject(frame));
        self.bed.settle();
        [0, 1, 2].map(|port| self.bed.sent(port))
    }

    /// How many packets each port sends.
    fn counts(&mut self, port: usize, frame: &[u8]) -> [usize; 3] {
        self.receive(port, frame).map(|sent| sent.len())
    }

    fn shown(&mut self) -> Vec<MulticastEntry> {
        ask(&mut self.bed, ShowMulticast {}).unwrap()
    }

    /// Packets that were dropped or punted, by module and reason.
    fn reasons(&mut self) -> BTreeMap<String, u64> {
        let all = ask(&mut self.bed, ShowDrops {}).unwrap();
        let some = all.into_iter().filter(|reason| reason.packets > 0);
        some.map(|reason| (format!("{}.{}", reason.module, reason.reason), reason.packets)).collect()
    }

    fn reason(&mut self, name: &str) -> u64 {
        self.reasons().get(name).copied().unwrap_or(0)
    }

    /// Frames given to Linux through all twins.
    fn linux_got(&mut self) -> u64 {
        ask(&mut self.bed, ShowPorts {}).unwrap().iter().filter_map(|port| port.twin.as_ref()).map(|t| t.to_linux).sum()
    }
}

/// A packet of 10.0.1.2 to a group.
fn to_group4(group: &str, ttl: u8) -> Vec<u8> {
    let mut frame = udp(group, ttl, 1);
    frame[..6].copy_from_slice(&MacAddr::of_group(group.parse().unwrap()).octets());
    frame
}

/// A packet of 2001:db8:1::2 to a group.
fn to_group6(group: &str, payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 14 + 40 + payload];
    let mac = MacAddr::of_group(group.parse().unwrap());
    ethernet::emit(&mut frame, mac, PEER_A, ethernet::ethertype::IPV6).unwrap();
    let (from, to) = ("2001:db8:1::2".parse().unwrap(), group.parse().unwrap());
    ipv6::Repr::new(from, to, protocol::UDP, payload).emit(&mut frame[14..]).unwrap();
    frame
}

const STATIC: &str = r#"
[[multicast]]
group = "239.1.1.1"
to = ["b", "c"]
[[multicast]]
group = "ff05::1"
source = "2001:db8:1::2"
from = "a"
to = ["b", "c"]
"#;

#[test]
fn both_paths_do_the_same_to_a_packet() {
    let mut router = Router::alone(STATIC);
    for frame in [to_group4("239.1.1.1", 64), to_group6("ff05::1", 30)] {
        let fast = router.receive(0, &frame);
        assert_eq!(fast.each_ref().map(Vec::len), [0, 1, 1]);
        let transmitted: u64 = (0..3).map(|port| router.bed.counters[0].port_transmitted(port)).sum();
        // With a destination that only the slow path takes: all stations' MAC address.
        let mut broadcast = frame.clone();
        broadcast[..6].fill(0xff);
        assert_eq!(router.receive(0, &broadcast), fast, "the slow path");
        let after: u64 = (0..3).map(|port| router.bed.counters[0].port_transmitted(port)).sum();
        assert_eq!(after, transmitted);
        for (port, sent) in [(1, &fast[1][0]), (2, &fast[2][0])] {
            assert_eq!((&sent[..6], &sent[6..12]), (&frame[..6], &mac(port)[..]));
            match sent[14] >> 4 {
                4 => assert!(Ipv4::new(&sent[14..]).is_ok_and(|packet| packet.ttl() == 63 && packet.verify_checksum())),
                _ => assert!(Ipv6::new(&sent[14..]).is_ok_and(|packet| packet.hop_limit() == 63)),
            }
        }
    }
    let shown = router.shown();
    assert_eq!(shown.iter().map(|entry| (entry.packets, entry.bytes)).collect::<Vec<_>>(), [(2, 96), (2, 140)]);
    assert!(shown.iter().all(|entry| entry.last_use == Some(0.0) && !entry.by_linux));
    assert_eq!((shown[0].from.as_deref(), shown[1].from.as_deref()), (None, Some("a")));
    assert_eq!(shown[0].to.iter().map(|to| to.dev.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    // IPv6 that is too big for an interface is the one thing that is answered (RFC 4443 3.2).
    assert_eq!(router.counts(0, &to_group6("ff05::1", 1500)), [1, 0, 0]);
    assert_eq!(router.bed.end(), 0);
}

/// What one router sends comes back by its other link, as from a second router with the same routes: nothing goes
/// round.
#[test]
fn a_loop_ends_at_once() {
    for lines in [STATIC, "[[multicast]]\ngroup = '239.1.1.1'\nfrom = 'a'\nto = ['b', 'c']\n"] {
        let mut router = Router::alone(lines);
        let [_, b, c] = router.receive(0, &to_group4("239.1.1.1", 64));
        for (port, sent) in [(1, b), (2, c)] {
            assert_eq!(router.counts(port, &sent[0]), [0, 0, 0]);
        }
        assert_eq!(router.reason("multicast.wrong_interface"), 2);
        assert_eq!(router.shown()[0].wrong_interface, 2);
        assert_eq!(router.bed.end(), 0);
    }
}

/// Two routers between the same two networks, which hear each other on both; returns how many frames they send of one
/// packet.
fn sent_between_two(first: &str, second: &str, ttl: u8) -> usize {
    let mut routers = [first, second].map(Router::alone);
    // Network, frame, and which router has sent it.
    let mut waiting = VecDeque::from([(0, to_group4("239.1.1.1", ttl), None)]);
    let mut sent = 0;
    while let Some((network, frame, sender)) = waiting.pop_front() {
        for (number, router) in routers.iter_mut().enumerate().filter(|(number, _)| Some(*number) != sender) {
            for (network, frames) in router.receive(network, &frame).into_iter().enumerate() {
                sent += frames.len();
                waiting.extend(frames.into_iter().map(|frame| (network, frame, Some(number))));
            }
        }
        assert!(sent < 1000, "it goes round");
    }
    assert_eq!(routers.map(|router| router.bed.end()), [0, 0]);
    sent
}

#[test]
fn two_routers_between_the_same_networks_do_not_multiply_packets() {
    let all = "[[multicast]]\ngroup = '239.1.1.1'\nto = ['a', 'b']\n";
    assert_eq!(sent_between_two(all, all, 64), 2, "each forwards what comes from the source's network");
    // Even two routes that make a ring only use up the TTL.
    let ring = |from: &str, to: &str| format!("[[multicast]]\ngroup = '239.1.1.1'\nfrom = '{from}'\nto = ['{to}']\n");
    assert_eq!(sent_between_two(&ring("a", "b"), &ring("b", "a"), 64), 63);
}

#[test]
fn a_reload_changes_routes_and_limits_and_keeps_counts() {
    let mut router = Router::alone("");
    let frame = to_group4("239.1.1.1", 20);
    assert_eq!(router.counts(0, &frame), [0, 0, 0]);
    assert!(router.shown().is_empty());
    let route = |to: &str| format!("[[multicast]]\ngroup = '239.1.1.1'\nto = [{to}]\n");
    router.reload(&route("'b'"));
    router.counts(0, &frame); // The first burst with the table.
    assert_eq!(router.counts(0, &frame), [0, 1, 0]);
    router.reload(&route("'b', 'c'"));
    assert_eq!(router.counts(0, &frame), [0, 1, 1]);
    let limited = PORTS.replace("TWIN", router.twin);
    let with = |key: &str| limited.replace("heap2\"\n", &format!("heap2\"\n{key}\n")) + &route("'b', 'c'");
    for (key, counts) in [
        ("multicast_ttl = 19", [0, 1, 1]),
        ("multicast_ttl = 20", [0, 1, 0]),
        ("multicast_boundary = ['239.1.0.0/16']", [0, 1, 0]),
        ("multicast_boundary = ['239.2.0.0/16']", [0, 1, 1]),
    ] {
        std::fs::write(&router.path, with(key)).unwrap();
        ask(&mut router.bed, Reload { script: None, text: None }).unwrap();
        router.bed.settle();
        assert_eq!(router.counts(0, &frame), counts, "{key}");
    }
    assert_eq!(router.shown()[0].packets, 7);
    // A script that is not loaded changes nothing.
    router.reload(&route("'b'"));
    std::fs::write(&router.path, limited + &route("'c'")).unwrap();
    assert!(ask(&mut router.bed, Reload { script: Some("broken.lua".into()), text: None }).is_err());
    assert_eq!(router.counts(0, &frame), [0, 1, 0]);
    router.reload("");
    assert_eq!(router.counts(0, &frame), [0, 0, 0]);
    assert_eq!(router.bed.end(), 0);
}

/// What the kernel reports.
#[derive(Clone, Default)]
struct Kernel(Arc<Mutex<(VecDeque<Update>, Vec<MulticastRoute>)>>);

impl Kernel {
    fn new() -> Kernel {
        let kernel = Kernel::default();
        kernel.clone().dump();
        kernel
    }

    fn set(&self, route: &MulticastRoute) {
        let mut state = self.0.lock().unwrap();
        state.1.retain(|other| other.key != route.key);
        state.1.push(route.clone());
        state.0.push_back(Update::Notifications(vec![Message::MulticastRoute(route.clone())]));
    }

    fn unset(&self, route: &MulticastRoute) {
        let mut state = self.0.lock().unwrap();
        state.1.retain(|other| other.key != route.key);
        state.0.push_back(Update::Notifications(vec![Message::MulticastRouteGone(route.key)]));
    }
}

impl Source for Kernel {
    fn next(&mut self) -> Option<Update> {
        self.0.lock().unwrap().0.pop_front()
    }

    fn dump(&mut self) {
        let mut state = self.0.lock().unwrap();
        let (mut all, mut connected) = (Vec::new(), Vec::new());
        for (port, name) in [(0u8, "a"), (1, "b"), (2, "c")] {
            let (index, name) = (10 + u32::from(port), name.to_owned());
            all.push(Message::Link(Link { index, name, up: true, carrier: true, mtu: 1500, ..Link::default() }));
            for address in [format!("10.0.{}.1/24", port + 1), format!("2001:db8:{}::1/64", port + 1)] {
                let with_prefix: InterfaceAddress = address.parse().unwrap();
                all.push(Message::Address(Address::new(index, with_prefix)));
                connected.push(Message::Route(connected_route(index, with_prefix.network())));
            }
        }
        all.append(&mut connected);
        all.extend(state.1.iter().cloned().map(Message::MulticastRoute));
        state.0.extend([Update::DumpBegins, Update::Dumped(all), Update::DumpEnds { complete: true }]);
    }

    fn counters(&self) -> SourceCounters {
        SourceCounters::default()
    }
}

/// The route that Linux makes of an address.
fn connected_route(link: u32, prefix: Prefix) -> Route {
    Route {
        prefix,
        table: 254,
        protocol: 2,
        kind: RouteKind::Unicast,
        tos: 0,
        source: None,
        metric: 0,
        hops: Hops::One(Hop { link, gateway: None, weight: 1 }),
        next_hop: 0,
        appended: false,
        replaces: false,
        encapsulated: false,
        mtu: 0,
        unknown: None,
    }
}

fn route(group: &str, outputs: &[(u32, u8)]) -> MulticastRoute {
    let key = (group.parse().unwrap(), Some("10.0.1.2".parse().unwrap()));
    MulticastRoute { key, input: Some(10), outputs: outputs.to_vec() }
}

#[test]
fn linux_decides_by_its_table_and_is_shown_what_it_has_to_know() {
    let kernel = Kernel::new();
    let mut router = Router::beside(&kernel, "");
    let frame = to_group4("239.1.1.1", 64);
    let before = router.linux_got();
    assert_eq!(router.counts(0, &frame), [0, 0, 0]);
    assert_eq!(router.linux_got(), before + 1, "a routing daemon hears of a new source");
    kernel.set(&route("239.1.1.1", &[(11, 1), (12, 1)]));
    router.bed.settle();
    router.counts(0, &to_group4("224.0.0.9", 1)); // The first burst with the table.
    let before = router.linux_got();
    // The first packet is Linux's, which forwards it; the others are the router's alone, for 10 s.
    assert_eq!(router.counts(0, &frame), [0, 0, 0]);
    for _ in 0..5 {
        assert_eq!(router.counts(0, &frame), [0, 1, 1]);
    }
    router.bed.pass(11);
    assert_eq!((router.counts(0, &frame), router.counts(0, &frame)), ([0, 0, 0], [0, 1, 1]));
    assert_eq!(router.linux_got(), before + 2);
    // By a wrong interface: shown once in a while.
    assert_eq!((router.counts(1, &frame), router.counts(1, &frame)), ([0, 0, 0], [0, 0, 0]));
    assert_eq!((router.linux_got(), router.reason("multicast.wrong_interface")), (before + 3, 1));
    let shown = router.shown();
    assert_eq!((shown[0].packets, shown[0].wrong_interface, shown[0].by_linux), (8, 2, false));
    // With an interface that is not the router's, it is Linux's alone; then it is gone.
    kernel.set(&route("239.1.1.1", &[(11, 1), (99, 1)]));
    router.bed.settle();
    let before = router.linux_got();
    for _ in 0..3 {
        assert_eq!(router.counts(0, &frame), [0, 0, 0]);
    }
    assert_eq!((router.linux_got(), router.shown()[0].by_linux), (before + 3, true));
    kernel.unset(&route("239.1.1.1", &[]));
    router.bed.settle();
    assert_eq!((router.counts(0, &frame), router.shown().len()), ([0, 0, 0], 0));
    assert_eq!(router.bed.end(), 0);
}

#[test]
fn the_configuration_comes_before_linux_and_a_reload_finds_linux_again() {
    let kernel = Kernel::new();
    let own = "[[multicast]]\ngroup = '239.1.1.1'\nsource = '10.0.1.2'\nto = ['b']\n";
    let mut router = Router::beside(&kernel, own);
    kernel.set(&route("239.1.1.1", &[(12, 1)]));
    kernel.set(&route("239.1.1.2", &[(12, 1)]));
    router.bed.settle();
    let before = router.linux_got();
    assert_eq!(router.counts(0, &to_group4("239.1.1.1", 64)), [0, 1, 0]);
    assert_eq!(router.linux_got(), before, "Linux would forward it as well");
    assert_eq!(router.counts(0, &to_group4("239.1.1.2", 64)), [0, 0, 0], "the first is Linux's");
    assert_eq!(router.counts(0, &to_group4("239.1.1.2", 64)), [0, 0, 1]);
    // Other interfaces: everything is built from scratch.
    router.reload(&format!("[port.c.vlan.7]\n{own}"));
    router.bed.pass(3);
    (0..3).for_each(|port| drop(router.bed.sent(port)));
    assert_eq!(router.shown().len(), 2);
    assert_eq!(router.counts(0, &to_group4("239.1.1.1", 64)), [0, 1, 0]);
    assert_eq!(router.counts(0, &to_group4("239.1.1.2", 64)), [0, 0, 1], "its share is counted on");
    assert_eq!(router.bed.end(), 0);
}
