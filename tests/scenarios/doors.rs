// SPDX-License-Identifier: MIT
//! What those who only connect can do to a router: nothing.

use crate::{PORTS, Pair};
use perigee_lab::seen::{self, Seen};
use perigee_tests::{Good, Router, World, wait_until};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::thread::sleep;
use std::time::Duration;

perigee_tests::scenarios![
    slow_connections_at_a_low_limit_of_descriptors_shut_nobody_out,
    a_router_without_descriptors_forwards_and_comes_back,
    ten_thousand_connections_leave_no_memory_behind,
];

/// Where metrics are.
const METRICS: &str = "127.0.0.1:9100";

/// Resident memory, in kilobytes.
fn rss(router: &Router) -> u64 {
    Seen::look(router.pid()).expect("the router runs").resident / 1024
}

/// The most descriptors for this process.
fn raise_own_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).expect("the hard limit");
}

/// A connection to the metrics from an address of lo's.
fn connected(from: Ipv4Addr) -> TcpStream {
    let own = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&own, &SocketAddrV4::new(from, 0)).expect("an address of lo");
    connect(&own, &METRICS.parse::<SocketAddrV4>().expect("an address")).expect("somebody listens");
    TcpStream::from(own)
}

/// The metrics, asked for from another address than those who are slow.
fn scrape() -> String {
    let mut stream = connected(Ipv4Addr::new(127, 0, 0, 2));
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn slow_connections_at_a_low_limit_of_descriptors_shut_nobody_out(world: &World) {
    raise_own_limit();
    let Pair { client, .. } = Pair::new(world);
    let router = world.router(&format!("metrics = \"{METRICS}\""), PORTS);
    let pid = Pid::from_raw(router.pid() as i32).expect("a number");
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(1024), maximum: Some(1024) }).expect("a lower limit");
    client.reaches("10.0.2.2");
    let slow: Vec<TcpStream> = (0..990)
        .map(|_| {
            let mut stream = TcpStream::connect(METRICS).expect("somebody listens");
            // It may have been refused already.
            let _ = stream.write_all(b"GET /met");
            stream
        })
        .collect();
    assert!(scrape().starts_with("HTTP/1.1 200"), "another address is served");
    for what in ["ports", "linux", "neighbors"] {
        router.ask(&format!("show {what}")).good();
    }
    world.ip("link del wan");
    wait_until("the twin to be made again", || world.ip("-br link").contains("wan"));
    client.reaches("10.0.2.2");
    drop(slow);
    let log = router.stop().0;
    assert!(!log.contains("another version") && !log.contains("no file descriptor"), "{log}");
}

/// Connections from many addresses take every descriptor that is left; meanwhile a helper dies and a twin is deleted,
/// whose successors need some.
fn a_router_without_descriptors_forwards_and_comes_back(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router(&format!("metrics = \"{METRICS}\""), PORTS);
    client.reaches("10.0.2.2");
    wait_until("helper and standby", || helpers().len() == 2);
    let pid = Pid::from_raw(router.pid() as i32).expect("a number");
    let open = std::fs::read_dir(format!("/proc/{}/fd", router.pid())).expect("the router runs").count();
    let limit = open as u64 + 3;
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(limit), maximum: Some(1024) }).expect("a lower limit");
    let slow: Vec<TcpStream> = (1..=20).map(|host| connected(Ipv4Addr::new(127, 0, 1, host))).collect();
    // Not counted in /proc: an accept(2) that waits holds a number which is not yet open.
    router.says("no file descriptor left");
    let helper = helpers()[1];
    kill_process(Pid::from_raw(helper as i32).expect("a number"), Signal::KILL).expect("the helper is there");
    client.ping(50, "10.0.2.2");
    // Its routes go with it.
    world.ip("link del wan");
    // sleep: time for attempts that fail; what follows holds without any, too
    sleep(Duration::from_secs(1));
    drop(slow);
    wait_until("helper and standby", || helpers().len() == 2 && !helpers().contains(&helper));
    wait_until("the twin to be made again", || world.ip("-br link").lines().any(|link| link.starts_with("wan ")));
    client.reaches("10.0.2.2");
    router.ask("show ports").good();
    assert!(scrape().starts_with("HTTP/1.1 200"));
    let log = router.stop().0;
    assert!(log.contains("no file descriptor"), "{log}");
}

fn helpers() -> Vec<u32> {
    seen::helpers().expect("/proc").iter().map(|helper| helper.pid).collect()
}

fn ten_thousand_connections_leave_no_memory_behind(world: &World) {
    raise_own_limit();
    let Pair { client, .. } = Pair::new(world);
    let router = world.router(&format!("metrics = \"{METRICS}\""), PORTS);
    client.reaches("10.0.2.2");
    scrape();
    let before = rss(&router);
    for _ in 0..10 {
        let half_open: Vec<TcpStream> = (0..1000)
            .map(|_| {
                let mut stream = TcpStream::connect(METRICS).expect("somebody listens");
                let _ = stream.write_all(&[b'x'; 4096]); // it may have been refused already
                stream
            })
            .collect();
        drop(half_open);
    }
    assert!(scrape().starts_with("HTTP/1.1 200"));
    wait_until("memory to be given back", || rss(&router) <= before + before / 10);
    client.ping(20, "10.0.2.2");
    router.stop();
}
