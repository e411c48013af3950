// SPDX-License-Identifier: MIT
//! A router beside a simulated kernel: whatever the kernel reports, loses or keeps to itself, the routes converge.

mod common;

use common::*;
use perigee_api::answers::AuditReport;
use perigee_api::queries::{Audit, Reload, Resync, ShowConfig, ShowLinux, ShowRoutes};
use perigee_api::{Backend, Query, Reply};
use perigee_fib::{Buffer, DoubleBuffered, Lookup, LookupError, NextHopId, Structure};
use perigee_net::{Address as FibAddress, Prefix, PrefixOf, RouteProtocol};
use perigee_netlink::message::{Address, Hop, Hops, Link, Message, NextHop, NextHopTo, Route, RouteKind};
use perigee_netlink::{Source, SourceCounters, Update};
use perigee_router::{LinuxFeeds, Lookups};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

const TWO_PORTS: &str = r#"
[router]
cores = [0]
[port.a]
device = "heap0"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.b]
device = "heap1"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
"#;
const QUEUES: Queues = Queues { receive: 1, transmit: 2 };

/// The state of the kernel.
#[derive(Default)]
struct Kernel {
    up: [bool; 2],
    routes: BTreeMap<(Prefix, u32), Route>,
    next_hops: BTreeMap<u32, NextHopTo>,
    queue: VecDeque<Update>,
    /// How many times it was asked for a dump.
    dumps: u64,
    /// Addresses of port a that the configuration does not know, and those of the configuration that are gone.
    added: Vec<&'static str>,
    deleted: Vec<&'static str>,
}

impl Kernel {
    fn dump(&mut self) {
        self.dumps += 1;
        let mut all = Vec::new();
        for (port, name) in [(0u8, "a"), (1, "b")] {
            let index = 10 + u32::from(port);
            let up = self.up[usize::from(port)];
            all.push(Message::Link(Link { index, name: name.into(), up, carrier: up, mtu: 1500, ..Link::default() }));
            let configured = [format!("10.0.{}.1/24", port + 1), format!("2001:db8:{}::1/64", port + 1)];
            let added = self.added.iter().filter(|_| port == 0).map(|address| (*address).to_owned());
            for address in configured.into_iter().chain(added).filter(|address| !self.deleted.contains(&&**address)) {
                let address = address.parse().unwrap();
                all.push(Message::Address(Address::new(index, address)));
            }
        }
        let next_hop = |(id, to): (&u32, &NextHopTo)| Message::NextHop(NextHop { id: *id, to: to.clone() });
        all.extend(self.next_hops.iter().map(next_hop));
        all.extend(self.routes.values().cloned().map(Message::Route));
        self.queue.push_back(Update::DumpBegins);
        self.queue.extend(all.chunks(7).map(|chunk| Update::Dumped(chunk.to_vec())));
        self.queue.push_back(Update::DumpEnds { complete: true });
    }

    fn say(&mut self, message: Message) {
        self.queue.push_back(Update::Notifications(vec![message]));
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Kernel>>);

impl Source for Shared {
    fn next(&mut self) -> Option<Update> {
        self.0.lock().unwrap().queue.pop_front()
    }
    fn dump(&mut self) {
        self.0.lock().unwrap().dump();
    }
    fn counters(&self) -> SourceCounters {
        SourceCounters::default()
    }
}

fn start(text: &str, folder: &tempfile::TempDir, lookups: Lookups) -> (Bed, Shared) {
    let kernel = Shared(Arc::new(Mutex::new(Kernel { up: [true, true], ..Kernel::default() })));
    kernel.0.lock().unwrap().dump();
    let feeds = LinuxFeeds { netlink: Some(Box::new(kernel.clone())), ..LinuxFeeds::default() };
    let mut bed = Bed::beside_linux(text, &folder.path().join("router.toml"), QUEUES, lookups, feeds);
    bed.settle();
    (bed, kernel)
}

fn audit(bed: &mut Bed, repair: bool) -> AuditReport {
    ask(bed, Audit { repair }).unwrap()
}

/// The routes of Linux as the router shows them: prefix, metric, who made them, and where to.
fn shown(bed: &mut Bed) -> BTreeMap<(String, u32), String> {
    let list = ask(bed, ShowRoutes { within: None, to: None, source: None, limit: Some(usize::MAX) }).unwrap();
    let list = serde_json::to_value(list).unwrap();
    let routes = list["routes"].as_array().unwrap().iter().filter(|route| route["source"] == "linux");
    let to = |route: &serde_json::Value| {
        let gateways = route["gateways"].as_array().cloned().unwrap_or_default();
        let each = |g: &serde_json::Value| format!("{} {} {}", g["via"], g["dev"], g["weight"]);
        let several: Vec<String> = gateways.iter().map(each).collect();
        format!("{} {} {} {} {several:?}", route["protocol"], route["action"], route["via"], route["dev"])
    };
    let key = |r: &serde_json::Value| (r["prefix"].as_str().unwrap().to_owned(), r["metric"].as_u64().unwrap() as u32);
    routes.map(|route| (key(route), to(route))).collect()
}

fn plain(prefix: Prefix, metric: u32, hops: Vec<Hop>) -> Route {
    Route {
        prefix,
        table: 254,
        protocol: 12,
        kind: RouteKind::Unicast,
        tos: 0,
        source: None,
        metric,
        hops: hops.into(),
        next_hop: 0,
        appended: false,
        replaces: false,
        encapsulated: false,
        mtu: 0,
        unknown: None,
    }
}

fn hop(v6: bool, port: u32, host: u32) -> Hop {
    let address = if v6 { format!("2001:db8:{}::{host:x}", port + 1) } else { format!("10.0.{}.{host}", port + 1) };
    Hop { link: 10 + port, gateway: Some(address.parse().unwrap()), weight: 1 }
}

/// A plausible route, to one of a few prefixes, so that routes collide.
fn random_route(random: &mut StdRng) -> Route {
    let v6 = random.random_range(0..3) == 0;
    let n = random.random_range(0..40u32);
    let text =
        if v6 { format!("2001:db8:{:x}::/48", 0x100 + n) } else { format!("10.{}.0.0/{}", 100 + n / 2, 16 + n % 2) };
    let metric = random.random_range(0..2) * 10;
    let mut route = plain(text.parse().unwrap(), metric, vec![]);
    route.protocol = [12, 186, 77][random.random_range(0..3)];
    match random.random_range(0..8) {
        0 => route.kind = RouteKind::Blackhole,
        1 => route.kind = RouteKind::Unreachable,
        2 if !v6 => route.next_hop = random.random_range(1..4),
        3 | 4 => {
            let hops = (2..random.random_range(4..7)).map(|host| hop(v6, random.random_range(0..2), host));
            route.hops = Hops::from(hops.collect::<Vec<_>>());
        }
        _ => route.hops = Hops::One(hop(v6, random.random_range(0..2), random.random_range(2..6))),
    }
    route
}

fn uses(route: &Route, kernel: &Kernel, link: u32) -> bool {
    let by_object = match kernel.next_hops.get(&route.next_hop) {
        Some(NextHopTo::Hop(hop)) => hop.link == link,
        _ => false,
    };
    by_object || route.hops.as_slice().iter().any(|hop| hop.link == link)
}

/// One thing that happens to the kernel; `reported` says whether it is notified.
fn step(kernel: &mut Kernel, random: &mut StdRng, reported: bool) {
    let mut messages = Vec::new();
    match random.random_range(0..20) {
        0 => {
            // A link goes down, and IPv4 routes over it go without a notification; IPv6 routes with one.
            let port = random.random_range(0..2usize);
            let (index, name) = (10 + port as u32, ["a", "b"][port]);
            kernel.up[port] = !kernel.up[port];
            let up = kernel.up[port];
            if !up {
                let gone: Vec<_> = kernel.routes.values().filter(|r| uses(r, kernel, index)).cloned().collect();
                for route in gone {
                    kernel.routes.remove(&(route.prefix, route.metric));
                    if route.prefix.addr().is_ipv6() {
                        messages.push(Message::RouteGone(route));
                    }
                }
            }
            let link = Link { index, name: name.into(), up, carrier: up, mtu: 1500, ..Link::default() };
            messages.insert(0, Message::Link(link));
        }
        1 => {
            // A next-hop object changes, and with it all its routes, without a notification of theirs.
            let (id, to) = (random.random_range(1..4), NextHopTo::Hop(hop(false, random.random_range(0..2), 9)));
            kernel.next_hops.insert(id, to.clone());
            messages.push(Message::NextHop(NextHop { id, to }));
        }
        2..6 => {
            let at = random.random_range(0..kernel.routes.len().max(1));
            if let Some(key) = kernel.routes.keys().nth(at).copied() {
                messages.extend(kernel.routes.remove(&key).map(Message::RouteGone));
            }
        }
        6 => {
            // IPv6 loses one next hop of several.
            let six = kernel.routes.values_mut().find(|r| r.prefix.addr().is_ipv6() && r.hops.as_slice().len() > 1);
            if let Some(route) = six {
                let mut hops = route.hops.as_slice().to_vec();
                let gone = hops.remove(random.random_range(0..hops.len()));
                // Linux removes equal next hops together.
                hops.retain(|hop| (hop.link, hop.gateway) != (gone.link, gone.gateway));
                if !hops.is_empty() {
                    messages.push(Message::RouteGone(Route { hops: Hops::One(gone), ..route.clone() }));
                    route.hops = hops.into();
                }
            }
        }
        _ => {
            let route = random_route(random);
            let known = route.next_hop == 0 || kernel.next_hops.contains_key(&route.next_hop);
            let over_down = (0..2).any(|port| !kernel.up[port] && uses(&route, kernel, 10 + port as u32));
            if known && !over_down {
                let replaces = kernel.routes.insert((route.prefix, route.metric), route.clone()).is_some();
                messages.push(Message::Route(Route { replaces, ..route }));
            }
        }
    }
    if reported {
        messages.into_iter().for_each(|message| kernel.say(message));
    }
}

/// What the router should show.
fn expected(kernel: &Kernel) -> BTreeMap<(String, u32), String> {
    let dev = |link: u32| format!("\"{}\"", ["a", "b"][(link - 10) as usize]);
    let text = |route: &Route| {
        let by_object = match kernel.next_hops.get(&route.next_hop) {
            Some(NextHopTo::Hop(hop)) => vec![*hop],
            _ => vec![],
        };
        let hops = if by_object.is_empty() { route.hops.as_slice().to_vec() } else { by_object };
        let to = match (route.kind, &hops[..]) {
            (RouteKind::Blackhole, _) => "\"blackhole\" null null []".to_owned(),
            (RouteKind::Unreachable, _) => "\"unreachable\" null null []".to_owned(),
            (_, [hop]) => format!("\"forward\" \"{}\" {} []", hop.gateway.unwrap(), dev(hop.link)),
            (_, hops) => {
                let each = |hop: &Hop| format!("\"{}\" {} {}", hop.gateway.unwrap(), dev(hop.link), hop.weight);
                format!("\"forward\" null null {:?}", hops.iter().map(each).collect::<Vec<_>>())
            }
        };
        format!("\"{}\" {to}", RouteProtocol(route.protocol))
    };
    kernel.routes.values().map(|route| ((route.prefix.to_string(), route.metric), text(route))).collect()
}

#[test]
fn whatever_the_kernel_does_the_routes_become_the_same() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random);
    let rounds = std::env::var("PERIGEE_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1) * 60;
    println!("PERIGEE_FUZZ_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    for round in 0..rounds {
        for _ in 0..random.random_range(1..60) {
            let mut kernel = kernel.0.lock().unwrap();
            let reported = random.random_range(0..100) > 0;
            step(&mut kernel, &mut random, reported);
            if !reported {
                // Notifications were lost: the feed reports it, and a dump follows.
                kernel.queue.push_back(Update::Lost);
                kernel.dump();
            }
            if random.random_range(0..200) == 0 {
                kernel.queue.push_back(Update::DumpBegins);
                kernel.queue.push_back(Update::DumpEnds { complete: false }); // Incomplete: what it lacks is not gone.
            }
        }
        bed.settle();
        let wanted = expected(&kernel.0.lock().unwrap());
        assert_eq!(shown(&mut bed), wanted, "round {round}");
        let report = audit(&mut bed, false);
        assert_eq!(report.total, 0, "round {round}: {:?}", report.differences);
        assert_eq!(report.linux_routes, wanted.len() as u64);
    }
    assert_eq!(bed.end(), 0);
}

/// "linux" was all that was shown of a route of BIRD, FRR or `ip`.
#[test]
fn a_route_says_who_gave_it_to_linux_and_is_asked_for_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    let protocols = [("10.101.0.0/16", 186), ("10.102.0.0/16", 77), ("10.103.0.0/16", 4), ("2001:db8:101::/48", 188)];
    for (text, protocol) in protocols {
        let hops = vec![hop(text.contains(':'), 0, 9)];
        kernel.0.lock().unwrap().say(Message::Route(Route { protocol, ..plain(text.parse().unwrap(), 0, hops) }));
    }
    bed.settle();
    let mut of = |source: Option<&str>| -> Vec<(String, String)> {
        let query =
            ShowRoutes { within: None, to: None, source: source.map(|text| text.parse().unwrap()), limit: None };
        let list = ask(&mut bed, query).unwrap();
        assert_eq!(list.total, list.routes.len() as u64);
        list.routes.iter().map(|route| (route.prefix.to_string(), route.origin())).collect()
    };
    let all = of(None);
    let linux = protocols.map(|(text, number)| (text.to_owned(), format!("linux/{}", RouteProtocol(number))));
    assert!(linux.iter().all(|route| all.contains(route)), "{all:?}");
    assert!(all.contains(&("10.0.1.1/32".to_owned(), "local".to_owned())), "{all:?}");
    assert_eq!(of(Some("linux")), linux);
    assert_eq!((of(Some("bgp")), of(Some("linux/bgp"))), (linux[..1].to_vec(), linux[..1].to_vec()));
    assert_eq!(
        (of(Some("77")), of(Some("static")), of(Some("rip"))),
        (linux[1..2].to_vec(), linux[2..3].to_vec(), vec![])
    );
    assert_eq!(of(Some("local")).len(), all.len() - linux.len());
    assert_eq!(bed.end(), 0);
}

/// A dump that came to nothing made the router forget which next-hop objects routes use, so that routes no longer
/// changed with their objects.
#[test]
fn a_broken_dump_forgets_no_next_hop_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    let object = |port| NextHopTo::Hop(hop(false, port, 9));
    let change = |port| {
        let mut kernel = kernel.0.lock().unwrap();
        kernel.next_hops.insert(1, object(port));
        kernel.say(Message::NextHop(NextHop { id: 1, to: object(port) }));
    };
    change(0);
    let route = Route { next_hop: 1, ..plain("10.114.0.0/17".parse().unwrap(), 10, vec![]) };
    {
        let mut kernel = kernel.0.lock().unwrap();
        kernel.routes.insert((route.prefix, route.metric), route.clone());
        kernel.say(Message::Route(route));
        kernel.queue.push_back(Update::DumpBegins);
        kernel.queue.push_back(Update::DumpEnds { complete: false });
    }
    change(1);
    bed.settle();
    assert_eq!(shown(&mut bed), expected(&kernel.0.lock().unwrap()));
    assert_eq!(bed.end(), 0);
}

#[test]
fn what_is_already_there_is_not_touched_by_a_dump() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    for n in 0..50 {
        let route = plain(format!("10.{n}.128.0/24").parse().unwrap(), 0, vec![hop(false, 1, 2)]);
        let mut kernel = kernel.0.lock().unwrap();
        kernel.routes.insert((route.prefix, 0), route.clone());
        kernel.say(Message::Route(route));
    }
    bed.settle();
    let before = ask(&mut bed, ShowLinux {}).unwrap();
    let after = ask(&mut bed, Resync {}).unwrap();
    assert_eq!((before.changes, before.routes), (after.changes, after.routes));
    assert_eq!((after.resyncs, after.repaired), (before.resyncs + 1, 0));
    assert_eq!(bed.end(), 0);
}

#[test]
fn an_audit_finds_what_nobody_was_told_and_repairs_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    let route = |text: &str, host| plain(text.parse().unwrap(), 0, vec![hop(false, 1, host)]);
    for route in [route("10.20.0.0/16", 2), route("10.21.0.0/16", 2)] {
        let mut kernel = kernel.0.lock().unwrap();
        kernel.routes.insert((route.prefix, 0), route.clone());
        kernel.say(Message::Route(route));
    }
    bed.settle();
    {
        let mut kernel = kernel.0.lock().unwrap();
        let (new, other) = (route("10.22.0.0/16", 3), route("10.21.0.0/16", 3));
        kernel.routes.remove(&(route("10.20.0.0/16", 2).prefix, 0));
        kernel.routes.insert((new.prefix, 0), new);
        kernel.routes.insert((other.prefix, 0), other);
    }
    let report = audit(&mut bed, false);
    let found: Vec<_> = report.differences.iter().map(|d| (d.prefix.unwrap().to_string(), d.kind.as_str())).collect();
    let wanted =
        [("10.20.0.0/16", "not in Linux"), ("10.21.0.0/16", "another route"), ("10.22.0.0/16", "not in the RIB")];
    assert_eq!(found, wanted.map(|(prefix, kind)| (prefix.to_owned(), kind)));
    assert_eq!(audit(&mut bed, true).total, 3);
    bed.settle();
    assert_eq!(audit(&mut bed, false).total, 0);
    assert_eq!(shown(&mut bed), expected(&kernel.0.lock().unwrap()));
    assert_eq!(bed.end(), 0);
}

/// An audit that began while a dump had to be applied waited for ever.
#[test]
fn an_audit_waits_for_a_dump_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    {
        let mut kernel = kernel.0.lock().unwrap();
        kernel.queue.push_back(Update::Lost);
        kernel.dump();
    }
    assert_eq!(audit(&mut bed, false).total, 0);
    assert_eq!(bed.end(), 0);
}

/// A route next to ours over an interface that is not the router's took ours away.
#[test]
fn a_route_over_a_foreign_interface_leaves_ours_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    for prefix in ["10.20.0.0/16", "2001:db8:20::/48"] {
        let prefix: Prefix = prefix.parse().unwrap();
        let ours = plain(prefix, 0, vec![hop(prefix.addr().is_ipv6(), 1, 2)]);
        let foreign = plain(prefix, 0, vec![Hop { link: 99, ..ours.hops.as_slice()[0] }]);
        let mut kernel = kernel.0.lock().unwrap();
        kernel.routes.insert((prefix, 0), ours.clone());
        kernel.say(Message::Route(ours));
        kernel.say(Message::Route(Route { appended: true, ..foreign.clone() }));
        kernel.say(Message::Route(foreign.clone()));
        kernel.say(Message::RouteGone(foreign));
    }
    bed.settle();
    assert_eq!(shown(&mut bed), expected(&kernel.0.lock().unwrap()));
    assert_eq!(shown(&mut bed).len(), 2);
    assert_eq!(bed.end(), 0);
}

/// A waiting audit took the dump that was meant to find what the kernel had not reported.
#[test]
fn a_dump_that_was_asked_for_is_done_though_an_audit_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    let route = plain("10.20.0.0/16".parse().unwrap(), 0, vec![hop(false, 1, 2)]);
    kernel.0.lock().unwrap().routes.insert((route.prefix, 0), route.clone());
    kernel.0.lock().unwrap().say(Message::Route(route));
    bed.settle();
    let (reply, answer) = Reply::pair();
    bed.mailbox.handle(Audit { repair: false }.request(reply));
    bed.slow.round();
    {
        let mut kernel = kernel.0.lock().unwrap();
        kernel.up[1] = false;
        kernel.routes.clear();
        let link = Link { index: 11, name: "b".into(), up: false, carrier: false, mtu: 1500, ..Link::default() };
        kernel.say(Message::Link(link));
    }
    bed.settle();
    assert!(answer.try_take().is_some_and(|answer| answer.is_ok()));
    assert!(shown(&mut bed).is_empty());
    assert_eq!(bed.end(), 0);
}

#[test]
fn an_audit_by_the_configuration_repairs_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{TWO_PORTS}\n[linux]\naudit = \"5s\"\n");
    let (mut bed, kernel) = start(&text, &folder, Lookups::default());
    bed.pass(1);
    let new = plain("10.22.0.0/16".parse().unwrap(), 0, vec![hop(false, 1, 3)]);
    kernel.0.lock().unwrap().routes.insert((new.prefix, 0), new);
    assert!(shown(&mut bed).is_empty());
    bed.pass(11);
    assert_eq!(shown(&mut bed).len(), 1);
    let status = ask(&mut bed, ShowLinux {}).unwrap();
    assert!(status.audits >= 2 && status.audit_differences == 1, "{status:?}");
    assert_eq!(bed.end(), 0);
}

/// Packets for it would wait for the next round.
#[test]
fn the_gateway_of_a_route_that_linux_reports_is_asked_for_in_the_same_round() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    bed.sent(1);
    let route = plain("10.22.0.0/16".parse().unwrap(), 0, vec![hop(false, 1, 9)]);
    kernel.0.lock().unwrap().say(Message::Route(route.clone()));
    assert!(bed.slow.round());
    let is_request = |frame: &Vec<u8>| frame[12..14] == [8, 6] && frame[38..42] == [10, 0, 2, 9];
    let sent = bed.sent(1);
    assert!(sent.iter().any(is_request), "{sent:?}");
    // A report that changes nothing is something to do, and the next round has nothing.
    bed.settle();
    kernel.0.lock().unwrap().say(Message::Route(route));
    assert!(bed.slow.round() && !bed.slow.round());
    assert_eq!(bed.end(), 0);
}

/// A table that forgets one prefix, once, as no table should.
#[derive(Default)]
struct Forgetful<A>(BTreeMap<(u8, A), NextHopId>);

static FORGOTTEN: AtomicBool = AtomicBool::new(false);

impl<A: FibAddress> Lookup<A> for Forgetful<A> {
    fn name(&self) -> &'static str {
        "forgetful"
    }
    fn lookup(&self, address: A) -> NextHopId {
        let found = self.0.iter().rev().find(|((len, addr), _)| address.truncate(*len) == *addr);
        found.map_or(NextHopId::NO_ROUTE, |(_, id)| *id)
    }
    fn lookup_batch(&self, addresses: &[A], ids: &mut [u32]) {
        addresses.iter().zip(ids).for_each(|(address, id)| *id = self.lookup(*address).0);
    }
}

impl<A: FibAddress> Buffer<A> for Forgetful<A> {
    fn set(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<(), LookupError> {
        let forget = prefix.len() == 17 && !FORGOTTEN.swap(true, Ordering::Relaxed);
        if !forget {
            self.0.insert((prefix.len(), prefix.addr()), id);
        }
        Ok(())
    }
    fn unset(&mut self, prefix: PrefixOf<A>) -> Result<(), LookupError> {
        self.0.remove(&(prefix.len(), prefix.addr()));
        Ok(())
    }
    fn check(&self, _: NextHopId) -> Result<(), LookupError> {
        Ok(())
    }
    fn room(&self) -> usize {
        usize::MAX
    }
    fn may_grow(&self) -> bool {
        false
    }
    fn memory(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn a_wrong_entry_of_a_lookup_structure_is_found_and_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let v4: Structure<u32> = Structure {
        name: "forgetful",
        about: "",
        new: || Ok(Box::new(DoubleBuffered::new(|_| Ok(Forgetful::default()))?)),
    };
    let text = TWO_PORTS.replace("[router]", "[router]\nfib = \"forgetful\"");
    let (mut bed, kernel) = start(&text, &folder, Lookups::default().and(&[v4], &[]));
    let route = plain("10.32.128.0/17".parse().unwrap(), 0, vec![hop(false, 1, 2)]);
    kernel.0.lock().unwrap().routes.insert((route.prefix, 0), route.clone());
    kernel.0.lock().unwrap().say(Message::Route(route));
    bed.settle();
    let report = audit(&mut bed, false);
    assert_eq!(report.total, 1, "{:?}", report.differences);
    assert_eq!(report.differences[0].kind, "workers find another next hop");
    let repaired = audit(&mut bed, true);
    assert_eq!((repaired.total, repaired.repaired), (1, 1));
    bed.settle();
    assert_eq!(audit(&mut bed, false).total, 0);
    assert_eq!(bed.end(), 0);
}

#[test]
fn a_route_of_linux_that_does_not_fit_is_no_reason_to_refuse_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let text = TWO_PORTS.replace("[router]", "[router]\nfib = \"narrow\"");
    let (mut bed, kernel) = start(&text, &folder, common::narrow::lookups());
    let route = plain("20.1.1.0/25".parse().unwrap(), 0, vec![hop(false, 1, 2)]);
    let said = common::log::warnings(|| {
        kernel.0.lock().unwrap().say(Message::Route(route));
        bed.pass(1);
        // It is tried again whenever others leave.
        for n in 0..3 {
            let other = plain("10.22.0.0/16".parse().unwrap(), n, vec![hop(false, 1, 2)]);
            kernel.0.lock().unwrap().say(Message::Route(other.clone()));
            bed.pass(1);
            kernel.0.lock().unwrap().say(Message::RouteGone(other));
            bed.pass(1);
        }
    });
    assert!(said.len() == 1 && said[0].contains("20.1.1.0/25 does not fit"), "{said:?}");
    let text = text + "[[route]]\nprefix = \"20.2.0.0/16\"\nvia = \"10.0.2.2\"\n";
    std::fs::write(folder.path().join("router.toml"), &text).unwrap();
    ask(&mut bed, Reload { script: None, text: None }).unwrap();
    // Only once nobody holds the old tables is it known at once what fits.
    bed.pass(1);
    let too_long = text.replace("20.2.0.0/16", "20.2.1.0/25");
    std::fs::write(folder.path().join("router.toml"), too_long).unwrap();
    let why = ask(&mut bed, Reload { script: None, text: None }).unwrap_err();
    assert!(why.contains("20.2.1.0/25 does not fit"), "{why}");
    bed.settle();
    assert_eq!(bed.end(), 0);
}

#[test]
fn a_configuration_that_is_shown_names_addresses_that_linux_has_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let (mut bed, kernel) = start(TWO_PORTS, &folder, Lookups::default());
    let comments = |bed: &mut Bed| -> Vec<String> {
        let toml = ask(bed, ShowConfig {}).unwrap().toml;
        toml.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect()
    };
    assert!(comments(&mut bed).is_empty(), "Linux has what the configuration says");
    {
        let mut kernel = kernel.0.lock().unwrap();
        kernel.added = vec!["10.0.9.1/24", "fe80::7/64"];
        kernel.deleted = vec!["10.0.1.1/24"];
        kernel.dump();
    }
    bed.settle();
    let expected = [
        "# a has the address 10.0.9.1/24 in Linux as well, which a restart loses",
        "# a has lost the address 10.0.1.1/24 in Linux; a reload puts it back",
    ];
    assert_eq!(comments(&mut bed), expected);
}

/// Reports of a kernel, each of which takes a millisecond once there is a clock.
struct Slow(Shared, Arc<OnceLock<Arc<AtomicU64>>>);

impl Source for Slow {
    fn next(&mut self) -> Option<Update> {
        if let Some(now) = self.1.get() {
            now.fetch_add(1_000_000, Ordering::Relaxed);
        }
        self.0.next()
    }
    fn dump(&mut self) {
        self.0.dump();
    }
    fn counters(&self) -> SourceCounters {
        self.0.counters()
    }
}

/// Some lookup structures are rebuilt for each commit: with a million routes that takes longer than a turn.
#[test]
fn a_burst_of_routes_is_seen_at_once_where_that_is_cheap_and_else_at_its_end_or_after_a_while() {
    for (fib, at_once) in [("auto", true), ("narrow", false)] {
        let folder = tempfile::tempdir().unwrap();
        let text = TWO_PORTS.replace("[router]", &format!("[router]\nfib = \"{fib}\""));
        let text = text + &neighbors(&[("10.0.2.2", PEER_B)]);
        let kernel = Shared(Arc::new(Mutex::new(Kernel { up: [true, true], ..Kernel::default() })));
        kernel.0.lock().unwrap().dump();
        let clock: Arc<OnceLock<_>> = Arc::default();
        let feeds =
            LinuxFeeds { netlink: Some(Box::new(Slow(kernel.clone(), clock.clone()))), ..LinuxFeeds::default() };
        let path = folder.path().join("router.toml");
        let mut bed = Bed::beside_linux(&text, &path, QUEUES, common::narrow::lookups(), feeds);
        bed.settle();
        // Nobody has the memory of old tables any more, and the last commit was just now.
        bed.pass(1);
        let route = |n: usize| plain(format!("10.{n}.0.0/16").parse().unwrap(), 0, vec![hop(false, 1, 2)]);
        kernel.0.lock().unwrap().say(Message::Route(route(99)));
        bed.settle();
        bed.work_without_owner();
        clock.set(bed.now.clone()).unwrap();
        // Three turns, of 32 reports each.
        (100..196).for_each(|n| kernel.0.lock().unwrap().say(Message::Route(route(n))));
        let forwards = |bed: &mut Bed| {
            bed.sent(1);
            assert!(bed.receive[0][0].inject(&udp("10.100.0.1", 64, 7)));
            bed.work_without_owner();
            !bed.sent(1).is_empty()
        };
        assert!(bed.slow.round());
        assert_eq!(forwards(&mut bed), at_once, "{fib} in the burst");
        // The first time the worker may still have the memory in its old tables.
        for _ in 0..2 {
            bed.now.fetch_add(250_000_000, Ordering::Relaxed);
            assert!(bed.slow.round());
            bed.work_without_owner();
        }
        assert!(forwards(&mut bed), "{fib} after half a second");
        bed.settle();
        (0..2).for_each(|port| drop(bed.sent(port)));
        assert_eq!(bed.end(), 0);
    }
}
