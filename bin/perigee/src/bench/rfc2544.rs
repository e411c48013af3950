// SPDX-License-Identifier: MIT
//! `perigee bench rfc2544`: its arguments, what they say of a run, and a box on two wires; `built` has devices in
//! namespaces.

use super::between::{Bench, Between, MOST_FLOWS, flows_for};
use super::session::{self, Ended, Plan, Session};
use super::target::{self, Target};
use super::{INTERRUPTED, Interrupt, PATIENCE, UNANSWERED, built, folder, output};
use crate::measure::floor;
use crate::measure::ports::TesterPort;
use crate::measure::surroundings::Reset;
use crate::task::{Cores, MachineArgs};
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use perigee_dpdk::{fallback_runtime_dir, set_runtime_dir};
use perigee_measure::environment::Environment;
use perigee_measure::pace::Rate;
use perigee_measure::report::Device as Points;
use perigee_measure::run::{Family, Test, Ways};
use perigee_measure::search::profile::{Profile, ResetPlan};
use perigee_net::MacAddr;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

/// The reset that no profile has.
const RESET: ResetPlan = ResetPlan { duration: 30.0, after: 5.0, repeats: 3 };

#[derive(Args, Clone)]
#[command(
    after_help = "docs/tester.md explains the tests and the report. Ctrl-C keeps what was measured, and --resume goes on. \
                  The exit status is 2 if this machine cannot answer: the tester fell short again and again, and no trial of full length passed."
)]
pub struct Rfc2544Args {
    /// The devices: perigee, perigee-xdp (the in-kernel plane, as root), linux, testpmd, or a command line that forwards
    /// between $PERIGEE_LEFT and $PERIGEE_RIGHT. Each is built in namespaces [default: perigee perigee-xdp linux; with
    /// --left and --right none, but the box between them]
    #[arg(value_name = "TARGET")]
    pub targets: Vec<Target>,
    /// The tester's port at the box's left side: a Linux interface, xdp:INTERFACE, a PCI address or another DPDK
    /// device
    #[arg(long, value_name = "DEVICE", requires = "right", conflicts_with = "targets")]
    left: Option<String>,
    /// The tester's port at its right side
    #[arg(long, value_name = "DEVICE", requires = "left")]
    right: Option<String>,
    /// The box's MAC addresses, left and right, if it does not answer ARP (or ND) for 198.18.0.1 and 198.19.0.1
    /// (2001:2::1 and 2001:2:0:8000::1)
    #[arg(long, value_name = "MAC,MAC", value_delimiter = ',', requires = "left")]
    device_macs: Vec<MacAddr>,
    /// How thorough: quick, or tst009 (ETSI GS NFV-TST 009) or rfc2544, which take hours per frame size; or a file of
    /// JSON that overrides parts of `quick` [default: quick]
    #[arg(long)]
    profile: Option<String>,
    /// Frame sizes in bytes with the FCS [default: the profile's]
    #[arg(long, value_delimiter = ',')]
    pub sizes: Vec<u32>,
    /// The tests to run: throughput, latency, loss_rate, back_to_back, recovery, reset [default: the profile's]
    #[arg(long, value_delimiter = ',', value_parser = test)]
    tests: Vec<Test>,
    /// IPv6 instead of IPv4 (RFC 5180)
    #[arg(long)]
    ipv6: bool,
    /// Frames both ways at once
    #[arg(long)]
    both_ways: bool,
    /// Flows each way, told apart by their source ports [default: 1, or 64 per core of a device with several]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)))]
    flows: Option<u32>,
    /// Cores that forward in the box, as points.csv is to say
    #[arg(long, value_name = "N", requires = "left", value_parser = clap::value_parser!(u32).range(1..))]
    box_cores: Option<u32>,
    /// The highest load each way, such as 2Mpps [default: the line rate, or what the tester reaches]
    #[arg(long, value_name = "RATE")]
    maximum: Option<Rate>,
    /// Measure a reset, too: a device that is built is stopped and started; a box is reset by this command, and is
    /// back 25 s later (a profile of your own may give it longer)
    #[arg(long, value_name = "COMMAND", num_args = 0..=1, require_equals = true)]
    pub reset: Option<Option<String>>,
    /// The tester's own latency in ns, subtracted [default: measured, over a cable where a device is built, else over
    /// a ring]
    #[arg(long, value_name = "NS")]
    pub floor: Option<u64>,
    /// Give the device the tester's MAC addresses, so that it need not ask by ARP or ND
    #[arg(long, conflicts_with = "left")]
    pub static_neighbors: bool,
    /// Where the results go: report.html, .md, .json, results.csv, trials.csv, points.csv, run.jsonl; of several
    /// devices, in folders in it [default: rfc2544-TARGET]
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
    /// Go on with the run that is stored in the report's folder, with its settings
    #[arg(long)]
    pub resume: bool,
    /// Print the report's JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Cores of a device that is built, such as 1 or 2-3 [default: one that the tester leaves]
    #[arg(long, value_name = "LIST", value_parser = crate::task::cores)]
    pub device_cores: Option<Cores>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The temporary folder, the report's, and which target: this process is already inside
    #[arg(long, hide = true, num_args = 3)]
    inside: Vec<OsString>,
}

fn test(text: &str) -> Result<Test, String> {
    serde_json::from_value(text.into()).map_err(|_| {
        format!("found {text:?}, expected throughput, latency, loss_rate, back_to_back, recovery or reset")
    })
}

pub fn rfc2544(args: &Rfc2544Args) -> Result<ExitCode> {
    match (args.inside.as_slice(), &args.left, &args.right) {
        ([temporary, report, number], ..) => built::inside(args, temporary.as_ref(), report.as_ref(), number),
        (_, Some(left), Some(right)) => wires(args, [left.clone(), right.clone()]),
        _ => built::outside(args),
    }
}

/// A box between two ports.
fn wires(args: &Rfc2544Args, names: [String; 2]) -> Result<ExitCode> {
    let macs = match args.device_macs.as_slice() {
        [] => None,
        [left, right] => Some([*left, *right]),
        other => bail!("--device-macs has {} addresses, expected two: left and right", other.len()),
    };
    ensure!(names[0] != names[1], "--left and --right are both {}, expected two ports", names[0]);
    let reset = match &args.reset {
        Some(Some(command)) => Some(by_command(command.clone())),
        Some(None) => bail!("--reset needs the command that resets the box: --reset='ssh box reboot'"),
        None => None,
    };
    let target = format!("{} to {}", names[0], names[1]);
    let folder = folder::choose(args.report.as_deref(), &target, args.resume);
    let mut plan = args.checked_plan(&target, &folder, args.resume, 1)?;
    set_runtime_dir(fallback_runtime_dir().as_deref())?;
    let interrupt = Interrupt::default();
    let stop = interrupt.clone();
    crate::signals::on_signals(move || stop.stop(), PATIENCE)?;
    let (cores, _) = target::share(args.machine.cores.as_ref(), None);
    let bench = bench(args, &plan, cores.clone())?;
    let advice = "give the device this address there, or name its MAC addresses by --device-macs";
    let mut between = Between::open(&bench, &names, macs, advice, &interrupt)?;
    between.ports.reset = reset;
    if args.floor.is_none() && plan.wants(Test::Latency) {
        let floor = floor::floor(&bench.eal, bench.clock, &bench.cores).context("the tester's own latency")?;
        for size in plan.sizes.clone() {
            plan.with_floor(size, floor, "the smallest over a ring, without ports");
        }
    }
    let points = args.box_cores.map(|cores| Points { flows: plan.flows * plan.ways.count(), cores });
    let code = measure(args, plan, between, &cores, points, &interrupt, || Ok(()));
    if args.json && folder.join(folder::JSON).exists() {
        built::print_json(&[folder])?;
    }
    if code.as_ref().is_ok_and(|code| *code == ExitCode::from(INTERRUPTED)) {
        eprintln!("{GO_ON}");
    }
    code
}

/// After an interruption.
pub const GO_ON: &str = "interrupted; the same command with --resume goes on";

/// Resets a box by a command of the shell. Standard output is the report's.
fn by_command(line: String) -> Reset {
    Arc::new(move || {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).stdin(Stdio::null()).stdout(std::io::stderr());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("The device was not reset: `{line}` ended with {status}.")),
            Err(error) => Err(format!("The device was not reset: `{line}` cannot be run: {error}.")),
        }
    })
}

impl Rfc2544Args {
    /// Finds mistakes before anything is built, and prepares the folder. `cores` are the device's.
    pub fn checked_plan(&self, target: &str, folder: &Path, resume: bool, cores: usize) -> Result<Plan> {
        let plan = self.plan(target, folder, resume, cores)?;
        plan.check()?;
        folder::prepare(folder, resume)?;
        Ok(plan)
    }

    pub fn plan(&self, target: &str, folder: &Path, resume: bool, cores: usize) -> Result<Plan> {
        let stored = match resume && folder::has_run(folder) {
            true => Some(folder::stored(folder)?.header.settings),
            false => None,
        };
        let stored = stored.as_ref();
        // What is not asked for is as it was.
        let mut profile = match (&self.profile, stored) {
            (None, Some(stored)) => stored.profile.clone(),
            (name, _) => read_profile(name.as_deref().unwrap_or("quick"))?,
        };
        match (&self.reset, profile.reset) {
            (Some(_), None) => profile.reset = Some(RESET),
            (None, Some(_)) => bail!("the profile measures a reset: say by --reset how the device is reset"),
            _ => {}
        }
        let family = stored.map_or(Family::Ipv4, |stored| stored.family);
        let family = if self.ipv6 { Family::Ipv6 } else { family };
        let ways = stored.map_or(Ways::One, |stored| stored.ways);
        let sizes = match (self.sizes.is_empty(), stored, family) {
            (false, ..) => self.sizes.clone(),
            (true, Some(stored), _) => stored.sizes.clone(),
            (true, None, Family::Ipv4) => profile.sizes.clone(),
            (true, None, Family::Ipv6) => profile.sizes_ipv6.clone(),
        };
        let of_stored = stored.filter(|_| self.tests.is_empty()).map(|stored| stored.tests.clone());
        let flows = self.flows.or(stored.map(|stored| stored.flows)).unwrap_or_else(|| flows_for(cores));
        let floors = self.floor.map(|floor| sizes.iter().map(|size| (*size, floor)).collect::<BTreeMap<_, _>>());
        Ok(Plan {
            target: target.to_owned(),
            profile,
            family,
            ways: if self.both_ways { Ways::Both } else { ways },
            sizes,
            tests: of_stored.unwrap_or_else(|| self.tests.clone()),
            flows,
            maximum: self.maximum,
            floor: self.floor,
            floors: floors.unwrap_or_default(),
            environment: Environment::default(),
            folder: folder.to_owned(),
            resume,
        })
    }
}

/// A profile by its name, or from a file.
fn read_profile(name: &str) -> Result<Profile> {
    if Profile::NAMES.contains(&name) {
        return Ok(Profile::named(name)?);
    }
    let path = Path::new(name);
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("found the profile {name:?}, expected {} or a file", Profile::NAMES.join(", ")))?;
    let overrides = serde_json::from_str(&text).with_context(|| format!("{name} is no JSON"))?;
    Profile::named("quick")?.with(overrides).with_context(|| name.to_owned())
}

/// Starts DPDK.
pub fn bench(args: &Rfc2544Args, plan: &Plan, cores: Vec<usize>) -> Result<Bench> {
    let largest = plan.sizes.iter().copied().max().unwrap_or(64);
    Bench::start(&args.machine, cores, largest, plan.family, plan.profile.settle, plan.flows)
}

/// Measures, and reports.
pub fn measure(
    args: &Rfc2544Args,
    mut plan: Plan,
    mut between: Between,
    cores: &[usize],
    points: Option<Points>,
    interrupt: &Interrupt,
    alive: impl FnMut() -> Result<()>,
) -> Result<ExitCode> {
    let numbers: Vec<u32> = cores.iter().map(|core| *core as u32).collect();
    let names: Vec<&str> = between.ports.ports.iter().map(TesterPort::interface).collect();
    let read = Environment::read(Path::new("/"), &numbers, &names);
    plan.environment.findings.splice(0..0, read.findings);
    plan.environment.findings.insert(0, session::ports_finding(&between));
    plan.environment.interfaces = read.interfaces;
    for (interface, port) in plan.environment.interfaces.iter_mut().zip(&between.ports.ports) {
        interface.pause = port.flow_control();
    }
    let folder = plan.folder.clone();
    let (report, ended) = Session::new(plan, &mut between, interrupt).run(alive)?;
    // First what was found, then whatever may have failed.
    if !args.json {
        println!("{}", output::summary(&report));
    }
    let written = folder::write(&report, &folder, points);
    if let Ok(files) = &written {
        eprintln!("{}: {}", folder.display(), files.join(", "));
    }
    let closed = between.close();
    if let Ended::Broken(error) = ended {
        return Err(error.context(format!("the run broke off; what was measured is in {}", folder.display())));
    }
    written?;
    closed?;
    Ok(match ended {
        Ended::Interrupted => ExitCode::from(INTERRUPTED),
        _ if report.is_unanswered() => ExitCode::from(UNANSWERED),
        _ => ExitCode::SUCCESS,
    })
}
