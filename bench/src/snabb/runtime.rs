// SPDX-License-Identifier: MIT
//! The two that are compared, perigee and Snabb: how each runs a program, on the core that is measured on, and what the
//! kernel says about the process.

use anyhow::{Context as _, Result, bail, ensure};
use perigee_lab::Process;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Who runs the programs.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub kind: Kind,
    /// The binary.
    pub program: PathBuf,
    /// The folder `src` of a tree: for perigee, as Snabb has its own in the binary.
    pub tree: Option<PathBuf>,
    /// The core that it runs on.
    pub core: usize,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Perigee,
    Snabb,
}

impl Runtime {
    /// The command of a program of perigee's own library (or of Snabb's).
    pub fn command(&self, arguments: &[String]) -> Command {
        self.command_with(None, arguments)
    }

    /// The command of a program of the tree.
    pub fn of_tree(&self, arguments: &[String]) -> Command {
        self.command_with(self.tree.as_deref(), arguments)
    }

    fn command_with(&self, tree: Option<&Path>, arguments: &[String]) -> Command {
        // Both on the same core, with all that they start; the process keeps the number of the one that is started
        // here.
        let mut command = Command::new("taskset");
        command.args(["-c", &self.core.to_string()]).arg(&self.program);
        if self.kind == Kind::Perigee {
            command.arg("snabb");
            if let Some(tree) = tree {
                command.arg("--tree").arg(tree);
            }
        }
        // Nobody's settings but the one that perigee's Lua sources are developed with.
        for name in ["SNABB_TREE", "SNABB_SHM_ROOT", "SNABB_SHM_KEEP", "SNABB_DEBUG"] {
            command.env_remove(name);
        }
        command.args(arguments);
        command
    }
}

/// Runs a program to its end; returns what it printed. One that takes longer than `patience` is killed.
pub fn run(mut command: Command, patience: Duration) -> Result<String> {
    let mut process = Process::start(&mut command)?;
    let status = process.wait(patience)?;
    let said = process.said();
    ensure!(status.success(), "it ended with {status}: {}", complaint(&said));
    Ok(said)
}

/// The first line that looks like a complaint, or the last one.
pub fn complaint(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let bad = lines().find(|line| {
        let line = line.to_lowercase();
        ["error", "cannot", "can not", "could not", "failed", "not found", "permission", ".lua:"]
            .iter()
            .any(|word| line.contains(word))
    });
    bad.or(lines().next_back()).unwrap_or("it said nothing").to_owned()
}

/// Starts a program and waits for its first line on standard output; returns how many seconds that took.
pub fn first_line(mut command: Command) -> Result<(f64, String)> {
    let start = Instant::now();
    let mut child = Reaped(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let out = child.0.stdout.take().context("what it prints cannot be read")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let took = start.elapsed().as_secs_f64();
    ensure!(!line.is_empty(), "it ended without a line");
    Ok((took, line))
}

/// Killed when dropped.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

/// Seconds of CPU time that all threads of a process have had.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut ns = 0u64;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        // A thread may have ended meanwhile; what it had is lost to this sum.
        if let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) {
            ns += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    ensure!(ns > 0, "process {pid} has had no CPU time, says the kernel");
    Ok(ns as f64 / 1e9)
}

/// The process below this one, however deep, that has had most CPU time: in a tree of a manager and its workers the
/// worker that moves the packets.
pub fn busiest_below(pid: u32) -> Result<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_of(&stat) {
            parents.push((pid, parent));
        }
    }
    let mut below = vec![pid];
    let mut at = 0;
    while let Some(&parent) = below.get(at) {
        let children = parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid);
        below.extend(children.collect::<Vec<_>>());
        at += 1;
    }
    let busiest = below[1..].iter().filter_map(|pid| Some((*pid, cpu_seconds(*pid).ok()?)));
    match busiest.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        Some((pid, _)) => Ok(pid),
        None => bail!("it has started no process of its own"),
    }
}

/// The parent's number in a line of /proc/PID/stat; the name before it may have spaces and parentheses.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(kind: Kind) -> Runtime {
        Runtime { kind, program: "/bin/it".into(), tree: Some("/tree/src".into()), core: 3 }
    }

    fn words(command: &Command) -> String {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn both_run_the_same_program_on_the_same_core() {
        let arguments = ["snsh".to_owned(), "x.lua".to_owned()];
        let (perigee, snabb) = (runtime(Kind::Perigee), runtime(Kind::Snabb));
        assert_eq!(words(&perigee.command(&arguments)), "taskset -c 3 /bin/it snabb snsh x.lua");
        assert_eq!(words(&perigee.of_tree(&arguments)), "taskset -c 3 /bin/it snabb --tree /tree/src snsh x.lua");
        assert_eq!(words(&snabb.of_tree(&arguments)), "taskset -c 3 /bin/it snsh x.lua");
    }

    #[test]
    fn a_failure_is_told_in_one_line() {
        let said = "core/main.lua:26: Could not open interface: v0\n\nStack Traceback\n(1) x\n";
        assert_eq!(complaint(said), "core/main.lua:26: Could not open interface: v0");
        assert_eq!(complaint("hello\nbye\n"), "bye");
        assert_eq!(complaint(""), "it said nothing");
    }

    #[test]
    fn parents_are_found_behind_any_name() {
        assert_eq!(parent_of("12 (a) b (c)) S 34 12 12 0"), Some(34));
        assert_eq!(parent_of("nonsense"), None);
    }

    #[test]
    fn this_process_has_had_cpu_time() {
        let mut x = 0u64;
        for i in 0..2_000_000u64 {
            x = std::hint::black_box(x.wrapping_add(i));
        }
        assert!(x > 0 && cpu_seconds(std::process::id()).unwrap() > 0.0);
        assert!(cpu_seconds(u32::MAX).is_err());
    }
}
