// SPDX-License-Identifier: MIT
//! Reports of whole runs on simulated devices, finished and interrupted: each form can be read back, and is safe.

mod simulated;
mod whole;

use std::collections::BTreeMap;

use perigee_measure::report::{Device as Modelled, Report};
use perigee_measure::run::{Maximum, Run, Settings, Test, Ways};
use perigee_measure::search::profile::Profile;
use perigee_measure::search::throughput::Verdict;
use serde_json::{Value, json};
use simulated::{Device, Simulated};
use whole::{environment, finish, quick};

/// A name that means something to HTML, Markdown and CSV.
const TARGET: &str = "<script>alert(1)</script> | *a*, \"b\" & c\n# d";

fn device() -> Simulated {
    Simulated { doubts: 0.1, ..Simulated::new(Device::Bucket { limit: 6e5, frames: 500.0 }, 1) }
}

fn finished(settings: Settings, mut device: Simulated) -> Run {
    let mut run = Run::new(settings).unwrap();
    finish(&mut run, &mut device, |_| ());
    run
}

fn report(run: &Run) -> Report {
    Report::new(TARGET, &environment(), run)
}

/// After so many trials.
fn interrupted(run: &Run, trials: usize) -> Run {
    Run::resume(run.settings().clone(), run.records()[..trials].to_vec()).unwrap()
}

#[test]
fn json_has_what_was_asked_for_and_is_read_back() {
    let run = finished(quick(), device());
    let report = report(&run);
    assert!(report.finished && report.seconds_left == 0.0);
    assert_eq!(serde_json::from_str::<Report>(&report.json()).unwrap(), report);
    let value: Value = serde_json::from_str(&report.json()).unwrap();
    for key in ["target", "profile", "environment", "throughput", "latency", "loss_rate", "back_to_back", "recovery"] {
        assert!(!value[key].is_null(), "{key}");
    }
    assert_eq!(value["trials"].as_array().unwrap().len(), run.records().len());
    let first = &value["throughput"][0];
    assert_eq!((&first["size"], &first["loss"]), (&json!(64), &json!(0.0)));
    let pps = first["pps"].as_f64().unwrap();
    assert!((pps / 6e5 - 1.0).abs() < 0.011, "{pps}");
    let goals = &first["goals"];
    assert_eq!(goals[0]["pps"].as_f64(), Some(pps));
    assert!(goals[0]["lower_pps"].as_f64() <= Some(pps * 1.000_001) && goals[0]["upper_pps"].as_f64() > Some(pps));
    assert_eq!((&goals[0]["verdict"], &goals[1]["goal"]["name"]), (&json!("regular"), &json!("loss_0.5%")));
    // 84 bytes on the wire.
    assert!((goals[0]["bits_per_s"].as_f64().unwrap() / (pps * 672.0) - 1.0).abs() < 1e-12);
    let trials: u64 = value["throughput"].as_array().unwrap().iter().map(|row| row["trials"].as_u64().unwrap()).sum();
    let of_throughput = |trial: &&Value| !trial["trial"]["purpose"]["throughput"].is_null();
    assert_eq!(trials as usize, value["trials"].as_array().unwrap().iter().filter(of_throughput).count());
}

/// Whatever is missing, every form is written.
#[test]
fn an_unfinished_run_is_reported_at_every_point() {
    let run = finished(quick(), device());
    for trials in 0..run.records().len() {
        let report = report(&interrupted(&run, trials));
        assert!(!report.finished && report.seconds_left > 0.0);
        assert_eq!(report.trials.len(), trials);
        assert_eq!(serde_json::from_str::<Report>(&report.json()).unwrap(), report, "after {trials}");
        let says = format!("This run is not finished: {trials} trials were run, and about ");
        let page = report.html("0");
        assert!(page.contains(&says) && report.markdown().contains(&says), "after {trials}");
        assert!(!page.contains("NaN") && !page.contains(">inf"), "after {trials}");
        assert_eq!(lines(&report.trials_csv()).len(), trials);
        lines(&report.results_csv());
    }
    let nothing = report(&interrupted(&run, 0));
    assert!(nothing.html("0").contains("No throughput was measured."));
    assert!(report(&interrupted(&run, 1)).throughput[0].goals[0].verdict == Verdict::Unfinished);
}

/// The lines of a CSV text, by column.
fn lines(text: &str) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().map(Result::unwrap).collect()
}

#[test]
fn csv_has_a_line_for_each_trial_and_each_figure() {
    let run = finished(quick(), device());
    let report = report(&run);
    let trials = lines(&report.trials_csv());
    assert_eq!(trials.len(), run.records().len());
    for (line, record) in trials.iter().zip(run.records()) {
        assert_eq!(line["sent"].parse::<u64>().unwrap(), record.outcome.sent);
        assert_eq!(line["load_pps"].parse::<f64>().unwrap(), record.trial.load);
        assert_eq!(line["result"] == "doubted", !record.outcome.doubts.is_empty(), "{line:?}");
        assert_eq!(line["why"].is_empty(), record.outcome.doubts.is_empty());
        assert_eq!(line["latency_p50_ns"].is_empty(), line["test"] != "latency");
    }
    let results = lines(&report.results_csv());
    let value = |test: &str, what: &str| {
        let found =
            results.iter().find(|line| line["test"] == test && line["what"] == what && line["frame_size"] == "64");
        found.unwrap_or_else(|| panic!("{test} {what}"))["value"].parse::<f64>().unwrap()
    };
    assert_eq!(Some(value("throughput", "throughput")), report.throughput[0].pps);
    assert_eq!(value("loss_rate", "loss"), report.loss_rate[0].curve.points[0].loss_ratio);
    assert_eq!(value("latency", "p99"), report.latency[0].loads[0].p99.median);
    assert_eq!(Some(value("back_to_back", "corrected_buffer")), report.back_to_back[0].bursts.corrected_buffer);
    assert_eq!(value("recovery", "mean"), 0.002);
}

/// `perigee predict fit` reads the points: by its own reader.
#[test]
fn points_are_what_predict_reads() {
    let settings = Settings { ways: Ways::Both, maximum: Maximum::Line(1e9), ..quick() };
    let run = finished(settings, Simulated::new(Device::Bucket { limit: 6e5, frames: 500.0 }, 1));
    let text = report(&run).points(Modelled { flows: 8, cores: 2 }).unwrap();
    let points = perigee_predict::points::parse(text.as_bytes(), "points.csv").unwrap();
    assert_eq!(points.len(), 2, "{text}");
    let small = &points[0];
    assert_eq!((small.flows, small.cores, small.frame_size, small.two_way), (8, 2, 64, true));
    assert_eq!((small.bound, small.line_gbps), (Some(perigee_predict::Bound::Cpu), Some(1.0)));
    // 600,000 frames/s each way, and the share of the buffer in a second.
    assert!((small.gbps / (2.0 * 6e5 * 672e-9) - 1.0).abs() < 0.002, "{text}");
    assert_eq!(points[1].bound, Some(perigee_predict::Bound::Line));
    assert!((points[1].gbps - 2.0).abs() < 0.002, "{text}");
    let note = small.notes.iter().find(|(column, _)| column == "note").map(|(_, text)| &text[..]);
    assert_eq!(note, Some("<script>alert(1)</script> | *a*, \"b\" & c # d"));
}

#[test]
fn points_that_say_nothing_are_left_out() {
    let rates = [(64, 1e5), (1518, 5e4)].into_iter().collect();
    let slow = Settings { maximum: Maximum::Frames(rates), ..quick() };
    let points =
        |settings, device| report(&finished(settings, device)).points(Modelled { flows: 4, cores: 4 }).unwrap();
    let text = points(slow, device());
    assert!(text.contains("# 64 bytes are left out: the device forwarded all of the highest load, 100,000"), "{text}");
    let text = points(quick(), Simulated::new(Device::Lossy { loss: 1.0 }, 1));
    assert!(text.contains("# 64 bytes are left out: nothing was forwarded"), "{text}");
    let text = points(quick(), Simulated { doubts: 1.0, ..device() });
    assert!(text.contains("# 64 bytes are left out: no trial at the highest load may be trusted"), "{text}");
    let report = report(&finished(Settings { ways: Ways::Both, ..quick() }, device()));
    for (flows, cores, says) in [(1, 1, "found one flow"), (4, 5, "found 4 flows on 5"), (4, 0, "found 4 flows on 0")] {
        let error = report.points(Modelled { flows, cores }).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    }
}

/// Every tag that is opened is closed, in order; nothing is loaded or run; what others wrote is text.
#[test]
fn a_page_is_whole_and_safe() {
    let page = report(&finished(quick(), device())).html("0.1.0");
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("Example &lt;CPU&gt; | 16 cores"));
    for forbidden in ["<script", "http:", "https:", "src=", "url(", "@import", "NaN", "onload"] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(forbidden), "{forbidden}");
    }
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let inside = tag.split('>').next().unwrap();
        let name = inside.split([' ', '\n']).next().unwrap();
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed));
        } else if !inside.ends_with('/') && !["!DOCTYPE", "meta"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    // By size, forwarded, loss rate; latency and search at both sizes.
    assert_eq!(page.matches("<svg").count(), 7);
    assert!(page.contains("<details class=\"card\"><summary>All "));
}

/// The same input, the same bytes: in another process, too, as nothing in it is hashed or dated.
#[test]
fn the_same_run_is_the_same_report() {
    let both = [(); 2].map(|()| report(&finished(quick(), device())));
    let forms = both.each_ref().map(|r| (r.html("0"), r.json(), r.markdown(), r.results_csv(), r.trials_csv()));
    assert_eq!(forms[0], forms[1]);
}

#[test]
fn markdown_tables_are_whole() {
    let report = report(&finished(quick(), device()));
    let text = report.markdown();
    assert!(text.starts_with("# &lt;script&gt;alert(1)&lt;/script&gt; \\| \\*a\\*, \"b\" &amp; c \\# d\n"), "{text}");
    let mut columns = 0;
    for line in text.lines() {
        if !line.starts_with('|') {
            columns = 0;
            continue;
        }
        let found = line.replace("\\|", "").matches('|').count();
        assert!(columns == 0 || columns == found, "{line}");
        columns = found;
    }
    for title in ["Throughput", "Latency", "Frame loss rate", "Back-to-back frames", "System recovery", "The machine"] {
        assert!(text.contains(&format!("\n## {title}\n")), "{title}");
    }
}

/// "This machine cannot answer: in 0 of 20 trials the tester sent less than was asked for, down to 0%", with trials
/// that were forwarded.
#[test]
fn a_headline_names_the_tester_that_was_the_limit() {
    let settings = || Settings { tests: vec![Test::Throughput], ..quick() };
    let headline = |device: Simulated| report(&finished(settings(), device)).headline().remove(0);
    let limit = |limit| Simulated::new(Device::Limit { limit }, 1);
    let slow = headline(Simulated { tester_share: 0.4, stumbles: (1.0, 0.6), ..limit(1e9) });
    assert!(slow.starts_with("64 bytes: at least ") && slow.contains("pps, "), "{slow}");
    assert!(
        slow.contains("the tester was the limit: in ") && slow.contains("less than was asked for, down to "),
        "{slow}"
    );
    assert!(!slow.contains("its own loss") && !slow.contains("cannot answer"), "{slow}");
    // It loses a frame of every trial.
    let lossy = headline(Simulated { doubts: 1.0, ..limit(1e9) });
    assert!(lossy.contains("this machine cannot answer: the tester was the limit: in "), "{lossy}");
    assert!(lossy.contains("frames were lost that may be its own loss; no trial was forwarded"), "{lossy}");
    assert!(!lossy.contains("less than was asked for"), "{lossy}");
}

/// The profile `rfc2544` follows RFC 2544, except for what its settings name; `quick` does not, and says so.
#[test]
fn deviations_are_named() {
    let deviations = |settings: Settings| report(&Run::new(settings).unwrap()).deviations;
    let settings = |profile, ways| Settings::new(profile, perigee_measure::run::Family::Ipv4, ways, Maximum::Line(1e9));
    let full = Profile::rfc2544();
    assert_eq!(
        deviations(settings(full.clone(), Ways::Both)),
        ["Tests that were not asked for: reset (section 26)."],
        "no built-in profile can reset a device"
    );
    let reset = full.with(json!({"reset": {"duration": 60.0, "after": 10.0, "repeats": 1}})).unwrap();
    assert!(deviations(settings(reset, Ways::Both)).is_empty());
    let all = deviations(settings(Profile::quick(), Ways::One)).join("\n");
    for says in [
        "Frames of 128, 256, 512, 1024, 1280 bytes were not measured",
        "Frames went one way only",
        "After the last frame of a trial, the tester listened for 0.2 s; section 23 asks for 2 s.",
        "Goal no_loss: the longest trials lasted 1 s; section 24 asks for 60 s.",
        "Goal no_loss: a load passes even if trials that make up 50 % of the time",
        "Goal loss_0.5%: trials may lose 0.5 % of their frames",
        "Latency trials were repeated 3 times; section 26.2 asks for 20.",
        "Latency was not measured at the throughput itself",
        "The search for the longest burst was run 3 times; section 26.4 asks for 50.",
        "The overload before a recovery lasted 1 s",
    ] {
        assert!(all.contains(says), "{says}\n{all}");
    }
}
