// SPDX-License-Identifier: MIT
//! `perigee-fuzz`: the targets without libFuzzer, for `./x fuzz`.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use perigee_fuzz::filters;
use perigee_fuzz::flood::{self, Outcome};
use perigee_fuzz::hostile;
use perigee_fuzz::plane;
use perigee_fuzz::{TARGETS, target};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Fuzz targets without libFuzzer.
#[derive(Parser)]
#[command(name = "perigee-fuzz", bin_name = "./x fuzz", about, max_term_width = 100)]
enum Cli {
    #[command(flatten)]
    Command(Command),
}

#[derive(Subcommand)]
enum Command {
    /// The names of the targets, a line each, with the longest input in bytes
    List,
    /// Runs inputs once, such as those that were found to fail
    Replay {
        target: String,
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Sends mutated frames through the fast path of a whole router, and accounts for every one
    Frames {
        /// How many, such as 1e9
        #[arg(long, default_value = "1e7", value_parser = count)]
        frames: u64,
        /// What they follow from: the same seed, the same frames
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Threads that share the work; they change nothing about the result
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Sends frames that random filters deny, and looks for one that passes
    Filters {
        /// How many that are denied, such as 1e6
        #[arg(long, default_value = "1e6", value_parser = count)]
        frames: u64,
        /// What lists and frames follow from
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Sends mutated frames through the in-kernel plane and through the modules, as root: both do the same, or the plane
    /// leaves it to others
    Plane {
        /// How many, such as 1e6
        #[arg(long, default_value = "1e6", value_parser = count)]
        frames: u64,
        /// What they follow from
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Loads hostile scripts and C modules into a worker, and sends packets after each
    Hostile {
        /// How many, such as 1e4
        #[arg(long, default_value = "1e3", value_parser = count)]
        scripts: u64,
        /// What they follow from
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// The process that hostile scripts are loaded into
    #[command(hide = true)]
    Victim,
}

/// A number of frames, `1e9` or plain.
fn count(text: &str) -> Result<u64, String> {
    let number: f64 = text.parse().map_err(|_| format!("found {text}, expected a number such as 1e9"))?;
    if (1.0..=1e15).contains(&number) { Ok(number as u64) } else { Err(format!("found {text}, expected 1 to 1e15")) }
}

fn main() -> ExitCode {
    let Cli::Command(command) = Cli::parse();
    match command {
        Command::List => TARGETS.iter().for_each(|target| println!("{} {}", target.name, target.longest)),
        Command::Replay { target: name, files } => {
            let Some(target) = target(&name) else {
                eprintln!("found the target {name}, expected one of those that `./x fuzz list` names");
                return ExitCode::FAILURE;
            };
            for file in files {
                let bytes = match std::fs::read(&file) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        eprintln!("{}: {error}", file.display());
                        return ExitCode::FAILURE;
                    }
                };
                (target.run)(&bytes);
                println!("{}: {} bytes, nothing wrong", file.display(), bytes.len());
            }
        }
        Command::Frames { frames, seed, threads } => frames_run(frames, seed, threads.max(1)),
        Command::Filters { frames, seed } => filters_run(frames, seed),
        Command::Plane { frames, seed } => plane_run(frames, seed),
        Command::Hostile { scripts, seed } => hostile_run(scripts, seed),
        Command::Victim => hostile::child(),
    }
    ExitCode::SUCCESS
}

fn hostile_run(scripts: u64, seed: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = std::env::current_exe().expect("the path of this program");
    let child = || {
        let mut command = std::process::Command::new(&program);
        command.arg("victim");
        command
    };
    let (start, mut done) = (Instant::now(), 0);
    let outcome = hostile::run(scripts, seed, folder.path(), &child, || {
        done += 1;
        eprint!("\r{done} of {scripts} ");
        let _ = std::io::stderr().flush();
    });
    eprintln!();
    println!("seed {seed}: {scripts} scripts in {:.0} s", start.elapsed().as_secs_f64());
    outcome.ways.iter().for_each(|(way, times)| println!("{times:>8} {way}"));
    println!("{:>8} processes ended in order when they were asked to", outcome.orderly);
    let (forwards, ends) = outcome.longest;
    println!("packets were forwarded again within {forwards:.1?}, a process that ended did so within {ends:.1?}");
}

fn plane_run(frames: u64, seed: u64) {
    if let Err(error) = perigee_xdp::LoadedPlane::load(1 << 20) {
        eprintln!("perigee-fuzz plane: {error}");
        std::process::exit(1);
    }
    let (start, done) = (Instant::now(), AtomicU64::new(0));
    let seen = plane::run(frames, seed, |more| {
        let now = done.fetch_add(more, Ordering::Relaxed) + more;
        eprint!("\r{:5.1} % ", 100.0 * now as f64 / frames as f64);
        let _ = std::io::stderr().flush();
    });
    eprintln!();
    println!("seed {seed}: {frames} frames in {:.0} s; by what the modules do:", start.elapsed().as_secs_f64());
    for (what, plane::Times { all, left }) in seen {
        println!("{all:>10} {what}, of which the in-kernel plane has left {left} to others");
    }
}

fn filters_run(frames: u64, seed: u64) {
    let (start, done) = (Instant::now(), AtomicU64::new(0));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let filters::Outcome { lists, denied, hidden, passed } = filters::run(frames, seed, folder.path(), |more| {
        let now = done.fetch_add(more, Ordering::Relaxed) + more;
        eprint!("\r{:5.1} % ", 100.0 * now as f64 / frames as f64);
        let _ = std::io::stderr().flush();
    });
    eprintln!();
    println!("seed {seed}: {lists} lists of rules in {:.0} s", start.elapsed().as_secs_f64());
    println!("{denied} frames that their list denies, {hidden} of them without ports or protocol: none passed");
    println!("{passed} frames that their list lets pass: none was denied");
}

fn frames_run(frames: u64, seed: u64, threads: usize) {
    let (start, done) = (Instant::now(), AtomicU64::new(0));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let outcome = flood::run(frames, seed, threads, folder.path(), |more| {
        let now = done.fetch_add(more, Ordering::Relaxed) + more;
        eprint!(
            "\r{:5.1} %  {:.2} Mpps ",
            100.0 * now as f64 / frames as f64,
            now as f64 / 1e6 / start.elapsed().as_secs_f64()
        );
        let _ = std::io::stderr().flush();
    });
    eprintln!();
    print(&outcome, seed, start.elapsed().as_secs_f64());
}

fn print(outcome: &Outcome, seed: u64, seconds: f64) {
    let Outcome { frames, bytes, forwarded, slow, reasons, digest } = outcome;
    println!(
        "seed {seed}: {frames} frames of {bytes} bytes in {seconds:.0} s, {:.3} Mpps",
        *frames as f64 / 1e6 / seconds
    );
    println!("sent by the fast path {forwarded}, by the slow path {slow}; digest {digest:016x}");
    println!("every burst accounted for, every frame that was sent looked at, no buffer left");
    for (reason, packets) in reasons {
        println!("{packets:>12} {reason}");
    }
}
