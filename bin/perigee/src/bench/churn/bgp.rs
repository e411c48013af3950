// SPDX-License-Identifier: MIT
//! `perigee bench churn --bgp`: the full table from a BIRD on the other side of a wire, over BGP through the router, to a BIRD
//! on the router's twin, into Linux's table and from there into perigee's.

use super::netlink;
use super::report::mb;
use super::router::Router;
use super::table::Table;
use super::{ChurnArgs, JSON, TEXT};
use crate::bench::fib::grouped;
use crate::demo::tools::{self, run as tool};
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(200);
/// The other side's namespace.
const HOST: &str = "upstream";
/// Both ends of the wire; the twin is called as the port.
const PORT: &str = "up";
const ROUTER: (&str, &str) = ("10.255.0.1", "fd00:0:0:4::1");
const UPSTREAM: (&str, &str) = ("10.255.0.2", "fd00:0:0:4::2");

/// A BIRD that is killed when dropped.
struct Bird {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Bird {
    /// In a namespace, or here.
    fn start(folder: &Path, name: &str, namespace: Option<&str>, config: &str) -> Result<Bird> {
        let file = |suffix: &str| folder.join(format!("{name}.{suffix}"));
        fs::write(file("conf"), config)?;
        let log = File::create(file("log"))?;
        let (conf, socket) = (file("conf"), file("ctl"));
        let words = format!("bird -f -c {} -s {}", conf.display(), socket.display());
        let words = namespace.map_or(words.clone(), |namespace| tools::on(namespace, &words));
        let child = tools::command(&words).stdout(Stdio::from(log.try_clone()?)).stderr(log).spawn();
        Ok(Bird { child: child.context("bird cannot be started")?, socket, log: file("log") })
    }

    /// Routes of both families; an error if it has ended.
    fn routes(&mut self) -> Result<u64> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            bail!("bird ended with {status}; it said: {}", log.trim());
        }
        // It answers when it has read its configuration.
        let text = tool(&format!("birdc -s {} show route count", self.socket.display())).unwrap_or_default();
        Ok(count(&text))
    }

    fn wait(&mut self, routes: u64, deadline: Instant) -> Result<()> {
        loop {
            let there = self.routes()?;
            if there >= routes {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "BIRD has {there} routes, expected {routes}");
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `N of M routes for K networks in table ...`, summed.
fn count(text: &str) -> u64 {
    let of_table = |line: &str| line.split_once(" of ")?.0.trim().parse::<u64>().ok();
    text.lines().filter(|line| line.contains("in table")).filter_map(of_table).sum()
}

/// Runs it; results are left in the folder.
pub fn run(args: &ChurnArgs, table: &Table, folder: &Path) -> Result<ExitCode> {
    let (v4, v6) = table.counts();
    let all = (v4 + v6) as u64;
    let patience = Duration::from_secs(args.patience);
    wire()?;
    let mut router = Router::start(folder, &config())?;
    let mut upstream = Bird::start(folder, "upstream", Some(HOST), &announcing(table))?;
    eprintln!("perigee: the announcing BIRD reads {} routes", grouped(v4 + v6));
    upstream.wait(all, Instant::now() + patience)?;
    let before = router.prefixes()?.0;

    eprintln!("perigee: the receiving BIRD starts");
    let start = Instant::now();
    let mut bird = Bird::start(folder, "receiving", None, &receiving())?;
    let mut times = [None; 3];
    while times.iter().any(Option::is_none) {
        let counts = [bird.routes()?, in_linux(), router.prefixes()?.0 - before];
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
        grouped(v4),
        grouped(v6),
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

/// The other side and the wire to it.
fn wire() -> Result<()> {
    fs::create_dir_all("/run/netns")?;
    tool(&format!("ip netns add {HOST}"))?;
    tool(&format!("ip link add wire type veth peer name eth0 netns {HOST}"))?;
    tool("ip link set wire addrgenmode none")?;
    tool(&format!("ip -n {HOST} link set lo up"))?;
    tool(&format!("ip -n {HOST} addr add {}/24 dev eth0", UPSTREAM.0))?;
    tool(&format!("ip -n {HOST} addr add {}/64 dev eth0 nodad", UPSTREAM.1))?;
    // TCP's checksums would be left to a device, and veth is none.
    tool(&tools::on(HOST, "ethtool -K eth0 tx off"))?;
    tool(&format!("ip -n {HOST} link set eth0 up"))?;
    tool("ip link set wire up")?;
    Ok(())
}

fn config() -> String {
    format!(
        "[router]\nname = \"churn\"\nsocket = \"churn.sock\"\nworkers = 1\nidle = \"sleep\"\n\n\
         [eal]\nhugepages = false\nmemory = 128\n\n\
         [port.{PORT}]\ninterface = \"wire\"\naddresses = [\"{}/24\", \"{}/64\"]\n",
        ROUTER.0, ROUTER.1
    )
}

/// A session for each family, each to the other side of it.
fn sessions(own: (&str, &str), other: (&str, &str), channel: &str) -> String {
    let (own_as, other_as) = if own == ROUTER { (65_001, 65_002) } else { (65_002, 65_001) };
    let session = |name: &str, own: &str, other: &str| {
        format!(
            "protocol bgp session_{name} {{\n  local {own} as {own_as};\n  neighbor {other} as {other_as};\n  connect delay time 1;\n  \
             connect retry time 1;\n  error wait time 1, 2;\n  {name} {{ {channel} }};\n}}\n"
        )
    };
    let head = format!("log stderr all;\nrouter id {};\nprotocol device {{ }}\n", own.0);
    head + &session("ipv4", own.0, other.0) + &session("ipv6", own.1, other.1)
}

fn announcing(table: &Table) -> String {
    let mut text = sessions(UPSTREAM, ROUTER, "import none; export all; next hop self;");
    let (stable, changing) = table.routes();
    for family in ["ipv4", "ipv6"] {
        let of_family = |address: IpAddr| address.is_ipv4() == (family == "ipv4");
        let _ = writeln!(text, "protocol static routes_{family} {{\n  {family};");
        for route in stable.iter().chain(&changing).filter(|route| of_family(route.address)) {
            let _ = writeln!(text, "  route {}/{} blackhole;", route.address, route.length);
        }
        text.push_str("}\n");
    }
    text
}

fn receiving() -> String {
    let kernel =
        |family: &str| format!("protocol kernel kernel_{family} {{ {family} {{ export all; import none; }}; }}\n");
    sessions(ROUTER, UPSTREAM, "import all; export none;") + &kernel("ipv4") + &kernel("ipv6")
}

/// Routes in Linux's tables here, as it counts them: no dump, which would cost those that are measured time.
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
    fn what_bird_and_linux_say_is_read() {
        let text = "BIRD 2.0.12 ready.\n901899 of 901899 routes for 901899 networks in table master4\n\
                    12 of 12 routes for 12 networks in table master6\nTotal: 901911 of 901911 routes for 901911 networks in 2 tables\n";
        assert_eq!(count(text), 901_911);
        assert_eq!(count("No such file"), 0);
        let stat = "Basic info: size of leaf: 48 bytes, size of tnode: 40 bytes.\nMain:\n\tAver depth:     2.00\n\
                    \tPrefixes:       5\nLocal:\n\tPrefixes:       9\n";
        assert_eq!(prefixes_of_main(stat), 5);
        assert_eq!(prefixes_of_main(""), 0);
    }
}
