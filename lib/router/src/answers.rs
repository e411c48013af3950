// SPDX-License-Identifier: MIT
//! What the API shows, from the state of a running router.

use crate::routing::lock;
use crate::slow::SlowThread;
use perigee_api::answers::{
    ConfigText, DropKind, DropStatus, FibStatus, FilterStatus, InterfaceEntry, ModuleStatus, NeighborEntry,
    PortCounters, PortStatus, RouteEntry, RouteList, Snapshot, VersionStatus, WorkerStatus,
};
use perigee_api::{Reply, Request};
use perigee_config::{Action, SteerMatch};
use perigee_modules::{Counters, Kind, MODULES, Reason, all_reasons, host};
use perigee_net::{FiveTuple, InterfaceId, Prefix, Route, RouteSource, RouteTarget};
use perigee_slowpath::CounterKind;
use std::collections::BTreeMap;
use std::sync::Arc;

impl SlowThread {
    /// Answers a request.
    pub(crate) fn answer(&mut self, request: Request, reply: Reply) {
        match request {
            Request::Version => reply.send(Ok(self.version())),
            Request::ShowPorts => reply.send(Ok(self.ports())),
            Request::ShowWorkers => reply.send(Ok(self.workers())),
            Request::TakeGaps => reply.send(Ok(self.take_gaps())),
            Request::ShowModules => reply.send(Ok(self.modules())),
            Request::ShowDrops => reply.send(Ok(self.drops())),
            Request::ShowRoutes { within, limit } => reply.send(Ok(self.routes(within, limit))),
            Request::ShowFib => reply.send(Ok(self.fib())),
            Request::ShowNeighbors => reply.send(Ok(self.neighbors())),
            Request::ShowNextHops => reply.send(Ok(self.next_hops())),
            Request::ShowScripts => reply.send(Ok(self.parts.scripts.status())),
            Request::ShowFilters => reply.send(Ok(self.filters())),
            Request::ShowLinux => reply.send(Ok(self.linux_status())),
            Request::Resync => self.resync(reply),
            Request::Audit { repair } => self.audit(repair, Some(reply)),
            Request::ShowConfig => reply.send(Ok(self.config_text())),
            Request::RouteAdd(change) => reply.send(self.route_add(&change)),
            Request::RouteDel(change) => reply.send(self.route_del(&change)),
            Request::Reload { script } => reply.send(self.reload(script.as_deref())),
            Request::Metrics => reply.send(Ok(self.snapshot())),
            Request::Tap(request) => reply.send(self.tap(request)),
        }
    }

    fn version(&self) -> VersionStatus {
        let uptime = (self.parts.clock)().saturating_sub(self.started) as f64 / 1e9;
        VersionStatus { uptime, ..self.parts.version.clone() }
    }

    fn ports(&self) -> Vec<PortStatus> {
        (0..self.parts.ports.len()).map(|index| self.port(index)).collect()
    }

    fn port(&self, index: usize) -> PortStatus {
        let (port, config) = (&self.parts.ports[index].port, &self.parts.config.ports[index]);
        let (info, link, stats) = (port.info(), port.link(), port.stats());
        let interface = |i: &perigee_net::Interface| InterfaceEntry {
            name: i.name.clone(),
            vlan: i.vlan,
            up: i.up,
            mtu: i.mtu,
            addresses: i.addresses.clone(),
        };
        let all = self.parts.routing.interfaces().iter().map(|(_, interface)| interface);
        let interfaces = all.filter(|interface| interface.port == info.port).map(interface).collect();
        PortStatus {
            name: config.name.clone(),
            device: info.device,
            driver: info.driver,
            mac: info.mac,
            mtu: info.mtu,
            link_up: link.up && self.underlay_up(index),
            speed: link.speed,
            promiscuous: config.promiscuous,
            receive_queues: info.receive_queues,
            transmit_queues: info.transmit_queues,
            numa: info.numa_node,
            offloads: info.offloads.iter().map(|name| (*name).to_owned()).collect(),
            twin: self.twins[index].as_ref().map(|twin| twin.entry().clone()),
            interfaces,
            counters: PortCounters {
                receive_packets: stats.rx_packets,
                receive_bytes: stats.rx_bytes,
                receive_errors: stats.rx_errors,
                receive_missed: stats.rx_missed,
                receive_no_buffer: stats.rx_no_buffer,
                transmit_packets: stats.tx_packets,
                transmit_bytes: stats.tx_bytes,
                transmit_errors: stats.tx_errors,
                transmit_dropped: self.sum(|counters| counters.reason_packets(host::TRANSMIT_FULL)),
            },
        }
    }

    fn sum(&self, count: impl Fn(&Counters) -> u64) -> u64 {
        self.parts.counters.iter().map(|counters| count(counters)).sum()
    }

    fn workers(&self) -> Vec<WorkerStatus> {
        let now = (self.parts.clock)();
        let version = lock(&self.parts.published).version();
        let worker = |(index, counters): (usize, &Arc<Counters>)| {
            let get = |name: &str| counters.named().find(|(n, _)| *n == name).map_or(0, |(_, value)| value);
            let silent =
                now.saturating_sub(self.pulse[index].1) > 1_000_000_000 && counters.polls.get() == self.pulse[index].0;
            let ports = self.parts.outputs.len() as u16;
            WorkerStatus {
                worker: index as u16,
                core: self.parts.config.workers.get(index).map_or(0, |worker| worker.core),
                queues: self.parts.polled[index].clone(),
                state: if silent { "silent" } else { "running" }.to_owned(),
                batches: get("bursts"),
                idle_polls: get("polls").saturating_sub(get("bursts")),
                received: get("received").saturating_sub(get("handed_over")),
                handed_over: get("handed_over"),
                transmitted: (0..ports).map(|port| counters.port_transmitted(port)).sum(),
                punted: get("punted"),
                punt_full: counters.reason_packets(host::PUNT_RING_FULL),
                unclaimed: get("unclaimed"),
                tables_version: version,
                longest_gap: counters.longest_gap.get() as f64 / 1e9,
                uptime: now.saturating_sub(self.started) as f64 / 1e9,
            }
        };
        self.parts.counters.iter().enumerate().map(worker).collect()
    }

    fn take_gaps(&self) -> Vec<WorkerStatus> {
        let mut workers = self.workers();
        for (worker, counters) in workers.iter_mut().zip(&self.parts.counters) {
            worker.longest_gap = counters.longest_gap.take() as f64 / 1e9;
        }
        workers
    }

    fn modules(&self) -> Vec<ModuleStatus> {
        let drops = self.drops();
        let packets = |module: &str, kind: DropKind| {
            drops.iter().filter(|drop| drop.module == module && drop.kind == kind).map(|drop| drop.packets).sum()
        };
        let builtin = MODULES.iter().enumerate().map(|(index, module)| ModuleStatus {
            module: module.name.to_owned(),
            about: module.summary.to_owned(),
            calls: self.sum(|counters| counters.module_calls(index)),
            packets: self.sum(|counters| counters.module_packets(index)),
            dropped: packets(module.name, DropKind::Drop),
            punted: packets(module.name, DropKind::Punt),
        });
        let mut modules: Vec<ModuleStatus> = builtin.collect();
        for (_, name, ..) in self.parts.custom.all() {
            if !modules.iter().any(|module| module.module == name) {
                let (dropped, punted) = (packets(&name, DropKind::Drop), packets(&name, DropKind::Punt));
                let about = "A script's own.".to_owned();
                modules.push(ModuleStatus { module: name, about, dropped, punted, ..ModuleStatus::default() });
            }
        }
        modules.push(self.slow_path_module());
        modules
    }

    /// The slow path, shown like a module.
    fn slow_path_module(&self) -> ModuleStatus {
        let counters = self.machine.counters();
        ModuleStatus {
            module: "slowpath".to_owned(),
            about: "ARP, ND, ICMP, fragments, options, and what is for the router itself.".to_owned(),
            packets: counters.punted,
            dropped: counters.iter().filter(|count| count.kind == CounterKind::Drop).map(|count| count.value).sum(),
            ..ModuleStatus::default()
        }
    }

    fn drops(&self) -> Vec<DropStatus> {
        let status = |reason: Reason, module: &str, name: &str, kind: Kind, rfc: &str| {
            let per_worker: Vec<u64> =
                self.parts.counters.iter().map(|counters| counters.reason_packets(reason)).collect();
            DropStatus {
                module: module.to_owned(),
                reason: name.to_owned(),
                kind: if kind == Kind::Drop { DropKind::Drop } else { DropKind::Punt },
                rfc: (!rfc.is_empty()).then(|| rfc.to_owned()),
                packets: per_worker.iter().sum(),
                per_worker,
            }
        };
        let builtin =
            all_reasons().map(|(reason, module, info)| status(reason, module, info.name, info.kind, info.rfc));
        let custom = self
            .parts
            .custom
            .all()
            .into_iter()
            .map(|(reason, module, name, kind)| status(reason, &module, &name, kind, ""));
        builtin.chain(custom).chain(self.slow_drops()).collect()
    }

    /// What the slow path dropped, and what it could not send.
    fn slow_drops(&self) -> Vec<DropStatus> {
        let drop = |reason: &str, rfc: &str, packets| DropStatus {
            module: "slowpath".to_owned(),
            reason: reason.to_owned(),
            kind: DropKind::Drop,
            rfc: (!rfc.is_empty()).then(|| rfc.to_owned()),
            packets,
            per_worker: Vec::new(),
        };
        let drops = self.machine.counters().iter().filter(|count| count.kind == CounterKind::Drop);
        let dropped = drops.map(|count| drop(count.name, count.section, count.value));
        dropped.chain([drop("transmit", "", self.lost_to_transmit)]).collect()
    }

    fn routes(&self, within: Option<Prefix>, limit: usize) -> RouteList {
        let rib = self.parts.routing.rib();
        let inside = |found: &Prefix| within.is_none_or(|w| w.len() <= found.len() && w.contains(found.addr()));
        let mut list = RouteList { memory: self.parts.routing.memory() as u64, ..RouteList::default() };
        for (found, routes, chosen) in rib.iter().filter(|(found, ..)| inside(found)) {
            for (rank, route) in routes.iter().enumerate() {
                list.total += 1;
                if list.routes.len() < limit {
                    list.routes.push(self.route_entry(found, route, chosen == Some(rank)));
                }
            }
        }
        list
    }

    pub(crate) fn route_entry(&self, found: Prefix, route: &Route, best: bool) -> RouteEntry {
        let name = |id: InterfaceId| Some(self.name_of(id));
        let (action, via, dev) = match route.target {
            RouteTarget::Connected { interface } => ("forward", None, name(interface)),
            RouteTarget::Gateway { address, interface } => ("forward", Some(address), self.device(address, interface)),
            RouteTarget::Multipath(_) => ("forward", None, None),
            RouteTarget::Local => ("local", None, None),
            RouteTarget::Blackhole => ("blackhole", None, None),
            RouteTarget::Unreachable => ("unreachable", None, None),
            RouteTarget::Prohibit => ("prohibit", None, None),
        };
        let by_hand = self.parts.routing.by_hand().any(|(prefix, r)| prefix == found && r.key() == route.key());
        let source = if by_hand { "api" } else { route.source.name() };
        let (source, action) = (source.to_owned(), action.to_owned());
        let (preference, metric) = (route.preference, route.metric);
        let gateways = self.gateway_entries(route);
        RouteEntry { prefix: found, source, action, via, dev, gateways, preference, metric, best }
    }

    fn fib(&self) -> Vec<FibStatus> {
        let (routing, choice) = (&self.parts.routing, &self.parts.config.router.fib);
        let prefixes = routing.rib().prefixes_by_family().map(|n| n as u64);
        let families = [("IPv4", &choice.v4), ("IPv6", &choice.v6)];
        let status = |(((family, chosen), (structure, bytes, why)), prefixes)| FibStatus {
            family: str::to_owned(family),
            chosen: String::clone(chosen),
            structure: str::to_owned(structure),
            why,
            prefixes,
            bytes: bytes as u64,
            pending: routing.uncommitted(),
        };
        families.into_iter().zip(routing.structures()).zip(prefixes).map(status).collect()
    }

    fn neighbors(&self) -> Vec<NeighborEntry> {
        let entry = |neighbor: perigee_slowpath::NeighborInfo| NeighborEntry {
            address: neighbor.address,
            mac: neighbor.mac,
            dev: self.name_of(neighbor.interface),
            state: neighbor.state.name().to_owned(),
            age: None,
        };
        self.machine.neighbors().map(entry).collect()
    }

    fn filters(&self) -> Vec<FilterStatus> {
        let config = &self.parts.config;
        let filters = (1..).zip(&config.filters).map(|(number, filter)| FilterStatus {
            kind: "filter".to_owned(),
            number,
            rule: words(&filter.tuple),
            action: if filter.action == Action::Drop { "drop" } else { "accept" }.to_owned(),
            done_in: "software".to_owned(),
            packets: None,
        });
        let steers = (1..).zip(&config.steers).map(|(number, steer)| FilterStatus {
            kind: "steer".to_owned(),
            number,
            rule: match &steer.what {
                SteerMatch::EtherType(kind) => format!("ethertype {kind:#06x}"),
                SteerMatch::FiveTuple(tuple) => words(tuple),
            },
            action: "slow path".to_owned(),
            done_in: if self.parts.receivers.is_empty() { "software" } else { "hardware" }.to_owned(),
            packets: None,
        });
        filters.chain(steers).collect()
    }

    /// The configuration with the routes that were added or deleted since.
    fn config_text(&self) -> ConfigText {
        let mut config = self.parts.config.clone();
        let rib = self.parts.routing.rib();
        config.routes.retain(|(prefix, route)| rib.route(*prefix, route.key()).is_some());
        let by_hand = self.parts.routing.by_hand();
        config.routes.extend(by_hand.map(|(prefix, route)| (prefix, self.parts.routing.with_links(route))));
        ConfigText { toml: config.to_toml() }
    }

    /// How many routes there are, by source as `show routes` calls it.
    fn routes_by_source(&self) -> Vec<(String, u64)> {
        let by_hand = self.parts.routing.by_hand().count() as u64;
        let count = |source: RouteSource| {
            let less = if source == RouteSource::Static { by_hand } else { 0 };
            (source.name().to_owned(), self.parts.routing.rib().count(source).saturating_sub(less))
        };
        let sources = RouteSource::ALL.into_iter().map(count).chain([("api".to_owned(), by_hand)]);
        sources.filter(|(_, n)| *n > 0).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let tally = |names: &mut dyn Iterator<Item = String>| {
            let mut counts = BTreeMap::new();
            names.for_each(|name| *counts.entry(name).or_insert(0u64) += 1);
            counts.into_iter().collect::<Vec<_>>()
        };
        let mut pools = BTreeMap::new();
        for port in &self.parts.ports {
            pools.insert(
                Arc::as_ptr(&port.pool).cast::<()>() as usize,
                (port.pool.in_use() as u64, port.pool.size() as u64),
            );
        }
        let buffers = pools.values().copied().reduce(|a, b| (a.0 + b.0, a.1 + b.1));
        Snapshot {
            version: self.version(),
            ports: self.ports(),
            workers: self.workers(),
            modules: self.modules(),
            drops: self.drops(),
            scripts: self.parts.scripts.status(),
            routes: self.routes_by_source(),
            linux: self.linux_status(),
            fib: self.fib(),
            next_hops: tally(&mut self.next_hops().into_iter().map(|hop| hop.kind)),
            neighbors: tally(&mut self.machine.neighbors().map(|neighbor| neighbor.state.name().to_owned())),
            buffers,
        }
    }
}

/// A rule in words: `src 10.0.0.0/8 proto 17 dport 53`.
fn words(tuple: &FiveTuple) -> String {
    let parts = [
        tuple.src.map(|net| format!("src {net}")),
        tuple.dst.map(|net| format!("dst {net}")),
        tuple.proto.map(|number| format!("proto {number}")),
        tuple.sport.map(|ports| format!("sport {ports}")),
        tuple.dport.map(|ports| format!("dport {ports}")),
    ];
    let words: Vec<String> = parts.into_iter().flatten().collect();
    if words.is_empty() { "everything".to_owned() } else { words.join(" ") }
}
