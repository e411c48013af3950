// SPDX-License-Identifier: MIT
//! `./x conformance`: the command line of the scoreboard.

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use perigee_conformance::board;
use perigee_conformance::page::{self, Results};
use perigee_conformance::rows::{ROWS, selected};
use perigee_conformance::run::{self, Outcome, Report, Request, Verdict};
use perigee_conformance::target::Target;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the rows of two lists of what RFCs demand of a router, packets in and packets out, in namespaces of its own.
///
/// Ends with 1 if a row that a must or a should demands fails for perigee, and with 2 if it could not run.
#[derive(Parser)]
#[command(name = "./x conformance", max_term_width = 110, after_long_help = COMMANDS)]
struct Arguments {
    /// The router: perigee, linux (the kernel of the namespace), or a command line
    #[arg(long, default_value = "perigee", value_name = "perigee|linux|COMMAND")]
    target: String,
    /// The driver of perigee's ports: packet, xdp (as root), dpdk:af_packet, or dpdk:af_xdp (as root)
    #[arg(long, default_value = "packet")]
    driver: String,
    /// What forwards in perigee: worker, or xdp (as root), the in-kernel plane, whose ports have the driver xdp
    #[arg(long, default_value = "worker", conflicts_with = "driver")]
    plane: String,
    /// Threads of perigee's slow path
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    slow_paths: u16,
    /// Only these rows: one by its name (ipv4/37), or all with the text in their name, section or sentence
    #[arg(long, value_name = "ROW|TEXT")]
    row: Vec<String>,
    /// Links of the router; with 2 there is no third one
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    links: u8,
    /// Print an array of {"family", "row", "section", "level", "result"} and nothing else
    #[arg(long)]
    json: bool,
    /// Write what rows that fail have sent and received to DIR/ROW-WORLD.LINK.pcap
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// List the frames of rows that fail
    #[arg(long, short)]
    verbose: bool,
    /// Run all rows for perigee and for Linux, and write docs/conformance.md
    #[arg(long, conflicts_with_all = ["target", "row", "json", "driver", "plane", "slow_paths", "links"])]
    write: bool,
    /// Print all rows instead of running them; those whose judgement was compared with the RFC's text have a star
    #[arg(long)]
    list: bool,
}

const COMMANDS: &str = "\
Commands as routers:
  `--target COMMAND` runs COMMAND by `sh -c` in a network namespace, once for each world of rows, with veth interfaces that are up and
  have no addresses. It is to configure itself as its environment says and to forward, until it is ended by SIGTERM; or it configures
  something that goes on forwarding, and ends with 0.

  PERIGEE_LEFT, PERIGEE_RIGHT, PERIGEE_THIRD    the interfaces
  ..._ADDRESSES                                 its addresses there, with prefix lengths, separated by spaces
  ..._MTU                                       the link's MTU: of the right one 1400, of others 1500
  ..._PEER                                      the MAC address of the station at the other end
  PERIGEE_ROUTES                                static routes, one a line: PREFIX via GATEWAY dev INTERFACE
  PERIGEE_SETTINGS                              words: limited (few ICMP errors a second; otherwise no limit), urpf=strict, urpf=loose (on
                                                the left), source-routes (follow them)
  PERIGEE_WORLD                                 the world's name

  It ends with 77 if it cannot do what PERIGEE_SETTINGS says: these rows are then n.a.";

fn main() -> ExitCode {
    if let Some(code) = run::inside() {
        return code;
    }
    match work(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn work(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.write {
        return write();
    }
    let rows = rows(&arguments.row)?;
    if arguments.list {
        for row in rows {
            let row = &ROWS[row];
            let read = if row.read { '*' } else { ' ' };
            println!("{:8} {:3} {read} {:36}  {}", row.name(), row.level, row.section, row.sentence);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let captures = arguments.pcap.as_ref().map(std::path::absolute).transpose()?;
    let (links, verbose) = (arguments.links.into(), arguments.verbose && !arguments.json);
    let request = Request {
        target: target(&arguments.target, &opened(arguments), arguments.slow_paths)?,
        rows,
        links,
        verbose,
        captures,
    };
    let report = watched(&request)?;
    if arguments.json {
        println!("{}", board::json(&report.outcomes)?);
    } else {
        print!("{}", board::text(&report.outcomes));
    }
    for trouble in &report.trouble {
        eprintln!("conformance: {trouble}");
    }
    let is_perigee = matches!(request.target, Target::Perigee { .. });
    let bad = is_perigee && (board::is_bad(&report.outcomes) || !report.trouble.is_empty());
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// How perigee's ports are opened, as a line of its configuration.
fn opened(arguments: &Arguments) -> String {
    match arguments.plane.as_str() {
        "worker" => format!("driver = \"{}\"", arguments.driver),
        plane => format!("plane = \"{plane}\""),
    }
}

fn target(name: &str, opened: &str, slow_paths: u16) -> Result<Target> {
    Ok(match name {
        "perigee" => Target::Perigee { program: perigee_lab::program()?, opened: opened.to_owned(), slow_paths },
        "linux" => Target::Linux,
        "" => bail!("found an empty --target, expected perigee, linux or a command line"),
        line => Target::Command(line.to_owned()),
    })
}

fn rows(texts: &[String]) -> Result<Vec<usize>> {
    let mut rows: Vec<usize> = if texts.is_empty() { (0..ROWS.len()).collect() } else { Vec::new() };
    for text in texts {
        let found = selected(text);
        ensure!(!found.is_empty(), "found no row for {text:?}; --list prints all");
        rows.extend(found);
    }
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}

/// Runs a request; a terminal sees how far it is.
fn watched(request: &Request) -> Result<Report> {
    let (all, mut done, mut failed) = (request.rows.len(), 0, 0);
    let terminal = std::io::stderr().is_terminal();
    let each = |outcome: &Outcome| {
        done += 1;
        failed += usize::from(outcome.verdict == Verdict::Fail);
        if terminal {
            let (name, what) =
                (request.target.name(), if failed > 0 { format!(", {failed} failed") } else { String::new() });
            eprint!("\r{name}: {done} of {all} rows{what} ");
            let _ = std::io::stderr().flush(); // it is only to be looked at
        }
    };
    let report = run::run(request, each);
    if terminal {
        eprint!("\r\x1b[K");
    }
    report
}

fn write() -> Result<ExitCode> {
    let rows: Vec<usize> = (0..ROWS.len()).collect();
    let (links, verbose, captures) = (3, false, None);
    let mut cells = vec![[String::new(), String::new()]; ROWS.len()];
    for (column, name) in ["perigee", "linux"].into_iter().enumerate() {
        let target = target(name, "packet", 1)?;
        let report = watched(&Request { target, rows: rows.clone(), links, verbose, captures: captures.clone() })?;
        println!("{name}\n{}", board::totals(&report.outcomes));
        for outcome in &report.outcomes {
            cells[outcome.row][column] = page::cell(outcome);
        }
    }
    let output = |program: &mut std::process::Command| -> Result<String> {
        let text = program.output().with_context(|| format!("{program:?} cannot be run"))?.stdout;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    };
    let version = output(std::process::Command::new(perigee_lab::program()?).arg("--version"))?;
    let date = output(std::process::Command::new("date").args(["-u", "+%F"]))?;
    // 6.18.44-name-5 is 6.18.44: the rest names a machine.
    let release = output(std::process::Command::new("uname").arg("-r"))?;
    let kernel = release.split('-').next().unwrap_or_default();
    let made = page::made(&version, kernel, &date);
    let path = page::path();
    std::fs::write(&path, page::render(&Results { made, rows: cells }))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    println!("docs/conformance.md is written");
    Ok(ExitCode::SUCCESS)
}
