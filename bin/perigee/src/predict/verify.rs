// SPDX-License-Identifier: MIT
//! `perigee predict verify`: a profile compared with measured points.

use super::{compared, errors_line, measured, profiles};
use crate::output::print;
use anyhow::{Result, ensure};
use clap::Args;
use perigee_predict::points;
use perigee_predict::verify::{self, Errors, Verification, Verified};
use perigee_rig::Manner;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `perigee predict verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// The profile: its file, or the name of one that ships
    #[arg(value_name = "PROFILE.json")]
    profile: PathBuf,
    /// Measured points; those that the profile was fitted to are counted separately
    #[arg(value_name = "POINTS.csv", required_unless_present = "measure", conflicts_with = "measure")]
    points: Option<PathBuf>,
    /// Instead: measure this machine at points that are drawn at random, throughput and times
    #[arg(long)]
    measure: bool,
    /// `--measure`: points of throughput
    #[arg(long, value_name = "N", default_value_t = 12, requires = "measure")]
    count: usize,
    /// `--measure`: loads at which times are measured
    #[arg(long, value_name = "N", default_value_t = 6, requires = "measure")]
    loads: usize,
    /// `--measure`: loads beyond the capacity, at which losses are measured
    #[arg(long, value_name = "N", default_value_t = 2, requires = "measure")]
    overloads: usize,
    /// `--measure`: cores at once, at most [default: all that this process may use]
    #[arg(long, value_name = "N", requires = "measure")]
    cores: Option<u32>,
    /// `--measure`: how often each point is measured, in another order each time
    #[arg(long, value_name = "N", default_value_t = 5, requires = "measure")]
    rounds: u64,
    /// `--measure`: seconds that it may spend on repeating what others disturbed, for each kind of measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 120, requires = "measure")]
    patience: u64,
    /// `--measure`: the seed that points are drawn with
    #[arg(long, value_name = "N", default_value_t = 7, requires = "measure")]
    seed: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Compares.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let profile = profiles::load(&args.profile)?;
    let VerifyArgs { count, loads, overloads, cores, rounds, patience, seed, json, .. } = *args;
    let Some(file) = &args.points else {
        ensure!((1..=1000).contains(&count), "--count: found {count}, expected 1 to 1000");
        ensure!(loads <= 1000, "--loads: found {loads}, expected at most 1000");
        ensure!(overloads <= 1000, "--overloads: found {overloads}, expected at most 1000");
        ensure!((1..=1000).contains(&rounds), "--rounds: found {rounds}, expected 1 to 1000");
        let manner = Manner { rounds, seed, patience: Duration::from_secs(patience) };
        let plan = measured::Plan { points: count, loads, overloads, cores, manner, json };
        return measured::verify(&profile, &plan);
    };
    let points = points::load(file)?;
    let found = verify::verify(&profile, &points, &file.display().to_string())?;
    if args.json { print(&format!("{}\n", serde_json::to_string_pretty(&found)?)) } else { print(&tables(&found)) }
}

fn tables(found: &Verification) -> String {
    let table = compared(
        ["limit", "fit"],
        &[],
        found.points.iter().map(|Verified { point, limit, fitted, .. }| {
            (point, [(*limit).to_owned(), if *fitted { "fitted" } else { "" }.to_owned()])
        }),
    );
    let mut text = format!("{} ({}) beside {}\n\n{}\n\n", found.profile, found.model, found.file, table);
    for (what, errors) in [
        ("all points", Some(&found.all)),
        ("not fitted", found.new.as_ref()),
        ("fitted", found.fitted.as_ref()),
        ("limited by cores", found.limited_by_cores.as_ref()),
        ("limited by links", found.limited_by_links.as_ref()),
    ] {
        if let Some(errors) = errors {
            let Errors { points, signed_mean_percent, mean_absolute_percent, worst_percent, worst_line } = *errors;
            let line = errors_line(signed_mean_percent, mean_absolute_percent, (worst_percent, worst_line));
            let _ = writeln!(text, "{:<24} {line}", format!("{what} ({points}):"));
        }
    }
    text
}
