// SPDX-License-Identifier: MIT
//! Cores and links together, beside values by hand.

use super::*;
use crate::profile::Profile;
use crate::queueing::single;

const CONTENTION: &str = r#"{"format": "perigee-profile/1", "name": "n", "model": "contention",
    "parameters": {"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1}, "router": {"burst": 1, "receive_ring": 65536}}"#;

fn traffic(sizes: &str, flows: u32, directions: u32) -> Traffic {
    Traffic { sizes: sizes.parse().unwrap(), flows, directions, arrivals: Arrivals::Poisson }
}

fn capacity(change: impl Fn(&mut Router), traffic: &Traffic, cores: u32) -> Capacity {
    let mut profile = Profile::parse(CONTENTION, "test").unwrap();
    change(&mut profile.router);
    let service = profile.service(cores, traffic.ways() == 2, 0.0);
    Capacity::new(&profile.router, service, traffic, cores)
}

/// One core, one flow: its rate without loss is what it serves; M/D/1 has its times.
#[test]
fn one_core_is_md1() {
    let one = capacity(|_| (), &traffic("64", 1, 1), 1);
    assert_eq!(one.no_loss(), (1e9 / 563.4, Limit::Core));
    let figures = one.figures(1e6);
    let mean = single::mean_wait(1e-3, &[(1.0, 563.4)]).unwrap() + 563.4;
    assert!((figures.mean_ns.unwrap() / mean - 1.0).abs() < 1e-9);
    assert!((figures.busiest().unwrap() - 0.5634).abs() < 1e-9);
    assert_eq!(figures.loss, Some(0.0));
    assert!((figures.batch.unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(figures.methods.percentiles, Method::Closed(MD1));
    assert!(!figures.incomplete());
}

/// The flow limits itself on one core, however many there are.
#[test]
fn the_worst_core_limits() {
    for cores in [1, 2, 4, 16] {
        let traffic = traffic("64", 100, 2);
        let router = capacity(|r| r.link_gbps = 1000.0, &traffic, cores);
        let worst = router.shares().iter().copied().fold(0.0, f64::max);
        let packet = 563.4 + 29.1 * f64::from(cores - 1) + 11.1;
        let (pps, limit) = router.no_loss();
        assert!((pps * worst * packet / 1e9 - 1.0).abs() < 1e-12);
        assert_eq!(limit, Limit::Core);
        // A little below it no core is full, above it one is and loses.
        let below = router.figures(0.97 * pps);
        assert!(below.loss.unwrap() < 1e-3 && (below.busiest().unwrap() - 0.97).abs() < 1e-3);
        assert!(router.figures(1.2 * pps).loss.unwrap() > 1e-3);
    }
}

/// Two links of 10 Gbit/s carry 2 x 14.88 million small frames; what is above is lost.
#[test]
fn links_limit() {
    let quick = |r: &mut Router| r.link_gbps = 1.0;
    let router = capacity(quick, &traffic("64", 1000, 2), 8);
    let (pps, limit) = router.no_loss();
    assert_eq!(limit, Limit::Link);
    assert!((pps - 2e9 / 672.0).abs() < 1.0);
    let figures = router.figures(2.0 * pps);
    assert!((figures.loss.unwrap() - 0.5).abs() < 1e-9);
    let one_way = capacity(quick, &traffic("64", 1000, 1), 8);
    assert!((one_way.no_loss().0 * 2.0 / pps - 1.0).abs() < 1e-12);
    let one_flow = capacity(quick, &traffic("64", 1, 2), 8);
    assert_eq!(one_flow.link_pps(), one_way.link_pps(), "a single flow has one direction");
}

/// Far above full load each core serves what it can: those with small shares are not full.
#[test]
fn accepted_is_the_sum_of_cores() {
    let traffic = traffic("64", 3, 1);
    let router = capacity(|r| (r.link_gbps, r.receive_ring) = (1000.0, 512), &traffic, 4);
    let pps = 1.5 * router.no_loss().0;
    let of_core = 1e9 / (563.4 + 3.0 * 29.1);
    let expected: f64 = router.shares().iter().map(|share| (share * pps).min(of_core)).sum();
    let accepted = router.figures(pps).accepted_pps.unwrap();
    assert!((accepted / expected - 1.0).abs() < 1e-3, "{accepted}, {expected}");
    let constant = Capacity { arrivals: Arrivals::Constant, ..router };
    let figures = constant.figures(pps);
    assert!((figures.accepted_pps.unwrap() / expected - 1.0).abs() < 1e-12);
    assert!(figures.mean_ns.is_none() && matches!(figures.methods.mean, Method::Missing(_)));
}

/// The mix of two cores' distributions lies between them, and has the mean of both.
#[test]
fn cores_are_mixed_by_their_packets() {
    let traffic = traffic("64", 100, 2);
    let router = capacity(|r| r.link_gbps = 100.0, &traffic, 2);
    let pps = 0.9 * router.no_loss().0;
    let figures = router.figures(pps);
    let packet = 563.4 + 29.1 + 11.1;
    let alone: Vec<_> = router.shares().iter().map(|share| Md1::new(share * pps / 1e9, packet).unwrap()).collect();
    let mean: f64 = router.shares().iter().zip(&alone).map(|(share, queue)| share * queue.mean_sojourn()).sum();
    assert!((figures.mean_ns.unwrap() / mean - 1.0).abs() < 1e-9);
    let p99 = figures.sojourn_ns.unwrap().p99;
    let at_most: f64 =
        router.shares().iter().zip(&alone).map(|(share, queue)| share * queue.sojourn_at_most(p99)).sum();
    assert!((at_most - 0.99).abs() < 1e-5, "{at_most}");
}

/// What has no closed form is missing, not wrong.
#[test]
fn what_needs_a_simulation_says_so() {
    let traffic = traffic("imix", 100, 2);
    let buffers = capacity(|r| (r.transmit_buffer, r.transmit_timeout_us) = (32, 10.0), &traffic, 2).figures(1e6);
    assert!(buffers.loss.is_some() && buffers.utilisation.is_some());
    assert!(buffers.mean_ns.is_none() && buffers.sojourn_ns.is_none() && buffers.incomplete());
    let slow = |r: &mut Router| (r.punt_share, r.slow_path_ns) = (0.01, 20_000.0);
    let punts = capacity(slow, &traffic, 2);
    let none = capacity(|_| (), &traffic, 2);
    let packet = 563.4 + 29.1 + 11.1;
    assert!((none.no_loss().0 / punts.no_loss().0 - (packet + 200.0) / packet).abs() < 1e-9);
    let figures = punts.figures(1e6);
    assert!(figures.loss.is_none() && figures.mean_ns.is_none());
    let expected = none.figures(1e6).busiest().unwrap() * (packet + 200.0) / packet;
    assert!((figures.busiest().unwrap() / expected - 1.0).abs() < 1e-9);
    let huge = |r: &mut Router| (r.burst, r.receive_ring) = (1024, 65_536);
    let figures = capacity(huge, &traffic, 1).figures(1e8);
    assert!(matches!(figures.methods.loss, Method::Missing(why) if why.contains("too large")));
}
