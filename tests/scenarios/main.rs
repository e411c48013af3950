// SPDX-License-Identifier: MIT
//! What perigee does between real counterparts. Each file is named after what it checks.

mod bench;
mod bgp;
mod claims;
mod demo;
mod device;
mod doors;
mod examples;
mod failover;
mod fib;
mod filters;
mod flood;
mod forwarding;
mod fpm;
mod fragments;
mod generator;
mod helper;
mod hostile;
mod icmp;
mod links;
mod linux_groups;
mod linux_hops;
mod linux_links;
mod linux_neighbors;
mod linux_only;
mod linux_routes;
mod linux_stack;
mod linux_twins;
mod linux_vlans;
mod linux_vrf;
mod losses;
mod malformed;
mod metrics;
mod multicast;
mod multipath;
mod neighbors;
mod ospf;
mod plane;
mod privileges;
mod protocols;
mod refusals;
mod reload;
mod restart;
mod routes;
mod snabb;
mod snabb_ports;
mod snabb_tasks;
mod stall;
mod start;
mod tap;
mod tasks;
mod terminals;
mod twin;
mod unnumbered;
mod vlan;
mod workers;

use perigee_tests::{Host, Scenario, World};
use std::process::ExitCode;

/// The scenarios of all files.
const ALL: &[&[Scenario]] = &[
    bench::SCENARIOS,
    bgp::SCENARIOS,
    claims::SCENARIOS,
    demo::SCENARIOS,
    device::SCENARIOS,
    doors::SCENARIOS,
    examples::SCENARIOS,
    failover::SCENARIOS,
    fib::SCENARIOS,
    filters::SCENARIOS,
    flood::SCENARIOS,
    forwarding::SCENARIOS,
    fpm::SCENARIOS,
    fragments::SCENARIOS,
    generator::SCENARIOS,
    helper::SCENARIOS,
    hostile::SCENARIOS,
    icmp::SCENARIOS,
    links::SCENARIOS,
    linux_groups::SCENARIOS,
    linux_hops::SCENARIOS,
    linux_links::SCENARIOS,
    linux_neighbors::SCENARIOS,
    linux_only::SCENARIOS,
    linux_routes::SCENARIOS,
    linux_stack::SCENARIOS,
    linux_twins::SCENARIOS,
    linux_vlans::SCENARIOS,
    linux_vrf::SCENARIOS,
    losses::SCENARIOS,
    malformed::SCENARIOS,
    metrics::SCENARIOS,
    multicast::SCENARIOS,
    multipath::SCENARIOS,
    neighbors::SCENARIOS,
    ospf::SCENARIOS,
    plane::SCENARIOS,
    privileges::SCENARIOS,
    protocols::SCENARIOS,
    refusals::SCENARIOS,
    reload::SCENARIOS,
    restart::SCENARIOS,
    routes::SCENARIOS,
    snabb::SCENARIOS,
    snabb_ports::SCENARIOS,
    snabb_tasks::SCENARIOS,
    stall::SCENARIOS,
    start::SCENARIOS,
    tap::SCENARIOS,
    tasks::SCENARIOS,
    terminals::SCENARIOS,
    twin::SCENARIOS,
    unnumbered::SCENARIOS,
    vlan::SCENARIOS,
    workers::SCENARIOS,
];

fn main() -> ExitCode {
    perigee_tests::main(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"), ALL)
}

/// A client, a server, and what a configuration needs to connect them.
struct Pair {
    client: Host,
    server: Host,
}

/// The ports to client and server.
const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.lan]
interface = "r-server"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
"#;

impl Pair {
    fn new(world: &World) -> Pair {
        Pair {
            client: world.host("client", &["10.0.1.2/24", "2001:db8:1::2/64"], &["10.0.1.1", "2001:db8:1::1"]),
            server: world.host("server", &["10.0.2.2/24", "2001:db8:2::2/64"], &["10.0.2.1", "2001:db8:2::1"]),
        }
    }
}
