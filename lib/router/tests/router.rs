// SPDX-License-Identifier: MIT
//! A whole router on heap packets: resolution, forwarding, ICMP, wiring with too few queues, reload, random frames.

mod common;

use common::*;
use perigee_api::answers::DoneIn;
use perigee_api::queries::{AddRoute, Reload, ShowConfig, ShowFib, ShowFilters, ShowPorts, ShowRoutes};
use perigee_api::{Backend, Query, Reply, Request, RouteChange, Server};
use perigee_fib::lookup::nodes::{Place, read_copy};
use perigee_fib::{Buffer, DoubleBuffered, Lookup, LookupError, NextHopId, Structure};
use perigee_net::{Address, MacAddr, PrefixOf};
use perigee_packet::wire::{arp, checksum, ethernet, icmp4};
use perigee_packet::{Arp, Ethernet, Icmp4, Ipv4, Pool};
use perigee_router::Lookups;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// A route of one gateway, to be added.
fn route_via(prefix: &str, via: &str) -> RouteChange {
    RouteChange { via: Some(via.parse().unwrap()), ..RouteChange::of(prefix.parse().unwrap()) }
}

/// Answers every ARP request among the frames; returns the other frames.
fn answer_arp(bed: &Bed, port: usize, frames: Vec<Vec<u8>>, peer: MacAddr) -> Vec<Vec<u8>> {
    let is_arp = |frame: &Vec<u8>| Ethernet::new(frame).unwrap().ethertype() == ethernet::ethertype::ARP;
    let (requests, rest): (Vec<_>, Vec<_>) = frames.into_iter().partition(is_arp);
    for request in requests {
        let repr = Arp::new(&request[14..]).unwrap().repr();
        if repr.operation != arp::REQUEST || repr.sender_ip == repr.target_ip {
            continue;
        }
        let mut frame = vec![0; 14 + arp::LEN];
        ethernet::emit(&mut frame, repr.sender_mac, peer, ethernet::ethertype::ARP).unwrap();
        repr.reply(peer).emit(&mut frame[14..]).unwrap();
        assert!(bed.receive[port][0].inject(&frame));
    }
    rest
}

#[test]
fn a_packet_waits_for_its_neighbor_and_the_next_goes_by_the_fast_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(TWO_PORTS, &folder.path().join("router.toml"), ONE_EACH);
    bed.settle();
    bed.sent(1); // what the router announces at the start
    bed.receive[0][0].inject(&udp("10.0.2.2", 64, 1));
    bed.settle();
    let rest = answer_arp(&bed, 1, bed.sent(1), PEER_B);
    assert!(rest.is_empty(), "nothing before the neighbor is known");
    bed.settle();
    let first = bed.sent(1);
    assert_eq!(first.len(), 1, "the packet that waited");
    assert_eq!(bed.counters[0].port_transmitted(1), 0, "it went by the slow path");
    bed.receive[0][0].inject(&udp("10.0.2.2", 64, 1));
    bed.settle();
    let second = bed.sent(1);
    assert_eq!(second, first, "both paths do the same to a packet");
    assert_eq!(bed.counters[0].port_transmitted(1), 1, "and this one went by the fast path");
    let frame = Ethernet::new(&second[0]).unwrap();
    assert_eq!((frame.destination(), frame.source()), (PEER_B, MacAddr(mac(1))));
    let packet = Ipv4::new(frame.payload()).unwrap();
    assert!(packet.ttl() == 63 && packet.verify_checksum());
    assert_eq!(bed.end(), 0);
}

/// As on a machine with two NUMA nodes, whose workers read a copy each.
#[test]
fn workers_forward_by_the_copy_of_their_own_node() {
    let folder = tempfile::tempdir().unwrap();
    let placed = Arc::new(Mutex::new([0, 0]));
    let note = placed.clone();
    let place: Place = Arc::new(move |copy, work: &mut dyn FnMut()| {
        note.lock().unwrap()[copy] += 1;
        work();
    });
    let lookups = Lookups::default().on_nodes(2, place);
    let (path, socket) = (folder.path().join("router.toml"), folder.path().join("api.sock"));
    let mut bed = Bed::with(TWO_PORTS, &path, ONE_EACH, lookups);
    let _server = Server::start(&socket, None, Arc::new(bed.mailbox.clone())).unwrap();
    bed.receive[0][0].inject(&udp("10.0.2.2", 64, 1));
    bed.settle();
    answer_arp(&bed, 1, bed.sent(1), PEER_B);
    bed.settle();
    bed.sent(1);
    let before = *placed.lock().unwrap();
    assert!(bed.call(&socket, AddRoute(route_via("10.9.0.0/16", "10.0.2.2"))).contains("added"));
    bed.settle();
    assert!(placed.lock().unwrap().iter().zip(before).all(|(now, before)| *now > before), "both copies changed");
    for copy in [0, 1] {
        read_copy(copy);
        bed.receive[0][0].inject(&udp("10.9.1.1", 64, 1));
        bed.settle();
        assert_eq!(bed.sent(1).len(), 1, "copy {copy}");
    }
    read_copy(0);
    assert_eq!(bed.end(), 0);
}

#[test]
fn a_neighbor_that_is_lost_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(TWO_PORTS, &folder.path().join("router.toml"), ONE_EACH);
    bed.receive[0][0].inject(&udp("10.0.2.2", 64, 1));
    bed.settle();
    answer_arp(&bed, 1, bed.sent(1), PEER_B);
    bed.settle();
    assert_eq!(bed.sent(1).len(), 1);
    // The refreshes go unanswered: in the end the neighbor is lost.
    bed.pass(120);
    bed.sent(1);
    bed.receive[0][0].inject(&udp("10.0.2.2", 64, 1));
    bed.settle();
    let rest = answer_arp(&bed, 1, bed.sent(1), PEER_B);
    assert!(rest.is_empty(), "asked for again");
    bed.settle();
    assert_eq!(bed.sent(1).len(), 1);
    assert_eq!(bed.end(), 0);
}

#[test]
fn an_expired_packet_is_answered_by_the_router() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(TWO_PORTS, &folder.path().join("router.toml"), ONE_EACH);
    bed.receive[0][0].inject(&udp("10.0.2.2", 1, 33434));
    bed.settle();
    let frames = answer_arp(&bed, 0, bed.sent(0), PEER_A);
    bed.settle();
    let frames = [frames, bed.sent(0)].concat();
    let packet = Ipv4::new(&frames.last().expect("an answer")[14..]).unwrap();
    assert_eq!((packet.source(), packet.destination()), (ip("10.0.1.1"), ip("10.0.1.2")));
    let message = Icmp4::new(packet.payload()).unwrap();
    assert_eq!((message.kind(), message.code()), (icmp4::TIME_EXCEEDED, 0));
    assert_eq!(bed.end(), 0);
}

#[test]
fn two_workers_share_one_queue_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{}\n[[neighbor]]\naddress = \"10.0.2.2\"\nmac = \"{PEER_B}\"\n",
        TWO_PORTS.replace("cores = [0]", "cores = [0, 1]")
    );
    let mut bed = Bed::new(&text, &folder.path().join("router.toml"), Queues { receive: 1, transmit: 1 });
    assert_eq!(bed.notes.len(), 4, "both shortages of both ports are noted: {:?}", bed.notes);
    bed.settle();
    bed.sent(1);
    for port in 0..200 {
        bed.receive[0][0].inject(&udp("10.0.2.2", 64, port));
    }
    bed.settle();
    let frames = bed.sent(1);
    assert_eq!(frames.len(), 200);
    let shares: Vec<u64> = bed.counters.iter().map(|counters| counters.port_transmitted(1)).collect();
    assert!(shares.iter().all(|share| *share > 40), "flows reach both workers: {shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), 200);
    assert_eq!(bed.end(), 0);
}

#[test]
fn operator_routes_and_reload_are_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, socket) = (folder.path().join("router.toml"), folder.path().join("api.sock"));
    let mut bed = Bed::new(TWO_PORTS, &path, ONE_EACH);
    let _server = Server::start(&socket, None, Arc::new(bed.mailbox.clone())).unwrap();
    let route = route_via("10.9.0.0/16", "10.0.2.9");
    assert!(bed.call(&socket, AddRoute(route.clone())).contains("added"));
    assert!(bed.call(&socket, AddRoute(route)).contains("already"));
    let bad = route_via("10.8.0.0/16", "192.0.2.1");
    assert!(bed.call(&socket, AddRoute(bad)).contains("is not on a connected network"));
    // A route that no packet would take was "added".
    for (prefix, why) in [
        ("224.0.0.0/4", "these are groups"),
        ("127.0.0.0/8", "these are loopback addresses"),
        ("10.0.1.1/32", "it is an address of the router itself"),
        ("10.0.1.0/24", "it is the network of a"),
    ] {
        let said = bed.call(&socket, AddRoute(route_via(prefix, "10.0.2.2")));
        assert!(said.contains(&format!("no packet would take a route to {prefix}: {why}")), "{said}");
    }

    std::fs::write(&path, TWO_PORTS.replace("10.0.1.1/24", "10.0.3.1/24")).unwrap();
    let broken = Some("/nowhere/broken.lua".into());
    assert!(bed.call(&socket, Reload { script: broken, text: None }).contains("broken.lua:1:"));
    assert!(
        bed.call(&socket, ShowRoutes { within: None, to: None, source: None, limit: None }).contains("10.0.1.1/32"),
        "nothing has changed"
    );
    assert!(bed.call(&socket, Reload { script: None, text: None }).contains("generation 2"));
    let routes = bed.call(&socket, ShowRoutes { within: None, to: None, source: None, limit: None });
    assert!(routes.contains("10.0.3.1/32") && !routes.contains("10.0.1.1/32"), "{routes}");
    assert!(routes.contains("10.9.0.0/16"), "operator routes survive");
    let shown = ask(&mut bed, ShowConfig {}).unwrap().toml;
    // With its link, though nobody gave it: so it means the same when it is read again.
    let route = "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.0.2.9\"\ndev = \"b\"\n";
    assert!(shown.contains(route), "{shown}");

    std::fs::write(&path, TWO_PORTS.replace("heap1", "heap2")).unwrap();
    let refused = bed.call(&socket, Reload { script: None, text: None });
    assert!(refused.contains("needs a restart"), "{refused}");
    std::fs::write(&path, "[router]\nburst = 0\n").unwrap();
    let refused = bed.call(&socket, Reload { script: None, text: None });
    assert!(refused.contains("router.toml:2:"), "{refused}");
    assert_eq!(bed.end(), 0);
}

/// A map that must not change under its readers, in place of DPDK's tables, which are not linked here.
#[derive(Default)]
struct Map<A>(BTreeMap<(u8, A), NextHopId>);

impl<A: Address> Lookup<A> for Map<A> {
    fn name(&self) -> &'static str {
        "map"
    }
    fn lookup(&self, address: A) -> NextHopId {
        let found = self.0.iter().rev().find(|((len, addr), _)| address.truncate(*len) == *addr);
        found.map_or(NextHopId::NO_ROUTE, |(_, id)| *id)
    }
    fn lookup_batch(&self, addresses: &[A], ids: &mut [u32]) {
        addresses.iter().zip(ids).for_each(|(address, id)| *id = self.lookup(*address).0);
    }
}

impl<A: Address> Buffer<A> for Map<A> {
    fn set(&mut self, prefix: PrefixOf<A>, id: NextHopId) -> Result<(), LookupError> {
        self.0.insert((prefix.len(), prefix.addr()), id);
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

/// The lookup structures of perigee_fib, and one that exists twice.
fn all_lookups() -> Lookups {
    let v4: Structure<u32> =
        Structure { name: "map", about: "", new: || Ok(Box::new(DoubleBuffered::new(|_| Ok(Map::default()))?)) };
    let v6: Structure<u128> =
        Structure { name: "map", about: "", new: || Ok(Box::new(DoubleBuffered::new(|_| Ok(Map::default()))?)) };
    Lookups::default().and(&[v4], &[v6])
}

#[test]
fn every_lookup_structure_follows_routes_and_neighbors() {
    let names = all_lookups().names();
    for turn in 0..names.v4.len().max(names.v6.len()) {
        let (v4, v6) = (&names.v4[turn % names.v4.len()], &names.v6[turn % names.v6.len()]);
        println!("{v4} and {v6}");
        let folder = tempfile::tempdir().unwrap();
        let (path, socket) = (folder.path().join("router.toml"), folder.path().join("api.sock"));
        let text = TWO_PORTS.replace("[router]", &format!("[router]\nfib = [\"{v4}\", \"{v6}\"]"));
        let mut bed = Bed::with(&text, &path, ONE_EACH, all_lookups());
        let _server = Server::start(&socket, None, Arc::new(bed.mailbox.clone())).unwrap();
        // An operator route through a neighbor that has to be resolved first, then three packets by the fast path.
        let route = route_via("10.9.0.0/16", "10.0.2.2");
        assert!(bed.call(&socket, AddRoute(route)).contains("added"));
        bed.settle();
        answer_arp(&bed, 1, bed.sent(1), PEER_B);
        bed.settle();
        bed.sent(1);
        for destination in ["10.0.2.2", "10.9.0.1", "10.9.255.255"] {
            let before = bed.counters[0].port_transmitted(1);
            bed.receive[0][0].inject(&udp(destination, 64, 1));
            bed.settle();
            assert_eq!((bed.sent(1).len(), bed.counters[0].port_transmitted(1) - before), (1, 1), "{destination}");
        }
        let shown = bed.call(&socket, ShowFib {});
        assert!(shown.contains(&format!("\"chosen\":\"{v4}\"")) && shown.contains("\"pending\":false"), "{shown}");
        // A reload builds them again, or another one if the file says so.
        let other = &names.v4[(turn + 1) % names.v4.len()];
        std::fs::write(&path, text.replace(&format!("\"{v4}\","), &format!("\"{other}\","))).unwrap();
        let answer = bed.call(&socket, Reload { script: None, text: None });
        assert!(answer.contains("generation 2"), "{answer}");
        bed.settle();
        bed.sent(1);
        bed.receive[0][0].inject(&udp("10.9.0.1", 64, 1));
        bed.settle();
        assert_eq!(bed.sent(1).len(), 1, "after the reload");
        // Requests go unanswered: the neighbor is lost, and with it the fast path to it.
        bed.pass(120);
        bed.sent(1);
        let before = bed.counters[0].port_transmitted(1);
        bed.receive[0][0].inject(&udp("10.0.2.2", 64, 1));
        bed.settle();
        assert_eq!(bed.counters[0].port_transmitted(1), before, "asked for again");
        assert!(!bed.slow.round());
        assert_eq!(bed.end(), 0);
    }
}

/// Random and mutated frames through fast and slow path together, with time passing: nothing panics, and no buffer is
/// lost. `PERIGEE_FUZZ` multiplies the number of frames.
#[test]
fn random_frames_leak_nothing() {
    let seed: u64 = std::env::var("PERIGEE_FUZZ_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("PERIGEE_FUZZ_SEED={seed}");
    let times: usize = std::env::var("PERIGEE_FUZZ").map_or(1, |n| n.parse().unwrap());
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(TWO_PORTS, &folder.path().join("router.toml"), ONE_EACH);
    bed.settle();
    let mut arp_frame = vec![0; 42];
    ethernet::emit(&mut arp_frame, MacAddr::BROADCAST, PEER_A, ethernet::ethertype::ARP).unwrap();
    arp::Repr::request(PEER_A, ip("10.0.1.2"), ip("10.0.1.1")).emit(&mut arp_frame[14..]).unwrap();
    let mut injected = 0;
    for _ in 0..2000 * times {
        for _ in 0..random.random_range(1..64) {
            let mut frame = match random.random_range(0..4) {
                0 => udp("10.0.2.2", random.random(), random.random()),
                1 => udp("10.0.1.1", random.random(), random.random()),
                2 => arp_frame.clone(),
                _ => (0..random.random_range(0..200)).map(|_| random.random()).collect(),
            };
            for _ in 0..random.random_range(0..4) {
                if let Some(last) = frame.len().checked_sub(1) {
                    let at = random.random_range(0..=last);
                    frame[at] = random.random();
                }
            }
            if random.random_bool(0.5) && frame.len() >= 34 {
                frame[24..26].copy_from_slice(&[0, 0]);
                let sum = checksum::checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            frame.truncate(random.random_range(0..=200));
            let port = random.random_range(0..2);
            injected += u64::from(bed.receive[port][0].inject(&frame));
        }
        bed.now.fetch_add(random.random_range(0..300_000_000), std::sync::atomic::Ordering::Relaxed);
        bed.settle();
        for port in 0..2 {
            for frame in bed.sent(port) {
                assert!(frame.len() >= 14, "a whole frame goes out");
            }
        }
    }
    assert_eq!(bed.counters[0].received.get(), injected);
    assert_eq!(bed.end(), 0);
}

#[test]
fn each_steer_says_for_itself_whether_the_device_does_it() {
    let folder = tempfile::tempdir().unwrap();
    let steers = "[[steer]]\nethertype = 0x88cc\n[[steer]]\nproto = \"tcp\"\ndport = \"179\"\n";
    let mut bed = Bed::new(&format!("{TWO_PORTS}{steers}"), &folder.path().join("router.toml"), ONE_EACH);
    let (reply, answer) = Reply::pair();
    bed.mailbox.handle(ShowFilters {}.request(reply));
    bed.settle();
    let shown = answer.try_take().unwrap().unwrap();
    let done: Vec<DoneIn> = shown.iter().map(|filter| filter.done_in).collect();
    assert_eq!(done, [DoneIn::Hardware, DoneIn::Software]);
    assert_eq!(bed.end(), 0);
}

#[test]
fn more_transmit_queues_than_needed_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::new(TWO_PORTS, &folder.path().join("a.toml"), Queues { receive: 1, transmit: 3 });
    assert!(bed.notes.is_empty(), "nobody sends over a ring: {:?}", bed.notes);
}

#[test]
fn a_round_says_whether_there_was_anything_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(TWO_PORTS, &folder.path().join("a.toml"), ONE_EACH);
    bed.settle();
    assert!(!bed.slow.round());
    let (reply, answer) = Reply::pair();
    bed.mailbox.handle(ShowPorts {}.request(reply));
    assert!(bed.slow.round(), "a request was answered");
    assert!(answer.try_take().is_some_and(|answer| answer.is_ok()) && !bed.slow.round());
}

/// Whether a thread of this process sleeps in a system call that waits for descriptors.
fn waits(thread: &std::path::Path) -> bool {
    let call = std::fs::read_to_string(thread.join("syscall")).unwrap_or_default();
    // poll and ppoll, of x86 and of ARM.
    ["7 ", "271 ", "73 "].iter().any(|number| call.starts_with(number))
}

#[test]
fn a_slow_path_without_work_sleeps_until_a_request_or_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(TWO_PORTS, &folder.path().join("a.toml"), ONE_EACH);
    bed.settle();
    let thread = std::path::Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap());
    let (mailbox, stop) = (bed.mailbox.clone(), bed.stop.clone());
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            let sleeps = || {
                let start = std::time::Instant::now();
                while start.elapsed() < std::time::Duration::from_secs(120) {
                    if waits(&thread) {
                        return true;
                    }
                    std::thread::yield_now();
                }
                false
            };
            let asleep = sleeps();
            let (reply, answer) = Reply::pair();
            mailbox.handle(ShowPorts {}.request(reply));
            let start = std::time::Instant::now();
            let mut answered = None;
            while answered.is_none() && start.elapsed() < std::time::Duration::from_secs(120) {
                answered = answer.try_take();
                std::thread::yield_now();
            }
            let again = sleeps();
            stop.request();
            mailbox.wake();
            (asleep, answered.is_some_and(|answer| answer.is_ok()), again)
        });
        bed.slow.run();
        assert_eq!(asking.join().unwrap(), (true, true, true), "asleep, answered, asleep again");
    });
    assert_eq!(bed.end(), 0);
}

#[test]
fn what_is_shown_counts_all_routes_and_all_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::new(TWO_PORTS, &folder.path().join("a.toml"), ONE_EACH);
    let all = ask(&mut bed, ShowRoutes { within: None, to: None, source: None, limit: None }).unwrap();
    assert!(all.routes.len() > 2 && all.total == all.routes.len() as u64, "{} of {}", all.routes.len(), all.total);
    let to = |bed: &mut Bed, address: &str| -> Vec<String> {
        let query = ShowRoutes { within: None, to: Some(address.parse().unwrap()), source: None, limit: None };
        ask(bed, query).unwrap().routes.iter().map(|route| route.prefix.to_string()).collect()
    };
    assert_eq!(to(&mut bed, "10.0.1.77"), ["10.0.1.0/24"], "the longest prefix");
    assert_eq!((to(&mut bed, "10.0.1.1"), to(&mut bed, "203.0.113.9")), (vec!["10.0.1.1/32".to_owned()], vec![]));
    let few = ask(&mut bed, ShowRoutes { within: None, to: None, source: None, limit: Some(2) }).unwrap();
    assert_eq!((few.routes.len(), few.total), (2, all.total));
    let (reply, answer) = Reply::pair();
    bed.mailbox.handle(Request::Metrics(reply));
    bed.settle();
    let snapshot = answer.try_take().unwrap().unwrap();
    // Both ports have the same pool.
    assert_eq!(snapshot.buffers, Some((Pool::in_use(&bed.pool) as u64, Pool::size(&bed.pool) as u64)));
}
