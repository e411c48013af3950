// SPDX-License-Identifier: MIT
//! A flood of packets that need the slow path costs those packets, and no others.

use perigee_tests::{Router, World, frame, wait_seeing, wait_until};

perigee_tests::scenarios![
    packets_with_options,
    packets_to_be_fragmented,
    a_class_that_is_full_costs_no_other_class_and_no_other_port,
];

/// A packet to the lan costs the slow path about thirty fragments; one to the dmz is simple.
const PORTS: &str = r#"
[port.wan]
interface = "w-wan"
addresses = ["10.0.1.1/24"]
[port.lan]
interface = "w-lan"
addresses = ["10.0.2.1/24"]
mtu = 68
[port.dmz]
interface = "w-dmz"
addresses = ["10.0.3.1/24"]
[[neighbor]]
address = "10.0.2.2"
mac = "02:00:00:00:00:99"
[[neighbor]]
address = "10.0.3.2"
mac = "02:00:00:00:00:99"
"#;

/// Every packet a worker received went out, to the slow path, or ended under a reason.
pub fn check_sums(router: &Router) {
    let sums = || {
        let drops = router.show("drops --all");
        let fast =
            drops.as_array().expect("reasons").iter().filter(|d| d["module"] != "slowpath" && d["kind"] == "drop");
        let dropped: u64 = fast.map(|d| d["packets"].as_u64().unwrap_or(0)).sum();
        (router.workers("received"), router.workers("transmitted") + router.workers("punted") + dropped)
    };
    // Twice the same, as the numbers are read one after the other.
    let mut last = (0, 0);
    wait_seeing("the packets that workers received to be accounted for", sums, |now| {
        let settled = *now == last && now.0 == now.1;
        last = *now;
        settled
    });
}

fn flooded(world: &World, slow_paths: u8, complex: impl Fn(perigee_net::MacAddr) -> Vec<u8>) {
    let (wan, lan, dmz) = (world.wire("w-wan"), world.wire("w-lan"), world.wire("w-dmz"));
    let router = world.router(&format!("punt_ring = 64\nslow_paths = {slow_paths}"), PORTS);
    let mac = router.mac("wan");
    let (complex, simple) = (complex(mac), frame::udp4(mac, "10.0.1.2", "10.0.3.2", 100));
    let (mut sent, mut arrived) = (0u64, 0u64);
    wait_until("the ring to the slow path to overflow", || {
        for _ in 0..200 {
            (0..9).for_each(|_| wan.send(&complex));
            wan.send(&simple);
            sent += 1;
            arrived += dmz.drain().iter().filter(|f| frame::is_udp_to(f, "10.0.3.2")).count() as u64;
            lan.drain();
        }
        router.dropped("host.punt_ring_full") > 100
    });
    check_sums(&router);
    // None of the simple packets was punted or dropped: as many arrived as the worker sent.
    let arrived = || {
        arrived += dmz.drain().iter().filter(|f| frame::is_udp_to(f, "10.0.3.2")).count() as u64;
        (arrived, router.workers("transmitted"))
    };
    let what = "as many simple packets to arrive as workers transmitted";
    let (arrived, _) = wait_seeing(what, arrived, |(arrived, transmitted)| arrived == transmitted);
    assert!(arrived > 0 && arrived <= sent, "{arrived} of {sent} simple packets arrived");
    assert_eq!(router.dropped("host.transmit_full"), 0);
    // And the slow path is still alive.
    wan.send(&frame::arp_request("10.0.1.2", "10.0.1.1"));
    wan.expect("an ARP reply", |f| frame::arp(f).is_some_and(|m| m.operation() == 2));
    router.stop();
}

fn packets_to_be_fragmented(world: &World) {
    flooded(world, 3, |mac| frame::udp4(mac, "10.0.1.2", "10.0.2.2", 1400));
}

fn packets_with_options(world: &World) {
    flooded(world, 1, |mac| {
        frame::with_options(frame::udp4(mac, "10.0.1.2", "10.0.2.2", 1400), &[7, 7, 4, 0, 0, 0, 0, 0])
    });
}

/// What one port sends too much of is missing there alone.
fn a_class_that_is_full_costs_no_other_class_and_no_other_port(world: &World) {
    let limits = "[policer]\ndiscovery = 200\ndiscovery_burst = 40\nicmp = 200\nicmp_burst = 40\nmanagement = 200\n\
                  management_burst = 40\nother = 200\nother_burst = 40\nunresolved = 200\nunresolved_burst = 40\n";
    let (wan, lan, _dmz) = (world.wire("w-wan"), world.wire("w-lan"), world.wire("w-dmz"));
    let router = world.router("", &format!("{limits}{}", PORTS.replace("mtu = 68", "")));
    let mac = router.mac("wan");
    let kinds: Vec<(&str, Vec<u8>)> = vec![
        ("other", frame::with_options(frame::udp4(mac, "10.0.1.2", "10.0.3.2", 100), &[7, 7, 4, 0, 0, 0, 0, 0])),
        ("management", frame::udp4(mac, "10.0.1.2", "10.0.1.1", 100)),
        ("unresolved", frame::udp4(mac, "10.0.1.2", "10.0.3.77", 100)),
        ("discovery", frame::arp_request("10.0.1.2", "10.0.1.1")),
    ];
    for (class, garbage) in &kinds {
        wait_until(&format!("the class {class} to be full"), || {
            (0..200).for_each(|_| wan.send(garbage));
            wan.drain();
            router.dropped(&format!("host.policed_{class}")) > 100
        });
        // Another port's share of the class is untouched, and of this port the other classes'.
        lan.send(&frame::arp_request("10.0.2.2", "10.0.2.1"));
        lan.expect("an ARP reply", |f| frame::arp(f).is_some_and(|m| m.operation() == 2));
    }
    check_sums(&router);
    router.stop();
}
