// SPDX-License-Identifier: MIT
//! Linux interfaces: a veth pair in namespaces of its own, made as an ordinary user by `unshare`.

mod common;

use common::*;
use perigee_dpdk::*;
use perigee_net::MacAddr;
use perigee_packet::{Pool, Port, TransmitQueue};
use std::process::{Command, exit};
use std::time::Instant;

const INSIDE: &str = "PERIGEE_TEST_INSIDE";

fn main() {
    if std::env::var_os(INSIDE).is_some() {
        ip("link add left type veth peer name right");
        ip("link set left up mtu 1600");
        ip("link set right up mtu 1600");
        return common::run(&[
            ("across_a_wire", across_a_wire),
            ("queue_pairs", queue_pairs),
            ("what_the_ring_drops_is_missed", what_the_ring_drops_is_missed),
        ]);
    }
    let refused = match Command::new("unshare").args(["-Urnm", "true"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = refused {
        println!("skipped: user namespaces are refused here ({why})");
        println!("test result: ok. 0 passed; 0 failed; 1 ignored");
        exit(i32::from(std::env::var("CI").is_ok_and(|ci| ci == "true")));
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new("unshare").arg("-Urnm").arg(me).args(std::env::args().skip(1)).env(INSIDE, "1").status();
    exit(status.unwrap().code().unwrap_or(1));
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status().expect("ip (package iproute2) runs");
    assert!(done.success(), "ip {arguments}");
}

fn interface(name: &str) -> PortConfig {
    PortConfig::new(Device::Interface(name.into()))
}

/// Frames with an Ethernet type that nothing else on the wire uses.
fn marked(n: usize) -> Vec<Vec<u8>> {
    let mut frames = frames(n, 1614);
    for frame in &mut frames {
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    }
    frames
}

/// Receives until `n` marked frames have come, leaving out what Linux sends by itself.
fn receive_marked(queue: &mut RxQueue, n: usize) -> Vec<Vec<u8>> {
    let mut got: Vec<Vec<u8>> = Vec::new();
    while got.len() < n {
        let more = receive(queue, 1);
        assert!(!more.is_empty(), "{} of {n} frames came", got.len());
        got.extend(more.into_iter().filter(|f| f[12..14] == [0x88, 0xb5]));
    }
    got
}

fn across_a_wire(eal: &Eal) {
    let pool = pool(eal);
    let mac: MacAddr = "02:00:00:00:00:09".parse().unwrap();
    let left = DpdkPort::open(eal, &interface("left"), &pool).unwrap();
    let right = DpdkPort::open(eal, &PortConfig { mac: Some(mac), ..interface("right") }, &pool).unwrap();
    let info = right.info();
    println!("    {info:?}");
    assert_eq!((info.mac, info.mtu, info.driver.as_str()), (mac, 1600, "net_af_packet"));
    assert!(info.notes.iter().any(|n| n.contains("keeps its MAC address")), "{:?}", info.notes);
    assert!(right.link().up);

    let (mut tx, mut rx) = (left.tx_queue(0).unwrap(), right.rx_queue(0).unwrap());
    let sent = marked(300);
    for chunk in sent.chunks(50) {
        send(&mut tx, &pool, chunk);
        assert_eq!(receive_marked(&mut rx, chunk.len()), chunk);
    }
    // A VLAN tag, which the kernel takes off and the driver puts back.
    let mut tagged = marked(1)[0].clone();
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x07]);
    send(&mut tx, &pool, &[tagged.clone()]);
    // Linux sends some frames of its own.
    let mut got = receive(&mut rx, 1);
    while got.iter().all(|frame| frame[12..14] != [0x81, 0]) {
        got = receive(&mut rx, 1);
        assert!(!got.is_empty(), "the tagged frame does not come");
    }
    assert!(got.contains(&tagged), "{got:x?}");
    assert!(left.stats().tx_packets >= 301 && right.stats().rx_packets >= 301);

    right.set_mtu(1500).unwrap();
    assert_eq!(right.info().mtu, 1500);
    let mtu = Command::new("ip").args(["link", "show", "right"]).output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&mtu).contains("mtu 1500"));
    tx.poll();
    drop((tx, rx, left, right));
    assert_eq!(pool.in_use(), 0);
}

/// Two transmit queues come with two receive queues, and the kernel uses both of them.
fn queue_pairs(eal: &Eal) {
    let pool = pool(eal);
    let left = DpdkPort::open(eal, &interface("left"), &pool).unwrap();
    let right = DpdkPort::open(eal, &PortConfig { transmit_queues: 2, ..interface("right") }, &pool).unwrap();
    let info = right.info();
    println!("    {}", info.notes.join("\n    "));
    assert_eq!((info.receive_queues, info.transmit_queues), (2, 2));
    assert!(info.notes.iter().any(|n| n.contains("come in pairs")), "{:?}", info.notes);
    let (mut tx, mut first, mut second) =
        (left.tx_queue(0).unwrap(), right.rx_queue(0).unwrap(), right.rx_queue(1).unwrap());
    // UDP packets of many flows.
    let sent: Vec<Vec<u8>> = (0..64u8)
        .map(|i| {
            let mut f = vec![0; 60];
            f[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
            f[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, i, 10, 1, 0, i]);
            f[34..42].copy_from_slice(&[4, i, 8, i, 0, 26, 0, 0]);
            f
        })
        .collect();
    send(&mut tx, &pool, &sent);
    let udp = |q: &mut RxQueue| receive_all(q).into_iter().filter(|f| f[12..14] == [8, 0]).collect::<Vec<_>>();
    let (mut a, mut b, start) = (Vec::new(), Vec::new(), Instant::now());
    while a.len() + b.len() < sent.len() && start.elapsed() < LONGEST_WAIT {
        a.extend(udp(&mut first));
        b.extend(udp(&mut second));
    }
    println!("    {} and {} packets", a.len(), b.len());
    assert!(!a.is_empty() && !b.is_empty());
    let mut all = [a, b].concat();
    all.sort_by_key(|f| f[29]);
    assert_eq!(all, sent);
}

/// DPDK's driver does not ask the kernel; we do.
fn what_the_ring_drops_is_missed(eal: &Eal) {
    let pool = pool(eal);
    let left = DpdkPort::open(eal, &interface("left"), &pool).unwrap();
    let right = DpdkPort::open(eal, &interface("right"), &pool).unwrap();
    let mut tx = left.tx_queue(0).unwrap();
    let room = u64::from(socket_frames(1600));
    let sent = room + 500;
    // Nobody receives them.
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    for _ in 0..sent {
        send(&mut tx, &pool, std::slice::from_ref(&frame));
    }
    let missed = right.stats().rx_missed;
    // Linux adds a few frames of its own.
    assert!((sent - room..sent - room + 50).contains(&missed), "{missed} missed of {sent}, with room for {room}");
    assert_eq!(right.stats().rx_missed, missed);
    assert_eq!(left.stats().rx_missed, 0);
}
