// SPDX-License-Identifier: MIT
//! VLANs on both sides: a VLAN link on a twin (`ip link add link wan name wan.100 type vlan id 100`) becomes an
//! interface of the router, and a VLAN of the configuration a link of Linux's. Where the kernel has no VLAN devices:
//! `./x test --kernel 6.1 linux_vlans`.

use crate::{PORTS, Pair};
use perigee_tests::{Good, Host, Router, World, run, wait_until};
use std::process::Command;

perigee_tests::scenarios![
    vlan_links_become_interfaces,
    vlans_of_the_configuration_are_links_of_linux,
    a_vlan_link_goes_down_and_comes_up,
    neighbors_of_a_vlan_are_shared,
    the_mtu_of_a_vlan_is_its_links,
    a_service_vlan_is_left_to_linux,
];

/// The server's network, and the same in VLAN 100.
const VLAN: &str = r#"
[port.lan.vlan.100]
addresses = ["10.0.100.1/24", "2001:db8:100::1/64"]
"#;

/// Addresses of the server in VLAN 100.
const THERE: [&str; 2] = ["10.0.100.2", "2001:db8:100::2"];

/// Client and server, and the server's VLAN 100 on the same wire; `None` where the kernel has no VLANs: then the
/// scenario is over.
fn pair_with_vlan(world: &World) -> Option<Pair> {
    if !has_vlans(world) {
        world.unable("this kernel has no VLAN devices");
        return None;
    }
    let pair = Pair::new(world);
    speaks_vlan(&pair.server, "eth0.100", "type vlan id 100");
    Some(pair)
}

fn speaks_vlan(server: &Host, name: &str, kind: &str) {
    server.run(&format!("ip link add link eth0 name {name} {kind}")).good();
    server.run(&format!("ip addr add 10.0.100.2/24 dev {name}")).good();
    server.run(&format!("ip addr add 2001:db8:100::2/64 dev {name} nodad")).good();
    server.run(&format!("ip link set {name} up")).good();
}

/// Whether the kernel knows VLAN devices.
pub fn has_vlans(world: &World) -> bool {
    world.ip("link add vlan-probe type veth peer name vlan-peer");
    let tried = run(Command::new("ip").args("link add link vlan-probe name vlan-probe.2 type vlan id 2".split(' ')));
    world.ip("link del vlan-probe");
    wait_until("the probe to be gone", || !world.ip("-o link show").contains("vlan-p"));
    tried.code == Some(0)
}

/// Waits until Linux itself, behind the twins, reaches an address.
#[track_caller]
fn linux_reaches(address: &str) {
    let ping = || run(Command::new("ping").args(["-n", "-c", "1", "-W", "1", address])).code == Some(0);
    wait_until(&format!("Linux to reach {address}"), ping);
}

/// An interface of the port `lan`, by its name.
fn interface(router: &Router, name: &str) -> Option<serde_json::Value> {
    let port = router.port("lan");
    port["interfaces"].as_array().expect("interfaces").iter().find(|interface| interface["name"] == name).cloned()
}

fn vlan_links_become_interfaces(world: &World) {
    let Some(Pair { client, .. }) = pair_with_vlan(world) else { return };
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
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

fn vlans_of_the_configuration_are_links_of_linux(world: &World) {
    let Some(Pair { client, .. }) = pair_with_vlan(world) else { return };
    let router = world.router("", &format!("{PORTS}\n{VLAN}"));
    let shown = || world.ip("-d addr show dev lan.100");
    for part in ["vlan protocol 802.1Q id 100", "10.0.100.1/24", "2001:db8:100::1/64"] {
        wait_until(&format!("Linux to show {part}"), || shown().contains(part));
    }
    for address in THERE {
        client.reaches(address);
        client.ping(20, address);
        linux_reaches(address);
    }
    // What a routing daemon would do.
    world.ip("route add 10.9.0.0/16 via 10.0.100.2");
    world.ip("-6 route add 2001:db8:9::/48 via 2001:db8:100::2");
    router.leads("10.9.0.0/16", "lan.100");
    router.leads("2001:db8:9::/48", "lan.100");
    router.alone();
    router.audited();
    // A reload changes the link of Linux, too.
    let changed = VLAN.replace("10.0.100.1/24", "10.0.100.3/24");
    world.configuration("", &format!("{PORTS}\n{changed}"));
    router.ask("reload").good();
    wait_until("the new address", || shown().contains("10.0.100.3/24") && !shown().contains("10.0.100.1/24"));
    client.reaches("10.0.100.3");
    router.audited();
    router.stop();
    assert!(!world.ip("-o link show").contains("lan.100"), "it ends with its twin");
}

fn a_vlan_link_goes_down_and_comes_up(world: &World) {
    let Some(Pair { client, .. }) = pair_with_vlan(world) else { return };
    let router = world.router("", &format!("{PORTS}\n{VLAN}"));
    for address in THERE {
        client.reaches(address);
    }
    // The link itself, then the twin below it.
    for (link, also) in [("lan.100", None), ("lan", Some("10.0.2.2"))] {
        world.ip(&format!("link set {link} down"));
        router.loses("10.0.100.0/24");
        for address in THERE.into_iter().chain(also) {
            client.ping_fails(address);
        }
        if also.is_none() {
            client.reaches("10.0.2.2");
            client.ping(20, "10.0.2.2");
        }
        world.ip(&format!("link set {link} up"));
        world.ip("link set lan.100 up");
        // Routing daemons need it.
        wait_until("a link-local address", || world.ip("-6 addr show dev lan.100 scope link").contains("fe80"));
        for address in THERE {
            client.reaches(address);
            client.ping(20, address);
        }
        router.audited();
    }
    router.alone();
    router.stop();
}

fn neighbors_of_a_vlan_are_shared(world: &World) {
    let Some(Pair { client, .. }) = pair_with_vlan(world) else { return };
    let router = world.router("", &format!("{PORTS}\n{VLAN}"));
    for address in THERE {
        client.reaches(address);
        let (_, mac) = router.neighbor(address).expect("perigee has forwarded to it");
        let mac = mac.as_str().expect("a MAC address").to_owned();
        let shown = || world.ip(&format!("neigh show {address} dev lan.100"));
        wait_until("Linux to know the neighbor", || shown().contains(&mac));
    }
    // An address that Linux sets is used without duplicate address detection.
    let fixed = "02:00:00:00:00:77";
    world.ip(&format!("neigh replace 10.0.100.77 lladdr {fixed} dev lan.100"));
    wait_until("the neighbor", || router.neighbor("10.0.100.77").is_some_and(|(_, mac)| mac == fixed));
    world.ip("neigh del 10.0.100.77 dev lan.100");
    wait_until("it to be forgotten", || router.neighbor("10.0.100.77").is_none_or(|(_, mac)| mac != fixed));
    router.alone();
    router.audited();
    router.stop();
}

fn the_mtu_of_a_vlan_is_its_links(world: &World) {
    let Some(Pair { client, .. }) = pair_with_vlan(world) else { return };
    let router = world.router("", &format!("{PORTS}\n{VLAN}"));
    client.reaches("10.0.100.2");
    // A tag is no part of it.
    client.ping(5, "-M do -s 1472 10.0.100.2");
    world.ip("link set lan.100 mtu 1300");
    wait_until("the MTU of the link", || interface(&router, "lan.100").is_some_and(|lan| lan["mtu"] == 1300));
    let text = client.ping_refused("-M do -s 1400 10.0.100.2");
    assert!(text.replace("mtu = ", "mtu=").contains("mtu=1300"), "{text}");
    client.run("ip route flush cache").good();
    client.ping(5, "-M dont -s 1400 10.0.100.2");
    client.ping(5, "-M do -s 1400 10.0.2.2");
    router.alone();
    router.audited();
    router.stop();
}

/// A link for tags of IEEE 802.1ad is not one for tags of 802.1Q with the same number.
fn a_service_vlan_is_left_to_linux(world: &World) {
    let Some(Pair { client, .. }) = pair_with_vlan(world) else { return };
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.ip("link add link lan name lan.s100 type vlan proto 802.1ad id 100");
    world.ip("addr add 10.0.100.1/24 dev lan.s100");
    world.ip("link set lan.s100 up");
    router.says("lan.s100");
    assert_eq!(interface(&router, "lan.s100"), None);
    client.ping_fails("10.0.100.2");
    client.ping(20, "10.0.2.2");
    router.alone();
    router.stop();
}
