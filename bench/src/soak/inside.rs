// SPDX-License-Identifier: MIT
//! The first process inside: builds the scene, runs traffic and events, looks, and judges.

use super::events::{self, Happened, Scene};
use super::hostile::Hostile;
use super::report::{self, Ledger, Results};
use super::samples::{Sample, Watch};
use super::traffic::{self, SIDES};
use super::{SoakArgs, TEXT};
use crate::isolated;
use anyhow::{Context as _, Result};
use perigee_api::answers::PortStatus;
use perigee_api::client::ApiClient;
use perigee_api::queries::{ShowDrops, ShowPorts};
use perigee_dpdk as dpdk;
use perigee_fib::synth::Random;
use perigee_lab::{Host, Launch, Place, Router, World, isolation};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the router may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// Seconds between two samples.
const SAMPLE: f64 = 5.0;
/// Seconds without events before the end: the tester listens for half a second after its last frame, and a script that
/// does not return holds frames for longer.
const QUIET: f64 = 5.0;
/// How long memory has to go back once the traffic is over.
const REST: Duration = Duration::from_secs(60);

/// The default script.
const FAST_PATH: &str = include_str!("../../../lua/fastpath.lua");

/// The BIRDs: the peer announces 500 routes.
const ROUTER_BIRD: &str = "router id 10.0.3.1;\nprotocol device {}\n\
    protocol kernel { ipv4 { import none; export all; }; }\n\
    protocol bgp peer { local 10.0.3.1 as 65001; neighbor 10.0.3.2 as 65002; ipv4 { import all; export none; }; }\n";

fn peer_bird() -> String {
    let routes: String = (0..500).map(|i| format!("route 30.{}.{}.0/24 blackhole;\n", i >> 8, i & 255)).collect();
    format!(
        "router id 10.0.3.2;\nprotocol device {{}}\nprotocol static many {{ ipv4; {routes} }}\n\
         protocol bgp perigee {{ local 10.0.3.2 as 65002; neighbor 10.0.3.1 as 65001; \
         ipv4 {{ import none; export all; }}; }}\n"
    )
}

/// Which core does what.
struct Cores {
    worker: usize,
    tester: usize,
}

impl Cores {
    fn new() -> Result<Cores> {
        let usable = dpdk::usable_cores();
        let worker = *usable.last().context("no core may be used")?;
        let tester = usable[0];
        Ok(Cores { worker, tester })
    }
}

/// Runs it; the report is left in the folder.
pub fn run(args: &SoakArgs, folder: &Path) -> Result<ExitCode> {
    isolation::end_with_input(folder)?;
    let world = isolated::world(folder)?;
    let cores = Cores::new()?;
    let alone = spin_alone(&cores);
    let (tester, peer) = (tester(&world)?, world.namespace("peer")?);
    events::connect_peer(&world, &peer)?;
    let interfaces = world.ip("-br link")?;
    let text = configuration(&world, &cores)?;
    let configuration = world.file("soak.toml", &text)?;
    let script = world.file("fastpath.lua", FAST_PATH)?;
    let hostile = Hostile::write(&world, FAST_PATH)?;
    let started = Instant::now();
    let router = start(folder, &configuration)?;
    let start_seconds = started.elapsed().as_secs_f64();
    let mut api = ApiClient::connect(router.socket())?;
    let mac = port(&mut api, "wan")?.mac.to_string();
    let found = match args.rate {
        Some(_) => None,
        None => Some(find_rate(&tester, &mac, &cores)?),
    };
    let rate = args.rate.or(found.map(|found| found * 9 / 10)).context("no rate")?;
    let bird = world.bird(ROUTER_BIRD)?;
    let _peer_bird = Host::bird(&peer, &peer_bird()).context("the peer's BIRD")?;
    let scene = Scene {
        world: &world,
        router: &router,
        peer: &peer,
        bird,
        script,
        hostile,
        configuration,
        text,
        linux_routes: false,
        api_routes: false,
        reloads: 0,
        captures: Vec::new(),
    };
    let mut results = soak(args, scene, &tester, (&mac, rate), &cores)?;
    (results.found, results.rate, results.alone, results.start_seconds) = (found, rate, alone, start_seconds);
    let stopping = Instant::now();
    let stopped = router.stop();
    results.stop_seconds = stopping.elapsed().as_secs_f64();
    results.note("the end of the router", stopped.map(drop));
    let now = world.ip("-br link")?;
    let same = sorted(&now) == sorted(&interfaces);
    results.note("interfaces as before", same.then_some(()).with_context(|| format!("{interfaces}\nnow\n{now}")));
    fs::write(folder.join(TEXT), report::text(args, &results))?;
    Ok(if results.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Names and states of interfaces, without the cable of the third port, which was made again.
fn sorted(list: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = list.lines().filter(|line| !line.starts_with("soak-flap")).collect();
    lines.sort_unstable();
    lines
}

/// The longest gap of a thread that only looks at the clock, on the worker's core, before there is a worker, in ns.
fn spin_alone(cores: &Cores) -> u64 {
    let spin = || {
        let _ = dpdk::pin_current_thread(cores.worker);
        let began = Instant::now();
        let (mut last, mut longest) = (began, Duration::ZERO);
        while began.elapsed() < Duration::from_secs(5) {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
        }
        longest.as_nanos() as u64
    };
    std::thread::scope(|scope| scope.spawn(spin).join().unwrap_or(0))
}

/// The tester: both ends of its cables, silent.
fn tester(world: &World) -> Result<Host> {
    let tester = world.namespace("tester")?;
    for (side, port) in SIDES.iter().zip(["soak-wan", "soak-lan"]) {
        world.ip(&format!("link add {port} type veth peer name {side} netns tester"))?;
        world.ip(&format!("link set {port} addrgenmode none"))?;
        world.ip(&format!("-n tester link set {side} addrgenmode none"))?;
        world.ip(&format!("-n tester link set {side} up"))?;
    }
    Ok(tester)
}

fn configuration(world: &World, cores: &Cores) -> Result<String> {
    let shown = world.ip("-n tester -o link show dev tester-lan")?;
    let mac = shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).context("a MAC address")?;
    let folder = world.folder().display();
    Ok(format!(
        "[router]\nname = \"soak\"\nidle = \"poll\"\nsocket = \"{folder}/soak.sock\"\nscript = \"{folder}/fastpath.lua\"\n\n\
         [eal]\nhugepages = false\n\n\
         [port.wan]\ninterface = \"soak-wan\"\naddresses = [\"10.0.1.1/24\"]\n\n\
         [port.lan]\ninterface = \"soak-lan\"\naddresses = [\"10.0.2.1/24\"]\n\n\
         [port.flap]\ninterface = \"soak-flap\"\naddresses = [\"10.0.3.1/24\"]\n\n\
         [[neighbor]]\naddress = \"10.0.2.2\"\nmac = \"{mac}\"\n\n\
         [[worker]]\ncore = {}\n",
        cores.worker
    ))
}

fn start(folder: &Path, configuration: &Path) -> Result<Router> {
    Router::start(Launch {
        program: perigee_lab::program()?,
        place: Place::Router,
        configuration: configuration.to_owned(),
        arguments: Vec::new(),
        socket: folder.join("soak.sock"),
        log: Some(folder.join("router.log")),
        patience: PATIENCE,
    })
}

fn port(api: &mut ApiClient, name: &str) -> Result<PortStatus> {
    let ports = api.ask(&ShowPorts {})?;
    ports.into_iter().find(|port| port.name == name).with_context(|| format!("there is no port {name}"))
}

/// The counters of the router and of the tester's interface now.
fn ledger(api: &ApiClient, world: &World) -> Result<Ledger> {
    let mut ledger = Ledger::of(&api.ask(&ShowPorts {})?, &api.ask(&ShowDrops {})?);
    let [_, to] = SIDES;
    let shown: serde_json::Value = serde_json::from_str(&world.ip(&format!("-n tester -s -j link show dev {to}"))?)?;
    let counter = |name: &str| shown.pointer(&format!("/0/stats64/rx/{name}")).and_then(serde_json::Value::as_u64);
    let dropped = counter("dropped").zip(counter("over_errors")).context("ip shows no counters of the tester")?;
    ledger.note_tester(dropped.0 + dropped.1);
    Ok(ledger)
}

/// The highest rate without loss. What the tester itself could not send in time is no loss, as long as it is little:
/// the machine stands still for milliseconds at any rate.
fn find_rate(tester: &Host, mac: &str, cores: &Cores) -> Result<u64> {
    traffic::search(|rate| {
        let stream = traffic::start(tester, mac, rate, 3.0, cores.tester)?;
        let outcome = traffic::finish(stream, PATIENCE)?;
        eprintln!("{rate} frames/s: {} sent, {} lost, {} not sent", outcome.sent, outcome.lost(), outcome.unsent);
        Ok(outcome.lost() == 0 && outcome.unsent * 20 <= outcome.sent)
    })
}

/// Traffic, events and samples, until the time is up.
fn soak(
    args: &SoakArgs,
    mut scene: Scene<'_>,
    tester: &Host,
    (mac, rate): (&str, u64),
    cores: &Cores,
) -> Result<Results> {
    let seconds = args.minutes * 60.0;
    let api = ApiClient::connect(scene.router.socket())?;
    let before = ledger(&api, scene.world)?;
    let stream = traffic::start(tester, mac, rate, seconds, cores.tester)?;
    let sampling = ApiClient::connect(scene.router.socket())?;
    let (pid, began) = (scene.router.pid(), Instant::now());
    let watch = Watch::start(pid, cores.worker, sampling)?;
    let (mut random, mut happened, mut samples) = (Random::new(args.seed), Happened::default(), Vec::new());
    let mut next_event = args.pause;
    let elapsed = || began.elapsed().as_secs_f64();
    while elapsed() < seconds {
        let now = elapsed();
        if now >= next_event && (now < seconds - QUIET || seconds < 2.0 * QUIET) {
            scene.disturb(&mut random, &mut happened);
            // Between nothing and twice the pause.
            next_event = elapsed() + args.pause * f64::from(random.below(2000)) / 1000.0;
        }
        if samples.last().is_none_or(|last: &Sample| now >= last.seconds + SAMPLE) {
            samples.push(Sample::look(pid, began)?);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let stopped_scripts = scene.hostile.stopped();
    let outcome = traffic::finish(stream, Duration::from_secs_f64(seconds) + PATIENCE)?;
    let watched = watch.finish()?;
    scene.end()?;
    let after = ledger(&api, scene.world)?;
    std::thread::sleep(REST.min(Duration::from_secs_f64(seconds)));
    let rested = Sample::look(pid, began)?;
    let ledger = after.since(&before);
    let mut results = Results { outcome, samples, watched, rested, ledger, stopped_scripts, ..Results::default() };
    results.note("the end", scene.settled());
    results.happened = happened;
    Ok(results)
}
