// SPDX-License-Identifier: MIT
//! What the API answers, as JSON objects: filled by the router, read by the command line and by anyone's scripts.
//!
//! Counters count since the router started. Lists come in the order of the configuration where there is one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use perigee_net::{InterfaceAddress, MacAddr, Namespace, Prefix};
use serde::{Deserialize, Serialize};

/// `GET /v1/version`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VersionStatus {
    /// The router's name in its configuration.
    pub name: String,
    /// Of perigee, such as `0.1.0`.
    pub perigee: String,
    /// Of DPDK, such as `DPDK 22.11.1`.
    pub dpdk: String,
    /// Process number.
    pub pid: u32,
    /// Seconds since the router started.
    pub uptime: f64,
    /// The configuration file.
    pub config: String,
}

/// An element of `GET /v1/ports`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortStatus {
    /// Of the configuration.
    pub name: String,
    /// What DPDK opened.
    pub device: String,
    /// The DPDK driver, such as `net_af_packet`.
    pub driver: String,
    /// In use on the wire.
    pub mac: MacAddr,
    /// Bytes of an IP packet.
    pub mtu: u16,
    /// Whether there is a link.
    pub link_up: bool,
    /// Megabits per second, if the device says.
    pub speed: Option<u32>,
    /// Whether frames to other MAC addresses are received.
    pub promiscuous: bool,
    /// Receive queues in use, with the slow path's own.
    pub receive_queues: u16,
    /// Transmit queues in use.
    pub transmit_queues: u16,
    /// The NUMA node, if there is more than one.
    pub numa: Option<u16>,
    /// What the device does itself, such as `ipv4-checksum` or `rss`.
    pub offloads: Vec<String>,
    /// The Linux interface beside it.
    pub twin: Option<TwinEntry>,
    /// The port's interfaces: its own, then its VLANs.
    pub interfaces: Vec<InterfaceEntry>,
    /// The device's counters.
    pub counters: PortCounters,
}

/// The twin of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwinEntry {
    /// The interface's name in Linux.
    pub name: String,
    /// Where it is; the router's own namespace if null.
    pub namespace: Option<Namespace>,
    /// Linux's number of it there.
    pub index: u32,
    /// Frames given to Linux.
    pub to_linux: u64,
    /// Frames that came from Linux.
    pub from_linux: u64,
    /// Frames that Linux had no room for.
    pub dropped: u64,
}

/// A port's interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfaceEntry {
    /// `wan` or `wan.100`.
    pub name: String,
    /// The VLAN, null for untagged frames.
    pub vlan: Option<u16>,
    /// Whether it is used (`ip link set up`).
    #[serde(default = "yes")]
    pub up: bool,
    /// Bytes of an IP packet.
    pub mtu: u16,
    /// The router's addresses on it.
    pub addresses: Vec<InterfaceAddress>,
}

fn yes() -> bool {
    true
}

/// What a device counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Received frames.
    pub receive_packets: u64,
    /// Their bytes.
    pub receive_bytes: u64,
    /// Damaged frames.
    pub receive_errors: u64,
    /// Frames for which a queue had no room.
    pub receive_missed: u64,
    /// Times the pool was empty.
    pub receive_no_buffer: u64,
    /// Transmitted frames.
    pub transmit_packets: u64,
    /// Their bytes.
    pub transmit_bytes: u64,
    /// Frames the device could not send.
    pub transmit_errors: u64,
    /// Frames for which a transmit queue had no room.
    pub transmit_dropped: u64,
}

/// `GET /v1/linux`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinuxStatus {
    /// Who tells the routes: `netlink`, `fpm` or `none`.
    pub feed: String,
    /// `following`, `reading` (everything, anew), `lost` (news were lost, or the namespace is gone) or `off` (no twins).
    pub state: String,
    /// The twins' namespace; the router's own if null.
    pub namespace: Option<Namespace>,
    /// The tables that are followed.
    pub tables: Vec<String>,
    /// Routes taken over.
    pub routes: u64,
    /// Links in the namespace.
    pub links: u64,
    /// Addresses on them.
    pub addresses: u64,
    /// Neighbors that were set by hand (`ip neigh add`) on the router's interfaces.
    pub neighbors_by_hand: u64,
    /// Next-hop objects (`ip nexthop`).
    pub next_hops: u64,
    /// Routes taken over, replaced and withdrawn.
    pub changes: u64,
    /// Routes that did not fit the table.
    pub refused: u64,
    /// Routes left out, by reason: how often one was seen.
    pub left_out: BTreeMap<String, u64>,
    /// Dumps asked for.
    pub dumps: u64,
    /// How often the kernel had no room for news (ENOBUFS).
    pub overruns: u64,
    /// Messages that contradict themselves.
    pub malformed: u64,
    /// Messages of other families and kinds.
    pub skipped: u64,
    /// Dumps compared with what was there.
    pub resyncs: u64,
    /// Routes that were found to differ then, after the first.
    pub repaired: u64,
    /// How long the last one took.
    pub resync_seconds: f64,
    /// Audits begun.
    pub audits: u64,
    /// Differences that they found.
    pub audit_differences: u64,
}

/// `POST /v1/audit`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Routes in Linux that are followed.
    pub linux_routes: u64,
    /// Routes in the RIB, of every source.
    pub rib_routes: u64,
    /// Prefixes whose first and last address was looked up as workers do.
    pub prefixes: u64,
    /// Next hops compared with the neighbors.
    pub next_hops: u64,
    /// What differs, the first thousand.
    pub differences: Vec<Difference>,
    /// How many there are.
    pub total: u64,
    /// Those in the lookup structures that were repaired; what differs from Linux is read again.
    pub repaired: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A difference between two tables that should agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Whose; null for a next hop.
    pub prefix: Option<Prefix>,
    /// In words.
    pub kind: String,
    /// Of the route, where it is about one.
    pub metric: Option<u32>,
    /// What Linux says.
    pub linux: Option<String>,
    /// What the RIB says.
    pub rib: Option<String>,
    /// What workers find.
    pub lookup: Option<String>,
}

/// An element of `GET /v1/workers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// From 0.
    pub worker: u16,
    /// The core it is pinned to.
    pub core: u16,
    /// What it receives from, such as `wan:0`.
    pub queues: Vec<String>,
    /// `running`, `silent` (no batch boundary for a second) or `stopped`.
    pub state: String,
    /// Received bursts that were not empty.
    pub batches: u64,
    /// Empty polls.
    pub idle_polls: u64,
    /// Packets received for this worker's flows.
    pub received: u64,
    /// Packets received and handed to the workers their flows belong to.
    pub handed_over: u64,
    /// Packets handed to devices.
    pub transmitted: u64,
    /// Packets given to the slow path.
    pub punted: u64,
    /// Packets that the full ring to the slow path cost.
    pub punt_full: u64,
    /// Packets a script left behind, by forgetting them or by throwing.
    pub unclaimed: u64,
    /// Which of the published tables it uses.
    pub tables_version: u64,
    /// Seconds: the longest time between two rounds of its loop, since the router started or `POST /v1/workers/gaps` began
    /// anew. Sleep of an idle worker does not count.
    #[serde(default)]
    pub longest_gap: f64,
    /// Seconds since the router started, when this was counted: for rates.
    #[serde(default)]
    pub uptime: f64,
}

/// An element of `GET /v1/modules`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// The module's name in Lua.
    pub module: String,
    /// One line about it.
    pub about: String,
    /// Calls by all workers.
    pub calls: u64,
    /// Packets it was given.
    pub packets: u64,
    /// Packets it dropped, for any reason.
    pub dropped: u64,
    /// Packets it gave to the slow path, for any reason.
    pub punted: u64,
}

/// Whether a packet ended or went to the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropKind {
    /// It ended.
    Drop,
    /// The slow path has it.
    Punt,
}

/// An element of `GET /v1/drops`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropStatus {
    /// Who did it.
    pub module: String,
    /// Why.
    pub reason: String,
    /// Drop or punt.
    pub kind: DropKind,
    /// The section that demands it, such as `RFC 1812 5.2.2`.
    pub rfc: Option<String>,
    /// Packets of all workers.
    pub packets: u64,
    /// Packets of each worker.
    pub per_worker: Vec<u64>,
}

/// `GET /v1/routes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteList {
    /// How many there are that were asked for; `routes` may hold fewer, by `limit`.
    pub total: u64,
    /// Bytes of the lookup structures.
    pub memory: u64,
    /// In the order of the prefixes.
    pub routes: Vec<RouteEntry>,
}

/// An element of `GET /v1/fib`: what the routes of a family are looked up in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FibStatus {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// The choice of the configuration or the command line.
    pub chosen: String,
    /// The name of the structure in use.
    pub structure: String,
    /// Why it is in use, if that was its own choice.
    pub why: Option<String>,
    /// Prefixes in it.
    pub prefixes: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether changes wait for a worker before they take effect.
    pub pending: bool,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteEntry {
    /// Its destinations.
    pub prefix: Prefix,
    /// `connected`, `local`, `static`, `neighbor` or `api`.
    pub source: String,
    /// `forward`, `local`, `blackhole`, `unreachable` or `prohibit`.
    pub action: String,
    /// The neighbor or, for a route that other routes carry, the router it goes to.
    pub via: Option<IpAddr>,
    /// The interface; null for a gateway that is not reached now.
    pub dev: Option<String>,
    /// Of a route with several gateways: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<GatewayEntry>,
    /// Before the metric: the lower is preferred.
    pub preference: u8,
    /// The lower is preferred.
    pub metric: u32,
    /// Whether packets use it.
    pub best: bool,
}

/// One of several gateways of a route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayEntry {
    /// Its address; null for the destinations on the interface's link.
    pub via: Option<IpAddr>,
    /// The interface; null while it is not reached.
    pub dev: Option<String>,
    /// Its part of the flows, compared with the others'.
    pub weight: u16,
}

/// An element of `GET /v1/nexthops`: what routes share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextHopEntry {
    /// Its number, as workers know it.
    pub id: u32,
    /// `neighbor`, `connected`, `recursive` or `group`.
    pub kind: String,
    /// The neighbor's or the gateway's address.
    pub via: Option<IpAddr>,
    /// The interface packets leave by.
    pub dev: Option<String>,
    /// The neighbor's, if it is known.
    pub mac: Option<MacAddr>,
    /// Of a recursive one: the next hop it is reached by; null while it is not.
    pub target: Option<u32>,
    /// Of a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<NextHopMember>,
    /// How many prefixes, groups and recursive next hops lead to it.
    pub uses: u32,
}

/// A member of a group of next hops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextHopMember {
    /// The next hop.
    pub id: u32,
    /// Its weight.
    pub weight: u32,
    /// The part of all flows that it has now, of 1; 0 while others are resolved and it is not.
    pub share: f64,
}

/// An element of `GET /v1/neighbors`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighborEntry {
    /// Its address.
    pub address: IpAddr,
    /// Null while it is being asked for.
    pub mac: Option<MacAddr>,
    /// The interface.
    pub dev: String,
    /// `static`, `incomplete`, `reachable`, `stale`, `probe` or `failed`.
    pub state: String,
    /// Seconds since it was last heard.
    pub age: Option<f64>,
}

/// An element of `GET /v1/scripts`: a worker's script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptStatus {
    /// From 0.
    pub worker: u16,
    /// The file, or `built-in`.
    pub path: String,
    /// 1 at the start, one more with each reload.
    pub generation: u64,
    /// Seconds since 1970.
    pub loaded_at: f64,
    /// `running`, `refused` or `rolled_back`.
    pub state: String,
    /// The last error, with file and line.
    pub error: Option<String>,
    /// Errors at run time.
    pub throws: u64,
    /// Compiled traces.
    pub traces: u64,
    /// Traces that LuaJIT began and gave up.
    pub trace_aborts: u64,
    /// Pieces of code that LuaJIT will not try again.
    pub blacklisted: u64,
    /// Kilobytes of Lua's memory.
    pub gc_kb: f64,
}

/// An element of `GET /v1/filters`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FilterStatus {
    /// `filter` or `steer`.
    pub kind: String,
    /// Its place in the configuration, from 1.
    pub number: u32,
    /// The rule in words.
    pub rule: String,
    /// `accept`, `drop` or `slow path`.
    pub action: String,
    /// `software` or `hardware`.
    pub done_in: String,
    /// Packets that it matched, if they are counted.
    pub packets: Option<u64>,
}

/// `GET /v1/config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigText {
    /// TOML that would start this router as it is now.
    pub toml: String,
}

/// What became of a reload, an added or a deleted route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One sentence.
    pub message: String,
}

/// Everything that `GET /metrics` shows; what the backend answers to [`crate::Request::Metrics`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Who counts, and since when.
    pub version: VersionStatus,
    /// As in `GET /v1/ports`.
    pub ports: Vec<PortStatus>,
    /// As in `GET /v1/workers`.
    pub workers: Vec<WorkerStatus>,
    /// As in `GET /v1/modules`.
    pub modules: Vec<ModuleStatus>,
    /// As in `GET /v1/drops`.
    pub drops: Vec<DropStatus>,
    /// As in `GET /v1/scripts`.
    pub scripts: Vec<ScriptStatus>,
    /// Routes by source.
    pub routes: Vec<(String, u64)>,
    /// As in `GET /v1/fib`.
    #[serde(default)]
    pub fib: Vec<FibStatus>,
    /// As in `GET /v1/linux`.
    #[serde(default)]
    pub linux: LinuxStatus,
    /// Next hops by kind.
    #[serde(default)]
    pub next_hops: Vec<(String, u64)>,
    /// Neighbors by state.
    pub neighbors: Vec<(String, u64)>,
    /// Packet buffers in use and in all.
    pub buffers: Option<(u64, u64)>,
}
