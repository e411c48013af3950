// SPDX-License-Identifier: MIT
//! Packets to the groups of routing protocols reach Linux through the twins, and Linux's packets to them reach the
//! wire. Each protocol is spoken by real daemons on both sides, and reaches its final state only if both hear each
//! other.

use crate::{PORTS, Pair};
use perigee_lab::bird::Configuration;
use perigee_tests::{Frr, Good, LONG_WAIT, World, wait_until_for};
use serde_json::Value;

perigee_tests::scenarios![
    rip needs BIRDC,
    isis needs FRR,
    vrrp needs FRR,
];

/// Link-local addresses for the router's side: the twin has only those that it is given.
fn ports() -> String {
    PORTS
        .replace("8:1::1/64\"", "8:1::1/64\", \"fe80::1:1/64\"")
        .replace("8:2::1/64\"", "8:2::1/64\", \"fe80::2:1/64\"")
}

fn rip(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", &ports());
    // 224.0.0.9 and ff02::9, over UDP.
    let configuration = |interface: &str, network: &str, network6: &str| {
        Configuration::new(network)
            .networks("s4", "ipv4", false, [format!("{network}/32")])
            .networks("s6", "ipv6", false, [format!("{network6}/128")])
            .and(&format!(
                "protocol rip {{ ipv4 {{ export all; }}; interface \"{interface}\" {{ mode multicast; update time 1; }}; }}\n\
                 protocol rip ng {{ ipv6 {{ export all; }}; interface \"{interface}\" {{ update time 1; }}; }}"
            ))
    };
    let here = world.bird(configuration("wan", "10.8.0.1", "2001:db8:8::1").text());
    let there = client.bird(configuration("eth0", "10.8.0.2", "2001:db8:8::2").text());
    here.says("show route for 10.8.0.2", "via 10.0.1.2 on wan").good();
    here.says("show route for 2001:db8:8::2", "on wan").good();
    there.says("show route for 10.8.0.1", "via 10.0.1.1 on eth0").good();
    there.says("show route for 2001:db8:8::1", "via fe80::1:1 on eth0").good();
    router.alone();
    router.audited();
    router.stop();
}

/// IS-IS speaks LLC frames to 01:80:c2:00:00:14 and :15, without IP.
fn isis(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", &ports());
    let configuration = |interface: &str, number: u8| {
        format!(
            "interface {interface}\n ip router isis x\n isis hello-interval 1\n isis hello-multiplier 4\n\
             router isis x\n net 49.0001.0000.0000.000{number}.00\n"
        )
    };
    let here = world.frr(&["zebra", "isisd"], &configuration("wan", 1));
    let there = client.frr(&["zebra", "isisd"], &configuration("eth0", 2));
    for side in [&here, &there] {
        side.says("show isis neighbor detail", "State: Up").good();
    }
    router.alone();
    router.audited();
    router.stop();
}

/// VRRP speaks to 224.0.0.18, from a MAC address of its own on a macvlan. The virtual address was nobody's: no answer
/// to ARP, and frames to the virtual MAC address were another station's.
fn vrrp(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", &ports());
    let configuration = |interface: &str, priority: u8| {
        format!(
            "interface {interface}\n vrrp 5 version 3\n vrrp 5 priority {priority}\n vrrp 5 advertisement-interval 200\n \
             vrrp 5 ip 10.0.1.254\n"
        )
    };
    for (place, interface) in [("", "wan"), ("-n client ", "eth0")] {
        let mac = "address 00:00:5e:00:01:05";
        world.ip(&format!("{place}link add vrrp4 link {interface} {mac} type macvlan mode bridge"));
        world.ip(&format!("{place}addr add 10.0.1.254/32 dev vrrp4"));
        world.ip(&format!("{place}link set vrrp4 up"));
    }
    let here = world.frr(&["zebra", "vrrpd"], &configuration("wan", 100));
    // Null if it is not JSON, as it is before the protocol has begun.
    let shown = |frr: &Frr| serde_json::from_str::<Value>(&frr.ask("show vrrp json").out).unwrap_or_default();
    let state = |frr: &Frr| shown(frr)[0]["v4"]["status"].as_str().map(str::to_owned);
    let is = |frr: &Frr, wanted: &str| {
        wait_until_for(LONG_WAIT, &format!("a VRRP {wanted}"), || state(frr).as_deref() == Some(wanted));
    };
    is(&here, "Master");
    router.says("wan answers for 10.0.1.254 by the MAC address 00:00:5e:00:01:05");
    // The host has the macvlan, and the address, for the other side's part of the test.
    client.run("ip addr del 10.0.1.254/32 dev vrrp4").good();
    client.reaches("10.0.1.254");
    let neighbors = client.run("ip neigh show 10.0.1.254").good().text;
    assert!(neighbors.contains("00:00:5e:00:01:05"), "{neighbors}");
    // As a gateway: by the fast path, as any other.
    client.run("ip route replace default via 10.0.1.254").good();
    client.reaches("10.0.2.2");
    let forwarded = || router.show("workers")[0]["transmitted"].as_u64().expect("a number");
    let before = forwarded();
    client.ping(50, "10.0.2.2");
    let crossed = forwarded() - before;
    assert!(crossed >= 100, "{crossed} of 100 packets by the fast path");
    client.run("ip route replace default via 10.0.1.1").good();
    client.run("ip addr add 10.0.1.254/32 dev vrrp4").good();
    // The side with the higher priority is heard: the twin's side becomes backup. When the other ends, it is master
    // again.
    let mut there = client.frr(&["zebra", "vrrpd"], &configuration("eth0", 200));
    is(&there, "Master");
    is(&here, "Backup");
    router.says("wan does not answer any more for 10.0.1.254 ");
    assert!(!router.ask("show routes").text.contains("10.0.1.254"));
    there.kill("vrrpd").good();
    is(&here, "Master");
    router.alone();
    router.audited();
    router.stop();
}
