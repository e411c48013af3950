// SPDX-License-Identifier: MIT
//! The process inside: two veth pairs, the source, and each way to forward in turn.

use super::plane::Plane;
use super::planes;
use super::programs::{Course, Name, Programs, Wire};
use super::tables::{GATEWAYS, Size, Table, gateway, gateway_mac};
use super::{FOUND, Family, Found, Sample, Way, XdpArgs};
use crate::isolated;
use crate::machine;
use crate::traffic::own_mac;
use anyhow::{Context as _, Result, ensure};
use perigee_lab::{Host, Place, World, isolation, wait_for};
use perigee_net::MacAddr;
use rustix::mount::{MountFlags, mount};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long what is under way may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// Frames by which the rate is estimated.
const WARM: u32 = 50_000;
/// Runs by which a program is timed.
const REPEAT: u32 = 500_000;
/// Routes that change while packets are forwarded.
const CHANGED: usize = 100_000;
/// How long routes change at most: those of the small table are large.
const LONGEST_CHANGES: Duration = Duration::from_secs(2);
/// The source's address in each family.
const SOURCES: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(198, 18, 0, 2), Ipv6Addr::new(0x2001, 0xdb8, 0x18, 0, 0, 0, 0, 2));
/// The source's MAC address.
const SOURCE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 2, 0]);

/// Both pairs: `t0` and `t1` are the tester's, `d0` and `d1` the router's.
pub struct Scene {
    pub world: World,
    tester: Host,
    programs: Programs,
    /// Indexes of d0 and d1, and of t1.
    links: [u32; 2],
    sink: u32,
    /// Where packets are forwarded, and where workers are.
    core: usize,
    pub other: usize,
    /// The tester's /sys.
    sys: PathBuf,
}

/// Runs it; what was found is left in the folder.
pub fn run(args: &XdpArgs, folder: &Path) -> Result<ExitCode> {
    isolation::end_with_input(folder)?;
    let (core, other) = machine::cores(None)?;
    bind(other)?;
    let scene = Scene::new(folder, core, other)?;
    let list = args.routes.as_deref().map(crate::table::read).transpose()?;
    let mut found = Found::default();
    if args.planes {
        for size in [Size::Small, Size::Full] {
            let table = Table::new(size, Family::Ipv4, list.as_ref());
            planes::measure(&scene, args, &table, &mut found)?;
        }
        fs::write(folder.join(FOUND), serde_json::to_string(&found)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for size in [Size::Small, Size::Full] {
        for family in [Family::Ipv4, Family::Ipv6] {
            let table = Table::new(size, family, list.as_ref());
            table.give_to_linux(&scene.world).context("the routes are not in Linux's table")?;
            scene.measure(args, &table, &mut found)?;
            // What was measured so far is kept if the next table fails.
            fs::write(folder.join(FOUND), serde_json::to_string(&found)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Binds this thread to a core.
fn bind(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("no thread can be bound to core {core}"))
}

/// The index of an interface of this thread's namespace.
fn index(name: &str) -> Result<u32> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    name_to_index(socket, name).with_context(|| format!("there is no interface {name}"))
}

impl Scene {
    fn new(folder: &Path, core: usize, other: usize) -> Result<Scene> {
        let world = isolated::world(folder)?;
        let tester = world.namespace("tester")?;
        for number in 0..2 {
            let mac = own_mac(number);
            world.ip(&format!("link add d{number} address {mac} type veth peer name t{number} netns tester"))?;
            world.ip(&format!("link set d{number} addrgenmode none"))?;
            world.ip(&format!("-n tester link set t{number} addrgenmode none"))?;
        }
        // GRO gives a veth interface the queue (NAPI) that takes redirected frames; packets of UDP are not merged.
        for (place, name) in [(Place::Router, "d0"), (tester.place(), "t1")] {
            perigee_lab::run(&mut place.command(&format!("ethtool -K {name} gro on"))).output()?;
        }
        for number in 0..2 {
            world.ip(&format!("link set d{number} up"))?;
            world.ip(&format!("-n tester link set t{number} up"))?;
        }
        for (address, link) in
            [("198.18.0.1/16", "d0"), ("198.19.0.1/16", "d1"), ("2001:db8:18::1/64", "d0"), ("2001:db8:19::1/64", "d1")]
        {
            let nodad = if address.contains(':') { " nodad" } else { "" };
            world.ip(&format!("addr add {address} dev {link}{nodad}"))?;
        }
        for family in [Family::Ipv4, Family::Ipv6] {
            for number in 0..GATEWAYS {
                let (address, mac) = (gateway(family, number), gateway_mac(number));
                world.ip(&format!("neigh replace {address} lladdr {mac} dev d1 nud permanent"))?;
            }
        }
        for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            fs::write(format!("/proc/sys/net/{name}"), "1").with_context(|| format!("{name} cannot be set"))?;
        }
        for name in ["all", "d0"] {
            fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0").context("rp_filter cannot be set")?;
        }
        let sys = folder.join("sys-tester");
        fs::create_dir(&sys)?;
        tester.inside(|| mount("sysfs", &sys, "sysfs", MountFlags::empty(), None))?.context("/sys of the tester")?;
        let programs = Programs::load()?;
        let links = [index("d0")?, index("d1")?];
        programs.set_wire(Wire::ToSink, links[1])?;
        let sink = tester.inside(|| -> Result<u32> {
            programs.set_wire(Wire::ToRouter, index("t0")?)?;
            index("t1")
        })??;
        Ok(Scene { world, tester, programs, links, sink, core, other, sys })
    }

    /// All ways in rounds, with a table that Linux has.
    fn measure(&self, args: &XdpArgs, table: &Table, found: &mut Found) -> Result<()> {
        let is6 = table.family == Family::Ipv6;
        self.set_course(table)?;
        let mut plane = Plane::new(self.links, table, &args.structure)?;
        let nothing = self.programs.descriptor(Name::Nothing)?;
        let route = self.programs.descriptor(Name::Route)?;
        for round in 0..args.rounds {
            for way in Way::ALL {
                let sample = self.sample(args, &plane, way, is6).with_context(|| way.name().to_owned())?;
                found.push(table, round, sample);
            }
            let time = |program: &OwnedFd| self.on_core(|| self.programs.time(program, self.links[0], is6, REPEAT));
            let (empty, own, other) = (time(&nothing)?, time(&plane.program()?)?, time(&route)?);
            found.push(table, round, Sample::Program { ns: own - empty, fib_lookup_ns: other - empty });
            let changes = self.change(&mut plane, is6)?;
            found.push(table, round, changes);
        }
        plane.verify()
    }

    /// Frames to a table's destinations from now on.
    pub fn set_course(&self, table: &Table) -> Result<()> {
        let destinations = table.destinations.clone();
        self.programs.set_course(&Course { to: own_mac(0), from: SOURCE_MAC, sources: SOURCES, destinations })
    }

    /// Something done on the core that forwards.
    fn on_core<T: Send>(&self, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let done = scope.spawn(|| bind(self.core).and_then(|()| what())).join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// One way, for some time.
    fn sample(&self, args: &XdpArgs, plane: &Plane, way: Way, is6: bool) -> Result<Sample> {
        let _at_entry = match way {
            Way::Linux => None,
            Way::Generic => Some(plane.attach(self.links[0], false)?),
            Way::Route => Some(self.programs.attach(Name::Route, self.links[0])?),
            Way::Plane => Some(plane.attach(self.links[0], true)?),
            Way::Redirect => Some(self.programs.attach(Name::Redirect, self.links[0])?),
        };
        // Linux's own packets would be copied for a program at the sink: there they are dropped by their MAC address.
        let _sink = match way {
            Way::Linux | Way::Generic => None,
            _ => Some(self.attach_sink()?),
        };
        let (mpps, sent, missing) = self.run(args, is6)?;
        ensure!(missing * 100 <= sent, "{missing} of {sent} packets did not arrive");
        Ok(Sample::Rate { way, mpps, missing })
    }

    /// A program at the far end that drops what it receives, until the descriptor is closed.
    pub fn attach_sink(&self) -> Result<OwnedFd> {
        self.tester.inside(|| self.programs.attach(Name::Nothing, self.sink))?
    }

    /// Frames for some time: how many arrive, in Mpps, how many there were, and how many did not.
    fn run(&self, args: &XdpArgs, is6: bool) -> Result<(f64, u64, u64)> {
        let (frames, seconds) = self.send(WARM, is6)?;
        let frames = (f64::from(WARM) / seconds * args.seconds).max(frames as f64) as u32;
        let before = self.arrived()?;
        let (sent, seconds) = self.send(frames, is6)?;
        let arrived = self.settled(before + sent)? - before;
        Ok((arrived as f64 / seconds / 1e6, sent, sent.saturating_sub(arrived)))
    }

    /// Sends frames; how many, and in how many seconds.
    fn send(&self, frames: u32, is6: bool) -> Result<(u64, f64)> {
        self.tester.inside(|| {
            bind(self.core)?;
            let begun = Instant::now();
            self.programs.send(frames, is6)?;
            Ok((u64::from(frames), begun.elapsed().as_secs_f64()))
        })?
    }

    /// Changes routes while packets are forwarded, none of which may get lost.
    fn change(&self, plane: &mut Plane, is6: bool) -> Result<Sample> {
        let _entry = plane.attach(self.links[0], true)?;
        let _sink = self.attach_sink()?;
        let (stop, sent, before) = (AtomicBool::new(false), AtomicU64::new(0), self.arrived()?);
        let source = || {
            while !stop.load(Ordering::Relaxed) {
                sent.fetch_add(self.send(WARM, is6)?.0, Ordering::Relaxed);
            }
            anyhow::Ok(())
        };
        let (changes, seconds) = std::thread::scope(|scope| {
            let sending = scope.spawn(source);
            let mut change = || {
                while sent.load(Ordering::Relaxed) == 0 && !sending.is_finished() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let (begun, mut changes) = (Instant::now(), 0);
                while changes < 2 * CHANGED as u64 && begun.elapsed() < LONGEST_CHANGES {
                    changes += plane.flap(CHANGED)?;
                }
                anyhow::Ok((changes, begun.elapsed().as_secs_f64()))
            };
            let changed = change();
            stop.store(true, Ordering::Relaxed);
            sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(changed)
        })?;
        let sent = sent.load(Ordering::Relaxed);
        let lost = sent.saturating_sub(self.settled(before + sent)? - before);
        Ok(Sample::Changes { per_second: changes as f64 / seconds, lost, packets: sent })
    }

    /// What a router lets through that gets all that the source has, in Mpps; the first frames wake it.
    pub fn rate(&self, args: &XdpArgs, is6: bool) -> Result<f64> {
        let (mpps, ..) = self.run(args, is6)?;
        ensure!(mpps > 0.0, "no packet arrived");
        Ok(mpps)
    }

    /// CPU seconds per second that a process takes.
    pub fn busy(&self, pid: u32, time: Duration) -> Result<f64> {
        let taken = || -> Result<f64> {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the router is gone")?;
            let after = text.rsplit(')').next().unwrap_or_default();
            let ticks = after.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok());
            Ok(ticks.sum::<f64>() / 100.0)
        };
        let before = taken()?;
        std::thread::sleep(time);
        Ok((taken()? - before) / time.as_secs_f64())
    }

    /// Packets that t1 has received.
    fn arrived(&self) -> Result<u64> {
        let file = self.sys.join("class/net/t1/statistics/rx_packets");
        let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        text.trim().parse().with_context(|| format!("{}: found {text:?}, expected a number", file.display()))
    }

    /// The same once all have arrived, or no more come.
    fn settled(&self, all: u64) -> Result<u64> {
        let mut last = (self.arrived()?, Instant::now());
        wait_for(PATIENCE, "the last packets", || {
            let now = self.arrived()?;
            if now != last.0 {
                last = (now, Instant::now());
            }
            Ok((now >= all || last.1.elapsed() > Duration::from_millis(50)).then_some(now))
        })
    }
}
