// SPDX-License-Identifier: MIT
//! What the test programs share: EAL without hugepages or privileges, a list of cases, pcap files.
#![allow(dead_code, reason = "each test program uses a part of it")]

use perigee_dpdk::{Device, DpdkPort, Eal, EalConfig, Hugepages, MBUF, MbufPool, PoolConfig, PortConfig, usable_cores};
use perigee_packet::{Batch, Handle, Pool, ReceiveQueue, TransmitQueue};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One case: its name and what it does.
pub type Case = (&'static str, fn(&Eal));

/// Starts EAL and runs the cases, or those whose names contain the first argument; a panic ends the program.
pub fn run(cases: &[Case]) {
    run_with(256, cases);
}

/// Like [`run`], with this many MB of memory.
pub fn run_with(memory_mb: u32, cases: &[Case]) {
    let wanted = std::env::args().nth(1).filter(|a| !a.starts_with('-')).unwrap_or_default();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = EalConfig {
        hugepages: Hugepages::No,
        memory_mb,
        runtime_dir: Some(folder.path().into()),
        ..EalConfig::default()
    };
    let cores = usable_cores();
    let eal = Eal::start(&config).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(usable_cores(), cores, "the main thread is not left pinned");
    let mut passed = 0;
    for (name, case) in cases.iter().filter(|(name, _)| name.contains(&wanted)) {
        println!("test {name}");
        case(&eal);
        passed += 1;
    }
    drop(eal);
    let ours = folder.path().join("dpdk").join(config.file_prefix);
    // A packet that leaked on purpose keeps EAL, and with it its folder.
    let leaked = cases.iter().any(|(name, _)| name.contains("leak") && name.contains(&wanted));
    assert_eq!(ours.exists(), leaked, "{} after the end", ours.display());
    // Like the usual test harness, for scripts that count results.
    println!("test result: ok. {passed} passed; 0 failed; 0 ignored");
}

pub fn pool(eal: &Eal) -> Arc<MbufPool> {
    pool_of(eal, 2047, 2048)
}

pub fn pool_of(eal: &Eal, buffers: u32, room: u16) -> Arc<MbufPool> {
    MbufPool::new(eal, PoolConfig { buffers, cache: 32, room, numa_node: None }).unwrap()
}

pub fn config(devargs: &str) -> PortConfig {
    PortConfig::new(Device::Dpdk(devargs.into()))
}

pub fn open(eal: &Eal, devargs: &str, pool: &Arc<MbufPool>) -> DpdkPort {
    DpdkPort::open(eal, &config(devargs), pool).unwrap_or_else(|error| panic!("{error}"))
}

/// What must come, comes within this time, or the test fails. Minutes: the machine may be busy.
pub const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// Receives until `n` frames have come, and copies them out; fewer if they do not come in [`LONGEST_WAIT`].
pub fn receive(queue: &mut dyn ReceiveQueue, n: usize) -> Vec<Vec<u8>> {
    receive_until(queue, LONGEST_WAIT, |frames| frames.len() >= n)
}

/// Receives until nothing has come for a while.
pub fn receive_all(queue: &mut dyn ReceiveQueue) -> Vec<Vec<u8>> {
    receive_until(queue, Duration::from_secs(2), |_| false)
}

/// Receives until `enough` says so, or until nothing has come for `longest`.
fn receive_until(queue: &mut dyn ReceiveQueue, longest: Duration, enough: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let (mut batch, mut frames, mut idle, mut last) = (Batch::new(&MBUF), Vec::new(), 0, Instant::now());
    while !enough(&frames) && last.elapsed() < longest {
        batch.refill();
        if queue.receive(&mut batch, 32) == 0 {
            idle += 1;
            // sleep: a core is left to whoever sends; the loop ends by what comes
            std::thread::sleep(Duration::from_micros(if idle > 100 { 1000 } else { 0 }));
        } else {
            (idle, last) = (0, Instant::now());
        }
        frames.extend(batch.live().iter().map(|slot| batch.frame(slot).unwrap().to_vec()));
    }
    frames
}

/// Makes packets of frames and sends all of them.
pub fn send(queue: &mut dyn TransmitQueue, pool: &Arc<MbufPool>, frames: &[Vec<u8>]) {
    let mut packets: Vec<Handle> = frames.iter().map(|f| pool.packet(f).unwrap().into_handle()).collect();
    let start = Instant::now();
    while start.elapsed() < LONGEST_WAIT {
        queue.transmit(&mut packets);
        if packets.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
    let left = packets.len();
    queue.discard(&mut packets);
    panic!("{left} packets could not be sent");
}

/// Frames with different lengths (60 ..= longest bytes) and contents.
pub fn frames(n: usize, longest: usize) -> Vec<Vec<u8>> {
    let length = |i: usize| 60 + i * 97 % (longest - 59);
    (0..n).map(|i| (0..length(i)).map(|k| (i * 31 + k * 7) as u8).collect()).collect()
}

/// Writes a classic pcap file (magic number in host order, microseconds, link type Ethernet).
pub fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let words = |w: &[u32]| w.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, u32::from_ne_bytes([2, 0, 4, 0]), 0, 0, 65535, 1]);
    for frame in frames {
        file.extend(words(&[0, 0, frame.len() as u32, frame.len() as u32]));
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// The frames of a classic pcap file.
pub fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_ne_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}
