// SPDX-License-Identifier: MIT
//! `perigee run` as the device.

use super::Device;
use crate::{Launch, Router, budgets};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// How the router is configured.
#[derive(Debug, Clone)]
pub struct Perigee {
    /// `perigee`: see [`crate::program`].
    pub program: PathBuf,
    /// Worker threads, from the last core down.
    pub workers: u16,
    /// The cores of the workers, instead of their number.
    pub cores: Vec<usize>,
    /// Packets taken from a queue at once.
    pub burst: u16,
    /// Whether DPDK's memory is on hugepages.
    pub hugepages: bool,
    /// DPDK's memory, in MB.
    pub memory: u32,
    /// Whether Linux sees the ports, `left` and `right`, in the device's namespace.
    pub twins: bool,
    /// Whether the in-kernel plane forwards; only root may load it.
    pub in_kernel: bool,
    /// More words of `perigee run`, such as `--fib=NAME`.
    pub arguments: Vec<String>,
}

impl Perigee {
    /// One worker, with the router's own defaults, without hugepages.
    pub fn new(program: PathBuf) -> Perigee {
        Perigee {
            program,
            workers: 1,
            cores: Vec::new(),
            burst: 32,
            hugepages: false,
            memory: 256,
            twins: true,
            in_kernel: false,
            arguments: Vec::new(),
        }
    }
}

/// The socket's suffix: the router's API.
const SOCKET: &str = ".sock";

pub(super) fn start(device: &Device, options: &Perigee) -> Result<Router> {
    device.leave_to_programs()?;
    let file = device.file(".toml");
    fs::write(&file, configuration(device, options)?)
        .with_context(|| format!("{} cannot be written", file.display()))?;
    Router::start(Launch {
        program: options.program.clone(),
        place: device.host().place(),
        configuration: file,
        arguments: options.arguments.clone(),
        socket: device.file(SOCKET),
        log: Some(device.file(".log")),
        patience: device.setup.patience,
    })
}

fn configuration(device: &Device, options: &Perigee) -> Result<String> {
    let Perigee { workers, cores, burst, hugepages, memory, twins, in_kernel, .. } = options;
    let (name, socket) = (device.host().name(), device.file(SOCKET));
    // The plane's worker has next to nothing to do, and the tester needs the core.
    let idle = if *in_kernel { "sleep" } else { "poll" };
    let workers = if cores.is_empty() { format!("workers = {workers}") } else { format!("cores = {cores:?}") };
    let mut text = format!(
        "# SPDX-License-Identifier: MIT\n\
         [router]\nname = \"{name}\"\nsocket = \"{}\"\nidle = \"{idle}\"\nburst = {burst}\n{workers}\n{}\n\
         [eal]\nhugepages = {hugepages}\nmemory = {memory}\n",
        socket.display(),
        budgets("")?
    );
    for (port, side) in ["left", "right"].into_iter().zip(device.sides()) {
        let [v4, v6] = side.addresses();
        let (interface, mtu) = (side.interface, device.setup.mtu);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n[port.{port}]\ninterface = \"{interface}\"\nmtu = {mtu}\ntwin = {twins}\naddresses = [\"{v4}\", \"{v6}\"]\n"
        );
        if *in_kernel {
            text.push_str("plane = \"xdp\"\n");
        }
        if device.setup.static_neighbors {
            for address in [side.tester_v4.to_string(), side.tester_v6.to_string()] {
                let _ = write!(text, "[[neighbor]]\naddress = \"{address}\"\nmac = \"{}\"\n", side.tester_mac);
            }
        }
    }
    Ok(text)
}
