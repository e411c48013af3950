// SPDX-License-Identifier: MIT
//! A VLAN link on a twin (`ip link add link wan name wan.100 type vlan id 100`) becomes an interface of the router.

use crate::{PORTS, Pair};
use perigee_tests::{Good, World, run, wait_until};
use std::process::Command;

perigee_tests::scenarios![vlan_links_become_interfaces,];

fn vlan_links_become_interfaces(world: &World) {
    if !has_vlans(world) {
        return world.unable("this kernel has no VLAN devices");
    }
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    // The server speaks VLAN 100 on the same wire.
    server.run("ip link add link eth0 name eth0.100 type vlan id 100").good();
    server.run("ip addr add 10.0.100.2/24 dev eth0.100").good();
    server.run("ip addr add 2001:db8:100::2/64 dev eth0.100 nodad").good();
    server.run("ip link set eth0.100 up").good();
    world.ip("link add link lan name lan.100 type vlan id 100");
    world.ip("addr add 10.0.100.1/24 dev lan.100");
    world.ip("addr add 2001:db8:100::1/64 dev lan.100");
    world.ip("link set lan.100 up");
    for address in ["10.0.100.1", "10.0.100.2", "2001:db8:100::1", "2001:db8:100::2"] {
        client.reaches(address);
        client.ping(20, address);
    }
    router.leads("10.0.100.0/24", "lan.100");
    router.audited();
    world.ip("link del lan.100");
    router.loses("10.0.100.0/24");
    client.ping_fails("10.0.100.2");
    client.ping(20, "10.0.2.2");
    router.alone();
    router.audited();
    router.stop();
}

/// Whether the kernel knows VLAN devices.
fn has_vlans(world: &World) -> bool {
    world.ip("link add vlan-probe type veth peer name vlan-peer");
    let tried = run(Command::new("ip").args("link add link vlan-probe name vlan-probe.2 type vlan id 2".split(' ')));
    world.ip("link del vlan-probe");
    wait_until("the probe to be gone", || !world.ip("-o link show").contains("vlan-p"));
    tried.code == Some(0)
}
