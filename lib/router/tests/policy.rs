// SPDX-License-Identifier: MIT
//! The switches of interfaces in a whole router on heap packets: what the fast path does, what the slow path, and that a reload
//! changes them while packets flow.

mod common;

use common::*;
use perigee_api::queries::{Reload, ShowDrops};
use perigee_packet::wire::icmp4;
use perigee_packet::{Icmp4, Ipv4};
use std::path::PathBuf;

/// The neighbors are known: their packets take the fast path from the first on.
const ROUTER: &str = r#"
[router]
cores = [0]
[port.a]
device = "heap0"
twin = false
addresses = ["10.0.1.1/24"]
[port.b]
device = "heap1"
twin = false
addresses = ["10.0.2.1/24"]
[[neighbor]]
address = "10.0.1.2"
mac = "02:00:00:00:01:0a"
[[neighbor]]
address = "10.0.1.3"
mac = "02:00:00:00:01:0c"
[[neighbor]]
address = "10.0.2.2"
mac = "02:00:00:00:01:0b"
"#;

/// A router, and the file that it is reloaded from.
struct Router {
    bed: Bed,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Router {
    fn new() -> Router {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.toml");
        let mut bed = Bed::new(ROUTER, &path, ONE_EACH);
        bed.settle();
        let mut router = Router { bed, path, _folder: folder };
        router.drain();
        router
    }

    /// Gives port a these lines, too.
    fn reload(&mut self, lines: &str) {
        let text = ROUTER.replace("device = \"heap0\"\n", &format!("device = \"heap0\"\n{lines}\n"));
        std::fs::write(&self.path, text).unwrap();
        ask(&mut self.bed, Reload { script: None }).unwrap();
        self.bed.settle();
        self.drain();
    }

    fn drain(&mut self) {
        (0..2).for_each(|port| drop(self.bed.sent(port)));
    }

    /// Port a receives a frame; returns what each port sends.
    fn receive(&mut self, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
        assert!(self.bed.receive[0][0].inject(frame));
        self.bed.settle();
        [0, 1].map(|port| self.bed.sent(port))
    }
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
    let mut router = Router::new();
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
    router.reload("redirects = false");
    assert_eq!(router.receive(&frame).map(|sent| sent.len()), [1, 0]);
    router.reload("redirects = true");
    assert_eq!(router.receive(&frame).map(|sent| sent.len()), [2, 0]);
    assert_eq!(router.bed.end(), 0);
}

// RFC 1812 5.3.7, RFC 3927 7: the fast path judges sources as the slow path does.
#[test]
fn sources_that_only_the_router_has_end_in_the_fast_path() {
    let mut router = Router::new();
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
    assert_eq!(router.bed.end(), 0);
}

// RFC 3704: strict, loose and off, changed while packets flow; both paths judge alike.
#[test]
fn a_source_needs_a_route_back_where_that_is_asked_for() {
    let mut router = Router::new();
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
        router.reload(lines);
        let sent = [near, across, nowhere].map(|source| router.receive(&from(source, 64))[1].len());
        assert_eq!(sent, expected, "{lines}");
    }
    // Broadcasts reach the slow path alone.
    router.reload("urpf = 'strict'");
    let mut broadcast = from(nowhere, 64);
    broadcast[..6].fill(0xff);
    broadcast[30..34].fill(0xff);
    Ipv4::new(&mut broadcast[14..]).unwrap().fill_checksum();
    router.receive(&broadcast);
    let drops = ask(&mut router.bed, ShowDrops {}).unwrap();
    let of = |reason: &str| drops.iter().find(|drop| drop.reason == reason).map_or(0, |drop| drop.packets);
    assert_eq!((of("ipv4_failed"), of("reverse_path")), (3, 1));
    assert_eq!(router.bed.end(), 0);
}
