// SPDX-License-Identifier: MIT
//! The API's answers, as JSON objects: filled by the router, read by the command line and by scripts.
//!
//! Counters count since the router started. Lists come in the order of the configuration where there is one.

mod origin;
mod states;

pub use origin::{ParseSourceError, SourceFilter};
pub use states::*;

use crate::declare::objects;
use perigee_net::{InterfaceAddress, MacAddr, Namespace, Prefix};
use std::collections::BTreeMap;
use std::net::IpAddr;

objects! {
    /// Which router answers.
    #[derive(Default)]
    pub struct VersionStatus {
        /// The router's name in its configuration.
        pub name: String,
        /// The version of perigee, such as `0.1.0`.
        pub perigee: String,
        /// The version of DPDK, such as `DPDK 22.11.1`.
        pub dpdk: String,
        /// Process number.
        pub pid: u32,
        /// Seconds since the router started.
        pub uptime: f64,
        /// The configuration file.
        pub config: String,
    }

    /// A counter or a gauge of the script's own.
    pub struct ScriptValue {
        /// The module that the script names.
        pub module: String,
        /// Its name.
        pub name: String,
        /// What it is.
        pub kind: ValueKind,
        /// The sum of the workers'.
        pub value: u64,
        /// Each worker's.
        pub per_worker: Vec<u64>,
    }

    /// A port.
    pub struct PortStatus {
        /// Its name in the configuration.
        pub name: String,
        /// The Linux interface, or the device that DPDK opened.
        pub device: String,
        /// What drives it: `packet` or `xdp`, the router's own packet sockets or AF_XDP sockets, or a driver of DPDK's, such as `net_af_packet`.
        pub driver: String,
        /// The MAC address in use on the wire.
        pub mac: MacAddr,
        /// Bytes of an IP packet.
        pub mtu: u16,
        /// Whether there is a link.
        pub link_up: bool,
        /// Megabits per second, if the device says.
        pub speed: Option<u32>,
        /// Whether frames to other MAC addresses are received.
        pub promiscuous: bool,
        /// Receive queues in use, including the slow path's own.
        pub receive_queues: u16,
        /// Transmit queues in use.
        pub transmit_queues: u16,
        /// The NUMA node, if there is more than one.
        pub numa: Option<u16>,
        /// What the device does itself, such as `ipv4-checksum` or `rss`.
        pub offloads: Vec<String>,
        /// Its twin, the Linux interface next to it.
        pub twin: Option<TwinEntry>,
        /// The port's interfaces: its own, then its VLANs.
        pub interfaces: Vec<InterfaceEntry>,
        /// The device's counters.
        pub counters: PortCounters,
        /// What Linux has lost on the interface under the port, before the port's receive queues and after its transmit queues; null if
        /// there is no such interface.
        #[serde(default)]
        pub kernel: Option<KernelLosses>,
        /// What the in-kernel plane has done with the port's packets; absent for ports of workers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub plane: Option<PlaneCounters>,
        /// Further counters of losses that a DPDK device keeps under names of its driver's (xstats), if they are not zero. Most of these
        /// losses are also in `counters`, with less detail.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub device_counters: BTreeMap<String, u64>,
    }

    /// Frames that Linux has lost on an interface since the router began to use it. Frames lost after a transmit queue took them also
    /// count as transmitted; if the interface has no queue of its own, Linux may report the loss at once, and they count as transmit
    /// errors instead.
    #[derive(Default)]
    pub struct KernelLosses {
        /// Received frames that never reached the port's receive queues: the interface or the processor that serves it had no room, or
        /// the frame was longer than the interface's MTU.
        pub receive_dropped: u64,
        /// Frames that were damaged when they arrived.
        pub receive_errors: u64,
        /// Frames lost after the port's transmit queues took them: the interface or its peer had no room.
        pub transmit_dropped: u64,
        /// Frames that the interface failed to send.
        pub transmit_errors: u64,
    }

    /// The in-kernel plane's part of a port's packets. What it has finished and sent is in the port's `counters`, too; what it has
    /// handed on is there once a worker has received it.
    #[derive(Default)]
    pub struct PlaneCounters {
        /// Received packets that it has forwarded or dropped.
        pub finished: u64,
        /// Packets that it has sent by the port.
        pub sent: u64,
        /// Received packets that it has handed on to workers.
        pub handed_on: u64,
    }

    /// The twin of a port.
    pub struct TwinEntry {
        /// The interface's name in Linux.
        pub name: String,
        /// Its namespace; the router's own if null.
        pub namespace: Option<Namespace>,
        /// Its interface index there.
        pub index: u32,
        /// Frames given to Linux.
        pub to_linux: u64,
        /// Frames that came from Linux.
        pub from_linux: u64,
        /// Frames that Linux had no room for.
        pub dropped: u64,
        /// Frames from Linux for which the twin's queue had no room, because the slow path did not read it fast enough.
        #[serde(default)]
        pub missed: u64,
    }

    /// A port's interface.
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

    /// The counters of a device.
    #[derive(Default)]
    pub struct PortCounters {
        /// Received frames; of a super-frame each segment counts.
        pub receive_packets: u64,
        /// Their bytes.
        pub receive_bytes: u64,
        /// Damaged frames, frames longer than the MTU or the buffers, and chained or shared ones that no buffer was free for.
        pub receive_errors: u64,
        /// Frames for which a receive queue had no room: workers did not take them fast enough.
        pub receive_missed: u64,
        /// Times the pool was empty. Frames then wait in their queue, and are lost when that is full.
        pub receive_no_buffer: u64,
        /// Super-frames received as a whole.
        pub receive_super_frames: u64,
        /// Segments in them, which are among the received frames.
        pub receive_super_segments: u64,
        /// Transmitted frames; of a super-frame each segment counts.
        pub transmit_packets: u64,
        /// Their bytes.
        pub transmit_bytes: u64,
        /// Frames the device could not send.
        pub transmit_errors: u64,
        /// Frames of workers and slow path for which a transmit queue, or the ring before it, had no room.
        pub transmit_dropped: u64,
        /// Super-frames transmitted as a whole.
        pub transmit_super_frames: u64,
        /// Segments in them, which are among the transmitted frames.
        pub transmit_super_segments: u64,
    }

    /// How Linux is followed.
    #[derive(Default)]
    pub struct LinuxStatus {
        /// Where the routes come from.
        pub feed: LinuxFeed,
        /// Whether what is known of Linux is what Linux has.
        pub state: LinuxState,
        /// Whether there is a process that may change Linux.
        pub helper: HelperState,
        /// How often it has died; its standby has then taken its place, if there was one.
        pub helper_deaths: u64,
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
        /// Neighbors that an operator set (`ip neigh add`) on the router's interfaces.
        pub neighbors_by_hand: u64,
        /// Neighbors that have the MAC address of a group in Linux, which is not followed.
        pub group_neighbors: u64,
        /// Addresses of other stations that the router answers for (`ip neigh add proxy`), those of each interface counted.
        pub proxied: u64,
        /// Next-hop objects (`ip nexthop`).
        pub next_hops: u64,
        /// Routes taken over, replaced and withdrawn.
        pub changes: u64,
        /// Routes that did not fit the table.
        pub refused: u64,
        /// How often a route was left out, by reason.
        pub left_out: BTreeMap<String, u64>,
        /// Some of the routes that are left out: the first of each reason, 100 at most.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub left_out_routes: Vec<LeftOutRoute>,
        /// Routes by which Linux alone can forward.
        pub linux_only: u64,
        /// The first hundred of these.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub linux_only_routes: Vec<LinuxOnlyRoute>,
        /// A sentence about each policy rule of Linux (`ip rule`) that makes a difference.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub rules: Vec<String>,
        /// Dumps asked for.
        pub dumps: u64,
        /// How often the kernel had no room for notifications (ENOBUFS).
        pub overruns: u64,
        /// Messages that were cut off or contradicted themselves.
        pub malformed: u64,
        /// Messages of other families and kinds.
        pub skipped: u64,
        /// Dumps compared with what was known before.
        pub resyncs: u64,
        /// Differences that dumps have shown, except the first.
        pub repaired: u64,
        /// Duration of the last dump in seconds.
        pub resync_seconds: f64,
        /// Audits begun.
        pub audits: u64,
        /// Differences that they found.
        pub audit_differences: u64,
        /// Where the router does not do what Linux's interfaces say, a sentence each.
        pub differences: Vec<String>,
    }

    /// A route of Linux by which Linux alone can forward.
    pub struct LinuxOnlyRoute {
        /// Its destinations.
        pub prefix: Prefix,
        /// Linux's metric.
        pub metric: u32,
        /// What the router cannot do.
        pub why: String,
    }

    /// A route of Linux that is left out.
    pub struct LeftOutRoute {
        /// Its destinations.
        pub prefix: Prefix,
        /// Its table in Linux, by name or number.
        pub table: String,
        /// Who made it, by name or number, such as `bgp` or `kernel`.
        pub protocol: String,
        /// Why it is left out.
        pub why: String,
    }

    /// What an audit found.
    #[derive(Default)]
    pub struct AuditReport {
        /// Routes in Linux that are followed.
        pub linux_routes: u64,
        /// Routes in the RIB, of every source.
        pub rib_routes: u64,
        /// Prefixes whose first and last address were looked up as workers look them up.
        pub prefixes: u64,
        /// Next hops compared with the neighbors.
        pub next_hops: u64,
        /// Neighbors on connected networks that were looked up as workers look them up.
        pub neighbors: u64,
        /// The first thousand differences.
        pub differences: Vec<Difference>,
        /// Differences found.
        pub total: u64,
        /// Repaired differences in lookup structures and next hops; differences to Linux are repaired by another dump.
        pub repaired: u64,
        /// What the in-kernel plane reads otherwise than workers, by name; absent if there is no such plane. It is in `total`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub plane: Option<Vec<String>>,
        /// A sentence about each policy rule of Linux (`ip rule`) that makes a difference.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub rules: Vec<String>,
        /// How long it took, in seconds.
        pub seconds: f64,
    }

    /// A difference between two tables that should agree.
    pub struct Difference {
        /// The prefix it is about; null for a next hop or a neighbor.
        pub prefix: Option<Prefix>,
        /// Describes it in a few words.
        pub kind: String,
        /// The route's metric, if it is about a route.
        pub metric: Option<u32>,
        /// What Linux says.
        pub linux: Option<String>,
        /// What the RIB says.
        pub rib: Option<String>,
        /// What workers find.
        pub lookup: Option<String>,
    }

    /// A worker.
    #[derive(Default)]
    pub struct WorkerStatus {
        /// From 0.
        pub worker: u16,
        /// The core it is pinned to.
        pub core: u16,
        /// What it receives from, such as `wan:0`.
        pub queues: Vec<String>,
        /// Whether it gives signs of life.
        pub state: WorkerState,
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
        /// Packets lost because the ring to the slow path was full.
        pub punt_full: u64,
        /// Packets a script left behind, by forgetting them or by throwing.
        pub unclaimed: u64,
        /// The version of the published tables that it uses.
        pub tables_version: u64,
        /// Seconds: the longest time between two rounds of its loop, since the router started or since the last
        /// `POST /v1/workers/gaps`. Sleep of an idle worker does not count.
        #[serde(default)]
        pub longest_gap: f64,
        /// When this was counted, in seconds since the router started: for rates.
        #[serde(default)]
        pub uptime: f64,
    }

    /// A module.
    #[derive(Default)]
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
        /// Seconds that it took of all workers' time, estimated from one burst in 127; of the script (`script`): what the modules' time
        /// leaves of a burst's.
        pub seconds: f64,
        /// Nanoseconds that it took for a packet, in these bursts.
        pub packet_ns: Option<f64>,
    }

    /// A reason for which packets leave.
    pub struct DropStatus {
        /// The module that did it.
        pub module: String,
        /// Why.
        pub reason: String,
        /// Whether it ended there.
        pub kind: DropKind,
        /// The section that demands it, such as `RFC 1812 5.2.2`.
        pub rfc: Option<String>,
        /// Packets of all workers.
        pub packets: u64,
        /// Packets of each worker.
        pub per_worker: Vec<u64>,
    }

    /// What the slow path holds, and what it has done.
    #[derive(Default)]
    pub struct SlowPathStatus {
        /// Threads that judge packets, the owner of the tables included.
        pub threads: u64,
        /// Packets that wait for the MAC address of their next hop.
        pub waiting: u64,
        /// Datagrams to the router that wait for more fragments, and refused ones that are remembered until their time is up.
        pub reassembling: u64,
        /// Their memory.
        pub reassembling_bytes: u64,
        /// How often each thing has happened, such as `reassembled` or `echo_replied`; drops are in `GET /v1/drops`.
        pub events: BTreeMap<String, u64>,
    }

    /// The requested routes.
    #[derive(Default)]
    pub struct RouteList {
        /// Routes that match; `routes` may hold fewer, by `limit`.
        pub total: u64,
        /// Bytes of the lookup structures.
        pub memory: u64,
        /// Routes that were refused as there was no room: `max_routes`, or memory.
        #[serde(default)]
        pub refused: u64,
        /// In the order of the prefixes.
        pub routes: Vec<RouteEntry>,
    }

    /// A multicast route.
    pub struct MulticastEntry {
        /// The group.
        pub group: IpAddr,
        /// The source; null: any that has no route of its own.
        pub source: Option<IpAddr>,
        /// The configuration, or Linux.
        pub origin: RouteOrigin,
        /// Whether Linux forwards its packets itself, as it has interfaces that are not the router's.
        pub by_linux: bool,
        /// The interface that packets have to come in on; null: the one by which the unicast route leads to the source.
        pub from: Option<String>,
        /// The interfaces by which packets leave.
        pub to: Vec<MulticastOutput>,
        /// Packets that came in where they have to.
        pub packets: u64,
        /// Their bytes, from the IP header on.
        pub bytes: u64,
        /// Packets that came in elsewhere, and were dropped.
        pub wrong_interface: u64,
        /// Seconds since the last packet; null if there was none.
        pub last_use: Option<f64>,
    }

    /// An interface by which packets to a group leave.
    pub struct MulticastOutput {
        /// Its name.
        pub dev: String,
        /// Only packets leave whose TTL was greater than this when they came in.
        pub ttl: u8,
    }

    /// The lookup structure of an address family.
    pub struct FibStatus {
        /// The address family.
        pub family: IpFamily,
        /// What the configuration or the command line chose.
        pub chosen: String,
        /// The name of the structure in use.
        pub structure: String,
        /// Why it is in use, if the router chose it itself.
        pub why: Option<String>,
        /// Prefixes in it.
        pub prefixes: u64,
        /// Its bytes.
        pub bytes: u64,
        /// Whether changes wait for a worker before they take effect, or prefixes have yet to follow a link that went down or came up.
        pub pending: bool,
    }

    /// A route.
    pub struct RouteEntry {
        /// Its destinations.
        pub prefix: Prefix,
        /// Where it came from.
        pub source: RouteOrigin,
        /// Who gave a route of Linux to Linux: a routing protocol or a program, by its name in `/etc/iproute2/rt_protos`, or its
        /// number if it is none of those that the router knows. Of other routes, and those of Linux that stand in for others, left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub protocol: Option<String>,
        /// What happens to packets to its destinations.
        pub action: RouteAction,
        /// Why Linux alone can forward by the route, if that is so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub why: Option<String>,
        /// The neighbor or, for a route that other routes carry, the router it goes to.
        pub via: Option<IpAddr>,
        /// The interface; null for a gateway that is not reached now.
        pub dev: Option<String>,
        /// All gateways of a route that has several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub gateways: Vec<GatewayEntry>,
        /// Compared before the metric: the lower is preferred.
        pub preference: u8,
        /// The lower is preferred.
        pub metric: u32,
        /// Whether packets use it.
        pub best: bool,
        /// Whether it is out of use as its link is down, or the links of all its gateways.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub down: bool,
    }

    /// One of several gateways of a route.
    pub struct GatewayEntry {
        /// Its address; null for the destinations on the interface's link.
        pub via: Option<IpAddr>,
        /// The interface; null while it is not reached.
        pub dev: Option<String>,
        /// Its share of the flows, relative to the others'.
        pub weight: u16,
        /// Whether no flow has it, as its link is down.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub down: bool,
    }

    /// A next hop, which routes share.
    pub struct NextHopEntry {
        /// Its number, as workers know it.
        pub id: u32,
        /// What it leads to.
        pub kind: NextHopType,
        /// The neighbor's or the gateway's address.
        pub via: Option<IpAddr>,
        /// The interface packets leave by.
        pub dev: Option<String>,
        /// The neighbor's, if it is known.
        pub mac: Option<MacAddr>,
        /// The next hop that a recursive one is reached by; null while it is not reached.
        pub target: Option<u32>,
        /// The members of a group.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub members: Vec<NextHopMember>,
        /// Prefixes, groups and recursive next hops that lead to it.
        pub uses: u32,
        /// Whether packets that find it are answered as unreachable, as its link is down.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub down: bool,
    }

    /// A member of a group of next hops.
    pub struct NextHopMember {
        /// The next hop.
        pub id: u32,
        /// Its weight, relative to the others'.
        pub weight: u32,
        /// Its current share of all flows, from 0 to 1; 0 while it is not resolved or its link is down, and others are better off.
        pub share: f64,
    }

    /// A neighbor.
    pub struct NeighborEntry {
        /// Its address.
        pub address: IpAddr,
        /// Its MAC address; null while it is being resolved.
        pub mac: Option<MacAddr>,
        /// The interface.
        pub dev: String,
        /// Whether it is reachable.
        pub state: NeighborState,
    }

    /// How many neighbors an interface has of one family; gateways that routes need and static ones are not counted.
    pub struct NeighborUsage {
        /// The interface.
        pub dev: String,
        /// The family.
        pub family: IpFamily,
        /// Neighbors whose MAC address is known.
        pub known: u64,
        /// Those of them that told it unasked, and have not confirmed it.
        pub unconfirmed: u64,
        /// How many may be known: `max_neighbors`.
        pub known_limit: u64,
        /// Neighbors that were asked for and have not answered.
        pub unresolved: u64,
        /// How many may be unresolved: `max_unresolved`.
        pub unresolved_limit: u64,
    }

    /// A worker's script.
    #[derive(Default)]
    pub struct ScriptStatus {
        /// From 0.
        pub worker: u16,
        /// The file, or `built-in`.
        pub path: String,
        /// 1 at the start, incremented by each reload.
        pub generation: u64,
        /// Seconds since 1970.
        pub loaded_at: f64,
        /// Whether it is the requested script.
        pub state: ScriptState,
        /// The last error of this script, with file and line; or why the requested one does not run.
        pub error: Option<String>,
        /// Errors of this script at run time.
        pub throws: u64,
        /// Compiled traces.
        pub traces: u64,
        /// Traces that LuaJIT began and gave up.
        pub trace_aborts: u64,
        /// Pieces of code that LuaJIT will not try again.
        pub blacklisted: u64,
        /// Kilobytes of Lua's memory.
        pub gc_kb: f64,
        /// Times that a script of this worker did not return within its budget and was stopped, since the router's start.
        pub stalls: u64,
        /// Times garbage was collected, in steps.
        pub collections: u64,
        /// Seconds that took, in all.
        pub collection_seconds: f64,
        /// The longest of these pauses, in seconds.
        pub longest_collection: f64,
        /// Rounds and collections over their budgets.
        pub over_budget: u64,
    }

    /// A filter or a steer.
    pub struct FilterStatus {
        /// The section of the configuration it stands in.
        pub kind: FilterKind,
        /// Its place in the configuration, from 1.
        pub number: u32,
        /// The packets it matches, such as `src 10.0.0.0/8 proto 17 dport 53`.
        pub rule: String,
        /// Whose packets it is about.
        pub from: FilteredFrom,
        /// What happens to them.
        pub action: FilterAction,
        /// What carries it out.
        pub done_in: DoneIn,
        /// Packets that a filter has decided about, dropped or let pass, in all workers and the slow path, since the
        /// list of filters last changed; of steers nothing.
        pub hits: Option<u64>,
    }

    /// The configuration.
    #[derive(Default)]
    pub struct ConfigText {
        /// TOML that would start this router as it is now.
        pub toml: String,
    }

    /// The result of a reload, or of adding or deleting a route.
    #[derive(Default)]
    pub struct Outcome {
        /// One sentence.
        pub message: String,
    }

    /// What became of routes that were to be set.
    #[derive(Default)]
    pub struct LoadedRoutes {
        /// There was none of their prefix, preference and metric.
        pub added: u64,
        /// They replaced one.
        pub changed: u64,
        /// They were there already.
        pub unchanged: u64,
        /// They are not there.
        pub refused: u64,
        /// The first of those.
        pub first_refused: Option<RefusedRoute>,
    }

    /// A route that was refused.
    #[derive(Default)]
    pub struct RefusedRoute {
        /// Its place in the request, from 0.
        pub at: u64,
        /// One sentence.
        pub why: String,
    }
}

fn yes() -> bool {
    true
}

/// Everything that `GET /metrics` shows; what the backend answers to [`crate::Request::Metrics`]. It never travels as
/// JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The router, and since when it has been counting.
    pub version: VersionStatus,
    /// As in `GET /v1/ports`.
    pub ports: Vec<PortStatus>,
    /// As in `GET /v1/workers`.
    pub workers: Vec<WorkerStatus>,
    /// As in `GET /v1/modules`.
    pub modules: Vec<ModuleStatus>,
    /// As in `GET /v1/drops`.
    pub drops: Vec<DropStatus>,
    /// As in `GET /v1/filters`.
    pub filters: Vec<FilterStatus>,
    /// As in `GET /v1/slowpath`.
    pub slow_path: SlowPathStatus,
    /// As in `GET /v1/scripts`.
    pub scripts: Vec<ScriptStatus>,
    /// As in `GET /v1/counters`.
    pub values: Vec<ScriptValue>,
    /// Routes by source.
    pub routes: Vec<(RouteOrigin, u64)>,
    /// As in `GET /v1/fib`.
    pub fib: Vec<FibStatus>,
    /// As in `GET /v1/linux`.
    pub linux: LinuxStatus,
    /// Next hops by kind.
    pub next_hops: Vec<(NextHopType, u64)>,
    pub neighbors: Vec<(NeighborState, u64)>,
    /// Packet buffers in use, and all of them.
    pub buffers: Option<(u64, u64)>,
}
