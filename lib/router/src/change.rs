// SPDX-License-Identifier: MIT
//! Changes while the router runs: routes by hand, and reload of configuration and script, all or nothing.

use crate::routing::{Filters, Routing, lock, prefix};
use crate::slow::SlowThread;
use perigee_control::answers::{Outcome, ScriptStatus};
use perigee_control::api::{ApiError, RouteChange};
use perigee_control::config::Config;
use perigee_control::helper::LinkChange;
use perigee_fib::{Published, Route, RouteSource, RouteTarget};
use perigee_slowpath::Input;
use std::path::Path;

/// The scripts, as the control side sees them.
pub trait ScriptControl: Send {
    /// Replaces the script on all workers by the one at a path, or by the built-in one. Returns its generation.
    ///
    /// # Errors
    /// Why it does not load: file and line. The old one goes on.
    fn replace(&self, path: Option<&Path>) -> Result<u64, String>;
    /// One per worker.
    fn status(&self) -> Vec<ScriptView>;
}

/// A worker's script, to be shown.
pub type ScriptView = ScriptStatus;

/// Makes what a new configuration needs.
pub trait Rebuild: Send {
    /// The compiled filters.
    ///
    /// # Errors
    /// A sentence.
    fn filters(&self, config: &Config) -> Result<Filters, String>;
}

impl SlowThread {
    pub(crate) fn route_add(&mut self, change: &RouteChange) -> Result<Outcome, ApiError> {
        let found = prefix(change.prefix);
        let address = change.via.ok_or_else(|| ApiError::invalid("`via` is missing: the address of a neighbor"))?;
        if address.is_ipv4() != found.addr().is_ipv4() {
            return Err(ApiError::invalid(format!("{address} and {found} are of different families")));
        }
        let interface = change.dev.as_deref().map(|name| self.interface(name)).transpose()?;
        if self
            .parts
            .routing
            .rib()
            .routes(found)
            .iter()
            .any(|r| r.source == RouteSource::Static && r.metric == change.metric)
        {
            return Err(ApiError::conflict(format!(
                "there is a route to {found} with metric {} already",
                change.metric
            )));
        }
        let target = RouteTarget::Gateway { address, interface };
        let route = Route { source: RouteSource::Static, metric: change.metric, target };
        if let Some(interface) =
            interface.filter(|id| !self.parts.routing.on_link(id.0, address) && !is_link_local(address))
        {
            let name = self.name_of(interface.0);
            return Err(ApiError::invalid(format!(
                "{address} is on none of the networks of {name}; give one it can be reached by"
            )));
        }
        self.parts.routing.add(found, route).map_err(ApiError::invalid)?;
        self.follow_gateways();
        Ok(Outcome { message: format!("route to {found} via {address} added") })
    }

    pub(crate) fn route_del(&mut self, change: &RouteChange) -> Result<Outcome, ApiError> {
        let found = prefix(change.prefix);
        let routes = self.parts.routing.rib().routes(found);
        let matches = |route: &&Route| {
            let via = match route.target {
                RouteTarget::Gateway { address, .. } => Some(address),
                _ => None,
            };
            route.source == RouteSource::Static
                && route.metric == change.metric
                && change.via.is_none_or(|v| Some(v) == via)
        };
        if !routes.iter().any(|route| matches(&route)) {
            let via = change.via.map(|via| format!(" via {via}")).unwrap_or_default();
            return Err(ApiError::not_found(format!(
                "there is no static route to {found}{via} with metric {}",
                change.metric
            )));
        }
        self.parts.routing.remove(found, change.metric).map_err(ApiError::not_found)?;
        self.follow_gateways();
        Ok(Outcome { message: format!("route to {found} deleted") })
    }

    fn interface(&self, name: &str) -> Result<perigee_fib::InterfaceId, ApiError> {
        let interfaces = self.parts.routing.interfaces();
        interfaces.by_name(name).ok_or_else(|| {
            let names: Vec<_> = interfaces.iter().map(|(_, interface)| interface.name.as_str()).collect();
            ApiError::not_found(format!("there is no interface {name}; there are {}", names.join(", ")))
        })
    }

    /// Reads the configuration and the script anew; changes everything or nothing.
    pub(crate) fn reload(&mut self, script: Option<&Path>) -> Result<Outcome, ApiError> {
        let config = Config::load(&self.parts.path).map_err(|error| ApiError::invalid(error.to_string()))?;
        needs_restart(&self.parts.config, &config).map_err(ApiError::conflict)?;
        let filters = self.parts.rebuild.filters(&config).map_err(ApiError::invalid)?;
        let mut routing = Routing::new(&config, &self.infos, filters).map_err(ApiError::invalid)?;
        let lost = self.carry_over(&mut routing);

        // The script is loaded with the new tables, so that it finds new interfaces by name.
        let before = std::mem::replace(&mut *lock(&self.parts.staging), Published::new(routing.tables()));
        let path = script.map(Path::to_owned).or_else(|| config.router.script.clone());
        let generation = match self.parts.scripts.replace(path.as_deref()) {
            Ok(generation) => generation,
            Err(error) => {
                *lock(&self.parts.staging) = before;
                return Err(ApiError::invalid(error));
            }
        };
        lock(&self.parts.published).publish(routing.tables());
        let old = std::mem::replace(&mut self.parts.routing, routing);
        let before = std::mem::replace(&mut self.parts.config, config);
        self.follow_config(&before, &old);

        let routes = self.parts.routing.rib().prefixes();
        let name = path.map_or("built-in".to_owned(), |path| path.display().to_string());
        let mut message = format!("script {name} (generation {generation}), {routes} prefixes");
        lost.iter().for_each(|route| message.push_str(&format!("; {route}")));
        Ok(Outcome { message })
    }

    /// Routes by hand and resolved neighbors, as far as they fit the new interfaces; the sentences tell what did not.
    fn carry_over(&self, routing: &mut Routing) -> Vec<String> {
        let mut lost = Vec::new();
        for (prefix, route) in self.parts.routing.by_hand() {
            let via = |interface: perigee_fib::InterfaceId, address| {
                let same = self.name_of(interface.0);
                routing
                    .interfaces()
                    .by_name(&same)
                    .filter(|id| routing.on_link(id.0, address) || is_link_local(address))
            };
            let target = match route.target {
                RouteTarget::Gateway { address, interface: Some(interface) } => via(interface, address)
                    .map(|interface| RouteTarget::Gateway { address, interface: Some(interface) }),
                other => Some(other),
            };
            let added = target.ok_or("its gateway is on no interface any more".to_owned());
            if let Err(why) = added.and_then(|target| routing.add(prefix, Route { target, ..*route })) {
                lost.push(format!("the route to {prefix} added by hand is gone: {why}"));
            }
        }
        for neighbor in self.machine.neighbors() {
            let same = |id: u16| {
                routing.interfaces().get(perigee_fib::InterfaceId(id)).is_some_and(|i| i.name == self.name_of(id))
            };
            if let Some(mac) = neighbor.mac.filter(|_| same(neighbor.interface)) {
                let address = neighbor.address;
                if routing.on_link(neighbor.interface, address) || is_link_local(address) {
                    routing.neighbor(neighbor.interface, address, Some(mac.octets()));
                }
            }
        }
        lost
    }

    /// Brings slow path and twins to the new configuration.
    fn follow_config(&mut self, before: &Config, old: &Routing) {
        let now = self.parts.routing.interfaces().clone();
        for (id, interface) in old.interfaces().iter() {
            if now.get(id).is_none_or(|same| same.name != interface.name) {
                self.tell(Input::RemoveInterface { id: id.0 });
            }
        }
        self.set_interfaces();
        let kept = self.parts.config.neighbors.clone();
        for gone in before.neighbors.iter().filter(|neighbor| !kept.contains(neighbor)) {
            self.tell(Input::UnsetNeighbor { interface: gone.interface, address: gone.address });
        }
        self.set_static_neighbors();
        self.follow_gateways();
        for (index, port) in self.parts.config.ports.iter().enumerate().filter(|(_, port)| port.twin) {
            let addresses = |config: &Config| config.interfaces.get(index).map_or(vec![], |i| i.addresses.clone());
            let (wanted, had) = (addresses(&self.parts.config), addresses(before));
            let change = LinkChange {
                name: port.name.clone(),
                namespace: self.parts.config.router.namespace.clone(),
                remove: had.iter().filter(|address| !wanted.contains(address)).copied().collect(),
                add: wanted.into_iter().filter(|address| !had.contains(address)).collect(),
                ..LinkChange::default()
            };
            let Some(helper) = &self.parts.helper else { continue };
            if let Err(error) = helper.change_link(&change) {
                tracing::warn!("the twin {} keeps its old addresses: {error}", port.name);
            }
        }
    }
}

fn is_link_local(address: std::net::IpAddr) -> bool {
    matches!(address, std::net::IpAddr::V6(address) if address.is_unicast_link_local())
}

/// What of a new configuration can only be had by a restart.
fn needs_restart(before: &Config, now: &Config) -> Result<(), String> {
    let mut changed = Vec::new();
    let mut check = |what: &str, same: bool| {
        if !same {
            changed.push(what.to_owned());
        }
    };
    let (a, b) = (&before.router, &now.router);
    check("router.name", a.name == b.name);
    check("router.namespace", a.namespace == b.namespace);
    check("router.burst", a.burst == b.burst);
    check("router.transmit_queue", a.transmit_queue == b.transmit_queue);
    check("router.transmit_timeout", a.transmit_timeout == b.transmit_timeout);
    check("router.idle", a.idle == b.idle);
    check("router.socket", a.socket == b.socket);
    check("router.metrics", a.metrics == b.metrics);
    check("router.punt_ring", a.punt_ring == b.punt_ring);
    check("router.mbufs", a.mbufs == b.mbufs);
    check("router.icmp_rate", a.icmp_rate == b.icmp_rate);
    check("[eal]", before.eal == now.eal);
    check("workers", before.workers == now.workers);
    check("[[steer]]", before.steers == now.steers);
    check("[port.*]: device, mac, mtu, promiscuous, queues, twin", before.ports == now.ports);
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!("nothing was changed, as a change of {} needs a restart", changed.join(", ")))
}
