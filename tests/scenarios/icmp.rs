// SPDX-License-Identifier: MIT
//! The router's ICMP errors: packets that are too big, whose TTL has expired, or that come too often.

use crate::Pair;
use perigee_packet::wire::icmp4::{ECHO_REPLY, TIME_EXCEEDED};
use perigee_tests::{Asserts, World, frame, wait_seeing, wait_until};

perigee_tests::scenarios![
    too_big_packets_are_fragmented_or_refused_with_the_mtu,
    the_last_hop_is_told_and_local_packets_are_not,
    errors_are_rate_limited_and_replies_are_not,
];

/// The way to the server takes packets of 1400 bytes, the way to the client of 1500.
const NARROW: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.lan]
interface = "r-server"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
mtu = 1400
"#;

fn too_big_packets_are_fragmented_or_refused_with_the_mtu(world: &World) {
    let Pair { client, server } = Pair::new(world);
    world.ip("-n server link set eth0 mtu 1400");
    let router = world.router("", NARROW);
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    // 1372 bytes of data make 1400 with the headers of IPv4 and ICMP, 1352 with those of IPv6.
    client.ping(5, "-M do -s 1372 10.0.2.2");
    client.ping(5, "-M do -s 1352 2001:db8:2::2");
    let too_big = || router.dropped("mtu.ipv4_too_big") + router.dropped("mtu.ipv6_too_big");
    assert_eq!(too_big(), 0);

    // While replies are late, ping sends more than five.
    let sent = client.ping(5, "-M dont -s 1472 10.0.2.2").pings_sent();
    wait_seeing("what ping sent to be too big", too_big, |packets| *packets >= sent);
    assert_eq!(too_big(), sent);
    let reassembled = || server.run("grep -A1 ReasmOKs /proc/net/snmp").text;
    wait_seeing("the server to reassemble all of them", reassembled, |text| text.contains(&format!(" {sent} ")));

    let output = client.ping_refused("-M do -s 1472 10.0.2.2");
    assert!(output.contains("From 10.0.1.1") && output.contains("mtu = 1400"), "{output}");
    let output = client.ping_refused("-M do -s 1452 2001:db8:2::2");
    assert!(output.contains("From 2001:db8:1::1") && output.contains("1400"), "{output}");
    router.counts("slowpath.too_big", 2);
    // The client has learned the path MTU.
    assert!(client.run("ip route get 10.0.2.2").text.contains("mtu 1400"));
    assert!(client.run("ip -6 route get 2001:db8:2::2").text.contains("mtu 1400"));
    router.stop();
}

fn the_last_hop_is_told_and_local_packets_are_not(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", NARROW);
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    for (address, from) in [("10.0.2.2", "10.0.1.1"), ("2001:db8:2::2", "2001:db8:1::1")] {
        let output = client.ping_refused(&format!("-t 1 {address}"));
        assert!(output.contains(&format!("From {from}")) && output.to_lowercase().contains("exceeded"), "{output}");
        client.ping(2, &format!("-t 2 {address}"));
        client.ping(2, &format!("-t 1 {from}"));
    }
    router.stop();
}

fn errors_are_rate_limited_and_replies_are_not(world: &World) {
    let (wan, _lan) = (world.wire("w-wan"), world.wire("w-lan"));
    let ports = NARROW.replace("r-client", "w-wan").replace("r-server", "w-lan");
    let known = "[[neighbor]]\naddress = \"10.0.1.2\"\nmac = \"02:00:00:00:00:99\"\n";
    let router = world.router("icmp_rate = 1", &format!("{ports}\n{known}"));
    let mac = router.mac("wan");
    let expired = frame::changed4(frame::udp4(mac, "10.0.1.2", "10.0.2.2", 8), |packet| packet[8] = 1);
    for _ in 0..200 {
        wan.send(&expired);
    }
    router.counts("slowpath.ttl_expired", 200);
    for _ in 0..20 {
        wan.send(&frame::echo4(mac, "10.0.1.2", "10.0.1.1"));
    }
    router.counts("ipv4_lookup.local", 20);
    let (mut errors, mut replies) = (0, 0);
    wait_until("all replies", || {
        for kind in wan.drain().iter().filter_map(|f| frame::icmp(f)) {
            errors += u32::from(kind == (TIME_EXCEEDED, 0));
            replies += u32::from(kind == (ECHO_REPLY, 0));
        }
        replies == 20
    });
    // One immediately, then one per second: far fewer than 200 unless this took minutes.
    assert!((1..100).contains(&errors), "{errors} errors for 200 packets at 1 a second");
    router.stop();
}
