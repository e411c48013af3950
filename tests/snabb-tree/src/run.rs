// SPDX-License-Identifier: MIT
//! Runs checks: this program starts itself again inside new namespaces, with a copy of the tree for each runtime. Each
//! check has namespaces of its own there, for its interfaces, its processes and `/run`: what it leaves ends with it.

use crate::checks::{Check, Kind};
use anyhow::{Context as _, Result, ensure};
use perigee_lab::{Process, isolation, tools};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The variable that gives the folder to the process inside.
const INSIDE: &str = "PERIGEE_SNABB_TREE";
/// To users who may not make namespaces.
const SUDO: &str = "sudo ./x test snabb-tree";
/// A selftest's way to say that it cannot run, and a script's.
const SKIPPED: [i32; 2] = [43, 77];
/// Where both keep their shared memory: tests of the tree look there.
const SHARED: &str = "/run/snabb";
/// Prepares the namespaces of a check, and runs it. (Its bash is not their first process, whose end would be the
/// others' by SIGKILL before they have said what they have to say.)
const ALONE: &str = "mount -t tmpfs tmpfs /run && mkdir /run/netns /run/snabb && ip link set lo up
    status=0; bash -euo pipefail \"$1\" || status=$?; exit $status";
/// Selftests that chance decides: those that compare clocks, or count in a time, exactly, fail when another process
/// interrupts them, on Snabb as here; `lib.yang.data` compares texts in the order of `pairs`, which LuaJIT, unlike
/// RaptorJIT, changes from run to run. The best of a few is what counts.
const CHANCE: [&str; 3] = ["lib.token_bucket", "lib.tsc", "lib.yang.data"];
const TRIES: usize = 8;
/// The most of what a check says that is kept.
const KEPT: usize = 20_000;

/// What is to be run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub perigee: PathBuf,
    /// A built Snabb.
    pub snabb: Option<PathBuf>,
    /// The root of the checkout, and its commit.
    pub tree: PathBuf,
    pub commit: String,
    pub checks: Vec<Check>,
    /// Seconds.
    pub patience: u64,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Pass,
    Fail,
    Skip,
}

/// How a check ended on a runtime, and what it said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    pub verdict: Verdict,
    pub said: String,
}

impl Ran {
    /// Whether it failed.
    pub fn is_bad(&self) -> bool {
        self.verdict == Verdict::Fail
    }
}

/// How a check ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub kind: Kind,
    pub name: String,
    pub perigee: Ran,
    pub snabb: Option<Ran>,
}

impl Outcome {
    /// Whether it fails here and not on Snabb.
    pub fn is_worse(&self) -> bool {
        self.perigee.is_bad() && self.snabb.as_ref().is_none_or(|snabb| snabb.verdict == Verdict::Pass)
    }
}

/// Runs the checks; `each` is called for every outcome as soon as it is known.
///
/// # Errors
/// Namespaces are refused, a program is missing, or the inside ends early.
pub fn run(request: &Request, mut each: impl FnMut(&Outcome)) -> Result<Vec<Outcome>> {
    let path = tools::search_path();
    tools::require(&[tools::IP, tools::UNSHARE, tools::NSENTER, tools::MOUNT], &path, "the tree's tests")?;
    tools::require_tun(SUDO)?;
    let _pages = HugePages::now();
    let folder = tempfile::Builder::new().prefix("perigee-snabb-tree-").tempdir_in("/tmp")?;
    fs::write(folder.path().join("request.json"), serde_json::to_vec(request)?)?;
    let mut command = isolation::inside(isolation::isolation(&path, SUDO)?, folder.path(), &path)?;
    command.env(INSIDE, folder.path()).stdout(Stdio::piped());
    let mut child = command.spawn().context("unshare cannot be run")?;
    let out = child.stdout.take().context("what the inside prints cannot be read")?;
    let mut outcomes = Vec::new();
    for line in BufReader::new(out).lines() {
        let outcome: Outcome = serde_json::from_str(&line?).context("a line from the inside cannot be read")?;
        each(&outcome);
        outcomes.push(outcome);
    }
    let status = child.wait()?;
    ensure!(status.success(), "the inside of the namespaces ended with {status}; its message is above");
    Ok(outcomes)
}

/// How many huge pages the machine has: Snabb, run by root, adds to them, and they would stay.
struct HugePages(Option<String>);

impl HugePages {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    fn now() -> HugePages {
        HugePages(fs::read_to_string(HugePages::FILE).ok())
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(before) = &self.0
            && fs::read_to_string(HugePages::FILE).is_ok_and(|now| now != *before)
        {
            let _ = fs::write(HugePages::FILE, before);
        }
    }
}

/// If this process is the one inside, runs what was asked for and returns its exit code.
pub fn inside() -> Option<ExitCode> {
    let folder = PathBuf::from(std::env::var_os(INSIDE)?);
    Some(match all(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("snabb-tree: {error:#}");
            ExitCode::FAILURE
        }
    })
}

fn all(folder: &Path) -> Result<()> {
    isolation::end_with_input(folder)?;
    let request: Request = serde_json::from_slice(&fs::read(folder.join("request.json"))?)?;
    let _world = perigee_lab::World::enter(folder)?;
    // That of our own processes: Snabb looks its workers up in it.
    let mounted = Command::new("mount").args(["-t", "proc", "proc", "/proc"]).status()?;
    ensure!(mounted.success(), "/proc cannot be mounted");
    let perigee = Runtime::new(folder, "perigee", &request.tree, |at| {
        let program = request.perigee.display();
        let text = format!(
            "#!/bin/sh\nexec {program} snabb --memory 1500 --tree {} \"$@\"\n",
            at.parent().unwrap_or(at).display()
        );
        fs::write(at, text)?;
        fs::set_permissions(at, fs::Permissions::from_mode(0o755))
    })?;
    let snabb = request.snabb.as_ref();
    let snabb =
        snabb.map(|binary| Runtime::new(folder, "snabb", &request.tree, |at| symlink(binary, at))).transpose()?;
    let mut out = std::io::stdout();
    for check in &request.checks {
        let run = |runtime: &Runtime| runtime.best(check, request.patience);
        let (kind, name) = (check.kind, check.name.clone());
        let outcome = Outcome { kind, name, perigee: run(&perigee)?, snabb: snabb.as_ref().map(run).transpose()? };
        writeln!(out, "{}", serde_json::to_string(&outcome)?)?;
    }
    Ok(())
}

/// A copy of the tree, in which `src/snabb` is a runtime.
struct Runtime {
    folder: PathBuf,
}

impl Runtime {
    fn new(folder: &Path, name: &str, tree: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<Runtime> {
        let folder = folder.join(name);
        let copied = Command::new("cp").arg("-r").arg("--no-preserve=ownership").arg(tree).arg(&folder).status()?;
        ensure!(copied.success(), "the tree cannot be copied to {}", folder.display());
        let program = folder.join("src/snabb");
        let _ = fs::remove_file(&program); // built already, maybe
        make(&program).with_context(|| format!("{} cannot be made", program.display()))?;
        Ok(Runtime { folder })
    }

    /// Runs a check, several times if it is one of [`CHANCE`].
    fn best(&self, check: &Check, patience: u64) -> Result<Ran> {
        let tries = if CHANCE.contains(&check.name.as_str()) { TRIES } else { 1 };
        let mut ran = self.run(check, patience)?;
        for _ in 1..tries {
            if !ran.is_bad() {
                break;
            }
            ran = self.run(check, patience)?;
        }
        Ok(ran)
    }

    /// Runs a check in `src`, with a folder of its own in WORK.
    fn run(&self, check: &Check, patience: u64) -> Result<Ran> {
        let work = self.folder.join("work");
        let _ = fs::remove_dir_all(&work); // the check's before
        fs::create_dir(&work)?;
        let tree = self.folder.join("src");
        let script = work.join(".check");
        fs::write(&script, &check.script)?;
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", &patience.to_string()]);
        command.args(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["bash", "-euo", "pipefail", "-c", ALONE, "bash"]).arg(script);
        command.current_dir(&tree).env("WORK", &work).env("SNABB", tree.join("snabb")).env_remove("SNABB_TREE");
        command.env("SNABB_SHM_ROOT", SHARED).env_remove(INSIDE).process_group(0);
        let mut process = Process::start(&mut command)?;
        let status = process.wait(Duration::from_secs(patience + 10))?;
        let mut said = process.said();
        if said.len() > KEPT {
            let from = (said.len() - KEPT..said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(said.len());
            said = said.split_off(from);
        }
        let verdict = match status.code() {
            Some(0) => Verdict::Pass,
            Some(code) if SKIPPED.contains(&code) => Verdict::Skip,
            code => {
                said += &format!("\n{}", code.map_or_else(|| status.to_string(), |code| format!("exit code {code}")));
                Verdict::Fail
            }
        };
        Ok(Ran { verdict, said })
    }
}
