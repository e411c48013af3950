// SPDX-License-Identifier: MIT
//! `perigee bench compare`: several devices under the same traffic, in turn; ratios with intervals.
//!
//! All devices are built first. While one is measured, the processes of the others are halted, so that each has its
//! core for itself.

use super::between::{Bench, Between, MOST_FLOWS, flows_for};
use super::output::Screen;
use super::target::{self, Share, Target};
use super::{INTERRUPTED, Interrupt, Laboratory, PATIENCE, UNANSWERED, mtu};
use crate::isolated::Isolated;
use crate::measure::ports::TesterPort;
use crate::measure::text;
use crate::table;
use crate::task::{Cores, MachineArgs};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use perigee_lab::Isolation;
use perigee_lab::device::Device;
use perigee_measure::compare::{Compared, FEWEST, Sample, compare, order, ratio};
use perigee_measure::environment::{Environment, Judgement};
use perigee_measure::pace::Rate;
use perigee_measure::run::{Family, Maximum, Settings, Ways, duration};
use perigee_measure::search::profile::{Profile, Settle};
use perigee_measure::search::statistics::Summary;
use perigee_measure::search::{Purpose, Shape, Trial};
use perigee_measure::tester::Tester;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Around each trial, in seconds.
const SETTLE: Settle = Settle { learning: 0.05, ramp: 0.05, drain: 0.1, pause: 0.05 };
/// How often a trial that may not be trusted is run, the first time included.
const ATTEMPTS: u32 = 3;
/// Latency is measured at this share of the lowest rate that was forwarded first.
const SHARE: f64 = 0.3;

#[derive(Args, Clone)]
#[command(
    after_help = "Each round measures every device twice: as many frames as the tester can send (what is forwarded), and a low load \
                  (latency, without the tester's own). Ratios are to the first device, of the same round; the median has an interval of at \
                  least 95 %. Each device has its row; the exit status is 2 if one has no figure. docs/tester.md has more."
)]
pub struct CompareArgs {
    /// The devices, the first of which the others are compared with: perigee, perigee-xdp, linux, testpmd, or command lines
    #[arg(required = true, num_args = 2..=6)]
    targets: Vec<Target>,
    /// Frame sizes in bytes with the FCS [default: 64, over IPv6 84]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u32>,
    /// Rounds; fewer than 6 give no interval
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Seconds of each trial
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    seconds: f64,
    /// The load of the first trial, such as 200kpps [default: as much as the tester can send]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// The load at which latency is measured [default: 30 % of the lowest rate that is forwarded]
    #[arg(long, value_name = "RATE")]
    latency_rate: Option<Rate>,
    /// IPv6 instead of IPv4
    #[arg(long)]
    ipv6: bool,
    /// Frames both ways at once; rates are those of each direction
    #[arg(long)]
    both_ways: bool,
    /// Flows each way, told apart by their source ports [default: 1, or 64 per core of devices with several]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)))]
    flows: Option<u32>,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
    /// Cores of the devices, such as 1 or 2-3 [default: one that the tester leaves]
    #[arg(long, value_name = "LIST", value_parser = crate::task::cores)]
    device_cores: Option<Cores>,
    #[command(flatten)]
    machine: MachineArgs,
    /// The temporary folder: this process is already inside
    #[arg(long, hide = true, value_name = "FOLDER")]
    inside: Option<PathBuf>,
}

/// All results.
#[derive(Serialize)]
struct Results {
    targets: Vec<String>,
    family: Family,
    ways: Ways,
    seconds: f64,
    environment: Environment,
    sizes: Vec<OfSize>,
    /// Why it ended before all rounds were run.
    ended: Option<String>,
}

/// The results of one frame size.
#[derive(Serialize)]
struct OfSize {
    size: u32,
    /// The tester's own latency, which is subtracted.
    floor_ns: u64,
    /// Frames per second each way: what is asked for, or the most that the tester could send to one of them.
    load_pps: f64,
    latency_load_pps: f64,
    /// Under the load, and at that for latency.
    loaded: Vec<Compared>,
    relaxed: Vec<Compared>,
    loaded_rounds: Vec<Vec<Sample>>,
    relaxed_rounds: Vec<Vec<Sample>>,
}

pub fn compare_devices(args: &CompareArgs) -> Result<ExitCode> {
    ensure!((0.05..=600.0).contains(&args.seconds), "--seconds {}: expected 0.05 to 600", args.seconds);
    let any = Settings::new(Profile::quick(), args.family(), args.ways(), Maximum::Line(1e10));
    Settings { sizes: args.sizes(), ..any }.check()?;
    if let Some(temporary) = &args.inside {
        return inside(args, temporary);
    }
    let tun = args.targets.iter().any(Target::is_router);
    let isolated = Isolated {
        name: "bench",
        command: "bench compare",
        who: "the comparison",
        tools: &[],
        tun,
        patience: PATIENCE,
    };
    let end = isolated.run(|_: Isolation, inside: &Path| {
        let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
        words.splice(2..2, ["--inside".into(), inside.into()]);
        words
    })?;
    Ok(ExitCode::from(end.exit_code()))
}

impl CompareArgs {
    fn family(&self) -> Family {
        if self.ipv6 { Family::Ipv6 } else { Family::Ipv4 }
    }

    fn sizes(&self) -> Vec<u32> {
        match (self.sizes.as_slice(), self.family()) {
            ([], Family::Ipv4) => vec![64],
            ([], Family::Ipv6) => vec![84],
            (sizes, _) => sizes.to_vec(),
        }
    }

    fn ways(&self) -> Ways {
        if self.both_ways { Ways::Both } else { Ways::One }
    }
}

/// A device and the tester's ports at it.
struct Candidate {
    device: Device,
    between: Between,
}

fn inside(args: &CompareArgs, temporary: &Path) -> Result<ExitCode> {
    let Laboratory { world, interrupt, _input } = &Laboratory::enter(temporary)?;
    let (cores, device_cores) = target::share(args.machine.cores.as_ref(), args.device_cores.as_ref());
    let all: Vec<u32> = cores.iter().chain(&device_cores).map(|core| *core as u32).collect();
    let largest = args.sizes().into_iter().max().unwrap_or(64);
    let flows = args.flows.unwrap_or_else(|| flows_for(device_cores.len()));
    let share = Share { cores: device_cores, mtu: mtu(largest), static_neighbors: true };
    let mut devices = Vec::new();
    for (number, target) in (0..).zip(&args.targets) {
        let device = target.build(world, number, &share)?;
        device.set_halted(true)?;
        devices.push(device);
        interrupt.check()?;
    }
    let bench = Bench::start(&args.machine, cores, largest, args.family(), SETTLE, flows)?;
    let cable = Between::cable(&bench, &target::tester_ports(&world.loopback_cable(share.mtu)?, bench.largest.into()))?;
    let mut candidates = Vec::new();
    for (device, target) in devices.into_iter().zip(&args.targets) {
        candidates.push(connect(&bench, device, target, interrupt).with_context(|| cannot(target))?);
    }
    let names: Vec<&str> =
        candidates.iter().flat_map(|one| &one.between.ports.ports).map(TesterPort::interface).collect();
    let environment = Environment::read(Path::new("/"), &all, &names);
    let mut comparison = Comparison { args, interrupt, screen: Screen::new(), candidates, cable };
    let (mut sizes, mut broken) = (Vec::new(), None);
    for size in args.sizes() {
        let (of_size, error) = comparison.of_size(size);
        sizes.extend(of_size);
        broken = error;
        if broken.is_some() || interrupt.is_stopped() {
            break;
        }
    }
    let ended = match (&broken, interrupt.is_stopped()) {
        (_, true) => Some("interrupted".to_owned()),
        (Some(error), false) => Some(format!("{error:#}")),
        (None, false) => None,
    };
    let targets = args.targets.iter().map(ToString::to_string).collect();
    let (family, ways) = (args.family(), args.ways());
    let results = Results { targets, family, ways, seconds: args.seconds, environment, sizes, ended };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&results).context("the results are no JSON")?);
    } else {
        print!("{}", results.text());
    }
    let removed = comparison.remove();
    let incomplete = results.sizes.iter().any(|of_size| of_size.without_figure().next().is_some());
    match broken {
        _ if interrupt.is_stopped() => Ok(ExitCode::from(INTERRUPTED)),
        Some(error) => Err(error),
        None if incomplete => removed.map(|()| ExitCode::from(UNANSWERED)),
        None => removed.map(|()| ExitCode::SUCCESS),
    }
}

fn cannot(target: &Target) -> String {
    format!("{target} cannot be measured")
}

fn connect(bench: &Bench, device: Device, target: &Target, interrupt: &Interrupt) -> Result<Candidate> {
    device.set_halted(false)?;
    let interfaces = device.sides().each_ref().map(|side| side.port.clone());
    let names = target::tester_ports(&interfaces, bench.largest.into());
    let macs = target.macs(&device);
    let between = Between::open(bench, &names, macs, "it did not start as it should", interrupt)?;
    device.set_halted(true)?;
    Ok(Candidate { device, between })
}

struct Comparison<'a> {
    args: &'a CompareArgs,
    interrupt: &'a Interrupt,
    screen: Screen,
    candidates: Vec<Candidate>,
    /// From the tester to itself.
    cable: Between,
}

impl Comparison<'_> {
    fn remove(self) -> Result<()> {
        drop(self.screen);
        self.cable.close()?;
        for Candidate { device, between } in self.candidates {
            between.close()?;
            device.set_halted(false)?;
            device.remove()?;
        }
        Ok(())
    }

    /// What all rounds say that were run to their ends, and what ended them too early.
    fn of_size(&mut self, size: u32) -> (Option<OfSize>, Option<anyhow::Error>) {
        let (loads, floor) = match self.loads(size) {
            Ok(found) => found,
            Err(error) => return (None, Some(error)),
        };
        let (mut rounds, mut broken) = ([Vec::new(), Vec::new()], None);
        for round in 0..self.args.rounds {
            match self.round(size, round, loads, floor) {
                Ok(samples) => samples.into_iter().zip(&mut rounds).for_each(|(samples, all)| all.push(samples)),
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        let targets: Vec<String> = self.args.targets.iter().map(ToString::to_string).collect();
        let [loaded_rounds, relaxed_rounds] = rounds;
        let (loaded, relaxed) = (compare(&targets, &loaded_rounds), compare(&targets, &relaxed_rounds));
        let [load_pps, latency_load_pps] = loads;
        let of_size = OfSize {
            size,
            floor_ns: floor,
            load_pps,
            latency_load_pps,
            loaded,
            relaxed,
            loaded_rounds,
            relaxed_rounds,
        };
        (Some(of_size), broken)
    }

    /// Both loads, in frames per second each way, and the tester's own latency in ns.
    fn loads(&mut self, size: u32) -> Result<([f64; 2], u64)> {
        let args = self.args;
        self.screen.step(&format!("{size} bytes: the tester's own latency"));
        let floor = self.cable.floor(size, self.interrupt)?;
        let asked = |rate: Option<Rate>| -> Result<Option<f64>> {
            Ok(rate.map(|rate| rate.frames_per_second(f64::from(size), None)).transpose()?.flatten())
        };
        let (most, latency) = (asked(args.rate)?, asked(args.latency_rate)?);
        let (mut highest, mut lowest) = (0.0, f64::INFINITY);
        for at in 0..self.candidates.len() {
            self.screen.step(&format!("{size} bytes, {}: how many frames can be sent?", args.targets[at]));
            self.interrupt.check()?;
            let (reach, forwarded) = self.look(at, size, most).with_context(|| cannot(&args.targets[at]))?;
            highest = f64::max(highest, reach);
            lowest = f64::min(lowest, forwarded);
        }
        // A device that forwards nothing under load still has a latency.
        let low = (lowest * SHARE).max(10.0 / args.seconds);
        Ok(([most.unwrap_or(highest), latency.unwrap_or(low)], floor))
    }

    /// What the tester can send to a device, and what that forwards of it at first, in frames per second each way.
    fn look(&mut self, at: usize, size: u32, asked: Option<f64>) -> Result<(f64, f64)> {
        let (ways, seconds) = (self.args.ways(), self.args.seconds);
        let candidate = &mut self.candidates[at];
        candidate.device.running()?;
        candidate.device.set_halted(false)?;
        let reach = candidate.between.reach(size, ways)?;
        let mut tester = candidate.between.tester(size, ways, None)?;
        let load = asked.unwrap_or(reach);
        let sample = candidate.sample(&mut tester, size, load, seconds, false, ways, self.interrupt)?;
        candidate.between.keep(tester);
        candidate.device.set_halted(true)?;
        Ok((reach, sample.forwarded_pps))
    }

    /// One round: the samples of all devices, under the load and relaxed.
    fn round(&mut self, size: u32, round: u16, loads: [f64; 2], floor: u64) -> Result<[Vec<Sample>; 2]> {
        let args = self.args;
        let each = args.seconds + SETTLE.learning + SETTLE.ramp + SETTLE.drain + SETTLE.pause;
        let trials = usize::from(args.rounds - round) * self.candidates.len() * 2;
        let left = duration(trials as f64 * each);
        self.screen.step(&format!("{size} bytes, round {} of {}; about {left} left", round + 1, args.rounds));
        let mut samples = vec![None; self.candidates.len()];
        for at in order(self.candidates.len(), usize::from(round)) {
            samples[at] = Some(self.both(at, size, loads, floor).with_context(|| cannot(&args.targets[at]))?);
        }
        let (loaded, relaxed) = samples.into_iter().flatten().unzip();
        Ok([loaded, relaxed])
    }

    /// Both samples of a device.
    fn both(&mut self, at: usize, size: u32, loads: [f64; 2], floor: u64) -> Result<(Sample, Sample)> {
        let (ways, seconds, interrupt) = (self.args.ways(), self.args.seconds, self.interrupt);
        let candidate = &mut self.candidates[at];
        // A process that has ended cannot go on.
        candidate.device.running()?;
        candidate.device.set_halted(false)?;
        let mut tester = candidate.between.tester(size, ways, Some(floor))?;
        let loaded = candidate.sample(&mut tester, size, loads[0], seconds, false, ways, interrupt)?;
        let relaxed = candidate.sample(&mut tester, size, loads[1], seconds, true, ways, interrupt)?;
        candidate.between.keep(tester);
        candidate.device.running()?;
        candidate.device.set_halted(true)?;
        Ok((loaded, relaxed))
    }
}

impl Candidate {
    /// Runs a trial, again if it may not be trusted.
    #[expect(clippy::too_many_arguments, reason = "all of a trial's settings")]
    fn sample(
        &mut self,
        tester: &mut Tester,
        size: u32,
        load: f64,
        duration: f64,
        latency: bool,
        ways: Ways,
        interrupt: &Interrupt,
    ) -> Result<Sample> {
        let trial = Trial { load, duration, shape: Shape::Steady, purpose: Purpose::LossRate { attempt: 1 } };
        let mut attempt = 1;
        loop {
            let watch = |course: &_| interrupt.watch(course);
            let record = tester.trial(&mut self.between.ports, size, &trial, watch, &mut |_| {})?;
            interrupt.check()?;
            let sample = Sample::of(&record, ways.count(), latency);
            if !sample.spoiled || attempt == ATTEMPTS {
                return Ok(sample);
            }
            attempt += 1;
        }
    }
}

impl Results {
    fn text(&self) -> String {
        let mut text = String::new();
        for of_size in &self.sizes {
            text += &of_size.text();
        }
        if let Some(why) = &self.ended {
            text += &format!("Ended before all rounds were run: {why}\n\n");
        }
        let grave = self.environment.all().into_iter().filter(|finding| finding.judgement == Judgement::MayFalsify);
        for finding in grave {
            text += &format!("{}: {}. {}\n", finding.name, finding.value, finding.advice.unwrap_or_default());
        }
        text
    }
}

impl OfSize {
    fn text(&self) -> String {
        let rounds = self.loaded_rounds.len();
        let mut text = format!("{} bytes, {rounds} rounds, medians; ratios to {}\n", self.size, self.first());
        let interval = |summary: &Summary, show: &dyn Fn(f64) -> String| match summary.median_interval {
            Some((low, high)) => format!("{} ({} to {})", show(summary.median), show(low), show(high)),
            None => show(summary.median),
        };
        let of = |summary: &Option<Summary>, show: &dyn Fn(f64) -> String| {
            summary.as_ref().map_or("-".to_owned(), |summary| interval(summary, show))
        };
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let median = |summary: &Option<Summary>, show: &dyn Fn(f64) -> String| {
            summary.as_ref().map_or("-".to_owned(), |summary| show(summary.median))
        };
        // Where nothing is lost, the tester is the limit.
        let forwarded = |one: &Compared| match &one.forwarded_pps {
            Some(pps) if one.loss.as_ref().is_some_and(|loss| loss.median > 0.0) => interval(pps, &text::pps),
            Some(pps) => format!("at least {}", interval(pps, &text::pps)),
            None => "no figure".to_owned(),
        };
        let ratio_of = |one: &Compared, summary: &Option<Summary>| match summary {
            Some(summary) => ratio(summary),
            None if one.target == self.first() && one.missing().is_none() => "1".to_owned(),
            None => "-".to_owned(),
        };
        text += "\nAs many frames as the tester can send\n";
        let rows = self.loaded.iter().map(|one| {
            vec![
                one.target.clone(),
                median(&one.sent_pps, &text::pps),
                forwarded(one),
                median(&one.loss, &percent),
                ratio_of(one, &one.forwarded_ratio),
            ]
        });
        let header = ["device", "sent", "forwarded", "lost", "ratio"];
        text += &format!("{}\n", table::rows(&header, &["sent", "lost"], rows));
        text += &format!(
            "\nLatency at {}, without the tester's own {}\n",
            text::pps(self.latency_load_pps),
            text::time(self.floor_ns as f64)
        );
        let rows = self.relaxed.iter().map(|one| {
            vec![
                one.target.clone(),
                of(&one.p50_ns, &text::time),
                ratio_of(one, &one.p50_ratio),
                of(&one.p99_ns, &text::time),
                ratio_of(one, &one.p99_ratio),
            ]
        });
        let header = ["device", "median", "ratio of medians", "p99", "ratio of p99"];
        text += &format!("{}\n", table::rows(&header, &[], rows));
        for (target, what, why) in self.without_figure() {
            text += &format!("\n{target} has no figure of {what}: {why}");
        }
        let partly = |one: &&Compared| one.left_out > 0 && one.missing().is_none();
        for one in self.loaded.iter().chain(&self.relaxed).filter(partly) {
            let why = one.doubt.as_deref().unwrap_or_default();
            text += &format!(
                "\n{}: {} of {rounds} rounds left out, as the tester or the host disturbed them: {why}",
                one.target, one.left_out
            );
        }
        text.push('\n');
        if rounds < FEWEST {
            text += &format!("\nFewer than {FEWEST} rounds: there are no intervals.\n");
        }
        text.push('\n');
        text
    }

    /// The devices that have no figure, what of, and why.
    fn without_figure(&self) -> impl Iterator<Item = (&str, &'static str, String)> {
        let loaded = self.loaded.iter().map(|one| (one, "what it forwards", one.missing()));
        let relaxed = self.relaxed.iter().map(|one| (one, "latency", one.missing_latency()));
        loaded.chain(relaxed).filter_map(|(one, what, why)| Some((one.target.as_str(), what, why?)))
    }

    fn first(&self) -> &str {
        self.loaded.first().map_or("the first", |first| &first.target)
    }
}
