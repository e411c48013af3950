// SPDX-License-Identifier: MIT
//! The chain against known values and against the events of `brute`.

use super::super::{brute, single};
use super::*;

/// 400 + 300 n nanoseconds, 32 at most: the facts' batch server.
fn batch_server(ring: usize) -> BatchServer {
    BatchServer { burst: 32, ring, burst_ns: 400.0, packets: vec![(1.0, 300.0)], sleep: None }
}

fn imix() -> Vec<(f64, f64)> {
    vec![(7.0 / 12.0, 250.0), (4.0 / 12.0, 400.0), (1.0 / 12.0, 900.0)]
}

fn events(server: &BatchServer) -> brute::Server {
    brute::Server {
        burst: server.burst,
        ring: server.ring,
        burst_ns: server.burst_ns,
        packets: server.packets.clone(),
        sleep: server.sleep.map(|sleep| (sleep.after_ns, sleep.wake_ns)),
        other: 0.0,
    }
}

/// The values of the facts file, to the nanosecond.
#[test]
fn a_batch_server_has_its_known_means() {
    let server = batch_server(65_536);
    for (load, expected) in [(0.5, 1562.0), (0.9, 6102.0), (0.98, 15_859.0)] {
        let steady = server.solve(load * server.capacity()).unwrap();
        assert!((steady.mean_sojourn_ns - expected).abs() <= 1.0, "load {load}: {}", steady.mean_sojourn_ns);
        assert_eq!(steady.loss, 0.0);
    }
}

/// One at a time without limit, the mean is Pollaczek's and Khinchine's, the load is the utilisation.
#[test]
fn single_packets_are_mg1() {
    for packets in [vec![(1.0, 500.0)], imix()] {
        let server = BatchServer { burst: 1, ring: 65_536, burst_ns: 20.0, packets: packets.clone(), sleep: None };
        let whole: Vec<_> = packets.iter().map(|(p, time)| (*p, time + 20.0)).collect();
        for load in [0.01, 0.5, 0.9, 0.99] {
            let rate = load * server.capacity();
            let steady = server.solve(rate).unwrap();
            let expected = single::mean_wait(rate, &whole).unwrap() + server.burst_time(1);
            assert!((steady.mean_sojourn_ns / expected - 1.0).abs() < 1e-9, "{load}: {}", steady.mean_sojourn_ns);
            assert!((steady.utilisation - load).abs() < 1e-9 && (steady.mean_batch - 1.0).abs() < 1e-12);
        }
    }
}

/// M/D/1 with one place besides the server: P(0) e^a = P(1 at an end), and so on, by hand for a load of 1.
#[test]
fn a_ring_of_one_loses_what_it_must() {
    let server = BatchServer { burst: 1, ring: 1, burst_ns: 0.0, packets: vec![(1.0, 100.0)], sleep: None };
    let steady = server.solve(0.01).unwrap();
    // Ends: empty with e^-1, else one left. A cycle takes D, and 1 / rate more if it began empty: D (1 + e^-1) per
    // packet.
    let expected = 1.0 - 1.0 / (1.0 + (-1.0f64).exp());
    assert!((steady.loss - expected).abs() < 1e-12, "{}", steady.loss);
    assert!((steady.utilisation - 1.0 / (1.0 + (-1.0f64).exp())).abs() < 1e-12);
}

/// With setup times, Welch (1964): E[W] = PK + (2 E[U] + rate E[U^2]) / (2 (1 + rate E[U])).
#[test]
fn a_server_that_wakes_is_welchs() {
    let sleep = Sleep { after_ns: 300.0, wake_ns: 5_000.0 };
    let server = BatchServer { burst: 1, ring: 65_536, burst_ns: 0.0, packets: imix(), sleep: Some(sleep) };
    for load in [0.05, 0.5, 0.9] {
        let rate = load * server.capacity();
        let steady = server.solve(rate).unwrap();
        let asleep = (-rate * sleep.after_ns).exp();
        let (mean, square) = (asleep * sleep.wake_ns, asleep * sleep.wake_ns * sleep.wake_ns);
        let setup = (2.0 * mean + rate * square) / (2.0 * (1.0 + rate * mean));
        let expected = single::mean_wait(rate, &imix()).unwrap() + setup + server.packet_time();
        assert!((steady.mean_sojourn_ns / expected - 1.0).abs() < 1e-9, "{load}: {}", steady.mean_sojourn_ns);
    }
}

/// What is offered is served or lost; loss falls with the ring, and tiny losses are reported, not rounded off.
#[test]
fn packets_are_conserved() {
    let mut before = 1.0;
    for ring in [32, 64, 128, 256, 512] {
        let server = batch_server(ring);
        let rate = 0.9 * server.capacity();
        let steady = server.solve(rate).unwrap();
        assert!(
            steady.loss < before && steady.loss > 0.0 || steady.loss == 0.0 && ring > 256,
            "{ring}: {}",
            steady.loss
        );
        before = steady.loss;
        let served =
            steady.utilisation / (server.burst_time(1) + (steady.mean_batch - 1.0) * 300.0) * steady.mean_batch;
        assert!((served / (rate * (1.0 - steady.loss)) - 1.0).abs() < 1e-9, "{ring}: {served}");
    }
    let over = batch_server(512);
    let steady = over.solve(1.5 * over.capacity()).unwrap();
    assert!((steady.loss - 1.0 / 3.0).abs() < 1e-6 && (steady.utilisation - 1.0).abs() < 1e-9);
}

/// Below full load the cut of the ring changes nothing.
#[test]
fn cutting_the_ring_changes_nothing() {
    let large = BatchServer { ring: 60_000, ..batch_server(512) };
    let rate = 0.95 * large.capacity();
    assert!(large.places(rate) < 2_000);
    let twice = BatchServer { ring: 2 * large.places(rate), ..large.clone() };
    let (a, b) =
        (large.solve(rate).unwrap(), BatchServer { ring: large.places(rate), ..large.clone() }.solve(rate).unwrap());
    assert!((a.mean_sojourn_ns / b.mean_sojourn_ns - 1.0).abs() < 1e-12 && b.loss < 1e-12);
    let c = twice.solve(rate).unwrap();
    assert!((a.mean_sojourn_ns / c.mean_sojourn_ns - 1.0).abs() < 1e-12);
}

#[test]
fn large_rings_far_above_full_load() {
    let server = BatchServer { ring: 16_384, ..batch_server(1) };
    let steady = server.solve(3.0 * server.capacity()).unwrap();
    assert!((steady.loss - 2.0 / 3.0).abs() < 1e-9, "{}", steady.loss);
    let hopeless = BatchServer { burst: 1024, ring: 65_536, ..batch_server(1) };
    assert!(hopeless.solve(1.1 * hopeless.capacity()).unwrap_err().to_string().contains("simulate"));
}

/// Brute force at loads and shapes that no formula covers.
#[test]
fn events_agree() {
    let sleep = Some(Sleep { after_ns: 500.0, wake_ns: 4_000.0 });
    let servers = [
        (batch_server(40), 0.95),
        (batch_server(512), 0.9),
        (batch_server(64), 1.3),
        (BatchServer { packets: imix(), ..batch_server(48) }, 0.9),
        (BatchServer { packets: imix(), burst: 4, sleep, ..batch_server(16) }, 0.4),
        (BatchServer { sleep, ..batch_server(512) }, 0.1),
    ];
    for (server, load) in servers {
        let rate = load * server.capacity();
        let steady = server.solve(rate).unwrap();
        let measured =
            events(&server).measure(rate, 100_000, |seen| [seen.mean(), seen.loss(), seen.batch(), seen.utilisation()]);
        let closed = [steady.mean_sojourn_ns, steady.loss, steady.mean_batch, steady.utilisation];
        for (what, (ours, seen)) in ["mean", "loss", "batch", "utilisation"].iter().zip(closed.iter().zip(&measured)) {
            println!("{what} {ours} events {} +- {}", seen.mean, seen.error);
            assert!(seen.agrees_with(*ours), "{what} of {server:?} at {load}");
        }
    }
}
