// SPDX-License-Identifier: MIT
//! Tables for people, and JSON.

use super::SnabbBenchArgs;
use super::beside::Outcome;
use super::graphs::{Chains, Line};
use super::turns::Case;
use crate::machine::Machine;
use crate::statistics::Median;
use comfy_table::{Table, presets};
use serde_json::{Value, json};

/// All that was measured, as text.
pub fn text(
    args: &SnabbBenchArgs,
    lines: &[Line],
    chains: &[Chains],
    outcomes: &[Outcome],
    left_out: &[String],
) -> String {
    let mut parts = Vec::new();
    if !lines.is_empty() {
        parts.push(graphs(args, lines));
    }
    if !chains.is_empty() {
        parts.push(two_threads(args, chains));
    }
    if !outcomes.is_empty() {
        parts.push(in_turn(args, outcomes));
    }
    parts.extend(left_out.iter().map(|why| format!("Left out: {why}.\n")));
    parts.join("\n")
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}

fn graphs(args: &SnabbBenchArgs, lines: &[Line]) -> String {
    let mut table = table(["graph", "apps", "Mpps", "ns per packet and app", "bytes of garbage per breath"]);
    for line in lines {
        table.add_row([
            line.graph.clone(),
            line.n.to_string(),
            format!("{:.1}", line.mpps_cpu),
            format!("{:.1}", 1e3 / line.mpps_cpu / f64::from(line.n + 1)),
            format!("{:.1}", line.garbage),
        ]);
    }
    format!(
        "{table}\n\nPackets of {} bytes, one thread, its CPU time; medians of {} times {} s. Garbage: what Lua allocates while its\n\
         collector is off; the engine's start and end included.\n",
        args.bytes, args.rounds, args.seconds
    )
}

fn two_threads(args: &SnabbBenchArgs, chains: &[Chains]) -> String {
    let mut table = table(["apps in each of two chains", "one thread, Mpps", "two threads, Mpps", "ratio"]);
    for c in chains {
        table.add_row([
            c.n.to_string(),
            format!("{:.1}", c.one),
            format!("{:.1}", c.two),
            format!("{:.2} [{:.2}, {:.2}]", c.ratio, c.low, c.high),
        ]);
    }
    format!("{table}\n\nBy the clock, in turn: medians of {} pairs, with the interval of the sign test.\n", args.pairs)
}

/// Perigee's rate by Snabb's, pair by pair.
fn ratio(outcome: &Outcome) -> Option<Median> {
    let ratios: Vec<f64> = outcome.perigee.iter().zip(&outcome.snabb).map(|(perigee, snabb)| perigee / snabb).collect();
    (!ratios.is_empty()).then(|| Median::of(&ratios))
}

/// Of fewer than six pairs there is no interval.
fn with_interval(ratio: &Median) -> String {
    let Median { median, low, high } = ratio;
    match ratio.width().is_finite() {
        true => format!("{median:.2} [{low:.2}, {high:.2}]"),
        false => format!("{median:.2}"),
    }
}

fn name(case: &Case) -> String {
    match case {
        Case::Chain(apps) => format!("chain of {apps}"),
        Case::Basic1 => "snabbmark basic1".to_owned(),
        Case::Lwaftr => "lwaftr bench".to_owned(),
        Case::Packetblaster => "packetblaster lwaftr --int".to_owned(),
        Case::Forward => "forward between two interfaces".to_owned(),
        Case::Start => "start to the first packet".to_owned(),
    }
}

/// A cell: what was measured, or that it was not.
fn cell(case: &Case, samples: &[f64], error: Option<&String>) -> String {
    match (samples.is_empty(), case) {
        (true, _) if error.is_some() => "failed".to_owned(),
        (true, _) => "-".to_owned(),
        (false, Case::Start) => format!("{:.3} s", 1.0 / Median::of(samples).median),
        (false, _) => format!("{:.2} Mpps", Median::of(samples).median),
    }
}

fn in_turn(args: &SnabbBenchArgs, outcomes: &[Outcome]) -> String {
    let beside = args.snabb.is_some();
    let mut table =
        if beside { table(["program", "perigee", "Snabb", "of Snabb"]) } else { table(["program", "perigee"]) };
    let mut errors = String::new();
    for outcome in outcomes {
        let case = &outcome.case;
        let mut row = vec![name(case), cell(case, &outcome.perigee, outcome.error.as_ref())];
        if beside {
            row.push(cell(case, &outcome.snabb, outcome.snabb_error.as_ref()));
            row.push(ratio(outcome).map_or("-".to_owned(), |ratio| with_interval(&ratio)));
        }
        table.add_row(row);
        for (who, why) in [("perigee", &outcome.error), ("Snabb", &outcome.snabb_error)] {
            errors += &why.as_ref().map_or(String::new(), |why| format!("{}: {who} failed: {why}\n", name(case)));
        }
    }
    let ratios = match beside {
        true => {
            " Ratios are taken within a pair of turns, of which the first alternates;\nthe interval is the sign test's; above 1 perigee is faster."
        }
        false => "",
    };
    let mut text = format!(
        "{table}\n\n{errors}Medians of {} turns, each by a process of its own on one and the same core, per second of its CPU time, the \
         kernel's part\nincluded; the start by the clock.{ratios}\n",
        args.turns
    );
    for (is, what) in [
        (Case::Lwaftr, "lwaftr: the process that moves packets; packets of both directions."),
        (
            Case::Packetblaster,
            "packetblaster: what runs without a card, by the tree's own app for packet sockets on both; synth and replay want one of Snabb's cards.",
        ),
    ] {
        if outcomes.iter().any(|outcome| outcome.case == is) {
            text += &format!("{what}\n");
        }
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.case == Case::Forward) {
        text += &ways(outcome);
    }
    text
}

/// What an app of forward.lua is called.
fn way_name(way: &str) -> &str {
    match way {
        "raw" => "apps.socket.raw",
        "port" => "apps.dpdk.port on a packet socket",
        "port xdp:" => "apps.dpdk.port on AF_XDP",
        "xdp" => "apps.xdp.xdp",
        other => other,
    }
}

fn ways(outcome: &Outcome) -> String {
    let tried = |of_snabb: bool| {
        let trials = outcome.trials.iter().filter(|trial| trial.of_snabb == of_snabb);
        let said = trials.map(|trial| match &trial.mpps {
            Ok(mpps) => format!("{} {mpps:.2}", way_name(&trial.way)),
            Err(why) => format!("{} failed ({why})", way_name(&trial.way)),
        });
        said.collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "forward: both ways between the ends of one veth cable, on which packets of 60 bytes go round, so that no generator limits\n\
         the rate; each runtime by the fastest of its apps. Tried, in Mpps: perigee's {}",
        tried(false)
    );
    if outcome.trials.iter().any(|trial| trial.of_snabb) {
        text += &format!(
            ";\nSnabb's {}. Its TAP app has Linux on the other end, so it cannot be one of two ports on a cable",
            tried(true)
        );
    }
    text + ".\n"
}

/// All that was measured, for programs.
pub fn json(
    args: &SnabbBenchArgs,
    lines: &[Line],
    chains: &[Chains],
    outcomes: &[Outcome],
    left_out: &[String],
) -> Value {
    let mut all: Vec<Value> = lines.iter().map(|line| json!(line)).collect();
    all.extend(chains.iter().flat_map(|c| {
        [(1, c.one), (2, c.two)].map(|(workers, mpps)| {
            json!({ "graph": "chains", "n": c.n, "workers": workers, "bytes": args.bytes, "mpps": mpps, "ratio": c.ratio })
        })
    }));
    for outcome in outcomes {
        let known = match outcome.case {
            Case::Chain(apps) => all.iter_mut().find(|line| line["graph"] == "chain" && line["n"] == apps),
            _ => None,
        };
        match known {
            Some(line) => add(line, &outcome_json(args, outcome, false)),
            None => all.push(outcome_json(args, outcome, true)),
        }
    }
    json!({ "snabb": all, "left_out": left_out, "machine": Machine::this() })
}

fn add(to: &mut Value, more: &Value) {
    if let (Some(to), Some(more)) = (to.as_object_mut(), more.as_object()) {
        to.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// A row of its own (`alone`), or what is added to the line of a chain that `perigee snabb bench` has measured.
fn outcome_json(args: &SnabbBenchArgs, outcome: &Outcome, alone: bool) -> Value {
    let mut row = json!({});
    let median = |samples: &[f64]| (!samples.is_empty()).then(|| Median::of(samples).median);
    let (mut keys, mut value): (_, fn(f64) -> f64) = (["mpps_cpu", "snabb_mpps_cpu"], |rate| rate);
    if outcome.case == Case::Start {
        (keys, value) = (["seconds", "snabb_seconds"], |rate| 1.0 / rate);
    }
    if alone {
        let (graph, n) = match outcome.case {
            Case::Chain(apps) => ("chain", Some(apps)),
            Case::Basic1 => ("basic1", None),
            Case::Lwaftr => ("lwaftr", None),
            Case::Packetblaster => ("packetblaster", None),
            Case::Forward => ("forward", None),
            Case::Start => ("start", None),
        };
        row["graph"] = json!(graph);
        if let Some(n) = n {
            add(&mut row, &json!({ "n": n, "bytes": args.bytes }));
        }
        add(&mut row, &json!({ "workers": 1, keys[0]: median(&outcome.perigee).map(value) }));
    }
    row["turns"] = json!(outcome.perigee.len());
    if let Some(ratio) = ratio(outcome) {
        let snabb = median(&outcome.snabb).map(value);
        add(&mut row, &json!({ keys[1]: snabb, "of_snabb": ratio.median, "low": ratio.low, "high": ratio.high }));
    }
    for (key, why) in [("error", &outcome.error), ("snabb_error", &outcome.snabb_error)] {
        if let Some(why) = why {
            row[key] = json!(why);
        }
    }
    if outcome.case == Case::Forward {
        row["way"] = json!(way_name(&outcome.way));
        if ratio(outcome).is_some() {
            row["snabb_way"] = json!(way_name(&outcome.snabb_way));
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snabb::beside::Trial;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: SnabbBenchArgs,
    }

    fn args(words: &[&str]) -> SnabbBenchArgs {
        let mut args = Command::parse_from([&["bench"], words].concat()).args;
        if words.is_empty() {
            args.snabb = None; // SNABB may be set where the tests run
        }
        args
    }

    fn outcome(case: Case, perigee: &[f64], snabb: &[f64]) -> Outcome {
        Outcome {
            case,
            perigee: perigee.to_vec(),
            snabb: snabb.to_vec(),
            error: None,
            snabb_error: None,
            way: "port xdp:".to_owned(),
            snabb_way: "raw".to_owned(),
            trials: Vec::new(),
        }
    }

    fn line(n: u16) -> Line {
        let graph = "chain".to_owned();
        Line { graph, n, workers: 1, bytes: 60, mpps: 99.0, mpps_cpu: 100.0, garbage: 0.0, breaths: 1.0 }
    }

    const SIX: [f64; 6] = [12.0, 12.0, 13.0, 13.0, 14.0, 14.0];
    const TEN: [f64; 6] = [10.0; 6];

    #[test]
    fn ratios_are_those_of_pairs_with_their_interval() {
        let ratio =
            ratio(&outcome(Case::Basic1, &[12.0, 24.0, 36.0, 12.0, 24.0, 36.0], &[10.0, 20.0, 30.0, 10.0, 20.0, 24.0]));
        let ratio = ratio.unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high), (1.2, 1.2, 1.5));
    }

    #[test]
    fn chains_get_their_ratio_and_other_programs_rows() {
        let args = args(&["--snabb", "/bin/snabb"]);
        let outcomes = [outcome(Case::Chain(5), &SIX, &TEN), outcome(Case::Start, &[20.0; 6], &[40.0; 6])];
        let json = json(&args, &[line(1), line(5)], &[], &outcomes, &[]);
        let rows = json["snabb"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        assert!(rows[0].get("of_snabb").is_none());
        assert_eq!((&rows[1]["of_snabb"], &rows[1]["low"], &rows[1]["high"]), (&json!(1.3), &json!(1.2), &json!(1.4)));
        assert_eq!((&rows[1]["mpps_cpu"], &rows[1]["snabb_mpps_cpu"]), (&json!(100.0), &json!(10.0)));
        assert_eq!(
            rows[2],
            json!({"graph": "start", "workers": 1, "seconds": 0.05, "snabb_seconds": 0.025, "turns": 6,
                                   "of_snabb": 0.5, "low": 0.5, "high": 0.5})
        );
    }

    #[test]
    fn without_snabb_its_columns_are_left_out() {
        let outcomes = [outcome(Case::Basic1, &SIX, &[])];
        let text = text(&args(&[]), &[], &[], &outcomes, &["lwaftr: no tree".to_owned()]);
        assert!(
            text.contains("13.00 Mpps") && !text.contains("Snabb") && text.contains("Left out: lwaftr: no tree."),
            "{text}"
        );
        let row = &json(&args(&[]), &[], &[], &outcomes, &[])["snabb"][0];
        assert_eq!(row, &json!({"graph": "basic1", "workers": 1, "mpps_cpu": 13.0, "turns": 6}));
    }

    #[test]
    fn a_failure_is_a_line() {
        let mut lwaftr = outcome(Case::Lwaftr, &SIX, &[]);
        lwaftr.snabb_error = Some("it ended".to_owned());
        let mut forward = outcome(Case::Forward, &SIX, &TEN);
        let trial = |of_snabb, way: &str, mpps| Trial { of_snabb, way: way.to_owned(), mpps };
        forward.trials = vec![
            trial(false, "port xdp:", Ok(1.5)),
            trial(true, "raw", Ok(1.0)),
            trial(true, "xdp", Err("no".to_owned())),
        ];
        let text = text(&args(&["--snabb", "/bin/snabb"]), &[], &[], &[lwaftr, forward], &[]);
        assert!(text.contains("lwaftr bench: Snabb failed: it ended\n") && text.contains("| failed"), "{text}");
        assert!(text.contains("apps.xdp.xdp failed (no)") && text.contains("1.30 [1.20, 1.40]"), "{text}");
    }
}
