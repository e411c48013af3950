// SPDX-License-Identifier: MIT
//! `stack = "linux"`: Linux is the router, on its own interfaces, and the in-kernel plane forwards for it. A plane that
//! persists outlives its router.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, Host, Router, World, run, speakers, wait_until};
use std::process::Command;

perigee_tests::scenarios![
    the_plane_forwards_for_linux as root,
    linux_has_what_the_plane_does_not_finish as root,
    vlans_of_linux_cross_in_the_kernel as root,
    bgp_of_linux_leads_packets_through_the_kernel as root needs BIRDC,
    neighbors_of_linux_are_confirmed_while_only_the_plane_sends_to_them as root,
    an_interface_of_linux_that_was_made_again_is_forwarded_for_again as root,
    rules_of_nftables_are_not_passed_by_unasked as root,
    a_plane_that_persists_outlives_its_router_until_the_next as root,
];

const OWN: &str = "[port.wan]\ninterface = \"r-client\"\n[port.lan]\ninterface = \"r-server\"\n";
const STACK: &str = "stack = \"linux\"";

fn set(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Linux as a router between the hosts, whose interfaces take what is redirected to them.
fn linux(world: &World) -> Pair {
    let pair = Pair::new(world);
    for (host, link, addresses) in [
        (&pair.client, "r-client", ["10.0.1.1/24", "2001:db8:1::1/64"]),
        (&pair.server, "r-server", ["10.0.2.1/24", "2001:db8:2::1/64"]),
    ] {
        host.run("ethtool -K eth0 gro on tx off txvlan off").good();
        // Linux asks for neighbors of IPv6 by a link-local address.
        set(&format!("ipv6/conf/{link}/addr_gen_mode"), "0");
        world.ip(&format!("link set {link} up"));
        addresses.iter().for_each(|address| drop(world.ip(&format!("address add {address} dev {link} nodad"))));
    }
    set("ipv4/ip_forward", "1");
    set("ipv6/conf/all/forwarding", "1");
    pair
}

fn sent_in_kernel(router: &Router, port: &str) -> u64 {
    router.port(port)["plane"]["sent"].as_u64().unwrap_or(0)
}

/// A ping of 20 packets, which the plane sends.
#[track_caller]
fn crosses(router: &Router, from: &Host, address: &str, to: &str) {
    // Until the kernel has said that a port sends what is redirected to it, others send.
    wait_until("a packet to leave in the kernel", || {
        let before = sent_in_kernel(router, to);
        from.reaches(address);
        sent_in_kernel(router, to) > before
    });
    let before = sent_in_kernel(router, to);
    from.ping(20, address);
    assert!(sent_in_kernel(router, to) >= before + 18, "{address}: {}", router.port(to));
}

fn the_plane_forwards_for_linux(world: &World) {
    let Pair { client, server } = linux(world);
    client.reaches("10.0.2.2");
    wait_until("Linux to have looked for duplicates", || !world.ip("address show").contains("tentative"));
    let before = (world.interfaces(), world.ip("address show"), world.ip("route show table all"));
    let router = world.router(STACK, OWN);
    assert_eq!(router.port("wan")["driver"], "xdp-linux");
    for (host, address, to) in
        [(&client, "10.0.2.2", "lan"), (&server, "10.0.1.2", "wan"), (&client, "2001:db8:2::2", "lan")]
    {
        crosses(&router, host, address, to);
    }
    server.run("ip address add 192.0.2.9/32 dev eth0").good();
    client.ping_fails("192.0.2.9");
    world.ip("route add 192.0.2.9/32 via 10.0.2.2");
    crosses(&router, &client, "192.0.2.9", "lan");
    router.audited();
    world.ip("route replace blackhole 192.0.2.9/32");
    wait_until("the route to be a blackhole", || {
        client.run("ping -n -c 1 -W 1 192.0.2.9");
        router.dropped("ipv4_lookup.blackhole") > 0
    });
    world.ip("route del blackhole 192.0.2.9/32");
    // Another address of Linux's own is Linux's.
    world.ip("address add 10.0.2.77/24 dev r-server");
    client.reaches("10.0.2.77");
    world.ip("address del 10.0.2.77/24 dev r-server");
    let filter = "[[filter]]\naction = \"drop\"\nproto = \"icmp\"\n";
    world.configuration(STACK, &format!("{OWN}{filter}"));
    router.ask("reload").good();
    client.ping_fails("10.0.2.2");
    client.ping_fails("10.0.1.1");
    router.counts_at_least("filter.ipv4_denied", 2);
    world.configuration(STACK, &OWN.replace("[port.wan]", "[port.wan]\naddresses = [\"10.9.9.9/24\"]"));
    let said = router.ask("reload");
    assert!(said.code != Some(0) && said.text.contains("`ip address add`"), "{}", said.text);
    router.stop();
    assert_eq!((world.interfaces(), world.ip("address show"), world.ip("route show table all")), before);
    client.reaches("10.0.2.2");
}

fn linux_has_what_the_plane_does_not_finish(world: &World) {
    let Pair { client, server } = linux(world);
    let router = world.router(STACK, OWN);
    crosses(&router, &client, "10.0.2.2", "lan");
    for (address, first, tool) in
        [("10.0.2.2", "10.0.1.1", "traceroute"), ("2001:db8:2::2", "2001:db8:1::1", "traceroute -6")]
    {
        crate::forwarding::crosses_by(&client, tool, first, address);
    }
    // Fragments and options.
    client.ping(5, "-s 4000 10.0.2.2");
    client.ping(3, "-R 10.0.2.2");
    client.ping_refused("198.51.100.1");
    // A capture sees all of them, as Linux gets them while there is one.
    let capture = crate::tap::start(world, &["capture", "wan", "-n", "6", "--filter", "icmp"]);
    let traffic = client.start("ping -n -i 0.05 10.0.2.2");
    let shown = capture.end().good().out;
    assert!(shown.contains("10.0.1.2 > 10.0.2.2") && shown.contains("10.0.2.2 > 10.0.1.2"), "{shown}");
    drop(traffic);
    crosses(&router, &server, "10.0.1.2", "wan");
    router.stop();
}

fn vlans_of_linux_cross_in_the_kernel(world: &World) {
    if !crate::linux_vlans::has_vlans(world) {
        return world.unable("this kernel has no VLAN devices");
    }
    let Pair { client, server } = linux(world);
    server.run("ip link add link eth0 name eth0.100 type vlan id 100").good();
    server.run("ip address add 10.0.100.2/24 dev eth0.100").good();
    server.run("ip link set eth0.100 up").good();
    let router = world.router(STACK, OWN);
    crosses(&router, &client, "10.0.2.2", "lan");
    // Linux gets one later.
    world.ip("link add link r-server name tagged type vlan id 100");
    world.ip("link set tagged up");
    world.ip("address add 10.0.100.1/24 dev tagged");
    crosses(&router, &client, "10.0.100.2", "lan");
    router.audited();
    router.stop();
}

/// Linux has the session and the routes, as it had before the plane was there.
fn bgp_of_linux_leads_packets_through_the_kernel(world: &World) {
    const ROUTES: usize = 2000;
    let Pair { client, server } = linux(world);
    server.run("ip route add local 20.0.0.0/8 dev lo").good();
    server.run("ip route add local 2001:db8:f000::/48 dev lo").good();
    let _bird = world.bird(&speakers::router_bird(&[2]));
    let _speaker = server.bird(&speakers::announcing_bird(2, ROUTES, 100));
    let router = world.router(STACK, OWN);
    for (within, count) in [("20.0.0.0/8", ROUTES as u64), ("2001:db8:f000::/48", 100)] {
        wait_until(&format!("{count} routes in {within}"), || {
            router.show(&format!("routes --limit 1 --within {within}"))["total"] == count
        });
    }
    for address in ["20.0.0.9", "20.7.207.9", "2001:db8:f000::9", "2001:db8:f000:63::9"] {
        crosses(&router, &client, address, "lan");
    }
    router.audited();
    router.stop();
}

/// A neighbor with another MAC address, which it tells nobody: Linux asks it, as it does before it sends itself.
fn neighbors_of_linux_are_confirmed_while_only_the_plane_sends_to_them(world: &World) {
    let Pair { client, server } = linux(world);
    set("ipv4/neigh/r-server/base_reachable_time_ms", "1000");
    set("ipv4/neigh/r-server/delay_first_probe_time", "1");
    let router = world.router(STACK, OWN);
    crosses(&router, &client, "10.0.2.2", "lan");
    server.run("ip link set eth0 address 02:00:00:00:99:01").good();
    let traffic = client.start("ping -n -i 0.05 10.0.2.2");
    wait_until("the neighbor's new address", || {
        router.neighbor("10.0.2.2").is_some_and(|(_, mac)| mac == "02:00:00:00:99:01")
    });
    drop(traffic);
    crosses(&router, &client, "10.0.2.2", "lan");
    router.audited();
    router.stop();
}

fn an_interface_of_linux_that_was_made_again_is_forwarded_for_again(world: &World) {
    let Pair { client, server } = linux(world);
    let router = world.router(STACK, OWN);
    crosses(&router, &client, "10.0.2.2", "lan");
    world.ip("link del r-client");
    wait_until("the port's link to be down", || router.port("wan")["link_up"] == false);
    world.ip("link add r-client type veth peer name eth0 netns client");
    world.ip("link set r-client up");
    world.ip("address add 10.0.1.1/24 dev r-client");
    world.ip("-n client link set eth0 up");
    world.ip("-n client address add 10.0.1.2/24 dev eth0");
    world.ip("-n client route add default via 10.0.1.1");
    client.run("ethtool -K eth0 gro on tx off txvlan off").good();
    client.reaches("10.0.2.2");
    wait_until("packets to leave in the kernel", || {
        let before = [sent_in_kernel(&router, "wan"), sent_in_kernel(&router, "lan")];
        client.ping(2, "10.0.2.2");
        sent_in_kernel(&router, "wan") > before[0] && sent_in_kernel(&router, "lan") > before[1]
    });
    server.reaches("10.0.1.2");
    router.stop();
}

fn rules_of_nftables_are_not_passed_by_unasked(world: &World) {
    let _hosts = linux(world);
    let nft = |words: &str| run(Command::new("nft").arg(words));
    if nft("add table inet t").code != Some(0) {
        return world.unable("the kernel has no nftables");
    }
    nft("add chain inet t out { type filter hook output priority 0; policy drop; }").good();
    nft("add chain inet t quiet { type filter hook forward priority 0; policy accept; }").good();
    world.router(STACK, OWN).stop();
    let policy = "xfrm policy add dir out src 10.9.0.0/24 dst 10.9.1.0/24 action allow";
    if run(Command::new("ip").args(policy.split(' '))).code == Some(0) {
        let said = world.refused(STACK, OWN);
        assert!(said.text.contains("policies of IPsec"), "{}", said.text);
        world.ip("xfrm policy flush");
    }
    nft("add rule inet t quiet tcp dport 23 drop").good();
    let said = world.refused(STACK, OWN);
    assert!(said.text.contains("`inet t quiet`") && said.text.contains("--force"), "{}", said.text);
    assert!(!said.text.contains("t out"), "{}", said.text);
    let router = Router::start_with(&world.configuration(STACK, OWN), &["--force"]);
    router.says("`inet t quiet`");
    router.stop();
}

fn a_plane_that_persists_outlives_its_router_until_the_next(world: &World) {
    run(Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"])).good();
    let left = || {
        // Nothing is there where there is no such folder.
        run(Command::new("find").args(["/sys/fs/bpf/perigee", "-type", "f"])).out.lines().count()
    };
    let Pair { client, server } = linux(world);
    client.reaches("10.0.2.2");
    wait_until("Linux to have looked for duplicates", || !world.ip("address show").contains("tentative"));
    // One whose driver runs no program, where there is such a driver.
    let has_bridges = run(Command::new("ip").args(["link", "add", "bridge", "type", "bridge"])).code == Some(0);
    let own = format!("{OWN}{}", if has_bridges { "[port.bridge]\ninterface = \"bridge\"\n" } else { "" });
    let before = world.interfaces();
    let persists = format!("{STACK}\nplane_persist = true");
    // The router's own stack, whose interfaces are prepared and stay so, needs addresses that Linux has not.
    let own_stack = "plane = \"xdp\"\nplane_persist = true";
    for (router, ports) in [(persists.as_str(), own.as_str()), (own_stack, PORTS)] {
        let programs = ports.matches("[port.").count();
        if ports == PORTS {
            ["r-client", "r-server"].iter().for_each(|link| drop(world.ip(&format!("address flush dev {link}"))));
        }
        let first = world.router(router, ports);
        crosses(&first, &client, "10.0.2.2", "lan");
        if ports == PORTS {
            // Nobody answers what a host asks about its router meanwhile: on a slow machine it would forget that.
            for (host, address, port) in [(&client, "10.0.1.1", "wan"), (&server, "10.0.2.1", "lan")] {
                let known = format!("ip neighbor replace {address} lladdr {} nud permanent dev eth0", first.mac(port));
                host.run(&known).good();
            }
        }
        let pings = client.start_ping(2000, "10.0.2.2");
        first.kill();
        server.ping(20, "10.0.1.2");
        assert_eq!(left(), programs, "a program at each port");
        // A start that fails changes nothing of that.
        let said = world.refused(router, &format!("{ports}\n[port.none]\ninterface = \"none\"\n"));
        assert!(said.text.contains("none"), "{}", said.text);
        assert_eq!(left(), programs, "a program at each port, and no other");
        server.ping(20, "10.0.1.2");
        let second = world.router(router, ports);
        for port in ["wan", "lan"] {
            second.says(&format!("port {port}: the in-kernel plane takes over from that of the router before"));
        }
        // What waits for a neighbor that the second one asks for is passed by others.
        let ended = pings.end().good();
        let answered = ended.out.lines().filter(|line| line.contains(" bytes from ")).count() as u64;
        assert_eq!((answered, ended.pings_sent() >= 2000), (ended.pings_sent(), true), "{}", ended.text);
        crosses(&second, &client, "10.0.2.2", "lan");
        second.stop();
        assert_eq!(left(), 0);
        assert!(!world.ip("-details link show").contains("xdp"), "nothing is left attached");
    }
    // One that does not persist takes over as well, and is the last.
    let first = world.router(own_stack, PORTS);
    crosses(&first, &client, "10.0.2.2", "lan");
    first.kill();
    let second = world.router("plane = \"xdp\"", PORTS);
    second.says("port lan: the in-kernel plane takes over from that of the router before");
    second.kill();
    wait_until("the program to be gone", || !world.ip("-details link show").contains("xdp"));
    for (link, addresses) in
        [("r-client", ["10.0.1.1/24", "2001:db8:1::1/64"]), ("r-server", ["10.0.2.1/24", "2001:db8:2::1/64"])]
    {
        addresses.iter().for_each(|address| drop(world.ip(&format!("address add {address} dev {link} nodad"))));
    }
    wait_until("Linux to be as it was", || world.interfaces() == before);
    client.reaches("10.0.2.2");
    // Without a BPF file system it is said. There may be one below this one.
    while run(Command::new("umount").arg("/sys/fs/bpf")).code == Some(0) {}
    let said = world.refused(&persists, OWN);
    assert!(said.text.contains("mount -t bpf"), "{}", said.text);
}
