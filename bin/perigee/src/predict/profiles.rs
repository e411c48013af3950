// SPDX-License-Identifier: MIT
//! `perigee predict profiles`: the profiles that ship; and how the others find one, by file, by name, or by this
//! machine.

use crate::output::print;
use crate::table::Columns;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use perigee_predict::machine::{self, Machine, Origin};
use perigee_predict::shipped::{self, Shipped};
use perigee_predict::{Error, Profile};
use serde::Serialize;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of `perigee predict profiles`.
#[derive(Args)]
pub struct ProfilesArgs {
    /// Print this one, as a profile's file
    name: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A line of the list.
#[derive(Serialize)]
struct Line {
    name: &'static str,
    #[serde(flatten)]
    origin: Origin,
    /// How near its machine is to this one.
    near: String,
    /// Whether it is what `run` takes where no profile is named.
    nearest: bool,
}

/// Lists them, or prints one.
pub fn profiles(args: &ProfilesArgs) -> Result<ExitCode> {
    if let Some(name) = &args.name {
        let Some(shipped) = shipped::find(name) else {
            bail!("no profile of the name {name:?} ships, expected one of {}", shipped::names());
        };
        return print(shipped.json);
    }
    let here = this_machine();
    let nearest = shipped::nearest(&here);
    let line = |shipped: &'static Shipped| {
        let origin = shipped.origin();
        let near = machine::near(&here, &origin.machine);
        Line { name: shipped.name, near, nearest: nearest == Some(shipped), origin }
    };
    let lines: Vec<Line> = shipped::ALL.iter().map(line).collect();
    if args.json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&lines)?));
    }
    let table = Columns::new()
        .text("name", |line: &Line| line.name)
        .text("processor", |line| line.origin.machine.processor_words())
        .text("vectors", |line| line.origin.machine.vectors)
        .number("cores", |line| line.origin.machine.cores)
        .text("measured", |line| line.origin.date.clone())
        .text("by", |line| line.origin.command.clone())
        .table(&lines);
    let mut text = format!("{}\n", table.trim_fmt());
    if let Some(line) = lines.iter().find(|line| line.nearest) {
        text += &format!("\nthe nearest to this machine ({here}): {}, {}\n", line.name, line.near);
    }
    print(&text)
}

/// The machine that this runs on.
pub fn this_machine() -> Machine {
    Machine::read(Path::new("/"), perigee_dpdk::usable_cores().len() as u32, Some(perigee_dpdk::version()))
}

/// The profile that an argument names: a file, or, where there is none of that name, one that ships.
pub fn load(given: &Path) -> Result<Profile> {
    // A folder of a profile's name may be where `calibrate` has written another one.
    let is_file = given.exists() && !given.is_dir();
    if let Some(shipped) = given.to_str().filter(|_| !is_file).and_then(shipped::find) {
        return Ok(shipped.profile());
    }
    match Profile::load(given) {
        Err(ref error @ Error::File { ref cause, .. }) if cause.kind() == ErrorKind::NotFound => {
            bail!("{error}, or the name of one that ships: {}", shipped::names())
        }
        loaded => Ok(loaded?),
    }
}

/// The profile that ships whose machine is the nearest to this one, and a sentence for who has not named one.
pub fn nearest() -> Result<(Profile, String)> {
    let here = this_machine();
    let shipped =
        shipped::nearest(&here).context("no profile ships; name one: `perigee predict calibrate` makes it")?;
    let Origin { machine, date, .. } = shipped.origin();
    let note = format!(
        "No profile is named, so this is {}, the nearest to this machine of those that ship: {}. It was measured on {machine}, on {date}; \
         `perigee predict calibrate` measures this machine.",
        shipped.name,
        machine::near(&here, &machine),
    );
    Ok((shipped.profile(), note))
}
