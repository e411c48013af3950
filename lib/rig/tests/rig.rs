// SPDX-License-Identifier: MIT
//! Whole measurements. DPDK starts once per process, so they are one test.

use anyhow::bail;
use perigee_rig::{
    Cores, Idle, Io, Load, Lookups, Loop, Manner, Process, Request, Rig, Routes, Settings, SoFar, Vantage, in_rounds,
};
use std::time::Duration;

#[test]
fn every_packet_is_accounted_for() {
    let cores = Cores::usable().unwrap();
    let core = cores.list()[0];
    let mut rig = Rig::new(Settings { hugepages: false, cores }).unwrap();
    let (warm, time) = (Duration::from_millis(20), Duration::from_millis(60));
    let plain = Request { warm, time, windows: 3, ..Request::new(vec![core]) };

    for path in [Loop::Lua, Loop::Native, Loop::Until(Vantage::Receive), Loop::Until(Vantage::Lookup)] {
        let sample = rig.measure(&Request { path, ..plain.clone() }).unwrap();
        assert!(sample.mpps > 0.0 && sample.windows.len() == 3 && sample.batch == 32.0, "{path:?}: {sample:?}");
        assert!(sample.reasons.is_empty() && sample.sojourn.is_none() && sample.lost == 0, "{path:?}: {sample:?}");
    }
    // What is freed at once is not sent, and nothing is left in the batch for the worker to find.
    let sample = rig.measure(&Request { path: Loop::Until(Vantage::Taken), ..plain.clone() }).unwrap();
    assert!(sample.mpps > 0.0 && sample.sent_batch == 0.0 && sample.reasons.is_empty(), "{sample:?}");
    // The more ports, the fewer packets of a burst for each; transmit buffers wait for 16 all the same.
    for (ports, two_way) in [(3, false), (64, false), (8, true)] {
        let request = Request { ports, two_way, flows: 2, networks: 1000, transmit_burst: 16, ..plain.clone() };
        let sample = rig.measure(&request).unwrap();
        assert!(sample.reasons.is_empty() && sample.total > 0 && sample.sent_batch > 1.0, "{ports} ports: {sample:?}");
    }
    // A full table.
    rig.give(["16.0.0.0/8", "16.1.0.0/16", "20.1.2.3/32"].map(|text| text.parse().unwrap()).to_vec());
    for lookups in [Lookups::Burst, Lookups::Single] {
        let sample = rig.measure(&Request { routes: Routes::Given, lookups, ..plain.clone() }).unwrap();
        assert!(sample.mpps > 0.0 && sample.reasons.is_empty() && sample.sent_batch > 0.0, "{sample:?}");
    }

    // Both ways, many networks, other frames.
    let both = Request { flows: 4, two_way: true, networks: 1000, frame_size: 1518, burst: 8, ..plain.clone() };
    let sample = rig.measure(&both).unwrap();
    assert!(sample.reasons.is_empty() && sample.batch == 8.0 && sample.table_bytes > 0, "{sample:?}");

    // Packets for the slow path leave under their reason, and those that its ring has no room for under another one.
    let sample = rig.measure(&Request { punted: 0.5, path: Loop::Native, ..plain.clone() }).unwrap();
    assert!(sample.reasons.iter().any(|(name, packets)| name == "ttl.expired" && *packets > 0), "{sample:?}");
    let known = ["ttl.expired", "host.punt_ring_full"];
    assert!(sample.reasons.iter().all(|(name, _)| known.contains(&name.as_str())), "{sample:?}");

    // At a rate that any machine can do, packets come as they were asked for, and their times are seen.
    for idle in [Idle::Poll, Idle::Adaptive] {
        let load = Load::Paced { pps: 20_000.0, process: Process::Constant };
        let sample = rig.measure(&Request { load, idle, receive_ring: 65_536, ..plain.clone() }).unwrap();
        assert!(sample.lost == 0 && sample.sojourn.is_some_and(|sojourn| sojourn.packets > 0), "{sample:?}");
        assert_eq!(sample.sleeps > 0, idle == Idle::Adaptive, "{sample:?}");
    }

    let manner = Manner { rounds: 2, seed: 1, patience: Duration::ZERO };
    let mut asked = Vec::new();
    let count = |at: usize, so_far: &SoFar<'_>| {
        let samples = so_far.rounds().iter().map(|rounds| rounds.samples.len()).sum::<usize>();
        assert_eq!(samples, asked.len(), "what has been measured so far is there");
        asked.push(at);
        Ok(())
    };
    let found = in_rounds(&mut rig, &[plain.clone(), both], manner, count).unwrap();
    asked.sort_unstable();
    assert_eq!((asked, found.len()), (vec![0, 0, 1, 1], 2));
    assert!(found.iter().all(|rounds| rounds.mpps() > 0.0 && rounds.reference > 0.0 && rounds.samples.len() == 2));
    // About a tenth of all references are faster than the one that paces are of.
    assert!(found.iter().flat_map(|rounds| &rounds.samples).all(|sample| sample.pace > 0.0 && sample.pace.is_finite()));

    // A share of the throughput is known in rounds only.
    let load = Load::Share { share: 0.3, process: Process::Poisson };
    let shared = Request { load, receive_ring: 65_536, ..plain.clone() };
    let error = rig.measure(&shared).unwrap_err().to_string();
    assert!(error.contains("in rounds"), "{error}");
    let found = in_rounds(&mut rig, &[shared], manner, |_, _| Ok(())).unwrap();
    assert!(found[0].reference > 0.0 && found[0].best().is_some_and(|sample| sample.pace == 1.0), "{found:?}");
    assert!(found[0].sojourn().is_some() && found[0].samples.iter().all(|sample| sample.offered > 0), "{found:?}");

    // Whoever is interrupted ends the rounds.
    let interrupted = |at, _: &SoFar<'_>| if at == 0 { bail!("interrupted") } else { Ok(()) };
    let error = in_rounds(&mut rig, std::slice::from_ref(&plain), manner, interrupted).unwrap_err().to_string();
    assert_eq!(error, "interrupted");

    let error = rig.measure(&Request { cores: vec![100_000], ..plain.clone() }).unwrap_err().to_string();
    assert!(error.contains("core 100000 may not be used"), "{error}");
    let error = rig.measure(&Request { io: Io::Devices, ..plain.clone() }).unwrap_err().to_string();
    assert!(error.contains("none are open"), "{error}");
    // A device that loops back, filled up whenever it is empty.
    rig.open("net_ring0", "net_ring0", "net_null0").unwrap();
    let sample = rig.measure(&Request { io: Io::Devices, ..plain.clone() }).unwrap();
    assert!(sample.mpps > 0.0 && sample.reasons.is_empty() && sample.sent_batch == 0.0, "{sample:?}");

    let error = rig.measure(&Request { structure: "nonsense".to_owned(), ..plain }).unwrap_err().to_string();
    assert!(error.contains("expected one of"), "{error}");
}
