// SPDX-License-Identifier: MIT
//! The distribution against the chain's mean, Franx's formula, and events.

use super::super::{BatchServer, Md1, Sleep, brute};
use super::*;
use std::time::Instant;

fn imix() -> Vec<(f64, f64)> {
    vec![(7.0 / 12.0, 250.0), (4.0 / 12.0, 400.0), (1.0 / 12.0, 900.0)]
}

fn servers() -> Vec<(BatchServer, f64)> {
    let sleep = Some(Sleep { after_ns: 500.0, wake_ns: 4_000.0 });
    let constant = BatchServer { burst: 32, ring: 512, burst_ns: 400.0, packets: vec![(1.0, 300.0)], sleep: None };
    let single = BatchServer { burst: 1, burst_ns: 0.0, ..constant.clone() };
    let mixed = BatchServer { packets: imix(), ..constant.clone() };
    vec![
        (constant.clone(), 0.05),
        (constant.clone(), 0.5),
        (constant.clone(), 0.9),
        (constant.clone(), 0.98),
        (constant.clone(), 1.2),
        (BatchServer { ring: 64, ..constant.clone() }, 1.0),
        (BatchServer { burst: 256, ring: 1024, ..constant.clone() }, 0.8),
        (BatchServer { ring: 4096, ..constant.clone() }, 2.0),
        (single.clone(), 0.9),
        (BatchServer { ring: 64, ..single.clone() }, 1.0),
        (mixed.clone(), 0.5),
        (mixed.clone(), 0.95),
        (BatchServer { ring: 64, ..mixed.clone() }, 1.2),
        (BatchServer { burst: 1, burst_ns: 0.0, ..mixed.clone() }, 0.9),
        (BatchServer { burst: 1, ring: 64, ..mixed.clone() }, 1.1),
        (BatchServer { sleep, ..constant }, 0.1),
        (BatchServer { sleep, burst: 4, ..mixed }, 0.3),
        (BatchServer { sleep, ..single }, 0.4),
    ]
}

/// The mean of the distribution is the chain's, by another way.
#[test]
fn means_agree() {
    for (server, load) in servers() {
        let start = Instant::now();
        let steady = server.solve(load * server.capacity()).unwrap();
        let sojourn = steady.sojourn().unwrap();
        let (mean, expected) = (sojourn.mean(), steady.mean_sojourn_ns);
        println!("{server:?} at {load}: {mean}, chain {expected}, {:?}", start.elapsed());
        assert!((mean / expected - 1.0).abs() < 2e-3);
        assert!((sojourn.at_most(sojourn.longest()) - 1.0).abs() < 1e-9);
    }
}

#[test]
fn single_packets_are_franxs() {
    for load in [0.1, 0.5, 0.9, 0.98] {
        let server = BatchServer { burst: 1, ring: 65_536, burst_ns: 20.0, packets: vec![(1.0, 480.0)], sleep: None };
        let rate = load * server.capacity();
        let (grid, franx) = (server.solve(rate).unwrap().sojourn().unwrap(), Md1::new(rate, 500.0).unwrap());
        for share in [0.2, 0.5, 0.9, 0.99, 0.999] {
            let ours = quantile(share, grid.longest(), |time| grid.at_most(time));
            let theirs = quantile(share, franx.longest(), |time| franx.sojourn_at_most(time));
            println!("load {load}, {share}: {ours}, Franx {theirs}");
            assert!((ours / theirs - 1.0).abs() < 3e-3);
        }
    }
}

/// Full rings whose places are many times the cells of the grid had percentiles of microseconds at a mean of
/// milliseconds.
#[test]
fn large_full_rings_are_right_or_left_to_simulation() {
    for (ring, load, said) in [(2048, 1.5, true), (8192, 1.02, true), (65_536, 1.5, false), (1, 1.3, true)] {
        let server = BatchServer { burst: 1, ring, burst_ns: 0.0, packets: vec![(1.0, 574.0)], sleep: None };
        let steady = server.solve(load * server.capacity()).unwrap();
        let sojourn = steady.sojourn();
        assert_eq!(sojourn.is_ok(), said, "ring of {ring}");
        if let Ok(sojourn) = sojourn {
            let median = quantile(0.5, sojourn.longest(), |time| sojourn.at_most(time));
            assert!((sojourn.mean() / steady.mean_sojourn_ns - 1.0).abs() < 2e-3, "ring of {ring}");
            assert!((median / steady.mean_sojourn_ns - 1.0).abs() < 0.2, "ring of {ring}: {median}");
        }
    }
}

/// A second per packet and millions of packets in it took memory without end.
#[test]
fn hopelessly_slow_servers_are_refused() {
    let server = BatchServer { burst: 32, ring: 512, burst_ns: 1e9, packets: vec![(1.0, 1e9)], sleep: None };
    assert!(server.solve(0.015).is_err());
    let sleep = Some(Sleep { after_ns: 0.0, wake_ns: 1e12 });
    assert!(BatchServer { burst_ns: 10.0, packets: vec![(1.0, 10.0)], sleep, ..server }.solve(0.015).is_err());
}

/// The facts' 43 us: at exactly full load, 661.8 ns per packet, a ring of 64 (constant distances have 662 ns there).
#[test]
fn full_load_at_random() {
    let server = BatchServer { burst: 1, ring: 64, burst_ns: 0.0, packets: vec![(1.0, 661.8)], sleep: None };
    let sojourn = server.solve(server.capacity()).unwrap().sojourn().unwrap();
    let p99 = quantile(0.99, sojourn.longest(), |time| sojourn.at_most(time));
    assert!((p99 / 43_000.0 - 1.0).abs() < 0.02, "{p99}");
}

#[test]
fn events_agree() {
    for (server, load) in servers() {
        let rate = load * server.capacity();
        let sojourn = server.solve(rate).unwrap().sojourn().unwrap();
        let times =
            [0.3, 0.5, 0.9, 0.99, 0.999].map(|share| quantile(share, sojourn.longest(), |time| sojourn.at_most(time)));
        let events = brute::Server {
            burst: server.burst,
            ring: server.ring,
            burst_ns: server.burst_ns,
            packets: server.packets.clone(),
            sleep: server.sleep.map(|sleep| (sleep.after_ns, sleep.wake_ns)),
            other: 0.0,
        };
        println!("{server:?} at {load}");
        // Times are exact to 0.3 % and a cell; many sojourns may have the same.
        let near =
            |time: f64, i: usize| (0.003 * time + 1.5 * sojourn.step) * if i.is_multiple_of(2) { -1.0 } else { 1.0 };
        let measured = events.measure(rate, 80_000, |seen| -> [f64; 10] {
            std::array::from_fn(|i| seen.at_most(times[i / 2] + near(times[i / 2], i)))
        });
        for (time, seen) in times.iter().zip(measured.chunks(2)) {
            let ours = sojourn.at_most(*time);
            println!("{time} ns: {ours} events from {:?} to {:?}", seen[0], seen[1]);
            // What happens in a few of the runs only, packet after packet, has no standard error that one could go by.
            if load >= 0.95 && ours > 0.95 {
                continue;
            }
            assert!(seen[0].mean - seen[0].error <= ours + 2e-4 && ours - 2e-4 <= seen[1].mean + seen[1].error);
        }
    }
}
