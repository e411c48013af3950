// SPDX-License-Identifier: MIT
//! Filters drop what they should and nothing else; steers work without hardware support.

use crate::{PORTS, Pair};
use perigee_tests::{Good, Host, LONGEST_WAIT, World, wait_for};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

perigee_tests::scenarios![
    filters_decide_by_five_tuple_in_both_families,
    steers_are_done_in_software_where_the_device_cannot,
];

fn connects(client: &Host, address: &str, longest: Duration) -> bool {
    let address: SocketAddr = address.parse().expect("an address");
    client.inside(|| TcpStream::connect_timeout(&address, longest).is_ok())
}

fn filters_decide_by_five_tuple_in_both_families(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let filters = r#"
        [[filter]]
        src = "10.0.1.0/24"
        dst = "10.0.2.2"
        proto = "tcp"
        dport = "5000-5009"
        action = "drop"
        [[filter]]
        dst = "2001:db8:2::/64"
        proto = "tcp"
        dport = 5001
        action = "accept"
        [[filter]]
        dst = "2001:db8:2::/64"
        proto = "tcp"
        dport = "5000-5009"
        action = "drop"
    "#;
    let router = world.router("", &format!("{PORTS}\n{filters}"));
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    let listen = |address: &str| server.inside(|| TcpListener::bind(address).expect("a listener"));
    let _listeners: Vec<_> = [5000, 5001, 5010].map(|port| listen(&format!("[::]:{port}"))).into();
    for (address, open) in [
        ("10.0.2.2:5000", false),
        ("10.0.2.2:5001", false),
        ("10.0.2.2:5010", true),
        ("[2001:db8:2::2]:5000", false),
        ("[2001:db8:2::2]:5001", true), // accepted before the drop
        ("[2001:db8:2::2]:5010", true),
    ] {
        if open {
            assert!(connects(&client, address, LONGEST_WAIT), "{address}");
            continue;
        }
        // Nothing answers: what was dropped is counted.
        let reason = if address.starts_with('[') { "filter.ipv6_denied" } else { "filter.ipv4_denied" };
        let before = router.dropped(reason);
        assert!(!connects(&client, address, Duration::from_millis(700)), "{address}");
        router.counts_at_least(reason, before + 1);
    }
    client.ping(5, "10.0.2.2");
    let shown = router.ask("show filters").good().out;
    assert!(shown.contains("dport 5000-5009") && shown.contains("accept"), "{shown}");
    router.stop();
}

fn steers_are_done_in_software_where_the_device_cannot(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let steer = "[[steer]]\nport = \"wan\"\nproto = \"udp\"\ndport = 7000\n";
    let router = world.router("", &format!("{PORTS}\n{steer}"));
    let log = router.log();
    assert!(log.to_lowercase().contains("software"), "the log says that the device cannot:\n{log}");
    client.reaches("10.0.2.2");
    let receiver = server.inside(|| std::net::UdpSocket::bind("10.0.2.2:7000").expect("a socket"));
    let sender = client.inside(|| std::net::UdpSocket::bind("10.0.1.2:0").expect("a socket"));
    receiver.set_nonblocking(true).expect("a socket that does not block");
    let before = router.dropped("filter.ipv4_steered");
    for _ in 0..10 {
        sender.send_to(b"steered", "10.0.2.2:7000").expect("sent");
        let mut buffer = [0; 16];
        wait_for("the packet, by way of the slow path", || receiver.recv(&mut buffer).ok());
    }
    assert_eq!(router.dropped("filter.ipv4_steered") - before, 10);
    let shown = router.show("filters");
    assert_eq!((shown[0]["kind"].as_str(), shown[0]["done_in"].as_str()), (Some("steer"), Some("software")));
    router.stop();
}
