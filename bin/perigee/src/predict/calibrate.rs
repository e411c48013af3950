// SPDX-License-Identifier: MIT
//! `perigee predict calibrate`: this machine measured, and its profile.

use super::fit::{Written, tables};
use super::plan::Plan;
use super::profiles::this_machine;
use super::rig::Bench;
use crate::date;
use crate::output::print;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use perigee_predict::campaign::{self, Measured, Setting};
use perigee_predict::fit::{self, Kind, Options};
use perigee_predict::machine::Origin;
use perigee_predict::profile::{Pauses, Router};
use perigee_rig::{Idle, Manner};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Packets per second at which cores fall asleep in between.
const SLEEPY: f64 = 20_000.0;
/// Where a profile has how fast the machine was when others left it alone: million packets per second of the plain fast
/// path, by cores.
pub const REFERENCE: &str = "reference_mpps";
/// The file of points.
const POINTS: &str = "points.csv";
/// Rate of links in memory, in Gbit/s: no limit.
const MEMORY_GBPS: f64 = 10_000.0;

/// Arguments of `perigee predict calibrate`.
#[derive(Args)]
pub struct CalibrateArgs {
    /// The folder for points.csv, latency.csv and profile.json
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Half as many settings, in about half of the time, which is said before it begins
    #[arg(long)]
    quick: bool,
    /// Cores at once, at most; of many cores some numbers are measured: 1, 2, 4, 8, 12, 16, 24, 32, 48, 64
    /// [default: all that this process may use, 64 at most]
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// How often each setting is measured, in another order each time
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u64,
    /// Seed of networks, arrivals and orders
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Seconds that it may spend on repeating what others disturbed, for each kind of measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    patience: u64,
    /// The profile's name [default: the processor's]
    #[arg(long)]
    name: Option<String>,
    /// Print the profile, not tables
    #[arg(long)]
    json: bool,
}

impl CalibrateArgs {
    /// What measures the same again, for readers of a profile.
    fn command(&self) -> String {
        let cores = self.cores.map(|cores| format!(" --cores {cores}")).unwrap_or_default();
        let quick = if self.quick { " --quick" } else { "" };
        format!(
            "perigee predict calibrate --rounds {} --seed {} --patience {}{cores}{quick}",
            self.rounds, self.seed, self.patience
        )
    }
}

/// Times at a load.
#[derive(Debug, Clone, Serialize)]
struct Latency {
    load: f64,
    pps: f64,
    packets: u64,
    batch: f64,
    mean_ns: f64,
    p50_ns: f64,
    p90_ns: f64,
    p99_ns: f64,
    lost_share: f64,
}

/// Measures, fits, writes.
pub fn calibrate(args: &CalibrateArgs) -> Result<ExitCode> {
    ensure!((1..=1000).contains(&args.rounds), "--rounds: found {}, expected 1 to 1000", args.rounds);
    fs::create_dir_all(&args.out)
        .with_context(|| format!("{}: expected a folder that can be made", args.out.display()))?;
    let manner = Manner { rounds: args.rounds, seed: args.seed, patience: Duration::from_secs(args.patience) };
    let mut bench = Bench::start(args.cores, manner, |cores| Plan::calibration(cores, args.quick, manner))?;
    if bench.cores() == 1 {
        eprintln!("One core: contention between cores is left out; it needs a second one.");
    }
    let mut kept = 0;
    let found = measure(args, &mut bench, &mut kept);
    if found.is_err() && bench.interrupted() {
        let file = args.out.join(POINTS);
        ensure!(kept > 0, "interrupted before anything was measured");
        bail!(
            "interrupted; {} has the {kept} points that were measured by then: perigee predict fit makes a profile of \
             them",
            file.display()
        );
    }
    found
}

/// The same; `kept`: points that are in the folder.
fn measure(args: &CalibrateArgs, bench: &mut Bench, kept: &mut usize) -> Result<ExitCode> {
    let origin = Origin { machine: this_machine(), command: args.command(), date: date::day(SystemTime::now()) };
    let machine = origin.machine.to_string();
    let head = [
        format!("perigee, a worker with its script between a source and a sink in memory, on {machine}"),
        origin.command.clone(),
    ];
    let pauses = bench.pauses()?;
    let settings = campaign::identifying(bench.cores(), args.quick);
    // The finished points are in the file, whatever ends this early.
    let mut keep = |points: &[Measured], head: &[String]| -> Result<String> {
        let rows = campaign::csv(head, points);
        if !points.is_empty() {
            write(&args.out, POINTS, &rows)?;
        }
        *kept = points.len();
        Ok(rows)
    };
    let found = bench.saturated("throughput", &settings, |so_far| {
        let rounds: usize = so_far.iter().map(|measured| measured.rounds.len()).sum();
        let all = settings.len() as u64 * args.rounds;
        let unfinished = format!("unfinished: {rounds} of {all} measurements");
        keep(so_far, &[&head[..], &[unfinished]].concat()).map(|_| ())
    })?;
    ensure!(!bench.interrupted(), "interrupted");
    let noise = found.iter().map(|(_, rounds)| rounds.noise_percent()).sum::<f64>() / found.len() as f64;
    let measured: Vec<Measured> = found.into_iter().map(|(measured, _)| measured).collect();
    let rows = keep(&measured, &head)?;
    let plain = measured.first().context("nothing was measured")?.mpps * 1e6;
    let router = router(bench, &pauses)?;
    let latencies = latencies(bench, plain)?;
    write(&args.out, "latency.csv", &csv(&head, &latencies))?;

    // From that text, so that the report has the file's lines.
    let points = perigee_predict::points::parse(rows.as_bytes(), POINTS)?;
    let options = Options {
        kind: Some(Kind::Batch),
        router,
        name: args.name.clone().unwrap_or_else(|| machine.clone()),
        description: Some(head.join("; ")),
        ..Options::default()
    };
    let file = args.out.join(POINTS);
    let mut fit = fit::fit(&points, &file.display().to_string(), &options)?;
    if let Some(report) = fit.profile.fit.as_mut().and_then(serde_json::Value::as_object_mut) {
        let references = bench.references().into_iter().map(|(cores, mpps)| (cores.to_string(), mpps.into()));
        report.insert(REFERENCE.to_owned(), serde_json::Value::Object(references.collect()));
    }
    origin.write(&mut fit.profile);
    write(&args.out, "profile.json", &fit.profile.to_json())?;
    if args.json {
        return print(&fit.profile.to_json());
    }
    let mut text = tables(&fit, Written::To(&args.out.join("profile.json")));
    let _ = writeln!(text, "noise: rounds of one setting are {noise:.2} % from their median, on the mean");
    let router = &fit.profile.router;
    let _ = writeln!(
        text,
        "idle cores look every {:.0} ns and take {:.1} us to wake; they are taken away {:.0} times a second; the slow path judges a packet in {:.0} ns",
        router.poll_ns, router.wake_up_us, pauses.per_second, router.slow_path_ns
    );
    print(&text)
}

/// What is not service time: looks, wake-ups, pauses, the slow path.
fn router(bench: &mut Bench, pauses: &perigee_rig::Pauses) -> Result<Router> {
    let plain = Setting::plain();
    let poll_ns = bench.idle()?;
    let sleepy = [(plain.clone(), SLEEPY)];
    let awake = bench.paced("awake", &sleepy, Idle::Poll)?;
    let asleep = bench.paced("asleep", &sleepy, Idle::Adaptive)?;
    let ([awake], [asleep]) = (&awake[..], &asleep[..]) else { unreachable!("one point each") };
    let lengths_ns = pauses.lengths_ns.clone();
    Ok(Router {
        burst: plain.burst,
        transmit_buffer: 32,
        transmit_timeout_us: 100.0,
        transmit_when_idle: true,
        link_gbps: MEMORY_GBPS,
        poll_ns,
        slow_path_ns: bench.slow_path()?,
        wake_up_us: ((asleep.sojourn.p50 - awake.sojourn.p50) / 1e3).max(0.0),
        working_set_bytes: 64.0 * f64::from(plain.networks),
        pauses: (!lengths_ns.is_empty()).then_some(Pauses { per_second: pauses.per_second, lengths_ns }),
        ..Router::default()
    })
}

/// Times at parts of the capacity of the plain setting, in packets per second.
fn latencies(bench: &mut Bench, capacity: f64) -> Result<Vec<Latency>> {
    let points: Vec<(Setting, f64)> =
        campaign::loads().iter().map(|load| (Setting::plain(), load * capacity)).collect();
    let paced = bench.paced("latency", &points, Idle::Poll)?;
    let row = |(paced, (load, (_, pps))): (&super::rig::Paced, (f64, &(Setting, f64)))| Latency {
        load,
        pps: *pps,
        packets: paced.sojourn.packets,
        batch: paced.sample.batch,
        mean_ns: paced.sojourn.mean,
        p50_ns: paced.sojourn.p50,
        p90_ns: paced.sojourn.p90,
        p99_ns: paced.sojourn.p99,
        lost_share: paced.loss,
    };
    Ok(paced.iter().zip(campaign::loads().into_iter().zip(&points)).map(row).collect())
}

fn csv(head: &[String], latencies: &[Latency]) -> String {
    let mut text: String = head.iter().map(|line| format!("# {line}\n")).collect();
    text += "load,pps,packets,batch,mean_ns,p50_ns,p90_ns,p99_ns,lost_share\n";
    for Latency { load, pps, packets, batch, mean_ns, p50_ns, p90_ns, p99_ns, lost_share } in latencies {
        let _ = writeln!(
            text,
            "{load},{pps:.0},{packets},{batch:.3},{mean_ns:.1},{p50_ns:.0},{p90_ns:.0},{p99_ns:.0},{lost_share:.5}"
        );
    }
    text
}

/// In one piece, whatever ends this process during the write.
fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let (file, new) = (folder.join(name), folder.join(format!("{name}.new")));
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, &file))
        .with_context(|| format!("{}: expected a file that can be written", file.display()))
}
