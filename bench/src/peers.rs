// SPDX-License-Identifier: MIT
//! The processes that are compared: perigee's [`worker`](crate::worker), driven by lines of JSON; dpdk-testpmd, driven
//! by its prompt; other programs with DPDK, l3fwd among them, which are stopped and continued. All live through the
//! whole measurement and forward only while they are asked to.

mod l3fwd;
mod meter;
mod program;
mod telemetry;
mod testpmd;

pub use l3fwd::{L3fwd, Lookup, MEMORY as L3FWD_MEMORY, Rules, places};
pub use program::{Place, Program, Start, fill};
pub use testpmd::Testpmd;

use crate::worker::{FullTable, Ready, Request, Sample};
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The settings that both processes share.
#[derive(Debug, Clone)]
pub struct Bed {
    /// The sources' files; testpmd has the first.
    pub sources: Vec<PathBuf>,
    /// A full routing table instead of the eight routes.
    pub full: Option<FullTable>,
    /// The core that forwards.
    pub core: usize,
    /// A core for the main thread of those that have another one for packets.
    pub other_core: usize,
    /// Packet memory in hugepages?
    pub hugepages: bool,
}

/// A process that is killed when dropped.
struct Process {
    child: Child,
    /// Its standard input; none once it should end.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> std::io::Result<Process> {
        // In a group of its own: Ctrl-C is for us, who end the process then, and say why.
        let mut child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let from = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
        Ok(Process { to: child.stdin.take(), child, from: BufReader::new(from) })
    }

    fn say(&mut self, line: &str) -> std::io::Result<()> {
        writeln!(self.to.as_mut().ok_or(ErrorKind::BrokenPipe)?, "{line}")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// perigee in a process of its own.
pub struct Perigee {
    process: Process,
    /// Its first line, when it was ready.
    pub ready: Ready,
}

impl Perigee {
    /// The child's command line.
    pub fn arguments(bed: &Bed, sent: Option<&Path>) -> Vec<String> {
        let mut arguments = vec!["forward-worker".to_owned()];
        arguments.extend(bed.sources.iter().map(|source| format!("--source={}", source.display())));
        arguments.extend(bed.full.iter().map(|full| format!("--full={}", full.to_json())));
        arguments.push(format!("--core={}", bed.core));
        if !bed.hugepages {
            arguments.push("--no-huge".to_owned());
        }
        arguments.extend(sent.map(|folder| format!("--sent={}", folder.display())));
        arguments
    }

    /// Starts it; `sent`: see [`WorkerArgs::sent`](crate::worker::WorkerArgs::sent).
    pub fn start(bed: &Bed, sent: Option<&Path>) -> Result<Perigee> {
        let program = std::env::current_exe().context("the program's own path is not known")?;
        Perigee::from_command(Command::new(program).args(Perigee::arguments(bed, sent)))
    }

    /// Starts it by this command.
    pub fn from_command(command: &mut Command) -> Result<Perigee> {
        let mut process = Process::start(command).context("perigee cannot start itself")?;
        let ready = serde_json::from_str(&Perigee::line(&mut process)?)?;
        Ok(Perigee { process, ready })
    }

    fn line(process: &mut Process) -> Result<String> {
        let mut line = String::new();
        process.from.read_line(&mut line)?;
        ensure!(!line.is_empty(), "perigee's measuring process ended before it answered");
        Ok(line)
    }

    /// Measures; every packet received must have been transmitted.
    pub fn measure(&mut self, request: Request) -> Result<Sample> {
        self.process.say(&serde_json::to_string(&request)?)?;
        let sample: Sample = serde_json::from_str(&Perigee::line(&mut self.process)?)?;
        let Sample { received, transmitted, reasons, .. } = &sample;
        ensure!(
            received == transmitted,
            "{received} packets were received and {transmitted} transmitted; reasons: {reasons:?}"
        );
        Ok(sample)
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Ends it, and checks that it gave back all packet buffers.
    pub fn finish(mut self) -> Result<()> {
        self.process.to = None;
        let status = self.process.child.wait()?;
        ensure!(status.success(), "perigee's measuring process ended with {status}");
        Ok(())
    }
}
