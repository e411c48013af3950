// SPDX-License-Identifier: MIT
//! The in-kernel plane: packets cross without a worker, by the same tables, and workers get the rest.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, World, run, wait_until};
use std::process::Command;

perigee_tests::scenarios![
    packets_cross_in_the_kernel as root,
    a_port_in_the_kernel_and_one_by_packet_sockets as root,
    filters_hold_in_the_kernel as root,
    routes_and_neighbors_are_followed_in_the_kernel as root,
    no_packet_in_the_kernel_is_lost_by_reloads as root,
    an_interface_that_was_made_again_is_forwarded_for_again as root,
    what_a_port_would_lose_silently_is_sent_by_workers as root,
    what_cannot_have_the_plane_is_refused_in_a_sentence_and_left_as_it_was as root,
];

/// Hosts whose interfaces take what the kernel redirects to them: a veth needs NAPI for it, which GRO switches on.
fn hosts(world: &World) -> Pair {
    let pair = Pair::new(world);
    for host in [&pair.client, &pair.server] {
        host.run("ethtool -K eth0 gro on tx off txvlan off").good();
    }
    pair
}

fn in_kernel(ports: &str) -> String {
    ports.replace("addresses", "plane = \"xdp\"\naddresses")
}

fn packets_cross_in_the_kernel(world: &World) {
    let Pair { client, server } = hosts(world);
    let before = world.interfaces();
    let router = world.router("", &in_kernel(PORTS));
    assert_eq!((&router.port("wan")["driver"], &router.port("lan")["driver"]), (&"xdp".into(), &"xdp".into()));
    for (host, address, to) in
        [(&client, "10.0.2.2", "lan"), (&server, "10.0.1.2", "wan"), (&client, "2001:db8:2::2", "lan")]
    {
        host.reaches(address);
        let sent = || router.port(to)["counters"]["transmit_packets"].as_u64().unwrap_or(0);
        let (sent_before, by_workers) = (sent(), router.workers("transmitted"));
        host.ping(20, address);
        assert!(sent() >= sent_before + 20, "{address}");
        // Of 40 packets one or two may have been shown to the slow path, or a neighbor was asked for.
        assert!(router.workers("transmitted") < by_workers + 10, "{address}: workers have forwarded them");
        host.ping(5, &format!("-s 4000 {address}"));
    }
    for (address, first, tool) in
        [("10.0.2.2", "10.0.1.1", "traceroute"), ("2001:db8:2::2", "2001:db8:1::1", "traceroute -6")]
    {
        crate::forwarding::crosses_by(&client, tool, first, address);
    }
    // A capture sees packets that the kernel would have finished.
    let capture = crate::tap::start(world, &["capture", "wan", "-n", "10", "--filter", "icmp"]);
    let traffic = client.start("ping -n -i 0.05 10.0.2.2");
    let shown = capture.end().good().out;
    assert!(shown.contains("10.0.1.2 > 10.0.2.2"), "{shown}");
    drop(traffic);
    let modules = router.show("modules");
    let packets = |name: &str| {
        let list = modules.as_array().expect("a list");
        list.iter().find(|module| module["module"] == name).and_then(|module| module["packets"].as_u64()).unwrap_or(0)
    };
    assert!(packets("ipv4_lookup") >= 80 && packets("ttl") >= 80 && packets("hop_limit") >= 40, "{modules}");
    router.alone();
    router.stop();
    assert_eq!(world.interfaces(), before);
    for link in ["r-client", "r-server"] {
        assert!(!world.ip(&format!("-details link show {link}")).contains("xdp"), "{link}");
    }
    let router = world.router("", &in_kernel(PORTS));
    client.reaches("10.0.2.2");
    router.kill();
    wait_until("the program to be gone", || !world.ip("-details link show r-client").contains("xdp"));
}

fn a_port_in_the_kernel_and_one_by_packet_sockets(world: &World) {
    let Pair { client, server } = hosts(world);
    let (wan, lan) = PORTS.split_at(PORTS.find("[port.lan]").expect("two ports"));
    let router = world.router("", &(in_kernel(wan) + lan));
    for (host, address) in [(&client, "10.0.2.2"), (&server, "10.0.1.2"), (&client, "2001:db8:2::2")] {
        host.reaches(address);
        let before = router.workers("transmitted");
        host.ping(20, address);
        router.transmits(before + 40);
    }
    router.alone();
    router.stop();
}

fn filters_hold_in_the_kernel(world: &World) {
    let Pair { client, server } = hosts(world);
    let rules = "[[filter]]\naction = \"drop\"\nproto = \"udp\"\ndport = 53\n\
        [[filter]]\naction = \"drop\"\nproto = \"icmp\"\nsrc = \"10.0.1.0/24\"\ndst = \"10.0.2.2/32\"\n";
    let router = world.router("", &(in_kernel(PORTS) + rules));
    client.reaches("2001:db8:2::2");
    server.reaches("10.0.1.1");
    let in_kernel = || router.port("wan")["plane"]["finished"].as_u64().unwrap_or(0);
    let before = in_kernel();
    client.ping_fails("10.0.2.2");
    assert!(router.counts_at_least("filter.ipv4_denied", 1) > 0);
    // A neighbor that is asked for meanwhile is the workers'.
    let denied = router.dropped("filter.ipv4_denied");
    assert!(in_kernel() >= before + denied, "workers have dropped some of {denied}");
    let filters = router.show("filters");
    assert_eq!((filters[0]["hits"].as_u64(), filters[1]["hits"].as_u64() > Some(0)), (Some(0), true), "{filters}");
    router.alone();
    router.stop();
}

fn routes_and_neighbors_are_followed_in_the_kernel(world: &World) {
    let Pair { client, server } = hosts(world);
    let router = world.router("", &in_kernel(PORTS));
    client.reaches("10.0.2.2");
    server.run("ip address add 192.0.2.9/32 dev eth0").good();
    client.ping_refused("192.0.2.9");
    world.ip("route add 192.0.2.9/32 via 10.0.2.2 dev lan");
    client.reaches("192.0.2.9");
    let by_workers = router.workers("transmitted");
    client.ping(20, "192.0.2.9");
    assert!(router.workers("transmitted") < by_workers + 10, "workers have forwarded them");
    world.ip("route replace blackhole 192.0.2.9/32");
    wait_until("the route to be a blackhole", || {
        client.run("ping -n -c 1 -W 1 192.0.2.9");
        router.dropped("ipv4_lookup.blackhole") > 0
    });
    let audit = router.ask("audit").good().out;
    assert!(audit.contains("no difference") && audit.contains("the in-kernel plane reads the same tables"), "{audit}");
    // Another MAC address, which the router learns from the neighbor itself.
    server.run("ip link set eth0 address 02:00:00:00:99:01").good();
    client.reaches("10.0.2.2");
    let by_workers = router.workers("transmitted");
    client.ping(20, "10.0.2.2");
    assert!(router.workers("transmitted") < by_workers + 10, "workers have forwarded them");
    router.alone();
    router.stop();
}

fn no_packet_in_the_kernel_is_lost_by_reloads(world: &World) {
    let Pair { client, .. } = hosts(world);
    let ports = in_kernel(PORTS);
    let router = world.router("fib = \"dirb\"", &ports);
    client.reaches("10.0.2.2");
    let before = router.port("lan")["plane"]["sent"].as_u64().unwrap_or(0);
    let pings = client.start_ping(600, "10.0.2.2");
    // Filters, routes and lookup structures are others each time.
    for round in 0..8 {
        let rest = "[[filter]]\naction = \"drop\"\nproto = \"udp\"\n[[route]]\nprefix = \"192.0.2.0/24\"\nvia = \"10.0.2.9\"\n";
        let (fib, rest) = if round % 2 == 0 { ("bm19", rest) } else { ("dirb", "") };
        world.configuration(&format!("fib = \"{fib}\""), &format!("{ports}{rest}"));
        // Tables of earlier ones have their memory until the kernel is done with them.
        wait_until("the reload to be taken", || {
            let ended = router.ask("reload");
            assert!(ended.code == Some(0) || ended.text.contains("not enough memory"), "{}", ended.text);
            ended.code == Some(0)
        });
    }
    pings.end().every_reply(600);
    assert!(router.port("lan")["plane"]["sent"].as_u64() >= Some(before + 500), "{}", router.port("lan"));
    router.alone();
    router.stop();
}

fn an_interface_that_was_made_again_is_forwarded_for_again(world: &World) {
    let Pair { client, server } = hosts(world);
    let router = world.router("", &in_kernel(PORTS));
    client.reaches("10.0.2.2");
    world.ip("link del r-client");
    wait_until("the port's link to be down", || router.port("wan")["link_up"] == false);
    world.ip("link add r-client type veth peer name eth0 netns client");
    world.ip("link set r-client up");
    world.ip("-n client link set eth0 up");
    world.ip("-n client address add 10.0.1.2/24 dev eth0");
    world.ip("-n client route add default via 10.0.1.1");
    client.run("ethtool -K eth0 gro on tx off txvlan off").good();
    client.reaches("10.0.2.2");
    server.reaches("10.0.1.2");
    // Until the router has seen that the other end takes what is redirected, workers send.
    let in_kernel = || router.port("wan")["plane"]["sent"].as_u64().unwrap_or(0);
    let before = in_kernel();
    wait_until("packets to leave in the kernel", || {
        client.ping(1, "10.0.2.2");
        in_kernel() > before
    });
    let before = router.workers("transmitted");
    client.ping(20, "10.0.2.2");
    assert!(router.workers("transmitted") < before + 10, "workers have forwarded them");
    router.stop();
}

fn what_a_port_would_lose_silently_is_sent_by_workers(world: &World) {
    let Pair { client, server } = Pair::new(world);
    for host in [&client, &server] {
        host.run("ethtool -K eth0 gro off tx off txvlan off").good();
    }
    let router = world.router("", &in_kernel(PORTS));
    // Kernels before 6.3 say nothing of it: there the counters of packets that are lost do.
    wait_until("both ports to be left to workers", || {
        client.run("ping -n -c 10 -i 0.05 -w 2 10.0.2.2");
        router.log().matches("`ethtool -K PEER gro on`").count() >= 2
    });
    client.reaches("10.0.2.2");
    let before = router.workers("transmitted");
    client.ping(20, "10.0.2.2");
    router.transmits(before + 40);
    if router.log().contains("do not leave it") {
        return drop(router.stop());
    }
    server.run("ethtool -K eth0 gro on").good();
    router.says("port lan: the in-kernel plane sends by it");
    // The way back is the workers' still. ping may send more than are wanted.
    let sent = || (router.workers("transmitted"), router.port("lan")["plane"]["sent"].as_u64().unwrap_or(0));
    let before = sent();
    client.ping(20, "10.0.2.2");
    let (by_workers, in_kernel) = (sent().0 - before.0, sent().1 - before.1);
    assert!(in_kernel >= 20 && (15..in_kernel + 10).contains(&by_workers), "{by_workers} by workers, {in_kernel} not");
    router.stop();
}

fn what_cannot_have_the_plane_is_refused_in_a_sentence_and_left_as_it_was(world: &World) {
    let _hosts = hosts(world);
    let ports = in_kernel(PORTS);
    let refused = |ports: &str, sentence: &str| {
        let said = world.refused("", ports);
        assert!(said.text.contains(sentence) && !said.text.contains("libbpf"), "{sentence}: {}", said.text);
    };
    // A VLAN goes up only above what is up. Linux of some machines has no such devices.
    world.ip("link set r-client up");
    let before = world.interfaces();
    for (kind, sentence) in [
        ("link r-client name above type vlan id 7", "is a VLAN of another interface"),
        ("name above type bond", "consists of other interfaces"),
    ] {
        let mut add = Command::new("ip");
        if run(add.args(["link", "add"]).args(kind.split(' '))).code == Some(0) {
            refused(&ports.replace("\"r-client\"", "\"above\""), sentence);
            world.ip("link del above");
        }
    }
    refused(&ports.replace("addresses", "mtu = 9000\naddresses"), "AF_XDP takes up to 3818");
    // Another program is never replaced.
    let object = concat!(env!("CARGO_MANIFEST_DIR"), "/../lib/socket/bpf/frames.o");
    world.ip(&format!("link set r-server xdp obj {object} sec xdp"));
    refused(&ports, "another program uses XDP there");
    let links = world.ip("-details link show");
    assert_eq!(links.matches("prog/xdp").count(), 1, "{links}");
    world.ip("link set r-server xdp off");
    assert_eq!(world.interfaces(), before);
}
