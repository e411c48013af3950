// SPDX-License-Identifier: MIT
//! Ports on both ends of a veth pair, in namespaces of their own, made as an ordinary user by `unshare`.

mod comes_and_goes;
mod frames;
mod port;
mod super_frames;

use perigee_packet::batch::flags;
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::wire::{checksum, checksums};
use perigee_packet::{Batch, Handle, Mask, Pool, Port, ReceiveQueue, TransmitQueue};
use perigee_socket::{Buffers, RxQueue, SocketConfig, SocketPort, TxQueue};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Command, exit};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const INSIDE: &str = "PERIGEE_TEST_INSIDE";
/// Set where only a port is opened, and its error printed.
const CONFINED: &str = "PERIGEE_VETH_CONFINED";
/// An Ethernet type that nothing else on the wire uses.
const MARK: [u8; 2] = [0x88, 0xb5];

/// What must come, comes within this time, or the test fails. Minutes: the machine may be busy.
const LONGEST_WAIT: Duration = Duration::from_secs(180);
/// What does not come within this time, does not come.
const LONG_ENOUGH: Duration = Duration::from_millis(400);

/// Their modules' names, and theirs.
macro_rules! cases {
    ($($module:ident: $($case:ident)*;)*) => {
        const CASES: &[(&str, fn())] = &[$($((concat!(stringify!($module), "::", stringify!($case)), $module::$case)),*),*];
    };
}

cases! {
    frames: every_length tags_come_back frames_have_the_times_of_their_arrival flows_stay_together_and_fragments_as_sent
        unfinished_checksums_are_finished what_the_ring_drops_is_missed without_buffers_frames_wait
        a_frame_that_is_refused_blocks_nothing;
    super_frames: super_frames_stay_whole super_frames_are_cut_without_large_buffers super_frames_beyond_the_buffers;
    comes_and_goes: an_mtu_that_grows down_and_up a_carrier_is_seen_at_once what_is_sent_is_not_received deleted_and_made_again;
    port: what_a_port_says what_is_missing_is_said_in_a_sentence;
}

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
    // The kernel gives an interface its queue some time after its other end has come up, and drops until then what it
    // is to send.
    let start = Instant::now();
    while ["left", "right"].iter().any(|end| !shown(end).contains("state UP")) {
        assert!(start.elapsed() < LONGEST_WAIT, "{} {}", shown("left"), shown("right"));
        std::thread::yield_now();
    }
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

    fn receive_all(&mut self) -> Vec<Vec<u8>> {
        receive_all(&mut self.rx[0], self.pool, ours)
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

/// Frames of the tests, not what Linux sends by itself.
fn ours(frame: &[u8]) -> bool {
    [12, 16, 20].iter().any(|&at| frame.get(at..at + 2) == Some(&MARK))
}

/// Receives until `n` chosen frames have come; fewer if they do not come in [`LONGEST_WAIT`].
fn receive(rx: &mut RxQueue, pool: &'static HeapPool, n: usize, choose: fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    receive_for(rx, pool, n, LONGEST_WAIT, choose)
}

/// Receives chosen frames until none has come for [`LONG_ENOUGH`].
fn receive_all(rx: &mut RxQueue, pool: &'static HeapPool, choose: fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    receive_for(rx, pool, usize::MAX, LONG_ENOUGH, choose)
}

/// Receives by all of these queues until `n` chosen frames have come in sum, or [`LONGEST_WAIT`] is over, and until no
/// more come; by queue.
fn receive_by_each(
    queues: &mut [RxQueue],
    pool: &'static HeapPool,
    n: usize,
    choose: fn(&[u8]) -> bool,
) -> Vec<Vec<Vec<u8>>> {
    let (mut got, start) = (vec![Vec::new(); queues.len()], Instant::now());
    loop {
        for (rx, got) in queues.iter_mut().zip(&mut got) {
            got.extend(receive_all(rx, pool, choose));
        }
        if got.iter().map(Vec::len).sum::<usize>() >= n || start.elapsed() >= LONGEST_WAIT {
            return got;
        }
    }
}

fn receive_for(
    rx: &mut RxQueue,
    pool: &'static HeapPool,
    n: usize,
    longest: Duration,
    choose: fn(&[u8]) -> bool,
) -> Vec<Vec<u8>> {
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
            assert_eq!(batch.port(slot), 7);
            let frame = batch.frame(slot).unwrap();
            if choose(frame) {
                got.push(frame.to_vec());
                (idle, last) = (0, Instant::now());
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
