// SPDX-License-Identifier: MIT
//! dpdk-testpmd, driven by its prompt.

use super::meter::{self, Count, Meter};
use super::telemetry::Telemetry;
use super::{Bed, Process};
use crate::machine;
use crate::worker::{MBUFS, MEMORY};
use anyhow::{Context as _, Result, bail, ensure};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// dpdk-testpmd. In io mode it sends what it receives, untouched.
pub struct Testpmd {
    process: Process,
    meter: Option<Meter>,
    /// The burst size that it was told last.
    burst: usize,
    /// Its run-time files.
    _folder: TempDir,
}

const PROMPT: &str = "testpmd> ";
const PREFIX: &str = "testpmd";

impl Testpmd {
    /// Starts it; it forwards nothing yet.
    pub fn start(bed: &Bed) -> Result<Testpmd> {
        let device = format!("net_pcap0,rx_pcap={},infinite_rx=1", bed.sources[0].display());
        let mut forwarding = vec!["--forward-mode=io", "--port-topology=loop", "--no-flush-rx"];
        if !bed.hugepages {
            // A pool of DPDK's own would begin each buffer at the start of a page, where all headers meet in the same
            // sets of the caches: bench/README.md has what that costs.
            forwarding.push("--mp-alloc=xbuf");
        }
        Testpmd::start_with(bed.core, bed.other_core, bed.hugepages, &device, &forwarding, Count::Received)
    }

    /// Starts it as a generator: frames of 60 bytes without FCS, to a device that frees them.
    pub fn generator(core: usize, other_core: usize, hugepages: bool, several_flows: bool) -> Result<Testpmd> {
        let flows: &[&str] = if several_flows { &["--txonly-multi-flow"] } else { &[] };
        let forwarding = [&["--forward-mode=txonly", "--txpkts=60", "--port-topology=chained"], flows].concat();
        Testpmd::start_with(core, other_core, hugepages, "net_null0", &forwarding, Count::Transmitted)
    }

    fn start_with(
        core: usize,
        other_core: usize,
        hugepages: bool,
        device: &str,
        forwarding: &[&str],
        count: Count,
    ) -> Result<Testpmd> {
        ensure!(
            machine::program("dpdk-testpmd"),
            "dpdk-testpmd is not there, and it is what perigee is compared with: sudo apt-get install dpdk-dev"
        );
        let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
        // Line by line, or a report would stay in its buffer.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "dpdk-testpmd", "--no-pci", "--iova-mode=va", "--log-level=error"]);
        command.env("RUNTIME_DIRECTORY", folder.path()).arg(format!("--file-prefix={PREFIX}"));
        command.arg(format!("--lcores=0@{other_core},1@{core}"));
        match hugepages {
            true => command.args(["--in-memory", "--single-file-segments"]),
            false => command.args(["--no-huge", "--no-shconf"]).arg(format!("-m{MEMORY}")),
        };
        command.arg(format!("--vdev={device}")).args(["--", "--interactive"]).args(forwarding);
        command.arg(format!("--total-num-mbufs={MBUFS}"));
        let process =
            Process::start(command.stderr(Stdio::null())).context("dpdk-testpmd cannot be started by stdbuf")?;
        let mut testpmd = Testpmd { process, meter: None, burst: 0, _folder: folder };
        testpmd.answer()?;
        let telemetry = Telemetry::connect(&meter::socket(testpmd._folder.path(), PREFIX))
            .context("dpdk-testpmd counts its packets by telemetry")?;
        testpmd.meter = Some(Meter::new(telemetry, &testpmd.forwarding_thread()?, count));
        Ok(testpmd)
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.process.child.id()
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
        let is_worker = |task: &PathBuf| named(task).is_some_and(|name| name.ends_with("worker-1"));
        let found = meter::threads(self.id())?.into_iter().find(is_worker);
        found.context("dpdk-testpmd has no thread called rte-worker-1 or lcore-worker-1")
    }

    /// Forwards for a while in bursts of this size; returns packets and CPU time in ns of that while, without the
    /// warm-up before.
    pub fn measure(&mut self, burst: usize, warm: Duration, time: Duration) -> Result<(u64, u64)> {
        if self.burst != burst {
            self.ask(&format!("set burst {burst}"))?;
            self.burst = burst;
        }
        self.ask("start")?;
        let meter = self.meter.as_ref().context("dpdk-testpmd is not ready")?;
        let measured = meter.measure(warm, time);
        self.ask("stop")?;
        let (packets, cpu_ns) = measured?;
        ensure!(packets > 0 && cpu_ns > 0, "dpdk-testpmd forwarded {packets} packets in {cpu_ns} ns; expected some");
        Ok((packets, cpu_ns))
    }
}

fn named(task: &Path) -> Option<String> {
    Some(std::fs::read_to_string(task.join("comm")).ok()?.trim().to_owned())
}
