// SPDX-License-Identifier: MIT
//! Our MLRsearch and the package of that name by the authors of RFC 9971 (PyPI, 1.2.1; Apache-2.0, which we run and do
//! not copy) on the same simulated devices. The two choose different trials, but bounds and conditional throughput have
//! to agree within the goal's width and the device's noise. Also, each side's results have to follow from its own
//! trials (`tests/judge`).
//!
//! The package is looked for with the Python that `PERIGEE_MLRSEARCH_PYTHON` names, else with the one that `./x test`
//! makes in `target/mlrsearch`, else with `python3`. Without it the tests say so and are reported as ignored; in CI
//! (`CI=true`) they fail.

mod judge;
mod simulated;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use judge::{Judgement, judge};
use libtest_mimic::Arguments;
use perigee_measure::search::goal::Goal;
use perigee_measure::search::mlr::Mlr;
use perigee_measure::search::throughput::{Limits, Verdict};
use perigee_measure::search::{Purpose, Shape, Step, Trial};
use serde_json::{Value, json};
use simulated::{AROUND, Device, Random, Simulated, run};

const LIMITS: Limits = Limits { minimum: 10_000.0, maximum: 14_880_952.0 };
const SEED: u64 = 9971;

/// One side's trials, and its result for each goal.
struct Side {
    name: &'static str,
    trials: Vec<judge::Result>,
    results: Vec<Judgement>,
}

fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("PERIGEE_MLRSEARCH_PYTHON") {
        return python.into();
    }
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("mlrsearch").join("bin/python");
    if made.exists() { made } else { "python3".into() }
}

/// Checks that the package is there, or says why not.
fn look_for(python: &Path) -> Result<(), String> {
    let output = Command::new(python).args(["-c", "import MLRsearch"]).output();
    let why = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!("{} has no package MLRsearch ({why}); `./x test measure` installs it", python.display()))
}

fn package(python: &Path, goals: &[Goal], device: &mut Simulated) -> Side {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let wanted = json!({"goals": goals, "minimum": LIMITS.minimum, "maximum": LIMITS.maximum});
    writeln!(stdin, "{wanted}").unwrap();
    let mut side = Side { name: "package", trials: Vec::new(), results: Vec::new() };
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if let Some(results) = message["results"].as_array() {
            side.results = results
                .iter()
                .map(|result| Judgement {
                    lower: result["lower"].as_f64(),
                    upper: result["upper"].as_f64(),
                    throughput: result["throughput"].as_f64(),
                })
                .collect();
            continue;
        }
        let purpose = Purpose::Throughput { goal: "package".into(), step: Step::Between, attempt: 1 };
        let (load, duration) = (message["load"].as_f64().unwrap(), message["duration"].as_f64().unwrap());
        let outcome = device.answer(&Trial { load, duration, shape: Shape::Steady, purpose });
        writeln!(stdin, "{}", json!({"sent": outcome.sent, "received": outcome.received})).unwrap();
        side.trials.push((load, duration, outcome.loss_ratio()));
    }
    assert!(child.wait().unwrap().success(), "oracle.py failed, its message is above");
    assert_eq!(side.results.len(), goals.len());
    side
}

fn ours(goals: &[Goal], device: &mut Simulated) -> Side {
    let (search, _) = run(Mlr::new(goals.to_vec(), LIMITS), device);
    let found = search.found();
    for found in &found {
        // The verdict matches the bounds.
        let irregular = match (found.lower, found.upper) {
            (None, _) => Verdict::MinimumFails,
            (_, None) => Verdict::MaximumPasses,
            _ => Verdict::Regular,
        };
        assert_eq!(found.verdict, irregular, "{found:?}");
    }
    Side {
        name: "ours",
        trials: search.outcomes().iter().map(|o| (o.load, o.duration, o.loss_ratio())).collect(),
        results: found.iter().map(|f| Judgement { lower: f.lower, upper: f.upper, throughput: f.throughput }).collect(),
    }
}

/// A side's results follow from its trials, and are narrow enough.
fn assert_judged(side: &Side, goals: &[Goal], what: &str) {
    for (goal, result) in goals.iter().zip(&side.results) {
        let what = format!("{what}, {} {}: {result:?}", side.name, goal.name);
        let judged = judge(goal, &side.trials);
        assert_eq!((result.lower, result.upper), (judged.lower, judged.upper), "{what}");
        assert!(is_close(result.throughput, judged.throughput, 1e-12), "{what}, judged {judged:?}");
        match (result.lower, result.upper) {
            (Some(lower), Some(upper)) => assert!(upper - lower <= goal.width * upper * (1.0 + 1e-6), "{what}"),
            (Some(lower), None) => assert_eq!(lower, LIMITS.maximum, "{what}"),
            (None, Some(upper)) => assert_eq!(upper, LIMITS.minimum, "{what}"),
            (None, None) => panic!("{what}"),
        }
    }
}

/// Both exist and differ by this share at most, or both are missing.
fn is_close(a: Option<f64>, b: Option<f64>, share: f64) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= share * a.max(b),
        (a, b) => a == b,
    }
}

/// Both goals of RFC 9971 section 4.10 and one that allows some loss; and goals with many short trials, as FD.io
/// measures.
fn goals() -> [Vec<Goal>; 2] {
    let partial = Goal { name: "partial".into(), loss_ratio: 0.005, ..Goal::tst009() };
    let short = Goal { final_duration: 1.0, duration_sum: 21.0, name: "ndr".into(), ..Goal::tst009() };
    let short_partial = Goal { name: "pdr".into(), loss_ratio: 0.005, ..short.clone() };
    [vec![Goal::rfc2544(), Goal::tst009(), partial], vec![short, short_partial]]
}

/// Devices, and by how much two results may differ beyond the width, as a share of the load; `None` if they are not
/// compared.
fn devices(random: &mut Random) -> Vec<(&'static str, Device, Option<f64>)> {
    let mut devices = vec![
        ("clean", Device::Clean, Some(0.0)),
        ("lossy", Device::Lossy { loss: 0.3 }, Some(0.0)),
        ("a_little_lossy", Device::Lossy { loss: 0.002 }, Some(0.0)),
    ];
    for _ in 0..4 {
        let limit = LIMITS.maximum * 0.9 * 0.005f64.powf(random.share());
        devices.extend([
            ("limit", Device::Limit { limit }, Some(0.0)),
            ("noisy", Device::Noisy { limit, noise: 0.01 }, Some(0.02)),
            ("bucket", Device::Bucket { limit, frames: limit / 100.0 }, Some(0.0)),
            ("tiring", Device::Tiring { short: limit * 1.1, long: limit }, Some(0.0)),
            ("livelock", Device::Livelock { limit }, Some(0.0)),
            ("spikes", Device::Spikes { limit, often: 0.01, loss: 0.02 }, None),
        ]);
    }
    devices
}

/// Simulated seconds of all searches, ours and the package's.
static SECONDS: Mutex<[f64; 2]> = Mutex::new([0.0; 2]);

/// Runs both searches on a device for a set of goals.
fn compare(python: &Path, simulated: &Simulated, noise: Option<f64>, goals: &[Goal]) {
    let what = format!("{:?}, seed {SEED}", simulated.device);
    let package = package(python, goals, &mut simulated.clone());
    let ours = ours(goals, &mut simulated.clone());
    assert_judged(&package, goals, &what);
    assert_judged(&ours, goals, &what);
    let seconds = |side: &Side| side.trials.iter().map(|trial| trial.1 + AROUND).sum::<f64>();
    if let Ok(mut sums) = SECONDS.lock() {
        *sums = [sums[0] + seconds(&ours), sums[1] + seconds(&package)];
    }
    let Some(noise) = noise else { return };
    for (goal, (a, b)) in goals.iter().zip(ours.results.iter().zip(&package.results)) {
        let share = goal.width * (1.0 + 1e-6) + noise;
        let pairs = [(a.lower, b.lower), (a.upper, b.upper), (a.throughput, b.throughput)];
        assert!(pairs.iter().all(|(a, b)| is_close(*a, *b, share)), "{what}, {}: ours {a:?}, package {b:?}", goal.name);
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let python = python();
    let missing = look_for(&python).err();
    let is_ci = std::env::var("CI").as_deref() == Ok("true");
    if let Some(missing) = &missing {
        eprintln!("not compared: {missing}");
    }
    let mut random = Random(SEED);
    let mut tests = Vec::new();
    for (number, (kind, device, noise)) in devices(&mut random).into_iter().enumerate() {
        for (set, goals) in ["long", "short"].into_iter().zip(goals()) {
            let (python, missing) = (python.clone(), missing.clone());
            let simulated = Simulated::new(device, random.next());
            let test = libtest_mimic::Trial::test(format!("{kind}_{number}_{set}_trials"), move || {
                if let Some(missing) = missing {
                    return Err(missing.into());
                }
                compare(&python, &simulated, noise, &goals);
                Ok(())
            });
            tests.push(test);
        }
    }
    let tests = tests.into_iter().map(|test| test.with_ignored_flag(missing.is_some() && !is_ci)).collect();
    let conclusion = libtest_mimic::run(&arguments, tests);
    if let (Ok(sums), None) = (SECONDS.lock(), &missing) {
        println!("simulated time of all searches: ours {:.0} s, the package's {:.0} s", sums[0], sums[1]);
    }
    conclusion.exit_code()
}
