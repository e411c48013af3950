// SPDX-License-Identifier: MIT
//! Cores and links together, against values calculated manually.

use super::*;
use crate::profile::Profile;
use crate::queueing::{Md1, brute, single};

const CONTENTION: &str = r#"{"format": "perigee-profile/1", "name": "n", "model": "contention",
    "parameters": {"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1}, "router": {"burst": 1, "receive_ring": 65536}}"#;

fn traffic(sizes: &str, flows: u32, directions: u32) -> Traffic {
    Traffic { sizes: sizes.parse().unwrap(), flows, directions, arrivals: Arrivals::Poisson }
}

fn capacity(change: impl Fn(&mut Router), traffic: &Traffic, cores: u32) -> Capacity {
    let mut profile = Profile::parse(CONTENTION, "test").unwrap();
    change(&mut profile.router);
    let service = profile.service(cores, traffic.ways() == 2, 0.0, 0.0);
    Capacity::new(&profile.router, service, traffic, cores)
}

/// One core, one flow: its rate without loss is what it serves; M/D/1 has its times.
#[test]
fn one_core_is_md1() {
    let one = capacity(|_| (), &traffic("64", 1, 1), 1);
    assert_eq!(one.no_loss(), (1e9 / 563.4, Limit::Core, Method::Closed(RATES)));
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
        let (pps, limit, _) = router.no_loss();
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
    let (pps, limit, _) = router.no_loss();
    assert_eq!(limit, Limit::Link);
    assert!((pps - 2e9 / 672.0).abs() < 1.0);
    let figures = router.figures(2.0 * pps);
    assert!((figures.loss.unwrap() - 0.5).abs() < 1e-9);
    let one_way = capacity(quick, &traffic("64", 1000, 1), 8);
    assert!((one_way.no_loss().0 * 2.0 / pps - 1.0).abs() < 1e-12);
    let one_flow = capacity(quick, &traffic("64", 1, 2), 8);
    assert!((one_flow.link_pps() / one_way.link_pps() - 1.0).abs() < 1e-12, "a single flow has one direction");
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

/// Figures without a closed form are missing, not wrong.
#[test]
fn what_needs_a_simulation_says_so() {
    let traffic = traffic("imix", 100, 2);
    let buffers = capacity(|r| (r.transmit_buffer, r.transmit_timeout_us) = (32, 10.0), &traffic, 2).figures(1e6);
    assert!(buffers.loss.is_some() && buffers.utilisation.is_some());
    assert!(buffers.mean_ns.is_none() && buffers.sojourn_ns.is_none() && buffers.incomplete());
    let slow = |r: &mut Router| (r.punt_share, r.slow_path_ns) = (0.01, 20_000.0);
    let figures = capacity(slow, &traffic, 2).figures(1e6);
    assert!(figures.loss.is_none() && figures.mean_ns.is_none() && figures.utilisation.is_none());
    let huge = |r: &mut Router| (r.burst, r.receive_ring) = (1024, 65_536);
    let figures = capacity(huge, &traffic, 1).figures(1e8);
    assert!(matches!(figures.methods.loss, Method::Missing(why) if why.contains("too large")));
}

/// On one core, packet by packet, the slow path has 1 - rate x service of the time; on two, what both leave.
#[test]
fn the_slow_path_has_what_is_left() {
    let slow = |r: &mut Router| (r.punt_share, r.slow_path_ns, r.link_gbps) = (0.01, 20_000.0, 100.0);
    let (pps, limit, method) = capacity(slow, &traffic("64", 1, 1), 1).no_loss();
    assert!((pps * (563.4 + 200.0) / 1e9 - 1.0).abs() < 1e-4, "{pps}");
    assert_eq!((limit, method), (Limit::Slow, Method::Closed(SLOW)));
    let two = capacity(slow, &traffic("64", 100, 1), 2);
    let pps = two.no_loss().0;
    let busy: f64 = two.shares().iter().map(|share| share * pps * (563.4 + 29.1) / 1e9).product();
    assert!((pps * 200.0 / 1e9 - (1.0 - busy)).abs() < 1e-3, "{pps}: {busy}");
    let few = |r: &mut Router| (r.punt_share, r.slow_path_ns) = (1e-6, 20_000.0);
    let (pps, limit, _) = capacity(few, &traffic("64", 1, 1), 1).no_loss();
    assert!(limit == Limit::Slow && (pps * 563.42 / 1e9 - 1.0).abs() < 1e-3);
}

/// A core with two rings of which one has more: where it is full, what it loses above, beside events.
#[test]
fn two_rings_fill_one_after_the_other() {
    let traffic = traffic("64", 100, 2);
    let mut router = capacity(|r| (r.burst, r.receive_ring, r.link_gbps) = (32, 512, 1000.0), &traffic, 1);
    router.server.burst_ns = 400.0;
    router.server.packets = vec![(1.0, 300.0)];
    router.shares = vec![vec![0.7, 0.3]];
    let events =
        brute::Server { burst: 32, ring: 512, burst_ns: 400.0, packets: vec![(1.0, 300.0)], sleep: None, other: 0.3 };
    let limit = router.no_loss().0;
    // 32 and 32 x 3 / 7 packets in two bursts.
    assert!((limit / ((32.0 + 96.0 / 7.0) / (800.0 + 300.0 * (32.0 + 96.0 / 7.0)) * 1e9) - 1.0).abs() < 1e-12);
    for load in [0.95, 1.05, 1.3, 3.0] {
        let rate = load * limit;
        let [loss] = events.measure(rate / 1e9, 200_000, |seen| [seen.loss()]);
        let ours = router.lost(&[0.7 * rate, 0.3 * rate]) / rate;
        println!("{load}: {ours}, events {} +- {}", loss.mean, loss.error);
        assert!((ours - loss.mean).abs() < loss.error + 0.002, "{load}");
    }
}

/// How far "as if both rings were one" is from events: the bounds that docs and help name.
#[test]
fn two_rings_as_one_are_an_approximation() {
    let traffic = traffic("64", 1000, 2);
    for (burst_ns, packet_ns, load) in [(400.0, 300.0, 0.5), (400.0, 300.0, 0.9), (0.0, 600.0, 0.7), (30.0, 130.0, 0.9)]
    {
        let mut router = capacity(|r| (r.burst, r.receive_ring, r.link_gbps) = (32, 512, 1000.0), &traffic, 1);
        router.server.burst_ns = burst_ns;
        router.server.packets = vec![(1.0, packet_ns)];
        let pps = load * router.no_loss().0;
        let figures = router.figures(pps);
        assert_eq!(figures.methods, Methods::all(Method::Approximate(MERGED)));
        let events =
            brute::Server { burst: 32, ring: 512, burst_ns, packets: vec![(1.0, packet_ns)], sleep: None, other: 0.5 };
        let p99 = figures.sojourn_ns.unwrap().p99;
        let [mean, below, above] =
            events.measure(pps / 1e9, 200_000, |seen| [seen.mean(), seen.at_most(p99 / 1.3), seen.at_most(p99 * 1.3)]);
        let ratio = figures.mean_ns.unwrap() / mean.mean;
        println!("{burst_ns} + {packet_ns} n at {load}: mean x {ratio}, {} to {}", below.mean, above.mean);
        assert!((0.75..1.2).contains(&ratio) && below.mean < 0.99 && above.mean > 0.99);
        assert!(figures.loss.unwrap() < 1e-9);
    }
}

/// Packet by packet, two rings have the mean of one, but other percentiles.
#[test]
fn single_packets_of_two_ports() {
    let router = capacity(|r| r.link_gbps = 100.0, &traffic("64", 1000, 2), 1);
    let pps = 0.8 * router.no_loss().0;
    let figures = router.figures(pps);
    assert_eq!(figures.methods.mean, Method::Closed(MD1));
    assert_eq!(figures.methods.percentiles, Method::Approximate(MERGED));
    let packets = vec![(1.0, 563.4 + 11.1)];
    let events = brute::Server { burst: 1, ring: 65_536, burst_ns: 0.0, packets, sleep: None, other: 0.5 };
    let [mean] = events.measure(pps / 1e9, 200_000, |seen| [seen.mean()]);
    assert!(mean.agrees_with(figures.mean_ns.unwrap()), "{mean:?}");
}

/// Two pairs of ports have twice the links; where flows do not divide evenly, one link is full before the others.
#[test]
fn pairs_of_ports() {
    let slow = |ports: u32| move |r: &mut Router| (r.ports, r.link_gbps, r.burst) = (ports, 0.1, 32);
    let two = capacity(slow(2), &traffic("64", 1000, 2), 2);
    let four = capacity(slow(4), &traffic("64", 1000, 2), 2);
    assert!((four.link_pps() / two.link_pps() - 2.0).abs() < 1e-9);
    let three_flows = capacity(slow(4), &traffic("64", 3, 1), 2);
    let one_link = two.link_pps() / 2.0;
    assert!((three_flows.link_pps() / one_link - 1.5).abs() < 1e-9);
    // At twice what all links carry: the first link loses two thirds of 4/3, the second one third of 2/3.
    let pps = 2.0 * one_link;
    let figures = three_flows.figures(pps);
    assert!((figures.accepted_pps.unwrap() / one_link - 1.0 - 2.0 / 3.0).abs() < 1e-6, "{figures:?}");
    assert!((figures.loss.unwrap() - (4.0 / 3.0 - 1.0) / 2.0).abs() < 1e-6);
}

/// Where a frame takes about as long on the wire as on a core, there is hardly a queue: that is said.
#[test]
fn links_space_packets() {
    let at = |link: f64, pps: f64| {
        let router = capacity(|r| r.link_gbps = link, &traffic("64", 1000, 1), 1);
        router.figures(pps).methods.mean
    };
    assert_eq!(at(10.0, 1e6), Method::Closed(MD1), "67 ns on the wire, 563 on the core");
    assert_eq!(at(1.0, 1e6), Method::Approximate(SPACED), "672 ns on the wire");
    assert_eq!(at(4.5, 0.5e6), Method::Closed(MD1), "149 ns on an idle wire");
    assert_eq!(at(4.5, 1.5e6), Method::Approximate(SPACED), "on a wire that is busy for a fifth of the time");
}

/// Cores that sleep are busy with waking up, too; frames of several sizes, or a small ring, lose packets that come
/// close together. Without it, all this was called exact.
#[test]
fn equal_distances_are_exact_only_where_they_are() {
    let of = |change: &dyn Fn(&mut Router), sizes: &str, flows: u32| {
        let traffic = Traffic { arrivals: Arrivals::Constant, ..traffic(sizes, flows, 1) };
        let figures = capacity(change, &traffic, 1).figures(1e6);
        (figures.methods.loss, figures.utilisation.is_some())
    };
    assert_eq!(of(&|_| (), "64", 1000), (Method::Closed(RATES), true));
    assert_eq!(of(&|_| (), "imix", 1000), (Method::Approximate(UNEVEN), true));
    assert_eq!(of(&|router| router.receive_ring = 2, "64", 1000), (Method::Approximate(UNEVEN), true));
    let sleeps = |router: &mut Router| (router.sleep_after_us, router.wake_up_us) = (Some(0.0), 50.0);
    assert_eq!(of(&sleeps, "64", 1000), (Method::Closed(RATES), false));
}

/// A share for a slow path that takes no time is no slow path.
#[test]
fn punted_packets_need_a_slow_path() {
    let punts = |ns: f64| move |router: &mut Router| (router.punt_share, router.slow_path_ns) = (0.5, ns);
    let one = traffic("64", 1, 1);
    assert_eq!(capacity(punts(0.0), &one, 1).figures(1e6).loss, Some(0.0));
    assert_eq!(capacity(punts(1000.0), &one, 1).figures(1e6).loss, None);
}

/// What two rings lose lies between one ring with all their places and one with half of them.
#[test]
fn loss_of_several_rings_is_between_bounds() {
    let router = capacity(|router| router.receive_ring = 4, &traffic("64", 1000, 2), 1);
    let events = brute::Server {
        burst: 1,
        ring: 4,
        burst_ns: 0.0,
        packets: router.server.packets.clone(),
        sleep: None,
        other: 0.5,
    };
    for load in [0.5, 0.7, 0.9, 1.2] {
        let pps = load * router.no_loss().0;
        let figures = router.figures(pps);
        let (most, least) = (figures.loss.unwrap(), figures.loss_at_least.unwrap());
        let seen = events.run(pps / 1e9, 1_000_000, brute::seed());
        let lost = seen.lost as f64 / seen.offered as f64;
        // A few times the standard error of a number of losses that come in clusters.
        let error = 10.0 * (lost / seen.offered as f64).sqrt();
        assert!(least < lost + error && lost - error < most, "{least} to {most}, events {lost}");
        assert!(load > 1.0 || 2.0 * least < most);
    }
}

/// Cores that rarely sleep, but then for long: a few wake-ups in a simulation said little of the mean.
#[test]
fn rare_wake_ups_need_long_simulations() {
    let sleeps = |after, wake| {
        let change = move |r: &mut Router| (r.sleep_after_us, r.wake_up_us, r.receive_ring) = (Some(after), wake, 512);
        let router = capacity(change, &traffic("64", 1, 1), 1);
        router.relaxation(1e6).count
    };
    let never = capacity(|r| r.receive_ring = 512, &traffic("64", 1, 1), 1).relaxation(1e6).count;
    assert!(sleeps(5.0, 1000.0) > 20.0 * never);
    // What adds next to nothing to the mean does not matter, nor does a time to wake of nothing.
    assert_eq!((sleeps(40.0, 1.0), sleeps(0.0, 0.0)), (never, never));
}

/// A ring that gets more than the others waits for their bursts, too: taken as one with them, it lost nothing.
#[test]
fn unequal_rings_lose_hardly_more_than_is_said() {
    let text = r#"{"format": "perigee-profile/1", "name": "n", "model": "batch", "parameters": {"c_batch_ns": 10000, "c_packet_ns": 10,
        "c_byte_ns": 0, "miss_ns": 0, "cache_bytes": 0, "d_ns": 0, "u_ns": 0}, "router": {"receive_ring": 64, "link_gbps": 100}}"#;
    let profile = Profile::parse(text, "test").unwrap();
    let traffic = traffic("64", 3, 1);
    let mut router = Capacity::new(&profile.router, profile.service(1, false, 0.0, 0.0), &traffic, 1);
    router.shares = vec![vec![0.7, 0.3]];
    router.of_ports = vec![0.7, 0.3];
    let events =
        brute::Server { burst: 32, ring: 64, burst_ns: 10_000.0, packets: vec![(1.0, 10.0)], sleep: None, other: 0.3 };
    for load in [0.7, 0.9, 1.0, 1.3] {
        let pps = load * router.no_loss().0;
        let figures = router.figures(pps);
        let (most, least) = (figures.loss.unwrap(), figures.loss_at_least.unwrap_or(0.0));
        let seen = events.run(pps / 1e9, 1_000_000, brute::seed());
        let lost = seen.lost as f64 / seen.offered as f64;
        let error = 10.0 * (lost / seen.offered as f64).sqrt() + 1e-5;
        println!("{load}: {least} to {most}, events {lost}");
        // The upper end is no strict bound here; taken as one ring, these lost nothing up to a load of 1.
        assert!(least < lost + error && 0.85 * lost - error < most);
    }
}

/// Far above full load the chain's numbers are too small for numbers: times became 0, losses NaN, and limits were kept.
#[test]
fn hopeless_overload_is_still_a_number() {
    for burst in [1, 32, 256] {
        for (directions, load) in
            [1, 2].into_iter().flat_map(|ways| [5.0, 11.5, 20.0, 1000.0, 5000.0].map(|l| (ways, l)))
        {
            let change = |r: &mut Router| (r.burst, r.receive_ring, r.link_gbps) = (burst, 512, 1e6);
            let router = capacity(change, &traffic("64", 1000, directions), 1);
            let figures = router.figures(load * router.no_loss().0);
            let time = f64::from(512 * directions) * router.packet_ns();
            if let Method::Missing(_) = figures.methods.loss {
                assert!(burst > 1 && load > 100.0, "not known at {load}");
                continue;
            }
            assert!((figures.loss.unwrap() - (1.0 - 1.0 / load)).abs() < 1e-3, "{burst}, {load}: {:?}", figures.loss);
            assert!(figures.mean_ns.unwrap() > 0.9 * time && figures.busiest().unwrap() > 0.999);
            if let Some(times) = figures.sojourn_ns {
                assert!(times.p50 > 0.9 * time && times.p99 < 1.6 * time, "{burst}, {load}: {times:?}, {time}");
            }
        }
    }
}
