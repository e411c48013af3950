// SPDX-License-Identifier: MIT
//! The switches of interfaces in a whole router on heap packets: what the fast path does, what the slow path, and that
//! a reload changes them while packets flow.

mod common;

use common::*;
use perigee_api::queries::ShowDrops;
use perigee_net::MacAddr;
use perigee_packet::wire::icmp4;
use perigee_packet::{Icmp4, Ipv4};

/// The router, with these lines for port a.
fn text(lines: &str) -> String {
    let other = MacAddr([2, 0, 0, 0, 1, 0xc]);
    let known = neighbors(&[("10.0.1.2", PEER_A), ("10.0.1.3", other), ("10.0.2.2", PEER_B)]);
    let ports = TWO_PORTS.replace("device = \"heap0\"\n", &format!("device = \"heap0\"\n{lines}\n"));
    ports + &known
}

fn router() -> OnDisk {
    OnDisk::new(&text(""), ONE_EACH)
}

/// Gives port a other lines.
fn reload(router: &mut OnDisk, lines: &str) {
    router.reload(&text(lines)).unwrap();
    router.drain();
}

/// Type and code of the ICMP message in a frame.
fn icmp(frame: &[u8]) -> Option<(u8, u8)> {
    let packet = Ipv4::new(&frame[14..]).ok()?;
    let icmp = Icmp4::new(packet.payload()).ok().filter(|_| packet.protocol() == 1)?;
    Some((icmp.kind(), icmp.code()))
}

// RFC 1812 5.2.7.2: the fast path forwards, the slow path tells the sender, and no packet goes twice.
#[test]
fn a_sender_is_redirected_and_its_packet_forwarded_by_the_fast_path() {
    let mut router = router();
    let frame = udp("10.0.1.3", 64, 1);
    let [back, other] = router.receive(&frame);
    assert_eq!((back.len(), other.len(), router.bed.counters[0].port_transmitted(0)), (2, 0, 1));
    let (told, forwarded): (Vec<_>, Vec<_>) = back.iter().partition(|frame| icmp(frame).is_some());
    assert_eq!(icmp(told[0]), Some((icmp4::REDIRECT, 1)));
    assert_eq!(told[0][14 + 24..14 + 28], [10, 0, 1, 3], "the better next hop");
    assert_eq!(told[0][14 + 28..], frame[14..], "quoted as it came");
    assert_eq!(forwarded[0][..6], [2, 0, 0, 0, 1, 0xc]);
    // Nothing for what leaves by another port, and nothing where it is off.
    assert_eq!(router.receive(&udp("10.0.2.2", 64, 1)).map(|sent| sent.len()), [0, 1]);
    reload(&mut router, "redirects = false");
    assert_eq!(router.receive(&frame).map(|sent| sent.len()), [1, 0]);
    reload(&mut router, "redirects = true");
    assert_eq!(router.receive(&frame).map(|sent| sent.len()), [2, 0]);
    router.end();
}

// RFC 1812 5.3.7, RFC 3927 7: the fast path judges sources as the slow path does.
#[test]
fn sources_that_only_the_router_has_end_in_the_fast_path() {
    let mut router = router();
    let from = |source: [u8; 4]| {
        let mut frame = udp("10.0.2.2", 64, 1);
        frame[26..30].copy_from_slice(&source);
        Ipv4::new(&mut frame[14..]).unwrap().fill_checksum();
        frame
    };
    assert_eq!(router.receive(&from([10, 0, 1, 2])).map(|sent| sent.len()), [0, 1]);
    for source in [[10, 0, 1, 1], [10, 0, 2, 1], [10, 0, 1, 255], [10, 0, 2, 0], [169, 254, 1, 1]] {
        assert_eq!(router.receive(&from(source)).map(|sent| sent.len()), [0, 0], "{source:?}");
    }
    router.end();
}

// RFC 3704: strict, loose and off, changed while packets flow; both paths judge alike.
#[test]
fn a_source_needs_a_route_back_where_that_is_asked_for() {
    let mut router = router();
    let from = |source: [u8; 4], ttl| {
        let mut frame = udp("10.0.2.2", ttl, 1);
        frame[26..30].copy_from_slice(&source);
        Ipv4::new(&mut frame[14..]).unwrap().fill_checksum();
        frame
    };
    let (near, across, nowhere) = ([10, 0, 1, 2], [10, 0, 2, 9], [198, 18, 0, 1]);
    for (lines, expected) in
        [("", [1, 1, 1]), ("urpf = 'strict'", [1, 0, 0]), ("urpf = 'loose'", [1, 1, 0]), ("urpf = 'off'", [1, 1, 1])]
    {
        reload(&mut router, lines);
        let sent = [near, across, nowhere].map(|source| router.receive(&from(source, 64))[1].len());
        assert_eq!(sent, expected, "{lines}");
    }
    // Broadcasts reach the slow path alone.
    reload(&mut router, "urpf = 'strict'");
    let mut broadcast = from(nowhere, 64);
    broadcast[..6].fill(0xff);
    broadcast[30..34].fill(0xff);
    Ipv4::new(&mut broadcast[14..]).unwrap().fill_checksum();
    router.receive(&broadcast);
    let drops = ask(&mut router.bed, ShowDrops {}).unwrap();
    let of = |reason: &str| drops.iter().find(|drop| drop.reason == reason).map_or(0, |drop| drop.packets);
    assert_eq!((of("ipv4_failed"), of("reverse_path")), (3, 1));
    router.end();
}
