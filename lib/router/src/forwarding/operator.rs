// SPDX-License-Identifier: MIT
//! Operator routes: those that the API adds and deletes while the router runs.

use super::{Forwarding, Routing, Undo, with_links};
use perigee_api::answers::{LoadedRoutes, RefusedRoute, RouteFate};
use perigee_api::{ApiError, RouteChange, RouteGateway};
use perigee_fib::FibWriter;
use perigee_net::{InterfaceId, Member, Multipath, Prefix, Route, RouteKey, RouteSource, RouteTarget};
use std::net::IpAddr;

/// The route that a request wants added.
///
/// # Errors
/// Its gateways make no sense, or are out of reach.
fn route_to_add(routing: &Routing, change: &RouteChange) -> Result<(Prefix, Route), ApiError> {
    let found = change.prefix;
    let target = target(routing, found, change)?;
    refuse_unused(routing, found, &target)?;
    let mut key = RouteKey::of(RouteSource::Static).with_metric(change.metric);
    key.preference = change.preference.unwrap_or(key.preference);
    let RouteKey { preference, metric, source } = key;
    Ok((found, Route { source, preference, metric, target, mtu: 0, protocol: None }))
}

/// A route that no packet would ever take is a mistake; but refusing what nobody sends is none.
fn refuse_unused(routing: &Routing, prefix: Prefix, target: &RouteTarget) -> Result<(), ApiError> {
    let refuse = |why: String| Err(ApiError::invalid(format!("no packet would take a route to {prefix}: {why}")));
    if let Some(why) = prefix.never_forwarded().filter(|_| fate(target).is_none()) {
        return refuse(why.to_owned());
    }
    let mut own = routing.interfaces().iter().flat_map(|(_, interface)| &interface.addresses);
    if own.any(|own| Prefix::host(own.address) == prefix) {
        return refuse("it is an address of the router itself".to_owned());
    }
    let connected = |route: &Route| match route.target {
        RouteTarget::Connected { interface } => Some(interface),
        _ => None,
    };
    match routing.rib().routes(prefix).iter().find_map(connected) {
        Some(interface) => refuse(format!("it is the network of {}", routing.name_of(interface))),
        None => Ok(()),
    }
}

fn target(routing: &Routing, prefix: Prefix, change: &RouteChange) -> Result<RouteTarget, ApiError> {
    let gateways = change.all_gateways()?;
    if let Some(fate) = change.fate {
        return match (&gateways[..], &change.dev) {
            ([], None) => Ok(to_fate(fate)),
            _ => Err(ApiError::invalid(format!("`fate` is {fate}, and there is a gateway; expected one of them"))),
        };
    }
    let members = gateways.iter().map(|gateway| member(routing, prefix, gateway)).collect::<Result<Vec<_>, _>>()?;
    match members[..] {
        [] => Err(ApiError::invalid("`via` is missing: the address of a neighbor; or a `fate`")),
        [Member { address: Some(address), interface, weight: 1 }] => Ok(RouteTarget::Gateway { address, interface }),
        _ => {
            let multipath = Multipath::new(&members).map_err(|error| ApiError::invalid(error.to_string()))?;
            Ok(RouteTarget::Multipath(multipath))
        }
    }
}

fn to_fate(fate: RouteFate) -> RouteTarget {
    match fate {
        RouteFate::Blackhole => RouteTarget::Blackhole,
        RouteFate::Unreachable => RouteTarget::Unreachable,
        RouteFate::Prohibit => RouteTarget::Prohibit,
    }
}

/// What happens to the packets of a route that leads nowhere.
fn fate(target: &RouteTarget) -> Option<RouteFate> {
    let all = [RouteFate::Blackhole, RouteFate::Unreachable, RouteFate::Prohibit];
    all.into_iter().find(|fate| to_fate(*fate) == *target)
}

/// Where a route leads, as `route add` takes it: the weights of several gateways as well.
fn leads(route: &Route) -> String {
    match &route.target {
        RouteTarget::Multipath(multipath) => {
            let gateway = |m: &Member| Some(format!("via {} weight {weight}", m.address?, weight = m.weight));
            multipath.members().iter().filter_map(gateway).collect::<Vec<_>>().join(" ")
        }
        target => match fate(target) {
            Some(fate) => fate.to_string(),
            None => route.gateways().map(|(gateway, _)| format!("via {gateway}")).collect(),
        },
    }
}

/// A gateway as the table knows it. One without an interface must be on a connected network, so that a typing error is
/// noticed, or be marked as recursive.
fn member(routing: &Routing, prefix: Prefix, gateway: &RouteGateway) -> Result<Member, ApiError> {
    let RouteGateway { via: address, dev, recursive, weight } = gateway;
    let (address, weight) = (*address, *weight);
    if address.is_ipv4() != prefix.addr().is_ipv4() {
        return Err(ApiError::invalid(format!("{address} and {prefix} are of different families")));
    }
    let interface = dev.as_deref().map(|name| interface(routing, name)).transpose()?;
    match interface {
        Some(_) if *recursive => {
            return Err(ApiError::invalid(format!("{address} is recursive and has a `dev`; expected one of them")));
        }
        Some(id) if !routing.may_be_on(id, address) => {
            let name = routing.name_of(id);
            let message = format!("{address} is on none of the networks of {name}; give one it can be reached by");
            return Err(ApiError::invalid(message));
        }
        None if !recursive => {
            routing.fib().link_of(address).map_err(|error| ApiError::invalid(error.to_string()))?;
        }
        _ => {}
    }
    Ok(Member { address: Some(address), interface, weight })
}

fn interface(routing: &Routing, name: &str) -> Result<InterfaceId, ApiError> {
    let interfaces = routing.interfaces();
    interfaces.by_name(name).ok_or_else(|| {
        let names: Vec<_> = interfaces.iter().map(|(_, interface)| interface.name.as_str()).collect();
        ApiError::not_found(format!("there is no interface {name}; there are {}", names.join(", ")))
    })
}

impl Forwarding {
    /// Adds a route and makes it visible to workers; the answer says what was done.
    ///
    /// # Errors
    /// There already is such a route, or it does not fit; nothing has changed.
    pub(crate) fn add_route(&mut self, change: &RouteChange) -> Result<String, ApiError> {
        let (found, route) = route_to_add(&self.routing, change)?;
        let key = route.key();
        if self.rib().route(found, key).is_some() {
            let preference = change.preference.map(|n| format!("preference {n} and ")).unwrap_or_default();
            let message = format!("there is a route to {found} with {preference}metric {} already", change.metric);
            return Err(ApiError::conflict(message));
        }
        let leads = leads(&route);
        self.routing.add(found, route).map_err(|error| ApiError::invalid(error.to_string()))?;
        if let Err(error) = self.publish() {
            // An error about another route is no reason to refuse this one.
            if error.is_about(found) || self.routing.fib().is_refused(found) {
                self.routing.remove(found, key).map_err(|error| ApiError::failed(error.to_string()))?;
                return Err(ApiError::conflict(error.to_string()));
            }
            self.warn_of(error);
        }
        let mut message = format!("route to {found} {leads} added");
        if self.rib().chosen(found).is_none() {
            message.push_str("; it is not used before a route leads to its gateway");
        }
        Ok(message)
    }

    /// Sets routes, and makes them visible to workers as one run.
    pub(crate) fn load_routes(&mut self, changes: &[RouteChange]) -> LoadedRoutes {
        let (mut unchanged, mut refused, mut made) = (0, 0, Vec::new());
        // The first of the refused ones: only that one's reason is told.
        let mut first: Option<(usize, String)> = None;
        self.hold();
        for (at, change) in changes.iter().enumerate() {
            if let Some(ahead) = changes.get(at + FibWriter::AHEAD) {
                self.prefetch(ahead.prefix);
            }
            match self.set_route(change) {
                Ok(Some(undo)) => made.push((at, undo)),
                Ok(None) => unchanged += 1,
                Err(error) => {
                    refused += 1;
                    first = first.or(Some((at, error.message)));
                }
            }
        }
        if let Err(error) = self.publish() {
            let is_out = |prefix| error.is_about(prefix) || self.routing.fib().is_refused(prefix);
            let (out, stay): (Vec<_>, Vec<_>) = made.into_iter().partition(|(_, (prefix, ..))| is_out(*prefix));
            made = stay;
            refused += out.len() as u64;
            if let Some((at, (prefix, ..))) = out.first()
                && first.as_ref().is_none_or(|(first, _)| at < first)
            {
                let why =
                    if error.is_about(*prefix) { error.to_string() } else { format!("{prefix} does not fit: {error}") };
                first = Some((*at, why));
            }
            if out.is_empty() {
                self.warn_of(error);
            }
            // The last first: a route may have been named twice. Held: what has no room now is in the routing table,
            // and tried again.
            self.hold();
            out.into_iter().rev().for_each(|(_, undo)| self.unset_route(undo));
            self.publish_or_warn();
        }
        let added = made.iter().filter(|(_, (.., before))| before.is_none()).count() as u64;
        LoadedRoutes {
            added,
            changed: made.len() as u64 - added,
            unchanged,
            refused,
            first_refused: first.map(|(at, why)| RefusedRoute { at: at as u64, why }),
        }
    }

    /// Sets a route; `None` if it was there already.
    fn set_route(&mut self, change: &RouteChange) -> Result<Option<Undo>, ApiError> {
        let (prefix, route) = route_to_add(&self.routing, change)?;
        let key = route.key();
        let before = self.rib().route(prefix, key).cloned();
        let of_configuration = before.is_some() && !self.routing.is_operator_route(prefix, key);
        // The configuration names the links of all neighbors.
        let named = if of_configuration { with_links(&self.routing, &route) } else { route.clone() };
        if before.as_ref() == Some(&named) {
            return Ok(None);
        }
        if of_configuration {
            let message = format!("there is a route to {prefix} with metric {} in the configuration", change.metric);
            return Err(ApiError::conflict(message));
        }
        self.routing.add(prefix, route).map_err(|error| ApiError::invalid(error.to_string()))?;
        Ok(Some((prefix, key, before)))
    }

    /// Takes back what [`set_route`](Self::set_route) did.
    fn unset_route(&mut self, (prefix, key, before): Undo) {
        let undone = match before {
            Some(route) => self.routing.add(prefix, route),
            None => self.routing.remove(prefix, key).map(drop),
        };
        if let Err(error) = undone {
            tracing::error!("the route to {prefix} is not as it was: {error}");
        }
    }

    /// Deletes a static or operator route, and makes that visible to workers; the answer says what was done.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn delete_route(&mut self, change: &RouteChange) -> Result<String, ApiError> {
        let found = change.prefix;
        let mut requested: Vec<IpAddr> = change.all_gateways()?.into_iter().map(|gateway| gateway.via).collect();
        requested.sort_unstable();
        let matches = |route: &&Route| {
            let mut gateways: Vec<IpAddr> = route.gateways().map(|(gateway, _)| gateway).collect();
            gateways.sort_unstable();
            route.source == RouteSource::Static
                && route.metric == change.metric
                && change.preference.is_none_or(|preference| preference == route.preference)
                && (requested.is_empty() || requested == gateways)
                && (change.fate.is_none() || change.fate == fate(&route.target))
        };
        let Some(key) = self.rib().routes(found).iter().find(matches).map(Route::key) else {
            let fate = change.fate.map(|fate| format!(" {fate}"));
            let via: String = requested.iter().map(|via| format!(" via {via}")).chain(fate).collect();
            let message = format!("there is no static route to {found}{via} with metric {}", change.metric);
            return Err(ApiError::not_found(message));
        };
        self.routing.remove(found, key).map_err(|error| ApiError::not_found(error.to_string()))?;
        self.publish_or_warn();
        Ok(format!("route to {found} deleted"))
    }
}
