// SPDX-License-Identifier: MIT
//! The router that is measured: `perigee run` in a process of its own, asked by its API and by /proc.

use super::table::{self, SINK};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use perigee_api::answers::{AuditReport, DropStatus, FibStatus, PortStatus, VersionStatus, WorkerStatus};
use perigee_api::client::ApiClient;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to start.
const START: Duration = Duration::from_secs(60);
/// How long it may take to stop: Linux deletes a million routes with the twins.
const STOP: Duration = Duration::from_secs(120);
const SOCKET: &str = "churn.sock";
const LOG: &str = "router.log";

/// The port that routes lead to, also its twin's name.
pub const SINK_PORT: &str = "sink";
/// The port that packets without a route of Linux leave by.
pub const SPARE_PORT: &str = "spare";

/// What the router is configured with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Names of the lookup structures.
    pub fib: (String, String),
    /// The worker's core.
    pub core: usize,
    /// Packet memory in hugepages?
    pub hugepages: bool,
    /// DPDK's memory in MB.
    pub memory: u32,
    /// Packet buffers.
    pub mbufs: usize,
    /// Gateways.
    pub next_hops: u32,
    /// The packets.
    pub source: PathBuf,
}

impl Setup {
    /// All packets come from `source` and leave by `sink`; by `spare` if no route of Linux's covers them.
    pub fn config(&self) -> String {
        let Setup { fib: (v4, v6), core, hugepages, memory, mbufs, next_hops, source } = self;
        let (source, sink4, sink6) = (source.display(), SINK.0.to_bits() + 1, SINK.2.to_bits() + 1);
        let (sink4, sink6) = (std::net::Ipv4Addr::from_bits(sink4), std::net::Ipv6Addr::from_bits(sink6));
        let mut text = format!(
            "[router]\nname = \"churn\"\nsocket = \"{SOCKET}\"\ncores = [{core}]\nidle = \"poll\"\nmbufs = {mbufs}\n\
             fib = [\"{v4}\", \"{v6}\"]\n\n[eal]\nhugepages = {hugepages}\nmemory = {memory}\n\n\
             [port.source]\ndevice = \"net_pcap0,rx_pcap={source},infinite_rx=1\"\nmac = \"02:00:00:00:00:00\"\n\
             addresses = [\"100.126.0.1/24\", \"fd00:0:0:2::1/64\"]\n\n\
             [port.{SINK_PORT}]\ndevice = \"net_null0,no-rx=1\"\nmac = \"02:00:00:00:00:01\"\n\
             addresses = [\"{sink4}/{}\", \"{sink6}/{}\"]\n\n\
             [port.{SPARE_PORT}]\ndevice = \"net_null1,no-rx=1\"\nmac = \"02:00:00:00:00:02\"\n\
             addresses = [\"100.125.0.1/24\", \"fd00:0:0:3::1/64\"]\n\n\
             [[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"100.125.0.2\"\n\n\
             [[route]]\nprefix = \"::/0\"\nvia = \"fd00:0:0:3::2\"\n\n\
             [[neighbor]]\naddress = \"100.125.0.2\"\nmac = \"02:00:00:00:03:02\"\n\n\
             [[neighbor]]\naddress = \"fd00:0:0:3::2\"\nmac = \"02:00:00:00:03:02\"\n",
            SINK.1, SINK.3
        );
        for number in 0..*next_hops {
            let (v4, v6) = table::gateways(number);
            let mac = format!("02:01:00:00:{:02x}:{:02x}", number >> 8 & 0xff, number & 0xff);
            for address in [v4.to_string(), v6.to_string()] {
                // A String takes everything.
                let _ = write!(text, "\n[[neighbor]]\naddress = \"{address}\"\nmac = \"{mac}\"\n");
            }
        }
        text
    }
}

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    /// Of the worker.
    pub worker: f64,
    /// Of the slow path's thread.
    pub slow_path: f64,
    /// Of all the others.
    pub others: f64,
}

/// Memory in bytes, of the router and its helper.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Resident, hugepages included.
    pub now: u64,
    /// The most so far, without hugepages.
    pub peak: u64,
}

/// `perigee run`, running.
pub struct Router {
    child: Child,
    folder: PathBuf,
    api: Option<ApiClient>,
}

/// The router's last words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Packets received by the worker.
    pub received: u64,
    /// Packets that it sent.
    pub transmitted: u64,
    /// Packets that ended under a reason.
    pub dropped: u64,
    /// Packets given to the slow path.
    pub punted: u64,
}

impl Router {
    /// Starts one, and waits until its API answers.
    pub fn start(folder: &Path, config: &str) -> Result<Router> {
        let file = folder.join("churn.toml");
        fs::write(&file, config)?;
        let log = File::create(folder.join(LOG))?;
        let program = std::env::current_exe().context("the program's own path is not known")?;
        let mut command = Command::new(program);
        command.arg("run").arg(file).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut router = Router { child: command.spawn()?, folder: folder.to_owned(), api: None };
        let deadline = Instant::now() + START;
        loop {
            router.running()?;
            router.api = ApiClient::connect(&folder.join(SOCKET)).ok();
            if router.get::<VersionStatus>("/v1/version").is_ok() {
                return Ok(router);
            }
            ensure!(Instant::now() < deadline, "`perigee run` does not answer; {}", router.last_words());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn api(&self) -> Result<&ApiClient> {
        self.api.as_ref().context("the router is not there yet")
    }

    /// Asks its API; should that fail because it has ended, that is the reason.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        let answer = self.api().and_then(|api| Ok(api.get(path)?));
        answer.or_else(|error: anyhow::Error| self.running().and(Err(error)))
    }

    /// Tells its API something.
    pub fn post<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        let answer = self.api().and_then(|api| Ok(api.post(path, &serde_json::json!({}))?));
        answer.or_else(|error: anyhow::Error| self.running().and(Err(error)))
    }

    /// Its worker, whose longest gap begins anew.
    pub fn worker(&mut self) -> Result<WorkerStatus> {
        let workers: Vec<WorkerStatus> = self.post("/v1/workers/gaps")?;
        workers.into_iter().next().context("the router has no worker")
    }

    /// Prefixes in its lookup structures, and whether some wait to be seen by workers.
    pub fn prefixes(&mut self) -> Result<(u64, bool)> {
        let fib: Vec<FibStatus> = self.get("/v1/fib")?;
        Ok((fib.iter().map(|fib| fib.prefixes).sum(), fib.iter().any(|fib| fib.pending)))
    }

    /// Packets that left the fast path under a reason, and those sent by the spare port.
    pub fn astray(&mut self) -> Result<u64> {
        let drops: Vec<DropStatus> = self.get("/v1/drops")?;
        let ports: Vec<PortStatus> = self.get("/v1/ports")?;
        let spare = ports.iter().find(|port| port.name == SPARE_PORT).context("the spare port is gone")?;
        // The slow path's own are of what Linux says on the twins: they are not the worker's packets.
        let left = drops.iter().filter(|drop| !drop.per_worker.is_empty()).map(|drop| drop.packets).sum::<u64>();
        Ok(left + spare.counters.transmit_packets)
    }

    /// What an audit finds to differ between Linux, RIB and lookup structures.
    pub fn differences(&mut self) -> Result<u64> {
        Ok(self.post::<AuditReport>("/v1/audit")?.total)
    }

    /// CPU time so far.
    pub fn cpu(&self) -> Result<Cpu> {
        let mut cpu = Cpu::default();
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))?.flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let ns: f64 = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
            match read("comm").trim() {
                name if name.starts_with("worker-") => cpu.worker += ns / 1e9,
                "slow-path" => cpu.slow_path += ns / 1e9,
                _ => cpu.others += ns / 1e9,
            }
        }
        ensure!(cpu.worker > 0.0, "/proc does not say how long the worker ran; is it mounted?");
        Ok(cpu)
    }

    /// Memory now.
    pub fn memory(&self) -> Result<Memory> {
        let own = self.child.id().to_string();
        let mut memory = Memory::default();
        for process in fs::read_dir("/proc")?.flatten() {
            let status = fs::read_to_string(process.path().join("status")).unwrap_or_default();
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.map(|line| line.trim().trim_end_matches(" kB").to_owned())
            };
            // The helper is its child.
            if field("Pid").as_ref() == Some(&own) || field("PPid").as_ref() == Some(&own) {
                let bytes = |name| field(name).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024;
                memory.now += bytes("VmRSS") + bytes("HugetlbPages");
                memory.peak += bytes("VmHWM");
            }
        }
        ensure!(memory.now > 0, "/proc does not say how much memory the router has; is it mounted?");
        Ok(memory)
    }

    /// An error if it has ended.
    fn running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(anyhow!("`perigee run` ended with {status}; {}", self.last_words())),
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        log.lines().last().map_or("its log is empty".to_owned(), |line| format!("it said: {}", line.trim()))
    }

    /// Stops it; it must end well, which includes that no packet buffer is lost.
    pub fn stop(mut self) -> Result<Account> {
        self.running()?;
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.context("no process number")?, rustix::process::Signal::TERM)?;
        let deadline = Instant::now() + STOP;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => {
                    let words = self.last_words();
                    return account(&words).with_context(|| format!("the router does not say what it did; {words}"));
                }
                Some(status) => bail!("`perigee run` ended with {status}; {}", self.last_words()),
                None if Instant::now() > deadline => bail!("`perigee run` does not end; {}", self.last_words()),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// From `perigee run`'s last line.
fn account(line: &str) -> Option<Account> {
    let before = |words: &str| {
        let (head, _) = line.split_once(words)?;
        head.rsplit(' ').next()?.parse().ok()
    };
    Some(Account {
        received: before(" packets received")?,
        transmitted: before(" transmitted")?,
        dropped: before(" dropped")?,
        punted: before(" to the slow path")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            fib: ("auto".to_owned(), "range6".to_owned()),
            core: 0,
            hugepages: false,
            memory: 256,
            mbufs: 32_767,
            next_hops: 8,
            source: "/tmp/source.pcap".into(),
        }
    }

    #[test]
    fn the_configuration_is_a_valid_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("churn.toml");
        fs::write(&file, setup().config()).unwrap();
        let config = crate::check::load(&file, &crate::check::machine()).unwrap();
        assert_eq!((config.ports.len(), config.neighbors.len(), config.all_routes().count()), (3, 18, 2));
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }

    #[test]
    fn the_account_is_read_from_the_last_line() {
        let account = account(&format!(
            "INFO stopped; every packet buffer is back; {}",
            crate::launch::Account { received: 12, transmitted: 9, dropped: 2, punted: 1 }
        ));
        assert_eq!(account, Some(Account { received: 12, transmitted: 9, dropped: 2, punted: 1 }));
        assert_eq!(super::account("ERROR a thread of the router has ended"), None);
    }
}
