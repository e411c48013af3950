// SPDX-License-Identifier: MIT
//! The first process inside: builds the scene, and lets one flood after the other loose on it.

use super::kinds::{self, Kind};
use super::reach::reach;
use super::report::{Asked, Pinged, Results, Row};
use super::{AttackArgs, RESULTS};
use crate::isolated;
use anyhow::{Context as _, Result, ensure};
use perigee_api::answers::DropKind;
use perigee_api::client::ApiClient;
use perigee_api::queries::{ShowDrops, ShowNeighborUsage, ShowPorts};
use perigee_dpdk as dpdk;
use perigee_fib::synth::Random;
use perigee_lab::seen::Seen;
use perigee_lab::{Bird, Host, Launch, Pings, Place, Process, Router, Wire, World, isolation};
use perigee_net::MacAddr;
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the router may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// From the begin of a flood to the first question to a new host.
const UNTIL_ASKED: Duration = Duration::from_secs(2);
/// New hosts of each family on each of the two links.
const HOSTS: u16 = 10;
/// Packets per second of known traffic, and of pings to the router.
const KNOWN: (Duration, u64) = (Duration::from_millis(2), 500);
const PINGS: (Duration, u64) = (Duration::from_millis(10), 100);
/// How late the last reply may be.
const LATE: Duration = Duration::from_secs(2);

/// OSPF finds a neighbor dead after 4 seconds, BGP after 3.
const OSPF: &str = "protocol ospf v2 ospf1 { debug { states, events }; ipv4 { import all; export none; }; area 0 { \
    interface \"edge\", \"eth0\" { hello 1; dead 4; }; }; }\n\
    protocol ospf v3 ospf6 { debug { states, events }; ipv6 { import all; export none; }; area 0 { \
    interface \"edge\", \"eth0\" { hello 1; dead 4; }; }; }\n";

fn bird(own: u8, peer: u8) -> String {
    format!(
        "router id 10.3.0.{own};\nprotocol device {{}}\n{OSPF}\
         protocol bgp bgp1 {{ debug {{ states, events }}; local 10.3.0.{own} as 65000; neighbor 10.3.0.{peer} as 65000; \
         hold time 3; keepalive time 1; ipv4 {{ import all; export none; }}; }}\n"
    )
}

/// Everything that stands.
struct Scene {
    router: Router,
    west: Host,
    peer: Host,
    bystander: Host,
    birds: [Bird; 2],
    attacker: Wire,
    mac: MacAddr,
}

/// Runs it; the results are left in the folder.
pub fn run(args: &AttackArgs, folder: &Path) -> Result<ExitCode> {
    isolation::end_with_input(folder)?;
    let world = isolated::world(folder)?;
    let mut scene = Scene::build(&world)?;
    let mut results = Results { rate: args.rate, seconds: args.seconds, rest: args.rest, rows: Vec::new() };
    // What is used for the first time takes memory that is none of the first flood's.
    scene.reach_all()?;
    for kind in args.kinds() {
        let row = scene.flood(args, kind)?;
        eprintln!("{}", row.line());
        results.rows.push(row);
    }
    scene.router.stop()?;
    fs::write(folder.join(RESULTS), serde_json::to_string(&results)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The addresses of new hosts in the networks 10.N.0.0/16 and 2001:db8:N::/64, with their prefix lengths or without.
fn new_hosts(network: u16) -> Vec<IpAddr> {
    let four = (0..HOSTS).map(|i| IpAddr::V4(Ipv4Addr::new(10, network as u8, 0, 100 + i as u8)));
    let six = (0..HOSTS).map(|i| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, 100 + i)));
    four.chain(six).collect()
}

fn configuration(folder: &Path, core: usize) -> String {
    let port = |name: &str, network: u8| {
        format!(
            "[port.{name}]\ninterface = \"attack-{name}\"\naddresses = [\"10.{network}.0.1/16\", \
             \"2001:db8:{network}::1/64\"]\n\n"
        )
    };
    format!(
        "[router]\nname = \"attack\"\nidle = \"poll\"\nsocket = \"{}/attack.sock\"\ncores = [{core}]\n\n[eal]\nhugepages = false\n\n{}{}{}",
        folder.display(),
        port("west", 1),
        port("east", 2),
        port("edge", 3)
    )
}

/// The host's addresses, those of new hosts among them, and nothing that holds its answers back.
fn host(world: &World, name: &str, network: u16) -> Result<Host> {
    let own = [format!("10.{network}.0.2/16"), format!("2001:db8:{network}::2/64")];
    let gateways = [format!("10.{network}.0.1"), format!("2001:db8:{network}::1")];
    let host = world.host(
        name,
        &format!("attack-{name}"),
        &own.each_ref().map(String::as_str),
        &gateways.each_ref().map(String::as_str),
    )?;
    more_addresses(world, &host, network)?;
    Ok(host)
}

fn more_addresses(world: &World, host: &Host, network: u16) -> Result<()> {
    for address in new_hosts(network) {
        let length = if address.is_ipv4() { "16" } else { "64 nodad" };
        world.ip(&format!("-n {} addr add {address}/{length} dev eth0", host.name()))?;
    }
    Ok(())
}

/// The attacked link: a switch with the router's port, another router and the attacker, whose frames go past it.
fn edge(world: &World) -> Result<(Host, Wire)> {
    let (switch, peer) = (world.namespace("switch")?, world.namespace("peer")?);
    let name = switch.name();
    // A switch that learned forged senders would be attacked itself.
    world.ip(&format!("-n {name} link add br0 type bridge mcast_snooping 0 ageing_time 0"))?;
    let attacker = world.wire("attacker")?;
    world.ip(&format!("link set attacker netns {name}"))?;
    world.ip(&format!("link add attack-edge type veth peer name to-router netns {name}"))?;
    world.ip("link set attack-edge addrgenmode none")?;
    world.ip(&format!("-n {name} link add to-peer type veth peer name eth0 netns {}", peer.name()))?;
    for port in ["attacker", "to-router", "to-peer", "br0"] {
        if port != "br0" {
            world.ip(&format!("-n {name} link set {port} master br0"))?;
        }
        world.ip(&format!("-n {name} link set {port} addrgenmode none"))?;
        world.ip(&format!("-n {name} link set {port} up"))?;
    }
    // To the router alone. Linux's bridge drops pause frames, groups as senders and, by netfilter, wrong IP headers; and
    // the peer believes forged ARP, which no router prevents.
    let redirect = "tc filter add dev attacker parent ffff: protocol all u32 match u32 0 0 \
                    action mirred egress redirect dev to-router";
    for words in ["tc qdisc add dev attacker ingress", redirect] {
        switch.run(words).output().context("the attacker's frames cannot be sent past the switch")?;
    }
    for family in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
        peer.set(family, "0")?;
    }
    world.ip(&format!("-n {} link set eth0 up", peer.name()))?;
    for address in ["10.3.0.2/16", "2001:db8:3::2/64 nodad"] {
        world.ip(&format!("-n {} addr add {address} dev eth0", peer.name()))?;
    }
    more_addresses(world, &peer, 3)?;
    for (family, gateway) in [("-4", "10.3.0.1"), ("-6", "2001:db8:3::1")] {
        world.ip(&format!("-n {} {family} route add default via {gateway}", peer.name()))?;
    }
    Ok((peer, attacker))
}

/// Two namespaces that have nothing to do with the router; the first of them. Their neighbors' entries in Linux are
/// asked for all the time, so that a table that is full is noticed.
fn bystanders(world: &World) -> Result<Host> {
    let (one, other) = (world.namespace("bystander")?, world.namespace("friend")?);
    world.ip(&format!("-n {} link add eth0 type veth peer name eth0 netns {}", one.name(), other.name()))?;
    for (host, number) in [(&one, 1), (&other, 2)] {
        for address in [format!("10.77.0.{number}/24"), format!("2001:db8:77::{number}/64 nodad")] {
            world.ip(&format!("-n {} addr add {address} dev eth0", host.name()))?;
        }
        world.ip(&format!("-n {} link set eth0 up", host.name()))?;
        for family in ["ipv4", "ipv6"] {
            // Half a second: reachable neighbors are asked again soon.
            host.set(&format!("{family}/neigh/eth0/base_reachable_time_ms"), "500")?;
            host.set(&format!("{family}/neigh/eth0/gc_stale_time"), "1")?;
        }
    }
    Ok(one)
}

impl Scene {
    fn build(world: &World) -> Result<Scene> {
        let core = *dpdk::usable_cores().last().context("no core may be used")?;
        let west = host(world, "west", 1)?;
        host(world, "east", 2)?;
        let (peer, attacker) = edge(world)?;
        let bystander = bystanders(world)?;
        let folder = world.folder();
        let router = Router::start(Launch {
            program: perigee_lab::program()?,
            place: Place::Router,
            configuration: world.file("attack.toml", &configuration(folder, core))?,
            arguments: Vec::new(),
            socket: folder.join("attack.sock"),
            log: Some(folder.join("router.log")),
            patience: PATIENCE,
        })?;
        let ports = ApiClient::connect(router.socket())?.ask(&ShowPorts {})?;
        let mac = ports.iter().find(|port| port.name == "edge").context("there is no port edge")?.mac;
        let birds = [world.bird(&bird(1, 2))?, peer.bird(&bird(2, 1))?];
        for bird in &birds {
            bird.says("show protocols bgp1", "Established")?;
            for ospf in ["ospf1", "ospf6"] {
                bird.says(&format!("show ospf neighbors {ospf}"), "Full/")?;
            }
        }
        Ok(Scene { router, west, peer, bystander, birds, attacker, mac })
    }

    /// One row.
    fn flood(&mut self, args: &AttackArgs, kind: Kind) -> Result<Row> {
        let mut api = ApiClient::connect(self.router.socket())?;
        self.router.ask("neighbor flush").output()?;
        let before = Look::take(&mut api, &self.router)?;
        let sessions = self.sessions_lost();
        // They have to be there before the flood, and until after it.
        let length = args.seconds + 2.0;
        let pings = [
            (&self.west, KNOWN, "10.2.0.2"),
            (&self.west, KNOWN, "2001:db8:2::2"),
            (&self.west, PINGS, "10.1.0.1"),
            (&self.peer, PINGS, "10.3.0.1"),
            (&self.bystander, PINGS, "10.77.0.2"),
            (&self.bystander, PINGS, "2001:db8:77::2"),
        ];
        let pings = pings.map(|(from, pace, to)| {
            let pings = ping(pace, length);
            (pings, from.start(&pings.command(to)))
        });
        std::thread::sleep(Duration::from_secs(1));
        let (sent, asked) = self.garbage_and_questions(args, kind)?;
        let [known4, known6, router, router_same, bystanders4, bystanders6] =
            pings.map(|(pings, process)| pinged(pings, process?, length));
        let after = Look::take(&mut api, &self.router)?;
        std::thread::sleep(Duration::from_secs_f64(args.rest));
        let rested = Look::take(&mut api, &self.router)?;
        let mut row = Row {
            kind: kind.name().to_owned(),
            rate: sent as f64 / args.seconds,
            wanted: kind.rate(args.rate) as f64 * args.seconds,
            taken: after.received - before.received,
            sent,
            known: [known4?, known6?],
            router: router?,
            router_same: router_same?,
            bystanders: [bystanders4?, bystanders6?],
            asked,
            sessions_lost: self.sessions_lost() - sessions,
            memory: [before.memory, after.memory, rested.memory],
            neighbors: [before.neighbors, after.neighbors, rested.neighbors],
            drops: after.drops_since(&before),
        };
        row.sessions_lost += u64::from(!self.sessions_stand());
        // The next row begins with sessions.
        for bird in &self.birds {
            bird.says("show protocols bgp1", "Established")?;
            bird.says("show ospf neighbors ospf1", "Full/")?;
            bird.says("show ospf neighbors ospf6", "Full/")?;
        }
        Ok(row)
    }

    /// Sends the flood; two seconds after its begin, new hosts are asked.
    fn garbage_and_questions(&self, args: &AttackArgs, kind: Kind) -> Result<(u64, Vec<Asked>)> {
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send(&self.attacker, self.mac, kind, kind.rate(args.rate), args.seconds));
            std::thread::sleep(UNTIL_ASKED);
            let asked = self.reach_all();
            let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((sent, asked?))
        })
    }

    /// Asks new hosts: those behind another port than the flood's from a third and from the flooded one, those on the
    /// flooded link.
    fn reach_all(&self) -> Result<Vec<Asked>> {
        let ask = |name: &str, from: &Host, addresses: Vec<IpAddr>| {
            let seconds = reach(from, &addresses)?;
            Ok(Asked { name: name.to_owned(), seconds })
        };
        // Of each family one half from either side: who has been asked before is not new.
        let [even, odd] = [0, 1].map(|first| new_hosts(2).into_iter().skip(first).step_by(2).collect::<Vec<_>>());
        std::thread::scope(|scope| {
            let asking = [
                scope.spawn(|| ask("other ports", &self.west, even)),
                scope.spawn(|| ask("from the link", &self.peer, odd)),
                scope.spawn(|| ask("to the link", &self.west, new_hosts(3))),
            ];
            asking.into_iter().map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    /// How often a session of either side has ended so far.
    fn sessions_lost(&self) -> u64 {
        let lost = |line: &&str| {
            line.contains("from Full to")
                || line.contains("bgp1: State changed to stop")
                || line.contains("BGP session closed")
        };
        self.birds.iter().map(|bird| bird.log().lines().filter(lost).count() as u64).sum()
    }

    fn sessions_stand(&self) -> bool {
        self.birds.iter().all(|bird| {
            bird.ask("show protocols bgp1").text.contains("Established")
                && ["ospf1", "ospf6"]
                    .iter()
                    .all(|name| bird.ask(&format!("show ospf neighbors {name}")).text.contains("Full/"))
        })
    }
}

/// What is looked at before, at the end, and later.
struct Look {
    memory: u64,
    neighbors: u64,
    /// Frames of the attacked port.
    received: u64,
    drops: BTreeMap<String, u64>,
}

impl Look {
    fn take(api: &mut ApiClient, router: &Router) -> Result<Look> {
        let ports = api.ask(&ShowPorts {})?;
        let edge = ports.iter().find(|port| port.name == "edge").context("there is no port edge")?;
        let reasons = api.ask(&ShowDrops {})?;
        let mut drops: BTreeMap<String, u64> = reasons
            .iter()
            .filter(|drop| drop.kind == DropKind::Drop)
            .map(|drop| (format!("{}.{}", drop.module, drop.reason), drop.packets))
            .collect();
        drops.insert("edge.receive_missed".to_owned(), edge.counters.receive_missed);
        let usage = api.ask(&ShowNeighborUsage {})?;
        let neighbors = usage.iter().map(|one| one.known + one.unresolved).sum();
        Ok(Look {
            memory: Seen::look(router.pid())?.resident,
            neighbors,
            received: edge.counters.receive_packets,
            drops,
        })
    }

    /// The three reasons that count most.
    fn drops_since(&self, before: &Look) -> Vec<(String, u64)> {
        let since = |(name, packets): (&String, &u64)| {
            (name.clone(), packets.saturating_sub(*before.drops.get(name).unwrap_or(&0)))
        };
        let mut drops: Vec<(String, u64)> = self.drops.iter().map(since).filter(|(_, packets)| *packets > 0).collect();
        drops.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
        drops.truncate(3);
        drops
    }
}

/// Requests of this kind for so long.
fn ping((interval, rate): (Duration, u64), seconds: f64) -> Pings {
    Pings { count: (rate as f64 * seconds) as u64, interval, patience: LATE }
}

/// Its end: how many were sent, and how many answered.
fn pinged(pings: Pings, mut process: Process, seconds: f64) -> Result<Pinged> {
    process.wait(Duration::from_secs_f64(seconds * 3.0) + PATIENCE)?;
    let said = process.stdout();
    let last = || said.lines().last().unwrap_or_default();
    let replies = pings.replies(&said).with_context(|| format!("ping says {}{}", last(), process.stderr()))?;
    Ok(Pinged { sent: replies.sent, answered: replies.received })
}

/// Sends so many frames per second; how many there were.
fn send(wire: &Wire, mac: MacAddr, kind: Kind, rate: u64, seconds: f64) -> Result<u64> {
    let (mut random, mut buffer) = (
        Random::new(kind.name().bytes().fold(1, |seed, byte| seed * 31 % 1_000_003 + u64::from(byte))),
        [0; kinds::LONGEST],
    );
    let (began, mut sent, mut due) = (Instant::now(), 0, 0);
    loop {
        let elapsed = began.elapsed().as_secs_f64();
        if elapsed >= seconds {
            break;
        }
        let now = (elapsed * rate as f64) as u64;
        // Of what a pause of the machine has held up, a burst of 10 ms is made good, not more.
        due = due.max(now.saturating_sub(rate / 100));
        while due < now {
            let length = kind.frame(&mut random, mac, &mut buffer)?;
            sent += u64::from(wire.try_send(&buffer[..length])?);
            due += 1;
        }
        // What the switch floods comes back.
        while wire.next()?.is_some() {}
        std::thread::sleep(Duration::from_micros(500));
    }
    ensure!(sent > 0, "the attacker could not send a frame");
    Ok(sent)
}
