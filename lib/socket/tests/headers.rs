// SPDX-License-Identifier: MIT
//! Slots of a ring as no kernel should fill them: tests/fuzz has more of them.

use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Pool};
use perigee_socket::Buffers;
use perigee_socket::rehearsal::{Arrived, Rehearsal};
use std::sync::Arc;

const COPY: u32 = 1 << 1;
const VLAN: u32 = 1 << 4;

/// A frame of which more was in the slot than it had bytes, or which was shorter than its addresses, ended the worker.
#[test]
fn lengths_that_contradict_each_other_are_errors() {
    let pool = HeapPool::leak(64);
    let bytes: Vec<u8> = (0..60).collect();
    for large in [false, true] {
        for offload in [[0; 10], [1, 1, 54, 0, 100, 0, 34, 0, 16, 0]] {
            for status in [0, VLAN, COPY, COPY | VLAN] {
                let super_frames = large.then(|| Arc::new(pool) as Arc<dyn Pool>);
                let buffers = Buffers { pool: Arc::new(pool), super_frames, memory: pool };
                let mut queue = Rehearsal::new(buffers, 1500, 2048).unwrap();
                let mut batch = Batch::new(pool);
                let whole = Arrived {
                    status: 0,
                    length: 60,
                    kept: 60,
                    start: 82,
                    seconds: 1,
                    nanoseconds: 0,
                    tag: (0x8100, 7),
                    offload: [0; 10],
                    bytes: &bytes,
                };
                for length in [0, 1, 11, 13] {
                    queue.waits(&bytes[..usize::try_from(length).unwrap()]).unwrap();
                    assert!(queue.arrives(&Arrived { status, length, offload, ..whole }));
                }
                assert!(queue.arrives(&whole));
                for _ in 0..10 {
                    queue.receive(&mut batch, 256);
                    if batch.count() > 0 {
                        break;
                    }
                }
                // The last one, behind all others.
                assert_eq!((batch.count(), batch.frame(0)), (1, Some(&bytes[..])));
                assert!(queue.is_empty());
                assert_eq!((queue.stats().rx_packets, queue.stats().rx_errors), (1, 4));
                batch.refill();
            }
        }
    }
}
