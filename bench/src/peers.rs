// SPDX-License-Identifier: MIT
//! The two processes that are compared: dpdk-testpmd, driven by its prompt, and perigee's [`worker`](crate::worker),
//! driven by lines of JSON. Both live through the whole measurement and forward only while they are asked to.

use crate::worker::{FullTable, MBUFS, MEMORY, Ready, Request, Sample};
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The settings that both processes share.
#[derive(Debug, Clone)]
pub struct Bed {
    /// The sources' files; testpmd has the first.
    pub sources: Vec<PathBuf>,
    /// A full routing table instead of the eight routes.
    pub full: Option<FullTable>,
    /// The core that forwards.
    pub core: usize,
    /// A core for testpmd's main thread.
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
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
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

    /// Ends it, and checks that it gave back all packet buffers.
    pub fn finish(mut self) -> Result<()> {
        self.process.to = None;
        let status = self.process.child.wait()?;
        ensure!(status.success(), "perigee's measuring process ended with {status}");
        Ok(())
    }
}

/// dpdk-testpmd in io mode: it sends what it receives, untouched.
pub struct Testpmd {
    process: Process,
    /// The file with the forwarding thread's CPU time.
    time: PathBuf,
    total: Total,
}

const PROMPT: &str = "testpmd> ";

/// Which of testpmd's totals counts.
#[derive(Debug, Clone, Copy)]
enum Total {
    Received,
    Transmitted,
}

impl Testpmd {
    /// Starts it; it forwards nothing yet.
    pub fn start(bed: &Bed) -> Result<Testpmd> {
        let device = format!("net_pcap0,rx_pcap={},infinite_rx=1", bed.sources[0].display());
        let forwarding = ["--forward-mode=io", "--port-topology=loop", "--no-flush-rx"];
        Testpmd::start_with(bed.core, bed.other_core, bed.hugepages, &device, &forwarding, Total::Received)
    }

    /// Starts it as a generator: frames of 60 bytes without FCS, to a device that frees them.
    pub fn generator(core: usize, other_core: usize, hugepages: bool, several_flows: bool) -> Result<Testpmd> {
        let flows: &[&str] = if several_flows { &["--txonly-multi-flow"] } else { &[] };
        let forwarding = [&["--forward-mode=txonly", "--txpkts=60", "--port-topology=chained"], flows].concat();
        Testpmd::start_with(core, other_core, hugepages, "net_null0", &forwarding, Total::Transmitted)
    }

    fn start_with(
        core: usize,
        other_core: usize,
        hugepages: bool,
        device: &str,
        forwarding: &[&str],
        total: Total,
    ) -> Result<Testpmd> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let there = std::env::split_paths(&path).any(|folder| folder.join("dpdk-testpmd").exists());
        ensure!(
            there,
            "dpdk-testpmd is not there, and it is what perigee is compared with: sudo apt-get install dpdk-dev"
        );
        // Line by line, or a report would stay in its buffer.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "dpdk-testpmd", "--no-pci", "--iova-mode=va", "--log-level=error"]);
        command.arg(format!("--file-prefix=perigee-testpmd-{}", std::process::id()));
        command.arg(format!("--lcores=0@{other_core},1@{core}"));
        match hugepages {
            true => command.args(["--in-memory", "--single-file-segments"]),
            false => command.args(["--no-huge", "--no-shconf"]).arg(format!("-m{MEMORY}")),
        };
        command.arg(format!("--vdev={device}")).args(["--", "--interactive"]).args(forwarding);
        command.arg(format!("--total-num-mbufs={MBUFS}"));
        let process =
            Process::start(command.stderr(Stdio::null())).context("dpdk-testpmd cannot be started by stdbuf")?;
        let mut testpmd = Testpmd { process, time: PathBuf::new(), total };
        testpmd.answer()?;
        testpmd.time = testpmd.forwarding_thread()?;
        Ok(testpmd)
    }

    /// Reads until the next prompt.
    fn answer(&mut self) -> Result<String> {
        let mut text = Vec::new();
        while !text.ends_with(PROMPT.as_bytes()) {
            let mut byte = [0];
            if self.process.from.read(&mut byte)? == 0 {
                bail!("dpdk-testpmd ended; it said:\n{}", String::from_utf8_lossy(&text));
            }
            text.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        self.process.say(command)?;
        self.answer()
    }

    fn forwarding_thread(&self) -> Result<PathBuf> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.child.id()))?;
        let mut tasks = tasks.flatten().map(|task| task.path());
        let is_worker = |task: &PathBuf| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim().ends_with("worker-1"))
        };
        let found =
            tasks.find(is_worker).context("dpdk-testpmd has no thread called rte-worker-1 or lcore-worker-1")?;
        Ok(found.join("schedstat"))
    }

    /// CPU time of the forwarding thread in ns; exact while it sleeps.
    fn cpu_ns(&self) -> Result<u64> {
        let text = std::fs::read_to_string(&self.time)?;
        let first = text.split_whitespace().next().and_then(|number| number.parse().ok());
        first.with_context(|| format!("{} says {text:?}", self.time.display()))
    }

    /// Forwards for a while in bursts of this size; returns packets and CPU time in ns.
    pub fn measure(&mut self, burst: usize, time: Duration) -> Result<(u64, u64)> {
        self.ask(&format!("set burst {burst}"))?;
        let before = self.cpu_ns()?;
        self.ask("start")?;
        std::thread::sleep(time);
        let report = self.ask("stop")?;
        let packets =
            total(&report, self.total).with_context(|| format!("no totals in what dpdk-testpmd says:\n{report}"))?;
        Ok((packets, self.cpu_ns()? - before))
    }
}

/// Packets received or transmitted, from testpmd's report.
fn total(report: &str, which: Total) -> Option<u64> {
    let (_, sums) = report.split_once("Accumulated forward statistics")?;
    let name = match which {
        Total::Received => "RX-packets:",
        Total::Transmitted => "TX-packets:",
    };
    let (_, number) = sums.split_once(name)?;
    number.split_whitespace().next()?.parse().ok().filter(|packets| *packets > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found_in_a_report() {
        let report = "---- Forward statistics for port 0 ----\n RX-packets: 5 RX-dropped: 0\n\
             +++ Accumulated forward statistics for all ports+++\n  RX-packets: 24642112       RX-dropped: 0\n  TX-packets: 7 TX-dropped: 0\n";
        assert_eq!(total(report, Total::Received), Some(24_642_112));
        assert_eq!(total(report, Total::Transmitted), Some(7));
        assert_eq!(total("Accumulated forward statistics\n RX-packets: 0 ", Total::Received), None);
        assert_eq!(total("", Total::Received), None);
    }
}
