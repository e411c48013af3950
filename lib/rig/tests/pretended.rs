// SPDX-License-Identifier: MIT
//! Sixteen and sixty-four workers, on whatever cores there are: DPDK starts once per process, so they are one test.

use perigee_rig::{Cores, Load, Loop, Manner, Process, Request, Rig, Settings, in_rounds};
use std::time::Duration;

#[test]
fn many_workers_have_packets_and_give_them_back() {
    let cores = Cores::pretended(64, perigee_dpdk::usable_cores());
    let list = cores.list().to_vec();
    let mut rig = Rig::new(Settings { hugepages: false, cores }).unwrap();
    let (warm, time) = (Duration::from_millis(100), Duration::from_millis(300));
    let on = |workers: usize| Request { warm, time, windows: 2, ..Request::new(list[..workers].to_vec()) };

    // Each worker has its own cache of packets: a pool for one worker is empty before the last one has any.
    let native = Request { path: Loop::Native, transmit_burst: 1, ..on(64) };
    let sample = rig.measure(&native).unwrap();
    assert!(sample.workers.len() == 64 && sample.reasons.is_empty() && sample.lost == 0, "{sample:?}");
    assert!(sample.total > 64 * 32, "{sample:?}");
    // A VM each, and packets for the slow path, which has no core left.
    let sample = rig.measure(&Request { punted: 0.1, two_way: true, flows: 32, ..on(16) }).unwrap();
    assert!(sample.workers.len() == 16 && sample.reasons.iter().any(|(name, _)| name == "ttl.expired"), "{sample:?}");
    let load = Load::Paced { pps: 100_000.0, process: Process::Constant };
    let sample = rig.measure(&Request { load, receive_ring: 65_536, ..on(16) }).unwrap();
    assert!(sample.lost == 0 && sample.offered > 0 && sample.sojourn.is_some(), "{sample:?}");

    let manner = Manner { rounds: 1, seed: 1, patience: Duration::ZERO };
    let found = in_rounds(&mut rig, &[on(4)], manner, |_, _| Ok(())).unwrap();
    assert!(found[0].workers().len() == 4 && found[0].reference > 0.0, "{found:?}");
}
