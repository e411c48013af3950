// SPDX-License-Identifier: MIT
//! Packets cross the router intact, it is the router that forwards them, and it leaves nothing behind.

use crate::{PORTS, Pair};
use perigee_tests::Signal;
use perigee_tests::{Good, Host, Router, World, wait_for, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

perigee_tests::scenarios![
    ping_crosses_in_both_families,
    traceroute_shows_the_router_first,
    iperf3_crosses,
    a_tcp_stream_arrives_byte_by_byte,
    sigterm_and_sigint_end_cleanly_and_restore_the_interfaces,
    a_killed_router_leaves_interfaces_as_they_were,
    fragments_and_jumbo_frames_cross,
    an_interface_that_was_made_again_is_used_again,
    two_workers_use_an_interface_that_was_made_again,
    dpdk_drives_an_interface_where_that_is_configured,
    forty_interfaces_are_ports,
    af_xdp_sockets_drive_an_interface_and_leave_no_program as root,
];

fn ping_crosses_in_both_families(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    for (host, address) in [(&client, "10.0.2.2"), (&server, "10.0.1.2"), (&client, "2001:db8:2::2")] {
        host.reaches(address);
        let before = router.workers("transmitted");
        host.ping(20, address);
        router.transmits(before + 40);
    }
    router.alone();
    router.stop();
}

fn traceroute_shows_the_router_first(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    for (address, first, tool) in
        [("10.0.2.2", "10.0.1.1", "traceroute"), ("2001:db8:2::2", "2001:db8:1::1", "traceroute -6")]
    {
        client.reaches(address);
        crosses_by(&client, tool, first, address);
    }
    assert!(router.dropped("ttl.expired") > 0 && router.dropped("hop_limit.expired") > 0);
    router.stop();
}

/// A traceroute shows one router before its destination.
pub(crate) fn crosses_by(client: &Host, tool: &str, router: &str, address: &str) {
    let shown = client.run(&format!("{tool} -n -q 1 -w 60 {address}")).good().out;
    let hops: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(hops, [router, address], "{shown}");
}

fn iperf3_crosses(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    iperf3(&client, &server, &router);
    router.alone();
    router.stop();
}

fn iperf3(client: &Host, server: &Host, router: &Router) {
    let before = router.sent();
    let _service = server.start("iperf3 -s");
    let report = wait_for("iperf3 to connect", || {
        // With -J its exit status is 0 even if the server does not listen yet.
        let out = client.run("iperf3 -J -c 10.0.2.2 -n 50M").out;
        let report: serde_json::Value = serde_json::from_str(&out).expect("iperf3's report");
        report.get("error").is_none().then_some(report)
    });
    // When the sender has given its last bytes to its socket, the receiver stops; what is in the socket then is never
    // sent.
    let sum = |side: &str| report["end"][side]["bytes"].as_u64().unwrap_or(0);
    let (sent, bytes) = (sum("sum_sent"), sum("sum_received"));
    assert!(sent >= 50_000_000 && bytes > sent / 2, "{report}");
    let carried = router.sent() - before;
    assert!(carried >= bytes / 1460, "{carried} frames through perigee for {bytes} bytes");
}

fn a_tcp_stream_arrives_byte_by_byte(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    let sent: Vec<u8> = (0..4_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for address in ["10.0.2.2:5000", "[2001:db8:2::2]:5000"] {
        let listener = server.inside(|| TcpListener::bind(address).expect("a listener"));
        let mut out = client.inside(|| wait_for("a connection", || TcpStream::connect(address).ok()));
        let received = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut bytes = Vec::new();
                listener.accept().expect("a connection").0.read_to_end(&mut bytes).expect("the stream");
                bytes
            });
            out.write_all(&sent).expect("the stream");
            drop(out);
            reader.join().expect("the reader")
        });
        assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
    }
    let carried = router.sent();
    assert!(carried > 2 * sent.len() as u64 / 1460, "{carried} frames through perigee");
    router.stop();
}

fn sigterm_and_sigint_end_cleanly_and_restore_the_interfaces(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    assert_eq!(before.len(), 2, "{before:?}");
    for signal in [Signal::TERM, Signal::INT] {
        let router = world.router("", PORTS);
        client.reaches("10.0.2.2");
        let during = world.interfaces();
        assert_eq!(during.len(), 4, "two interfaces, two twins: {during:?}");
        assert!(before.iter().all(|line| !during.contains(line)), "their MAC address is the router's: {during:?}");
        let traffic = client.start("ping -n -i 0.002 10.0.2.2");
        router.stop_by(signal);
        drop(traffic);
        assert_eq!(world.interfaces(), before);
    }
}

fn a_killed_router_leaves_interfaces_as_they_were(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    router.kill();
    wait_for("the helper to restore the interfaces", || (world.interfaces() == before).then_some(()));
    // The socket it left is replaced.
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    router.stop();
}

/// Fragments are forwarded as they come, by one worker and by two, whose queues share the interface.
fn fragments_and_jumbo_frames_cross(world: &World) {
    let Pair { client, server } = Pair::new(world);
    for workers in ["", "workers = 2"] {
        let router = world.router(workers, PORTS);
        for (host, address) in [(&client, "10.0.2.2"), (&server, "10.0.1.2"), (&client, "2001:db8:2::2")] {
            host.reaches(address);
            for (length, fragments) in [(4000, 3), (20_000, 14)] {
                let before = router.workers("transmitted");
                host.ping(10, &format!("-s {length} {address}"));
                router.transmits(before + 2 * 10 * fragments);
            }
        }
        assert_eq!(router.dropped("mtu.ipv4_too_big") + router.dropped("mtu.ipv6_too_big"), 0);
        router.stop();
    }
    world.ip("-n client link set eth0 mtu 9000");
    world.ip("-n server link set eth0 mtu 9000");
    let router = world.router("", &PORTS.replace("addresses", "mtu = 9000\naddresses"));
    for (address, length) in [("10.0.2.2", 8972), ("2001:db8:2::2", 8952)] {
        client.reaches(address);
        let before = router.workers("transmitted");
        client.ping(10, &format!("-M do -s {length} {address}"));
        router.transmits(before + 20);
    }
    router.alone();
    router.stop();
}

fn an_interface_that_was_made_again_is_used_again(world: &World) {
    made_again(world, "");
}

fn two_workers_use_an_interface_that_was_made_again(world: &World) {
    made_again(world, "workers = 2");
}

fn made_again(world: &World, workers: &str) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router(workers, PORTS);
    client.reaches("10.0.2.2");
    for _ in 0..2 {
        make_again(world, &router);
        client.reaches("10.0.2.2");
        server.reaches("10.0.1.2");
        client.ping(10, "10.0.2.2");
        assert_eq!(router.port("wan")["link_up"], true);
    }
    router.stop();
}

/// Deletes the interface to the client and makes it again.
fn make_again(world: &World, router: &Router) {
    world.ip("link del r-client");
    wait_until("the port's link to be down", || router.port("wan")["link_up"] == false);
    world.ip("link add r-client type veth peer name eth0 netns client");
    world.ip("link set r-client up");
    world.ip("-n client link set eth0 up");
    world.ip("-n client address add 10.0.1.2/24 dev eth0");
    world.ip("-n client route add default via 10.0.1.1");
}

fn dpdk_drives_an_interface_where_that_is_configured(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let ports = PORTS.replace("interface = \"r-server\"", "interface = \"r-server\"\ndriver = \"dpdk:af_packet\"");
    let router = world.router("", &ports);
    assert_eq!(
        (&router.port("wan")["driver"], &router.port("lan")["driver"]),
        (&"packet".into(), &"net_af_packet".into())
    );
    for address in ["10.0.2.2", "2001:db8:2::2"] {
        client.reaches(address);
        client.ping(20, address);
    }
    // The client's segments come as super-frames, which DPDK's driver would not send; the server's must have their
    // checksums.
    server.run("ethtool -K eth0 tx off").good();
    let _service = server.start("iperf3 -s");
    for direction in ["", "-R"] {
        let bytes = wait_for("iperf3 to connect", || {
            let out = client.run(&format!("iperf3 -J -c 10.0.2.2 -n 20M {direction}")).out;
            let report: serde_json::Value = serde_json::from_str(&out).expect("iperf3's report");
            report["end"]["sum_received"]["bytes"].as_u64()
        });
        assert!(bytes > 10_000_000, "{bytes} bytes arrived {direction}");
    }
    let wan = &router.port("wan")["counters"];
    assert!(wan["receive_super_frames"].as_u64() > Some(0), "{wan}");
    router.alone();
    router.stop();
}

// DPDK's drivers end at 32 ports.
fn forty_interfaces_are_ports(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let between: Vec<_> = (0..38).map(|number| world.wire(&format!("w-{number}"))).collect();
    let port = |number| format!("[port.p{number}]\ninterface = \"w-{number}\"\naddresses = [\"10.1.{number}.1/24\"]\n");
    let (first, last) = PORTS.split_once("[port.lan]").expect("two ports");
    // The server's is the last one.
    let ports = [first.to_owned(), (0..between.len()).map(port).collect(), format!("[port.lan]{last}")].concat();
    let router = world.router("", &ports);
    for (host, address) in [(&client, "10.0.2.2"), (&server, "2001:db8:1::2"), (&client, "10.1.37.1")] {
        host.reaches(address);
        host.ping(10, address);
    }
    router.alone();
    router.stop();
}

/// One port by AF_XDP sockets, one by packet sockets; of the first the interface is made again, for a router without
/// privileges.
fn af_xdp_sockets_drive_an_interface_and_leave_no_program(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let whole = || client.run("ethtool -K eth0 tx off txvlan off").good();
    whole();
    let ports = PORTS.replace("interface = \"r-client\"", "interface = \"r-client\"\ndriver = \"xdp\"");
    assert_ne!(ports, PORTS);
    for workers in ["", "workers = 2\nslow_paths = 2"] {
        let before = world.interfaces();
        let router = world.router(workers, &ports);
        assert_eq!((&router.port("wan")["driver"], &router.port("lan")["driver"]), (&"xdp".into(), &"packet".into()));
        assert!(world.ip("-details link show r-client").contains("prog/xdp"));
        for (host, address) in [(&client, "10.0.2.2"), (&server, "10.0.1.2"), (&client, "2001:db8:2::2")] {
            host.reaches(address);
            host.ping(20, &format!("-s 4000 {address}"));
        }
        iperf3(&client, &server, &router);
        let traffic = client.start("ping -n -i 0.002 10.0.2.2");
        router.alone();
        router.stop();
        drop(traffic);
        assert_eq!(world.interfaces(), before);
        assert!(!world.ip("-details link show r-client").contains("xdp"));
    }
    let router = world.router("", &ports);
    for _ in 0..2 {
        make_again(world, &router);
        whole();
        client.reaches("10.0.2.2");
        server.reaches("10.0.1.2");
        assert!(world.ip("-details link show r-client").contains("prog/xdp"));
    }
    router.kill();
    let is_gone = || !world.ip("-details link show r-client").contains("xdp");
    wait_until("the program to be gone", is_gone);
    // DPDK's driver detaches its program itself, for which the router has no privilege any more.
    for kill in [false, true] {
        let router = world.router("", &ports.replace("driver = \"xdp\"", "driver = \"dpdk:af_xdp\""));
        assert!(!is_gone());
        if kill {
            router.kill();
        } else {
            router.stop();
        }
        wait_until("DPDK's program to be gone", is_gone);
    }
}
