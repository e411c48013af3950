// SPDX-License-Identifier: MIT
//! How long writing a frame takes, in ns per frame, on heap packets: the generator without a device.
//!
//! ```sh
//! cargo run --release -p perigee-measure --example frame_cost [PART OF A NAME]
//! ```
//!
//! Bursts of 32 go to 2304 buffers in turn, about as many as a device's ring and a pool's cache keep in motion. The
//! best of 150 rounds counts. "copy" is what cannot be avoided: 60 bytes copied into each buffer.

use std::hint::black_box;
use std::time::Instant;

use perigee_measure::traffic::{Description, Frames, Traffic};
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Mask, Pool};

const BURST: usize = 32;
const BATCHES: usize = 72;
const ROUNDS: usize = 150;
const TURNS: usize = 20;

/// Batches with buffers of the lengths that the next frames have.
fn batches(traffic: &mut Traffic) -> Vec<Box<Batch>> {
    let pool = HeapPool::leak(BURST * BATCHES);
    let fill = |_| {
        let mut batch = Batch::new(pool);
        for length in traffic.lengths(BURST) {
            let packet = pool.packet(&vec![0; usize::from(*length)]).expect("the pool has room");
            batch.push(packet, 0).expect("the batch has room");
        }
        traffic.write(&mut batch, Mask::ALL, 0, 0);
        batch
    };
    (0..BATCHES).map(fill).collect()
}

/// The best time per frame in ns of a function that writes a burst.
fn best(batches: &mut [Box<Batch>], mut write: impl FnMut(&mut Batch)) -> f64 {
    let mut round = || {
        let start = Instant::now();
        for _ in 0..TURNS {
            batches.iter_mut().for_each(|batch| write(batch));
        }
        start.elapsed().as_nanos() as f64 / (TURNS * BATCHES * BURST) as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let cases = [
        ("one flow", r#"{}"#),
        ("64 flows", r#"{"source_port": "1024-1087"}"#),
        ("1024 flows", r#"{"source_port": "1024-2047"}"#),
        ("65536 flows", r#"{"source": "198.18.0.0/24", "destination": "random:198.19.0.0/24"}"#),
        // Flows and sizes are back at their starts after 2304 frames, as many as there are buffers: each gets the same
        // size every time.
        ("64 flows, IMIX", r#"{"source_port": "1024-1087", "sizes": "imix"}"#),
        ("131072 flows in turn", r#"{"destination": "16.0.0.0/15"}"#),
        ("16 M random addresses", r#"{"destination": "random:16.0.0.0/8"}"#),
        (
            "random addresses and ports",
            r#"{"source": "random:198.18.0.0/16", "destination": "random:198.19.0.0/16",
            "source_port": "random:1024-65535", "destination_port": "random:1-49151", "flows": 16777216}"#,
        ),
        ("zipf(1.1), 65536 addresses", r#"{"destination": "zipf(1.1):198.19.0.0/16"}"#),
        ("zipf(1.1), 1 M addresses", r#"{"destination": "zipf(1.1):16.0.0.0/12"}"#),
        ("IPv6, 64 flows", r#"{"family": "ipv6", "source_port": "1024-1087"}"#),
        ("IPv6, 1 M random addresses", r#"{"destination": "random:2001:2::/64", "flows": 1048576}"#),
        ("VLAN, 64 flows", r#"{"vlan": "7", "source_port": "1024-1087"}"#),
        ("TCP SYN, 64 flows", r#"{"protocol": "tcp-syn", "source_port": "1024-1087"}"#),
    ];
    let mut shortest = batches(&mut Traffic::new(&Description::default()).expect("it is the default"));
    let head: [u8; 60] = black_box([7; 60]);
    let copy =
        best(&mut shortest, |batch| batch.for_each(Mask::ALL, |packet| packet.frame_mut().copy_from_slice(&head)));
    println!("{copy:6.2} ns  copy");
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, text) in cases.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let description: Description = serde_json::from_str(text).expect("the cases are descriptions");
        let mut traffic = Traffic::new(&description).expect("the cases are good descriptions");
        let mut batches = batches(&mut traffic);
        let ns = best(&mut batches, |batch| {
            black_box(traffic.lengths(BURST));
            let written = traffic.write(batch, Mask::ALL, 12_345, 1);
            assert_eq!(written, BURST);
        });
        println!("{ns:6.2} ns  {name} ({} flows)", traffic.flows());
    }
}
