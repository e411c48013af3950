// SPDX-License-Identifier: MIT
//! BIRD next to the router and on the server: BGP over perigee's twins, and what happens to the routes.

use super::probes;
use super::progress::step;
use super::world::{Network, SERVER};
use super::{account, account::Accounts, router};
use anyhow::{Result, bail};
use indicatif::HumanCount;
use perigee_api::queries::ShowRoutes;
use perigee_lab::bird::{Channel, Configuration, Session};
use perigee_lab::{Bird, Host, Replies, Router, patient};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Routes that the server announces: 20.0.0.0/24, 20.0.1.0/24, ...
pub const ROUTES: usize = 10_000;
/// All of them lie in here.
const WITHIN: &str = "20.0.0.0/8";
/// Announced networks that are pinged: as many in the half that stays as in the one that is withdrawn.
const PINGED: usize = 6;
/// How long routes may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// After an event: how many routes there are, and since when.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Routes of BIRD in the kernel.
    pub linux: u64,
    /// Routes of BIRD in perigee.
    pub perigee: u64,
    /// From the event to the last route in perigee.
    pub seconds: f64,
}

/// Both daemons, running, with a session between them.
pub struct Birds {
    /// The one next to the router.
    pub own: Bird,
    pub server: Bird,
    /// Seconds from when both answered to the session.
    session: f64,
}

/// All results.
pub struct Results {
    /// Seconds from when both BIRDs answered to the session.
    pub session: f64,
    pub announced: Table,
    pub pings: Vec<(String, Replies)>,
    pub withdrawn: Table,
    /// Networks that still answer, and those that the router says it has no route to.
    pub left: u64,
    pub no_route: u64,
    pub again: Table,
    pub pings_again: Vec<(String, Replies)>,
    pub accounts: Accounts,
}

/// Starts both and waits for the session.
pub fn start(network: &Network) -> Result<Birds> {
    step("BIRD next to perigee and on the server: a BGP session", || {
        // The server answers for whatever it announces.
        network.server.run(&format!("ip route add local {WITHIN} dev lo")).output()?;
        let server = network.server.bird(server_configuration().text())?;
        let own = network.world.bird(router_configuration().text())?;
        let start = Instant::now();
        own.says("show protocols to_server", "Established")?;
        Ok(Birds { own, server, session: start.elapsed().as_secs_f64() })
    })
}

/// Runs the demonstration.
pub fn probe(network: &Network, router: &Router, birds: &Birds) -> Result<Results> {
    let Birds { server, session, .. } = birds;
    let ping = |address: String| {
        let ping = probes::ping(&network.client, &address, 5)?;
        Ok::<_, anyhow::Error>((address, ping))
    };
    let announced = step(&format!("{} routes announced", HumanCount(ROUTES as u64)), || {
        arrive(network, router, ROUTES, || tell(server, &["enable lower", "enable upper"]))
    })?;
    let title = format!("ping {PINGED} of these networks, through perigee");
    let pings = step(&title, || addresses().map(ping).collect::<Result<Vec<_>>>())?;
    let withdrawn = step(&format!("{} of them withdrawn", HumanCount(ROUTES as u64 / 2)), || {
        arrive(network, router, ROUTES / 2, || tell(server, &["disable upper"]))
    })?;
    let (left, no_route) = step("ping the same: half of them have no route now", || which_answer(&network.client))?;
    let again = step("announced again", || arrive(network, router, ROUTES, || tell(server, &["enable upper"])))?;
    let title = format!("ping {PINGED} of these networks, through perigee");
    let pings_again = step(&title, || addresses().map(ping).collect::<Result<Vec<_>>>())?;
    let accounts = step("perigee's counters against those of client and server", || account::settled(network, router))?;
    Ok(Results { session: *session, announced, pings, withdrawn, left, no_route, again, pings_again, accounts })
}

fn tell(bird: &Bird, commands: &[&str]) -> Result<()> {
    commands.iter().try_for_each(|words| bird.ask(words).output().map(|_| ()))
}

/// Does something that changes the routes, and waits until perigee has as many as it should.
fn arrive(network: &Network, router: &Router, wanted: usize, event: impl FnOnce() -> Result<()>) -> Result<Table> {
    let api = router::api(router)?;
    let asked = ShowRoutes { within: Some(WITHIN.parse()?), to: None, source: None, limit: Some(1) };
    let (longest, start) = (patient(PATIENCE)?, Instant::now());
    event()?;
    loop {
        let list = api.ask(&asked)?;
        let seconds = start.elapsed().as_secs_f64();
        if list.total == wanted as u64 {
            let linux = network.world.ip("-4 -oneline route show proto bird root 20.0.0.0/8")?.lines().count() as u64;
            return Ok(Table { linux, perigee: list.total, seconds });
        }
        if start.elapsed() > longest {
            bail!("perigee has {} of {wanted} routes after {} s", list.total, longest.as_secs());
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

/// While the second half is withdrawn: how many addresses answer, and how many have no route.
fn which_answer(client: &Host) -> Result<(u64, u64)> {
    let (mut left, mut no_route) = (0, 0);
    for (number, address) in pinged().zip(addresses()) {
        match (number < ROUTES / 2, answers(client, &address)?) {
            (true, true) => left += 1,
            (false, false) => no_route += 1,
            (true, false) => bail!("perigee has lost the route to {address}, which was not withdrawn"),
            (false, true) => bail!("perigee still forwards to {address}, whose route was withdrawn"),
        }
    }
    Ok((left, no_route))
}

/// Whether an address answers the client; if not, the router must say that it has no route.
fn answers(client: &Host, address: &str) -> Result<bool> {
    let ended = client.run(&format!("ping -n -c 1 -W 5 {address}"));
    match (ended.code == Some(0), ended.out.contains("Destination Net Unreachable")) {
        (true, _) => Ok(true),
        (false, true) => Ok(false),
        (false, false) => bail!("`{}` was to be answered, by the server or the router: {}", ended.command, ended.text),
    }
}

fn network(number: usize) -> String {
    format!("20.{}.{}.0/24", number / 256, number % 256)
}

/// The server's BIRD: two sources of routes, which are enabled by command.
fn server_configuration() -> Configuration {
    let ours = Channel { family: "ipv4", import: "none", export: "all" };
    Configuration::new(SERVER.v4)
        .bgp(&bgp("to_router", (SERVER.v4, 65_002), (SERVER.router_v4, 65_001), ours))
        .networks("lower", "ipv4", true, (0..ROUTES / 2).map(network))
        .networks("upper", "ipv4", true, (ROUTES / 2..ROUTES).map(network))
}

/// The router's BIRD: what it learns goes into Linux's table, and perigee follows that.
fn router_configuration() -> Configuration {
    let theirs = Channel { family: "ipv4", import: "all", export: "none" };
    Configuration::new(SERVER.router_v4).kernel("ipv4", "all", "").bgp(&bgp(
        "to_server",
        (SERVER.router_v4, 65_001),
        (SERVER.v4, 65_002),
        theirs,
    ))
}

fn bgp<'a>(name: &'a str, local: (&'a str, u32), neighbor: (&'a str, u32), channel: Channel<'a>) -> Session<'a> {
    Session { name, local, neighbor, options: "", channel }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_pinged_networks_are_withdrawn() {
        assert_eq!(pinged().filter(|number| *number < ROUTES / 2).count(), PINGED / 2);
        assert_eq!(addresses().last().as_deref(), Some("20.39.15.1"));
        let configuration = server_configuration();
        let text = configuration.text();
        let (first, second) = text.split_once("protocol static upper").expect("both halves");
        assert_eq!([first, second].map(|half| half.matches("blackhole").count()), [ROUTES / 2; 2]);
    }
}
