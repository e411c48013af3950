// SPDX-License-Identifier: MIT
//! Ports on both ends of a veth pair, in namespaces of their own, made as an ordinary user by `unshare`.

use perigee_packet::batch::flags;
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::wire::{checksum, checksums};
use perigee_packet::{Batch, Handle, Mask, Pool, Port, ReceiveQueue, TransmitQueue};
use perigee_socket::{Buffers, RxQueue, SocketConfig, SocketPort, TxQueue};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Command, exit};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const INSIDE: &str = "PERIGEE_TEST_INSIDE";
/// Set where only a port is opened, and its error printed.
const CONFINED: &str = "PERIGEE_VETH_CONFINED";
/// An Ethernet type that nothing else on the wire uses.
const MARK: [u8; 2] = [0x88, 0xb5];

const CASES: &[(&str, fn())] = &[
    ("every_length", every_length),
    ("tags_come_back", tags_come_back),
    ("frames_have_the_times_of_their_arrival", frames_have_the_times_of_their_arrival),
    ("flows_stay_together_and_fragments_as_sent", flows_stay_together_and_fragments_as_sent),
    ("what_is_sent_is_not_received", what_is_sent_is_not_received),
    ("unfinished_checksums_are_finished", unfinished_checksums_are_finished),
    ("super_frames_stay_whole", super_frames_stay_whole),
    ("super_frames_are_cut_without_large_buffers", super_frames_are_cut_without_large_buffers),
    ("super_frames_beyond_the_buffers", super_frames_beyond_the_buffers),
    ("what_the_ring_drops_is_missed", what_the_ring_drops_is_missed),
    ("without_buffers_frames_wait", without_buffers_frames_wait),
    ("a_frame_that_is_refused_blocks_nothing", a_frame_that_is_refused_blocks_nothing),
    ("an_mtu_that_grows", an_mtu_that_grows),
    ("down_and_up", down_and_up),
    ("a_carrier_is_seen_at_once", a_carrier_is_seen_at_once),
    ("deleted_and_made_again", deleted_and_made_again),
    ("what_a_port_says", what_a_port_says),
    ("what_is_missing_is_said_in_a_sentence", what_is_missing_is_said_in_a_sentence),
];

fn main() {
    if std::env::var_os(CONFINED).is_some() {
        let config = SocketConfig { receive_queues: 4, transmit_queues: 4, ..SocketConfig::new("left") };
        let opened = SocketPort::open(&config, buffers(HeapPool::leak(64)));
        return println!("{}", opened.err().map_or_else(|| "it opens".to_owned(), |error| error.to_string()));
    }
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with('-')).unwrap_or_default();
    if std::env::var_os(INSIDE).is_some() {
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let chosen = CASES.iter().filter(|(name, _)| name.contains(&wanted));
        let passed = chosen
            .map(|(name, case)| {
                println!("test {name}");
                wire(9000);
                case();
                ip("link del left");
            })
            .count();
        println!("test result: ok. {passed} passed; 0 failed; 0 ignored");
        return;
    }
    let refused = match Command::new("unshare").args(["-Urnm", "true"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = refused {
        println!("skipped: user namespaces are refused here ({why})");
        println!("test result: ok. 0 passed; 0 failed; {} ignored", CASES.len());
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

/// What `ip -details link show` says.
fn shown(name: &str) -> String {
    let output = Command::new("ip").args(["-details", "link", "show", name]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes the pair `left` and `right`.
fn wire(mtu: u16) {
    ip("link add left type veth peer name right");
    ip(&format!("link set left up mtu {mtu}"));
    ip(&format!("link set right up mtu {mtu}"));
}

/// Without large buffers.
fn buffers(pool: &'static HeapPool) -> Buffers {
    Buffers { pool: Arc::new(pool), super_frames: None, memory: pool }
}

fn open(config: SocketConfig, pool: &'static HeapPool) -> SocketPort {
    SocketPort::open(&config, buffers(pool)).unwrap_or_else(|error| panic!("{error}"))
}

/// The ports of both ends, a queue to send on from the left, and all queues to receive from on the right.
struct Pair {
    pool: &'static HeapPool,
    left: SocketPort,
    right: SocketPort,
    tx: TxQueue,
    rx: Vec<RxQueue>,
}

impl Pair {
    fn new(receive_queues: u16) -> Pair {
        let pool = HeapPool::leak(4096);
        let left = open(SocketConfig::new("left"), pool);
        let right = open(SocketConfig { receive_queues, number: 7, ..SocketConfig::new("right") }, pool);
        let (tx, rx) = (left.tx_queue(0).unwrap(), (0..receive_queues).map(|i| right.rx_queue(i).unwrap()).collect());
        Pair { pool, left, right, tx, rx }
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        send(&mut self.tx, self.pool, frames);
    }

    fn receive(&mut self, n: usize) -> Vec<Vec<u8>> {
        receive(&mut self.rx[0], self.pool, n, ours)
    }

    /// Closes everything; every buffer has to be back.
    fn end(self) {
        let pool = self.pool;
        drop(self);
        assert_eq!(pool.in_use(), 0, "buffers leaked");
    }
}

fn send(tx: &mut TxQueue, pool: &'static HeapPool, frames: &[Vec<u8>]) {
    let mut packets: Vec<Handle> = frames.iter().map(|f| pool.packet(f).unwrap().into_handle()).collect();
    for _ in 0..10_000 {
        tx.transmit(&mut packets);
        if packets.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} packets could not be sent", packets.len());
}

/// Frames of the tests, not what Linux sends by itself.
fn ours(frame: &[u8]) -> bool {
    [12, 16, 20].iter().any(|&at| frame.get(at..at + 2) == Some(&MARK))
}

/// Receives until `n` chosen frames have come, or nothing has for a while.
fn receive(rx: &mut RxQueue, pool: &'static HeapPool, n: usize, choose: fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let mut batch = Batch::new(pool);
    let (mut got, mut idle) = (Vec::new(), 0);
    while got.len() < n && idle < 500 {
        batch.refill();
        idle += 1;
        if rx.receive(&mut batch, 32) == 0 {
            std::thread::sleep(Duration::from_micros(if idle > 100 { 1000 } else { 0 }));
        }
        for slot in batch.live().iter() {
            assert_eq!(batch.port(slot), 7);
            let frame = batch.frame(slot).unwrap();
            if choose(frame) {
                got.push(frame.to_vec());
                idle = 0;
            }
        }
    }
    got
}

/// A frame of `length` bytes whose contents depend on `seed`.
fn frame(length: usize, seed: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length).map(|k| (seed * 31 + k * 7) as u8).collect();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, MARK[0], MARK[1]]);
    frame
}

fn every_length() {
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
    for _ in 0..10_000 {
        batch.refill();
        pair.rx[0].receive(&mut batch, 32);
        turned += back.send(&mut batch, 256);
        if turned >= 40 {
            break;
        }
    }
    let mut batch = Batch::new(pair.pool);
    while home.receive(&mut batch, 32) > 0 {
        got.extend(batch.live().iter().map(|slot| batch.frame(slot).unwrap().to_vec()).filter(|f| ours(f)));
        batch.refill();
    }
    assert!(got == frames[..40], "{} frames came back", got.len());
    drop((batch, back, home));
    pair.end();
}

fn tags_come_back() {
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
fn frames_have_the_times_of_their_arrival() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut pair = Pair::new(1);
    let before = now();
    // Long ones do not fit the ring's slots.
    let frames: Vec<_> = [60, 1514, 9014, 60].into_iter().map(|length| frame(length, 1)).collect();
    pair.send(&frames);
    let (mut batch, mut times) = (Batch::new(pair.pool), vec![before]);
    for _ in 0..500 {
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
        if times.len() > frames.len() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    times.push(now());
    assert!(times.len() == 6 && times.is_sorted(), "{times:?}");
    drop(batch);
    pair.end();
}

/// A UDP packet of a flow, or a piece of one.
fn udp(flow: u8, number: u8, fragment: [u8; 2], payload: usize) -> Vec<u8> {
    let mut f = vec![number; 14 + 20 + payload];
    f[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0]);
    let length = (20 + payload as u16).to_be_bytes();
    f[14..34].copy_from_slice(&[
        0x45,
        0,
        length[0],
        length[1],
        0,
        number,
        fragment[0],
        fragment[1],
        64,
        17,
        0,
        0,
        10,
        0,
        0,
        flow,
        10,
        1,
        0,
        flow,
    ]);
    f[34..42].copy_from_slice(&[4, flow, 8, flow, 0, payload as u8, 0, 0]);
    checksums::fill(&mut f, 14);
    f
}

fn flows_stay_together_and_fragments_as_sent() {
    let mut pair = Pair::new(2);
    let ipv4 = |frame: &[u8]| frame[12..14] == [8, 0];
    let sent: Vec<_> = (0..6).flat_map(|number| (0..32).map(move |flow| udp(flow, number, [0, 0], 32))).collect();
    for chunk in sent.chunks(64) {
        pair.send(chunk);
    }
    let [first, second] = &mut pair.rx[..] else { panic!("two queues") };
    let (a, b) = (receive(first, pair.pool, 1000, ipv4), receive(second, pair.pool, 1000, ipv4));
    println!("    {} and {} frames", a.len(), b.len());
    assert!(!a.is_empty() && !b.is_empty());
    assert_eq!(a.len() + b.len(), sent.len());
    for flow in 0..32 {
        let of = |all: &[Vec<u8>]| all.iter().filter(|f| f[29] == flow).cloned().collect::<Vec<_>>();
        let (a, b) = (of(&a), of(&b));
        assert!(a.is_empty() || b.is_empty(), "flow {flow} came on both queues");
        assert!([a, b].concat() == of(&sent), "flow {flow} came in another order");
    }
    // The kernel would make one packet of these two, if it were asked to keep fragments together.
    let pieces = [udp(1, 99, [0x20, 0], 40), udp(1, 99, [0, 5], 40)];
    pair.send(&pieces);
    let [first, second] = &mut pair.rx[..] else { panic!("two queues") };
    let mut got = [receive(first, pair.pool, 2, ipv4), receive(second, pair.pool, 2, ipv4)].concat();
    got.sort_by_key(|f| f[20..22] == [0, 5]);
    assert_eq!(got, pieces);
    pair.end();
}

/// Linux leaves the checksums of UDP to a veth, which leaves them as they are.
fn unfinished_checksums_are_finished() {
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

/// A host on the left that sends datagrams of 1,000 bytes, some at a time, which its device is to cut; and a port on the right.
struct Sender {
    host: UdpSocket,
    to: &'static str,
}

impl Sender {
    const SIZE: usize = 1000;

    fn new(v6: bool) -> Sender {
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/left/disable_ipv6", "0");
        if v6 {
            ip("address replace fd09::1/64 dev left nodad");
            ip("neighbor replace fd09::2 lladdr 02:00:00:00:00:02 dev left");
        } else {
            ip("address replace 10.9.0.1/24 dev left");
            ip("neighbor replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev left");
        }
        let (from, to) = if v6 { ("[fd09::1]:4000", "[fd09::2]:4000") } else { ("10.9.0.1:4000", "10.9.0.2:4000") };
        let host = UdpSocket::bind(from).unwrap();
        host.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let size = Self::SIZE as libc::c_int;
        // SAFETY: an option of four bytes, which are there.
        let set = unsafe {
            libc::setsockopt(host.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const size).cast(), 4)
        };
        assert_eq!(set, 0, "UDP_SEGMENT: {}", std::io::Error::last_os_error());
        Sender { host, to }
    }

    fn send(&self, payload: &[u8]) {
        self.host.send_to(payload, self.to).unwrap();
    }

    fn header(&self) -> usize {
        if self.to.starts_with('[') { 14 + 48 } else { 14 + 28 }
    }
}

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn to_us(frame: &[u8]) -> bool {
    frame[..6] == [2, 0, 0, 0, 0, 2]
}

/// Frames of up to 65,535 bytes, whole, out again as they came, and a host takes them apart.
fn super_frames_stay_whole() {
    let pool = HeapPool::leak(256);
    let large = Buffers { super_frames: Some(Arc::new(pool)), ..buffers(pool) };
    let right = SocketPort::open(&SocketConfig { number: 7, ..SocketConfig::new("right") }, large).unwrap();
    assert_eq!(right.info().offloads, ["super-frames"]);
    let (mut rx, mut tx) = (right.rx_queue(0).unwrap(), right.tx_queue(0).unwrap());
    let mut batch = Batch::new(pool);
    for v6 in [false, true] {
        let sender = Sender::new(v6);
        let (mut datagrams, before) = (0, right.stats());
        // The second one fits its slot.
        for length in [60_300, 1_500, 900, 2_001] {
            sender.send(&payload(length));
            let mut came = false;
            for _ in 0..100_000 {
                batch.refill();
                rx.receive(&mut batch, 32);
                came = batch.packets(Mask::ALL).any(|packet| to_us(packet.frame()));
                if came {
                    break;
                }
            }
            assert!(came, "{length} bytes");
            let mut packet = batch.packets(Mask::ALL).find(|packet| to_us(packet.frame())).unwrap();
            let segments = length.div_ceil(Sender::SIZE);
            datagrams += segments as u64;
            assert_eq!(packet.frame().len(), sender.header() + length);
            assert_eq!(packet.gso_size().map(|size| size.get().into()), (segments > 1).then_some(Sender::SIZE));
            assert!(packet.frame()[sender.header()..] == payload(length));
            // Back to where it came from. The sum that the kernel wants there need not be right.
            let frame = packet.frame_mut();
            let (ours, theirs) = (frame[..6].to_vec(), frame[6..12].to_vec());
            frame[..12].copy_from_slice(&[theirs, ours].concat());
            let (at, size) = if v6 { (14 + 8, 16) } else { (14 + 12, 4) };
            let (source, destination) = (frame[at..at + size].to_vec(), frame[at + size..at + 2 * size].to_vec());
            frame[at..at + 2 * size].copy_from_slice(&[destination, source].concat());
            let index = packet.index();
            let mut handles = vec![batch.take_handle(index).unwrap()];
            tx.transmit(&mut handles);
            assert!(handles.is_empty());
            let mut buffer = [0; 70_000];
            let mut got = Vec::new();
            for _ in 0..segments {
                let n = sender.host.recv(&mut buffer).expect("a datagram of each segment");
                assert!(n <= Sender::SIZE);
                got.extend_from_slice(&buffer[..n]);
            }
            assert!(got == payload(length));
        }
        let after = right.stats();
        assert!(after.rx_packets - before.rx_packets >= datagrams, "segments are counted, not super-frames");
        assert_eq!((after.tx_packets - before.tx_packets, after.tx_errors), (datagrams, 0));
    }
    drop((batch, rx, tx, right));
    assert_eq!(pool.in_use(), 0, "buffers leaked");
}

fn super_frames_are_cut_without_large_buffers() {
    for v6 in [false, true] {
        let sender = Sender::new(v6);
        let mut pair = Pair::new(1);
        for length in [60_300, 2_001, 1_500] {
            sender.send(&payload(length));
            sender.send(&payload(10));
            let n = length.div_ceil(Sender::SIZE);
            let got = receive(&mut pair.rx[0], pair.pool, n + 1, to_us);
            assert_eq!(got.len(), n + 1, "{length} bytes");
            let data: Vec<u8> = got[..n].iter().flat_map(|frame| frame[sender.header()..].to_vec()).collect();
            assert!(data == payload(length));
            for frame in &got {
                let mut right = frame.clone();
                checksums::fill(&mut right, 14);
                assert!(*frame == right, "checksums");
            }
        }
        assert_eq!(pair.right.stats().rx_errors, 0);
        pair.end();
    }
}

/// Nothing leaks and nothing stops where buffers are short, or the socket's queue is.
fn super_frames_beyond_the_buffers() {
    for large in [0, 1, 3] {
        let (pool, few) = (HeapPool::leak(24), HeapPool::leak(0));
        // Heap buffers belong to one pool: none for large ones means that the port falls back to `pool`, whose 24 are not enough.
        let room = if large == 0 { 2000 } else { 65_535 };
        let config = SocketConfig { number: 7, room, ..SocketConfig::new("right") };
        let super_frames: Option<Arc<dyn Pool>> = Some(if large == 0 { Arc::new(few) } else { Arc::new(pool) });
        ip("link set right mtu 1500");
        let config = SocketConfig { mtu: Some(1500), ..config };
        let right = SocketPort::open(&config, Buffers { super_frames, ..buffers(pool) }).unwrap();
        let mut rx = right.rx_queue(0).unwrap();
        let sender = Sender::new(false);
        let held: Vec<_> =
            (0..if large == 0 { 0 } else { 24 - large }).map(|_| pool.packet(&[0; 60]).unwrap()).collect();
        for _ in 0..400 {
            sender.send(&payload(60_300));
        }
        receive(&mut rx, pool, 100_000, to_us);
        let stats = right.stats();
        println!("    {large} large buffers: {stats:?}");
        assert!(stats.rx_missed + stats.rx_no_buffer > 0);
        drop(held);
        sender.send(&payload(10));
        assert_eq!(receive(&mut rx, pool, 1, to_us).len(), 1);
        drop((rx, right));
        assert_eq!((pool.in_use(), few.in_use()), (0, 0), "buffers leaked");
    }
}

fn what_the_ring_drops_is_missed() {
    let mut pair = Pair::new(1);
    let sent: Vec<_> = (0..2000).map(|i| frame(60, i)).collect();
    for chunk in sent.chunks(100) {
        pair.send(chunk);
    }
    let missed = pair.right.stats().rx_missed;
    let got = pair.receive(2000);
    println!("    {} frames of 2000 came, {missed} were missed", got.len());
    // Linux may have sent some of its own, which took slots.
    assert!(missed > 0 && (2000..2000 + 20).contains(&(missed + got.len() as u64)));
    assert!(got[..] == sent[..got.len()]);
    assert_eq!(pair.right.stats().rx_missed, missed, "what the kernel says once is not counted twice");
    assert_eq!(pair.left.stats().rx_missed, 0);
    pair.end();
}

fn without_buffers_frames_wait() {
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

fn a_frame_that_is_refused_blocks_nothing() {
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

/// Slots are as long as the MTU at the start asks for; it may grow afterwards.
/// Slots are made for the MTU at the start; longer frames arrive all the same, as far as buffers have room.
fn an_mtu_that_grows() {
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

fn down_and_up() {
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
fn a_carrier_is_seen_at_once() {
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
fn what_is_sent_is_not_received() {
    for queues in [1, 3] {
        let mut pair = Pair::new(queues);
        let mut back = pair.right.tx_queue(0).unwrap();
        let sent: Vec<_> = (0..64).map(|flow| udp(flow, 0, [0, 0], 32)).collect();
        let far = open(SocketConfig { number: 7, ..SocketConfig::new("left") }, pair.pool);
        let mut far = far.rx_queue(0).unwrap();
        send(&mut back, pair.pool, &sent);
        assert_eq!(receive(&mut far, pair.pool, 64, |frame| frame[12..14] == [8, 0]).len(), 64);
        for rx in &mut pair.rx {
            assert_eq!(receive(rx, pair.pool, 1, |frame| frame[12..14] == [8, 0]).len(), 0, "{queues} queues");
        }
        drop((back, far));
        pair.end();
    }
}

/// Sends until a frame arrives on any queue: a queue looks for its interface only from time to time.
fn crosses(pair: &mut Pair) {
    for attempt in 0..100 {
        let mut packets = vec![pair.pool.packet(&frame(64, attempt)).unwrap().into_handle()];
        pair.tx.transmit(&mut packets);
        pair.tx.discard(&mut packets);
        for rx in &mut pair.rx {
            if !receive(rx, pair.pool, 1, ours).is_empty() {
                return;
            }
        }
    }
    panic!("no frame of 100 came");
}

fn deleted_and_made_again() {
    for queues in [1, 2] {
        let mut pair = Pair::new(queues);
        pair.right.set_promiscuous(true).unwrap();
        crosses(&mut pair);
        for _ in 0..3 {
            let before = pair.right.stats();
            ip("link del left");
            assert!(!pair.right.link().up);
            pair.send(&[frame(60, 0)]);
            assert!(pair.receive(1).is_empty());
            wire(9000);
            crosses(&mut pair);
            assert!(pair.right.link().up);
            // Once for that, once as a veth can only so receive for the port's address, which the new one does not have.
            assert!(shown("right").contains("promiscuity 2 "), "{}", shown("right"));
            let after = pair.right.stats();
            assert!(after.rx_packets > before.rx_packets && after.rx_missed >= before.rx_missed);
            // The second time the other queue has its part of the flows, too.
            let sent: Vec<_> = (0..64).map(|flow| udp(flow, 0, [0, 0], 32)).collect();
            let mut got = Vec::new();
            for _ in 0..20 {
                got.clear();
                pair.send(&sent);
                for rx in &mut pair.rx {
                    got.push(receive(rx, pair.pool, 64, |frame| frame[12..14] == [8, 0]));
                }
                if got.iter().map(Vec::len).sum::<usize>() == sent.len() {
                    break;
                }
            }
            let numbers: Vec<_> = got.iter().map(Vec::len).collect();
            assert!(numbers.iter().sum::<usize>() == 64 && !numbers.contains(&0), "{numbers:?}");
        }
        assert_eq!(pair.right.info().notes, Vec::<String>::new());
        pair.end();
    }
}

fn what_is_missing_is_said_in_a_sentence() {
    for (confined, sentence) in [
        ("setpriv --bounding-set -net_raw", "CAP_NET_RAW is needed: run as root"),
        (
            "prlimit --nofile=10",
            "Too many open files; each queue takes a file descriptor or more: raise the limit (`ulimit -n`)",
        ),
        ("prlimit --nofile=1000", "it opens"),
    ] {
        let mut words = confined.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(std::env::current_exe().unwrap()).env(CONFINED, "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(sentence), "{confined}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

fn what_a_port_says() {
    let pool = HeapPool::leak(64);
    let error = |config: SocketConfig| match SocketPort::open(&config, buffers(pool)) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    };
    let missing = error(SocketConfig::new("nothere0"));
    assert!(missing.starts_with("interface nothere0: it could not be found: No such device; "), "{missing}");
    let small = error(SocketConfig { room: 2048, ..SocketConfig::new("left") });
    assert!(small.contains("an MTU of 9000 needs packet buffers of 9022 bytes, and the pool's have 2048"), "{small}");
    let other = error(SocketConfig::new("lo"));
    assert!(other.contains("lo is no Ethernet interface"), "{other}");

    let mac = "02:00:00:00:00:09".parse().unwrap();
    let wanted =
        SocketConfig { mac: Some(mac), mtu: Some(3000), transmit_queues: 3, number: 5, ..SocketConfig::new("right") };
    let port = open(wanted, pool);
    let info = port.info();
    assert_eq!((info.port, info.device.as_str(), info.driver.as_str()), (5, "right", "packet"));
    assert_eq!((info.mac, info.mtu, info.receive_queues, info.transmit_queues), (mac, 3000, 1, 3));
    assert!(shown("right").contains("mtu 3000") && shown("right").contains("promiscuity 1 "));
    assert_eq!((port.link().up, port.link().speed), (true, Some(10_000)));
    port.set_mtu(1400).unwrap();
    assert!(port.info().mtu == 1400 && shown("right").contains("mtu 1400"));
    port.set_promiscuous(true).unwrap();
    port.set_promiscuous(true).unwrap();
    assert!(shown("right").contains("promiscuity 2 "));
    port.set_promiscuous(false).unwrap();
    assert!(shown("right").contains("promiscuity 1 "));

    let taken = port.rx_queue(0).unwrap();
    let again = port.rx_queue(0).err().unwrap().to_string();
    assert!(again.contains("receive queue 0 of port right is already in use"), "{again}");
    drop(taken);
    assert!(port.rx_queue(0).is_ok() && port.tx_queue(2).is_ok());
    let none = port.tx_queue(3).err().unwrap().to_string();
    assert!(none.contains("port right has no transmit queue 3: it has 3"), "{none}");
}
