// SPDX-License-Identifier: MIT
//! `./x bench churn --bgp`: the full table from a BIRD on the other side of a wire, over BGP through the router, to a
//! BIRD on the router's twin, into Linux's table and from there into perigee's.

use super::netlink;
use super::report::mb;
use super::router::Router;
use super::table::Table;
use super::{ChurnArgs, JSON, TEXT};
use anyhow::{Result, ensure};
use indicatif::HumanCount;
use perigee_lab::bird::{Channel, Configuration, Session};
use perigee_lab::{Bird, Host, World, wait_until};
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(200);
/// The other side's namespace.
const HOST: &str = "upstream";
/// Both ends of the wire; the twin has the port's name.
const PORT: &str = "up";
const ROUTER: (&str, &str) = ("10.255.0.1", "fd00:0:0:4::1");
const UPSTREAM: (&str, &str) = ("10.255.0.2", "fd00:0:0:4::2");

/// Runs it; results are left in the folder.
pub fn run(args: &ChurnArgs, table: &Table, world: &World) -> Result<ExitCode> {
    let folder = world.folder();
    let (v4, v6) = table.counts();
    let all = (v4 + v6) as u64;
    let patience = Duration::from_secs(args.patience);
    let host = upstream(world)?;
    let mut router = Router::start(folder, &config())?;
    eprintln!("perigee: the announcing BIRD reads {} routes", HumanCount((v4 + v6) as u64));
    let mut upstream = host.bird(announcing(table).text())?;
    wait_until(patience, "BIRD to have all routes", || Ok(routes(&mut upstream)? >= all))?;
    let before = router.prefixes()?.0;

    eprintln!("perigee: the receiving BIRD starts");
    let start = Instant::now();
    let mut bird = world.bird(receiving().text())?;
    let mut times = [None; 3];
    while times.iter().any(Option::is_none) {
        let counts = [routes(&mut bird)?, in_linux(), router.prefixes()?.0 - before];
        let now = start.elapsed();
        for (time, count) in times.iter_mut().zip(counts) {
            if time.is_none() && count >= all {
                *time = Some(now.as_secs_f64());
            }
        }
        ensure!(
            now < patience,
            "not done within {} s: of {all} routes BIRD has {}, Linux {}, perigee {}",
            args.patience,
            counts[0],
            counts[1],
            counts[2]
        );
        std::thread::sleep(POLL);
    }
    let [bird_s, linux_s, perigee_s] = times.map(|time| time.unwrap_or(f64::NAN));
    let memory = router.memory()?;
    ensure!(netlink::dump()? >= all, "Linux has lost routes again");
    let differences = router.differences()?;
    drop((bird, upstream));
    router.stop()?;
    let text = format!(
        "{} IPv4 and {} IPv6 routes, announced by BIRD over BGP through the router to BIRD on its twin:\n\
         seconds from the receiving BIRD's start, each looked at every {} ms:\n\
         BIRD has all     {bird_s:.1}\nLinux has all    {linux_s:.1}\nperigee has all  {perigee_s:.1}\n\
         perigee's memory with all of them: {:.0} MB (router and helper); differences by perigee audit: {differences}\n",
        HumanCount(v4 as u64),
        HumanCount(v6 as u64),
        POLL.as_millis(),
        mb(memory.now),
    );
    let json = serde_json::json!({
        "routes": all, "bird_s": bird_s, "linux_s": linux_s, "perigee_s": perigee_s,
        "rss_mb": mb(memory.now), "differences": differences,
    });
    fs::write(folder.join(JSON), serde_json::to_string_pretty(&json)?)?;
    fs::write(folder.join(TEXT), text)?;
    Ok(if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Routes of both families.
fn routes(bird: &mut Bird) -> Result<u64> {
    Ok(bird.counts()?.iter().map(|count| count.routes).sum())
}

/// The other side and the wire to it.
fn upstream(world: &World) -> Result<Host> {
    let addresses = [format!("{}/24", UPSTREAM.0), format!("{}/64", UPSTREAM.1)];
    world.host(HOST, "wire", &[&addresses[0], &addresses[1]], &[])
}

fn config() -> String {
    format!(
        "[router]\nname = \"churn\"\nsocket = \"churn.sock\"\nworkers = 1\nidle = \"sleep\"\n\n\
         [eal]\nhugepages = false\nmemory = 128\n\n\
         [port.{PORT}]\ninterface = \"wire\"\naddresses = [\"{}/24\", \"{}/64\"]\n",
        ROUTER.0, ROUTER.1
    )
}

/// A session for each family with the other side.
fn sessions(own: (&str, &str), other: (&str, &str), import: &str, export: &str) -> Configuration {
    let (own_as, other_as) = if own == ROUTER { (65_001, 65_002) } else { (65_002, 65_001) };
    let session = |name, family, own, other| Session {
        name,
        local: (own, own_as),
        neighbor: (other, other_as),
        options: "",
        channel: Channel { family, import, export },
    };
    Configuration::new(own.0).bgp(&session("session_ipv4", "ipv4", own.0, other.0)).bgp(&session(
        "session_ipv6",
        "ipv6",
        own.1,
        other.1,
    ))
}

fn announcing(table: &Table) -> Configuration {
    let (stable, changing) = table.routes();
    let networks = |ipv4: bool| {
        let all = stable.iter().chain(&changing).filter(move |route| route.address.is_ipv4() == ipv4);
        all.map(|route| format!("{}/{}", route.address, route.length))
    };
    sessions(UPSTREAM, ROUTER, "none", "all; next hop self")
        .networks("routes_ipv4", "ipv4", false, networks(true))
        .networks("routes_ipv6", "ipv6", false, networks(false))
}

fn receiving() -> Configuration {
    sessions(ROUTER, UPSTREAM, "all", "none").kernel("ipv4", "all", "").kernel("ipv6", "all", "")
}

/// Routes in Linux's tables here, by Linux's own counters: a dump would take time from the programs that are measured.
fn in_linux() -> u64 {
    let read = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
    let main = prefixes_of_main(&read("fib_triestat"));
    // Nodes, nodes with routes, routes ever made, routes, ...: all hexadecimal.
    let v6 = read("rt6_stats").split_whitespace().nth(3).and_then(|n| u64::from_str_radix(n, 16).ok());
    main + v6.unwrap_or(0)
}

fn prefixes_of_main(text: &str) -> u64 {
    let main = text.split_once("Main:").map_or("", |(_, main)| main);
    let line = main.lines().find_map(|line| line.trim().strip_prefix("Prefixes:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_is_read() {
        let stat = "Basic info: size of leaf: 48 bytes, size of tnode: 40 bytes.\nMain:\n\tAver depth:     2.00\n\
                    \tPrefixes:       5\nLocal:\n\tPrefixes:       9\n";
        assert_eq!(prefixes_of_main(stat), 5);
        assert_eq!(prefixes_of_main(""), 0);
    }
}
