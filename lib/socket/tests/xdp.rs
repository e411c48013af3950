// SPDX-License-Identifier: MIT
//! AF_XDP ports on veth pairs, in a network namespace made by `unshare` as root: no namespace of users may load an XDP
//! program.

use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Handle, Pool, Port, PortStats, ReceiveQueue, TransmitQueue};
use perigee_socket::{Buffers, SocketConfig, SocketPort, XdpPort, XdpRxQueue};
use std::os::fd::AsRawFd;
use std::process::{Command, exit};
use std::sync::Arc;
use std::time::{Duration, Instant};

const INSIDE: &str = "PERIGEE_TEST_INSIDE";
/// An Ethernet type that nothing else on the wire uses.
const MARK: [u8; 2] = [0x88, 0xb5];
/// The largest MTU that veth takes with a program.
const MTU: u16 = 3498;
/// Frames that fit into a receive ring.
const RING: usize = 2048;

/// What must come, comes within this time, or the test fails. Minutes: the machine may be busy.
const LONGEST_WAIT: Duration = Duration::from_secs(180);
/// What does not come within this time, does not come.
const LONG_ENOUGH: Duration = Duration::from_millis(400);

const CASES: &[(&str, fn())] = &[
    ("every_length", every_length),
    ("tags_stay", tags_stay),
    ("bursts_in_order", bursts_in_order),
    ("more_than_the_ring_sends", more_than_the_ring_sends),
    ("what_the_ring_drops_is_missed", what_the_ring_drops_is_missed),
    ("without_buffers_frames_wait", without_buffers_frames_wait),
    ("a_frame_that_is_refused_blocks_nothing", a_frame_that_is_refused_blocks_nothing),
    (
        "what_waits_in_a_deleted_interfaces_ring_is_no_longer_counted_as_sent",
        what_waits_in_a_deleted_interfaces_ring_is_no_longer_counted_as_sent,
    ),
    ("every_queue_of_the_device", every_queue_of_the_device),
    ("a_device_without_a_native_mode", a_device_without_a_native_mode),
    ("mtu", mtu),
    ("what_is_waited_for_comes", what_is_waited_for_comes),
    ("down_and_up", down_and_up),
    ("deleted_and_made_again", deleted_and_made_again),
    ("what_a_deleted_interface_leaves_is_missed", what_a_deleted_interface_leaves_is_missed),
    ("made_again_without_privileges", made_again_without_privileges),
    ("the_program_goes_with_the_port", the_program_goes_with_the_port),
    ("what_a_port_says", what_a_port_says),
    ("what_is_refused", what_is_refused),
];

fn main() {
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with('-')).unwrap_or_default();
    if std::env::var_os(INSIDE).is_some() {
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let chosen = CASES.iter().filter(|(name, _)| name.contains(&wanted));
        let passed = chosen
            .map(|(name, case)| {
                println!("test {name}");
                wire("");
                case();
                ip("link del left");
            })
            .count();
        println!("test result: ok. {passed} passed; 0 failed; 0 ignored");
        return;
    }
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    let refused = match Command::new("unshare").args(["-nm", "true"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = refused {
        println!("skipped: XDP programs need root, and a network namespace of its own ({why})");
        println!("test result: ok. 0 passed; 0 failed; {} ignored", CASES.len());
        exit(i32::from(root && std::env::var("CI").is_ok_and(|ci| ci == "true")));
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new("unshare").arg("-nm").arg(me).args(std::env::args().skip(1)).env(INSIDE, "1").status();
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

/// Makes the pair `left` and `right`, both with these options.
fn wire(options: &str) {
    ip(format!("link add left {options} type veth peer name right {options}").replace("  ", " ").trim());
    for end in ["left", "right"] {
        ip(&format!("link set {end} up mtu {MTU}"));
    }
}

fn buffers(pool: &'static HeapPool) -> Buffers {
    Buffers { pool: Arc::new(pool), super_frames: None, memory: pool }
}

fn config(name: &str) -> SocketConfig {
    let number = if name.starts_with("right") { 7 } else { 0 };
    SocketConfig { number, ..SocketConfig::new(name) }
}

fn open(config: &SocketConfig, pool: &'static HeapPool) -> XdpPort {
    XdpPort::open(config, buffers(pool)).unwrap_or_else(|error| panic!("{error}"))
}

/// AF_XDP ports at both ends; frames go from left to right.
struct Pair {
    pool: &'static HeapPool,
    left: XdpPort,
    right: XdpPort,
    tx: Box<dyn TransmitQueue>,
    rx: XdpRxQueue,
}

impl Pair {
    fn new() -> Pair {
        let pool = HeapPool::leak(4096);
        let (left, right) = (open(&config("left"), pool), open(&config("right"), pool));
        let (tx, rx) = (left.tx_queue(0).unwrap(), right.rx_queue(0).unwrap());
        Pair { pool, left, right, tx, rx }
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        send(&mut *self.tx, self.pool, frames);
    }

    fn receive(&mut self, n: usize) -> Vec<Vec<u8>> {
        receive(&mut self.rx, self.pool, n)
    }

    fn receive_all(&mut self) -> Vec<Vec<u8>> {
        receive_all(&mut self.rx, self.pool)
    }

    /// Sends until a frame arrives: a queue looks for its interface only from time to time.
    fn crosses(&mut self) {
        let start = Instant::now();
        for attempt in 0.. {
            self.send(&[frame(64, attempt)]);
            if !receive_for(&mut self.rx, self.pool, 1, LONG_ENOUGH).is_empty() {
                return;
            }
            let notes = (self.right.info().notes, self.left.info().notes);
            assert!(start.elapsed() < LONGEST_WAIT, "no frame of {attempt} came: {notes:?}");
        }
    }

    /// Closes everything; every buffer has to be back.
    fn end(self) {
        let pool = self.pool;
        drop(self);
        assert_eq!(pool.in_use(), 0, "buffers leaked");
    }
}

fn send(tx: &mut dyn TransmitQueue, pool: &'static HeapPool, frames: &[Vec<u8>]) {
    let mut packets: Vec<Handle> = frames.iter().map(|f| pool.packet(f).unwrap().into_handle()).collect();
    let start = Instant::now();
    while start.elapsed() < LONGEST_WAIT {
        tx.transmit(&mut packets);
        if packets.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("{} packets could not be sent", packets.len());
}

/// Receives until `n` frames of the tests have come; fewer if they do not come in [`LONGEST_WAIT`].
fn receive(rx: &mut dyn ReceiveQueue, pool: &'static HeapPool, n: usize) -> Vec<Vec<u8>> {
    receive_for(rx, pool, n, LONGEST_WAIT)
}

/// Receives frames of the tests until none has come for [`LONG_ENOUGH`].
fn receive_all(rx: &mut dyn ReceiveQueue, pool: &'static HeapPool) -> Vec<Vec<u8>> {
    receive_for(rx, pool, usize::MAX, LONG_ENOUGH)
}

fn receive_for(rx: &mut dyn ReceiveQueue, pool: &'static HeapPool, n: usize, longest: Duration) -> Vec<Vec<u8>> {
    let mut batch = Batch::new(pool);
    let (mut got, mut idle, mut last) = (Vec::new(), 0, Instant::now());
    while got.len() < n && last.elapsed() < longest {
        batch.refill();
        idle += 1;
        if rx.receive(&mut batch, 32) == 0 {
            // sleep: a core is left to whoever sends; the loop ends by what comes
            std::thread::sleep(Duration::from_micros(if idle > 100 { 1000 } else { 0 }));
        }
        for slot in batch.live().iter() {
            let frame = batch.frame(slot).unwrap();
            if [12, 16, 20].iter().any(|&at| frame.get(at..at + 2) == Some(&MARK)) {
                got.push(frame.to_vec());
                (idle, last) = (0, Instant::now());
            }
        }
    }
    got
}

/// A frame of `length` bytes whose contents depend on `seed`.
fn frame(length: usize, seed: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length).map(|k| (seed * 31 + k * 7 + k / 253) as u8).collect();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, MARK[0], MARK[1]]);
    frame
}

fn every_length() {
    let mut pair = Pair::new();
    let lengths: Vec<usize> = (60..=3512).step_by(7).chain([14, 61, 1514, 1518, 2047, 2048, 2049, 3512]).collect();
    let frames: Vec<_> = lengths.iter().enumerate().map(|(i, &length)| frame(length, i)).collect();
    for chunk in frames.chunks(60) {
        pair.send(chunk);
        let got = pair.receive(chunk.len());
        assert_eq!(got.len(), chunk.len());
        assert!(got == chunk, "frames of {} bytes and more came changed", chunk[0].len());
    }
    let n = lengths.len() as u64;
    let bytes = lengths.iter().sum::<usize>() as u64;
    let sent = PortStats { tx_packets: n, tx_bytes: bytes, ..pair.left.stats() };
    assert_eq!((pair.left.stats(), sent.tx_errors), (sent, 0));
    let expected = PortStats { rx_packets: n, rx_bytes: bytes, ..PortStats::default() };
    assert_eq!(pair.right.stats(), expected);
    // A batch that was received on one side goes out on the other as it is.
    pair.send(&frames[..40]);
    let mut batch = Batch::new(pair.pool);
    let mut back = pair.right.tx_queue(0).unwrap();
    let mut home = pair.left.rx_queue(0).unwrap();
    let mut turned = 0;
    let start = Instant::now();
    while turned < 40 && start.elapsed() < LONGEST_WAIT {
        batch.refill();
        pair.rx.receive(&mut batch, 32);
        assert!(batch.live().iter().all(|slot| batch.port(slot) == 7));
        turned += back.send(&mut batch, 256);
    }
    drop(batch);
    assert!(receive(&mut home, pair.pool, 40) == frames[..40]);
    drop((back, home));
    pair.end();
}

fn tags_stay() {
    let mut pair = Pair::new();
    let tagged = |tags: &[[u8; 4]], seed| {
        let plain = frame(1500, seed);
        [&plain[..12], &tags.concat(), &plain[12..]].concat()
    };
    let one = [[0x81, 0, 0, 5]];
    let two = [[0x88, 0xa8, 0x60, 7], [0x81, 0, 0, 9]];
    let frames = [tagged(&one, 1), tagged(&two, 2), tagged(&[[0x81, 0, 0, 0]], 3), tagged(&[], 4)];
    pair.send(&frames);
    assert!(pair.receive(4) == frames);
    pair.end();
}

fn bursts_in_order() {
    let mut pair = Pair::new();
    // More than all rings hold, twice around.
    let mut number = 0;
    for burst in [1, 31, 32, 33, 64, 200, 1000, 2000, 2, 1500, 2000, 2000] {
        let frames: Vec<_> = (0..burst).map(|i| frame(60 + i % 100, number + i)).collect();
        number += burst;
        pair.send(&frames);
        assert!(pair.receive(burst) == frames, "a burst of {burst}");
    }
    assert_eq!(pair.right.stats().rx_missed, 0);
    assert_eq!((pair.left.stats().tx_packets, pair.left.stats().tx_errors), (number as u64, 0));
    pair.end();
}

/// What there is no room for stays with the caller.
fn more_than_the_ring_sends() {
    let mut pair = Pair::new();
    let frames: Vec<_> = (0..1500).map(|i| frame(60, i)).collect();
    let mut packets: Vec<Handle> = frames.iter().map(|f| pair.pool.packet(f).unwrap().into_handle()).collect();
    pair.tx.transmit(&mut packets);
    let left = packets.len();
    assert!((1..1500).contains(&left), "{left} stay");
    pair.tx.discard(&mut packets);
    assert!(pair.receive(1500 - left) == frames[..1500 - left]);
    pair.end();
}

fn what_the_ring_drops_is_missed() {
    let mut pair = Pair::new();
    let sent: Vec<_> = (0..RING + 700).map(|i| frame(60, i)).collect();
    for chunk in sent.chunks(100) {
        pair.send(chunk);
    }
    let missed = pair.right.stats().rx_missed;
    let got = pair.receive_all();
    println!("    {} frames of {} came, {missed} were missed", got.len(), sent.len());
    assert_eq!((got.len(), missed), (RING, 700));
    assert!(got[..] == sent[..RING]);
    assert_eq!(pair.right.stats().rx_missed, missed, "what the kernel says once is not counted twice");
    pair.crosses();
    pair.end();
}

fn without_buffers_frames_wait() {
    let pool = HeapPool::leak(4096);
    let (few, count) = (HeapPool::leak(8), 20);
    let (left, right) = (open(&config("left"), pool), open(&config("right"), few));
    let (mut tx, mut rx) = (left.tx_queue(0).unwrap(), right.rx_queue(0).unwrap());
    let sent: Vec<_> = (0..count).map(|i| frame(60 + i, i)).collect();
    let held: Vec<_> = (0..8).map(|_| few.packet(&[0; 60]).unwrap()).collect();
    send(&mut *tx, pool, &sent);
    let mut batch = Batch::new(few);
    for _ in 0..1000 {
        assert_eq!(rx.receive(&mut batch, 32), 0);
    }
    let stats = right.stats();
    let expected = PortStats { rx_no_buffer: count as u64, ..PortStats::default() };
    assert_eq!(stats, expected, "each is counted once");
    drop(held);
    assert!(receive(&mut rx, few, count) == sent);
    assert_eq!(right.stats().rx_no_buffer, count as u64);
    drop((batch, rx, right, tx, left));
    assert_eq!((few.in_use(), pool.in_use()), (0, 0));
}

fn a_frame_that_is_refused_blocks_nothing() {
    let mut pair = Pair::new();
    let mut frames: Vec<_> = [60, 3800, 100, 5000, 60, 200].map(|length| frame(length, length)).to_vec();
    frames[4].truncate(13);
    pair.send(&frames);
    let got = pair.receive(3);
    assert!(got == [frames[0].clone(), frames[2].clone(), frames[5].clone()], "{} frames came", got.len());
    assert_eq!((pair.left.stats().tx_packets, pair.left.stats().tx_errors), (3, 3));
    // The kernel drops these behind the socket, and says of each that it did.
    ip("link set right down");
    pair.send(&(0..100).map(|i| frame(60, i)).collect::<Vec<_>>());
    assert_eq!((pair.left.stats().tx_packets, pair.left.stats().tx_errors), (3, 103));
    ip("link set right up");
    ip("link set left down");
    // The first one waits in the ring, and leaves later.
    pair.send(&frames[..1]);
    pair.send(&frames[..1]);
    assert_eq!((pair.left.stats().tx_packets, pair.left.stats().tx_errors), (4, 104));
    ip("link set left up");
    pair.crosses();
    pair.receive_all();
    assert_eq!(pair.left.stats().tx_packets, pair.right.stats().rx_packets);
    pair.end();
}

/// What waits in the ring of an interface that is set down was counted as sent, and is lost with the interface.
fn what_waits_in_a_deleted_interfaces_ring_is_no_longer_counted_as_sent() {
    let mut pair = Pair::new();
    pair.crosses();
    pair.receive_all();
    ip("link set left down");
    pair.send(&(0..30).map(|i| frame(60, i)).collect::<Vec<_>>());
    let (sent, errors) = (pair.left.stats().tx_packets, pair.left.stats().tx_errors);
    assert_eq!((sent - pair.right.stats().rx_packets, errors), (30, 0));
    ip("link del left");
    wire("");
    let start = Instant::now();
    for n in 1.. {
        pair.send(&[frame(60, n)]);
        let (left, right) = (pair.left.stats(), {
            pair.receive_all();
            pair.right.stats()
        });
        if left.tx_packets == right.rx_packets {
            // All that was offered is accounted for.
            assert_eq!(left.tx_packets + left.tx_errors, sent + n as u64);
            break;
        }
        assert!(start.elapsed() < LONGEST_WAIT, "{left:?}, {right:?}");
    }
    pair.end();
}

fn every_queue_of_the_device() {
    ip("link del left");
    wire("numrxqueues 3 numtxqueues 3");
    let pool = HeapPool::leak(4096);
    let several = |name| SocketConfig { transmit_queues: 8, ..config(name) };
    let left = open(&SocketConfig { packet_queues: 2, ..several("left") }, pool);
    let right = open(&several("right"), pool);
    assert_eq!((right.info().receive_queues, right.info().transmit_queues), (3, 3));
    assert_eq!(left.info().transmit_queues, 5, "two of them by packet sockets");
    assert!(left.tx_queue(5).is_err());
    let notes = right.info().notes;
    assert!(notes.iter().any(|note| note.contains("3 receive queues, all of which are used")), "{notes:?}");
    let mut tx: Vec<_> = (0..3).map(|i| left.tx_queue(i).unwrap()).collect();
    let mut rx: Vec<_> = (0..3).map(|i| right.rx_queue(i).unwrap()).collect();
    for queue in 0..3 {
        let sent: Vec<_> = (0..50).map(|i| frame(60 + i, i * queue)).collect();
        send(&mut *tx[queue], pool, &sent);
        let mut got = vec![Vec::new(); rx.len()];
        got[queue] = receive_for(&mut rx[queue], pool, sent.len(), LONGEST_WAIT);
        // What came twice, or by another queue.
        rx.iter_mut().zip(&mut got).for_each(|(rx, got)| got.extend(receive_all(rx, pool)));
        let there: Vec<_> = got.iter().map(Vec::len).collect();
        assert_eq!(there.iter().sum::<usize>(), 50, "{there:?}");
        assert!(got[queue] == sent, "veth gives what queue {queue} sends to that queue: {there:?}");
    }
    assert_eq!((left.stats().tx_packets, right.stats().rx_packets), (150, 150));
    let mut behind = left.tx_queue(4).unwrap();
    assert!(left.tx_queue(4).is_err(), "it is taken");
    send(&mut *behind, pool, &[frame(60, 1), frame(61, 2)]);
    // Linux chooses the queue that it leaves by.
    let (start, mut there) = (Instant::now(), 0);
    while there < 2 && start.elapsed() < LONGEST_WAIT {
        there += rx.iter_mut().map(|rx| receive_all(rx, pool).len()).sum::<usize>();
    }
    assert_eq!((there, left.stats().tx_packets), (2, 152));
    drop((tx, behind, rx, left, right));
    assert_eq!(pool.in_use(), 0);
}

fn a_device_without_a_native_mode() {
    ip("link add right-br type bridge");
    ip("link set right-br up");
    ip("link set right master right-br");
    let pool = HeapPool::leak(4096);
    let left = SocketPort::open(&config("left"), buffers(pool)).unwrap();
    let right = open(&SocketConfig { promiscuous: true, mtu: Some(1500), ..config("right-br") }, pool);
    let notes = right.info().notes;
    assert!(notes.iter().any(|note| note.contains("its driver does not run XDP programs")), "{notes:?}");
    assert!(shown("right-br").contains("xdpgeneric"), "{}", shown("right-br"));
    let frames: Vec<_> = (0..100).map(|i| frame(60 + i, i)).collect();
    let (mut tx, mut rx) = (left.tx_queue(0).unwrap(), right.rx_queue(0).unwrap());
    send(&mut tx, pool, &frames);
    assert!(receive(&mut rx, pool, 100) == frames);
    let (mut back, mut home) = (right.tx_queue(0).unwrap(), left.rx_queue(0).unwrap());
    let other_way = |frame: &Vec<u8>| [&[2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 9], &frame[12..]].concat();
    let frames: Vec<_> = frames.iter().map(other_way).collect();
    send(&mut *back, pool, &frames);
    assert!(receive(&mut home, pool, 100) == frames);
    drop((tx, rx, back, home, left, right));
    assert_eq!(pool.in_use(), 0);
    ip("link del right-br");
}

fn mtu() {
    let pool = HeapPool::leak(64);
    let error = |mtu| match XdpPort::open(&SocketConfig { mtu: Some(mtu), ..config("right") }, buffers(pool)) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    };
    let long = error(9000);
    assert!(long.contains("an MTU of 9000 was requested, and AF_XDP takes up to 3818: lower it"), "{long}");
    ip("link set left mtu 3700");
    let driver = error(3700);
    assert!(
        driver.contains("no XDP program could be attached: Numerical result out of range; its driver takes"),
        "{driver}"
    );
    ip("link set left mtu 1500");
    let right = open(&SocketConfig { mtu: Some(1500), ..config("right") }, pool);
    assert!(shown("right").contains("mtu 1500"));
    right.set_mtu(1400).unwrap();
    assert!(right.info().mtu == 1400 && shown("right").contains("mtu 1400"));
    let error = right.set_mtu(2500).unwrap_err();
    assert!(error.contains("its memory is cut for smaller ones; set it in the configuration"), "{error}");
    let error = right.set_mtu(9000).unwrap_err();
    assert!(error.contains("AF_XDP takes up to 3818"), "{error}");
    assert_eq!(right.info().mtu, 1400);
}

/// The descriptor of a queue is readable exactly while there are frames.
fn what_is_waited_for_comes() {
    let mut pair = Pair::new();
    pair.crosses();
    let readable = |rx: &XdpRxQueue, longest| {
        let descriptor = rx.descriptor().unwrap().as_raw_fd();
        let mut asked = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which is read and written.
        unsafe { libc::poll(&raw mut asked, 1, longest) == 1 && asked.revents & libc::POLLIN != 0 }
    };
    for _ in 0..3 {
        pair.receive_all();
        assert!(!readable(&pair.rx, 0));
        std::thread::scope(|scope| {
            let (tx, pool) = (&mut pair.tx, pair.pool);
            scope.spawn(move || {
                // sleep: so that it is waited for; it may have come before
                std::thread::sleep(Duration::from_millis(20));
                send(&mut **tx, pool, &[frame(60, 1)]);
            });
            assert!(readable(&pair.rx, LONGEST_WAIT.as_millis() as i32));
        });
        assert_eq!(pair.receive(1).len(), 1);
    }
    pair.end();
}

fn down_and_up() {
    let mut pair = Pair::new();
    pair.crosses();
    ip("link set right down");
    assert!(!pair.right.link().up);
    ip("link set right up");
    pair.crosses();
    assert!(pair.right.link().up);
    pair.end();
}

fn deleted_and_made_again() {
    let mut pair = Pair::new();
    pair.right.set_promiscuous(true).unwrap();
    pair.crosses();
    for _ in 0..3 {
        let before = pair.right.stats();
        ip("link del left");
        assert!(!pair.right.link().up);
        pair.send(&[frame(60, 0)]);
        assert!(pair.receive_all().is_empty());
        wire("");
        pair.crosses();
        assert!(pair.right.link().up);
        assert!(shown("right").contains("promiscuity 2 ") && shown("right").contains("xdp"), "{}", shown("right"));
        let after = pair.right.stats();
        assert!(after.rx_packets > before.rx_packets && after.rx_missed >= before.rx_missed);
    }
    pair.end();
}

/// What was received before an interface went away, and not taken before the port used a new one of its name.
fn what_a_deleted_interface_leaves_is_missed() {
    let mut pair = Pair::new();
    pair.crosses();
    let mut back = pair.right.tx_queue(0).unwrap();
    let before = pair.right.stats();
    pair.send(&(0..70).map(|i| frame(60, i)).collect::<Vec<_>>());
    ip("link del left");
    wire("");
    // It is the transmit queue that finds the new interface.
    let start = Instant::now();
    for attempt in 0.. {
        send(&mut *back, pair.pool, &[frame(60, attempt)]);
        if shown("right").contains("xdp") {
            break;
        }
        assert!(start.elapsed() < LONGEST_WAIT, "the new interface is not found: {}", shown("right"));
    }
    assert!(pair.receive_all().is_empty());
    let after = pair.right.stats();
    assert_eq!((after.rx_packets - before.rx_packets, after.rx_missed - before.rx_missed), (0, 70));
    drop(back);
    pair.crosses();
    pair.end();
}

/// Takes capabilities from this thread, all but those of `keep`.
fn keep_capabilities(keep: u64) {
    // Version 3 of the structures of capset(2).
    let header = [0x2008_0522u32, 0];
    let half = |shift: u32| [(keep >> shift) as u32; 3];
    let sets = [half(0), half(32)];
    // SAFETY: a header and two sets, which are read.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    assert_eq!(done, 0, "capset: {}", std::io::Error::last_os_error());
}

/// As in the router, whose threads drop their capabilities: there are four spare sockets.
fn made_again_without_privileges() {
    let mut pair = Pair::new();
    for time in 0..5 {
        ip("link del left");
        wire("");
        let unprivileged = || {
            keep_capabilities(0);
            if time < 4 {
                pair.crosses();
            } else {
                pair.send(&[frame(64, 0)]);
                assert!(pair.receive_all().is_empty());
            }
        };
        std::thread::scope(|scope| scope.spawn(unprivileged).join().unwrap());
    }
    let notes = pair.right.info().notes;
    let said = notes.iter().filter(|note| note.contains("came back and is not used: Operation not permitted"));
    assert_eq!(said.count(), 1, "{notes:?}");
    assert!(pair.left.stats().tx_errors > 0);
    pair.end();
}

/// Of a device that takes VLAN tags out, as most cards do.
fn takes_tags_out() -> bool {
    let output = Command::new("ethtool").args(["-k", "right"]).output().expect("ethtool runs");
    let features = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(features.contains("rx-vlan-offload: "), "{features}");
    features.contains("rx-vlan-offload: on")
}

fn the_program_goes_with_the_port() {
    let pool = HeapPool::leak(64);
    assert!(takes_tags_out() && !shown("right").contains("xdp"));
    let right = open(&config("right"), pool);
    assert!(shown("right").contains("prog/xdp"), "{}", shown("right"));
    assert!(!takes_tags_out());
    let again = XdpPort::open(&config("right"), buffers(pool)).err().unwrap().to_string();
    assert!(
        again.contains("another program uses XDP there") && again.contains("ip link set dev right xdp off"),
        "{again}"
    );
    let queue = right.rx_queue(0).unwrap();
    drop(right);
    assert!(shown("right").contains("prog/xdp"), "a queue keeps its port");
    drop(queue);
    assert!(takes_tags_out() && !shown("right").contains("xdp"), "{}", shown("right"));
    open(&config("right"), pool);
}

fn what_a_port_says() {
    let pool = HeapPool::leak(64);
    let mac = "02:00:00:00:00:09".parse().unwrap();
    let wanted = SocketConfig { mac: Some(mac), mtu: Some(3000), transmit_queues: 3, number: 5, ..config("right") };
    let port = open(&wanted, pool);
    let info = port.info();
    assert_eq!((info.port, info.device.as_str(), info.driver.as_str()), (5, "right", "xdp"));
    assert_eq!((info.mac, info.mtu, info.receive_queues, info.transmit_queues), (mac, 3000, 1, 1));
    assert!(info.notes.iter().any(|note| note.contains("ethtool -K PEER tx off txvlan off")), "{:?}", info.notes);
    assert!(shown("right").contains("mtu 3000") && shown("right").contains("promiscuity 1 "));
    assert_eq!((port.link().up, port.link().speed), (true, Some(10_000)));
    port.set_promiscuous(true).unwrap();
    assert!(shown("right").contains("promiscuity 2 "));
    port.set_promiscuous(false).unwrap();
    assert!(shown("right").contains("promiscuity 1 "));

    let taken = port.rx_queue(0).unwrap();
    let again = port.rx_queue(0).err().unwrap().to_string();
    assert!(again.contains("receive queue 0 of port right is already in use"), "{again}");
    drop(taken);
    assert!(port.rx_queue(0).is_ok() && port.tx_queue(0).is_ok());
    let none = port.tx_queue(1).err().unwrap().to_string();
    assert!(none.contains("port right has no transmit queue 1: it has 1"), "{none}");
}

fn what_is_refused() {
    let pool = HeapPool::leak(64);
    let error = |config: SocketConfig| match XdpPort::open(&config, buffers(pool)) {
        Ok(_) => panic!("it opens"),
        Err(error) => error.to_string(),
    };
    let missing = error(SocketConfig::new("nothere0"));
    assert!(missing.starts_with("interface nothere0: it could not be found: No such device; "), "{missing}");
    let other = error(SocketConfig::new("lo"));
    assert!(other.contains("lo is no Ethernet interface"), "{other}");
    let work = std::thread::spawn(move || {
        // CAP_NET_ADMIN and CAP_NET_RAW: the packet socket and the AF_XDP socket open.
        keep_capabilities(1 << 12 | 1 << 13);
        let error = error(config("right"));
        assert!(
            error.contains("Operation not permitted; CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are needed"),
            "{error}"
        );
    });
    work.join().unwrap();
    assert!(!shown("right").contains("xdp"));
}
