// SPDX-License-Identifier: MIT
//! Programs that run on both runtimes, in turn, inside namespaces of their own; without a Snabb on perigee alone.

use super::SnabbBenchArgs;
use super::runtime::{Kind, Runtime};
use super::turns::{Bed, Case};
use crate::isolated;
use crate::machine::{self, Hugepages, Interrupts};
use anyhow::{Context as _, Result, bail, ensure};
use indicatif::ProgressBar;
use perigee_lab::{World, isolation, tools};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The file that the inside leaves in the folder.
const RESULTS: &str = "results.json";
/// The way out for users who may not make namespaces.
const SUDO: &str = "sudo ./x bench snabb";
/// Hugepages of 2 MB that are free when Snabb starts, unless --hugepages says otherwise. It makes more by itself.
const HUGEPAGES: u64 = 256;
/// The names of rows, as in --rows.
pub const ROWS: [&str; 6] = ["chains", "basic1", "lwaftr", "packetblaster", "forward", "start"];
/// What forwarding may be done by: an app of forward.lua, and what stands before the interface's name in its argument.
/// The fastest counts.
const WAYS: [(Kind, &[&str]); 2] = [(Kind::Perigee, &["raw", "port", "port xdp:"]), (Kind::Snabb, &["raw", "xdp"])];
/// How often each of them is tried.
const TRIALS: usize = 2;

/// What became of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    pub case: Case,
    /// Per pair of turns. Infinite numbers do not survive JSON, so medians are made by whoever reads this.
    pub perigee: Vec<f64>,
    /// As many, or none.
    pub snabb: Vec<f64>,
    /// Why there are none of perigee's; of Snabb's.
    pub error: Option<String>,
    pub snabb_error: Option<String>,
    /// What forwarding was done by, and what all ways did in the trials.
    pub way: String,
    pub snabb_way: String,
    pub trials: Vec<Trial>,
}

/// A way to forward, tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trial {
    pub of_snabb: bool,
    pub way: String,
    /// Millions of packets per second of CPU time, or why not.
    pub mpps: std::result::Result<f64, String>,
}

impl Outcome {
    fn new(case: Case) -> Outcome {
        Outcome {
            case,
            perigee: Vec::new(),
            snabb: Vec::new(),
            error: None,
            snabb_error: None,
            way: String::new(),
            snabb_way: String::new(),
            trials: Vec::new(),
        }
    }

    fn has_failed(&mut self, kind: Kind, why: &anyhow::Error) {
        let why = Some(format!("{why:#}").lines().next().unwrap_or_default().to_owned());
        match kind {
            Kind::Perigee => self.error = why,
            Kind::Snabb => self.snabb_error = why,
        }
    }

    fn goes_on(&self, kind: Kind) -> bool {
        self.error.is_none() && (kind == Kind::Perigee || self.snabb_error.is_none())
    }
}

/// The `src` of the tree that was named, or of the one that the binary lies in.
pub fn tree(args: &SnabbBenchArgs) -> Result<Option<PathBuf>> {
    let is_tree = |folder: &Path| folder.join("core/app.lua").is_file() && folder.join("apps").is_dir();
    if let Some(named) = &args.tree {
        let found = [named.clone(), named.join("src")].into_iter().find(|folder| is_tree(folder));
        let Some(found) = found else {
            bail!(
                "--tree: {} is no checkout of snabbco/snabb: expected core/app.lua in it or in its src",
                named.display()
            )
        };
        return Ok(Some(found.canonicalize()?));
    }
    let Some(binary) = &args.snabb else { return Ok(None) };
    let binary = binary.canonicalize().with_context(|| format!("--snabb: {}", binary.display()))?;
    Ok(binary.parent().filter(|folder| is_tree(folder)).map(Path::to_owned))
}

/// The cases of the rows that were asked for, and the rows that cannot be measured, each with its reason.
pub fn cases(args: &SnabbBenchArgs, tree: bool) -> Result<(Vec<Case>, Vec<String>)> {
    let (mut cases, mut left_out) = (Vec::new(), Vec::new());
    for row in &args.rows {
        let of_row = match row.as_str() {
            // On its own, `perigee snabb bench` measures the same with more detail.
            "chains" if args.snabb.is_none() => Vec::new(),
            "chains" => args.apps.iter().map(|apps| Case::Chain(*apps)).collect(),
            "basic1" => vec![Case::Basic1],
            "lwaftr" => vec![Case::Lwaftr],
            "packetblaster" => vec![Case::Packetblaster],
            "forward" => vec![Case::Forward],
            "start" => vec![Case::Start],
            "none" => Vec::new(),
            other => bail!("--rows: found {other:?}, expected some of {}, or none", ROWS.join(", ")),
        };
        if !tree && of_row.iter().any(Case::needs_tree) {
            left_out.push(format!("{row}: it is a program of a Snabb tree; --tree FOLDER says where one is"));
        } else {
            cases.extend(of_row);
        }
    }
    Ok((cases, left_out))
}

/// Outcomes of all cases, measured inside namespaces.
pub fn outside(args: &SnabbBenchArgs) -> Result<Vec<Outcome>> {
    let path = tools::search_path();
    tools::require(&[tools::IP, tools::UNSHARE, tools::MOUNT, tools::TASKSET], &path, "the benchmark")?;
    let isolation = isolation::isolation(&path, SUDO)?;
    let root = rustix::process::geteuid().is_root();
    ensure!(args.snabb.is_none() || root, "--snabb: Snabb itself runs as root only: {SUDO} --snabb ...");
    let mut interrupts = Interrupts::new()?;
    // Given back at the end, with those that Snabb has made.
    let wanted = args.hugepages.or(args.snabb.as_ref().map(|_| HUGEPAGES));
    let hugepages = Hugepages::reserve(wanted, 0)?;
    let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir_in("/tmp")?;
    let good = isolated::run(isolation, folder.path(), &path, &mut interrupts)?;
    drop(hugepages);
    ensure!(good, "the programs could not be run; the message is above");
    Ok(serde_json::from_slice(&fs::read(folder.path().join(RESULTS))?)?)
}

/// The process inside.
pub fn inside(args: &SnabbBenchArgs, folder: &Path) -> Result<()> {
    isolation::end_with_input(folder)?;
    let world = isolated::world(folder)?;
    for_xdp(&world);
    let (core, tree) = (machine::core(args.core)?, tree(args)?);
    let runtime = |kind, program: &Path| -> Result<Runtime> {
        let program = program.canonicalize().with_context(|| format!("{}", program.display()))?;
        Ok(Runtime { kind, program, tree: tree.clone(), core })
    };
    let perigee = runtime(Kind::Perigee, &perigee_lab::program()?)?;
    let snabb = args.snabb.as_ref().map(|program| runtime(Kind::Snabb, program)).transpose()?;
    let runtimes: Vec<Runtime> = std::iter::once(perigee).chain(snabb).collect();
    let bed = Bed::new(&world, tree.as_deref(), args.turn_seconds, args.bytes, args.basic1)?;
    let (cases, _) = cases(args, tree.is_some())?;
    let outcomes = measure(&bed, &runtimes, cases, args.turns)?;
    fs::write(folder.join(RESULTS), serde_json::to_vec(&outcomes)?)?;
    Ok(())
}

/// What XDP needs: interfaces in /sys, a place for programs, memory that may be locked. Where it is refused, there is
/// no XDP.
fn for_xdp(world: &World) {
    let _ = world.own_sys();
    let _ = mount("bpf", "/sys/fs/bpf", "bpf", MountFlags::empty(), None);
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
}

fn measure(bed: &Bed, runtimes: &[Runtime], cases: Vec<Case>, turns: usize) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = cases.into_iter().map(Outcome::new).collect();
    let bar = ProgressBar::new((turns * outcomes.len()) as u64).with_message("in turn");
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.case == Case::Forward) {
        choose_ways(bed, runtimes, outcome);
    }
    for pair in 0..turns {
        for outcome in &mut outcomes {
            both(bed, runtimes, outcome, pair);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(outcomes)
}

/// A turn of each; who goes first alternates, as the machine changes meanwhile.
fn both(bed: &Bed, runtimes: &[Runtime], outcome: &mut Outcome, pair: usize) {
    let mut rates = [None, None];
    for turn in 0..runtimes.len() {
        let at = (pair + turn) % runtimes.len();
        let kind = runtimes[at].kind;
        if !outcome.goes_on(kind) {
            continue;
        }
        let way = if kind == Kind::Perigee { &outcome.way } else { &outcome.snabb_way };
        match bed.turn(&runtimes[at], &outcome.case, way) {
            Ok(rate) => rates[usize::from(kind == Kind::Snabb)] = Some(rate),
            Err(why) => outcome.has_failed(kind, &why),
        }
    }
    match rates {
        [Some(perigee), Some(snabb)] => {
            outcome.perigee.push(perigee);
            outcome.snabb.push(snabb);
        }
        [Some(perigee), None] => outcome.perigee.push(perigee),
        _ => {}
    }
    if outcome.snabb.len() < outcome.perigee.len() {
        outcome.snabb.clear(); // it has failed, and pairs are what counts
    }
}

/// Tries all ways of each runtime; the fastest one is measured.
fn choose_ways(bed: &Bed, runtimes: &[Runtime], outcome: &mut Outcome) {
    for runtime in runtimes {
        let ways = WAYS.iter().find(|(kind, _)| *kind == runtime.kind).map_or(&[][..], |(_, ways)| ways);
        let mut trials: Vec<Trial> = Vec::new();
        for way in ways {
            let tried: Result<Vec<f64>> = (0..TRIALS).map(|_| bed.turn(runtime, &Case::Forward, way)).collect();
            let best = tried.map(|rates| rates.into_iter().fold(0.0, f64::max));
            let mpps = best.map_err(|why| format!("{why:#}").lines().next().unwrap_or_default().to_owned());
            trials.push(Trial { of_snabb: runtime.kind == Kind::Snabb, way: (*way).to_owned(), mpps });
        }
        let rate = |trial: &Trial| trial.mpps.clone().unwrap_or(0.0);
        let best = trials.iter().filter(|trial| trial.mpps.is_ok()).max_by(|a, b| rate(a).total_cmp(&rate(b)));
        match (best, runtime.kind) {
            (Some(best), Kind::Perigee) => outcome.way = best.way.clone(),
            (Some(best), Kind::Snabb) => outcome.snabb_way = best.way.clone(),
            (None, kind) => {
                let why = trials.iter().find_map(|trial| trial.mpps.clone().err()).unwrap_or_default();
                outcome.has_failed(kind, &anyhow::Error::msg(why));
            }
        }
        outcome.trials.extend(trials);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: SnabbBenchArgs,
    }

    fn args(words: &[&str]) -> SnabbBenchArgs {
        Command::parse_from([&["bench"], words].concat()).args
    }

    #[test]
    fn rows_that_need_a_tree_are_left_out_with_a_reason() {
        let all = args(&["--snabb", "/bin/snabb", "--apps", "1,20"]);
        let (with, none) = cases(&all, true).unwrap();
        assert_eq!(with.len(), 7);
        assert!(with[..2] == [Case::Chain(1), Case::Chain(20)] && none.is_empty());
        let (without, left_out) = cases(&all, false).unwrap();
        assert_eq!(without, [Case::Chain(1), Case::Chain(20), Case::Forward, Case::Start]);
        assert!(left_out.len() == 3 && left_out[0].starts_with("basic1: ") && left_out[0].contains("--tree"));
        assert!(cases(&args(&["--rows", "start,x"]), true).unwrap_err().to_string().contains("\"x\""));
        assert!(cases(&args(&["--rows", "none"]), true).unwrap().0.is_empty());
    }

    #[test]
    fn the_tree_is_the_folder_of_the_binary_if_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().canonicalize().unwrap().join("src");
        fs::create_dir_all(src.join("core")).unwrap();
        fs::write(src.join("snabb"), "").unwrap();
        let binary = src.join("snabb").display().to_string();
        let named = args(&["--snabb", &binary]);
        // SNABB_TREE may be set where the tests run.
        let found = |args: &SnabbBenchArgs| tree(&SnabbBenchArgs { tree: None, ..args.clone() }).unwrap();
        assert_eq!(found(&named), None);
        fs::create_dir(src.join("apps")).unwrap();
        fs::write(src.join("core/app.lua"), "").unwrap();
        assert_eq!(found(&named), Some(src.clone()));
        let at = |folder: &Path| tree(&SnabbBenchArgs { tree: Some(folder.to_owned()), ..named.clone() });
        assert_eq!(at(folder.path()).unwrap(), Some(src.clone()));
        assert_eq!(at(&src).unwrap(), Some(src.clone()));
        assert!(at(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn a_failure_of_the_rival_leaves_the_rest() {
        let mut outcome = Outcome::new(Case::Start);
        assert!(outcome.goes_on(Kind::Snabb));
        outcome.has_failed(Kind::Snabb, &anyhow::anyhow!("one line\nmore"));
        assert_eq!(outcome.snabb_error.as_deref(), Some("one line"));
        assert!(outcome.goes_on(Kind::Perigee) && !outcome.goes_on(Kind::Snabb));
        outcome.has_failed(Kind::Perigee, &anyhow::anyhow!("bad"));
        assert!(!outcome.goes_on(Kind::Perigee));
    }
}
