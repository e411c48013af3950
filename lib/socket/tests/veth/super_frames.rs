// SPDX-License-Identifier: MIT
//! Super-frames: whole, cut, and beyond the buffers.

use super::*;

/// A host on the left that sends datagrams of 1,000 bytes, some at a time, which its device is to cut; and a port on
/// the right.
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
        host.set_read_timeout(Some(LONGEST_WAIT)).unwrap();
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

pub fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

pub fn to_us(frame: &[u8]) -> bool {
    frame[..6] == [2, 0, 0, 0, 0, 2]
}

/// Frames of up to 65,535 bytes, whole, out again as they came, and a host takes them apart.
pub fn super_frames_stay_whole() {
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

pub fn super_frames_are_cut_without_large_buffers() {
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
pub fn super_frames_beyond_the_buffers() {
    for (large, held) in [(0, 0), (0, 24), (1, 23), (3, 21)] {
        let (pool, few) = (HeapPool::leak(24), HeapPool::leak(0));
        // Heap buffers belong to one pool: none for large ones means that the port falls back to `pool`, whose 24 are
        // not enough.
        let room = if large == 0 { 2000 } else { 65_535 };
        let config = SocketConfig { number: 7, room, ..SocketConfig::new("right") };
        let super_frames: Option<Arc<dyn Pool>> = Some(if large == 0 { Arc::new(few) } else { Arc::new(pool) });
        ip("link set right mtu 1500");
        let config = SocketConfig { mtu: Some(1500), ..config };
        let right = SocketPort::open(&config, Buffers { super_frames, ..buffers(pool) }).unwrap();
        let mut rx = right.rx_queue(0).unwrap();
        let sender = Sender::new(false);
        let held: Vec<_> = (0..held).map(|_| pool.packet(&[0; 60]).unwrap()).collect();
        for _ in 0..400 {
            sender.send(&payload(60_300));
        }
        receive_all(&mut rx, pool, to_us);
        let stats = right.stats();
        println!("    {large} large buffers: {stats:?}");
        assert!(stats.rx_missed + stats.rx_no_buffer > 0);
        // Each super-frame that finds no buffer is lost whole, and each of its segments is counted.
        let segments = 60_300_u64.div_ceil(Sender::SIZE as u64);
        assert_eq!(stats.rx_errors > 0, held.len() == 24, "none is free for a segment: {stats:?}");
        let lost = stats.rx_errors / segments;
        assert!(stats.rx_errors == lost * segments && lost <= stats.rx_no_buffer, "{stats:?}");
        drop(held);
        sender.send(&payload(10));
        // On a busy machine segments may still come before it, the last of a super-frame with 300 bytes.
        let small = |frame: &[u8]| to_us(frame) && frame.len() < 100;
        assert_eq!(receive(&mut rx, pool, 1, small).len(), 1);
        drop((rx, right));
        assert_eq!((pool.in_use(), few.in_use()), (0, 0), "buffers leaked");
    }
}
