// SPDX-License-Identifier: MIT
//! `perigee gen`: sends traffic on a port, at a rate; counts, orders and times what comes back on the same port or
//! another.
//!
//! ```text
//! traffic   which frames: flags, a file, a script, a capture
//! script    a Lua script that describes them, changes them before they are sent, or both
//! report    the summary: for people, as JSON, as CSV
//! ```

mod report;
mod script;
mod traffic;

use crate::measure::ports::{self, TesterPort};
use crate::measure::{floor, text, threads};
use crate::task::MachineArgs;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use perigee_dpdk::{Clock, MBUF, set_runtime_dir, usable_cores};
use perigee_measure::environment::Meanwhile;
use perigee_measure::pace::{self, Departures, Limit, Pacer, Pattern, Rate, Request};
use perigee_measure::received::{Interval, Latencies, Received, Settings};
use perigee_measure::station::{Course, Finished, Listener, Sent, Stream};
use perigee_measure::verdict::{Observed, Verdict};
use perigee_packet::PortStats;
use report::Report;
use script::Watch;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use traffic::{Source, TrafficArgs};

/// From the command to the first frame, ns: threads are on their cores by then.
const HEAD_START: u64 = 20_000_000;
/// How long everything may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(30);
/// How long to wait for frames that are still under way.
const DRAIN: f64 = 0.5;
/// How long a pause the tester's queues stand at least, ns.
const ALLOWED_PAUSE: u64 = 1_000_000;

#[derive(Args)]
#[command(
    after_help = "docs/generator.md has examples. Frame sizes are with the FCS, bit/s are those on the wire (20 bytes more per frame)."
)]
pub struct GenArgs {
    /// The device to send on: a Linux interface, xdp:INTERFACE, a PCI address, or a DPDK device such as net_null0
    device: String,
    /// The device to receive on; without one, nothing is expected back
    #[arg(long, value_name = "DEVICE")]
    to: Option<String>,
    #[command(flatten)]
    traffic: TrafficArgs,
    /// How fast: 1Mpps, 10Gbit/s (on the wire), 50% (of the line rate), or line: as fast as the device takes frames
    #[arg(long, short, default_value = "line")]
    rate: Rate,
    /// Gaps of an exponential distribution (Poisson arrivals) instead of equal ones
    #[arg(long, conflicts_with = "burst")]
    poisson: bool,
    /// Bursts of so many frames back to back; --rate is their mean, or with --gap the rate within a burst
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    burst: Option<u32>,
    /// Microseconds between the end of a burst and the start of the next
    #[arg(long, value_name = "US", requires = "burst")]
    gap: Option<f64>,
    /// Seconds to send [default: until Ctrl-C]
    #[arg(long, short, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Frames to send
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// Seconds before those of --seconds in which the load rises to --rate, in eight steps and without a gap before
    /// the first frame that counts: a jump from nothing to the full rate fakes loss where a device has flows to
    /// learn. The receiver gets these frames; they are in no result but the ports' own counts
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "speed")]
    ramp: Option<f64>,
    /// Microseconds that a frame may leave later than it is due; later ones are given up, and counted
    #[arg(long, value_name = "US", default_value_t = pace::ALLOWANCE as f64 / 1e3)]
    late: f64,
    /// The tester's own latency in ns, subtracted from latencies [default: measured without ports, over a ring]
    #[arg(long, value_name = "NS")]
    floor: Option<u64>,
    /// Record the latency of one frame in so many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    latency_every: u32,
    /// Print one JSON object at the end, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Write a line per second to a file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// No line per second
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// A time above 0.
fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|s: &f64| *s > 0.0 && s.is_finite())
        .ok_or_else(|| format!("found {text:?}, expected seconds above 0"))
}

pub fn generate(args: &GenArgs) -> Result<ExitCode> {
    // Mistakes are found before a device is opened.
    let clock = Clock::new();
    let script = args.traffic.script(clock)?;
    let source = args.traffic.source(script.as_ref(), None, None)?;
    ensure!(args.late >= 0.0 && args.late.is_finite(), "--late {}: expected microseconds, 0 or more", args.late);
    ensure!(
        args.to.as_ref() != Some(&args.device),
        "found --to {0}, which is the device that sends, expected another one that frames arrive on: what comes back to {0} is not \
         counted; leave --to out to send only",
        args.device
    );
    // Before anything is sent.
    let mut csv = args.csv.as_deref().map(CsvFile::create).transpose()?;
    set_runtime_dir(perigee_dpdk::fallback_runtime_dir().as_deref())?;
    let eal = ports::start(&args.machine)?;
    let names: Vec<&str> = std::iter::once(args.device.as_str()).chain(args.to.as_deref()).collect();
    let open = ports::open_all(&eal, &names, source.longest())?;
    let pattern = request(args)?.pattern(source.mean_size(), open[0].line())?;
    let ramp = args.ramp.map(|seconds| Ramp::new(seconds, pattern)).transpose()?;
    let source = args.traffic.source(script.as_ref(), Some(open[0].mac()), open.get(1).map(TesterPort::mac))?;
    let (source, watch) = match script {
        Some(script) => source.changed_by(script),
        None => (source, None),
    };
    let cores = args.machine.cores.as_ref().map_or_else(usable_cores, |cores| cores.0.clone());
    let trial = Trial { args, source, watch: watch.clone(), pattern, ramp, clock, cores };
    let outcome = trial.run(&eal, &open, &mut csv)?;
    // First what was found, then whatever may have failed.
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcome).context("the results are no JSON")?);
    } else {
        print!("{}", outcome.text());
    }
    let closed = open.into_iter().map(TesterPort::close).fold(Ok(()), Result::and);
    if let Some(why) = watch.as_ref().and_then(|watch| watch.failure()) {
        bail!("{why}");
    }
    closed?;
    let failed = !outcome.verdict.is_trusted();
    Ok(if failed { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn request(args: &GenArgs) -> Result<Request> {
    let departures = match (args.poisson, args.burst) {
        (true, _) => Departures::Poisson { seed: args.traffic.seed() },
        (false, Some(frames)) => {
            let gap = args.gap.map(|us| {
                if us >= 0.0 { Ok((us * 1e3) as u64) } else { bail!("--gap {us}: expected microseconds, 0 or more") }
            });
            Departures::Bursts { frames, gap_ns: gap.transpose()? }
        }
        (false, None) => Departures::Constant,
    };
    Ok(Request { rate: args.rate, departures })
}

/// A load that rises, before what is measured.
#[derive(Clone, Copy)]
struct Ramp {
    /// ns.
    rise: u64,
    /// Frames per second at its end.
    rate: f64,
}

impl Ramp {
    fn new(seconds: f64, pattern: Pattern) -> Result<Ramp> {
        let rate = pattern.mean().with_context(|| {
            format!(
                "--ramp {seconds} needs a rate to rise to, and found --rate line; give one in pps, bit/s or percent"
            )
        })?;
        Ok(Ramp { rise: (seconds * 1e9) as u64, rate })
    }
}

/// A file of intervals.
struct CsvFile {
    path: PathBuf,
    writer: csv::Writer<File>,
}

impl CsvFile {
    fn create(path: &Path) -> Result<CsvFile> {
        let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(CsvFile { path: path.to_owned(), writer: csv::Writer::from_writer(file) })
    }

    fn write(&mut self, interval: &Interval) -> Result<()> {
        let written = self.writer.serialize(interval).map_err(anyhow::Error::from);
        written
            .and_then(|()| Ok(self.writer.flush()?))
            .with_context(|| format!("{} cannot be written", self.path.display()))
    }
}

/// One run of the generator.
struct Trial<'a> {
    args: &'a GenArgs,
    source: Source,
    /// Of the script that changes the frames.
    watch: Option<Arc<Watch>>,
    pattern: Pattern,
    ramp: Option<Ramp>,
    clock: Clock,
    cores: Vec<usize>,
}

impl Trial<'_> {
    fn run(self, eal: &perigee_dpdk::Eal, open: &[TesterPort], csv: &mut Option<CsvFile>) -> Result<Report> {
        let Trial { args, source, watch, pattern, ramp, clock, cores } = self;
        let late = (args.late * 1e3) as u64;
        let (described, stamped, flows) = (source.describe(), source.is_stamped(), source.flows());
        let floor = match (args.floor, &args.to) {
            (None, Some(_)) if stamped => Some(floor::floor(eal, clock, &cores)?),
            (given, _) => given,
        };
        let (run, climbs) = (run_number(), clock.now() + HEAD_START);
        let start = climbs.saturating_add(ramp.map_or(0, |ramp| ramp.rise));
        let ramp = ramp.map(|Ramp { rise, rate }| (pace::ramp(climbs, rise, rate, late), ramp_number(run)));
        let duration = args.seconds.map(|s| (s * 1e9) as u64);
        let limit = Limit { frames: args.frames, duration };
        let mut ends = open.iter().map(TesterPort::end).collect::<Result<Vec<_>>>()?;
        ends[0].stream = Some(match source.timed {
            true => Stream::timed(source.frames, &MBUF, start, limit, run),
            false => {
                let stream = Stream::new(source.frames, &MBUF, Pacer::new(pattern, start, limit, late), run);
                let (departures, mark) = ramp.clone().unwrap_or_default();
                stream.after(departures, mark)
            }
        });
        let receives = args.to.is_some();
        if let Some(end) = ends.get_mut(1) {
            let ramp = ramp.map(|(_, mark)| mark);
            let settings = Settings { latency_every: args.latency_every, floor, ramp, ..Settings::new(run, flows) };
            end.listener = Some(Listener::new(settings));
        }
        let course = Course::new(1, (DRAIN * 1e9) as u64);
        course.report_from(start);
        let stop: Arc<Course> = course.clone();
        let stop = move || {
            stop.stop();
            if let Some(watch) = watch {
                watch.interrupt(GRACE);
            }
        };
        crate::signals::on_signals(stop, GRACE)?;
        let cable = open.get(1).is_some_and(|to| open[0].is_cable_to(to));
        let before: Vec<PortStats> = open.iter().map(TesterPort::stats).collect();
        let downs = || open.iter().map(TesterPort::downs).sum::<u64>();
        let downs_before = downs();
        let numbers: Vec<u32> = cores.iter().map(|core| *core as u32).collect();
        let meanwhile = Meanwhile::read(Path::new("/"), &numbers);
        let mut intervals = Vec::new();
        let mut broken = None;
        let threads::Done { finished, latencies } =
            threads::run(threads::divide(ends, cores.len()), eal, clock, &cores, &course, |interval| {
                intervals.push(*interval);
                // Reports of links do not wait for ever.
                downs();
                if !args.quiet && !args.json {
                    println!("{}", text::line(interval, true, receives));
                    let _ = std::io::stdout().flush();
                }
                if let Some(Err(error)) = csv.as_mut().map(|csv| csv.write(interval)) {
                    broken.get_or_insert(error);
                }
            })?;
        if let Some(error) = broken {
            eprintln!("perigee: {error:#}");
        }
        let after: Vec<PortStats> = open.iter().map(TesterPort::stats).collect();
        // Where nothing is expected, nothing is taken from the port.
        let listening = if receives { 1..2 } else { 0..0 };
        let both = || before[listening.clone()].iter().zip(&after[listening.clone()]);
        let missed: u64 = both()
            .map(|(before, after)| after.rx_missed + after.rx_no_buffer - before.rx_missed - before.rx_no_buffer)
            .sum();
        let receive_errors = both().map(|(before, after)| after.rx_errors - before.rx_errors).sum();
        let meanwhile = Meanwhile::read(Path::new("/"), &numbers).since(&meanwhile);
        let down_now = open.iter().filter(|port| !port.link().up).count() as u32;
        let links_down = down_now.max(u32::try_from(downs() - downs_before).unwrap_or(u32::MAX));
        let (sent, heard, longest_pause) = gather(finished);
        let mut sent = sent.context("the stream is gone")?;
        let refused = after[0].tx_errors.saturating_sub(before[0].tx_errors);
        let mut heard = heard.filter(|_| receives && stamped);
        let mut outcome = heard.as_mut().map(|heard| heard.close(|flow| sent.frames.written(flow)));
        if let Some(outcome) = &mut outcome {
            outcome.take_off(&mut sent.account, refused);
        }
        let latencies = latencies.into_iter().flatten().next().filter(|_| heard.is_some());
        let latency = latencies.as_ref().and_then(Latencies::summary);
        let variation = heard.as_ref().zip(latencies.as_ref()).map(|(heard, latencies)| heard.variation(latencies));
        let lasted = sent.lasted;
        let verdict = Verdict::new(&Observed {
            account: Some(sent.account),
            outcome: outcome.as_ref(),
            latency: latency.as_ref(),
            missed,
            receive_errors,
            longest_pause,
            allowed_pause: ALLOWED_PAUSE.max(late),
            planned: duration.unwrap_or(lasted),
            lasted,
            links_down,
            cable,
            meanwhile: Some(meanwhile),
            interrupted: course.is_stopped() && args.seconds.or(args.frames.map(|n| n as f64)).is_some(),
        });
        Ok(Report::new(args, described, open, &sent, outcome, latency, variation, intervals, longest_pause, verdict))
    }
}

/// The one stream, the one listener, and the longest pause of all stations.
fn gather(finished: Vec<Finished>) -> (Option<Sent>, Option<Received>, u64) {
    let (mut sent, mut heard, mut longest) = (None, None, 0);
    for station in finished {
        longest = longest.max(station.longest_pause);
        sent = sent.or(station.sent.into_iter().flatten().next());
        heard = heard.or(station.heard.into_iter().flatten().next());
    }
    (sent, heard, longest)
}

/// A mark for this trial's stamps that another process has only by chance: no byte of it is 0.
fn run_number() -> u16 {
    let pid = std::process::id();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let mixed = (u64::from(pid) << 32 | u64::from(now)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (mixed as u16) | 0x0101
}

/// The mark of the frames before the trial: another one, and no byte of it is 0 either.
fn ramp_number(run: u16) -> u16 {
    run ^ 0x0202
}
