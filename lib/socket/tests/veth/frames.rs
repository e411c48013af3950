// SPDX-License-Identifier: MIT
//! What arrives, and how: lengths, tags, times, flows, checksums, and what is dropped.

use super::*;

pub fn every_length() {
    let mut pair = Pair::new(1);
    let lengths: Vec<usize> = (60..=9014).step_by(7).chain([61, 1514, 1518, 2047, 2048, 2049, 9013, 9014]).collect();
    let frames: Vec<_> = lengths.iter().enumerate().map(|(i, &length)| frame(length, i)).collect();
    for chunk in frames.chunks(60) {
        pair.send(chunk);
        let got = pair.receive(chunk.len());
        assert_eq!(got.len(), chunk.len());
        assert!(got == chunk, "frames of {} bytes and more came changed", chunk[0].len());
    }
    let bytes: usize = lengths.iter().sum();
    let (sent, received) = (pair.left.stats(), pair.right.stats());
    assert_eq!((sent.tx_packets, sent.tx_bytes, sent.tx_errors), (lengths.len() as u64, bytes as u64, 0));
    assert!(received.rx_packets >= lengths.len() as u64 && received.rx_bytes >= bytes as u64);
    assert_eq!((received.rx_missed, received.rx_errors, received.rx_no_buffer), (0, 0, 0));
    // A batch that was received on one side goes out on the other as it is.
    pair.send(&frames[..40]);
    let mut batch = Batch::new(pair.pool);
    let mut back = pair.right.tx_queue(0).unwrap();
    let mut home = pair.left.rx_queue(0).unwrap();
    let (mut turned, mut got) = (0, Vec::new());
    let start = Instant::now();
    while turned < 40 && start.elapsed() < LONGEST_WAIT {
        batch.refill();
        pair.rx[0].receive(&mut batch, 32);
        turned += back.send(&mut batch, 256);
    }
    let mut batch = Batch::new(pair.pool);
    while got.len() < 40 && start.elapsed() < LONGEST_WAIT {
        home.receive(&mut batch, 32);
        got.extend(batch.live().iter().map(|slot| batch.frame(slot).unwrap().to_vec()).filter(|f| ours(f)));
        batch.refill();
    }
    assert!(got == frames[..40], "{} frames came back", got.len());
    drop((batch, back, home));
    pair.end();
}

pub fn tags_come_back() {
    let mut pair = Pair::new(1);
    let tagged = |tags: &[[u8; 4]], length| {
        let mut frame = frame(length, length);
        frame.splice(12..12, tags.concat());
        frame
    };
    let frames = [
        tagged(&[[0x81, 0, 0, 7]], 60),
        tagged(&[[0x81, 0, 0xe0, 0]], 61),
        tagged(&[[0x88, 0xa8, 0x30, 100]], 500),
        tagged(&[[0x88, 0xa8, 0, 100], [0x81, 0, 0x60, 7]], 1500),
        tagged(&[[0x81, 0, 0, 1], [0x81, 0, 0, 2]], 70),
        tagged(&[[0x81, 0, 0x0f, 0xff]], 9014),
    ];
    pair.send(&frames);
    let got = pair.receive(frames.len());
    for (got, sent) in got.iter().zip(&frames) {
        assert_eq!(got[..22], sent[..22]);
        assert!(got == sent, "a tagged frame of {} bytes came changed", sent.len());
    }
    assert_eq!(got.len(), frames.len());
    pair.end();
}

/// By the kernel's clock, as a veth has none; in order, and between sending and receiving.
pub fn frames_have_the_times_of_their_arrival() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut pair = Pair::new(1);
    let before = now();
    // Long ones do not fit the ring's slots.
    let frames: Vec<_> = [60, 1514, 9014, 60].into_iter().map(|length| frame(length, 1)).collect();
    pair.send(&frames);
    let (mut batch, mut times) = (Batch::new(pair.pool), vec![before]);
    let start = Instant::now();
    while times.len() <= frames.len() && start.elapsed() < LONGEST_WAIT {
        batch.refill();
        pair.rx[0].receive(&mut batch, 32);
        for slot in batch.live() {
            if !batch.frame(slot).is_some_and(ours) {
                continue;
            }
            let known = batch.slot(slot).unwrap().flags() & (flags::TIME | flags::DEVICE_TIME);
            assert_eq!(known, flags::TIME);
            times.push(batch.time(slot).unwrap());
        }
        std::thread::yield_now();
    }
    times.push(now());
    assert!(times.len() == 6 && times.is_sorted(), "{times:?}");
    drop(batch);
    pair.end();
}

pub fn flows_stay_together_and_fragments_as_sent() {
    let mut pair = Pair::new(2);
    let ipv4 = |frame: &[u8]| frame[12..14] == [8, 0];
    let sent: Vec<_> = (0..6).flat_map(|number| (0..32).map(move |flow| udp(flow, number, [0, 0], 32))).collect();
    for chunk in sent.chunks(64) {
        pair.send(chunk);
    }
    let got = receive_by_each(&mut pair.rx, pair.pool, sent.len(), ipv4);
    let [a, b] = &got[..] else { panic!("two queues") };
    println!("    {} and {} frames", a.len(), b.len());
    assert!(!a.is_empty() && !b.is_empty());
    assert_eq!(a.len() + b.len(), sent.len());
    for flow in 0..32 {
        let of = |all: &[Vec<u8>]| all.iter().filter(|f| f[29] == flow).cloned().collect::<Vec<_>>();
        let (a, b) = (of(a), of(b));
        assert!(a.is_empty() || b.is_empty(), "flow {flow} came on both queues");
        assert!([a, b].concat() == of(&sent), "flow {flow} came in another order");
    }
    // The kernel would make one packet of these two, if it were asked to keep fragments together.
    let pieces = [udp(1, 99, [0x20, 0], 40), udp(1, 99, [0, 5], 40)];
    pair.send(&pieces);
    let mut got = receive_by_each(&mut pair.rx, pair.pool, pieces.len(), ipv4).concat();
    got.sort_by_key(|f| f[20..22] == [0, 5]);
    assert_eq!(got, pieces);
    pair.end();
}

/// Linux leaves the checksums of UDP to a veth, which leaves them as they are.
pub fn unfinished_checksums_are_finished() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/left/disable_ipv6", "0");
    ip("address add 10.9.0.1/24 dev left");
    ip("address add fd09::1/64 dev left nodad");
    ip("neighbor add 10.9.0.2 lladdr 02:00:00:00:00:02 dev left");
    ip("neighbor add fd09::2 lladdr 02:00:00:00:00:02 dev left");
    let mut pair = Pair::new(1);
    for (from, to, v6) in [("10.9.0.1:0", "10.9.0.2:4000", false), ("[fd09::1]:0", "[fd09::2]:4000", true)] {
        let host = UdpSocket::bind(from).unwrap();
        for length in [0, 1, 2, 31, 999, 1472] {
            host.send_to(&vec![0xa7; length], to).unwrap();
            let to_us = |frame: &[u8]| frame[..6] == [2, 0, 0, 0, 0, 2];
            let got = receive(&mut pair.rx[0], pair.pool, 1, to_us).pop().expect("the datagram comes");
            let network = &got[14..];
            let (addresses, transport) =
                if v6 { (&network[8..40], &network[40..]) } else { (&network[12..20], &network[20..]) };
            assert_eq!(transport.len(), 8 + length);
            let field = [transport[6], transport[7]];
            assert_ne!(field, [0, 0]);
            let all = [addresses, &[0, 17], &(transport.len() as u16).to_be_bytes(), transport].concat();
            assert!(checksum::verify(&all), "the checksum {field:02x?} of {length} bytes to {to} is wrong");
        }
    }
    pair.end();
}

pub fn what_the_ring_drops_is_missed() {
    let mut pair = Pair::new(1);
    let sent: Vec<_> = (0..2000).map(|i| frame(60, i)).collect();
    for chunk in sent.chunks(100) {
        pair.send(chunk);
    }
    let missed = pair.right.stats().rx_missed;
    let got = pair.receive_all();
    println!("    {} frames of 2000 came, {missed} were missed", got.len());
    // Linux may have sent some of its own, which took slots.
    assert!(missed > 0 && (2000..2000 + 20).contains(&(missed + got.len() as u64)));
    assert!(got[..] == sent[..got.len()]);
    assert_eq!(pair.right.stats().rx_missed, missed, "what the kernel says once is not counted twice");
    assert_eq!(pair.left.stats().rx_missed, 0);
    pair.end();
}

pub fn without_buffers_frames_wait() {
    let mut pair = Pair::new(1);
    let (few, count) = (HeapPool::leak(8), 20);
    let right = open(SocketConfig { number: 7, ..SocketConfig::new("right") }, few);
    let mut rx = right.rx_queue(0).unwrap();
    let sent: Vec<_> = (0..count).map(|i| frame(60 + i, i)).collect();
    let held: Vec<_> = (0..8).map(|_| few.packet(&[0; 60]).unwrap()).collect();
    pair.send(&sent);
    let mut batch = Batch::new(few);
    for _ in 0..1000 {
        assert_eq!(rx.receive(&mut batch, 32), 0);
    }
    let stats = right.stats();
    assert!((20..40).contains(&stats.rx_no_buffer), "each is counted once: {}", stats.rx_no_buffer);
    assert_eq!((stats.rx_packets, stats.rx_missed), (0, 0));
    drop(held);
    let got = receive(&mut rx, few, count, ours);
    assert!(got == sent, "{} frames came", got.len());
    assert_eq!(right.stats().rx_no_buffer, stats.rx_no_buffer);
    drop((batch, rx, right));
    assert_eq!(few.in_use(), 0);
    pair.end();
}

pub fn a_frame_that_is_refused_blocks_nothing() {
    let mut pair = Pair::new(1);
    let frames: Vec<_> = [60, 9100, 100, 9100, 9100, 13, 200].map(|length| frame(length.max(14), length)).to_vec();
    let mut frames = frames;
    frames[5].truncate(13);
    pair.send(&frames);
    let got = pair.receive(3);
    assert!(got == [frames[0].clone(), frames[2].clone(), frames[6].clone()], "{} frames came", got.len());
    let stats = pair.left.stats();
    assert_eq!((stats.tx_packets, stats.tx_errors), (3, 4));
    ip("link set left down");
    pair.send(&frames[..1]);
    assert_eq!(pair.left.stats().tx_errors, 5);
    pair.end();
}
