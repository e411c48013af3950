// SPDX-License-Identifier: MIT
//! An answer's tables, cell by cell, and its charts, alike for the terminal and for a page.

use crate::answer::{Answer, Question, Row};
use crate::capacity::Limit;
use crate::figures::{Figures, Method};
use crate::number::{loss, share, significant, time};
use crate::objective::Quantity;
use crate::traffic::{Arrivals, Rate};
use perigee_chart::{Axis, Chart, Line, Mark};

/// Columns of the table by number of cores.
pub const BY_CORES: [&str; 12] =
    ["cores", "capacity", "Mpps", "limit", "accepted", "loss", "mean", "p50", "p99", "p99.9", "busiest", "batch"];

/// Columns of the table by load.
pub const BY_LOAD: [&str; 9] = ["load", "offered", "loss", "mean", "p50", "p99", "p99.9", "busiest", "batch"];

/// The loads in a terminal's table.
const LOADS_SHOWN: [f64; 8] = [0.5, 0.8, 0.9, 0.95, 0.98, 1.0, 1.1, 1.5];

/// The cells of one number of cores.
pub fn by_cores(row: &Row, question: &Question) -> Vec<String> {
    let gbps = |pps: f64| gbps(pps, question);
    let limit = match row.limit {
        Limit::Core => "core",
        Limit::Link => "link",
        Limit::Slow => "slow path",
    };
    let figures = &row.figures;
    let mut cells = vec![
        row.cores.to_string(),
        marked(Some(gbps(row.capacity_pps)), &row.capacity_method),
        significant(row.capacity_pps / 1e6, 4),
        limit.to_owned(),
        marked(figures.accepted_pps.map(gbps), &figures.methods.loss),
    ];
    cells.extend(of_figures(figures));
    cells
}

/// The cells of one load.
pub fn by_load(figures: &Figures, question: &Question, capacity_pps: f64) -> Vec<String> {
    let load = figures.offered_pps / capacity_pps;
    let mut cells = vec![significant(load, 3), gbps(figures.offered_pps, question)];
    cells.extend(of_figures(figures));
    cells
}

/// The rows of the table by load: a few of them for a terminal, or all.
pub fn loads(answer: &Answer, all: bool) -> impl Iterator<Item = &Figures> {
    let no_loss = capacity_pps(answer);
    answer.load.iter().filter(move |figures| {
        let load = figures.offered_pps / no_loss;
        all || LOADS_SHOWN.iter().any(|shown| (shown - load).abs() < 1e-6)
    })
}

/// What the number of cores in the table by load has time for, in packets per second: a load of 1.
pub fn capacity_pps(answer: &Answer) -> f64 {
    let row = answer.rows.iter().find(|row| row.cores == answer.load_cores);
    row.map_or(1.0, |row| row.capacity_pps)
}

/// Loss, times, utilisation, batches.
fn of_figures(figures: &Figures) -> Vec<String> {
    let methods = &figures.methods;
    let times = figures.sojourn_ns;
    vec![
        marked(figures.loss.map(loss), &methods.loss),
        marked(figures.mean_ns.map(time), &methods.mean),
        marked(times.map(|times| time(times.p50)), &methods.percentiles),
        marked(times.map(|times| time(times.p99)), &methods.percentiles),
        marked(times.map(|times| time(times.p999)), &methods.percentiles),
        marked(figures.busiest().map(share), &methods.utilisation),
        marked(figures.batch.map(|batch| significant(batch, 3)), &methods.utilisation),
    ]
}

/// A value, with a mark where it is approximate; a dash where it is missing.
fn marked(value: Option<String>, method: &Method) -> String {
    match (value, method) {
        (None, _) => "-".to_owned(),
        (Some(value), Method::Approximate(_)) => format!("~{value}"),
        (Some(value), _) => value,
    }
}

/// A rate in Gbit/s on the wire, with its unit.
fn gbps(pps: f64, question: &Question) -> String {
    format!("{}G", significant(Rate::Packets(pps).gbps(&question.traffic.sizes), 4))
}

/// The charts: throughput by cores, loss, times and utilisation by load. Those without a point are left out.
pub fn charts(question: &Question, answer: &Answer) -> Vec<Chart> {
    let charts = [
        by_cores_chart(question, answer),
        loss_chart(question, answer),
        times_chart(question, answer),
        busy_chart(question, answer),
    ];
    charts.into_iter().filter(|chart| chart.lines.iter().any(|line| line.points.len() > 1)).collect()
}

fn wire(pps: f64, question: &Question) -> f64 {
    Rate::Packets(pps).gbps(&question.traffic.sizes)
}

fn by_cores_chart(question: &Question, answer: &Answer) -> Chart {
    let points = |value: &dyn Fn(&Row) -> Option<f64>| {
        let points = answer.rows.iter().filter_map(|row| Some((f64::from(row.cores), wire(value(row)?, question))));
        points.collect::<Vec<_>>()
    };
    let mut marks = vec![Mark { horizontal: false, at: answer.offered_gbps, name: "offered".to_owned() }];
    // A link rate far above everything else would flatten the lines.
    let highest = answer.rows.iter().map(|row| row.capacity_gbps).fold(answer.offered_gbps, f64::max);
    if answer.link_gbps < 2.0 * highest {
        marks.push(Mark { horizontal: false, at: answer.link_gbps, name: "links carry".to_owned() });
    }
    Chart {
        title: "Throughput by number of cores".to_owned(),
        x: Axis::linear("Cores"),
        y: Axis::linear("Gbit/s on the wire"),
        lines: vec![
            Line::nth(0, "capacity", points(&|row| Some(row.capacity_pps))),
            Line::nth(1, "accepted of what is offered", points(&|row| row.figures.accepted_pps)),
        ],
        marks,
    }
}

/// A chart against the offered rate, with the limits of a quantity.
fn load_chart(
    question: &Question,
    answer: &Answer,
    title: &str,
    y: Axis,
    scale: f64,
    quantities: &[Quantity],
) -> Chart {
    let cores = answer.load_cores;
    let lines = quantities.iter().enumerate().map(|(i, quantity)| {
        let points = answer.load.iter().filter_map(|figures| {
            let value = quantity.of(figures).filter(|value| !y.log || *value > 1e-10)?;
            Some((wire(figures.offered_pps, question), value * scale))
        });
        Line::nth(i, if quantities.len() > 1 { quantity.to_string() } else { String::new() }, points.collect())
    });
    let lines: Vec<_> = lines.collect();
    let mut marks = Vec::new();
    let highest = answer.load.last().map_or(0.0, |figures| figures.offered_pps);
    if answer.offered_pps <= highest {
        marks.push(Mark { horizontal: true, at: answer.offered_gbps, name: "offered".to_owned() });
    }
    for condition in question.objective.iter().flat_map(|objective| objective.conditions()) {
        if quantities.contains(&condition.quantity) && condition.limit > 0.0 {
            marks.push(Mark { horizontal: false, at: condition.limit * scale, name: condition.to_string() });
        }
    }
    let title = format!("{title}, {cores} core{}", if cores == 1 { "" } else { "s" });
    Chart { title, x: Axis::linear("Offered, Gbit/s on the wire"), y, lines, marks }
}

fn loss_chart(question: &Question, answer: &Answer) -> Chart {
    load_chart(question, answer, "Loss against load", Axis::log("Lost packets (%)"), 100.0, &[Quantity::Loss])
}

fn times_chart(question: &Question, answer: &Answer) -> Chart {
    let quantities = [Quantity::Mean, Quantity::P50, Quantity::P99, Quantity::P999];
    load_chart(question, answer, "Sojourn time against load", Axis::log("Microseconds"), 1e-3, &quantities)
}

fn busy_chart(question: &Question, answer: &Answer) -> Chart {
    let y = Axis::linear("Busiest core (% of time)");
    load_chart(question, answer, "Utilisation against load", y, 100.0, &[Quantity::Utilisation])
}

/// What the model assumes here.
pub fn assumptions(question: &Question) -> Vec<String> {
    let router = &question.profile.router;
    let traffic = &question.traffic;
    let mut said = vec![
        format!("Packets arrive {}.", match traffic.arrivals {
            Arrivals::Poisson => "at random and independently of each other (Poisson)",
            Arrivals::Constant => "back to back at a constant bit rate, all ports in step, as test equipment sends them",
        }),
        format!(
            "{} flows are spread over the cores by RSS: Toeplitz with Microsoft's key over addresses and ports, 128 entries; the flows of a port have equal rates, and so do the ports.",
            traffic.flows
        ),
        format!(
            "A core takes up to {} packets at once from a receive ring of {} places; each port has a ring per core, and a core takes its rings in turn. All packets of a burst leave at its end.",
            router.burst, router.receive_ring
        ),
        "Sojourn times run from the receive ring to the hand-over to the transmit device; wires and transmit rings come on top.".to_owned(),
        format!("How much of a core's time packets take is the profile's model ({}).", question.profile.model.name()),
    ];
    if let Some(after) = router.sleep_after_us {
        said.push(format!("A core sleeps after {after} us without packets and wakes within {} us.", router.wake_up_us));
    }
    if router.punt_share * router.slow_path_ns > 0.0 {
        said.push(format!(
            "{} of the packets go to the slow path, which takes {} for each, on any core that is free.",
            share(router.punt_share),
            time(router.slow_path_ns)
        ));
    }
    if router.transmit_buffer > 1 {
        said.push(format!(
            "Packets leave in bursts of {}, or {} us after the first.",
            router.transmit_buffer, router.transmit_timeout_us
        ));
    }
    said
}
