// SPDX-License-Identifier: MIT
//! Questions whose answers are known from elsewhere, and a simulator that is a script.

use super::*;
use crate::profile::Pauses;
use crate::simulate::PROGRAM;
use crate::traffic::Arrivals;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;
use std::time::Duration;

/// Linear contention of the published 64-byte rows, packet by packet, one way: all closed forms are exact.
fn question(rate: &str, cores: &str, objective: Option<&str>) -> Question {
    let text = r#"{"format": "perigee-profile/1", "name": "published", "model": "contention",
        "parameters": {"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1},
        "router": {"burst": 1, "receive_ring": 4096, "link_gbps": 50}}"#;
    Question {
        profile: Profile::parse(text, "test").unwrap(),
        rate: rate.parse().unwrap(),
        traffic: Traffic { sizes: "64".parse().unwrap(), flows: 1000, directions: 1, arrivals: Arrivals::Poisson },
        cores: cores.parse().unwrap(),
        objective: objective.map(|text| text.parse().unwrap()),
        simulate: Simulate::WhereNeeded,
        seed: 1,
        packets: 1000,
    }
}

fn ask(question: &Question) -> Answer {
    answer(question, None, &|_, _| ()).unwrap()
}

#[test]
fn the_least_number_of_cores_is_found() {
    // 5 Mpps of 563.4 + 29.1 (k - 1) ns need at least three cores, and RSS is not even.
    let all = ask(&question("5Mpps", "1..8", None));
    let Needed::Cores { cores } = all.needed else { panic!("{:?}", all.needed) };
    assert!((3..=5).contains(&cores));
    for row in &all.rows {
        let worst = row.shares.iter().copied().fold(0.0, f64::max);
        let busy = 5e6 * worst * (563.4 + 29.1 * f64::from(row.cores - 1)) / 1e9;
        assert_eq!(busy <= 1.0, row.cores >= cores, "{} cores: {busy}", row.cores);
        assert_eq!(busy <= 1.0, row.capacity_pps >= 5e6);
    }
    assert_eq!(all.load_cores, cores);
    assert!(all.load.windows(2).all(|pair| pair[0].loss <= pair[1].loss), "loss grows with load");
    assert!(
        all.sentence.starts_with(&format!("{cores} cores forward 5 Mpps of 64 B with no loss")),
        "{}",
        all.sentence
    );
    assert!(all.notes.is_empty(), "{:?}", all.notes);
    let utilised = ask(&question("5Mpps", "1..8", Some("utilisation<70%")));
    assert!(matches!(utilised.needed, Needed::Cores { cores: more } if more > cores));
}

#[test]
fn objectives_that_cannot_be_reached() {
    let link = ask(&question("60G", "1..4", Some("loss<1%")));
    assert_eq!(link.needed, Needed::Link);
    assert!(
        link.sentence.starts_with("no number of cores reaches this, because the link is the limit"),
        "{}",
        link.sentence
    );
    let none = ask(&question("5Mpps", "1..4", Some("p99<0.5us")));
    assert!(matches!(none.needed, Needed::None { .. }));
    assert!(
        none.sentence.starts_with("none of 1..4 cores forwards 5 Mpps of 64 B with p99<500ns: the best is "),
        "{}",
        none.sentence
    );
    let one = ask(&question("5Mpps", "1", None));
    assert!(
        one.sentence.starts_with("1 core does not forward 5 Mpps of 64 B with no loss: no loss up to 1.773 Mpps"),
        "{}",
        one.sentence
    );
    // Without a limit of loss, what links cannot carry is no obstacle.
    let times = ask(&question("60G", "1..4", Some("mean<1s")));
    assert_eq!(times.needed, Needed::Cores { cores: 1 });
}

/// Shares of a thousand flows are sums that miss 1/2 by a hair: exactly the links' rate was refused.
#[test]
fn line_rate_is_no_more_than_links_carry() {
    for (rate, directions, flows) in [("100G", 2, 1000), ("100G", 2, 999), ("50G", 1, 1000), ("100G", 2, 2)] {
        let mut asked = question(rate, "1..2", None);
        asked.traffic.sizes = "9216".parse().unwrap();
        (asked.traffic.directions, asked.traffic.flows) = (directions, flows);
        let answer = ask(&asked);
        assert_eq!(answer.needed, Needed::Cores { cores: 1 }, "{rate}, {flows} flows: {}", answer.sentence);
        assert!((answer.link_gbps - 50.0 * f64::from(directions)).abs() < 1e-6);
    }
}

/// Three flows over two pairs of ports: one port has none, and one pair's direction is full before the other one is.
#[test]
fn links_of_uneven_flows() {
    let mut asked = question("200G", "8", None);
    asked.traffic.sizes = "9216".parse().unwrap();
    (asked.traffic.directions, asked.traffic.flows, asked.profile.router.ports) = (2, 3, 4);
    let answer = ask(&asked);
    assert!((answer.link_gbps - 150.0).abs() < 1e-6, "{}", answer.link_gbps);
    assert!(answer.rows[0].capacity_gbps < 101.0, "{}", answer.rows[0].capacity_gbps);
    assert!(answer.sentence.contains("the link is the limit"), "{}", answer.sentence);
}

/// Random packets overflow a ring of one place long before the core is full: the rate was once given as one without
/// loss.
#[test]
fn what_small_rings_lose_is_told() {
    let mut asked = question("0.9Mpps", "1", None);
    asked.profile.router.receive_ring = 1;
    let answer = ask(&asked);
    assert!(
        answer.sentence.ends_with("1 core does not forward 900 kpps of 64 B with no loss: loss 9.85%"),
        "{}",
        answer.sentence
    );
    assert!(answer.notes.iter().any(|note| note.starts_with("capacity: ")), "{:?}", answer.notes);
}

/// Rings of several ports: what they lose is known between bounds, and an objective between them is not met.
#[test]
fn a_loss_between_bounds_is_not_judged() {
    let ask_for = |objective| {
        let mut asked = question("1.5Mpps", "2", objective);
        (asked.traffic.directions, asked.profile.router.receive_ring) = (2, 4);
        asked.simulate = Simulate::Never;
        ask(&asked)
    };
    let figures = &ask_for(None).rows[0].figures;
    let (most, least) = (figures.loss.unwrap(), figures.loss_at_least.unwrap());
    assert!(least > 0.0 && most > 3.0 * least, "{least} to {most}");
    assert_eq!(ask_for(Some("loss<0.00001%")).needed, Needed::None { best: 2 });
    let middle = format!("loss<{}%", 100.0 * (least * most).sqrt());
    let between = ask_for(Some(&middle));
    assert_eq!(between.needed, Needed::Unknown { cores: 2 });
    assert!(between.sentence.contains("loss is between"), "{}", between.sentence);
    assert_eq!(ask_for(Some("loss<10%")).needed, Needed::Cores { cores: 2 });
}

/// The loss with a slow path is unknown, which is not "no loss".
#[test]
fn an_unknown_loss_is_not_none() {
    let mut asked = question("1Mpps", "1", None);
    (asked.profile.router.punt_share, asked.profile.router.slow_path_ns) = (0.01, 5000.0);
    let answer = ask(&asked);
    assert_eq!(answer.needed, Needed::Unknown { cores: 1 });
    assert!(answer.sentence.contains("slow path"), "{}", answer.sentence);
}

/// Less than a packet in a million million counts as none if no loss is requested.
#[test]
fn no_loss_can_be_asked_for() {
    let asked = question("1Mpps", "1", Some("loss<=0%"));
    assert_eq!(ask(&asked).needed, Needed::Cores { cores: 1 });
}

/// Two ways, or test equipment: what is not exact is marked, and so is how to get it.
#[test]
fn without_a_simulator_gaps_are_told() {
    let mut asked = question("1Mpps", "1..2", Some("p99<1ms"));
    asked.traffic.arrivals = Arrivals::Constant;
    let answer = ask(&asked);
    assert_eq!(answer.needed, Needed::Unknown { cores: 1 });
    assert!(answer.notes.iter().any(|note| note.starts_with("-: ") && note.contains("libns3-dev")));
    assert!(answer.rows[0].figures.loss == Some(0.0) && answer.rows[0].figures.mean_ns.is_none());
    let mut asked = question("1Mpps", "1..2", Some("p99<1ms"));
    asked.traffic.directions = 2;
    let answer = ask(&asked);
    assert_eq!(answer.needed, Needed::Cores { cores: 1 });
    assert!(answer.notes.iter().any(|note| note.starts_with("~: ")));
}

/// A simulator that always gives the same answer.
fn simulator(folder: &std::path::Path, cores: u32) -> Simulator {
    let busy = vec!["0.5"; cores as usize].join(",");
    let said = format!(
        r#"{{"ns3": "3.37", "events": 10, "packets": 1200, "offered_pps": 1e6, "measured_s": 0.001, "loss": 0.1, "batch_mean": 2,
        "sojourn_ns": {{"mean": 1, "p50": 2, "p90": 3, "p99": 4, "p99.9": 5}}, "utilisation": [{busy}]}}"#
    );
    let program = folder.join(PROGRAM);
    fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{said}\nEND\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Simulator::find(Some(&program), None, Duration::from_secs(60)).unwrap().unwrap()
}

fn simulated(asked: &Question, simulator: &Simulator, progress: &(dyn Fn(usize, usize) + Sync)) -> Answer {
    loop {
        match answer(asked, Some(simulator), progress) {
            // Another test's child has the script open from before its exec: soon it has not.
            Err(SimulationError::Absent { source, .. }) if source.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
            result => return result.unwrap(),
        }
    }
}

#[test]
fn a_simulation_is_used_where_it_must_and_where_it_shall() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = simulator(folder.path(), 2);
    let closed = simulated(&question("1Mpps", "2", None), &simulator, &|_, _| panic!("nothing to simulate"));
    assert!(closed.methods.iter().all(|(_, method)| method.starts_with("closed form")));
    let forced = Question { simulate: Simulate::Always, ..question("1Mpps", "2", None) };
    let heard = Mutex::new(Vec::new());
    let always = simulated(&forced, &simulator, &|done, all| heard.lock().unwrap().push((done, all)));
    assert_eq!(always.rows[0].figures.loss, Some(0.1));
    assert_eq!(always.methods[0].0, "throughput");
    let runs = 1 + always.load.len();
    assert!(
        always.methods[1].1.starts_with(&format!("ns-3 3.37 simulation: {} events, ", 10 * runs)),
        "{:?}",
        always.methods
    );
    assert!(heard.lock().unwrap().contains(&(runs, runs)));
    let mut constant = question("1Mpps", "2", None);
    constant.traffic.arrivals = Arrivals::Constant;
    let mixed = simulated(&constant, &simulator, &|_, _| ());
    assert_eq!((mixed.rows[0].figures.loss, mixed.rows[0].figures.mean_ns), (Some(0.0), Some(1.0)));
    let never = Question { simulate: Simulate::Never, ..constant };
    assert_eq!(simulated(&never, &simulator, &|_, _| panic!("never")).rows[0].figures.mean_ns, None);
}

/// A simulation offers what its random numbers yield: in overload, that raised the accepted rate above what cores can
/// do.
#[test]
fn overloaded_cores_accept_what_they_can() {
    let of = |loss: f64, accepted: f64| {
        let method = Method::Simulated { ns3: "3.37".to_owned(), events: 9, packets: 9, counted: 9, settled: true };
        Figures { offered_pps: 0.99e6, accepted_pps: Some(accepted), loss: Some(loss), ..Figures::unknown(1e6, method) }
    };
    let over = of_what_is_offered(of(0.1, 0.891e6), 1e6, 1e6, true);
    assert_eq!((over.offered_pps, over.accepted_pps), (1e6, Some(0.891e6)));
    assert!((over.loss.unwrap() - 0.109).abs() < 1e-12);
    let under = of_what_is_offered(of(0.1, 0.891e6), 1e6, 1e6, false);
    assert_eq!((under.accepted_pps, under.loss), (Some(0.9e6), Some(0.1)));
    let links = of_what_is_offered(of(0.1, 0.891e6), 1e6, 2e6, false);
    assert_eq!((links.accepted_pps, links.loss), (Some(0.9e6), Some(0.55)));
}

/// Large rings were still filling when packets began to be counted, and nothing was lost.
#[test]
fn simulations_are_as_long_as_queues_are_slow() {
    let of = |ring, load: f64, cores| {
        let mut asked = question("1Mpps", "1", None);
        asked.profile.router.receive_ring = ring;
        asked.profile.router.link_gbps = 1000.0;
        let service = asked.profile.service(cores, false, 0.0, 0.0);
        let capacity = Capacity::new(&asked.profile.router, service, &asked.traffic, cores);
        Size::of(&capacity, load * capacity.no_loss().0, 200_000)
    };
    let plain = of(512, 0.5, 1);
    assert_eq!((plain.packets, plain.settled), (200_000, true));
    assert!((40_000..40_100).contains(&plain.warm_up));
    let full = of(65_536, 1.1, 1);
    assert!(full.settled && full.warm_up as f64 > 65_536.0 * 1.1 / 0.1, "{}", full.warm_up);
    let near = of(512, 0.99, 1);
    assert!(near.settled && near.packets > 400_000, "{}", near.packets);
    assert!(!of(65_536, 1.0, 1).settled);
    assert!(of(512, 0.98, 4).packets > of(512, 0.98, 1).packets, "each core has its queue");
    // 300 pauses of one core, at 1300 a second, are 0.23 s; four cores have as many in a quarter of that.
    let paused = |cores| {
        let mut asked = question("10Mpps", "1", None);
        asked.profile.router.pauses = Some(Pauses { per_second: 1300.0, lengths_ns: vec![16e3] });
        let service = asked.profile.service(cores, false, 0.0, 0.0);
        Size::of(&Capacity::new(&asked.profile.router, service, &asked.traffic, cores), 1e6, 20_000)
    };
    assert_eq!((paused(1).packets, paused(1).settled), (1_000_000 * 300 / 1300, true));
    assert_eq!(paused(4).packets, 1_000_000 * 300 / 1300 / 4);
}

#[test]
fn answers_are_json() {
    let json = serde_json::to_value(ask(&question("1Mpps", "1..2", Some("loss<1%")))).unwrap();
    assert_eq!(json["needed"], serde_json::json!({"verdict": "cores", "cores": 1}));
    assert_eq!(json["rows"][1]["cores"], 2);
    assert!(json["rows"][0]["sojourn_ns"]["p99.9"].as_f64().unwrap() > 563.4);
    assert!(json["rows"][0]["methods"]["mean"].as_str().unwrap().contains("M/D/1"));
}

/// A profile fitted on one and two cores predicted sixteen with an error of 59 %, and nothing in the answer said how
/// little it knew.
#[test]
fn cores_beyond_the_points_are_said_to_be_extrapolated() {
    let fitted = |fit: serde_json::Value, cores: &str| {
        let mut question = question("1Mpps", cores, None);
        question.profile.fit = Some(fit);
        ask(&question).notes
    };
    let fit = |cores: &[u32], low: f64, high: f64| {
        let points: Vec<_> = cores.iter().map(|cores| serde_json::json!({"cores": cores})).collect();
        serde_json::json!({"points": points, "parameters": [{"name": "d_ns", "low": low, "high": high}]})
    };
    let notes = fitted(fit(&[1, 2], 10.0, 300.0), "1..16");
    assert_eq!(notes.len(), 1, "{notes:?}");
    for part in [
        "the profile's points are on 1 and 2 cores: what a further core costs (d_ns, 10 to 300 ns at 95 %)",
        "is extrapolated to 16 cores as if each cost as much, a capacity of ",
        "; points on more cores would tell",
    ] {
        assert!(notes[0].contains(part), "{part} in {notes:?}");
    }
    let sure = fitted(fit(&[1, 2], 29.0, 29.2), "1..16");
    assert!(sure.len() == 1 && !sure[0].contains("would tell"), "{sure:?}");
    let wide = fitted(fit(&[1, 2, 16], 0.0, 300.0), "1..16");
    assert!(wide[0].contains("1, 2 and 16 cores, which tell what a further core costs"), "{wide:?}");
    let held = serde_json::json!({"points": [{"cores": 1}], "parameters": [{"name": "d_ns"}]});
    let said = fitted(held.clone(), "1..2");
    assert_eq!(
        said,
        ["the profile's points are on 1 core: more are extrapolated, as if cores were never in each other's way"]
    );
    for (fit, cores) in [(fit(&[1, 2], 10.0, 300.0), "1"), (fit(&[1, 4], 29.0, 29.2), "1..4"), (held, "1")] {
        assert!(fitted(fit, cores).is_empty(), "{cores}");
    }
}
