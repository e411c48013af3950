// SPDX-License-Identifier: MIT
//! A device under test between two cables whose other ends are the tester's.
//!
//! ```text
//!  tester, in the namespace of the World                                namespace `device`
//!  198.18.0.2  2001:2::2            t0 ───────────── d0   198.18.0.1  2001:2::1
//!  198.19.0.2  2001:2:0:8000::2     t1 ───────────── d1   198.19.0.1  2001:2:0:8000::1
//!
//!  cables    both sides: names, addresses, MAC addresses; the veth pairs between them
//!  linux     the kernel forwards
//!  perigee   `perigee run` forwards
//!  testpmd   DPDK's dpdk-testpmd forwards
//!  command   whatever a command line starts forwards
//! ```
//!
//! The addresses are those that RFC 2544 C.2.2 and RFC 5180 5.2 reserve for benchmarks. The tester's ends have none as
//! far as Linux is concerned: whoever sends and receives there answers ARP and ND itself, or the device has static
//! neighbors.

mod cables;
mod command;
mod linux;
mod perigee;
mod testpmd;

pub use cables::Side;
pub(crate) use cables::loopback_cable;
pub use command::CommandLine;
pub use perigee::Perigee;
pub use testpmd::Testpmd;

use crate::{Host, LONGEST_WAIT, Place, Router, Signal, World, run, wait_until};
use anyhow::{Context as _, Result, bail, ensure};
use command::Group;
use std::path::PathBuf;
use std::time::Duration;

/// What forwards.
#[derive(Debug, Clone)]
pub enum Kind {
    /// The kernel, between d0 and d1. Over veth it does so on the core that the tester sends from, in the tester's own
    /// time.
    Linux,
    /// A router.
    Perigee(Perigee),
    /// DPDK's test program. It does not route: see [`Testpmd`].
    Testpmd(Testpmd),
    /// Anything else.
    Command(CommandLine),
}

/// Where the device is, and how it is connected.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Keeps several devices of one world apart: from 0 to 6. The first is in the namespace `device`, between t0 and
    /// t1; the next in `device1`, between t2 and t3.
    pub number: u8,
    /// Bytes of IP that fit into a frame.
    pub mtu: u16,
    /// Whether the device is given the tester's MAC addresses, so that it does not ask for them.
    pub static_neighbors: bool,
    /// How long the device may take to start, and to stop.
    pub patience: Duration,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { number: 0, mtu: 1500, static_neighbors: false, patience: LONGEST_WAIT }
    }
}

/// A device, running unless it was stopped. Dropped, it is killed.
pub struct Device {
    kind: Kind,
    setup: Setup,
    sides: [Side; 2],
    host: Host,
    /// The world's.
    folder: PathBuf,
    running: Running,
}

/// What runs.
enum Running {
    Nothing,
    /// The kernel, as configured by `linux`.
    Kernel,
    Router(Router),
    Program(Group),
}

impl Device {
    /// Makes its namespace and its cables, starts it, and waits until it is up. Logs, configurations and sockets are in
    /// the world's folder.
    ///
    /// # Errors
    /// The device cannot be connected in this way, a program is missing, or it does not come up.
    pub fn build(world: &World, setup: Setup, kind: Kind) -> Result<Device> {
        ensure!(setup.number <= cables::MOST, "found device {}, expected 0 to {}", setup.number, cables::MOST);
        let folder = world.folder().to_owned();
        let sides = cables::sides(setup.number);
        let host = world.namespace(&namespace(setup.number))?;
        let mut device = Device { kind, setup, sides, host, folder, running: Running::Nothing };
        match cables::connect(world, &device).and_then(|()| device.start()) {
            Ok(()) => Ok(device),
            Err(error) => {
                // The first error is the one to report.
                let _ = device.dismantle();
                Err(error)
            }
        }
    }

    /// Starts it again after [`Self::stop`].
    ///
    /// # Errors
    /// It runs already, or does not come up.
    pub fn start(&mut self) -> Result<()> {
        ensure!(matches!(self.running, Running::Nothing), "{} runs already: stop it first", self.kind.name());
        self.running = match &self.kind {
            Kind::Linux => linux::start(self)?,
            Kind::Perigee(options) => Running::Router(perigee::start(self, options)?),
            Kind::Testpmd(options) => Running::Program(testpmd::start(self, options)?),
            Kind::Command(line) => Running::Program(command::start(self, line)?),
        };
        self.wait_for_links()
    }

    /// Stops it as its operator would; a program that does not end by SIGTERM in time is killed.
    ///
    /// # Errors
    /// It has ended by itself, does not end in time, or ends badly.
    pub fn stop(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Nothing => Ok(()),
            Running::Kernel => linux::stop(self),
            Running::Router(router) => router.stop().map(|_| ()),
            Running::Program(group) => group.stop(self.setup.patience),
        }
    }

    /// Halts its process, so that it takes no processor from others, or lets it go on; the kernel is left alone.
    ///
    /// # Errors
    /// It has ended.
    pub fn set_halted(&self, halted: bool) -> Result<()> {
        let signal = if halted { Signal::STOP } else { Signal::CONT };
        match &self.running {
            Running::Nothing | Running::Kernel => Ok(()),
            Running::Router(router) => router.signal(signal),
            Running::Program(group) => group.process().signal_group(signal),
        }
    }

    /// Stops it and starts it again, as the reset of RFC 2544 26.6 does.
    ///
    /// # Errors
    /// As [`Self::stop`] and [`Self::start`].
    pub fn reset(&mut self) -> Result<()> {
        self.stop()?;
        self.start()
    }

    /// Stops it, and removes its cables and its namespace, so that another one may have its number.
    ///
    /// # Errors
    /// As [`Self::stop`], or something cannot be removed.
    pub fn remove(mut self) -> Result<()> {
        self.stop()?;
        self.dismantle()
    }

    /// Removes what was made for it.
    fn dismantle(&mut self) -> Result<()> {
        self.running = Running::Nothing;
        let here = |words: &str| run(&mut Place::Router.command(words)).output();
        for side in &self.sides {
            here(&format!("ip link del {}", side.port))?;
        }
        here(&format!("ip netns del {}", self.host.name())).map(|_| ())
    }

    /// Both sides: first left, then right.
    pub fn sides(&self) -> &[Side; 2] {
        &self.sides
    }

    /// What forwards.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its namespace.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The process that forwards, if it is one.
    pub fn pid(&self) -> Option<u32> {
        match &self.running {
            Running::Nothing | Running::Kernel => None,
            Running::Router(router) => Some(router.pid()),
            Running::Program(group) => Some(group.process().pid()),
        }
    }

    /// The running router, if it is one.
    pub fn router(&self) -> Option<&Router> {
        match &self.running {
            Running::Router(router) => Some(router),
            _ => None,
        }
    }

    /// What it has printed since it was started; nothing, if it is stopped.
    pub fn log(&self) -> String {
        match &self.running {
            Running::Nothing | Running::Kernel => String::new(),
            Running::Router(router) => router.log(),
            Running::Program(group) => group.process().said(),
        }
    }

    /// Checks that it has not ended by itself.
    ///
    /// # Errors
    /// It has; the error has its last line.
    pub fn running(&mut self) -> Result<()> {
        match &mut self.running {
            Running::Nothing | Running::Kernel => Ok(()),
            Running::Router(router) => router.running(),
            Running::Program(group) => group.running(),
        }
    }

    /// Waits until the tester's ends have a carrier.
    fn wait_for_links(&mut self) -> Result<()> {
        let (patience, name) = (self.setup.patience, self.kind.name());
        let ports = self.sides.each_ref().map(|side| side.port.clone());
        wait_until(patience, &format!("the links to {name} to be up"), || {
            self.running()?;
            for port in &ports {
                let link = run(&mut Place::Router.command(&format!("ip -o link show {port}"))).output()?;
                if !link.contains("LOWER_UP") {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// The name of its files.
    fn file(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}{suffix}", self.host.name()))
    }

    /// Sets `/proc/sys/net/NAME` in its namespace.
    fn set(&self, name: &str, value: &str) -> Result<()> {
        self.host.set(name, value)
    }

    /// Runs `ip WORDS` in its namespace.
    fn ip(&self, words: &str) -> Result<()> {
        self.host.run(&format!("ip {words}")).output().map(|_| ())
    }

    /// Brings both interfaces up in a namespace in which the kernel neither forwards nor speaks.
    fn leave_to_programs(&self) -> Result<()> {
        // A new namespace may have the settings of the first one.
        self.set("ipv4/ip_forward", "0")?;
        self.set("ipv6/conf/all/forwarding", "0")?;
        for side in &self.sides {
            self.ip(&format!("link set {} addrgenmode none", side.interface))?;
            self.ip(&format!("link set {} up", side.interface))?;
        }
        Ok(())
    }
}

impl Kind {
    /// What it is called: `linux`, `perigee`, `testpmd`, or the command line.
    pub fn name(&self) -> &str {
        match self {
            Kind::Linux => "linux",
            Kind::Perigee(_) => "perigee",
            Kind::Testpmd(_) => "testpmd",
            Kind::Command(line) => &line.line,
        }
    }
}

fn namespace(number: u8) -> String {
    if number == 0 { "device".to_owned() } else { format!("device{number}") }
}

/// The cores that this process may use, the first and the last of which are the farthest apart.
fn first_and_last_core() -> Result<[usize; 2]> {
    let usable = rustix::thread::sched_getaffinity(None).context("the kernel does not say which cores may be used")?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| usable.is_set(*core)).collect();
    match (cores.first(), cores.last()) {
        (Some(first), Some(last)) => Ok([*first, *last]),
        _ => bail!("no core may be used"),
    }
}
