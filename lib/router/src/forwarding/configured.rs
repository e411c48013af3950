// SPDX-License-Identifier: MIT
//! The configuration's interfaces on the ports as they were opened, and routes as the configuration would express them.

use super::{ForwardingError, Routing};
use perigee_config::Config;
use perigee_net::{Interface, InterfaceId, Member, Route, RouteTarget};
use perigee_packet::PortInfo;
use std::net::IpAddr;

/// The interfaces of a configuration, on the ports as they were opened (in the configuration's order).
///
/// # Errors
/// An interface has no port.
pub fn interfaces(config: &Config, ports: &[PortInfo]) -> Result<Vec<Interface>, ForwardingError> {
    let convert = |interface: &perigee_config::Interface| {
        let missing =
            || ForwardingError::NoPort { name: interface.name.clone(), port: interface.port, ports: ports.len() };
        let port = ports.get(usize::from(interface.port)).ok_or_else(missing)?;
        Ok(Interface {
            name: interface.name.clone(),
            port: port.port,
            vlan: interface.vlan,
            mtu: interface.mtu,
            mac: port.mac,
            up: true,
            addresses: interface.addresses.clone(),
            attributes: Default::default(),
            policy: interface.policy,
        })
    };
    config.interfaces.iter().map(convert).collect()
}

/// A route as the configuration would express it: each gateway that is a neighbor, with its link.
pub fn with_links(routing: &Routing, route: &Route) -> Route {
    let link =
        |interface: Option<InterfaceId>, address: IpAddr| interface.or_else(|| routing.fib().link_of(address).ok());
    let target = match &route.target {
        &RouteTarget::Gateway { address, interface } => {
            RouteTarget::Gateway { address, interface: link(interface, address) }
        }
        RouteTarget::Multipath(multipath) => RouteTarget::Multipath(multipath.map(|member| {
            let link = member.address.map_or(member.interface, |address| link(member.interface, address));
            Member { interface: link, ..member }
        })),
        other => other.clone(),
    };
    Route { target, ..route.clone() }
}
