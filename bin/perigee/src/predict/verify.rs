// SPDX-License-Identifier: MIT
//! `perigee predict verify`: a profile compared with measured points.

use super::{compared, errors_line};
use crate::table::print;
use anyhow::Result;
use clap::Args;
use perigee_predict::verify::{self, Errors, Verification, Verified};
use perigee_predict::{Profile, points};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `perigee predict verify`.
#[derive(Args)]
pub struct VerifyArgs {
    /// The profile
    #[arg(value_name = "PROFILE.json")]
    profile: PathBuf,
    /// Measured points; those that the profile was fitted to are counted separately
    #[arg(value_name = "POINTS.csv")]
    points: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Compares.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let profile = Profile::load(&args.profile)?;
    let points = points::load(&args.points)?;
    let found = verify::verify(&profile, &points, &args.points.display().to_string())?;
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
