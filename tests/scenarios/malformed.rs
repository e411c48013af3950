// SPDX-License-Identifier: MIT
//! Malformed frames end under their reason, and no packet buffer is lost with them.

use perigee_net::MacAddr;
use perigee_tests::frame::{changed, changed4, tagged, udp4, udp6, with_options};
use perigee_tests::{Router, Wire, World, frame, wait_for, wait_seeing};

perigee_tests::scenarios![
    each_malformed_frame_ends_under_its_reason,
    what_is_merely_unusual_is_forwarded,
    mutated_frames_break_nothing,
];

const PORTS: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.lan]
interface = "w-lan"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
[[neighbor]]
address = "10.0.2.2"
mac = "02:00:00:00:00:99"
# To whom ICMP errors go: were they looked for in vain, that would be drops as well, on a busy machine while others are counted.
[[neighbor]]
address = "10.0.1.2"
mac = "02:00:00:00:00:99"
[[neighbor]]
address = "2001:db8:1::2"
mac = "02:00:00:00:00:99"
"#;

fn start(world: &World) -> (Wire, Wire, Router) {
    (world.wire("w-wan"), world.wire("w-lan"), world.router("", PORTS))
}

/// A frame, and the reason under which it must end.
type Case = (&'static str, Vec<u8>);

fn ipv4_cases(mac: MacAddr) -> Vec<Case> {
    let good = || udp4(mac, "10.0.1.2", "10.0.2.2", 40);
    vec![
        ("ipv4_valid.short", changed(good(), |f| f.truncate(33))),
        ("ipv4_valid.short", changed(good(), |f| f.truncate(14))),
        ("ipv4_valid.checksum", changed(good(), |f| f[24] ^= 1)),
        ("ipv4_valid.version", changed4(good(), |p| p[0] = 0x55)),
        ("ipv4_valid.version", changed4(good(), |p| p[0] = 0x65)),
        ("ipv4_valid.header_length", changed4(good(), |p| p[0] = 0x44)),
        ("ipv4_valid.total_length", changed4(good(), |p| p[2..4].copy_from_slice(&[0, 19]))),
        ("slowpath.truncated", changed4(good(), |p| p[2..4].copy_from_slice(&[0, 69]))),
        ("slowpath.truncated", changed(good(), |f| f.truncate(60))),
        ("ipv4_valid.martian_source", changed4(good(), |p| p[12] = 127)),
        ("ipv4_valid.martian_source", changed4(good(), |p| p[12] = 0)),
        ("ipv4_valid.martian_source", changed4(good(), |p| p[12..16].fill(255))),
        ("ipv4_valid.martian_source", changed4(good(), |p| p[12] = 224)),
        ("ipv4_valid.martian_destination", changed4(good(), |p| p[16] = 127)),
        ("ipv4_valid.martian_destination", changed4(good(), |p| p[16] = 0)),
        ("ipv4_valid.martian_destination", changed4(good(), |p| p[16..20].fill(255))),
        ("slowpath.bad_option", with_options(good(), &[7, 40, 4, 0])),
        ("slowpath.source_route", with_options(good(), &[131, 7, 4, 10, 0, 2, 2, 0])),
        ("ipv4_valid.own_source", changed4(good(), |p| p[12..16].copy_from_slice(&[10, 0, 1, 1]))),
        ("ipv4_valid.martian_source", changed4(good(), |p| p[12..16].copy_from_slice(&[10, 0, 2, 255]))),
        ("slowpath.directed_broadcast", changed4(good(), |p| p[16..20].copy_from_slice(&[10, 0, 2, 255]))),
        ("slowpath.link_local", changed4(good(), |p| p[12..14].copy_from_slice(&[169, 254]))),
        ("slowpath.link_broadcast", changed(good(), |f| f[..6].fill(0xff))),
        ("slowpath.bad_icmp", changed(frame::echo4(mac, "10.0.1.2", "10.0.1.1"), |f| f[36] ^= 1)),
        ("slowpath.ttl_expired", changed4(good(), |p| p[8] = 0)),
    ]
}

fn other_cases(mac: MacAddr) -> Vec<Case> {
    let good = || udp6(mac, "2001:db8:1::2", "2001:db8:2::2", 40);
    let mut cases = vec![
        ("ipv6_valid.short", changed(good(), |f| f.truncate(53))),
        ("ipv6_valid.version", changed(good(), |f| f[14] = 0x40)),
        ("slowpath.truncated", changed(good(), |f| f.truncate(90))),
        ("ipv6_valid.multicast_source", changed(good(), |f| f[22] = 0xff)),
        ("ipv6_valid.unspecified", changed(good(), |f| f[22..38].fill(0))),
        ("ipv6_valid.unspecified", changed(good(), |f| f[38..54].fill(0))),
        (
            "ipv6_valid.loopback",
            changed(good(), |f| {
                f[22..37].fill(0);
                f[37] = 1;
            }),
        ),
        ("slowpath.own_source", udp6(mac, "2001:db8:2::1", "2001:db8:2::2", 40)),
        ("classify.not_ours", changed(good(), |f| f[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x55]))),
        ("classify.unknown_vlan", tagged(udp4(mac, "10.0.1.2", "10.0.2.2", 40), 9)),
        ("slowpath.arp_malformed", changed(frame::arp_request("10.0.1.2", "10.0.1.1"), |f| f.truncate(30))),
        ("slowpath.arp_malformed", changed(frame::arp_request("10.0.1.2", "10.0.1.1"), |f| f[14] = 9)),
        ("slowpath.arp_sender_mac", changed(frame::arp_request("10.0.1.2", "10.0.1.1"), |f| f[22] = 0xff)),
    ];
    // A frame whose source is a group address.
    cases.push(("slowpath.bad_frame", changed(frame::arp_request("10.0.1.2", "10.0.1.1"), |f| f[6] = 1)));
    cases
}

fn each_malformed_frame_ends_under_its_reason(world: &World) {
    let (wan, lan, router) = start(world);
    let mac = router.mac("wan");
    for (number, (reason, frame)) in ipv4_cases(mac).into_iter().chain(other_cases(mac)).enumerate() {
        let (before, all) = (router.dropped(reason), router.all_drops());
        wan.send(&frame);
        let what = format!("frame {number} under {reason}: {frame:02x?}");
        wait_seeing(&what, || router.dropped(reason), |packets| *packets > before);
        assert_eq!(router.dropped(reason), before + 1, "frame {number} under {reason}");
        assert_eq!(router.all_drops(), all + 1, "frame {number} under {reason} and nothing else");
    }
    assert_eq!(router.workers("transmitted"), 0, "none of them was sent on");
    assert!(lan.drain().iter().all(|f| frame::ip4(f).is_none_or(|p| p.destination().to_string() != "10.0.2.2")));
    router.stop();
}

fn what_is_merely_unusual_is_forwarded(world: &World) {
    let (wan, lan, router) = start(world);
    let mac = router.mac("wan");
    // Padding, more bytes than the packet has, a wrong UDP length: none of a router's business.
    let padded = |length: usize| changed(udp4(mac, "10.0.1.2", "10.0.2.2", 1), |f| f.resize(length, 0xaa));
    for frame in [padded(60), padded(61), padded(1514), changed(padded(60), |f| f[38..40].fill(0xff))] {
        wan.send(&frame);
        let out = lan.expect("the packet", |f| frame::is_udp_to(f, "10.0.2.2"));
        let packet = frame::ip4(&out).expect("IPv4");
        assert_eq!((packet.total_len(), packet.ttl(), packet.verify_checksum()), (29, 63, true));
        assert_eq!(packet.payload(), &frame[34..43]);
    }
    assert_eq!(router.all_drops(), 0);
    router.stop();
}

/// A small generator (splitmix64): a test that fails prints its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit as u64) as usize
    }
}

fn mutated_frames_break_nothing(world: &World) {
    let (wan, lan, router) = start(world);
    let mac = router.mac("wan");
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    let mut random = Random(seed);
    let cases: Vec<_> = ipv4_cases(mac).into_iter().chain(other_cases(mac)).collect();
    for _ in 0..30_000 {
        let mut frame = cases[random.below(cases.len())].1.clone();
        for _ in 0..random.below(4) {
            let at = 6 + random.below(frame.len() - 6);
            frame[at] = random.below(256) as u8;
        }
        frame.truncate(14 + random.below(frame.len()));
        wan.send(&frame);
        if random.below(64) == 0 {
            wan.drain();
            lan.drain();
        }
    }
    // The first request may meet a ring that is still full.
    wait_for("an ARP reply", || {
        wan.send(&frame::arp_request("10.0.1.2", "10.0.1.1"));
        wan.drain().into_iter().find(|f| frame::arp(f).is_some_and(|m| m.operation() == 2))
    });
    assert!(router.all_drops() > 1000);
    router.stop();
}
