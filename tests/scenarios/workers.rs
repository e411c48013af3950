// SPDX-License-Identifier: MIT
//! Several workers share the traffic by flows, with a queue each or with too few.

use crate::{PORTS, Pair};
use perigee_tests::{Good, Host, LONGEST_WAIT, Router, World, patient};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

perigee_tests::scenarios![
    flows_spread_over_the_workers_queues,
    flows_spread_in_software_where_queues_are_missing,
    each_worker_receives_the_port_it_names,
];

/// Each of many flows sends packets in both directions.
fn many_flows(client: &Host, server: &Host) {
    let service = server.inside(|| UdpSocket::bind("10.0.2.2:6000").expect("a socket"));
    service.set_read_timeout(Some(patient(LONGEST_WAIT))).expect("a timeout");
    let flows: Vec<UdpSocket> =
        client.inside(|| (0..64).map(|_| UdpSocket::bind("10.0.1.2:0").expect("a socket")).collect());
    let mut buffer = [0; 64];
    for round in 0u8..10 {
        for flow in &flows {
            flow.set_read_timeout(Some(patient(LONGEST_WAIT))).expect("a timeout");
            flow.send_to(&[round], "10.0.2.2:6000").expect("sent");
            let (length, from) = service.recv_from(&mut buffer).expect("the packet");
            service.send_to(&buffer[..length], from).expect("sent back");
            assert_eq!(flow.recv(&mut buffer).expect("the answer"), 1);
            assert_eq!(buffer[0], round);
        }
    }
}

/// Several TCP streams at once, byte by byte.
fn many_streams(client: &Host, server: &Host) {
    let listener = server.inside(|| TcpListener::bind("10.0.2.2:6001").expect("a listener"));
    let streams: Vec<_> =
        client.inside(|| (0..6).map(|_| TcpStream::connect("10.0.2.2:6001").expect("a connection")).collect());
    std::thread::scope(|scope| {
        for mut stream in streams {
            let (mut there, _) = listener.accept().expect("a connection");
            scope.spawn(move || {
                let (mut bytes, mut total) = ([0; 65536], 0u64);
                loop {
                    let length = there.read(&mut bytes).expect("the stream");
                    if length == 0 {
                        return assert_eq!(total, 2_000_000);
                    }
                    let wrong = (total..).zip(&bytes[..length]).find(|(at, byte)| **byte != (at % 251) as u8);
                    assert_eq!(wrong, None);
                    total += length as u64;
                }
            });
            scope.spawn(move || {
                let data: Vec<u8> = (0..2_000_000u64).map(|at| (at % 251) as u8).collect();
                stream.write_all(&data).expect("the stream");
            });
        }
    });
}

fn check_shares(router: &Router, what: &str) {
    let (received, sent) = (router.per_worker("received"), router.per_worker("transmitted"));
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|n| *n > 50), "{what}: received by each worker: {received:?}");
    assert!(sent.iter().all(|n| *n > 50), "{what}: sent by each worker: {sent:?}");
}

fn flows_spread_over_the_workers_queues(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("workers = 2", PORTS);
    client.reaches("10.0.2.2");
    many_flows(&client, &server);
    many_streams(&client, &server);
    check_shares(&router, "a queue each");
    router.alone();
    router.stop();
}

fn flows_spread_in_software_where_queues_are_missing(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let device = |name: &str, number| format!("device = \"net_af_packet{number},iface={name},qpairs=1\"\ntwin = false");
    for name in ["r-client", "r-server"] {
        world.ip(&format!("link set {name} up"));
    }
    // DPDK's driver passes checksums on that are left to a device.
    for host in [&client, &server] {
        host.run("ethtool -K eth0 tx off").good();
    }
    let ports = PORTS.replace("interface = \"r-client\"", &device("r-client", 0));
    let ports = ports.replace("interface = \"r-server\"", &device("r-server", 1));
    let router = world.router("workers = 2", &ports);
    let log = router.log();
    for words in ["1 receive queue for 2 workers: flows are spread over them in software", "over a ring"] {
        assert!(log.contains(words), "{words} is not in\n{log}");
    }
    client.reaches("10.0.2.2");
    many_flows(&client, &server);
    // A packet at a time. Streams send as fast as they can, and the ring to a worker without a core is full some time.
    assert_eq!(router.dropped("host.hand_over_full"), 0, "nothing is lost between workers");
    many_streams(&client, &server);
    check_shares_of_hand_over(&router);
    router.alone();
    router.stop();
}

/// One queue per port: the first worker polls both, and hands the other's packets over.
fn check_shares_of_hand_over(router: &Router) {
    let workers = router.show("workers");
    let queues: Vec<String> = workers.as_array().expect("workers").iter().map(|w| w["queues"].to_string()).collect();
    assert!(queues.iter().all(|q| q.contains("hand-over")), "{queues:?}");
    check_shares(router, "by hand-over");
}

/// Both directions of a flow are different workers' then, and idle ones are woken by their own ports.
fn each_worker_receives_the_port_it_names(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let workers = "[[worker]]\ncore = 0\nports = [\"lan\"]\n[[worker]]\ncore = 0\n";
    let router = world.router("", &format!("{workers}{PORTS}"));
    let queues: Vec<String> =
        router.show("workers").as_array().expect("workers").iter().map(|w| w["queues"].to_string()).collect();
    assert_eq!(queues, ["[\"lan:0\"]", "[\"wan:0\"]"]);
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    many_flows(&client, &server);
    many_streams(&client, &server);
    check_shares(&router, "a port each");
    for line in ["port wan: polled by worker 1", "port wan: idle workers wake by socket"] {
        assert!(router.log().contains(line), "{line} is not in\n{}", router.log());
    }
    router.alone();
    router.stop();
}
