// SPDX-License-Identifier: MIT
//! `perigee predict verify --measure`: a profile at points that it has never seen.

use super::calibrate::REFERENCE;
use super::plan::Plan as Measurements;
use super::profiles::this_machine;
use super::rig::{Bench, Paced};
use crate::output::print;
use crate::table::rows;
use anyhow::{Result, ensure};
use perigee_predict::campaign::{self, Setting};
use perigee_predict::capacity::{Capacity, Traffic};
use perigee_predict::machine::{Distance, Origin};
use perigee_predict::profile::Pauses;
use perigee_predict::traffic::Arrivals;
use perigee_predict::{Profile, Router};
use perigee_rig::{Idle, Manner, noise_percent};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// How to look.
pub struct Plan {
    /// Points of a saturated router, points below saturation, and some beyond it.
    pub points: usize,
    pub loads: usize,
    pub overloads: usize,
    pub cores: Option<u32>,
    pub manner: Manner,
    pub json: bool,
}

/// A held-out point.
#[derive(Debug, Clone, Serialize)]
struct Point {
    #[serde(flatten)]
    setting: Setting,
    /// Million packets per second.
    predicted: f64,
    measured: f64,
    error_percent: f64,
    /// How far rounds of it are apart.
    noise_percent: f64,
}

/// A held-out load.
#[derive(Debug, Clone, Serialize)]
struct Load {
    #[serde(flatten)]
    setting: Setting,
    /// Share of the predicted capacity.
    load: f64,
    offered_pps: f64,
    predicted: Times,
    measured: Times,
    error_percent: Times,
    /// 99 % with the pauses of the profile's day, not of this one's.
    predicted_p99_then: f64,
    predicted_loss: f64,
    measured_loss: f64,
    /// How far medians of its rounds are apart.
    noise_percent: f64,
    /// What took the core away beside it: times a second, and mean length in ns.
    pauses_per_second: f64,
    pause_ns: f64,
}

/// A held-out load beyond the capacity.
#[derive(Debug, Clone, Serialize)]
struct Overload {
    #[serde(flatten)]
    setting: Setting,
    load: f64,
    offered_pps: f64,
    predicted_loss: f64,
    measured_loss: f64,
}

/// In ns, or their errors in percent.
#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    p50: f64,
    p90: f64,
    p99: f64,
}

#[derive(Debug, Serialize)]
struct Verified {
    profile: String,
    seed: u64,
    rounds: u64,
    points: Vec<Point>,
    /// How fast the machine was when others left it alone, of how fast it was when the profile was made, by cores:
    /// what was measured is scaled by it. Empty: the profile is another machine's, and nothing is scaled.
    pace: Vec<(u32, f64)>,
    mean_absolute_error_percent: f64,
    max_absolute_error_percent: f64,
    noise_percent: f64,
    loads: Vec<Load>,
    overloads: Vec<Overload>,
    /// An interrupt ended it before all was measured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    mean_absolute_p50_error_percent: f64,
    mean_absolute_p99_error_percent: f64,
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = values.collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// What a profile says of a setting: a working set of 64 bytes for each network, and its share for the slow path.
fn capacity(profile: &Profile, setting: &Setting) -> Capacity {
    let working_set = 64.0 * f64::from(setting.networks);
    let router = Router { burst: setting.burst, ..profile.router.clone() };
    // With its burst: packets for the slow path cost small bursts less.
    let profile = Profile { router: router.clone(), ..profile.clone() };
    let service = profile.service(setting.cores, setting.two_way, working_set, setting.punted);
    let traffic = Traffic {
        sizes: perigee_predict::traffic::Sizes::one(setting.frame_size),
        flows: setting.flows,
        directions: if setting.two_way { 2 } else { 1 },
        arrivals: Arrivals::Poisson,
    };
    Capacity::new(&router, service, &traffic, setting.cores)
}

/// Was it measured on a machine with this processor? A profile that does not say is taken at its word.
fn is_of_this_machine(profile: &Profile) -> bool {
    let origin = Origin::of(profile, &profile.name);
    origin.map_or(true, |origin| Distance::between(&this_machine(), &origin.machine).identity == 0)
}

/// How fast the machine is now when others leave it alone, of how fast it was when the profile was made; 1 where a
/// profile does not say.
fn pace(profile: &Profile, cores: u32, mpps: f64) -> f64 {
    let fit = profile.fit.as_ref().and_then(|fit| fit.get(REFERENCE)?.get(cores.to_string())?.as_f64());
    fit.filter(|then| *then > 0.0).map_or(1.0, |then| mpps / then)
}

/// Million packets per second of the saturated router.
fn predicted(profile: &Profile, setting: &Setting) -> f64 {
    f64::from(setting.cores) * 1e3 / capacity(profile, setting).packet_ns()
}

/// Measures and compares.
pub fn verify(profile: &Profile, plan: &Plan) -> Result<ExitCode> {
    let counts = [plan.points, plan.loads, plan.overloads];
    let mut bench = Bench::start(plan.cores, plan.manner, |cores| Measurements::held_out(cores, counts, plan.manner))?;
    let settings = campaign::held_out(plan.points, bench.cores(), plan.manner.seed);
    let mut measured = bench.saturated("held out", &settings, |_| Ok(()))?;
    ensure!(!measured.is_empty(), "interrupted before anything was measured");
    measured.retain(|(found, _)| found.slow.is_none());
    if !bench.interrupted() {
        // Loads need the pace of one core, which may not be among the points.
        bench.saturated("reference", &[Setting::plain()], |_| Ok(()))?;
    }
    let same_machine = is_of_this_machine(profile);
    let paces: Vec<(u32, f64)> = match same_machine {
        true => bench.references().iter().map(|(cores, mpps)| (*cores, pace(profile, *cores, *mpps))).collect(),
        // Its speed is what a profile of another machine has to predict.
        false => Vec::new(),
    };
    let pace_of = |cores: u32| paces.iter().find(|(other, _)| *other == cores).map_or(1.0, |(_, pace)| *pace);
    let points: Vec<Point> = measured
        .iter()
        .map(|(found, rounds)| {
            let predicted = predicted(profile, &found.setting);
            let measured = found.mpps / pace_of(found.setting.cores);
            Point {
                setting: found.setting.clone(),
                predicted,
                measured,
                error_percent: 100.0 * (predicted / measured - 1.0),
                noise_percent: rounds.noise_percent(),
            }
        })
        .collect();
    let loads = unless_interrupted(&mut bench, |bench| loads(profile, plan, bench, pace_of(1)))?;
    let overloads = unless_interrupted(&mut bench, |bench| overloads(profile, plan, bench, pace_of(1)))?;
    let absolute = |point: &Point| point.error_percent.abs();
    let found = Verified {
        profile: profile.name.clone(),
        seed: plan.manner.seed,
        rounds: plan.manner.rounds,
        mean_absolute_error_percent: mean(points.iter().map(absolute)),
        max_absolute_error_percent: points.iter().map(absolute).fold(0.0, f64::max),
        noise_percent: mean(points.iter().map(|point| point.noise_percent)),
        mean_absolute_p50_error_percent: mean(loads.iter().map(|load| load.error_percent.p50.abs())),
        mean_absolute_p99_error_percent: mean(loads.iter().map(|load| load.error_percent.p99.abs())),
        pace: paces,
        points,
        loads,
        overloads,
        interrupted: bench.interrupted(),
    };
    let text = if plan.json { format!("{}\n", serde_json::to_string_pretty(&found)?) } else { tables(&found) };
    let printed = print(&text)?;
    Ok(if found.interrupted { ExitCode::FAILURE } else { printed })
}

/// The results of `measure`; none after an interrupt.
fn unless_interrupted<T>(bench: &mut Bench, measure: impl FnOnce(&mut Bench) -> Result<Vec<T>>) -> Result<Vec<T>> {
    if bench.interrupted() {
        return Ok(Vec::new());
    }
    measure(bench).or_else(|error| if bench.interrupted() { Ok(Vec::new()) } else { Err(error) })
}

/// Drawn loads, with the rates that they are by the profile: of a machine as fast as then, and of this one, which has
/// `pace` of that.
type Offered = Vec<(Setting, f64, f64)>;

fn offered(profile: &Profile, drawn: Vec<(Setting, f64)>) -> Offered {
    let rate = |(setting, load): (Setting, f64)| {
        let pps = load * predicted(profile, &setting) * 1e6;
        (setting, load, pps)
    };
    drawn.into_iter().map(rate).collect()
}

fn paced(offered: &Offered, bench: &mut Bench, pace: f64) -> Result<Vec<Paced>> {
    let slowed: Vec<(Setting, f64)> = offered.iter().map(|(setting, _, pps)| (setting.clone(), pps * pace)).collect();
    bench.paced("held out", &slowed, Idle::Poll)
}

/// The profile with these pauses.
fn paused(profile: &Profile, pauses: &perigee_rig::Pauses) -> Profile {
    let perigee_rig::Pauses { per_second, lengths_ns } = pauses.clone();
    let pauses = (!lengths_ns.is_empty()).then_some(Pauses { per_second, lengths_ns });
    Profile { router: Router { pauses, ..profile.router.clone() }, ..profile.clone() }
}

/// Times at loads. Pauses are the machine's of the moment, as its pace is.
fn loads(profile: &Profile, plan: &Plan, bench: &mut Bench, pace: f64) -> Result<Vec<Load>> {
    let drawn = offered(profile, campaign::held_out_loads(plan.loads, plan.manner.seed));
    let found = paced(&drawn, bench, pace)?;
    let row = |((setting, load, pps), paced): (&(Setting, f64, f64), &Paced)| {
        let figures = capacity(&paused(profile, &paced.pauses), setting).figures(*pps);
        let then = capacity(profile, setting).figures(*pps).sojourn_ns?;
        let times = figures.sojourn_ns?;
        let predicted = Times { p50: times.p50, p90: times.p90, p99: times.p99 };
        let sojourn = paced.sojourn.times(pace);
        let measured = Times { p50: sojourn.p50, p90: sojourn.p90, p99: sojourn.p99 };
        let error = |predicted: f64, measured: f64| 100.0 * (predicted / measured - 1.0);
        Some(Load {
            setting: setting.clone(),
            load: *load,
            offered_pps: *pps,
            predicted,
            measured,
            error_percent: Times {
                p50: error(predicted.p50, measured.p50),
                p90: error(predicted.p90, measured.p90),
                p99: error(predicted.p99, measured.p99),
            },
            predicted_p99_then: then.p99,
            predicted_loss: figures.loss.unwrap_or(f64::NAN),
            measured_loss: paced.loss,
            noise_percent: noise_percent(&paced.medians),
            pauses_per_second: paced.pauses.per_second,
            pause_ns: mean(paced.pauses.lengths_ns.iter().copied()),
        })
    };
    Ok(drawn.iter().zip(&found).filter_map(row).collect())
}

/// Losses beyond the capacity.
fn overloads(profile: &Profile, plan: &Plan, bench: &mut Bench, pace: f64) -> Result<Vec<Overload>> {
    let drawn = offered(profile, campaign::held_out_overloads(plan.overloads, plan.manner.seed));
    let found = paced(&drawn, bench, pace)?;
    let row = |((setting, load, pps), paced): (&(Setting, f64, f64), &Paced)| {
        let predicted = capacity(&paused(profile, &paced.pauses), setting).figures(*pps).loss?;
        Some(Overload {
            setting: setting.clone(),
            load: *load,
            offered_pps: *pps,
            predicted_loss: predicted,
            measured_loss: paced.loss,
        })
    };
    Ok(drawn.iter().zip(&found).filter_map(row).collect())
}

fn tables(found: &Verified) -> String {
    let mut text = format!("{}: predicted, and measured at points drawn with seed {}\n", found.profile, found.seed);
    let columns = ["point", "predicted Mpps", "measured", "error %", "noise %"];
    let line = |point: &Point| {
        vec![
            point.setting.words(),
            format!("{:.2}", point.predicted),
            format!("{:.2}", point.measured),
            format!("{:+.1}", point.error_percent),
            format!("{:.1}", point.noise_percent),
        ]
    };
    let _ = writeln!(text, "\n{}", rows(&columns, &columns[1..], found.points.iter().map(line)).trim_fmt());
    let _ = writeln!(
        text,
        "\n{}\nmean absolute error {:.2} %, worst {:.2} %; rounds of one point are {:.2} % from their median, on the mean",
        paces_line(&found.pace),
        found.mean_absolute_error_percent,
        found.max_absolute_error_percent,
        found.noise_percent
    );
    if !found.loads.is_empty() {
        text += &loads_table(found);
    }
    if !found.overloads.is_empty() {
        text += &overloads_table(found);
    }
    if found.interrupted {
        text += "\ninterrupted: this is what had been measured by then\n";
    }
    text
}

fn paces_line(paces: &[(u32, f64)]) -> String {
    if paces.is_empty() {
        return "the profile is another machine's: nothing is scaled".to_owned();
    }
    let paces: Vec<String> = paces
        .iter()
        .map(|(cores, pace)| format!("{pace:.2} with {cores} core{}", if *cores == 1 { "" } else { "s" }))
        .collect();
    format!(
        "the machine has this share of the speed that it had when the profile was made, and what was measured is scaled by it: {}",
        paces.join(", ")
    )
}

fn loads_table(found: &Verified) -> String {
    let mut text = String::new();
    let columns = ["load", "networks", "p50 ns", "measured", "error %", "p99 ns", "measured ", "error % ", "noise %"];
    let line = |load: &Load| {
        vec![
            format!("{:.2} of capacity, {:.2} Mpps", load.load, load.offered_pps / 1e6),
            load.setting.networks.to_string(),
            format!("{:.0}", load.predicted.p50),
            format!("{:.0}", load.measured.p50),
            format!("{:+.1}", load.error_percent.p50),
            format!("{:.0}", load.predicted.p99),
            format!("{:.0}", load.measured.p99),
            format!("{:+.1}", load.error_percent.p99),
            format!("{:.1}", load.noise_percent),
        ]
    };
    let _ = writeln!(text, "\n{}", rows(&columns, &columns[1..], found.loads.iter().map(line)).trim_fmt());
    let _ = writeln!(
        text,
        "\nmean absolute error of medians {:.1} %, of 99 % {:.1} %; the core was taken away {:.0} times a second, for {:.1} us on the mean, \
         which predictions know",
        found.mean_absolute_p50_error_percent,
        found.mean_absolute_p99_error_percent,
        mean(found.loads.iter().map(|load| load.pauses_per_second)),
        mean(found.loads.iter().map(|load| load.pause_ns)) / 1e3
    );
    text
}

fn overloads_table(found: &Verified) -> String {
    let columns = ["load beyond the capacity", "frame bytes", "lost %, predicted", "measured"];
    let line = |load: &Overload| {
        vec![
            format!("{:.2} of capacity, {:.2} Mpps", load.load, load.offered_pps / 1e6),
            load.setting.frame_size.to_string(),
            format!("{:.2}", 100.0 * load.predicted_loss),
            format!("{:.2}", 100.0 * load.measured_loss),
        ]
    };
    format!("\n{}\n", rows(&columns, &columns[1..], found.overloads.iter().map(line)).trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 4 were predicted as if packets for the slow path were in as many of them as of 32.
    #[test]
    fn a_setting_has_its_own_burst() {
        let text = r#"{"format": "perigee-profile/1", "name": "n", "model": "batch", "parameters": {"c_batch_ns": 400, "c_packet_ns": 20,
            "c_byte_ns": 0, "miss_ns": 0, "cache_bytes": 0, "d_ns": 0, "u_ns": 0, "punt_burst_ns": 300}, "router": {"link_gbps": 10000}}"#;
        let profile = Profile::parse(text, "p.json").unwrap();
        let mpps = |burst, punted| predicted(&profile, &Setting { burst, punted, ..Setting::plain() });
        assert!((mpps(4, 0.0) - 4e3 / 480.0).abs() < 1e-9);
        assert!((mpps(4, 0.5) - 4e3 / (480.0 + 300.0 * (1.0 - 0.5_f64.powi(4)))).abs() < 1e-9);
    }
}
