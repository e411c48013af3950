// SPDX-License-Identifier: MIT
//! The registry of the API's queries, each with its method, path, parameters and answer.
//!
//! A query is declared here and nowhere else. The rest is generated from the registry: its struct and [`crate::Query`],
//! the variant of [`Show`] (a GET) or [`Request`] that names the expected answer, the server's route, what
//! `ApiClient::ask` sends and returns, and docs/api.md.

use crate::answers::{
    AuditReport, ConfigText, DropStatus, FibStatus, FilterStatus, LinuxStatus, LoadedRoutes, ModuleStatus,
    MulticastEntry, NeighborEntry, NeighborUsage, NextHopEntry, Outcome, PortStatus, RouteFate, RouteList,
    ScriptStatus, ScriptValue, SlowPathStatus, SourceFilter, VersionStatus, WorkerStatus,
};
use crate::ask::ApiError;
use crate::declare::{endpoint, objects, queries};
use perigee_net::Prefix;
use std::net::IpAddr;
use std::path::PathBuf;

queries! {
    /// Shows which router answers: its name, its versions, how long it has been running.
    GET "/v1/version": ShowVersion {} -> VersionStatus;

    /// Shows the ports: device, MAC address, link, queues, counters, twin.
    GET "/v1/ports": ShowPorts {} -> Vec<PortStatus>;

    /// Shows the workers: core, queues, packets.
    GET "/v1/workers": ShowWorkers {} -> Vec<WorkerStatus>;

    /// Shows the workers, and resets each worker's longest gap to 0.
    POST "/v1/workers/gaps": TakeGaps {} -> Vec<WorkerStatus>;

    /// Shows the modules: packets in, dropped, given to the slow path.
    GET "/v1/modules": ShowModules {} -> Vec<ModuleStatus>;

    /// Shows why packets were dropped or went to the slow path.
    GET "/v1/drops": ShowDrops {} -> Vec<DropStatus>;

    /// Shows what the slow path holds, and how often it did what.
    GET "/v1/slowpath": ShowSlowPath {} -> SlowPathStatus;

    /// Shows the routes, and where they came from.
    GET "/v1/routes": ShowRoutes {
        /// Only this prefix and those inside it.
        #[serde(default, deserialize_with = "perigee_net::network")]
        within: Option<Prefix>,
        /// Only those of the longest prefix that this address has a route by: what a packet to it finds.
        #[serde(default)]
        to: Option<IpAddr>,
        /// Only those that came from there: a source such as `linux`, who gave them to Linux by name or number, such as `bgp`, or both as
        /// `linux/bgp`. `static` asks for those of the configuration and those that Linux has by this name.
        #[serde(default)]
        source: Option<SourceFilter>,
        /// At most this many routes; 1000 if not given.
        limit: Option<usize>,
    } -> RouteList, expected "within=PREFIX, to=ADDRESS, source=SOURCE and limit=NUMBER";

    /// Adds a static route, until the router ends.
    POST "/v1/routes": AddRoute(RouteChange) -> Outcome,
        expected "{\"prefix\": PREFIX, \"via\": ADDRESS, \"dev\": INTERFACE}";

    /// Deletes a static route: the one of this prefix and metric, and of these gateways or this fate and this preference if given.
    DELETE "/v1/routes": DeleteRoute(RouteChange) -> Outcome,
        expected "{\"prefix\": PREFIX, \"via\": ADDRESS, \"dev\": INTERFACE}";

    /// Sets static routes, until the router ends: adds those that are new, replaces those that the API has added otherwise. All become
    /// visible together; one that is refused keeps no other out.
    POST "/v1/routes/load": LoadRoutes {
        /// As many as fit a request of 64 kB, some 1,000 of one gateway each.
        routes: Vec<RouteChange>,
    } -> LoadedRoutes, expected "{\"routes\": [{\"prefix\": PREFIX, \"via\": ADDRESS, \"dev\": INTERFACE}]}";

    /// Shows the lookup structures, and how much memory they take.
    GET "/v1/fib": ShowFib {} -> Vec<FibStatus>;

    /// Shows the neighbors: MAC address and state.
    GET "/v1/neighbors": ShowNeighbors {} -> Vec<NeighborEntry>;

    /// Shows how many neighbors each interface has of each family, and its limits.
    GET "/v1/neighbors/usage": ShowNeighborUsage {} -> Vec<NeighborUsage>;

    /// Forgets neighbors, but for static ones: all, or those of an interface or an address. Gateways are asked for again at once, the
    /// others when a packet needs them.
    DELETE "/v1/neighbors": FlushNeighbors {
        /// Only those on this interface.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dev: Option<String>,
        /// Only this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        address: Option<IpAddr>,
    } -> Outcome, expected "{\"dev\": INTERFACE, \"address\": ADDRESS}, either or both left out";

    /// Shows the next hops, and groups of them: what routes share, how many use it, the members' shares of the flows.
    GET "/v1/nexthops": ShowNextHops {} -> Vec<NextHopEntry>;

    /// Shows the multicast routes: group, source, where packets come in and leave, how many did.
    GET "/v1/multicast": ShowMulticast {} -> Vec<MulticastEntry>;

    /// Shows the workers' scripts: generation, errors, work of the JIT compiler.
    GET "/v1/scripts": ShowScripts {} -> Vec<ScriptStatus>;

    /// Shows what scripts count and measure themselves.
    GET "/v1/counters": ShowCounters {} -> Vec<ScriptValue>;

    /// Shows the filters and steers.
    GET "/v1/filters": ShowFilters {} -> Vec<FilterStatus>;

    /// Shows how Linux is followed: routes, changes, routes left out, notifications lost, tables read again.
    GET "/v1/linux": ShowLinux {} -> LinuxStatus;

    /// Reads everything from Linux again; answered when that is done.
    POST "/v1/linux/resync": Resync {} -> LinuxStatus, seconds 600;

    /// Compares Linux's routes, the RIB and the workers' lookup structures; answered when that is done.
    POST "/v1/audit": Audit {
        /// Whether differences are repaired; false if not given.
        #[serde(default)]
        repair: bool,
    } -> AuditReport, expected "{\"repair\": true} or {}", seconds 600;

    /// Shows the configuration that would start this router as it is now.
    GET "/v1/config": ShowConfig {} -> ConfigText;

    /// Loads configuration and script again: all of it takes effect, or nothing.
    POST "/v1/reload": Reload {
        /// Another script than the configured one: its path, from which the router reads it.
        script: Option<PathBuf>,
        /// Its text, up to 4 MB, if the client has read it: the router may be a user who may not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    } -> Outcome, expected "{\"script\": PATH, \"text\": TEXT}, {\"script\": PATH} or {}", seconds 120, bytes 8388608;
}

impl ShowRoutes {
    /// Routes in an answer by default.
    pub const LIMIT: usize = 1000;
}

// Requests that are not answered in one piece of JSON; `stream.rs` and `metrics.rs` say how.

endpoint! {
    /// Follows single packets: every module with its decision, the route used, the reason of a drop.
    GET "/v1/trace": Trace {
        /// Only packets that match, in tcpdump's syntax; all if not given.
        filter: Option<String>,
        /// The stream ends after this many; it goes on until the client leaves if not given.
        count: Option<u64>,
    } "filter=EXPRESSION and count=NUMBER"
}

endpoint! {
    /// Captures packets of a port, dropped ones, or those for the slow path.
    GET "/v1/capture": Capture {
        /// The port whose packets are captured, in and out; otherwise give `what`.
        port: Option<String>,
        /// `drops` or `punts`, instead of a port.
        what: Option<String>,
        /// Only packets that match, in tcpdump's syntax; all if not given.
        filter: Option<String>,
        /// The stream ends after this many; it goes on until the client leaves if not given.
        count: Option<u64>,
        /// Bytes of each packet that are kept; all if not given.
        snaplen: Option<u32>,
    } "port=NAME or what=drops|punts, filter=EXPRESSION, count=NUMBER and snaplen=BYTES"
}

endpoint! {
    /// Shows all counters, for Prometheus and others. The only path that `metrics` in `[router]` also serves to
    /// the network.
    GET "/metrics": Metrics {}
}

objects! {
    /// A route to add or to delete.
    #[serde(deny_unknown_fields)]
    pub struct RouteChange {
        /// Its destinations; host bits are cleared.
        #[serde(deserialize_with = "perigee_net::network")]
        pub prefix: Prefix,
        /// The neighbor; needed to add, if there are neither `gateways` nor a `fate`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub via: Option<IpAddr>,
        /// The interface; found by `via` if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub dev: Option<String>,
        /// Whether `via` is not a neighbor but a router that other routes lead to.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub recursive: bool,
        /// Several gateways, of which each flow takes one: 1 to 256, instead of `via`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub gateways: Vec<RouteGateway>,
        /// That packets are dropped, and what their senders get, instead of a gateway.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub fate: Option<RouteFate>,
        /// Compared before the metric: the lower is preferred; 1 if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub preference: Option<u8>,
        /// The lower is preferred; 0 if not given.
        #[serde(default)]
        pub metric: u32,
    }

    /// One of several gateways of a route.
    #[serde(deny_unknown_fields)]
    pub struct RouteGateway {
        /// Its address.
        pub via: IpAddr,
        /// The interface; found by `via` if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub dev: Option<String>,
        /// Whether it is not a neighbor but a router that other routes lead to.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub recursive: bool,
        /// Its share of the flows: 1 to 256; 1 if not given.
        #[serde(default = "one")]
        pub weight: u16,
    }
}

impl RouteChange {
    /// A change that only has its prefix so far.
    pub fn of(prefix: Prefix) -> Self {
        let gateways = Vec::new();
        Self { prefix, via: None, dev: None, recursive: false, gateways, fate: None, preference: None, metric: 0 }
    }

    /// All gateways, even if there is only one.
    ///
    /// # Errors
    /// Both ways to name them are used.
    pub fn all_gateways(&self) -> Result<Vec<RouteGateway>, ApiError> {
        match (self.via, &self.gateways[..]) {
            (Some(via), []) => {
                Ok(vec![RouteGateway { via, dev: self.dev.clone(), recursive: self.recursive, weight: 1 }])
            }
            (None, gateways) => Ok(gateways.to_vec()),
            (Some(_), _) => Err(ApiError::invalid("`via` and `gateways` are both given; expected one of them")),
        }
    }
}

fn one() -> u16 {
    1
}
