// SPDX-License-Identifier: MIT
//! Each place a packet can be lost after the workers is flooded: packets sent, waiting and dropped under a reason add
//! up to those offered.

mod common;

use common::*;
use perigee_api::answers::{DropKind, KernelLosses, PortStatus, SlowPathStatus};
use perigee_api::queries::{ShowDrops, ShowPorts, ShowSlowPath};
use perigee_netlink::{Source, SourceCounters, Update};
use perigee_packet::wire::checksum;
use perigee_router::{LinuxFeeds, Lookups};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// More than any ring or queue here has room for.
const FLOOD: u64 = 6000;

/// Packets that ended, by reason: `host.transmit_full`.
fn drops(bed: &mut Bed) -> BTreeMap<String, u64> {
    let all =
        ask(bed, ShowDrops {}).unwrap().into_iter().filter(|drop| drop.kind == DropKind::Drop && drop.packets > 0);
    all.map(|drop| (format!("{}.{}", drop.module, drop.reason), drop.packets)).collect()
}

/// The number of packets that ended, for whatever reason.
fn dropped(bed: &mut Bed) -> u64 {
    drops(bed).values().sum()
}

fn port(bed: &mut Bed, name: &str) -> PortStatus {
    ask(bed, ShowPorts {}).unwrap().into_iter().find(|port| port.name == name).unwrap()
}

fn held(bed: &mut Bed) -> SlowPathStatus {
    ask(bed, ShowSlowPath {}).unwrap()
}

/// Port a receives packets; the owner of the tables has its turn after each hundred or, if it is `busy`, only at the
/// end.
fn offer(bed: &mut Bed, busy: bool, packet: impl Fn(u16) -> Vec<u8>) {
    for n in 0..FLOOD as u16 {
        assert!(bed.receive[0][0].inject(&packet(n)));
        if n % 100 == 99 {
            bed.work_without_owner();
            // Limits have their chance again.
            bed.now.fetch_add(1_000_000, Ordering::Relaxed);
            if !busy {
                bed.settle();
            }
        }
    }
    bed.settle();
}

/// Every packet that workers received was sent, punted or dropped.
fn workers_add_up(bed: &mut Bed) {
    let sum = |count: fn(&perigee_modules::Counters) -> u64| bed.counters.iter().map(|c| count(c)).sum::<u64>();
    let received = sum(|c| c.received.get() - c.handed_over.get());
    let went = sum(|c| c.punted.get() + c.port_transmitted(0) + c.port_transmitted(1));
    let fast: u64 = drops(bed).iter().filter(|(name, _)| !name.starts_with("slowpath.")).map(|(_, n)| n).sum();
    assert_eq!(received, went + fast);
}

fn known() -> String {
    TWO_PORTS.to_owned() + &neighbors(&[("10.0.1.2", PEER_A), ("10.0.2.2", PEER_B)])
}

#[test]
fn a_full_transmit_queue_is_its_ports_loss_alone() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    offer(bed, false, |n| udp("10.0.2.2", 64, n));
    let (sent, lost) = (bed.sent(1).len() as u64, dropped(bed));
    assert!(sent > 0 && lost > 0 && sent + lost == FLOOD, "{sent} sent, {lost} lost");
    assert_eq!(drops(bed), [("host.transmit_full".to_owned(), lost)].into());
    assert_eq!(["a", "b"].map(|name| port(bed, name).counters.transmit_dropped), [0, lost]);
    workers_add_up(bed);
    router.end();
}

/// Errors about packets whose TTL is used up, by one thread and by three, with a queue of their own or a ring to a
/// worker's.
#[test]
fn what_the_slow_path_cannot_send_is_counted() {
    let unlimited = known().replace("[router]\n", "[router]\nicmp_rate = 1000000000\n");
    // What the policer lets through by default fills no queue. Behind a ring that must be so: nothing here counts the
    // losses of its owner.
    let much = "[policer]\nother = 1000000000\nother_burst = 1000000\n";
    // Three threads send on three queues: it takes more packets to fill them.
    for (threads, queues, floods, limits) in [
        (1, ONE_EACH, 1, much),
        (1, Queues { receive: 1, transmit: 1 }, 1, ""),
        (3, Queues { receive: 1, transmit: 4 }, 3, much),
    ] {
        let text = unlimited.replace("[router]\n", &format!("[router]\nslow_paths = {threads}\n")) + limits;
        let mut router = OnDisk::new(&text, queues);
        let bed = &mut router.bed;
        (0..floods).for_each(|_| offer(bed, false, |n| udp("10.0.2.2", 1, n)));
        let all = drops(bed);
        let sent = bed.sent(0).len() as u64;
        let get = |name: &str| all.get(name).copied().unwrap_or(0);
        let unsent = get("slowpath.transmit");
        assert_eq!(
            get("slowpath.ttl_expired") + get("host.policed_other") + get("host.punt_ring_full"),
            floods * FLOOD,
            "{all:?}"
        );
        assert_eq!(unsent > 0, !limits.is_empty(), "{all:?}");
        assert_eq!(sent + unsent, get("slowpath.ttl_expired"), "{all:?}");
        assert_eq!(port(bed, "a").counters.transmit_dropped, unsent);
        workers_add_up(bed);
        router.end();
    }
}

/// No worker sees what a device's filters put into the slow path's own queue: the policer is before that queue, too. A
/// port that says so has limits of its own, also after a reload.
#[test]
fn a_port_has_limits_of_its_own_and_steered_packets_are_policed() {
    let text = known();
    let strict = "[port.a.policer]\nmanagement = 0\n";
    let mut router = OnDisk::new(&format!("{text}{strict}"), ONE_EACH);
    let offer = |router: &mut OnDisk, port: usize, steered: bool| {
        let bed = &mut router.bed;
        let before = drops(bed);
        let queue = if steered { &bed.steered[port] } else { &bed.receive[port][0] };
        let mut frame = udp("10.0.1.1", 64, 5);
        frame[..6].copy_from_slice(&mac(port as u16));
        assert!((0..10).all(|_| queue.inject(&frame)));
        bed.settle();
        let after = drops(bed);
        let count = |name: &str| after.get(name).unwrap_or(&0) - before.get(name).unwrap_or(&0);
        [count("host.policed_management"), count("slowpath.policed")]
    };
    assert_eq!(offer(&mut router, 0, false), [10, 0]);
    assert_eq!(offer(&mut router, 0, true), [0, 10]);
    assert_eq!([false, true].map(|steered| offer(&mut router, 1, steered)), [[0; 2]; 2], "another port");
    router.reload(&text).unwrap();
    assert_eq!([false, true].map(|steered| offer(&mut router, 0, steered)), [[0; 2]; 2], "no limit any more");
    router.reload(&format!("{text}{}", strict.replace(".a.", ".b."))).unwrap();
    assert_eq!([0, 1].map(|port| offer(&mut router, port, false)), [[0; 2], [10, 0]]);
    router.end();
}

#[test]
fn packets_wait_for_a_neighbor_or_are_counted() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    offer(bed, false, |n| udp(&format!("10.0.2.{}", 50 + n % 150), 64, n));
    let waiting = held(bed).waiting;
    assert!(waiting > 0);
    assert_eq!(waiting + dropped(bed), FLOOD, "{:?}", drops(bed));
    // Nobody answers.
    bed.pass(20);
    assert_eq!((held(bed).waiting, dropped(bed)), (0, FLOOD), "{:?}", drops(bed));
    workers_add_up(bed);
    router.end();
}

#[test]
fn fragments_wait_for_others_or_are_counted() {
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    // First fragments, each of a datagram of its own.
    let fragment = |n: u16| {
        let mut frame = udp("10.0.1.1", 64, n);
        frame[18..20].copy_from_slice(&n.to_be_bytes());
        frame[20] = 0x20;
        frame.truncate(14 + 20 + 24);
        frame[16..18].copy_from_slice(&44u16.to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum::ipv4_header(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    offer(bed, false, fragment);
    let waiting = held(bed).reassembling;
    assert!(waiting > 0);
    assert_eq!(waiting + dropped(bed), FLOOD, "{:?}", drops(bed));
    bed.pass(100);
    assert_eq!((held(bed).reassembling, dropped(bed)), (0, FLOOD), "{:?}", drops(bed));
    assert!(drops(bed).contains_key("slowpath.fragment_timeout"));
    workers_add_up(bed);
    router.end();
}

/// Assistants leave to the owner what is for Linux; it has no time for them.
#[test]
fn what_an_owner_without_time_has_no_room_for_is_counted() {
    let text = known().replace("[router]\n", "[router]\nslow_paths = 3\n")
        + "[policer]\nmanagement = 1000000000\nmanagement_burst = 1000000\n";
    let mut router = OnDisk::new(&text, Queues { receive: 1, transmit: 4 });
    let bed = &mut router.bed;
    offer(bed, true, |n| udp("10.0.1.1", 64, n));
    let all = drops(bed);
    assert!(all.contains_key("slowpath.owner_ring_full"), "{all:?}");
    // Without twins, even what the owner has taken is lost.
    assert!(all.contains_key("slowpath.no_twin"), "{all:?}");
    assert_eq!(dropped(bed), FLOOD, "{all:?}");
    workers_add_up(bed);
    router.end();
}

/// Every counter named in docs/losses.md exists.
#[test]
fn the_page_of_losses_names_counters_that_exist() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/losses.md")).unwrap();
    let mut router = OnDisk::new(&known(), ONE_EACH);
    let bed = &mut router.bed;
    let reasons: Vec<String> =
        ask(bed, ShowDrops {}).unwrap().into_iter().map(|drop| format!("{}.{}", drop.module, drop.reason)).collect();
    let PortStatus { counters, .. } = port(bed, "a");
    let fields = [
        ("counters", serde_json::to_value(counters).unwrap()),
        ("kernel", serde_json::to_value(KernelLosses::default()).unwrap()),
        ("twin", serde_json::json!({"dropped": 0, "missed": 0})),
    ];
    let mut found = 0;
    for name in page.split('`').skip(1).step_by(2) {
        let Some((of, what)) = name.split_once('.').filter(|(of, what)| {
            [of, what].iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        }) else {
            continue;
        };
        let is_field = fields.iter().any(|(field, values)| *field == of && values.get(what).is_some());
        assert!(is_field || reasons.iter().any(|reason| reason == name) || what == "md", "there is no {name}");
        found += 1;
    }
    assert!(found > 25, "{found} names");
    router.end();
}

/// A Linux that says nothing.
struct Silent;

impl Source for Silent {
    fn next(&mut self) -> Option<Update> {
        None
    }
    fn dump(&mut self) {}
    fn counters(&self) -> SourceCounters {
        SourceCounters::default()
    }
}

#[test]
fn a_twin_that_linux_does_not_empty_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let feeds = LinuxFeeds { netlink: Some(Box::new(Silent)), ..LinuxFeeds::default() };
    let path = folder.path().join("a.toml");
    let mut bed = Bed::beside_linux(&known(), &path, ONE_EACH, Lookups::default(), feeds);
    bed.settle();
    offer(&mut bed, false, |n| udp("10.0.1.1", 64, n));
    let twin = port(&mut bed, "a").twin.unwrap();
    let all = drops(&mut bed);
    assert!(twin.to_linux > 0 && twin.dropped > 0);
    assert_eq!(all.get("slowpath.twin"), Some(&twin.dropped));
    assert_eq!(twin.to_linux + dropped(&mut bed), FLOOD, "{all:?}");
    workers_add_up(&mut bed);
    bed.sent(0);
    bed.sent(1);
    assert_eq!(bed.end(), 0);
}
