// SPDX-License-Identifier: MIT
//! What a configuration says, checked and resolved: names have become indices, defaults are filled in.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use perigee_net::{FiveTuple, InterfaceAddress, InterfaceId, MacAddr, Namespace, Prefix, Route};

use super::linux::Linux;
use super::mistake::Mistake;

/// A whole configuration. Every index in it is valid; every address was checked against the interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[router]`.
    pub router: Router,
    /// `[eal]`.
    pub eal: Eal,
    /// `[linux]`.
    pub linux: Linux,
    /// One per worker, at least one.
    pub workers: Vec<Worker>,
    /// `[port.NAME]` in the order of the file.
    pub ports: Vec<Port>,
    /// The ports' own interfaces (the first `ports.len()` of them, in the same order), then the VLANs'.
    pub interfaces: Vec<Interface>,
    /// `[[route]]`: to a gateway, to several or to nowhere.
    pub routes: Vec<(Prefix, Route)>,
    /// What `routes_file` held; filled by [`Config::load`].
    pub file_routes: Vec<(Prefix, Route)>,
    /// `routes_file`, if there is one.
    pub routes_file: Option<PathBuf>,
    /// `[[neighbor]]`.
    pub neighbors: Vec<Neighbor>,
    /// `[[filter]]`: the first that matches decides, no match accepts.
    pub filters: Vec<Filter>,
    /// `[[steer]]`.
    pub steers: Vec<Steer>,
    /// What is allowed but looks like an oversight.
    pub warnings: Vec<Mistake>,
}

impl Config {
    /// Every route, those of the file last.
    pub fn all_routes(&self) -> impl Iterator<Item = &(Prefix, Route)> {
        self.routes.iter().chain(&self.file_routes)
    }

    /// The index in [`Config::interfaces`] of `wan` or `wan.100`.
    pub fn interface_named(&self, name: &str) -> Option<InterfaceId> {
        let at = self.interfaces.iter().position(|i| i.name == name)?;
        Some(InterfaceId(at as u16))
    }
}

/// `[router]`: what concerns the router as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// Names the API socket and the EAL's files.
    pub name: String,
    /// The Lua fast path; the built-in one if `None`.
    pub script: Option<PathBuf>,
    /// Where the twins live; the router's own namespace if `None`.
    pub namespace: Option<Namespace>,
    /// Packets taken from a queue at once, 1 to 256.
    pub burst: u16,
    /// Packets a transmit buffer gathers before it is sent, 1 to 256.
    pub transmit_queue: u16,
    /// How long a packet may wait there.
    pub transmit_timeout: Duration,
    /// What a worker does when its queues are empty.
    pub idle: Idle,
    /// What routes are looked up in.
    pub fib: FibChoice,
    /// The API's unix socket.
    pub socket: PathBuf,
    /// Where metrics are served to the network as well; nowhere if `None`.
    pub metrics: Option<SocketAddr>,
    /// Packets in the ring from each worker to the slow path; a power of two.
    pub punt_ring: u32,
    /// Packet buffers of the pool.
    pub mbufs: u32,
    /// ICMP errors per second, for the router as a whole (RFC 1812 4.3.2.8, RFC 4443 2.4 f).
    pub icmp_rate: u32,
}

/// `fib`: the names of the lookup structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibChoice {
    /// For IPv4.
    pub v4: String,
    /// For IPv6.
    pub v6: String,
}

impl Default for FibChoice {
    fn default() -> Self {
        Self { v4: AUTO.into(), v6: AUTO.into() }
    }
}

/// The name that leaves the choice to the router.
pub const AUTO: &str = "auto";

/// The names that `fib` may have, besides [`AUTO`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FibNames {
    /// Of structures for IPv4.
    pub v4: Vec<String>,
    /// Of structures for IPv6.
    pub v6: Vec<String>,
}

impl FibNames {
    /// What names mean: one for the families that have it, or one for each family.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn choose(&self, names: &[impl AsRef<str>]) -> Result<FibChoice, String> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let has = |list: &[String], name: &str| name == AUTO || list.iter().any(|known| known == name);
        let (v4, v6) = (|name: &str| has(&self.v4, name), |name: &str| has(&self.v6, name));
        let choice = |a: &str, b: &str| FibChoice { v4: a.to_owned(), v6: b.to_owned() };
        match names[..] {
            [name] if v4(name) && v6(name) => Ok(choice(name, name)),
            [name] if v4(name) => Ok(choice(name, AUTO)),
            [name] if v6(name) => Ok(choice(AUTO, name)),
            [a, b] if v4(a) && v6(b) => Ok(choice(a, b)),
            [a, b] if v4(b) && v6(a) => Ok(choice(b, a)),
            _ => Err(self.expected()),
        }
    }

    /// What [`choose`](Self::choose) takes.
    pub fn expected(&self) -> String {
        let list = |names: &[String]| names.iter().filter(|name| *name != AUTO).cloned().collect::<Vec<_>>().join(", ");
        format!(
            "\"{AUTO}\", the name of a lookup structure, or one for IPv4 ({}) and one for IPv6 ({})",
            list(&self.v4),
            list(&self.v6)
        )
    }
}

/// What a worker without packets does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Asks again at once: lowest delay, one busy core.
    Poll,
    /// Sleeps, longer the longer nothing comes.
    Sleep,
}

/// `[eal]`: how DPDK's environment abstraction layer starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Eal {
    /// Further arguments, as the EAL takes them.
    pub args: Vec<String>,
    /// Hugepages or ordinary memory.
    pub hugepages: Hugepages,
    /// Megabytes of memory, without that of DPDK's lookup structures; the EAL's own choice if `None`.
    pub memory: Option<u32>,
    /// Keeps the files of several routers apart; the router's name if not given.
    pub file_prefix: String,
}

/// Whether DPDK takes hugepages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hugepages {
    /// If the machine has any.
    Auto,
    /// Or fail.
    On,
    /// Never.
    Off,
}

/// One worker thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The core it is pinned to.
    pub core: u16,
}

/// `[port.NAME]`: a device and how it is driven.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Also the twin's name; at most 15 characters.
    pub name: String,
    /// What DPDK opens.
    pub device: Device,
    /// Instead of the device's own MAC address.
    pub mac: Option<MacAddr>,
    /// Bytes of an IP packet.
    pub mtu: u16,
    /// Whether frames to other MAC addresses are received.
    pub promiscuous: bool,
    /// Receive queues; one per worker if `None`.
    pub queues: Option<u16>,
    /// Whether a TAP mirrors the port to Linux.
    pub twin: bool,
}

/// Where a port's packets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A PCI address or a virtual device with its arguments, as the EAL takes it.
    Dpdk(String),
    /// A Linux interface.
    Linux {
        /// Its name.
        interface: String,
        /// By which DPDK driver.
        driver: LinuxDriver,
    },
}

/// How a Linux interface is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxDriver {
    /// `net_af_packet`: works everywhere.
    AfPacket,
    /// `net_af_xdp`: faster, needs more privileges.
    AfXdp,
}

/// A port's own interface, or one of its VLANs (`[port.NAME.vlan.ID]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// `wan`, or `wan.100`.
    pub name: String,
    /// Index in [`Config::ports`].
    pub port: u16,
    /// 1 to 4094; `None` for untagged frames.
    pub vlan: Option<u16>,
    /// Bytes of an IP packet.
    pub mtu: u16,
    /// The router's own addresses, each with the length of its network's prefix.
    pub addresses: Vec<InterfaceAddress>,
}

/// `[[neighbor]]`: an address that is not asked for by ARP or ND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Within a network of the interface.
    pub address: IpAddr,
    /// The address of one station.
    pub mac: MacAddr,
    /// Index in [`Config::interfaces`].
    pub interface: InterfaceId,
}

/// `[[filter]]`: one rule of the fast path's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The packets it is about.
    pub tuple: FiveTuple,
    /// What becomes of them.
    pub action: Action,
}

/// What a filter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Lets the packet go on.
    Accept,
    /// Drops it.
    Drop,
}

/// `[[steer]]`: packets that the device puts into the slow path's own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steer {
    /// Index in [`Config::ports`]; every port if `None`.
    pub port: Option<u16>,
    /// Which packets.
    pub what: SteerMatch,
}

/// What a hardware filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerMatch {
    /// The Ethernet type.
    EtherType(u16),
    /// Addresses, protocol, ports.
    FiveTuple(FiveTuple),
}
