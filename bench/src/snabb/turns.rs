// SPDX-License-Identifier: MIT
//! One turn of one runtime: a program runs in a process of its own, and this says how fast.

use super::parse::{self, Sample};
use super::runtime::{self, Runtime};
use anyhow::{Context as _, Result, bail, ensure};
use perigee_lab::{Process, World};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The programs that are not the tree's.
const PROGRAMS: [(&str, &str); 3] = [
    ("chain.lua", include_str!("chain.lua")),
    ("forward.lua", include_str!("forward.lua")),
    ("start.lua", include_str!("start.lua")),
];
/// What lwaftr needs of its tests; it writes beside its configuration, so these are copied.
const LWAFTR: [&str; 3] = ["data/icmp_on_fail.conf", "benchdata/ipv4-0550.pcap", "benchdata/ipv6-0550.pcap"];
/// Seconds that each program runs before it is measured: what the compilers do is over then.
const WARM_UP: f64 = 0.5;
/// Seconds that a program may take beyond those that it is asked to run.
const PATIENCE: f64 = 60.0;
/// The two ends of the cable that programs send into.
const ENDS: [&str; 2] = ["cable0", "cable1"];
/// Packets that go round from each end: fewer than a socket's receive buffer holds at its default size (some 270), and
/// more than an app brings in for each breath (102).
const GO_ROUND: u32 = 128;
/// Packets of `basic1` that its start is measured by.
const FEW: u64 = 1000;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Case {
    /// Source, so many forwarding apps, sink.
    Chain(u16),
    /// The tree's `snabbmark basic1`.
    Basic1,
    /// The tree's `lwaftr bench`.
    Lwaftr,
    /// The tree's `packetblaster lwaftr --int`.
    Packetblaster,
    /// From each of two interfaces to the other.
    Forward,
    /// From the start of the process to the first packet that was freed.
    Start,
}

impl Case {
    /// Whether it is a program of the tree.
    pub fn needs_tree(&self) -> bool {
        matches!(self, Case::Basic1 | Case::Lwaftr | Case::Packetblaster)
    }
}

/// Where and for how long.
pub struct Bed<'a> {
    pub world: &'a World,
    pub folder: PathBuf,
    /// Seconds that count.
    pub seconds: f64,
    /// Bytes of a chain's packets.
    pub bytes: u16,
    /// Packets of `basic1`.
    pub basic1: u64,
}

impl<'a> Bed<'a> {
    /// Lays out the programs and the files that they read.
    pub fn new(world: &'a World, tree: Option<&Path>, seconds: f64, bytes: u16, basic1: u64) -> Result<Bed<'a>> {
        let folder = world.folder().join("programs");
        fs::create_dir(&folder)?;
        for (name, text) in PROGRAMS {
            fs::write(folder.join(name), text)?;
        }
        for file in tree.iter().flat_map(|_| LWAFTR) {
            let from = tree.context("there is a tree")?.join("program/lwaftr/tests").join(file);
            // Whoever lacks them learns it in lwaftr's turn.
            let _ = fs::copy(from, folder.join(Path::new(file).file_name().context("a file has a name")?));
        }
        Ok(Bed { world, folder, seconds, bytes, basic1 })
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn patience(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds + PATIENCE)
    }

    /// A new cable for each turn: Snabb's XDP app leaves its program on an interface.
    fn cable(&self) -> Result<()> {
        let [one, other] = ENDS;
        let _ = self.world.ip(&format!("link del {one}")); // at first there is none
        self.world.ip(&format!("link add {one} type veth peer name {other}"))?;
        for end in ENDS {
            // Linux would send packets of its own.
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1");
            self.world.ip(&format!("link set {end} up"))?;
        }
        Ok(())
    }

    /// Packets that Linux has sent by an end.
    fn sent(&self, end: &str) -> Result<f64> {
        let path = format!("/sys/class/net/{end}/statistics/tx_packets");
        Ok(fs::read_to_string(&path).with_context(|| path.clone())?.trim().parse::<u64>()? as f64)
    }

    /// The turn: millions of packets per second of CPU time, or, of [`Case::Start`], starts per second. `way` is what
    /// [`Case::Forward`] is done by.
    pub fn turn(&self, runtime: &Runtime, case: &Case, way: &str) -> Result<f64> {
        match case {
            Case::Chain(apps) => self.chain(runtime, *apps)?.mpps(),
            Case::Basic1 => self.basic1(runtime)?.mpps(),
            Case::Lwaftr => self.lwaftr(runtime)?.mpps(),
            Case::Packetblaster => self.packetblaster(runtime)?.mpps(),
            Case::Forward => self.forward(runtime, way)?.mpps(),
            Case::Start => self.start(runtime),
        }
    }

    fn run(&self, command: Command, seconds: f64) -> Result<String> {
        runtime::run(command, self.patience(seconds))
    }

    fn snsh(&self, program: &str, more: &[String]) -> Vec<String> {
        let times = [WARM_UP.to_string(), self.seconds.to_string()];
        [&["snsh".to_owned(), self.file(program)], more, &times].concat()
    }

    fn chain(&self, runtime: &Runtime, apps: u16) -> Result<Sample> {
        let words = self.snsh("chain.lua", &[apps.to_string(), self.bytes.to_string()]);
        parse::line("chain", &self.run(runtime.command(&words), WARM_UP + self.seconds)?)
    }

    /// CPU time of a run with many packets, less that of one with few, which is the start's.
    fn basic1(&self, runtime: &Runtime) -> Result<Sample> {
        let time = |packets: u64| -> Result<f64> {
            let before = crate::machine::children_time()?;
            let words = ["snabbmark", "basic1", &packets.to_string()].map(str::to_owned);
            let said = self.run(runtime.of_tree(&words), 60.0)?;
            ensure!(said.contains("Processed"), "{}", runtime::complaint(&said));
            Ok(crate::machine::children_time()? - before)
        };
        let start = time(FEW)?;
        Ok(Sample { packets: (self.basic1 - FEW) as f64, cpu: time(self.basic1)? - start })
    }

    /// Lines of lwaftr's table from the second one on, and the CPU time that the worker had between the first and the
    /// last of them.
    fn lwaftr(&self, runtime: &Runtime) -> Result<Sample> {
        let table = self.folder.join("lwaftr.csv");
        let _ = fs::remove_file(&table); // of the turn before
        let (counted, file) = (self.seconds.ceil() as usize, |name| self.file(name));
        // A line a second: one to warm up, and the last one comes when the worker has gone.
        let words = ["lwaftr", "bench", "-D", &(counted + 3).to_string(), "-b", &table.display().to_string()]
            .map(str::to_owned);
        let files = ["icmp_on_fail.conf", "ipv4-0550.pcap", "ipv6-0550.pcap"].map(file);
        let mut process = Process::start(
            runtime.of_tree(&words.into_iter().chain(files).collect::<Vec<_>>()).current_dir(&self.folder),
        )?;
        let deadline = Instant::now() + self.patience(counted as f64 + 3.0);
        let (mut worker, mut first, mut last) = (None, None, None);
        while process.ended()?.is_none() {
            ensure!(Instant::now() < deadline, "it does not end");
            let lines = parse::lwaftr(&fs::read_to_string(&table).unwrap_or_default())?;
            if worker.is_none() && !lines.is_empty() {
                worker = runtime::busiest_below(process.pid()).ok();
            }
            let seen = |seen: &Option<(Vec<_>, f64)>| seen.as_ref().map_or(0, |(lines, _)| lines.len());
            if let Some(worker) = worker.filter(|_| lines.len() > seen(&first).max(seen(&last)))
                // At the end the worker goes before the last line is written.
                && let Ok(cpu) = runtime::cpu_seconds(worker)
            {
                let now = Some((lines, cpu));
                if first.is_none() { first = now } else { last = now }
            }
            sleep(Duration::from_millis(2));
        }
        let (Some((before, began)), Some((lines, cpu))) = (first, last) else {
            bail!("no two lines of its table came: {}", runtime::complaint(&process.said()));
        };
        Ok(Sample { packets: parse::lwaftr_packets(&lines[before.len() - 1..]), cpu: cpu - began })
    }

    fn packetblaster(&self, runtime: &Runtime) -> Result<Sample> {
        self.cable()?;
        let duration = (WARM_UP + self.seconds + 2.0).to_string();
        // A rate that nobody reaches, of a thousand customers.
        let words =
            ["packetblaster", "lwaftr", "--int", ENDS[0], "-D", &duration, "-r", "50", "-c", "1000"].map(str::to_owned);
        let mut process = Process::start(&mut runtime.of_tree(&words))?;
        let deadline = Instant::now() + self.patience(0.0);
        while self.sent(ENDS[0])? == 0.0 {
            if process.ended()?.is_some() || Instant::now() > deadline {
                bail!("it sends nothing: {}", runtime::complaint(&process.said()));
            }
            sleep(Duration::from_millis(2));
        }
        let look = || -> Result<Sample> {
            Ok(Sample { packets: self.sent(ENDS[0])?, cpu: runtime::cpu_seconds(process.pid())? })
        };
        sleep(Duration::from_secs_f64(WARM_UP));
        let before = look().context("it ended early")?;
        sleep(Duration::from_secs_f64(self.seconds));
        let after = look().context("it ended early")?;
        Ok(Sample { packets: after.packets - before.packets, cpu: after.cpu - before.cpu })
    }

    fn forward(&self, runtime: &Runtime, way: &str) -> Result<Sample> {
        self.cable()?;
        let (app, interfaces) = match way.split_once(' ') {
            Some((app, prefix)) => (app, ENDS.map(|end| format!("{prefix}{end}"))),
            None => (way, ENDS.map(str::to_owned)),
        };
        let [one, other] = interfaces;
        let words = self.snsh("forward.lua", &[app.to_owned(), one, other, GO_ROUND.to_string()]);
        let sample = parse::line("forward", &self.run(runtime.command(&words), WARM_UP + self.seconds)?)?;
        let sent = self.sent(ENDS[0])? + self.sent(ENDS[1])?;
        ensure!(sample.packets <= sent, "it says that it forwarded {} packets, and Linux sent {sent}", sample.packets);
        Ok(sample)
    }

    fn start(&self, runtime: &Runtime) -> Result<f64> {
        let (took, line) = runtime::first_line(runtime.command(&["snsh".to_owned(), self.file("start.lua")]))?;
        ensure!(line.trim() == "freed", "expected the line \"freed\", found {line:?}");
        Ok(1.0 / took)
    }
}
