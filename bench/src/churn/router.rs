// SPDX-License-Identifier: MIT
//! The router that is measured: `perigee run` in a process of its own, asked by its API and by /proc.

use super::table::{self, SINK};
use anyhow::{Context as _, Result, ensure};
use perigee_api::Query;
use perigee_api::answers::WorkerStatus;
use perigee_api::client::ApiClient;
use perigee_api::queries::{Audit, Reload, ShowDrops, ShowFib, ShowPorts, TakeGaps};
use perigee_lab::{Launch, Place, seen};
use perigee_router::Account;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long it may take to start and to stop: Linux deletes a million routes with the twins.
const PATIENCE: Duration = Duration::from_secs(120);
const SOCKET: &str = "churn.sock";
const LOG: &str = "router.log";

/// The port that routes lead to, also its twin's name.
pub const SINK_PORT: &str = "sink";
/// The port for packets without a route of Linux.
pub const SPARE_PORT: &str = "spare";

/// The router's configuration.
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
    /// What the worker does.
    pub work: Work,
}

/// What a router's worker does.
#[derive(Debug, Clone)]
pub enum Work {
    /// It forwards the packets of this file, over and over.
    Forwards(PathBuf),
    /// It runs this script, which computes and counts its rounds as empty polls: nothing ever comes.
    Spins(PathBuf),
}

/// That script.
pub const SPIN: &str = include_str!("spin.lua");

impl Setup {
    /// All packets come from `source` and leave by `sink`; by `spare` if no route of Linux's covers them.
    pub fn config(&self) -> String {
        let Setup { fib: (v4, v6), core, hugepages, memory, mbufs, next_hops, work } = self;
        let (sink4, sink6) = (SINK.0.to_bits() + 1, SINK.2.to_bits() + 1);
        let (source, script) = match work {
            Work::Forwards(packets) => {
                (format!("net_pcap0,rx_pcap={},infinite_rx=1", packets.display()), String::new())
            }
            Work::Spins(script) => ("net_null2,no-rx=1".to_owned(), format!("script = \"{}\"\n", script.display())),
        };
        let (sink4, sink6) = (std::net::Ipv4Addr::from_bits(sink4), std::net::Ipv6Addr::from_bits(sink6));
        let mut text = format!(
            "[router]\nname = \"churn\"\nsocket = \"{SOCKET}\"\ncores = [{core}]\nidle = \"poll\"\nmbufs = {mbufs}\n\
             fib = [\"{v4}\", \"{v6}\"]\n{script}\n[eal]\nhugepages = {hugepages}\nmemory = {memory}\n\n\
             [port.source]\ndevice = \"{source}\"\nmac = \"02:00:00:00:00:00\"\n\
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
    /// The worker's.
    pub worker: f64,
    /// That of the slow path's thread.
    pub slow_path: f64,
    /// That of all other threads.
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
    lab: perigee_lab::Router,
    api: ApiClient,
    file: PathBuf,
    config: String,
}

impl Router {
    /// Starts one, and waits until it runs.
    pub fn start(folder: &Path, config: &str) -> Result<Router> {
        let file = folder.join("churn.toml");
        fs::write(&file, config)?;
        let lab = perigee_lab::Router::start(Launch {
            program: perigee_lab::program()?,
            place: Place::Router,
            configuration: file.clone(),
            arguments: Vec::new(),
            socket: folder.join(SOCKET),
            log: Some(folder.join(LOG)),
            patience: PATIENCE,
        })?;
        let api = ApiClient::connect(lab.socket())?;
        Ok(Router { lab, api, file, config: config.to_owned() })
    }

    /// Asks its API; if it has ended, the error says so.
    pub fn ask<Q: Query>(&mut self, query: &Q) -> Result<Q::Answer> {
        let Router { lab, api, .. } = self;
        lab.or_why(|_| Ok(api.ask(query)?))
    }

    /// Has it follow this table of Linux's instead, by its name.
    pub fn follow(&mut self, table: &str) -> Result<()> {
        fs::write(&self.file, format!("{}\n[linux]\ntables = [\"{table}\"]\n", self.config))?;
        self.ask(&Reload { script: None, text: None }).context("the router refuses to follow another table")?;
        Ok(())
    }

    /// The state of its worker; resets the worker's longest gap.
    pub fn worker(&mut self) -> Result<WorkerStatus> {
        let workers = self.ask(&TakeGaps {})?;
        workers.into_iter().next().context("the router has no worker")
    }

    /// Prefixes in its lookup structures, and whether there are some that workers do not see yet.
    pub fn prefixes(&mut self) -> Result<(u64, bool)> {
        let fib = self.ask(&ShowFib {})?;
        Ok((fib.iter().map(|fib| fib.prefixes).sum(), fib.iter().any(|fib| fib.pending)))
    }

    /// Packets that left the fast path under a reason, and those sent by the spare port.
    pub fn astray(&mut self) -> Result<u64> {
        let drops = self.ask(&ShowDrops {})?;
        let ports = self.ask(&ShowPorts {})?;
        let spare = ports.iter().find(|port| port.name == SPARE_PORT).context("the spare port is gone")?;
        // The slow path's own drops are of Linux's packets from the twins, not of the worker's.
        let left = drops.iter().filter(|drop| !drop.per_worker.is_empty()).map(|drop| drop.packets).sum::<u64>();
        Ok(left + spare.counters.transmit_packets)
    }

    /// The differences that an audit finds between Linux, RIB and lookup structures.
    pub fn differences(&mut self) -> Result<u64> {
        Ok(self.ask(&Audit { repair: false })?.total)
    }

    /// CPU time so far.
    pub fn cpu(&self) -> Result<Cpu> {
        let mut cpu = Cpu::default();
        for task in fs::read_dir(format!("/proc/{}/task", self.lab.pid()))?.flatten() {
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
        let mut memory = Memory::default();
        // The helper counts, too.
        for process in seen::router(self.lab.pid())? {
            memory.now += process.resident + process.hugepages;
            memory.peak += process.most_resident;
        }
        Ok(memory)
    }

    /// Stops it; it must exit cleanly, without a lost packet buffer.
    pub fn stop(self) -> Result<Account> {
        let log = self.lab.stop()?;
        account(&log).with_context(|| format!("the router does not say what it did:\n{log}"))
    }
}

/// Parses the end of `perigee run`'s last line.
fn account(log: &str) -> Option<Account> {
    log.trim().rsplit("; ").next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_config::{Config, Machine};

    fn setup() -> Setup {
        Setup {
            fib: ("auto".to_owned(), "range6".to_owned()),
            core: 0,
            hugepages: false,
            memory: 256,
            mbufs: 32_767,
            next_hops: 8,
            work: Work::Forwards("/tmp/source.pcap".into()),
        }
    }

    #[test]
    fn the_configuration_is_a_valid_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, script) = (folder.path().join("churn.toml"), folder.path().join("spin.lua"));
        fs::write(&script, SPIN).unwrap();
        for work in [setup().work, Work::Spins(script)] {
            fs::write(&file, Setup { work: work.clone(), ..setup() }.config()).unwrap();
            let machine = Machine { fib: super::super::lookups().names(), ..Machine::here() };
            let config = Config::load_on(&file, &machine).unwrap();
            assert_eq!((config.ports.len(), config.neighbors.len(), config.all_routes().count()), (3, 18, 2));
            assert_eq!(config.router.script.is_some(), matches!(work, Work::Spins(_)));
            assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        }
    }

    #[test]
    fn the_account_is_read_from_the_last_line() {
        let it = Account { received: 12, transmitted: 9, dropped: 2, punted: 1 };
        let log = format!("INFO running; and more\nINFO stopped; every packet buffer is back; {it}\n");
        assert_eq!(account(&log), Some(it));
        assert_eq!(account("ERROR the router ends by itself"), None);
    }
}
