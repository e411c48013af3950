// SPDX-License-Identifier: MIT
//! `perigee predict run`: how fast a router will be, how many cores it needs, as tables, JSON or a page.

use super::profiles;
use crate::output::print;
use crate::table::rows;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use perigee_predict::answer::{self, Answer, Needed, Question, Simulate};
use perigee_predict::capacity::Traffic;
use perigee_predict::report::{self, BY_CORES, BY_LOAD};
use perigee_predict::simulate::{INSTALL, Simulator};
use perigee_predict::traffic::Rate;
use perigee_predict::{Profile, html, rss};
use serde::Serialize;
use std::fmt::{Display, Write as _};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

/// Packets of a simulation, unless the command line or the objective asks for more.
const PACKETS: u64 = 200_000;
/// Longest time that a simulation may be given, in seconds.
const MAX_SECONDS: u64 = 1_000_000;
/// Most packets that an objective asks for by itself.
const MAX_PACKETS: u64 = 5_000_000;
/// Seeds that ns-3 takes.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=4_000_000_000;

/// Arguments of `perigee predict run`.
#[derive(Args)]
pub struct RunArgs {
    /// The router's profile: a file as `perigee predict calibrate` or `fit` writes it, or the name of one that ships
    /// [default: the one that ships whose machine is the nearest to this one]
    #[arg(value_name = "PROFILE.json")]
    profile: Option<PathBuf>,
    /// Offered rate, all ports together: 10G, 800M (bit/s on the wire, 20 bytes more per frame), 5Mpps
    #[arg(long)]
    rate: String,
    /// Frame sizes in bytes, FCS included: 64, imix (7 of 64, 4 of 570, 1 of 1518), or with weights 64:7,594:4,1518:1
    #[arg(long, default_value = "64")]
    sizes: String,
    /// Flows, spread over the cores by RSS
    #[arg(long, default_value_t = 1000, value_name = "N")]
    flows: u32,
    /// Numbers of cores: 4, 1..16 (with both ends), 1,2,4
    #[arg(long, default_value = "1..16")]
    cores: String,
    /// What to reach: limits of loss, utilisation (of the busiest core; both in %), mean, p50, p90, p99, p99.9 (in ns,
    /// us, ms, s) [default: no loss]
    #[arg(long, value_name = "loss<0.001%,p99<100us")]
    objective: Option<String>,
    /// Rate of each port's link, as 50G [default: the profile's]
    #[arg(long, value_name = "RATE")]
    link: Option<String>,
    /// Ports, in pairs [default: the profile's]
    #[arg(long, value_name = "N")]
    ports: Option<u32>,
    /// 1: packets cross each pair of ports one way; 2: flows in turn both ways
    #[arg(long, default_value_t = 2, value_name = "1|2")]
    directions: u32,
    /// poisson: at random, as from many users; constant: at equal distances, as from test equipment
    #[arg(long, default_value = "poisson", value_name = "HOW")]
    arrivals: String,
    /// Bytes of tables that packets are looked up in, 64 per destination [default: the profile's]
    #[arg(long, value_name = "BYTES")]
    working_set: Option<f64>,
    /// Simulate everything in ns-3, not only what has no exact closed form
    #[arg(long, conflicts_with = "closed")]
    simulate: bool,
    /// Simulate nothing: closed forms only, some of them approximate
    #[arg(long)]
    closed: bool,
    /// The simulator, softrouter-predict [default: PERIGEE_NS3, target/ns3 beside perigee, PATH]
    #[arg(long, value_name = "PATH")]
    simulator: Option<PathBuf>,
    /// Packets of each simulation, more near full load [default: 200000, or what a limit of loss needs]
    #[arg(long, value_name = "N")]
    packets: Option<u64>,
    /// Seconds that a simulation may take
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    timeout: u64,
    /// Seed of simulations
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Write a page with tables and charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Parses a word of the command line.
fn word<T: FromStr<Err: Display>>(option: &str, text: &str) -> Result<T> {
    text.parse().map_err(|error| anyhow!("{option}: {error}"))
}

impl RunArgs {
    fn question(&self, mut profile: Profile) -> Result<Question> {
        let router = &mut profile.router;
        if let Some(link) = &self.link {
            match word::<Rate>("--link", link)? {
                Rate::Bits(rate) => router.link_gbps = rate / 1e9,
                Rate::Packets(_) => bail!("--link: found {link}, expected bits per second, as 50G"),
            }
        }
        router.ports = self.ports.unwrap_or(router.ports);
        router.working_set_bytes = self.working_set.unwrap_or(router.working_set_bytes);
        if !(2..=64).contains(&router.ports) || !router.ports.is_multiple_of(2) {
            bail!("{} ports, expected 2 to 64 of them, in pairs (--ports)", router.ports);
        }
        profile.check("the command line")?;
        if !(1..=rss::MAX_FLOWS).contains(&self.flows) {
            bail!("--flows: found {}, expected 1 to {}", self.flows, rss::MAX_FLOWS);
        }
        if !(1..=2).contains(&self.directions) {
            bail!("--directions: found {}, expected 1 or 2", self.directions);
        }
        if !SEEDS.contains(&self.seed) {
            bail!("--seed: found {}, expected {} to {}", self.seed, SEEDS.start(), SEEDS.end());
        }
        let objective = self.objective.as_deref().map(|text| word("--objective", text)).transpose()?;
        let mut question = Question {
            profile,
            rate: word("--rate", &self.rate)?,
            traffic: Traffic {
                sizes: word("--sizes", &self.sizes)?,
                flows: self.flows,
                directions: self.directions,
                arrivals: word("--arrivals", &self.arrivals)?,
            },
            cores: word("--cores", &self.cores)?,
            objective,
            simulate: match (self.simulate, self.closed) {
                (true, _) => Simulate::Always,
                (_, true) => Simulate::Never,
                _ => Simulate::WhereNeeded,
            },
            seed: self.seed,
            packets: PACKETS,
        };
        if question.rate.pps(&question.traffic.sizes) < 1.0 {
            bail!("--rate: found {}, expected at least a packet per second", self.rate);
        }
        question.packets = self.packets(&question)?;
        Ok(question)
    }

    /// Enough packets to see the loss that the objective allows.
    fn packets(&self, question: &Question) -> Result<u64> {
        let Some(packets) = self.packets else {
            let loss = question.objective.as_ref().and_then(|objective| objective.loss()).filter(|loss| *loss > 0.0);
            return Ok(loss.map_or(PACKETS, |loss| ((4.0 / loss) as u64).clamp(PACKETS, MAX_PACKETS)));
        };
        if !(1000..=1_000_000_000).contains(&packets) {
            bail!("--packets: found {packets}, expected 1000 to 1000000000");
        }
        Ok(packets)
    }

    fn simulator(&self) -> Result<Option<Simulator>> {
        if self.closed {
            return Ok(None);
        }
        if !(1..=MAX_SECONDS).contains(&self.timeout) {
            bail!("--timeout: found {}, expected seconds, 1 to {MAX_SECONDS}", self.timeout);
        }
        let executable = std::env::current_exe().ok();
        let found =
            Simulator::find(self.simulator.as_deref(), executable.as_deref(), Duration::from_secs(self.timeout))?;
        if self.simulate && found.is_none() {
            bail!("--simulate: found no simulator; {INSTALL}");
        }
        Ok(found)
    }
}

/// Predicts.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let (profile, note) = match &args.profile {
        Some(given) => (profiles::load(given)?, None),
        None => profiles::nearest().map(|(profile, note)| (profile, Some(note)))?,
    };
    let question = args.question(profile)?;
    let simulator = args.simulator()?;
    if let Some(note) = &note {
        eprintln!("{note}");
    }
    let bar = ProgressBar::hidden();
    // If the template does not compile, indicatif's own style is used.
    let style = ProgressStyle::with_template("simulating {bar:30} {pos}/{len}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let progress = |done: usize, all: usize| {
        bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let answer = answer::answer(&question, simulator.as_ref(), &progress);
    bar.finish_and_clear();
    let mut answer = answer?;
    answer.notes.splice(0..0, note);
    if let Some(file) = &args.html {
        let page = html::page(&question, &answer, env!("CARGO_PKG_VERSION"));
        fs::write(file, page).with_context(|| format!("{}: expected a file that can be written", file.display()))?;
    }
    let text = if args.json { json(&question, &answer)? } else { tables(&question, &answer) };
    let printed = print(&text)?;
    if matches!(answer.needed, Needed::Cores { .. }) || question.objective.is_none() {
        return Ok(printed);
    }
    if args.json {
        return Ok(ExitCode::FAILURE);
    }
    bail!("{}", answer.sentence)
}

fn tables(question: &Question, answer: &Answer) -> String {
    let Question { profile, traffic, .. } = question;
    let ways = if traffic.ways() == 2 { "both ways" } else { "one way" };
    let mut text = format!(
        "{}: {} of {} offered ({} packets/s), {} flows {ways}, {} arrivals, {} ports of {} Gbit/s\n\n",
        profile.name,
        question.rate,
        traffic.sizes,
        perigee_predict::number::prefixed(answer.offered_pps).trim_end(),
        traffic.flows,
        traffic.arrivals,
        profile.router.ports,
        profile.router.link_gbps,
    );
    let by_cores = answer.rows.iter().map(|row| report::by_cores(row, question));
    let _ = writeln!(text, "{}\n", rows(&BY_CORES, &BY_CORES, by_cores).trim_fmt());
    let no_loss = report::capacity_pps(answer);
    let by_load = report::loads(answer, false).map(|figures| report::by_load(figures, question, no_loss));
    let cores = answer.load_cores;
    let _ = writeln!(text, "against load, {cores} core{}:", if cores == 1 { "" } else { "s" });
    let _ = writeln!(text, "{}\n", rows(&BY_LOAD, &BY_LOAD, by_load).trim_fmt());
    for (what, method) in &answer.methods {
        let _ = writeln!(text, "{what}: {method}");
    }
    for note in &answer.notes {
        let _ = writeln!(text, "{note}");
    }
    if matches!(answer.needed, Needed::Cores { .. }) || question.objective.is_none() {
        let _ = writeln!(text, "\n{}", answer.sentence);
    }
    text
}

/// The question as it was understood, with its answer.
fn json(question: &Question, answer: &Answer) -> Result<String> {
    #[derive(Serialize)]
    struct Size {
        bytes: u32,
        share: f64,
    }
    #[derive(Serialize)]
    struct Written<'a> {
        profile: &'a str,
        model: &'a str,
        rate: String,
        sizes: Vec<Size>,
        flows: u32,
        directions: u32,
        arrivals: perigee_predict::traffic::Arrivals,
        ports: u32,
        link_gbps_each: f64,
        objective: Option<String>,
        #[serde(flatten)]
        answer: &'a Answer,
    }
    let Question { profile, rate, traffic, objective, .. } = question;
    let written = Written {
        profile: &profile.name,
        model: profile.model.name(),
        rate: rate.to_string(),
        sizes: traffic.sizes.entries().iter().map(|&(bytes, share)| Size { bytes, share }).collect(),
        flows: traffic.flows,
        directions: traffic.ways(),
        arrivals: traffic.arrivals,
        ports: profile.router.ports,
        link_gbps_each: profile.router.link_gbps,
        objective: objective.as_ref().map(ToString::to_string),
        answer,
    };
    Ok(serde_json::to_string_pretty(&written)? + "\n")
}
