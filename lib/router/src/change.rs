// SPDX-License-Identifier: MIT
//! Changes while the router runs: routes by hand, and reload of configuration and script, all or nothing.

use crate::gateways::is_link_local;
use crate::routing::{Filters, Routing, configured, lock};
use crate::slow::SlowThread;
use perigee_api::answers::{Outcome, ScriptStatus};
use perigee_api::{ApiError, RouteChange};
use perigee_config::Config;
use perigee_fib::Published;
use perigee_helper::LinkChange;
use perigee_net::{Interface, InterfaceId, Member, Multipath, Prefix, Route, RouteKey, RouteSource, RouteTarget};
use perigee_slowpath::Input;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

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
        let found = change.prefix;
        let target = self.target(found, change)?;
        let mut key = RouteKey::of(RouteSource::Static).with_metric(change.metric);
        key.preference = change.preference.unwrap_or(key.preference);
        if self.parts.routing.rib().routes(found).iter().any(|route| route.key() == key) {
            let preference = change.preference.map(|n| format!("preference {n} and ")).unwrap_or_default();
            let message = format!("there is a route to {found} with {preference}metric {} already", change.metric);
            return Err(ApiError::conflict(message));
        }
        let RouteKey { preference, metric, source } = key;
        let route = Route { source, preference, metric, target };
        let gateways: Vec<String> = route.gateways().map(|(gateway, _)| format!("via {gateway}")).collect();
        self.parts.routing.add(found, route).map_err(ApiError::invalid)?;
        if let Err(error) = self.publish_routes() {
            // Another one that does not fit is no reason to refuse this one.
            if error.starts_with(&format!("{found} ")) {
                self.parts.routing.remove(found, key).map_err(ApiError::failed)?;
                return Err(ApiError::conflict(error));
            }
            self.warn_of_routes(error);
        }
        self.follow_gateways();
        let mut message = format!("route to {found} {} added", gateways.join(" "));
        if self.parts.routing.rib().chosen(found).is_none() {
            message.push_str("; it is not used before a route leads to its gateway");
        }
        Ok(Outcome { message })
    }

    pub(crate) fn route_del(&mut self, change: &RouteChange) -> Result<Outcome, ApiError> {
        let found = change.prefix;
        let mut wanted: Vec<IpAddr> = change.all_gateways()?.into_iter().map(|gateway| gateway.via).collect();
        wanted.sort_unstable();
        let matches = |route: &&Route| {
            let mut gateways: Vec<IpAddr> = route.gateways().map(|(gateway, _)| gateway).collect();
            gateways.sort_unstable();
            route.source == RouteSource::Static
                && route.metric == change.metric
                && change.preference.is_none_or(|preference| preference == route.preference)
                && (wanted.is_empty() || wanted == gateways)
        };
        let Some(key) = self.parts.routing.rib().routes(found).iter().find(matches).map(Route::key) else {
            let via: String = wanted.iter().map(|via| format!(" via {via}")).collect();
            return Err(ApiError::not_found(format!(
                "there is no static route to {found}{via} with metric {}",
                change.metric
            )));
        };
        self.parts.routing.remove(found, key).map_err(ApiError::not_found)?;
        if let Err(error) = self.publish_routes() {
            self.warn_of_routes(error);
        }
        self.follow_gateways();
        Ok(Outcome { message: format!("route to {found} deleted") })
    }

    pub(crate) fn interface(&self, name: &str) -> Result<InterfaceId, ApiError> {
        let interfaces = self.parts.routing.interfaces();
        interfaces.by_name(name).ok_or_else(|| {
            let names: Vec<_> = interfaces.iter().map(|(_, interface)| interface.name.as_str()).collect();
            ApiError::not_found(format!("there is no interface {name}; there are {}", names.join(", ")))
        })
    }

    /// Reads the configuration and the script anew; changes everything or nothing.
    pub(crate) fn reload(&mut self, script: Option<&Path>) -> Result<Outcome, ApiError> {
        let config = Config::load_on(&self.parts.path, &self.parts.machine)
            .map_err(|error| ApiError::invalid(error.to_string()))?;
        let changed = self.parts.config.restart_needed(&config);
        if !changed.is_empty() {
            let message = format!("nothing was changed, as a change of {} needs a restart", changed.join(", "));
            return Err(ApiError::conflict(message));
        }
        let filters = self.parts.rebuild.filters(&config).map_err(ApiError::invalid)?;
        let before = &self.parts.config;
        // A million routes of Linux need not be looked up anew for a filter.
        let stays = config.router.fib == before.router.fib && config.interfaces == before.interfaces;
        let (path, generation, lost) = match stays {
            true => self.reload_in_place(config, filters, script)?,
            false => self.reload_anew(config, filters, script)?,
        };
        self.linux.set_config(self.parts.config.linux.clone());
        let routes = self.parts.routing.rib().prefixes();
        let name = path.map_or("built-in".to_owned(), |path| path.display().to_string());
        let mut message = format!("script {name} (generation {generation}), {routes} prefixes");
        lost.iter().for_each(|route| message.push_str(&format!("; {route}")));
        Ok(Outcome { message })
    }

    /// The same interfaces and lookup structures: static routes, filters and script change where they are.
    fn reload_in_place(
        &mut self,
        config: Config,
        filters: Filters,
        script: Option<&Path>,
    ) -> Result<Reloaded, ApiError> {
        let old = self.parts.config.clone();
        let undo = self.parts.routing.follow_static(&old, &config).map_err(ApiError::invalid)?;
        let old_filters = self.parts.routing.set_filters(filters);
        let committed = self.parts.routing.commit();
        let path = script.map(Path::to_owned).or_else(|| config.router.script.clone());
        let loaded = committed.and_then(|()| {
            lock(&self.parts.staging).publish(self.parts.routing.tables());
            self.parts.scripts.replace(path.as_deref())
        });
        let generation = match loaded {
            Ok(generation) => generation,
            Err(error) => {
                self.parts.routing.undo(undo);
                self.parts.routing.set_filters(old_filters);
                if let Err(error) = self.publish_routes() {
                    self.warn_of_routes(error);
                }
                return Err(ApiError::invalid(error));
            }
        };
        let before = std::mem::replace(&mut self.parts.config, config);
        if let Err(error) = self.publish_routes() {
            self.warn_of_routes(error);
        }
        self.follow_neighbors(&before);
        Ok((path, generation, Vec::new()))
    }

    /// Other interfaces or lookup structures: everything is made anew and takes the place of what was.
    fn reload_anew(&mut self, config: Config, filters: Filters, script: Option<&Path>) -> Result<Reloaded, ApiError> {
        let interfaces = self.interfaces_for(&config).map_err(ApiError::invalid)?;
        let others = self.routes_of_linux(&interfaces);
        let mut routing = Routing::with(&config, interfaces, &self.infos, filters, &self.parts.lookups, others)
            .map_err(ApiError::invalid)?;
        let lost = self.carry_over(&mut routing);
        routing.set_taps(self.parts.routing.taps());
        routing.commit().map_err(ApiError::invalid)?;
        routing.renewed();

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
        self.linux.interfaces_renumbered();
        Ok((path, generation, lost))
    }

    /// The interfaces of a new configuration, each as Linux has it now but for what the configuration changes.
    fn interfaces_for(&self, config: &Config) -> Result<Vec<Interface>, String> {
        let mut list = configured(config, &self.infos)?;
        let before = configured(&self.parts.config, &self.infos)?;
        let now = self.parts.routing.interfaces();
        let place = |interface: &Interface| (interface.port, interface.vlan);
        for interface in &mut list {
            let Some((_, live)) = now.iter().find(|(_, live)| place(live) == place(interface)) else { continue };
            let had = before.iter().find(|other| place(other) == place(interface));
            let had = had.map(|other| other.addresses.clone()).unwrap_or_default();
            let kept = live.addresses.iter().filter(|a| interface.addresses.contains(a) || !had.contains(a));
            let mut addresses: Vec<_> = kept.copied().collect();
            addresses.extend(interface.addresses.iter().filter(|a| !live.addresses.contains(a)));
            *interface = Interface { addresses, up: live.up, ..interface.clone() };
        }
        let extra = now.iter().map(|(_, interface)| interface).skip(before.len());
        let extra: Vec<_> = extra.filter(|extra| !list.iter().any(|i| place(i) == place(extra))).cloned().collect();
        list.extend(extra);
        Ok(list)
    }

    /// What Linux has said so far, with the numbers that interfaces are going to have.
    fn routes_of_linux(&self, interfaces: &[Interface]) -> Vec<(Prefix, Route)> {
        let now = self.parts.routing.interfaces();
        let new = |id: InterfaceId| {
            let old = now.get(id)?;
            let at = interfaces.iter().position(|i| (i.port, i.vlan) == (old.port, old.vlan))?;
            Some(InterfaceId(at as u16))
        };
        let routes =
            self.parts.routing.rib().iter().flat_map(|(prefix, routes, _)| routes.iter().map(move |r| (prefix, r)));
        let of_linux = routes.filter(|(_, route)| route.source == RouteSource::Linux);
        of_linux.filter_map(|(prefix, route)| Some((prefix, renumbered(route, new)?))).collect()
    }

    /// Routes by hand and resolved neighbors, as far as they fit the new interfaces; the sentences tell what did not.
    fn carry_over(&self, routing: &mut Routing) -> Vec<String> {
        let mut lost = Vec::new();
        for (prefix, route) in self.parts.routing.by_hand() {
            let added = self.carried_over(route, routing).and_then(|route| routing.add(prefix, route));
            if let Err(why) = added {
                lost.push(format!("the route to {prefix} added by hand is gone: {why}"));
            }
        }
        for neighbor in self.machine.neighbors() {
            let same = |id: InterfaceId| routing.interfaces().get(id).is_some_and(|i| i.name == self.name_of(id));
            if let Some(mac) = neighbor.mac.filter(|_| same(neighbor.interface)) {
                let address = neighbor.address;
                if routing.on_link(neighbor.interface, address) || is_link_local(address) {
                    routing.neighbor(neighbor.interface, address, Some(mac));
                }
            }
        }
        lost
    }

    /// A route by hand, its interfaces those of the new configuration with the same names.
    fn carried_over(&self, route: &Route, new: &Routing) -> Result<Route, String> {
        let gone = || "its gateway is on no interface any more".to_owned();
        let find = |address, interface: Option<InterfaceId>| {
            let old = &self.parts.routing;
            match interface {
                Some(id) => {
                    let same = new.interfaces().by_name(&self.name_of(id));
                    let same = same.filter(|id| new.on_link(*id, address) || is_link_local(address));
                    same.map(Some).ok_or_else(gone)
                }
                // A neighbor that was found by its address is to be one still; others are reached by whatever leads there.
                None if old.link_of(address).is_some() && new.link_of(address).is_none() => Err(gone()),
                None => Ok(None),
            }
        };
        let target = match &route.target {
            &RouteTarget::Gateway { address, interface } => {
                RouteTarget::Gateway { address, interface: find(address, interface)? }
            }
            RouteTarget::Multipath(multipath) => {
                let members = multipath.members().iter();
                // No route by hand has a link without a gateway.
                let find = |m: &Member| find(m.address.ok_or_else(gone)?, m.interface);
                let members: Result<Vec<Member>, String> =
                    members.map(|m| Ok(Member { interface: find(m)?, ..*m })).collect();
                RouteTarget::Multipath(Multipath::new(&members?).map_err(|error| error.to_string())?)
            }
            other => other.clone(),
        };
        Ok(Route { target, ..route.clone() })
    }

    /// Brings the slow path to the new configuration's neighbors and gateways.
    fn follow_neighbors(&mut self, before: &Config) {
        let kept = self.parts.config.neighbors.clone();
        for gone in before.neighbors.iter().filter(|neighbor| !kept.contains(neighbor)) {
            self.tell(Input::UnsetNeighbor { interface: gone.interface, address: gone.address });
        }
        self.set_static_neighbors();
        self.follow_gateways();
    }

    /// Brings slow path and twins to the new configuration.
    fn follow_config(&mut self, before: &Config, old: &Routing) {
        let now = self.parts.routing.interfaces().clone();
        for (id, interface) in old.interfaces().iter() {
            if now.get(id).is_none_or(|same| same.name != interface.name) {
                self.tell(Input::RemoveInterface { id });
            }
        }
        self.set_interfaces();
        self.follow_neighbors(before);
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

/// The script's path, its generation, and what did not fit.
type Reloaded = (Option<PathBuf>, u64, Vec<String>);

/// A route with other numbers of interfaces; `None` if one of them is gone.
fn renumbered(route: &Route, new: impl Fn(InterfaceId) -> Option<InterfaceId>) -> Option<Route> {
    let map = |interface: Option<InterfaceId>| match interface {
        Some(id) => new(id).map(Some),
        None => Some(None),
    };
    let target = match &route.target {
        RouteTarget::Connected { interface } => RouteTarget::Connected { interface: new(*interface)? },
        RouteTarget::Gateway { address, interface } => {
            RouteTarget::Gateway { address: *address, interface: map(*interface)? }
        }
        RouteTarget::Multipath(multipath) => {
            let member = |m: &Member| Some(Member { interface: map(m.interface)?, ..*m });
            let members: Vec<Member> = multipath.members().iter().filter_map(member).collect();
            RouteTarget::Multipath(Multipath::new(&members).ok()?)
        }
        other => other.clone(),
    };
    Some(Route { target, ..route.clone() })
}
