// SPDX-License-Identifier: MIT
//! Routing daemons beside the router decide where multicast goes: FRR's pimd by IGMPv3 joins for IPv4, smcroute for
//! IPv6.
//!
//! ```text
//! client (source) ─── wan [perigee, pimd or smcroute] lan ─── server (receiver)
//! ```
//! Every datagram has a number, and must arrive once: what both Linux and the router forwarded would arrive twice.

use crate::Pair;
use perigee_tests::{Good, Host, LONG_WAIT, Router, World, wait_until_for};
use rustix::net::sockopt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

perigee_tests::scenarios![
    a_receiver_joins_a_source_by_pimd_and_leaves needs FRR,
    ipv6_by_smcroute needs SMCROUTE,
    static_routes_need_no_daemon,
];

const PORT: u16 = 5001;
const SOURCE4: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
/// Of the range for single sources (RFC 4607).
const GROUP4: Ipv4Addr = Ipv4Addr::new(232, 1, 2, 3);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x42);

/// Sends and hears numbered datagrams.
struct Stream {
    sender: UdpSocket,
    receiver: UdpSocket,
    group: SocketAddr,
    sent: u32,
    heard: BTreeMap<u32, usize>,
}

impl Stream {
    fn new(client: &Host, server: &Host, group: IpAddr) -> Stream {
        let any = |v4: bool| if v4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let sender = client.inside(|| {
            let socket = UdpSocket::bind((any(group.is_ipv4()), 0)).expect("a socket");
            if group.is_ipv4() {
                socket.set_multicast_ttl_v4(8).expect("a TTL");
            } else {
                sockopt::set_ipv6_multicast_hops(&socket, 8).expect("a hop limit");
            }
            socket
        });
        let receiver = server.inside(|| {
            let socket = UdpSocket::bind((any(group.is_ipv4()), PORT)).expect("a socket");
            socket.set_nonblocking(true).expect("a socket that does not wait");
            socket
        });
        Stream { sender, receiver, group: (group, PORT).into(), sent: 0, heard: BTreeMap::new() }
    }

    /// Sends one datagram, and hears what has come.
    fn step(&mut self) {
        self.sender.send_to(&self.sent.to_be_bytes(), self.group).expect("a datagram is sent");
        self.sent += 1;
        // sleep: so that it is a stream and no flood; nothing is said of its rate
        std::thread::sleep(Duration::from_millis(10));
        self.hear();
    }

    fn hear(&mut self) {
        let mut buffer = [0; 64];
        loop {
            match self.receiver.recv(&mut buffer) {
                Ok(4) => {
                    *self.heard.entry(u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]])).or_default() +=
                        1
                }
                Ok(length) => panic!("a datagram of {length} bytes"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Sends until some more have arrived.
    fn arrive(&mut self, more: usize) {
        let wanted = self.heard.len() + more;
        wait_until_for(LONG_WAIT, &format!("{more} datagrams to {} to arrive", self.group), || {
            self.step();
            self.heard.len() >= wanted
        });
    }

    /// Sends until nothing arrives any more.
    fn cease(&mut self) {
        wait_until_for(LONG_WAIT, "the stream to cease", || {
            let before = self.heard.len();
            (0..30).for_each(|_| self.step());
            self.heard.len() == before
        });
    }

    fn never_twice(&self) {
        let twice: Vec<_> = self.heard.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "these arrived more than once: {twice:?}");
    }
}

/// The router's route of a group that has a source, if there is one.
fn route(router: &Router, group: IpAddr) -> Option<Value> {
    let all = router.show("multicast");
    let list = all.as_array().expect("a list").clone();
    list.into_iter().find(|entry| entry["group"] == group.to_string() && !entry["source"].is_null())
}

/// Waits until the router has Linux's route of a group from wan to these interfaces.
fn leads(router: &Router, group: IpAddr, to: &[&str]) {
    wait_until_for(LONG_WAIT, &format!("the route of {group} to {to:?}"), || {
        route(router, group).is_some_and(|entry| {
            let devices: Vec<_> = entry["to"].as_array().expect("outputs").iter().map(|to| to["dev"].clone()).collect();
            entry["origin"] == "linux" && entry["from"] == "wan" && devices == to
        })
    });
}

/// Packets that the router has counted for a group's route.
fn counted(router: &Router, group: IpAddr) -> u64 {
    route(router, group).and_then(|entry| entry["packets"].as_u64()).unwrap_or(0)
}

fn a_receiver_joins_a_source_by_pimd_and_leaves(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", crate::PORTS);
    client.reaches("10.0.2.2");
    let pim = "interface wan\n ip pim\ninterface lan\n ip pim\n ip igmp\n ip igmp version 3\n";
    let frr = world.frr(&["zebra", "pimd"], pim);
    frr.says("show ip igmp interface", "lan").good();
    let mut stream = Stream::new(&client, &server, GROUP4.into());
    stream.step();
    let here = Ipv4Addr::new(10, 0, 2, 2);
    sockopt::set_ip_add_source_membership(&stream.receiver, &GROUP4, &here, &SOURCE4).expect("a membership");
    leads(&router, GROUP4.into(), &["lan"]);
    stream.arrive(100);
    let before = (router.workers("transmitted"), counted(&router, GROUP4.into()));
    stream.arrive(100);
    let after = (router.workers("transmitted"), counted(&router, GROUP4.into()));
    assert!(after.0 >= before.0 + 90 && after.1 >= before.1 + 90, "the workers forward them: {before:?}, {after:?}");
    // Linux has seen some: pimd knows that the source is there.
    let kernel = world.ip("-s mroute show");
    assert!(kernel.contains("232.1.2.3"), "{kernel}");
    let seen: u64 = kernel
        .split_whitespace()
        .zip(kernel.split_whitespace().skip(1))
        .find_map(|(number, unit)| unit.starts_with("packets").then(|| number.parse().expect("a number")))
        .expect("a count");
    assert!((1..50).contains(&seen), "{kernel}");
    sockopt::set_ip_drop_source_membership(&stream.receiver, &GROUP4, &here, &SOURCE4).expect("the membership ends");
    wait_until_for(LONG_WAIT, "the route to end", || {
        route(&router, GROUP4.into()).is_none_or(|entry| entry["to"].as_array().is_some_and(Vec::is_empty))
    });
    stream.cease();
    stream.never_twice();
    router.stop();
}

fn ipv6_by_smcroute(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", crate::PORTS);
    client.reaches("2001:db8:2::2");
    let lines =
        format!("phyint wan enable\nphyint lan enable\nmroute from wan source 2001:db8:1::2 group {GROUP6} to lan\n");
    let file = world.file("smcroute.conf", &lines);
    let mut stream = Stream::new(&client, &server, GROUP6.into());
    stream.receiver.join_multicast_v6(&GROUP6, 0).expect("a membership");
    let mut smcroute =
        world.start(Command::new("smcrouted").args(["-n", "-N", "-P", "/run/smcroute.pid", "-f"]).arg(file));
    leads(&router, GROUP6.into(), &["lan"]);
    stream.arrive(100);
    let before = router.workers("transmitted");
    stream.arrive(100);
    assert!(router.workers("transmitted") >= before + 90, "the workers forward them");
    // The table of a daemon that ends ends with it.
    smcroute.kill().good();
    wait_until_for(LONG_WAIT, "the route to end", || route(&router, GROUP6.into()).is_none());
    stream.cease();
    stream.never_twice();
    router.stop();
}

/// What leaves by no interface, and what a TTL threshold keeps back, is dropped silently.
fn static_routes_need_no_daemon(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let lan = crate::PORTS.replace("[port.lan]", "[port.lan]\nmulticast_ttl = 7");
    let route = |group: &str| format!("[[multicast]]\ngroup = \"{group}\"\nto = [\"lan\"]\n");
    let router = world.router("", &(lan + &route("239.1.2.3") + &route(&GROUP6.to_string())));
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    let group4 = Ipv4Addr::new(239, 1, 2, 3);
    let mut four = Stream::new(&client, &server, group4.into());
    four.receiver.join_multicast_v4(&group4, &Ipv4Addr::new(10, 0, 2, 2)).expect("a membership");
    four.arrive(50);
    four.sender.set_multicast_ttl_v4(7).expect("a TTL");
    four.cease();
    router.counts_at_least("multicast.ttl", 30);
    four.never_twice();
    drop(four);
    let mut six = Stream::new(&client, &server, GROUP6.into());
    six.receiver.join_multicast_v6(&GROUP6, 0).expect("a membership");
    six.arrive(50);
    six.never_twice();
    router.stop();
}
