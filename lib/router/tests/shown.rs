// SPDX-License-Identifier: MIT
//! What the API shows of a router's work is what the router did: workers, modules, reasons, next hops, filters.

mod common;

use common::*;
use perigee_api::answers::{
    DropKind, DropStatus, FilterAction, FilterStatus, FilteredFrom, ModuleStatus, NextHopEntry, NextHopType, ValueKind,
    WorkerState, WorkerStatus,
};
use perigee_api::queries::{
    AddRoute, ShowCounters, ShowDrops, ShowFilters, ShowModules, ShowNextHops, ShowVersion, ShowWorkers, TakeGaps,
};
use perigee_api::{Backend, Reply, Request, RouteChange, RouteGateway};
use perigee_modules::{Kind, ModuleId, reason};
use std::sync::atomic::Ordering;

/// Stations on both sides, which need not be asked for.
fn known() -> String {
    TWO_PORTS.to_owned() + &neighbors(&[("10.0.1.2", PEER_A), ("10.0.2.2", PEER_B), ("10.0.2.3", PEER_B)])
}

/// Port a receives `n` packets with this TTL to 10.0.2.2, a burst each.
fn offer(router: &mut OnDisk, n: u16, ttl: u8) {
    for port in 0..n {
        router.receive(&udp("10.0.2.2", ttl, port));
    }
}

fn worker(bed: &mut Bed) -> WorkerStatus {
    ask(bed, ShowWorkers {}).unwrap().remove(0)
}

fn module(bed: &mut Bed, name: &str) -> ModuleStatus {
    let all = ask(bed, ShowModules {}).unwrap();
    all.into_iter().find(|module| module.module == name).unwrap_or_else(|| panic!("no module {name}"))
}

fn reason_of(bed: &mut Bed, module: &str, name: &str) -> DropStatus {
    let all = ask(bed, ShowDrops {}).unwrap();
    let found = all.into_iter().find(|drop| drop.module == module && drop.reason == name);
    found.unwrap_or_else(|| panic!("no reason {module}.{name}"))
}

#[test]
fn a_worker_shows_what_it_received_sent_and_punted() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let before = worker(&mut router.bed);
    offer(&mut router, 20, 64);
    offer(&mut router, 5, 1);
    let after = worker(&mut router.bed);
    assert_eq!((after.worker, after.core, &after.queues[..]), (0, 0, &["a:0".to_owned(), "b:0".to_owned()][..]));
    assert_eq!(after.batches - before.batches, 25);
    assert_eq!((after.received - before.received, after.handed_over), (25, 0));
    assert_eq!((after.transmitted - before.transmitted, after.punted - before.punted), (20, 5));
    let counters = &router.bed.counters[0];
    assert_eq!(after.idle_polls, counters.polls.get() - counters.bursts.get());
    assert!(after.idle_polls > 0 && after.batches == counters.bursts.get());
    router.end();
}

#[test]
fn packets_of_other_workers_flows_are_no_worker_s_own() {
    let text = known().replace("cores = [0]", "cores = [0, 1]");
    let mut router = OnDisk::new(&text, Queues { receive: 1, transmit: 3 });
    offer(&mut router, 100, 64);
    let workers = ask(&mut router.bed, ShowWorkers {}).unwrap();
    let sum = |count: fn(&WorkerStatus) -> u64| workers.iter().map(count).sum::<u64>();
    assert_eq!((sum(|w| w.received), sum(|w| w.transmitted)), (100, 100), "each packet once");
    assert!(sum(|w| w.handed_over) > 0 && workers.iter().all(|w| w.received > 0), "{workers:?}");
    // The script has them once as well.
    assert_eq!(module(&mut router.bed, "script").packets, 100);
    router.end();
}

#[test]
fn times_are_seconds_since_the_router_started() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    bed.pass(3);
    let version = ask(bed, ShowVersion {}).unwrap();
    assert_eq!((version.uptime, worker(bed).uptime), (3.0, 3.0));
    // The longest one counts until it is taken.
    bed.counters[0].longest_gap.set(2_500_000_000);
    assert_eq!((worker(bed).longest_gap, worker(bed).longest_gap), (2.5, 2.5));
    assert_eq!(ask(bed, TakeGaps {}).unwrap()[0].longest_gap, 2.5);
    assert_eq!(worker(bed).longest_gap, 0.0);
    router.end();
}

#[test]
fn a_worker_that_does_not_poll_is_shown_as_silent() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    bed.pass(1);
    assert_eq!(worker(bed).state, WorkerState::Running);
    // The slow path goes on, the worker does not.
    for _ in 0..30 {
        bed.now.fetch_add(100_000_000, Ordering::Relaxed);
        bed.slow.round();
    }
    assert_eq!(worker(bed).state, WorkerState::Silent);
    bed.settle();
    assert_eq!(worker(bed).state, WorkerState::Running);
    router.end();
}

#[test]
fn a_module_shows_its_packets_and_what_became_of_them() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let before = ["ipv4_valid", "ttl", "script", "slowpath"].map(|name| module(&mut router.bed, name));
    offer(&mut router, 20, 64);
    offer(&mut router, 5, 1);
    let mut broken = udp("10.0.2.2", 64, 1);
    broken[24] ^= 1;
    router.receive(&broken);
    let after = ["ipv4_valid", "ttl", "script", "slowpath"].map(|name| module(&mut router.bed, name));
    let more = |at: usize| {
        let (before, after) = (&before[at], &after[at]);
        [after.packets - before.packets, after.dropped - before.dropped, after.punted - before.punted]
    };
    assert_eq!([0, 1, 2].map(more), [[26, 1, 0], [25, 0, 5], [26, 0, 0]]);
    assert_eq!(after[2].calls - before[2].calls, 26, "a burst each");
    assert!(after[0].calls - before[0].calls >= 26);
    // The slow path drops what it answers with an error.
    assert_eq!(more(3), [5, 5, 0]);
    let (checksum, ttl) =
        (reason_of(&mut router.bed, "ipv4_valid", "checksum"), reason_of(&mut router.bed, "ttl", "expired"));
    assert_eq!((checksum.kind, checksum.packets, &checksum.per_worker[..]), (DropKind::Drop, 1, &[1][..]));
    assert_eq!((ttl.kind, ttl.packets, ttl.rfc.as_deref()), (DropKind::Punt, 5, Some("RFC 1812 5.3.1")));
    router.end();
}

/// One burst in 127 is timed, and stands for the others.
#[test]
fn a_module_s_time_is_estimated_from_the_bursts_that_were_timed() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    bed.counters[0].timed_module(ModuleId::ttl, 1000, 50);
    bed.counters[0].timed.add(5000);
    bed.counters[0].timed_packets.add(40);
    let times = |status: ModuleStatus| (status.seconds, status.packet_ns);
    assert_eq!(times(module(bed, "ttl")), (1000.0 * 127.0 / 1e9, Some(20.0)));
    assert_eq!(times(module(bed, "script")), (4000.0 * 127.0 / 1e9, Some(100.0)), "what the modules leave of it");
    assert_eq!(times(module(bed, "mtu")), (0.0, None), "it was not timed");
    router.end();
}

#[test]
fn what_a_script_counts_is_shown_under_its_own_names() {
    let text = known().replace("cores = [0]", "cores = [0, 1]");
    let mut router = OnDisk::new(&text, Queues { receive: 2, transmit: 3 });
    let bed = &mut router.bed;
    let custom = bed.workers[0].context().custom.clone();
    let (full, ask_linux) = (custom.number("mine", "full", Kind::Drop), custom.number("mine", "ask", Kind::Punt));
    let ttl = custom.number("ttl", "strange", Kind::Drop);
    let counter = custom.value("mine", "seen", reason::ValueKind::Counter).unwrap();
    let gauge = custom.value("mine", "level", reason::ValueKind::Gauge).unwrap();
    for (worker, n) in [(0, 3), (1, 4)] {
        let counters = &bed.counters[worker];
        counters.reason(full, n);
        counters.reason(ask_linux, 10 * n);
        counters.reason(ttl, 100 * n);
        counters.value(counter).unwrap().add(n as u64);
        counters.value(gauge).unwrap().set(20 * n as u64);
    }
    let mine = module(bed, "mine");
    assert_eq!((mine.dropped, mine.punted), (7, 70));
    let all = ask(bed, ShowModules {}).unwrap();
    assert!(all.iter().all(|module| !module.about.is_empty()), "each says what it does");
    assert_eq!(module(bed, "ttl").dropped, 700, "a reason in the name of a module of the router");
    assert_eq!(all.iter().filter(|module| module.module == "ttl").count(), 1);
    let shown = |drop: DropStatus| (drop.kind, drop.packets, drop.per_worker, drop.rfc);
    assert_eq!(shown(reason_of(bed, "mine", "full")), (DropKind::Drop, 7, vec![3, 4], None));
    assert_eq!(shown(reason_of(bed, "mine", "ask")), (DropKind::Punt, 70, vec![30, 40], None));
    let values = ask(bed, ShowCounters {}).unwrap();
    let values: Vec<_> =
        values.into_iter().map(|v| (format!("{}.{}", v.module, v.name), v.kind, v.value, v.per_worker)).collect();
    let expected = [
        ("mine.seen".to_owned(), ValueKind::Counter, 7, vec![3, 4]),
        ("mine.level".to_owned(), ValueKind::Gauge, 140, vec![60, 80]),
    ];
    assert_eq!(values, expected);
    router.end();
}

#[test]
fn next_hops_show_where_packets_go() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    let gateway =
        |via: &str, weight, recursive| RouteGateway { via: via.parse().unwrap(), dev: None, recursive, weight };
    let route = |prefix: &str, gateways| RouteChange { gateways, ..RouteChange::of(prefix.parse().unwrap()) };
    for change in [
        route("10.7.0.0/16", vec![gateway("10.0.2.2", 1, false)]),
        route("10.8.0.0/16", vec![gateway("10.0.2.2", 1, false), gateway("10.0.2.3", 3, false)]),
        route("10.9.0.0/16", vec![gateway("10.7.0.1", 1, true)]),
        route("10.10.0.0/16", vec![gateway("203.0.113.1", 1, true)]),
    ] {
        ask(bed, AddRoute(change)).unwrap();
    }
    bed.settle();
    let all = ask(bed, ShowNextHops {}).unwrap();
    let find = |kind: NextHopType, via: &str| -> &NextHopEntry {
        let via = Some(via.parse().unwrap());
        let found = all.iter().find(|hop| hop.kind == kind && hop.via == via);
        found.unwrap_or_else(|| panic!("no {kind:?} by {via:?}: {all:?}"))
    };
    let station = find(NextHopType::Neighbor, "10.0.2.2");
    assert_eq!((station.dev.as_deref(), station.mac, station.down), (Some("b"), Some(PEER_B), false));
    // Routes go by gateways, and these by stations.
    let (first, second) = (find(NextHopType::Recursive, "10.0.2.2"), find(NextHopType::Recursive, "10.0.2.3"));
    assert_eq!((first.target, first.dev.as_deref()), (Some(station.id), Some("b")));
    let far = find(NextHopType::Recursive, "10.7.0.1");
    assert_eq!((far.target, far.dev.as_deref()), (Some(first.id), Some("b")), "another route leads to it");
    let unreached = find(NextHopType::Recursive, "203.0.113.1");
    assert_eq!((unreached.target, &unreached.dev), (None, &None));
    let group = all.iter().find(|hop| hop.kind == NextHopType::Group).expect("a group");
    let members: Vec<_> = group.members.iter().map(|member| (member.id, member.weight, member.share)).collect();
    assert_eq!(members, [(first.id, 1, 0.25), (second.id, 3, 0.75)]);
    let connected = all.iter().filter(|hop| hop.kind == NextHopType::Connected);
    assert_eq!(connected.map(|hop| hop.dev.as_deref()).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    router.end();
}

#[test]
fn a_filter_is_shown_as_it_was_written() {
    let filters = "[[filter]]\nsrc = \"10.3.0.0/16\"\ndst = \"10.0.2.0/24\"\n\
        proto = \"udp\"\nsport = \"7\"\ndport = \"53-99\"\naction = \"drop\"\n\
        [[filter]]\nfrom = \"linux\"\nproto = \"tcp\"\naction = \"accept\"\n\
        [[filter]]\nfrom = \"both\"\naction = \"drop\"\nsrc = \"10.4.0.0/16\"\n[[filter]]\naction = \"accept\"\n\
        [[steer]]\nethertype = 0x88cc\n[[steer]]\nproto = \"tcp\"\ndport = \"179\"\n";
    let mut router = OnDisk::new(&format!("{}{filters}", known()), ONE_EACH);
    let shown = ask(&mut router.bed, ShowFilters {}).unwrap();
    let shown: Vec<_> = shown
        .iter()
        .map(|FilterStatus { number, rule, from, action, .. }| (*number, rule.as_str(), *from, *action))
        .collect();
    let expected = [
        (1, "src 10.3.0.0/16 dst 10.0.2.0/24 proto 17 sport 7 dport 53-99", FilteredFrom::Ports, FilterAction::Drop),
        (2, "proto 6", FilteredFrom::Linux, FilterAction::Accept),
        (3, "src 10.4.0.0/16", FilteredFrom::Both, FilterAction::Drop),
        (4, "everything", FilteredFrom::Ports, FilterAction::Accept),
        (1, "ethertype 0x88cc", FilteredFrom::Ports, FilterAction::SlowPath),
        (2, "proto 6 dport 179", FilteredFrom::Ports, FilterAction::SlowPath),
    ];
    assert_eq!(shown, expected);
    router.end();
}

/// Metrics are the answers of single questions, at one moment.
#[test]
fn metrics_agree_with_what_is_shown() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    offer(&mut router, 20, 64);
    let bed = &mut router.bed;
    ask(
        bed,
        AddRoute(RouteChange {
            via: Some("10.0.2.2".parse().unwrap()),
            ..RouteChange::of("10.9.0.0/16".parse().unwrap())
        }),
    )
    .unwrap();
    bed.settle();
    let (reply, answer) = Reply::pair();
    bed.mailbox.handle(Request::Metrics(reply));
    bed.settle();
    let snapshot = answer.try_take().unwrap().unwrap();
    assert_eq!(snapshot.workers[0].received, worker(bed).received);
    assert_eq!(snapshot.modules.len(), ask(bed, ShowModules {}).unwrap().len());
    assert_eq!(snapshot.drops.len(), ask(bed, ShowDrops {}).unwrap().len());
    let routes: Vec<_> = snapshot.routes.iter().map(|(origin, n)| (origin.name(), *n)).collect();
    // The addresses and broadcast addresses of two networks, the networks, and the operator's route.
    assert_eq!(routes, [("local", 4), ("connected", 2), ("api", 1)]);
    let kinds: Vec<_> = snapshot.next_hops.iter().map(|(kind, n)| (kind.name(), *n)).collect();
    assert_eq!(kinds, [("connected", 2), ("neighbor", 3), ("recursive", 1)]);
    let neighbors: Vec<_> = snapshot.neighbors.iter().map(|(state, n)| (state.name(), *n)).collect();
    assert_eq!(neighbors, [("static", 3)]);
    router.end();
}
