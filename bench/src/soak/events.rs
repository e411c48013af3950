// SPDX-License-Identifier: MIT
//! What happens to the router meanwhile. Each event leaves things as it found them, or the next one of its kind does.

use super::hostile::Hostile;
use anyhow::{Context as _, Result, ensure};
use perigee_fib::synth::Random;
use perigee_lab::seen;
use perigee_lab::{Bird, Ended, Host, Process, Router, World, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Routes that one event adds or removes.
const ROUTES: u32 = 1000;
/// How long something that was killed or deleted may take to be there again.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is disturbed.
pub struct Scene<'a> {
    pub world: &'a World,
    pub router: &'a Router,
    /// The router on the third port.
    pub peer: &'a Host,
    /// BIRD beside the router.
    pub bird: Bird,
    /// The fast path, as a file that is loaded again.
    pub script: PathBuf,
    /// Scripts that do not return, and their like.
    pub hostile: Hostile,
    /// The configuration, and what of it changes.
    pub configuration: PathBuf,
    pub text: String,
    /// Whether the routes of Linux, and those of the API, are there.
    pub linux_routes: bool,
    pub api_routes: bool,
    pub reloads: u64,
    /// Captures that run.
    pub captures: Vec<Process>,
}

/// How often each event happened, and what went wrong.
#[derive(Debug, Default)]
pub struct Happened {
    pub counts: BTreeMap<&'static str, u64>,
    pub failures: Vec<String>,
}

/// What happens to a scene.
type Event<'a> = fn(&mut Scene<'a>) -> Result<()>;

impl<'a> Scene<'a> {
    /// The events by name.
    fn events() -> [(&'static str, Event<'a>); 14] {
        [
            ("script reloaded", Self::reload_script),
            ("hostile script refused or taken back", Self::load_hostile_script),
            ("configuration reloaded", Self::reload_configuration),
            ("1,000 routes of Linux added or removed", Self::change_linux_routes),
            ("20 routes of the API added or removed", Self::change_api_routes),
            ("link of the third port down and up", Self::flap_link),
            ("interface of the third port deleted and made again", Self::remake_interface),
            ("twin deleted", Self::delete_twin),
            ("twin set down and up", Self::flap_twin),
            ("BIRD killed and started again", Self::kill_bird),
            ("helper killed", Self::kill_helper),
            ("capture of a second", Self::capture),
            ("neighbors flushed", Self::flush_neighbors),
            ("everything shown", Self::show),
        ]
    }

    /// Lets one event happen.
    pub fn disturb(&mut self, random: &mut Random, happened: &mut Happened) {
        let events = Self::events();
        let (name, event) = events[random.below(events.len() as u32) as usize];
        *happened.counts.entry(name).or_default() += 1;
        if let Err(error) = event(self) {
            happened.failures.push(format!("{name}: {error:#}"));
        }
    }

    /// Fails unless everything comes back that events took away: the twins, BGP's routes, the way to the peer, and no
    /// difference between what the router has and what it should have.
    pub fn settled(&self) -> Result<()> {
        let shows = |what: &str, found: &str| Ok(self.ask(what)?.contains(found));
        wait_until(PATIENCE, "the peer's routes by BGP", || {
            shows("show routes --within 30.1.243.0/24", "30.1.243.0/24")
        })?;
        wait_until(PATIENCE, "the twins", || {
            let links = self.world.ip("-br link")?;
            Ok(["wan ", "lan ", "flap "].iter().all(|twin| links.lines().any(|line| line.starts_with(twin))))
        })?;
        let reload = format!("198.18.{}.0/24", self.reloads % 256);
        let reloaded = self.reloads == 0 || shows(&format!("show routes --within {reload}"), &reload)?;
        ensure!(reloaded, "{reload}, which the last reload added, is not there");
        let pinged = self.peer.run("ping -n -c 3 -i 0.2 -W 2 10.0.3.1");
        ensure!(pinged.code == Some(0), "the peer does not reach the router: {}", pinged.text);
        let ended = self.router.ask("audit");
        ensure!(ended.code == Some(0), "the audit finds differences: {}", ended.text);
        Ok(())
    }

    /// Ends what still runs.
    pub fn end(&mut self) -> Result<()> {
        for mut capture in self.captures.drain(..) {
            let _ = capture.signal(Signal::TERM); // it may have ended by itself
            capture.wait(PATIENCE)?;
        }
        Ok(())
    }

    fn ask(&self, words: &str) -> Result<String> {
        good(self.router.ask(words))
    }

    fn reload_script(&mut self) -> Result<()> {
        let words = format!("reload {}", self.script.display());
        self.ask(&words).map(drop)
    }

    fn load_hostile_script(&mut self) -> Result<()> {
        self.hostile.load_next(self.router, &self.script)
    }

    fn reload_configuration(&mut self) -> Result<()> {
        self.reloads += 1;
        let route = format!("\n[[route]]\nprefix = \"198.18.{}.0/24\"\nvia = \"10.0.3.2\"\n", self.reloads % 256);
        std::fs::write(&self.configuration, format!("{}{route}", self.text))?;
        self.ask("reload").map(drop)
    }

    fn change_linux_routes(&mut self) -> Result<()> {
        let verb = if self.linux_routes { "del" } else { "add" };
        let mut batch = String::new();
        for i in 0..ROUTES {
            let _ = writeln!(batch, "route {verb} 20.{}.{}.0/24 via 10.0.1.77 dev wan onlink", i >> 8, i & 255);
        }
        let file = self.world.file("batch", &batch)?;
        // Some of what is to be deleted may be gone with a twin's link.
        let done = self.world.ip(&format!("-force -batch {}", file.display()));
        self.linux_routes = !self.linux_routes;
        if self.linux_routes { done.map(drop) } else { Ok(()) }
    }

    fn change_api_routes(&mut self) -> Result<()> {
        self.api_routes = !self.api_routes;
        let verb = if self.api_routes { "add" } else { "del" };
        (0..20).try_for_each(|i| {
            let via = if self.api_routes { " via 10.0.2.2" } else { "" };
            self.ask(&format!("route {verb} 198.51.{i}.0/24{via}")).map(drop)
        })
    }

    fn flap_link(&mut self) -> Result<()> {
        self.world.ip(&format!("-n {} link set eth0 down", self.peer.name()))?;
        self.world.ip(&format!("-n {} link set eth0 up", self.peer.name())).map(drop)
    }

    fn remake_interface(&mut self) -> Result<()> {
        self.world.ip("link del soak-flap")?;
        connect_peer(self.world, self.peer)
    }

    fn delete_twin(&mut self) -> Result<()> {
        self.world.ip("link del flap")?;
        wait_until(PATIENCE, "the twin to be made again", || Ok(self.world.ip("-br link")?.contains("flap ")))
    }

    fn flap_twin(&mut self) -> Result<()> {
        self.world.ip("link set flap down")?;
        self.world.ip("link set flap up").map(drop)
    }

    fn kill_bird(&mut self) -> Result<()> {
        self.bird.kill()?;
        self.bird.restart()
    }

    /// The helper, not its standby, which is the younger one; and waits until there are two again.
    fn kill_helper(&mut self) -> Result<()> {
        wait_until(PATIENCE, "helper and standby", || Ok(seen::helpers()?.len() == 2))?;
        let before = seen::helpers()?;
        let helper =
            before.first().and_then(|helper| Pid::from_raw(helper.pid as i32)).context("there is no helper")?;
        kill_process(helper, Signal::KILL)?;
        wait_until(PATIENCE, "helper and standby", || {
            let now = seen::helpers()?;
            Ok(now.len() == 2 && now.iter().all(|helper| helper.pid != before[0].pid))
        })
    }

    fn capture(&mut self) -> Result<()> {
        self.end()?;
        let program = perigee_lab::program()?;
        let file = self.world.folder().join("soak.pcapng");
        let mut command = perigee_lab::Place::Router.program(program);
        command.args(["capture", "wan", "--count", "2000", "--snaplen", "96", "--write"]).arg(file);
        self.captures.push(Process::start(command.arg("--socket").arg(self.router.socket()))?);
        std::thread::sleep(Duration::from_secs(1));
        self.end()
    }

    fn flush_neighbors(&mut self) -> Result<()> {
        self.ask("neighbor flush").map(drop)
    }

    fn show(&mut self) -> Result<()> {
        ["ports", "workers", "drops", "modules", "neighbors", "routes --limit 50", "linux", "slowpath", "metrics"]
            .iter()
            .try_for_each(|what| self.ask(&format!("show {what}")).map(drop))
    }
}

/// A cable from the peer's `eth0` to the router's third port.
pub fn connect_peer(world: &World, peer: &Host) -> Result<()> {
    let name = peer.name();
    world.ip(&format!("link add soak-flap type veth peer name eth0 netns {name}"))?;
    world.ip("link set soak-flap addrgenmode none")?;
    world.ip(&format!("-n {name} addr add 10.0.3.2/24 dev eth0"))?;
    world.ip(&format!("-n {name} link set eth0 up")).map(drop)
}

fn good(ended: Ended) -> Result<String> {
    ended.output()
}
