// SPDX-License-Identifier: MIT
//! Runs rows: this program starts itself again inside new namespaces, and there a router for each world that the rows
//! need.

use crate::bench::Bench;
use crate::judge::{Judged, Stop};
use crate::network::{self, Side, World};
use crate::rows::{ROWS, Row, Test};
use crate::target::{PATIENCE, Place, Running, Target};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use perigee_lab::tools::{self, Tool};
use perigee_lab::{Host, Place as Namespace, isolation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// The variable that gives the request to the process inside.
const INSIDE: &str = "PERIGEE_CONFORMANCE";
/// Worlds that run at the same time. Most of their time they wait.
const AT_ONCE: usize = 5;
/// Checksums left for a device to fill would arrive unfilled, and merged frames would not be those that were sent.
const OFF: &str = "tx off gro off gso off tso off";
const TOOLS: [Tool; 5] = [tools::IP, tools::UNSHARE, tools::NSENTER, tools::MOUNT, tools::ETHTOOL];
/// To users who may not make namespaces.
const SUDO: &str = "sudo ./x conformance";

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub target: Target,
    /// Places in [`ROWS`].
    pub rows: Vec<usize>,
    /// Two or three.
    pub links: usize,
    /// Whether the frames of rows that fail are listed.
    pub verbose: bool,
    /// Where captures of rows that fail are written.
    pub captures: Option<PathBuf>,
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    #[serde(rename = "pass")]
    Pass,
    #[serde(rename = "fail")]
    Fail,
    #[serde(rename = "n.a.")]
    NotApplicable,
}

impl Verdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::NotApplicable => "n.a.",
        }
    }
}

/// How a row ended, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Place in [`ROWS`].
    pub row: usize,
    pub verdict: Verdict,
    /// Empty if it passed.
    pub reason: String,
    /// The frames of the tests that failed.
    pub frames: Vec<String>,
}

impl Outcome {
    /// The row itself.
    pub fn row(&self) -> &'static Row {
        &ROWS[self.row]
    }
}

/// A line from the inside.
#[derive(Serialize, Deserialize)]
enum Line {
    Outcome(Outcome),
    /// Something went wrong beside the rows: a router that did not end well.
    Trouble(String),
}

/// What came of a request.
pub struct Report {
    /// In the order of the rows.
    pub outcomes: Vec<Outcome>,
    /// What went wrong beside the rows.
    pub trouble: Vec<String>,
}

/// Runs the rows; `each` is called for every outcome as soon as it is known.
///
/// # Errors
/// Namespaces are refused, a program is missing, or the inside ends early.
pub fn run(request: &Request, mut each: impl FnMut(&Outcome)) -> Result<Report> {
    let path = tools::search_path();
    tools::require(&TOOLS, &path, "the scoreboard")?;
    if matches!(request.target, Target::Perigee { .. }) {
        tools::require_tun(SUDO)?;
    }
    let folder = tempfile::Builder::new().prefix("perigee-conformance-").tempdir_in("/tmp")?;
    let mut command = isolation::inside(isolation::isolation(&path, SUDO)?, folder.path(), &path)?;
    command.env(INSIDE, serde_json::to_string(&(request, folder.path()))?).stdout(Stdio::piped());
    let mut child = command.spawn().context("unshare cannot be run")?;
    let out = child.stdout.take().context("what the inside prints cannot be read")?;
    let (mut outcomes, mut trouble) = (BTreeMap::new(), Vec::new());
    for line in BufReader::new(out).lines() {
        match serde_json::from_str(&line?).context("a line from the inside cannot be read")? {
            Line::Trouble(text) => trouble.push(text),
            Line::Outcome(outcome) => {
                each(&outcome);
                outcomes.insert(outcome.row, outcome);
            }
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "the inside of the namespaces ended with {status}; its message is above");
    if let Some(row) = request.rows.iter().find(|row| !outcomes.contains_key(row)) {
        bail!("the inside of the namespaces ended before row {}", ROWS[*row].name());
    }
    Ok(Report { outcomes: outcomes.into_values().collect(), trouble })
}

/// If this process is the one inside, runs what was asked for and returns its exit code.
pub fn inside() -> Option<ExitCode> {
    let request = std::env::var(INSIDE).ok()?;
    let done = serde_json::from_str(&request).map_err(Into::into).and_then(|(request, folder): (_, PathBuf)| {
        isolation::end_with_input(&folder)?;
        all(&request, &folder)
    });
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// The tests of one world, in the order of the rows: place of the row, test.
type Work = (World, Vec<(usize, Test)>);

/// Runs all worlds, several at once, and prints outcomes as soon as all tests of a row are over.
fn all(request: &Request, folder: &Path) -> Result<()> {
    let lab = perigee_lab::World::enter(folder)?;
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let lab = &lab;
        scope.spawn(move || {
            // The kernel has one table of neighbors for all namespaces, and would be short of room in other worlds too.
            let (alone, together): (Vec<Work>, Vec<Work>) =
                split(&request.rows).into_iter().partition(|(world, _)| *world == World::Exhausted);
            side_by_side(lab, request, together, &sender);
            side_by_side(lab, request, alone, &sender);
        });
        let mut open: BTreeMap<usize, (usize, Outcome)> = request.rows.iter().map(|row| (*row, begun(*row))).collect();
        for message in receiver {
            let line = match message {
                Message::Trouble(text) => Line::Trouble(text),
                Message::Part(row, judged, frames) => {
                    let Some((left, outcome)) = open.get_mut(&row) else { continue };
                    add(outcome, judged, frames);
                    *left -= 1;
                    if *left > 0 {
                        continue;
                    }
                    Line::Outcome(outcome.clone())
                }
            };
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
            out.flush()?;
        }
        Ok(())
    })
}

fn side_by_side(lab: &perigee_lab::World, request: &Request, work: Vec<Work>, sender: &Sender<Message>) {
    let work = Mutex::new(work.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            let (sender, work) = (sender.clone(), &work);
            scope.spawn(move || {
                let next = || work.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
                while let Some((world, tests)) = next() {
                    one(lab, request, world, &tests, &sender);
                }
            });
        }
    });
}

fn begun(row: usize) -> (usize, Outcome) {
    let outcome = Outcome { row, verdict: Verdict::Pass, reason: String::new(), frames: Vec::new() };
    (ROWS[row].tests.len(), outcome)
}

/// Adds a test's end to its row's: a failure counts most, then that it does not apply.
fn add(outcome: &mut Outcome, judged: Judged, frames: Vec<String>) {
    let (verdict, reason) = match judged {
        Ok(()) => return,
        Err(Stop::Fail(reason)) => (Verdict::Fail, reason),
        Err(Stop::NotApplicable(reason)) if outcome.verdict == Verdict::Pass => (Verdict::NotApplicable, reason),
        Err(Stop::NotApplicable(_)) => return,
    };
    if outcome.verdict == Verdict::Fail {
        if !outcome.reason.contains(&reason) {
            outcome.reason += "; ";
            outcome.reason += &reason;
        }
    } else {
        (outcome.verdict, outcome.reason) = (verdict, reason);
    }
    outcome.frames.extend(frames);
}

/// The tests of these rows by their worlds.
fn split(rows: &[usize]) -> Vec<Work> {
    let of = |world: World| {
        let tests = rows.iter().flat_map(move |row| ROWS[*row].tests.iter().map(move |test| (*row, *test)));
        tests.filter(|(_, test)| test.world == world).collect::<Vec<_>>()
    };
    World::ALL.into_iter().map(|world| (world, of(world))).filter(|(_, tests)| !tests.is_empty()).collect()
}

/// From a world's thread.
enum Message {
    Part(usize, Judged, Vec<String>),
    Trouble(String),
}

/// Runs the tests of one world. What cannot be sent is not missed: nobody listens any more.
fn one(lab: &perigee_lab::World, request: &Request, world: World, tests: &[(usize, Test)], to: &Sender<Message>) {
    let begun = Instant::now();
    let (mut bench, mut running) = match start(lab, request, world) {
        Ok(started) => started,
        Err(stop) => {
            for (row, _) in tests {
                let _ = to.send(Message::Part(*row, Err(stop.clone()), Vec::new()));
            }
            return;
        }
    };
    for (row, test) in tests {
        bench.record.clear();
        bench.answer_as_usual();
        let judged = bench.begin().map_err(Stop::from).and_then(|()| (test.body)(&mut bench));
        // Why it fails is known better if the router has ended.
        let judged = judged.or_else(|stop| running.check().and(Err(stop)));
        let mut frames = Vec::new();
        if matches!(judged, Err(Stop::Fail(_))) {
            if request.verbose {
                frames = bench.record.lines();
            }
            let name = format!("{}-{}", ROWS[*row].name().replace('/', "-"), world.name());
            let written = request.captures.as_ref().map(|folder| bench.record.write(folder, &name));
            if let Some(Err(error)) = written {
                let _ = to.send(Message::Trouble(format!("{error:#}")));
            }
        }
        let _ = to.send(Message::Part(*row, judged, frames));
    }
    if request.verbose {
        eprintln!("world {}: {} tests, {:.1} s", world.name(), tests.len(), begun.elapsed().as_secs_f64());
    }
    if let Err(error) = running.stop() {
        let _ = to.send(Message::Trouble(format!("world {}: {error:#}", world.name())));
    }
}

/// Makes a world's links and starts its router.
fn start(lab: &perigee_lab::World, request: &Request, world: World) -> Judged<(Bench, Running)> {
    let sides = &Side::ALL[..request.links];
    let host = lab.namespace(world.name())?;
    for (index, side) in (0..).zip(sides) {
        connect(lab, &host, world, *side, index)?;
        if request.target.forwards_in_kernel() {
            // What an XDP program redirects to the near end is sent only then; single packets are not merged.
            let far = far_end(world, *side);
            perigee_lab::run(&mut Namespace::Router.command(&format!("ethtool -K {far} gro on"))).output()?;
        }
        let near = side.interface();
        if request.target != Target::Linux {
            // What comes from there comes from the router that is tested.
            host.run(&format!("ip link set {near} addrgenmode none")).output()?;
        }
        host.run(&format!("ip link set {near} up")).output()?;
    }
    for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        host.set(name, "0")?;
    }
    let mut bench = Bench::open(world, sides, |side| far_end(world, side))?;
    let place = Place { world, host: &host, sides, folder: lab.folder() };
    // Meanwhile the stations answer, as they would.
    let started = std::thread::scope(|scope| {
        let starting = scope.spawn(|| request.target.start(&place));
        while !starting.is_finished() {
            bench.listen(Duration::from_millis(10))?;
        }
        starting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let mut running = started?;
    let begun = Instant::now();
    loop {
        match bench.ready(Duration::from_secs(1)) {
            Ok(()) => break,
            Err(error) => {
                running.check()?;
                if begun.elapsed() > PATIENCE {
                    return Err(anyhow!("{error:#} within {} s", PATIENCE.as_secs()).into());
                }
            }
        }
    }
    bench.started();
    Ok((bench, running))
}

/// The station's end of a link, in our namespace.
fn far_end(world: World, side: Side) -> String {
    format!("s{}-{side}", world as u8)
}

/// Makes a link, a veth pair, the far end up and the near one in the router's namespace.
fn connect(lab: &perigee_lab::World, host: &Host, world: World, side: Side, index: u32) -> Result<()> {
    let (near, far, name) = (side.interface(), far_end(world, side), host.name());
    let (router, station) = (network::mac(world, side, 1), network::mac(world, side, 2));
    // DPDK numbers groups of packet sockets by process XOR interface, and two that meet in a group share their frames:
    // so the numbers are far apart.
    let number = (index + 1) << 12;
    // The far end's MTU is the largest that is sent there: with a larger one veth refuses the program of af_xdp at the
    // near one.
    lab.ip(&format!(
        "link add {far} address {station} mtu 1500 type veth \
         peer name {near} index {number} address {router} mtu {} netns {name}",
        side.mtu()
    ))
    .context("two namespaces cannot be connected; `sudo modprobe veth` loads the driver")?;
    perigee_lab::run(&mut Namespace::Router.command(&format!("ethtool -K {far} {OFF}"))).output()?;
    host.run(&format!("ethtool -K {near} {OFF}")).output()?;
    // Nobody but the runner speaks at the far end.
    let quiet = format!("/proc/sys/net/ipv6/conf/{far}/disable_ipv6");
    std::fs::write(&quiet, "1").with_context(|| format!("{quiet} cannot be set"))?;
    lab.ip(&format!("link set {far} arp off up"))?;
    Ok(())
}
