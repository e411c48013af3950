// SPDX-License-Identifier: MIT
//! Packets for the router itself reach Linux through the port's twin, and Linux reaches the network.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, Host, World, run, wait_for};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

perigee_tests::scenarios![
    tcp_to_the_routers_own_address_works,
    linux_reaches_the_network_through_the_twins,
    twins_can_live_in_a_namespace_of_their_own,
];

/// Sends a megabyte to a server that sends it back, on an address of the router.
fn echo_over_tcp(client: &Host, listener: &TcpListener, address: &str) {
    let sent: Vec<u8> = (0..1_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut out = client.inside(|| wait_for("a connection", || TcpStream::connect(address).ok()));
    let (mut there, _) = listener.accept().expect("a connection");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = Vec::new();
            there.read_to_end(&mut bytes).expect("the request");
            there.write_all(&bytes).expect("the answer");
            drop(there);
        });
        out.write_all(&sent).expect("the request");
        out.shutdown(std::net::Shutdown::Write).expect("the request's end");
        let mut received = Vec::new();
        out.read_to_end(&mut received).expect("the answer");
        assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
    });
}

fn tcp_to_the_routers_own_address_works(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.1.1");
    client.reaches("2001:db8:1::1");
    for address in ["10.0.1.1:5000", "[2001:db8:1::1]:5000"] {
        let listener = TcpListener::bind(address).expect("the twin has the router's address");
        echo_over_tcp(&client, &listener, address);
    }
    let twin = router.port("wan")["twin"].clone();
    assert!(twin["to_linux"].as_u64() > Some(100) && twin["from_linux"].as_u64() > Some(100), "{twin}");
    // The router answers once, the kernel under the port not at all.
    client.ping(20, "10.0.1.1");
    client.ping(20, "2001:db8:1::1");
    client.ping(20, "10.0.2.1");
    server.ping(20, "10.0.2.1");
    router.alone();
    router.stop();
}

fn linux_reaches_the_network_through_the_twins(world: &World) {
    let pair = Pair::new(world);
    let router = world.router("", PORTS);
    pair.client.reaches("10.0.2.2");
    pair.client.reaches("2001:db8:2::2");
    for address in ["10.0.1.2", "10.0.2.2", "2001:db8:1::2", "2001:db8:2::2"] {
        let ping = |words: &str| run(Command::new("ping").args(words.split(' ')).arg(address));
        wait_for("Linux to find its neighbor", || (ping("-n -c 1 -W 1").code == Some(0)).then_some(()));
        ping("-n -i 0.01 -c 20 -w 30").every_reply(20);
    }
    // Linux needs no broadcast, only a frame to the station itself: it has the port's MAC address.
    let mac = router.mac("wan").to_string();
    assert!(world.ip("-o link show dev wan").contains(&mac));
    router.stop();
}

fn twins_can_live_in_a_namespace_of_their_own(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let control = world.namespace("control");
    // Their ports may then have the names of their interfaces.
    let ports = PORTS.replace("[port.wan]", "[port.r-client]").replace("[port.lan]", "[port.r-server]");
    let router = world.router("namespace = \"control\"", &ports);
    client.reaches("10.0.1.1");
    assert_eq!(world.interfaces().len(), 2, "no twin here");
    assert!(control.run("ip addr show dev r-client").good().out.contains("10.0.1.1/24"));
    let listener = control.inside(|| TcpListener::bind("10.0.1.1:5000").expect("a listener"));
    echo_over_tcp(&client, &listener, "10.0.1.1:5000");
    client.ping(20, "10.0.2.2");
    router.stop();
    let left = control.run("ip -o link show").good().out;
    assert_eq!(left.lines().count(), 1, "lo alone:\n{left}");
}
