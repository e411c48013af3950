// SPDX-License-Identifier: MIT
//! `perigee run` with each kind of port on the same interfaces: which plane forwards how much, on how many cores.

use super::scene::Scene;
use super::tables::{GATEWAYS, Table, gateway, gateway_mac};
use super::{Family, Found, Sample, XdpArgs};
use anyhow::{Context as _, Result, ensure};
use perigee_lab::{Launch, Place, Router, program};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// How long a router may take to start, and to load a full table.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time in which an idle router is watched.
const IDLE: Duration = Duration::from_secs(3);

/// What opens the router's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ports {
    /// `plane = "xdp"`
    Kernel,
    /// `driver = "xdp"`
    Xdp,
    /// `driver = "packet"`
    Packet,
    /// `driver = "dpdk:af_xdp"`
    DpdkXdp,
    /// `driver = "dpdk:af_packet"`
    DpdkPacket,
}

impl Ports {
    pub const ALL: [Ports; 5] = [Ports::Kernel, Ports::Xdp, Ports::Packet, Ports::DpdkXdp, Ports::DpdkPacket];

    /// The line of a port's configuration.
    pub fn line(self) -> &'static str {
        match self {
            Ports::Kernel => "plane = \"xdp\"",
            Ports::Xdp => "driver = \"xdp\"",
            Ports::Packet => "driver = \"packet\"",
            Ports::DpdkXdp => "driver = \"dpdk:af_xdp\"",
            Ports::DpdkPacket => "driver = \"dpdk:af_packet\"",
        }
    }
}

/// All kinds of ports in turn, with a table of IPv4.
pub fn measure(scene: &Scene, args: &XdpArgs, table: &Table, found: &mut Found) -> Result<()> {
    ensure!(table.family == Family::Ipv4, "the planes are compared by IPv4");
    // The interfaces are the router's alone.
    for link in ["d0", "d1"] {
        scene.world.ip(&format!("addr flush dev {link}"))?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "0").context("Linux forwards, too")?;
    scene.set_course(table)?;
    for round in 0..args.rounds {
        for ports in Ports::ALL {
            let sample = sample(scene, args, table, ports).with_context(|| ports.line().to_owned())?;
            found.push(table, round, sample);
        }
    }
    Ok(())
}

fn sample(scene: &Scene, args: &XdpArgs, table: &Table, ports: Ports) -> Result<Sample> {
    let folder = scene.world.folder();
    let (file, socket) = (folder.join("planes.toml"), folder.join("planes.sock"));
    fs::write(&file, configuration(&socket.display().to_string(), ports, scene.other))?;
    let router = Router::start(Launch {
        program: program()?,
        place: Place::Router,
        configuration: file,
        arguments: Vec::new(),
        socket,
        log: Some(folder.join("planes.log")),
        patience: PATIENCE,
    })?;
    let mut routes = String::new();
    for (prefix, number) in &table.routes {
        let _ = writeln!(routes, "{prefix} via {}", gateway(table.family, *number)); // a String takes everything
    }
    let list = scene.world.file("planes.routes", &routes)?;
    let loaded = router.ask(&format!("route load {}", list.display())).output()?;
    ensure!(loaded.contains(" 0 refused"), "{loaded}");
    let idle = scene.busy(router.pid(), IDLE)?;
    // The in-kernel plane redirects to a program, the others send socket buffers, which would be copied for one.
    let _sink = (ports == Ports::Kernel).then(|| scene.attach_sink()).transpose()?;
    let rate = scene.rate(args, false)?;
    router.stop()?;
    Ok(Sample::Ports { ports, mpps: rate, idle })
}

fn configuration(socket: &str, ports: Ports, core: usize) -> String {
    let mut text = format!(
        "[router]\nname = \"planes\"\nsocket = \"{socket}\"\nidle = \"adaptive\"\ncores = [{core}]\n\
         [eal]\nhugepages = false\nmemory = 256\n"
    );
    for (port, interface, v4, v6) in
        [("left", "d0", "198.18.0.1/16", "2001:db8:18::1/64"), ("right", "d1", "198.19.0.1/16", "2001:db8:19::1/64")]
    {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "[port.{port}]\ninterface = \"{interface}\"\n{}\ntwin = false\naddresses = [\"{v4}\", \"{v6}\"]\n",
            ports.line()
        );
    }
    for family in [Family::Ipv4, Family::Ipv6] {
        for number in 0..GATEWAYS {
            let (address, mac) = (gateway(family, number), gateway_mac(number));
            let _ = write!(text, "[[neighbor]]\naddress = \"{address}\"\nmac = \"{mac}\"\n");
        }
    }
    text
}
