// SPDX-License-Identifier: MIT
//! The process inside: both veth pairs, the kernel's threads, traffic, and what arrives.

use super::{FOUND, Found, LinuxArgs, Sample, Way};
use crate::machine;
use crate::table::{self, Family as _};
use anyhow::{Context as _, Result, ensure};
use perigee_lab::{Host, Place, Process, World, isolation, wait_for};
use perigee_socket::{Forwarding, XdpForwarder};
use rustix::mount::{MountFlags, mount};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long things may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Traffic before a measurement begins.
const WARM: Duration = Duration::from_millis(300);
/// Destinations of the small table: a route each.
const NETWORKS: [&str; 8] = [
    "10.0.0.0/12",
    "10.16.0.0/12",
    "10.32.0.0/12",
    "10.48.0.0/12",
    "10.64.0.0/12",
    "10.80.0.0/12",
    "10.96.0.0/12",
    "10.112.0.0/12",
];
/// MAC addresses: of d0, d1, and the tester's ends.
const MACS: [[&str; 2]; 2] = [["02:00:00:00:00:01", "02:00:00:00:00:02"], ["02:00:00:00:01:01", "02:00:00:00:01:02"]];

/// Both pairs, with threads of the kernel's for d0 and t1.
struct Scene {
    world: World,
    tester: Host,
    /// The thread that forwards.
    thread: u32,
    /// The generator's core.
    other: usize,
    /// The tester's /sys.
    sys: PathBuf,
}

/// Runs it; what was found is left in the folder.
pub fn run(args: &LinuxArgs, folder: &Path) -> Result<ExitCode> {
    isolation::end_with_input(folder)?;
    let (core, other) = machine::cores(None)?;
    let scene = Scene::new(folder, core, other)?;
    let mut found = Found::default();
    scene.measure(args, &NETWORKS.map(str::to_owned), &mut found)?;
    if let Some(file) = &args.routes {
        let list = table::read(file)?;
        let full: Vec<String> = u32::of(&list).iter().map(ToString::to_string).collect();
        ensure!(!full.is_empty(), "{} has no IPv4 prefix; expected one", file.display());
        scene.measure(args, &full, &mut found)?;
    }
    fs::write(folder.join(FOUND), serde_json::to_string(&found)?)?;
    Ok(ExitCode::SUCCESS)
}

impl Scene {
    fn new(folder: &Path, core: usize, other: usize) -> Result<Scene> {
        let world = World::enter(folder)?;
        let tester = world.namespace("tester")?;
        for (number, [here, there]) in MACS.iter().enumerate() {
            world.ip(&format!(
                "link add d{number} address {here} type veth peer name t{number} address {there} netns tester"
            ))?;
            world.ip(&format!("link set d{number} addrgenmode none"))?;
            world.ip(&format!("-n tester link set t{number} addrgenmode none"))?;
        }
        // GRO gives a veth interface the kind of queue (NAPI) that a thread can serve; packets of UDP are not merged.
        for (place, name) in
            [(Place::Router, "d0"), (Place::Router, "d1"), (tester.place(), "t0"), (tester.place(), "t1")]
        {
            perigee_lab::run(&mut place.command(&format!("ethtool -K {name} gro on tx off"))).output()?;
        }
        for number in 0..MACS.len() {
            world.ip(&format!("link set d{number} up"))?;
            world.ip(&format!("-n tester link set t{number} up"))?;
        }
        world.ip("addr add 198.18.0.1/16 dev d0")?;
        world.ip("addr add 198.19.0.1/16 dev d1")?;
        world.ip(&format!("neigh replace 198.19.0.2 lladdr {} dev d1 nud permanent", MACS[1][1]))?;
        for (name, value) in [("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("conf/d0/rp_filter", "0")] {
            fs::write(format!("/proc/sys/net/ipv4/{name}"), value).with_context(|| format!("{name} cannot be set"))?;
        }
        let (own, sys) = (folder.join("sys"), folder.join("sys-tester"));
        fs::create_dir(&own)?;
        fs::create_dir(&sys)?;
        let thread = threaded("d0", &own, core, None)?;
        threaded("t1", &sys, other, Some(&tester))?;
        Ok(Scene { world, tester, thread, other, sys })
    }

    /// All ways, in rounds, by these routes.
    fn measure(&self, args: &LinuxArgs, networks: &[String], found: &mut Found) -> Result<()> {
        let mut batch = String::new();
        for network in networks {
            let _ = writeln!(batch, "route replace {network} via 198.19.0.2"); // a String takes everything
        }
        let (batch, list) =
            (self.world.file("routes.batch", &batch)?, self.world.file("routes.txt", &networks.join("\n"))?);
        self.world.ip(&format!("-force -batch {}", batch.display())).context("the routes are not in Linux's table")?;
        for _ in 0..args.rounds {
            for way in Way::ALL {
                if found.left_out.contains_key(way.name()) {
                    continue;
                }
                match self.sample(args, way, networks.len(), &list) {
                    Ok(sample) => found.samples.push(sample),
                    Err(why) => {
                        found.left_out.insert(way.name().to_owned(), format!("{why:#}").replace('\n', " "));
                    }
                }
            }
        }
        Ok(())
    }

    fn sample(&self, args: &LinuxArgs, way: Way, routes: usize, list: &Path) -> Result<Sample> {
        let _program = match way {
            Way::Linux => None,
            Way::XdpRoute => Some(XdpForwarder::attach("d0", Forwarding::Table)?),
            Way::XdpRedirect => Some(XdpForwarder::attach("d0", Forwarding::To("d1"))?),
        };
        let before = self.arrived()?;
        let mut traffic = self.traffic(args, list)?;
        wait_for(PATIENCE, "packets at the far end", || {
            traffic.running()?;
            Ok((self.arrived()? > before + 1000).then_some(()))
        })?;
        sleep(WARM);
        let (packets, cpu, then) = (self.arrived()?, self.cpu()?, Instant::now());
        let kernels = forwarded()?;
        sleep(Duration::from_secs_f64(args.seconds));
        let kernels = forwarded()? - kernels;
        let (packets, cpu, wall) = (self.arrived()? - packets, self.cpu()? - cpu, then.elapsed());
        ensure!(packets > 0 && cpu > 0, "{packets} packets arrived in {cpu} ns of the forwarding thread's CPU time");
        let by_kernel = way == Way::Linux;
        ensure!(
            by_kernel == (kernels > 0),
            "Linux itself has forwarded {kernels} of {packets} packets, expected {}",
            if by_kernel { "all" } else { "none" }
        );
        Ok(Sample { way, routes, mpps: packets as f64 * 1e3 / cpu as f64, busy: cpu as f64 / wall.as_nanos() as f64 })
    }

    /// The generator, as fast as it can, for long enough; dropped, it ends.
    fn traffic(&self, args: &LinuxArgs, list: &Path) -> Result<Process> {
        let program = perigee_lab::program()?;
        let mut command = self.tester.place().program(&program);
        command.args(["gen", "t0", "--rate", "line", "--quiet", "--hugepages", "no", "--sizes", "64"]);
        command.args(["--source", "198.18.0.2", "--destination-mac", MACS[0][0]]);
        command.args(["--destination", &format!("routes:{}", list.display())]);
        command.args(["--seconds", &(args.seconds + 60.0).to_string(), "--cores", &self.other.to_string()]);
        Process::start(&mut command)
    }

    /// Packets that t1 has received.
    fn arrived(&self) -> Result<u64> {
        number(&self.sys.join("class/net/t1/statistics/rx_packets"))
    }

    /// CPU time of the forwarding thread, in ns.
    fn cpu(&self) -> Result<u64> {
        number(Path::new(&format!("/proc/{}/schedstat", self.thread)))
    }
}

/// Packets that the kernel's own forwarding has forwarded here.
fn forwarded() -> Result<u64> {
    let file = "/proc/thread-self/net/snmp";
    let text = fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = lines.next().zip(lines.next()).with_context(|| format!("{file} has no lines of IP"))?;
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    let value = columns.find(|(name, _)| *name == "ForwDatagrams").and_then(|(_, value)| value.parse().ok());
    value.with_context(|| format!("{file} does not count what is forwarded"))
}

/// The first number in a file.
fn number(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.with_context(|| format!("{}: found {text:?}, expected a number", file.display()))
}

/// Has an interface served by a thread of its own, on a core; the thread's number. `sys` becomes a /sys of the
/// interface's namespace.
fn threaded(interface: &str, sys: &Path, core: usize, host: Option<&Host>) -> Result<u32> {
    let mounted =
        || mount("sysfs", sys, "sysfs", MountFlags::empty(), None).context("a /sys of our own cannot be mounted");
    match host {
        Some(host) => host.inside(mounted)??,
        None => mounted()?,
    }
    let before = threads(interface)?;
    fs::write(sys.join(format!("class/net/{interface}/threaded")), "1")
        .with_context(|| format!("{interface} gets no thread of its own; Linux 5.12 or later is needed"))?;
    let thread = wait_for(PATIENCE, &format!("the kernel's thread for {interface}"), || {
        Ok(threads(interface)?.into_iter().find(|thread| !before.contains(thread)))
    })?;
    let pid = i32::try_from(thread).ok().and_then(Pid::from_raw).context("a thread without a number")?;
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(Some(pid), &cores)
        .with_context(|| format!("the thread for {interface} cannot be bound to core {core}"))?;
    Ok(thread)
}

/// The kernel's threads for interfaces of this name, in all namespaces.
fn threads(interface: &str) -> Result<Vec<u32>> {
    let name = format!("napi/{interface}-");
    let all = fs::read_dir("/proc").context("/proc cannot be read")?.flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(&name));
    Ok(numbers.filter(is).collect())
}
