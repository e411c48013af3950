// SPDX-License-Identifier: MIT
//! Neighbors that an operator changes in Linux, in any state, whoever had found them; and those that Linux answers for.

use crate::{PORTS, Pair};
use perigee_tests::{Good, Router, World, frame, wait_until};

perigee_tests::scenarios![
    what_is_changed_by_hand_holds,
    neighbors_of_groups_are_named,
    proxies_of_linux_are_answered_for,
    proxy_arp_is_a_switch,
];

fn known(router: &Router, address: &str, mac: &str) {
    wait_until(&format!("{address} to be {mac}"), || router.neighbor(address).is_some_and(|(_, known)| known == mac));
}

/// `ip neigh replace` of a neighbor that the router had found was taken for the router's own entry, and ignored.
fn what_is_changed_by_hand_holds(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let wire = world.wire("w-dmz");
    let dmz = "[port.dmz]\ninterface = \"w-dmz\"\naddresses = [\"10.0.3.1/24\", \"2001:db8:3::1/64\"]\n";
    let router = world.router("", &format!("{PORTS}\n{dmz}"));
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    for (address, twin) in
        [("10.0.2.2", "lan"), ("2001:db8:2::2", "lan"), ("10.0.3.9", "dmz"), ("2001:db8:3::9", "dmz")]
    {
        let found = router.neighbor(address).and_then(|(_, mac)| mac.as_str().map(str::to_owned));
        if let Some(mac) = &found {
            wait_until("Linux to know it", || world.ip(&format!("neigh show {address} dev {twin}")).contains(mac));
        }
        for (last, state) in
            [("01", "reachable"), ("02", "permanent"), ("03", "reachable"), ("04", "noarp"), ("05", "stale")]
        {
            let mac = format!("02:00:00:00:77:{last}");
            world.ip(&format!("neigh replace {address} lladdr {mac} dev {twin} nud {state}"));
            known(&router, address, &mac);
        }
        // Once it is not static, the router finds it again.
        world.ip(&format!("neigh del {address} dev {twin}"));
        wait_until("it to be forgotten", || router.neighbor(address).is_none_or(|(_, mac)| mac != "02:00:00:00:77:05"));
        if let Some(mac) = found {
            client.reaches(address);
            known(&router, address, &mac);
        }
    }
    // Packets go there.
    world.ip("neigh replace 10.0.3.9 lladdr 02:00:00:00:77:09 dev dmz nud reachable");
    known(&router, "10.0.3.9", "02:00:00:00:77:09");
    let _ping = client.start_ping(3, "10.0.3.9");
    let seen = wire.expect("a ping", |bytes| {
        frame::ip4(bytes).is_some_and(|packet| packet.destination().to_string() == "10.0.3.9")
    });
    assert_eq!(seen[..6], [2, 0, 0, 0, 0x77, 9]);
    // Said to have failed: forgotten.
    world.ip("neigh replace 10.0.3.9 dev dmz nud failed");
    wait_until("it to be forgotten", || router.neighbor("10.0.3.9").is_none_or(|(_, mac)| mac != "02:00:00:00:77:09"));
    router.audited();
    router.stop();
}

/// Linux sends to them; the router said nothing.
fn neighbors_of_groups_are_named(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    world.ip("neigh add 10.0.2.77 lladdr 03:bf:0a:00:02:4d dev lan nud permanent");
    world.ip("neigh add 10.0.2.78 lladdr ff:ff:ff:ff:ff:ff dev lan nud permanent");
    router.says("10.0.2.77 by 03:bf:0a:00:02:4d");
    wait_until("both to be counted", || router.show("linux")["group_neighbors"] == 2);
    world.ip("neigh flush dev lan nud permanent");
    wait_until("none", || router.show("linux")["group_neighbors"] == 0);
    router.stop();
}

/// `ip neigh add proxy` was left out in silence.
fn proxies_of_linux_are_answered_for(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    for (address, family) in [("10.0.1.77/32", "-4"), ("2001:db8:1::77/128", "-6")] {
        server.run(&format!("ip addr add {address} dev lo")).good();
        let gateway = if family == "-4" { "10.0.2.2" } else { "2001:db8:2::2" };
        world.ip(&format!("{family} route add {address} via {gateway}"));
        router.leads(address, "lan");
    }
    for address in ["10.0.1.77", "2001:db8:1::77"] {
        client.ping_fails(address);
        world.ip(&format!("neigh add proxy {address} dev wan"));
    }
    client.reaches("10.0.1.77");
    wait_until("one address to be answered for", || router.show("linux")["proxied"] == 1);
    client.ping_fails("2001:db8:1::77");
    // IPv6 asks for the switch as well.
    sysctl("net/ipv6/conf/wan/proxy_ndp", "1");
    client.reaches("2001:db8:1::77");
    for address in ["10.0.1.77", "2001:db8:1::77"] {
        client.ping(20, address);
        world.ip(&format!("neigh del proxy {address} dev wan"));
    }
    wait_until("none to be answered for", || router.show("linux")["proxied"] == 0);
    client.run("ip neigh flush all").good();
    for address in ["10.0.1.77", "2001:db8:1::77"] {
        client.ping_fails(address);
    }
    router.alone();
    router.audited();
    router.stop();
}

fn proxy_arp_is_a_switch(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    // A host that believes everything to be on its link.
    client.run("ip route replace 10.0.2.0/24 dev eth0").good();
    client.ping_fails("10.0.2.2");
    sysctl("net/ipv4/conf/wan/proxy_arp", "1");
    client.reaches("10.0.2.2");
    client.ping(20, "10.0.2.2");
    sysctl("net/ipv4/conf/wan/proxy_arp", "0");
    wait_until("ARP to be the router's own alone", || {
        client.run("ip neigh flush all").good();
        client.run("ping -n -c 1 -W 1 10.0.2.2").code != Some(0)
    });
    router.alone();
    router.stop();
}

fn sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/{name}"), value).expect("a setting of a twin's");
}
