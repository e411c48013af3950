// SPDX-License-Identifier: MIT
//! Interfaces that change: MTU, up and down, carrier, deleted and made again.

use super::*;

/// Slots are as long as the MTU at the start asks for; it may grow afterwards.
/// Slots are made for the MTU at the start; longer frames arrive all the same, as far as buffers have room.
pub fn an_mtu_that_grows() {
    ip("link set right mtu 1500");
    let pool = HeapPool::leak(4096);
    let left = open(SocketConfig::new("left"), pool);
    let right = open(SocketConfig { room: 5000, number: 7, ..SocketConfig::new("right") }, pool);
    let (mut tx, mut rx) = (left.tx_queue(0).unwrap(), right.rx_queue(0).unwrap());
    ip("link set right mtu 9000");
    send(&mut tx, pool, &[frame(60, 1)]);
    assert_eq!(receive(&mut rx, pool, 1, ours).len(), 1);
    send(&mut tx, pool, &[frame(60, 1), frame(9014, 2), frame(1900, 3), frame(61, 4), frame(5000, 5), frame(62, 6)]);
    let got = receive(&mut rx, pool, 5, ours);
    assert!(got == [frame(60, 1), frame(1900, 3), frame(61, 4), frame(5000, 5), frame(62, 6)], "{} came", got.len());
    assert_eq!(right.stats().rx_errors, 1);
    right.set_mtu(4900).unwrap();
    let error = right.set_mtu(5000).unwrap_err();
    assert!(error.contains("an MTU of 5000 was requested") && error.contains("set it in the configuration"), "{error}");
    drop((rx, tx, left, right));
    assert_eq!(pool.in_use(), 0, "buffers leaked");
}

pub fn down_and_up() {
    for queues in [1, 2] {
        let mut pair = Pair::new(queues);
        crosses(&mut pair);
        ip("link set right down");
        assert!(!pair.right.link().up);
        ip("link set right up");
        crosses(&mut pair);
        pair.end();
    }
}

/// Of a new interface, whose IFF_RUNNING may follow by up to a second (where, does not show every time).
pub fn a_carrier_is_seen_at_once() {
    let pool = HeapPool::leak(64);
    for _ in 0..3 {
        let mut other = Command::new("unshare").args(["-n", "sleep", "60"]).spawn().unwrap();
        let namespace = format!("/proc/{}/ns/net", other.id());
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        while std::fs::read_link(&namespace).is_ok_and(|link| link == own) {
            std::thread::yield_now();
        }
        let far = |command: &str| {
            let net = format!("--net={namespace}");
            assert!(Command::new("nsenter").arg(net).args(command.split(' ')).status().unwrap().success());
        };
        ip(&format!("link add near type veth peer name far netns {}", other.id()));
        far("ip link set far up");
        ip("link set near up");
        let port = open(SocketConfig::new("near"), pool);
        let up = port.link().up;
        far("ip link set far down");
        let down = !port.link().up;
        drop(port);
        ip("link del near");
        other.kill().and_then(|()| other.wait()).unwrap();
        assert!(up && down, "up {up}, down {down}");
    }
}

/// Groups of sockets received what their own port had sent.
pub fn what_is_sent_is_not_received() {
    for queues in [1, 3] {
        let mut pair = Pair::new(queues);
        let mut back = pair.right.tx_queue(0).unwrap();
        let sent: Vec<_> = (0..64).map(|flow| udp(flow, 0, [0, 0], 32)).collect();
        let far = open(SocketConfig { number: 7, ..SocketConfig::new("left") }, pair.pool);
        let mut far = far.rx_queue(0).unwrap();
        send(&mut back, pair.pool, &sent);
        assert_eq!(receive(&mut far, pair.pool, 64, |frame| frame[12..14] == [8, 0]).len(), 64);
        for rx in &mut pair.rx {
            assert_eq!(receive_all(rx, pair.pool, |frame| frame[12..14] == [8, 0]).len(), 0, "{queues} queues");
        }
        drop((back, far));
        pair.end();
    }
}

/// Sends until a frame arrives on any queue: a queue looks for its interface only from time to time.
pub fn crosses(pair: &mut Pair) {
    let start = Instant::now();
    for attempt in 0.. {
        let mut packets = vec![pair.pool.packet(&frame(64, attempt)).unwrap().into_handle()];
        pair.tx.transmit(&mut packets);
        pair.tx.discard(&mut packets);
        for rx in &mut pair.rx {
            if !receive_for(rx, pair.pool, 1, LONG_ENOUGH, ours).is_empty() {
                return;
            }
        }
        assert!(start.elapsed() < LONGEST_WAIT, "no frame of {attempt} came");
    }
}

pub fn deleted_and_made_again() {
    for queues in [1, 2] {
        let mut pair = Pair::new(queues);
        pair.right.set_promiscuous(true).unwrap();
        crosses(&mut pair);
        for _ in 0..3 {
            let before = pair.right.stats();
            ip("link del left");
            assert!(!pair.right.link().up);
            pair.send(&[frame(60, 0)]);
            assert!(pair.receive_all().is_empty());
            wire(9000);
            crosses(&mut pair);
            assert!(pair.right.link().up);
            // Once for that, once as a veth can only so receive for the port's address, which the new one does not
            // have.
            assert!(shown("right").contains("promiscuity 2 "), "{}", shown("right"));
            let after = pair.right.stats();
            assert!(after.rx_packets > before.rx_packets && after.rx_missed >= before.rx_missed);
            // The second time the other queue has its part of the flows, too.
            let sent: Vec<_> = (0..64).map(|flow| udp(flow, 0, [0, 0], 32)).collect();
            let start = Instant::now();
            loop {
                pair.send(&sent);
                let ipv4 = |frame: &[u8]| frame[12..14] == [8, 0];
                let mut numbers = Vec::new();
                for rx in &mut pair.rx {
                    numbers.push(receive_all(rx, pair.pool, ipv4).len());
                }
                if numbers.iter().sum::<usize>() == 64 && !numbers.contains(&0) {
                    break;
                }
                assert!(start.elapsed() < LONGEST_WAIT, "{numbers:?}");
            }
        }
        assert_eq!(pair.right.info().notes, Vec::<String>::new());
        pair.end();
    }
}
