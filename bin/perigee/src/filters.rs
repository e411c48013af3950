// SPDX-License-Identifier: MIT
//! The configuration's filters and steers, compiled: by rte_acl for the fast path, by rte_flow for devices that can.

use perigee_config::{Config, FilteredFrom, Steer, SteerMatch};
use perigee_dpdk::{AclFilter, DpdkPort, Eal, FlowRule, Steer as Flow};
use perigee_modules::rules::{Filter, Rule, Strict};
use perigee_net::FiveTuple;
use perigee_router::{Filters, Rebuild, Refusal};
use std::sync::Arc;

/// The rules about packets from one side, compiled, each under its number in the file; `None` without one. A list that
/// drops nothing still counts what it lets pass.
fn deny(eal: &Eal, config: &Config, from: FilteredFrom) -> perigee_dpdk::Result<Option<Arc<dyn Filter>>> {
    let rules: Vec<Rule> = config.filter_rules(from).collect();
    if rules.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Strict::new(&rules, |rules| AclFilter::new(eal, rules))?)))
}

/// The list of what goes to the slow path. The ports of a packet that does not show them count as 0.
fn steers(eal: &Eal, tuples: Vec<FiveTuple>) -> perigee_dpdk::Result<Option<Arc<dyn Filter>>> {
    if tuples.is_empty() {
        return Ok(None);
    }
    let rules: Vec<_> = tuples.into_iter().map(Rule::deny).collect();
    Ok(Some(Arc::new(AclFilter::new(eal, &rules)?)))
}

/// The steers that software has to do, as some port's device cannot.
pub fn in_software(config: &Config, done: &[Steer]) -> Vec<FiveTuple> {
    let everything = |version: u16| match version {
        // The Ethernet types of IPv4 and IPv6 stand for all of their packets; other types go to the slow path anyway.
        0x0800 => Some(FiveTuple { src: "0.0.0.0/0".parse().ok(), ..FiveTuple::default() }),
        0x86dd => Some(FiveTuple { src: "::/0".parse().ok(), ..FiveTuple::default() }),
        _ => None,
    };
    let left = config.steers.iter().filter(|steer| !done.contains(steer));
    let tuple = |steer: &Steer| match steer.what {
        SteerMatch::EtherType(kind) => everything(kind),
        SteerMatch::FiveTuple(tuple) => Some(tuple),
    };
    left.filter_map(tuple).collect()
}

/// Makes filters for a configuration; remembers what devices steer themselves.
pub struct DpdkFilters {
    pub eal: Eal,
    pub done: Vec<Steer>,
}

impl Rebuild for DpdkFilters {
    fn in_hardware(&self, steer: &Steer) -> bool {
        self.done.contains(steer)
    }

    fn filters(&self, config: &Config) -> Result<Filters, Refusal> {
        Ok(Filters {
            deny: deny(&self.eal, config, FilteredFrom::Ports)?,
            deny_linux: deny(&self.eal, config, FilteredFrom::Linux)?,
            steer: steers(&self.eal, in_software(config, &self.done))?,
            ..Filters::default()
        })
    }
}

/// Puts the steers of a port into its device, if that is DPDK's. Returns the rules, the steers that are done, and a
/// sentence for each that is not.
pub fn steer(port: Option<&DpdkPort>, index: u16, config: &Config) -> (Vec<FlowRule>, Vec<Steer>, Vec<String>) {
    let (mut rules, mut done, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for steer in config.steers.iter().filter(|steer| steer.port.is_none_or(|port| port == index)) {
        let flows: Vec<Flow> = match &steer.what {
            SteerMatch::EtherType(kind) => vec![Flow::EtherType(*kind)],
            SteerMatch::FiveTuple(tuple) => {
                let (v4, v6) = (tuple.ipv4().then_some(Flow::V4(*tuple)), tuple.ipv6().then_some(Flow::V6(*tuple)));
                v4.into_iter().chain(v6).collect()
            }
        };
        let Some((port, queue)) = port.and_then(|port| Some((port, port.slow_path_queue()?))) else {
            let name = &config.ports[usize::from(index)].name;
            notes.push(format!(
                "port {name}: the device cannot steer packets to a queue of their own: software does it"
            ));
            break;
        };
        match flows.iter().map(|flow| port.steer(flow, queue)).collect::<Result<Vec<_>, _>>() {
            Ok(made) => {
                rules.extend(made);
                done.push(*steer);
            }
            Err(error) => notes.push(error.to_string()),
        }
    }
    (rules, done, notes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_configuration_knows_how_many_filters_the_plane_has_room_for() {
        assert_eq!(perigee_config::MOST_FILTERS, perigee_xdp::FILTERS);
    }
}
