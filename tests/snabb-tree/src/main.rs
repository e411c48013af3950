// SPDX-License-Identifier: MIT
//! `./x test snabb-tree`: a tree of Snabb's as a guest, beside Snabb itself if there is a binary.
//!
//! The tree is copied; in the copy, `snabb` is a script that calls perigee, so that the tree's own tests run as they
//! are. Checks run one after another in namespaces of their own.

mod checks;
mod page;
mod run;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the selftests of all modules of a Snabb tree, and programs of it, by perigee.
///
/// Ends with 1 if something fails here that passes on Snabb (or, without --snabb, anything), and with 2 if it could not
/// run.
#[derive(Parser)]
#[command(name = "./x test snabb-tree", max_term_width = 110)]
struct Arguments {
    /// A checkout of snabbco/snabb
    #[arg(long, env = "SNABB_TREE", value_name = "FOLDER")]
    tree: Option<PathBuf>,
    /// Its commit and date, for the table, if the tree is no checkout of git's
    #[arg(long, value_name = "TEXT")]
    commit: Option<String>,
    /// A built Snabb, which runs the same
    #[arg(long, env = "SNABB", value_name = "BINARY")]
    snabb: Option<PathBuf>,
    /// Only checks with this in their name
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Seconds that a check may take
    #[arg(long, default_value_t = 300)]
    patience: u64,
    /// Print what checks that fail have said
    #[arg(long, short)]
    verbose: bool,
    /// Print an array of {"kind", "name", "perigee", "snabb", "why"} and nothing else
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Write the table to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/snabb-tree.md", conflicts_with = "only")]
    write: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(code) = run::inside() {
        return code;
    }
    match work(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("snabb-tree: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn work(arguments: &Arguments) -> Result<ExitCode> {
    let Some(tree) = &arguments.tree else {
        println!("skipped: there is no tree of Snabb's; SNABB_TREE=FOLDER or --tree FOLDER says where one is");
        return Ok(ExitCode::SUCCESS);
    };
    // Its root, or the `src` in it.
    let root = if tree.ends_with("src") { tree.join("..") } else { tree.clone() };
    let root = root.canonicalize().with_context(|| format!("{} is no folder", tree.display()))?;
    ensure!(root.join("src/core/app.lua").is_file(), "{}: expected a checkout of snabbco/snabb", tree.display());
    let mut all = checks::all(&root.join("src"))?;
    all.retain(|check| arguments.only.is_empty() || arguments.only.iter().any(|text| check.name.contains(text)));
    ensure!(!all.is_empty(), "no check has that in its name");
    let snabb = arguments.snabb.as_ref().map(|binary| binary.canonicalize()).transpose();
    let request = run::Request {
        perigee: perigee_lab::program()?,
        snabb: snabb.context("--snabb: there is no such file")?,
        commit: arguments.commit.clone().unwrap_or_else(|| page::commit(&root)),
        tree: root,
        checks: all,
        patience: arguments.patience,
    };
    let outcomes = run::run(&request, |outcome| {
        if !arguments.json {
            println!("{}", page::line(outcome));
            let both = [Some(&outcome.perigee), outcome.snabb.as_ref()];
            for ran in both.into_iter().flatten().filter(|ran| arguments.verbose && ran.is_bad()) {
                println!("{}", ran.said);
            }
        }
    })?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&outcomes.iter().map(page::entry).collect::<Vec<_>>())?);
    } else {
        print!("{}", page::summary(&outcomes));
    }
    if let Some(file) = &arguments.write {
        std::fs::write(file, page::document(&request, &outcomes)).with_context(|| format!("{}", file.display()))?;
    }
    let worse = outcomes.iter().filter(|outcome| outcome.is_worse()).count();
    Ok(ExitCode::from(u8::from(worse > 0)))
}
