// SPDX-License-Identifier: MIT
//! The first process inside: routers of each policy, traffic through them, and what their workers take.

use super::{POLICIES, PowerArgs, SAMPLES, SUDO, Sample};
use crate::isolated;
use anyhow::{Context as _, Result, ensure};
use perigee_api::client::ApiClient;
use perigee_api::queries::ShowPorts;
use perigee_dpdk as dpdk;
use perigee_lab::{Launch, Place, Process, Router, World, isolation, tools, wait_for};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Kinds of ports, by what wakes their workers.
pub const KINDS: [&str; 3] = ["socket", "timer", "interrupt"];
/// How long the router may take to start and to stop, and the generator beside its traffic.
const PATIENCE: Duration = Duration::from_secs(30);
/// Seconds of a trial in the search for the rate that passes.
const TRIAL: f64 = 1.0;
/// The tester's interfaces.
const SIDES: [&str; 2] = ["tester-wan", "tester-lan"];

/// What the inside works with.
struct Scene<'w> {
    world: &'w World,
    args: &'w PowerArgs,
    worker: usize,
    tester: usize,
}

/// Runs it; the samples are left in the folder.
pub fn run(args: &PowerArgs, folder: &Path) -> Result<ExitCode> {
    isolation::end_with_input(folder)?;
    let world = isolated::world(folder)?;
    let usable = dpdk::usable_cores();
    let (worker, tester) = (*usable.last().context("no core may be used")?, usable[0]);
    world.namespace("tester")?;
    for (side, port) in SIDES.iter().zip(["power-wan", "power-lan"]) {
        world.ip(&format!("link add {port} type veth peer name {side} netns tester"))?;
        world.ip(&format!("link set {port} addrgenmode none"))?;
        world.ip(&format!("-n tester link set {side} addrgenmode none"))?;
        world.ip(&format!("-n tester link set {side} up"))?;
    }
    let scene = Scene { world: &world, args, worker, tester };
    let mut samples = Vec::new();
    for kind in &args.ports {
        if kind == "interrupt" {
            tools::require_tun(SUDO)?;
        }
        let full = args.rate.map_or_else(|| scene.find_rate(kind), Ok)?;
        eprintln!("{kind}: 100 % are {full} frames/s");
        for turn in 0..args.turns {
            for policy in 0..POLICIES.len() {
                // Each policy is first, second and third in turn.
                let idle = POLICIES[(policy + turn) % POLICIES.len()];
                samples.extend(scene.turn(kind, idle, full)?);
            }
        }
    }
    fs::write(folder.join(SAMPLES), serde_json::to_string(&samples)?)?;
    Ok(ExitCode::SUCCESS)
}

impl Scene<'_> {
    /// The highest rate of which 99 % arrive while the worker polls. What the generator itself could not send in time
    /// is no loss, as long as it is little.
    fn find_rate(&self, kind: &str) -> Result<u64> {
        let router = self.router(kind, "poll")?;
        let mac = wan_mac(&router)?;
        let found = crate::soak::traffic::search(|rate| {
            let sent = self.traffic(kind, &mac, rate, TRIAL)?.end(TRIAL)?;
            eprintln!("{kind}: {rate} frames/s: {} sent, {} lost, {} not sent", sent.sent, sent.lost, sent.unsent);
            Ok(sent.lost * 100 <= sent.sent && sent.unsent * 20 <= sent.sent)
        })?;
        router.stop()?;
        Ok(found)
    }

    /// All loads, on a router of one policy.
    fn turn(&self, kind: &str, idle: &str, full: u64) -> Result<Vec<Sample>> {
        let router = self.router(kind, idle)?;
        let mac = wan_mac(&router)?;
        let samples: Result<Vec<Sample>> =
            self.args.loads.iter().map(|load| self.sample(&router, &mac, (kind, idle), *load, full)).collect();
        router.stop()?;
        samples
    }

    fn sample(&self, router: &Router, mac: &str, (kind, idle): (&str, &str), load: f64, full: u64) -> Result<Sample> {
        let seconds = self.args.seconds;
        wait_for(PATIENCE, "the worker", || Ok(Look::of(router.pid(), 0).ok()))?;
        let rate = (full as f64 * load / 100.0) as u64;
        let mut api = ApiClient::connect(router.socket())?;
        let before = received(&mut api)?;
        let traffic = (rate > 0).then(|| self.traffic(kind, mac, rate, seconds)).transpose()?;
        if traffic.is_some() {
            let begun = || Ok((received(&mut api)? > before + 1).then_some(()));
            wait_for(PATIENCE, "the first frames", begun)?;
        }
        let (first, then) = (Look::of(router.pid(), received(&mut api)?)?, Instant::now());
        sleep(Duration::from_secs_f64(seconds * 0.8));
        let (last, wall) = (Look::of(router.pid(), received(&mut api)?)?, then.elapsed().as_secs_f64());
        let sent = traffic.map(|traffic| traffic.end(seconds)).transpose()?.unwrap_or_default();
        let each = |of: fn(&Look) -> u64, unit: f64| (of(&last) - of(&first)) as f64 / unit / wall;
        Ok(Sample {
            port: kind.to_owned(),
            idle: idle.to_owned(),
            load,
            rate,
            cpu: each(|look| look.ran, 1e9),
            waited: each(|look| look.waited, 1e9),
            received: each(|look| look.received, 1.0),
            sent: sent.sent,
            lost: sent.lost,
            delays: sent.delays,
        })
    }

    fn router(&self, kind: &str, idle: &str) -> Result<Router> {
        let port = |side: &str| match kind {
            "socket" => format!("interface = \"power-{side}\""),
            "timer" => format!("interface = \"power-{side}\"\ndriver = \"dpdk:af_packet\""),
            // It wants as many receive as transmit queues: one for the worker, one for the slow path.
            _ => format!("device = \"net_tap_{side},iface=tap-{side}\"\nqueues = 2"),
        };
        let folder = self.world.folder();
        let text = format!(
            "[router]\nname = \"power\"\nidle = \"{idle}\"\nsocket = \"{}/power.sock\"\ncores = [{}]\n\n\
             [eal]\nhugepages = false\n\n[linux]\nfeed = \"none\"\n\n\
             [port.wan]\n{}\ntwin = false\naddresses = [\"10.0.1.1/24\"]\n\n\
             [port.lan]\n{}\ntwin = false\naddresses = [\"10.0.2.1/24\"]\n\n\
             [[neighbor]]\naddress = \"10.0.2.2\"\nmac = \"02:00:00:00:09:09\"\n",
            folder.display(),
            self.worker,
            port("wan"),
            port("lan")
        );
        let configuration = self.world.file("power.toml", &text)?;
        let router = Router::start(Launch {
            program: perigee_lab::program()?,
            place: Place::Router,
            configuration,
            arguments: Vec::new(),
            socket: folder.join("power.sock"),
            log: Some(folder.join("router.log")),
            patience: PATIENCE,
        })?;
        if kind == "interrupt" {
            for side in ["tap-wan", "tap-lan"] {
                self.world.ip(&format!("link set {side} addrgenmode none up"))?;
            }
        }
        Ok(router)
    }

    /// Starts to send `rate` frames per second for so many seconds.
    fn traffic(&self, kind: &str, mac: &str, rate: u64, seconds: f64) -> Result<Traffic> {
        let program = perigee_lab::program()?;
        let (mut command, [from, to]) = match kind {
            "interrupt" => (Command::new(&program), ["tap-wan", "tap-lan"]),
            _ => (Place::Host("tester".to_owned()).program(&program), SIDES),
        };
        command.args(["gen", from, "--to", to, "--destination-mac", mac, "--json", "--quiet", "--hugepages", "no"]);
        command.args(["--source", "10.0.1.2", "--destination", "10.0.2.2", "--flows", "64"]);
        command.args(["--source-port", "1024-2047", "--sizes", "64", "--rate", &format!("{rate}pps")]);
        command.args(["--seconds", &seconds.to_string(), "--cores", &self.tester.to_string()]);
        Ok(Traffic(Process::start(&mut command)?))
    }
}

/// A generator that runs.
struct Traffic(Process);

/// What a generator says at its end.
#[derive(Default)]
struct Sent {
    sent: u64,
    lost: u64,
    /// What it could not send in time.
    unsent: u64,
    delays: Option<[f64; 3]>,
}

impl Traffic {
    fn end(mut self, seconds: f64) -> Result<Sent> {
        // Doubts about the measurement are no failure.
        self.0.wait(PATIENCE + Duration::from_secs_f64(seconds))?;
        let text = self.0.stdout();
        let report: Value = serde_json::from_str(&text).with_context(|| format!("perigee gen: {}", self.0.said()))?;
        let number = |place: &str| report.pointer(place).and_then(Value::as_u64);
        let (sent, received) = (number("/sent/sent"), number("/received/counters/unique"));
        let (sent, received) = sent.zip(received).with_context(|| format!("perigee gen reports no frames: {text}"))?;
        let delay = |name: &str| report.pointer(&format!("/latency/{name}")).and_then(Value::as_f64);
        let delays = delay("p50_ns").zip(delay("p99_ns")).zip(delay("max_ns"));
        Ok(Sent {
            sent,
            lost: sent.saturating_sub(received),
            unsent: number("/sent/unsent").unwrap_or(0),
            delays: delays.map(|((median, p99), longest)| [median, p99, longest]),
        })
    }
}

fn wan_mac(router: &Router) -> Result<String> {
    let ports = ApiClient::connect(router.socket())?.ask(&ShowPorts {})?;
    Ok(ports.first().context("the router has no port")?.mac.to_string())
}

/// Frames that the first port has received.
fn received(api: &mut ApiClient) -> Result<u64> {
    Ok(api.ask(&ShowPorts {})?.first().context("the router has no port")?.counters.receive_packets)
}

/// What the worker has done so far.
struct Look {
    /// CPU time, in ns, and how long it was ready to run and had no core.
    ran: u64,
    waited: u64,
    received: u64,
}

impl Look {
    fn of(pid: u32, received: u64) -> Result<Look> {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("the router is gone")?;
        let is_worker = |task: &fs::DirEntry| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "worker-0")
        };
        let worker = tasks.flatten().find(is_worker).context("the router has no worker-0")?;
        let text = fs::read_to_string(worker.path().join("schedstat")).context("the kernel counts no CPU time")?;
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        ensure!(numbers.len() >= 2, "schedstat says {text:?}, expected three numbers");
        Ok(Look { ran: numbers[0], waited: numbers[1], received })
    }
}
