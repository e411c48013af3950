// SPDX-License-Identifier: MIT
//! A reload's part of the tables: static routes and filters change in place, or everything is built from scratch and
//! replaces the old tables. Either way nothing is final until the script has been loaded with the new tables.

use super::configured::interfaces;
use super::{Filters, Forwarding, ForwardingError, Links, NEXT_HOPS, Routing, Undo, lock, seed, tables};
use perigee_config::Config;
use perigee_fib::{Fib, Interfaces, Published};
use perigee_modules::Tables;
use perigee_net::{
    Interface, InterfaceId, LinuxOnly, Member, MulticastRoute, Multipath, Prefix, Route, RouteSource, RouteTarget,
};
use perigee_packet::PortInfo;
use perigee_slowpath::NeighborInfo;
use std::net::IpAddr;
use std::sync::Arc;

/// How to take back a change in place.
pub(crate) struct InPlace {
    undo: Vec<Undo>,
    multicast: Vec<MulticastRoute>,
    filters: Filters,
}

/// Routes and filters that may replace the present ones.
pub(crate) struct Replacement {
    routing: Routing,
    shown: Fib,
    filters: Filters,
    /// The tables that scripts were loaded with before.
    staging: Published<Tables>,
    /// A sentence about each thing that did not fit.
    pub lost: Vec<String>,
}

/// So many routes and neighbors that a reload has lost are told one by one.
const MOST_SENTENCES: usize = 20;

impl Forwarding {
    /// For unchanged interfaces and lookup structures: static routes and filters change in place. Workers see them with
    /// the next publication, scripts that are loaded see them now.
    ///
    /// # Errors
    /// A route does not fit; nothing has changed.
    pub(crate) fn change_in_place(
        &mut self,
        before: &Config,
        now: &Config,
        filters: Filters,
    ) -> Result<InPlace, ForwardingError> {
        let undo = self.routing.follow_static(before, now)?;
        let multicast = self.routing.set_fixed_multicast(now.multicast.clone());
        let filters = filters.policing(now, &self.numbers).counting_on(&self.filters, (before, now));
        let change = InPlace { undo, multicast, filters: self.set_filters(filters) };
        // A route of somebody else's that does not fit is no reason to refuse this.
        if let Err(error) = self.routing.commit() {
            let error = ForwardingError::from(error);
            let refused = |prefix| self.routing.fib().is_refused(prefix) || error.is_about(prefix);
            if self.routing.uncommitted() || change.undo.iter().any(|(prefix, ..)| refused(*prefix)) {
                self.take_back(change);
                return Err(error);
            }
            self.warn_of(error);
        }
        lock(&self.staging.0).publish(self.tables());
        Ok(change)
    }

    /// Undoes a change in place completely.
    pub(crate) fn take_back(&mut self, change: InPlace) {
        self.routing.undo(change.undo);
        self.routing.set_fixed_multicast(change.multicast);
        self.set_filters(change.filters);
        self.publish_or_warn();
    }

    /// Builds new tables for a new configuration, with what Linux, operators and neighbors have added to the old ones.
    /// Scripts that are loaded see them now, workers do not.
    ///
    /// # Errors
    /// Something does not fit; nothing has changed.
    pub(crate) fn prepare(
        &mut self,
        (before, now): (&Config, &Config),
        ports: &[PortInfo],
        filters: Filters,
        neighbors: impl Iterator<Item = NeighborInfo>,
    ) -> Result<Replacement, ForwardingError> {
        let filters = filters.policing(now, &self.numbers).counting_on(&self.filters, (before, now));
        let list = merged(interfaces(before, ports)?, self.interfaces(), interfaces(now, ports)?);
        let others = self.routes_of_linux(&list);
        let mut fib = self.lookups.make(&now.router.fib, NEXT_HOPS)?;
        fib.set_seed(seed(&self.macs));
        let host_addresses = self.interfaces().host_addresses().to_vec();
        let links = Links { interfaces: list, host_addresses, no_link: self.routing.no_link().clone() };
        let mut routing = Routing::new(fib, now, links, others, self.routing.room().clone())?;
        routing.count_on(&self.routing);
        routing.set_exceptions(self.routing.exceptions(), self.routing.refuses());
        let lost = self.carry_over(&mut routing, neighbors);
        routing.commit()?;
        let shown = routing.fib().reader();
        let new = tables(&shown, &routing, &filters, &self.macs, self.taps.clone());
        let staging = std::mem::replace(&mut *lock(&self.staging.0), Published::new(new));
        Ok(Replacement { routing, shown, filters, staging, lost })
    }

    /// Discards a replacement.
    pub(crate) fn abandon(&mut self, replacement: Replacement) {
        *lock(&self.staging.0) = replacement.staging;
    }

    /// Puts the replacement in place of the old tables and shows it to workers. Returns the old interfaces.
    pub(crate) fn adopt(&mut self, replacement: Replacement) -> Arc<Interfaces> {
        let Replacement { routing, shown, filters, .. } = replacement;
        let before = std::mem::replace(&mut self.routing, routing);
        (self.shown, self.filters, self.renewed) = (shown, filters, false);
        lock(&self.published).publish(self.tables());
        before.interfaces().clone()
    }

    /// The routes that Linux has reported so far, with the future numbers of interfaces.
    fn routes_of_linux(&self, interfaces: &[Interface]) -> Vec<(Prefix, Route)> {
        let new = |id: InterfaceId| {
            let old = self.interfaces().get(id)?;
            let at = interfaces.iter().position(|i| (i.port, i.vlan) == (old.port, old.vlan))?;
            Some(InterfaceId(at as u16))
        };
        let of_family = |is_v6| self.rib().routes_of_source(RouteSource::Linux, is_v6, None);
        let of_linux = of_family(false).chain(of_family(true));
        // What did not fit before would keep all others from being loaded.
        let fits = of_linux.filter(|(prefix, _)| !self.routing.fib().is_refused(*prefix));
        // Until Linux is read again, packets of a route whose interface is gone must not take a shorter prefix.
        let why = LinuxOnly::OtherInterface;
        let elsewhere = if self.routing.refuses() { RouteTarget::Refused(why) } else { RouteTarget::ToLinux(why) };
        let moved =
            |route: &Route| renumbered(route, new).unwrap_or(Route { target: elsewhere.clone(), ..route.clone() });
        fits.map(|(prefix, route)| (prefix, moved(route))).collect()
    }

    /// Operator routes and resolved neighbors, as far as they fit the new interfaces; the sentences say what did not.
    fn carry_over(&self, new: &mut Routing, neighbors: impl Iterator<Item = NeighborInfo>) -> Vec<String> {
        let mut lost = Vec::new();
        new.keep_room_for(self.routing.operator_routes().count());
        for (prefix, route) in self.routing.operator_routes() {
            let route = self.carried_over(route, new);
            if let Err(why) = route.and_then(|route| Ok(new.add(prefix, route)?)) {
                lost.push(format!("the operator route to {prefix} is gone: {why}"));
            }
        }
        // A gateway need not be on a network of its link (`onlink`).
        let gateways = new.gateways();
        for NeighborInfo { interface, address, mac, .. } in neighbors {
            let same = new.interfaces().get(interface).is_some_and(|i| i.name == self.routing.name_of(interface));
            let fits = || gateways.contains(&(interface, address)) || new.may_be_on(interface, address);
            if let Some(mac) = mac.filter(|_| same && fits())
                && let Err(error) = new.set_neighbor(interface, address, Some(mac))
            {
                lost.push(format!("packets to the neighbor {address} stay in the slow path: {error}"));
            }
        }
        // An operator may have loaded a million.
        let more = lost.len().saturating_sub(MOST_SENTENCES);
        if more > 0 {
            lost.truncate(MOST_SENTENCES);
            lost.push(format!("and {more} more are gone likewise"));
        }
        lost
    }

    /// An operator route with its interfaces replaced by those of the same names in the new configuration.
    fn carried_over(&self, route: &Route, new: &Routing) -> Result<Route, ForwardingError> {
        let is_connected = |routing: &Routing, address| routing.fib().link_of(address).is_ok();
        let find = |address: IpAddr, interface: Option<InterfaceId>| match interface {
            Some(id) => {
                let same = new.interfaces().by_name(&self.routing.name_of(id));
                let same = same.filter(|id| new.may_be_on(*id, address));
                same.map(Some).ok_or(ForwardingError::GatewayGone)
            }
            // A gateway that was found on a connected network must still be on one; others are reached by whatever
            // leads there.
            None if is_connected(&self.routing, address) && !is_connected(new, address) => {
                Err(ForwardingError::GatewayGone)
            }
            None => Ok(None),
        };
        let target = match &route.target {
            &RouteTarget::Gateway { address, interface } => {
                RouteTarget::Gateway { address, interface: find(address, interface)? }
            }
            RouteTarget::Multipath(multipath) => {
                let members = multipath.members().iter();
                // No operator route has a link without a gateway.
                let find = |m: &Member| find(m.address.ok_or(ForwardingError::GatewayGone)?, m.interface);
                let members: Result<Vec<Member>, ForwardingError> =
                    members.map(|m| Ok(Member { interface: find(m)?, ..*m })).collect();
                RouteTarget::Multipath(Multipath::new(&members?)?)
            }
            other => other.clone(),
        };
        Ok(Route { target, ..route.clone() })
    }
}

/// The interfaces of a new configuration, each as Linux has it now except for what the configuration changes; those
/// that only Linux has come last.
fn merged(before: Vec<Interface>, now: &Interfaces, mut list: Vec<Interface>) -> Vec<Interface> {
    let place = |interface: &Interface| (interface.port, interface.vlan);
    for interface in &mut list {
        let Some((_, live)) = now.iter().find(|(_, live)| place(live) == place(interface)) else { continue };
        let had = before.iter().find(|other| place(other) == place(interface));
        let had = had.map(|other| other.addresses.clone()).unwrap_or_default();
        let kept = live.addresses.iter().filter(|a| interface.addresses.contains(a) || !had.contains(a));
        let mut addresses: Vec<_> = kept.copied().collect();
        addresses.extend(interface.addresses.iter().filter(|a| !live.addresses.contains(a)));
        *interface = Interface { addresses, attributes: live.attributes.clone(), up: live.up, ..interface.clone() };
    }
    let extra = now.iter().map(|(_, interface)| interface).skip(before.len());
    let extra: Vec<_> = extra.filter(|extra| !list.iter().any(|i| place(i) == place(extra))).cloned().collect();
    list.extend(extra);
    list
}

/// A route with new interface numbers; `None` if one of its interfaces is gone.
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
            let members: Vec<Member> = multipath.members().iter().map(member).collect::<Option<_>>()?;
            RouteTarget::Multipath(Multipath::new(&members).ok()?)
        }
        other => other.clone(),
    };
    Some(Route { target, ..route.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::Room;
    use perigee_fib::FibWriter;
    use perigee_net::MacAddr;
    use std::sync::Mutex;

    /// Routes that stand in for refused ones are beyond the limit, and a reload was refused for them.
    #[test]
    fn a_reload_at_the_limit_takes_what_stands_in_along() {
        let text = "[router]\ncores = [0]\n[port.a]\ndevice = \"heap0\"\n";
        let machine = perigee_config::Machine { cores: vec![0], ..Default::default() };
        let config = Config::parse_on("test.toml", text, &machine).unwrap_or_else(|error| panic!("{error}"));
        let reload = |held: usize, stand_ins: usize| {
            let route = |(n, target): (usize, RouteTarget)| {
                let prefix: Prefix = format!("20.{}.{}.0/24", n >> 8, n & 255).parse().unwrap();
                (prefix, Route::new(RouteSource::Linux, target))
            };
            let held = std::iter::repeat_n(RouteTarget::Blackhole, held);
            let all = held.chain(std::iter::repeat_n(RouteTarget::ToLinux(LinuxOnly::Limit), stand_ins));
            let room = Arc::new(Mutex::new(Room::new(Some(1000))));
            let fib = FibWriter::new(NEXT_HOPS).unwrap();
            let routing = Routing::new(fib, &config, Links::default(), all.enumerate().map(route).collect(), room);
            routing.map(|routing| routing.rib().prefixes()).map_err(|error| error.to_string())
        };
        assert_eq!(reload(1000, 5), Ok(1005));
        assert!(reload(1001, 5).is_err_and(|why| why.contains("1006 routes")));
    }

    fn interface(name: &str, port: u16, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Interface {
            name: name.to_owned(),
            port,
            vlan: None,
            mtu: 1500,
            mac: MacAddr::ZERO,
            up: true,
            addresses,
            attributes: Default::default(),
            policy: Default::default(),
        }
    }

    fn addresses(of: &Interface) -> Vec<String> {
        of.addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_reload_changes_of_an_interface_only_what_the_configuration_changed() {
        let before = vec![interface("a", 0, &["10.0.0.1/24", "10.0.1.1/24", "10.0.2.1/24"]), interface("b", 1, &[])];
        // Linux has lost 10.0.1.1, has another one, and an interface that the configuration does not know.
        let live = vec![
            Interface { up: false, ..interface("a", 0, &["10.0.0.1/24", "10.0.2.1/24", "192.0.2.1/24"]) },
            interface("b", 1, &["198.51.100.1/24"]),
            Interface { vlan: Some(7), ..interface("a.7", 0, &["10.7.0.1/24"]) },
        ];
        let live = Interfaces::new(live).unwrap();
        let wanted = vec![
            interface("a", 0, &["10.0.0.1/24", "10.0.1.1/24", "10.0.3.1/24"]),
            interface("c", 2, &["10.0.9.1/24"]),
        ];
        let list = merged(before.clone(), &live, wanted);
        assert_eq!(list.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "c", "a.7"]);
        // Kept: what both have, and what Linux alone has. 10.0.2.1 is gone from the configuration.
        assert_eq!(addresses(&list[0]), ["10.0.0.1/24", "192.0.2.1/24", "10.0.1.1/24", "10.0.3.1/24"]);
        assert!(!list[0].up && list[1].up, "it is down in Linux");
        assert_eq!(
            (addresses(&list[1]), addresses(&list[2])),
            (vec!["10.0.9.1/24".to_owned()], vec!["10.7.0.1/24".to_owned()])
        );
        // The configuration knows it now: it is there once.
        let wanted =
            vec![before[0].clone(), before[1].clone(), Interface { vlan: Some(7), ..interface("vlan", 0, &[]) }];
        let list = merged(before, &live, wanted);
        assert_eq!(list.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b", "vlan"]);
        assert_eq!(addresses(&list[2]), ["10.7.0.1/24"]);
    }

    #[test]
    fn a_route_has_the_new_numbers_of_its_interfaces_or_is_gone_with_them() {
        let new = |old: InterfaceId| (old.0 != 3).then_some(InterfaceId(old.0 + 10));
        let number = |target: RouteTarget| {
            let route = Route { metric: 7, ..Route::new(RouteSource::Linux, target) };
            let new = renumbered(&route, new)?;
            assert_eq!((new.metric, new.source), (7, RouteSource::Linux));
            Some(new.target)
        };
        let connected = |n| RouteTarget::Connected { interface: InterfaceId(n) };
        assert_eq!((number(connected(1)), number(connected(3))), (Some(connected(11)), None));
        let own: IpAddr = "10.0.0.1".parse().unwrap();
        let address = Some(own);
        let gateway = |n: Option<u16>| RouteTarget::Gateway { address: own, interface: n.map(InterfaceId) };
        let gateways = [Some(1), Some(3), None].map(|n| number(gateway(n)));
        assert_eq!(gateways, [Some(gateway(Some(11))), None, Some(gateway(None))]);
        let several = |numbers: [u16; 2]| {
            let members = numbers.map(|n| Member { address, interface: Some(InterfaceId(n)), weight: n % 10 });
            RouteTarget::Multipath(Multipath::new(&members).unwrap())
        };
        assert_eq!((number(several([1, 2])), number(several([1, 3]))), (Some(several([11, 12])), None));
        assert_eq!(number(RouteTarget::Blackhole), Some(RouteTarget::Blackhole));
    }
}
