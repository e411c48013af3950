// SPDX-License-Identifier: MIT
//! BIRD beside the router and on the server: BGP over perigee's twins, and what becomes of the routes.

use super::probes::{self, Ping};
use super::progress::step;
use super::report::grouped;
use super::router::Router;
use super::tools::{self, on, run};
use super::world::{CLIENT, SERVER};
use super::{account, account::Accounts};
use anyhow::{Context, Result, bail};
use perigee_api::answers::RouteList;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Routes that the server announces: 20.0.0.0/24, 20.0.1.0/24, ...
pub const ROUTES: usize = 10_000;
/// All of them lie in here.
const WITHIN: &str = "20.0.0.0/8";
/// Announced networks that are pinged: as many in the half that stays as in the one that is withdrawn.
const PINGED: usize = 6;
/// How long a session may take to come up, and routes to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// The control socket of the router's BIRD, in the temporary folder.
pub const ROUTER_SOCKET: &str = "router-bird.ctl";
/// That of the server's.
pub const SERVER_SOCKET: &str = "server-bird.ctl";

/// After an event: how many routes there are, and since when.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Routes of BIRD in the kernel.
    pub linux: u64,
    /// The same in perigee.
    pub perigee: u64,
    /// From the event to the last route in perigee.
    pub seconds: f64,
}

/// Everything that was found out.
pub struct Results {
    /// Seconds from the start of both BIRDs to the session.
    pub session: f64,
    pub announced: Table,
    pub pings: Vec<(String, Ping)>,
    pub withdrawn: Table,
    /// Networks that still answer, and those that the router says it has no route to.
    pub left: u64,
    pub no_route: u64,
    pub again: Table,
    pub pings_again: Vec<(String, Ping)>,
    pub accounts: Accounts,
}

/// Runs the demonstration.
pub fn probe(router: &Router, folder: &Path) -> Result<Results> {
    let server = Bird { place: Some(SERVER.name), name: "server-bird", folder: folder.to_owned() };
    let own = Bird { place: None, name: "router-bird", folder: folder.to_owned() };
    let session = step("BIRD beside perigee and on the server: a BGP session", || session(&own, &server))?;
    let announced = step(&format!("{} routes announced", grouped(ROUTES as u64)), || {
        arrive(router, ROUTES, || server.ask("enable lower; enable upper"))
    })?;
    let title = format!("ping {PINGED} of these networks, through perigee");
    let pings = step(&title, || addresses().map(ping).collect::<Result<Vec<_>>>())?;
    let withdrawn = step(&format!("{} of them withdrawn", grouped(ROUTES as u64 / 2)), || {
        arrive(router, ROUTES / 2, || server.ask("disable upper"))
    })?;
    let (left, no_route) = step("ping the same: half of them have no route now", which_answer)?;
    let again = step("announced again", || arrive(router, ROUTES, || server.ask("enable upper")))?;
    let title = format!("ping {PINGED} of these networks, through perigee");
    let pings_again = step(&title, || addresses().map(ping).collect::<Result<Vec<_>>>())?;
    let accounts = step("perigee's counters against those of client and server", || account::settled(router))?;
    Ok(Results { session, announced, pings, withdrawn, left, no_route, again, pings_again, accounts })
}

/// Starts both and waits for the session.
fn session(own: &Bird, server: &Bird) -> Result<f64> {
    // The server answers for whatever it announces.
    run(&on(SERVER.name, &format!("ip route add local {WITHIN} dev lo")))?;
    server.start(&server_configuration())?;
    own.start(&router_configuration())?;
    let start = Instant::now();
    loop {
        let said = own.says("show protocols to_server")?;
        if said.contains("Established") {
            return Ok(start.elapsed().as_secs_f64());
        }
        if start.elapsed() > PATIENCE {
            bail!("no BGP session after {} s: {}", PATIENCE.as_secs(), said.replace('\n', " "));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Does something that changes the routes, and waits until perigee has as many as it should.
fn arrive(router: &Router, wanted: usize, event: impl FnOnce() -> Result<()>) -> Result<Table> {
    let api = router.api()?;
    let start = Instant::now();
    event()?;
    loop {
        let list: RouteList = api.get(&format!("/v1/routes?within={WITHIN}&limit=1"))?;
        let seconds = start.elapsed().as_secs_f64();
        if list.total == wanted as u64 {
            let linux = run("ip -4 -oneline route show proto bird root 20.0.0.0/8")?.lines().count() as u64;
            return Ok(Table { linux, perigee: list.total, seconds });
        }
        if start.elapsed() > PATIENCE {
            bail!("perigee has {} of {wanted} routes after {} s", list.total, PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The numbers of the networks that are pinged, from the first to the last.
fn pinged() -> impl Iterator<Item = usize> {
    (0..PINGED).map(|number| number * (ROUTES - 1) / (PINGED - 1))
}

/// Addresses in them.
fn addresses() -> impl Iterator<Item = String> {
    pinged().map(|number| network(number).replace(".0/24", ".1"))
}

/// How many answer, and how many have no route, while the second half is withdrawn.
fn which_answer() -> Result<(u64, u64)> {
    let (mut left, mut no_route) = (0, 0);
    for (number, address) in pinged().zip(addresses()) {
        match (number < ROUTES / 2, answers(&address)?) {
            (true, true) => left += 1,
            (false, false) => no_route += 1,
            (true, false) => bail!("perigee has lost the route to {address}, which was not withdrawn"),
            (false, true) => bail!("perigee still forwards to {address}, whose route was withdrawn"),
        }
    }
    Ok((left, no_route))
}

fn ping(address: String) -> Result<(String, Ping)> {
    let ping = probes::ping(&address, 5)?;
    Ok((address, ping))
}

/// Whether an address answers the client; if not, the router must say that it has no route.
fn answers(address: &str) -> Result<bool> {
    let words = on(CLIENT.name, &format!("ping -n -c 1 -W 5 {address}"));
    let output = tools::output(&words)?;
    let said = String::from_utf8_lossy(&output.stdout);
    match (output.status.success(), said.contains("Destination Net Unreachable")) {
        (true, _) => Ok(true),
        (false, true) => Ok(false),
        (false, false) => bail!("`{words}` was to be answered, by the server or the router: {said}"),
    }
}

/// A BIRD; it ends with the namespace of processes.
struct Bird {
    /// Its host; the router's namespace if there is none.
    place: Option<&'static str>,
    name: &'static str,
    folder: PathBuf,
}

impl Bird {
    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.name))
    }

    fn start(&self, configuration: &str) -> Result<()> {
        fs::write(self.file("conf"), configuration)?;
        let log = File::create(self.file("log"))?;
        let words = format!("bird -f -c {} -s {}", self.file("conf").display(), self.file("ctl").display());
        let words = self.place.map_or(words.clone(), |host| on(host, &words));
        let mut child = tools::command(&words).stdout(log.try_clone()?).stderr(log).spawn()?;
        let start = Instant::now();
        while !self.says("show status").is_ok_and(|said| said.contains("Daemon is up")) {
            let log = || fs::read_to_string(self.file("log")).unwrap_or_default();
            if let Some(status) = child.try_wait()? {
                bail!("`{words}` ended with {status}: {}", log().trim());
            }
            if start.elapsed() > PATIENCE {
                bail!("`{words}` does not answer: {}", log().trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn says(&self, words: &str) -> Result<String> {
        run(&format!("birdc -s {} {words}", self.file("ctl").display()))
    }

    /// Several commands, separated by semicolons.
    fn ask(&self, commands: &str) -> Result<()> {
        commands.split(';').try_for_each(|words| {
            self.says(words.trim()).map(|_| ()).with_context(|| format!("the BIRD of {}", self.name))
        })
    }
}

fn network(number: usize) -> String {
    format!("20.{}.{}.0/24", number / 256, number % 256)
}

/// The server's: two sources of routes, which start when they are told to.
fn server_configuration() -> String {
    let (own, router) = (SERVER.v4, SERVER.router_v4);
    let mut text = format!(
        "# SPDX-License-Identifier: MIT\n# BIRD on the server.\nlog stderr all;\nrouter id {own};\n\
         protocol device {{ }}\n\
         protocol bgp to_router {{\n  local {own} as 65002;\n  neighbor {router} as 65001;\n  {TIMERS}\n  \
         ipv4 {{ import none; export all; }};\n}}\n"
    );
    for (name, numbers) in [("lower", 0..ROUTES / 2), ("upper", ROUTES / 2..ROUTES)] {
        let _ = writeln!(text, "protocol static {name} {{\n  disabled;\n  ipv4;");
        for number in numbers {
            let _ = writeln!(text, "  route {} blackhole;", network(number));
        }
        text += "}\n";
    }
    text
}

/// The router's: what it learns goes into Linux' table, and perigee follows that.
fn router_configuration() -> String {
    let (own, server) = (SERVER.router_v4, SERVER.v4);
    format!(
        "# SPDX-License-Identifier: MIT\n# BIRD beside perigee, on its twins.\nlog stderr all;\nrouter id {own};\n\
         protocol device {{ }}\n\
         protocol kernel {{\n  ipv4 {{ import none; export all; }};\n}}\n\
         protocol bgp to_server {{\n  local {own} as 65001;\n  neighbor {server} as 65002;\n  {TIMERS}\n  \
         ipv4 {{ import all; export none; }};\n}}\n"
    )
}

/// As soon as both are there.
const TIMERS: &str = "connect delay time 1; connect retry time 2; error wait time 1, 2;";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_pinged_networks_are_withdrawn() {
        assert_eq!(pinged().filter(|number| *number < ROUTES / 2).count(), PINGED / 2);
        assert_eq!(addresses().last().as_deref(), Some("20.39.15.1"));
        let text = server_configuration();
        let (first, second) = text.split_once("protocol static upper").expect("both halves");
        assert_eq!([first, second].map(|half| half.matches("blackhole").count()), [ROUTES / 2; 2]);
    }
}
