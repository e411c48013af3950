// SPDX-License-Identifier: MIT
//! `./x evaluate`: the published evaluations that perigee descends from, repeated on this machine.
//!
//! ```text
//! figures.rs   all figures, by name: question, method, what was published, how it is measured
//!     | each in a folder of its own: data, raw samples, drawing, outcome      store.rs: what is there is not measured again
//! page.rs      one page of all that is there
//! redraw.rs    pictures again, from data that are there
//! verdicts.rs  from the samples: what agrees, what differs, what they do not tell
//! ```
//!
//! A figure that cannot be measured here is left out with one line why and what to do; the others go on.

mod benches;
mod changes;
mod child;
mod figures;
mod layout;
mod lookups;
mod moonroute;
mod mswitch;
mod ns3;
mod outcome;
mod page;
mod published;
mod redraw;
mod rivals;
mod schemes;
mod simulated;
mod snabb;
mod stand;
mod store;
mod verdicts;

use crate::machine::{Hugepages, Interrupts, Machine};
use anyhow::{Context as _, Result, bail, ensure};
pub use child::{NAME as CHILD, RigArgs, serve as serve_rig};
use clap::Args;
use clap::builder::PossibleValuesParser;
use figures::{FIGURES, Figure};
use outcome::Outcome;
use perigee_fib::structures;
use perigee_predict::profile::MAX_CORES;
use perigee_rig::Cores;
use stand::Stand;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use store::Store;

/// Arguments of `./x evaluate`.
#[derive(Args, Clone)]
pub struct EvaluateArgs {
    /// Only these figures
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Fewer points and rounds: a quarter of an hour instead of hours
    #[arg(long)]
    quick: bool,
    /// The folder of results; what is there of this machine is not measured again
    #[arg(long, value_name = "DIR", default_value = "target/evaluate")]
    out: PathBuf,
    /// Measure again what is there
    #[arg(long)]
    again: bool,
    /// List the figures
    #[arg(long)]
    list: bool,
    /// Measure nothing: print the verdicts that the samples in a folder of results say, with their intervals
    #[arg(long, value_name = "DIR", conflicts_with_all = ["only", "quick", "again", "list"])]
    verdicts: Option<PathBuf>,
    /// Measure nothing: draw again the pictures whose axes have changed, and what was published beside what was
    /// measured, from the data in a folder of results with its page
    #[arg(long, value_name = "DIR", conflicts_with_all = ["only", "quick", "again", "list", "verdicts"])]
    redraw: Option<PathBuf>,
    /// A routing table for the figures with a real one: a prefix a line, plain or .gz
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Only this lookup structure, in moonroute-routes, -clock (the first one), -changes, mswitch-breakdown and
    /// -lookups (repeatable)
    #[arg(long = "structure", value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(structure_names()))]
    structures: Vec<String>,
    /// Only this scheme, in the figure `schemes` (repeatable)
    #[arg(long = "scheme", value_name = "NAME", value_delimiter = ',', value_parser = schemes::NAMES)]
    schemes: Vec<String>,
    /// Only this layout, in the figure `layout` (repeatable)
    #[arg(long = "layout", value_name = "NAME", value_delimiter = ',', value_parser = layout::NAMES)]
    layouts: Vec<String>,
    /// Reserve this many hugepages of 2 MB first, and give them back (root only)
    #[arg(long, value_name = "N")]
    hugepages: Option<u64>,
    /// Another program with DPDK beside perigee in moonroute-rivals, as `./x bench forward` takes it; may be repeated
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    peers: Vec<String>,
    /// A built Snabb, or its tree: perigee and Snabb take turns in snabb-chains (root only)
    #[arg(long, env = "SNABB", value_name = "PATH")]
    snabb: Option<PathBuf>,
}

fn structure_names() -> Vec<&'static str> {
    structures::IPV4.iter().map(|structure| structure.name).collect()
}

impl EvaluateArgs {
    /// What this figure is narrowed to, or measured with, in the command line's words.
    fn narrowed(&self, figure: &str) -> String {
        let mut words = Vec::new();
        let mut add = |flag: &str, values: &[String]| {
            words.extend(values.iter().map(|value| format!("--{flag} {value}")));
        };
        match figure {
            "schemes" => add("scheme", &self.schemes),
            "moonroute-rivals" => add("peer", &self.peers),
            "layout" => add("layout", &self.layouts),
            "moonroute-routes" | "moonroute-clock" | "moonroute-changes" | "mswitch-breakdown" | "mswitch-lookups" => {
                add("structure", &self.structures);
            }
            _ => {}
        }
        let with_routes =
            ["mswitch-breakdown", "mswitch-io-lookup", "moonroute-rivals", "moonroute-changes", "mswitch-lookups"];
        // Not where it is: the page may go to others.
        let file = |flag: &str, file: &PathBuf| format!("--{flag} {}", file.file_name().unwrap_or_default().display());
        words.extend(self.routes.iter().filter(|_| with_routes.contains(&figure)).map(|name| file("routes", name)));
        words.extend(self.snabb.iter().filter(|_| figure == "snabb-chains").map(|name| file("snabb", name)));
        words.join(" ")
    }
}

/// Runs it.
pub fn evaluate(args: &EvaluateArgs) -> Result<ExitCode> {
    if args.list {
        for figure in FIGURES {
            println!("{:<22} {}: {}", figure.name, figure.from, figure.title);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.verdicts {
        print!("{}", verdicts::markdown(&verdicts::all(folder)?));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.redraw {
        redraw::redraw(folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = wanted(&args.only)?;
    let store = Store::open(&args.out, &Machine::this(), args.quick)?;
    let cores = Cores::usable()?.list().len().min(MAX_CORES as usize);
    let _hugepages = Hugepages::reserve(args.hugepages, perigee_rig::memory_mb(cores) as u32)?;
    let mut stand = Stand::new(args.quick, Interrupts::new()?)?;
    (stand.routes, stand.peers, stand.snabb) = (args.routes.clone(), args.peers.clone(), args.snabb.clone());
    stand.structures.clone_from(&args.structures);
    stand.schemes.clone_from(&args.schemes);
    stand.layouts.clone_from(&args.layouts);
    for (number, figure) in (1..).zip(&wanted) {
        let narrowed = args.narrowed(figure.name);
        if !args.again && store.has(figure, &narrowed) {
            eprintln!("{} of {}: {} is there", number, wanted.len(), figure.name);
            continue;
        }
        eprintln!("{} of {}: {}, {}", number, wanted.len(), figure.name, figure.title);
        let begun = Instant::now();
        let outcome = (figure.measure)(&mut stand).unwrap_or_else(|error| Outcome::left_out(&format!("{error:#}")));
        let outcome = Outcome { partly: stand.partly, ..outcome };
        // At the end of a figure: its processes and files are gone then.
        if stand.interrupts.came() {
            return interrupted(&store, figure, &outcome, &narrowed, begun.elapsed());
        }
        if let Some(why) = &outcome.left_out {
            eprintln!("  left out: {why}");
        }
        store
            .keep(figure, &outcome, &narrowed, begun.elapsed())
            .with_context(|| format!("{} is not kept", figure.name))?;
    }
    let page = page::write(&store)?;
    println!("{}", page.display());
    Ok(ExitCode::SUCCESS)
}

/// Keeps a figure that is there in part, unless it is there as a whole. What an interrupt has left nothing of is not
/// kept.
fn interrupted(store: &Store, figure: &Figure, outcome: &Outcome, narrowed: &str, took: Duration) -> Result<ExitCode> {
    let kept = outcome.partly && outcome.left_out.is_none() && !store.has(figure, narrowed);
    if !kept {
        bail!("interrupted; the figures before {} are in {}", figure.name, store.folder.display());
    }
    store.keep(figure, outcome, narrowed, took).with_context(|| format!("{} is not kept", figure.name))?;
    let page = page::write(store)?;
    bail!("interrupted; {} has the rounds of {} that were measured by then", page.display(), figure.name)
}

/// The figures of these names; all, if there are none.
fn wanted(only: &[String]) -> Result<Vec<&'static Figure>> {
    for name in only {
        ensure!(
            FIGURES.iter().any(|figure| figure.name == name),
            "--only: found {name:?}, expected some of {}",
            FIGURES.iter().map(|figure| figure.name).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(FIGURES.iter().filter(|figure| only.is_empty() || only.iter().any(|name| name == figure.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use std::collections::HashSet;

    #[test]
    fn figures_have_names_of_their_own() {
        let names: HashSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
        assert_eq!(wanted(&[FIGURES[1].name.to_owned()]).unwrap().len(), 1);
        assert!(wanted(&["nonsense".to_owned()]).err().unwrap().to_string().contains(FIGURES[0].name));
    }

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: EvaluateArgs,
    }

    #[test]
    fn flags_narrow_the_figures_that_they_are_of() {
        let parse =
            |words: &[&str]| Command::try_parse_from([&["evaluate"], words].concat()).map(|command| command.args);
        let args =
            parse(&["--scheme", "masks", "--structure", "dxr20", "--structure", "auto", "--routes", "r.gz"]).unwrap();
        assert_eq!(args.narrowed("schemes"), "--scheme masks");
        assert_eq!(args.narrowed("mswitch-breakdown"), "--structure dxr20 --structure auto --routes r.gz");
        assert_eq!(
            (args.narrowed("mswitch-ports"), args.narrowed("mswitch-lookups")),
            ("".into(), "--structure dxr20 --structure auto --routes r.gz".into())
        );
        for wrong in [["--scheme", "none"], ["--structure", "none"], ["--layout", "none"]] {
            let error = parse(&wrong).err().unwrap().to_string();
            assert!(error.contains("possible values"), "{error}");
        }
    }
}
