// SPDX-License-Identifier: MIT
//! A port's link goes down without any daemon: what was routed over it takes the next best route, the other members of
//! its group, a shorter prefix, or is unreachable; and comes back.
//!
//! ```text
//!                ┌── one ─── one: 20.0.0.1, 2001:db8:20::1
//! client ─── wan [perigee]
//!                └── two ─── two: 20.0.0.1, 2001:db8:20::1
//! ```

use perigee_net::MacAddr;
use perigee_tests::{Good, Host, LONG_WAIT, Router, Wire, World, frame, wait_for, wait_until, wait_until_for};
use serde_json::Value;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

perigee_tests::scenarios![
    a_floating_route_takes_over_while_the_link_is_down,
    a_group_of_two_goes_on_with_one,
    a_connected_network_is_unreachable_and_its_address_is_not,
    routes_over_vlans_leave_with_their_port,
    routes_of_linux_are_out_of_use_while_the_link_is_down,
    traffic_leaves_a_link_that_is_cut,
];

const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64"]
[port.one]
interface = "r-one"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64"]
[port.two]
interface = "r-two"
addresses = ["10.0.3.1/24", "2001:db8:3::1/64"]
"#;
const NETWORKS: [&str; 2] = ["20.0.0.0/24", "2001:db8:20::/48"];
const FAR: [&str; 2] = ["20.0.0.1", "2001:db8:20::1"];

/// The client, and two hosts that both have the far addresses.
struct Hosts {
    client: Host,
    one: Host,
    two: Host,
}

impl Hosts {
    fn new(world: &World) -> Hosts {
        let host = |name, net: u8| {
            let addresses = [format!("10.0.{net}.2/24"), format!("2001:db8:{net}::2/64")];
            let gateways = [format!("10.0.{net}.1"), format!("2001:db8:{net}::1")];
            world.host(name, &addresses.each_ref().map(String::as_str), &gateways.each_ref().map(String::as_str))
        };
        let hosts = Hosts { client: host("client", 1), one: host("one", 2), two: host("two", 3) };
        for far in [&hosts.one, &hosts.two] {
            far.run("ip addr add 20.0.0.1/32 dev lo").good();
            far.run("ip addr add 2001:db8:20::1/128 dev lo nodad").good();
        }
        hosts
    }

    fn reach(&self) {
        FAR.iter().for_each(|address| self.client.reaches(address));
    }
}

/// Cuts the cable of a port, or mends it, and waits until the router has seen it.
fn set_link(world: &World, router: &Router, port: &str, up: bool) {
    world.ip(&format!("link set r-{port} {}", if up { "up" } else { "down" }));
    wait_until("the router to see it", || router.port(port)["link_up"] == up);
}

/// The routes to a prefix that are out of use because of a link: their interfaces.
fn out_of_use(router: &Router, prefix: &str) -> Vec<Value> {
    router.routes(prefix).into_iter().filter(|route| route["down"] == true).map(|route| route["dev"].clone()).collect()
}

fn a_floating_route_takes_over_while_the_link_is_down(world: &World) {
    let hosts = Hosts::new(world);
    let mut routes = String::new();
    for (prefix, [near, far]) in NETWORKS.iter().zip([["10.0.2.2", "10.0.3.2"], ["2001:db8:2::2", "2001:db8:3::2"]]) {
        routes += &format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"{near}\"\n");
        routes += &format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"{far}\"\npreference = 200\n");
    }
    let router = world.router("", &format!("{PORTS}{routes}"));
    // The same by the API, by metric, over a gateway that the route above carries.
    router.ask("route add 30.0.0.0/24 recursive 20.0.0.1").good();
    let leads = |port: &str| ["30.0.0.0/24"].iter().chain(&NETWORKS).for_each(|prefix| router.leads(prefix, port));
    leads("one");
    hosts.reach();

    set_link(world, &router, "one", false);
    leads("two");
    NETWORKS.iter().for_each(|prefix| assert_eq!(out_of_use(&router, prefix), ["one"]));
    hosts.reach();
    let shown = router.ask("show routes").good().out;
    assert!(shown.contains("link down"), "{shown}");
    router.audited();

    set_link(world, &router, "two", false);
    NETWORKS.iter().for_each(|prefix| router.loses(prefix));
    hosts.client.ping_refused("20.0.0.1");
    set_link(world, &router, "one", true);
    leads("one");
    NETWORKS.iter().for_each(|prefix| assert_eq!(out_of_use(&router, prefix), ["two"]));
    hosts.reach();
    set_link(world, &router, "two", true);
    NETWORKS.iter().for_each(|prefix| assert_eq!(out_of_use(&router, prefix), [""; 0]));
    leads("one");

    // Its twin set down is the same to static routes.
    world.ip("link set one down");
    leads("two");
    hosts.reach();
    world.ip("link set one up");
    leads("one");
    hosts.reach();
    router.audited();
    router.alone();
    router.stop();
}

fn a_group_of_two_goes_on_with_one(world: &World) {
    let hosts = Hosts::new(world);
    let router = world.router("", PORTS);
    router.ask("route add 20.0.0.0/24 via 10.0.2.2 via 10.0.3.2").good();
    router.ask("route add 2001:db8:20::/48 via 2001:db8:2::2 via 2001:db8:3::2").good();
    hosts.reach();
    let shares = || {
        let hops = router.show("nexthops");
        let groups = hops.as_array().expect("a list").iter().filter(|hop| hop["kind"] == "group").cloned();
        let share = |member: &Value| member["share"].as_f64().expect("a share");
        groups
            .map(|group| group["members"].as_array().expect("members").iter().map(share).fold(0.0, f64::max))
            .collect::<Vec<_>>()
    };
    wait_until("all gateways to be known", || shares() == [0.5, 0.5]);
    for port in ["one", "two"] {
        set_link(world, &router, port, false);
        assert_eq!(shares(), [1.0, 1.0], "all flows have what is left");
        for prefix in NETWORKS {
            let route = router.route(prefix).expect("a route");
            let down: Vec<_> =
                route["gateways"].as_array().expect("several").iter().map(|g| g["down"] == true).collect();
            assert_eq!(down, [port == "one", port == "two"], "{route}");
        }
        hosts.reach();
        set_link(world, &router, port, true);
        wait_until("both to have their flows again", || shares() == [0.5, 0.5]);
    }
    for port in ["one", "two"] {
        set_link(world, &router, port, false);
    }
    NETWORKS.iter().for_each(|prefix| router.loses(prefix));
    hosts.client.ping_refused("20.0.0.1");
    hosts.client.ping_refused("2001:db8:20::1");
    router.alone();
    router.stop();
}

fn a_connected_network_is_unreachable_and_its_address_is_not(world: &World) {
    let hosts = Hosts::new(world);
    let router = world.router("", PORTS);
    let client = &hosts.client;
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    set_link(world, &router, "one", false);
    for prefix in ["10.0.2.0/24", "2001:db8:2::/64"] {
        router.loses(prefix);
        // Linux's: the router has none of its own beside it.
        assert_eq!(out_of_use(&router, prefix), ["one"]);
    }
    client.ping_refused("10.0.2.2");
    client.ping_refused("2001:db8:2::2");
    client.reaches("10.0.2.1");
    // A shorter prefix takes over.
    router.ask("route add 10.0.0.0/16 via 10.0.3.2").good();
    router.ask("route add 2001:db8::/32 via 2001:db8:3::2").good();
    hosts.two.run("ip addr add 10.0.2.9/32 dev lo").good();
    hosts.two.run("ip addr add 2001:db8:2::9/128 dev lo nodad").good();
    client.reaches("10.0.2.9");
    client.reaches("2001:db8:2::9");
    set_link(world, &router, "one", true);
    for prefix in ["10.0.2.0/24", "2001:db8:2::/64"] {
        router.leads(prefix, "one");
    }
    client.reaches("10.0.2.2");
    client.reaches("2001:db8:2::2");
    router.audited();
    router.alone();
    router.stop();
}

/// The next UDP packet for an address that leaves by a wire, whose requests for neighbors are answered meanwhile.
fn leaves_by(wire: &Wire, address: &str, vid: Option<u16>) {
    let arrives = || {
        let frame = wire.next()?;
        if frame::arp(&frame).is_some() {
            wire.send(&frame::arp_reply(&frame));
        }
        (frame::is_udp_to(&frame, address) && frame::vid(&frame) == vid).then_some(())
    };
    wait_for(&format!("a packet for {address} with the tag {vid:?}"), arrives);
}

fn routes_over_vlans_leave_with_their_port(world: &World) {
    let (wan, trunk, spare) = (world.wire("r-wan"), world.wire("r-trunk"), world.wire("r-spare"));
    let configuration = r#"
[port.wan]
interface = "r-wan"
addresses = ["10.0.1.1/24"]
[port.trunk]
interface = "r-trunk"
[port.trunk.vlan.7]
addresses = ["10.0.7.1/24"]
[port.spare]
interface = "r-spare"
addresses = ["10.0.8.1/24"]
[[route]]
prefix = "20.0.0.0/24"
via = "10.0.7.2"
[[route]]
prefix = "20.0.0.0/24"
via = "10.0.8.2"
metric = 10
"#;
    let router = world.router("", configuration);
    let send = || wan.send(&frame::udp4(router.mac("wan"), "10.0.1.2", "20.0.0.1", 20));
    let by = |wire: &Wire, dev: &str, vid| {
        router.leads("20.0.0.0/24", dev);
        send();
        leaves_by(wire, "20.0.0.1", vid);
    };
    by(&trunk, "trunk.7", Some(7));
    set_link(world, &router, "trunk", false);
    by(&spare, "spare", None);
    assert_eq!(out_of_use(&router, "20.0.0.0/24"), ["trunk.7"]);
    set_link(world, &router, "trunk", true);
    by(&trunk, "trunk.7", Some(7));
    router.stop();
}

/// Linux keeps its IPv4 routes over a link without a carrier, and would send into it. The router does not, and
/// remembers them: the audit finds the same routes in both.
fn routes_of_linux_are_out_of_use_while_the_link_is_down(world: &World) {
    let hosts = Hosts::new(world);
    let router = world.router("", PORTS);
    world.ip("route add 20.0.0.0/24 via 10.0.2.2 metric 10");
    world.ip("route add 20.0.0.0/24 via 10.0.3.2 metric 20");
    world.ip("-6 route add 2001:db8:20::/48 via 2001:db8:2::2 metric 10");
    world.ip("-6 route add 2001:db8:20::/48 via 2001:db8:3::2 metric 20");
    let leads = |port| NETWORKS.iter().for_each(|prefix| router.leads(prefix, port));
    leads("one");
    hosts.reach();
    set_link(world, &router, "one", false);
    leads("two");
    hosts.reach();
    wait_until("Linux to see it", || world.ip("-o link show dev one").contains("NO-CARRIER"));
    router.audited();
    for prefix in NETWORKS {
        assert_eq!(router.routes(prefix).len(), 2, "it stays in the RIB, as Linux has it");
    }
    set_link(world, &router, "one", true);
    leads("one");
    hosts.reach();
    router.audited();
    router.alone();
    router.stop();
}

/// Packets of one flow, a fifth of a millisecond apart, from the first port to a far address that two hosts have.
struct Stream<'w> {
    wan: &'w Wire,
    frame: Vec<u8>,
    mac: MacAddr,
    to: String,
    sockets: [UdpSocket; 2],
}

/// What became of the packets while a link was cut.
#[derive(Debug)]
struct Outage {
    lost: usize,
    /// From the last packet by the one way to the first by the other.
    gap: Duration,
}

impl Stream<'_> {
    const PAUSE: Duration = Duration::from_micros(200);

    fn new<'w>(wan: &'w Wire, router: &Router, hosts: [&Host; 2], address: &str) -> Stream<'w> {
        let socket = |host: &Host| {
            host.run(&format!("ip addr add {address}/32 dev lo")).good();
            // The host has no route back to the sender, so reverse-path filtering would drop the packets.
            host.set("ipv4/conf/all/rp_filter", "0");
            host.set("ipv4/conf/eth0/rp_filter", "0");
            let socket = host.inside(|| UdpSocket::bind((address, 2000)).expect("a socket"));
            socket.set_nonblocking(true).expect("a socket that does not wait");
            socket
        };
        let (frame, mac) = (Vec::new(), router.mac("wan"));
        Stream { wan, frame, mac, to: address.to_owned(), sockets: hosts.map(socket) }
    }

    /// Looks for a flow that goes by the first way.
    fn choose(&mut self) {
        for port in 3000.. {
            self.frame = frame::udp4_ports(self.mac, "10.0.1.2", &self.to, (port, 2000), 20);
            if self.probe()[0] > 0 {
                return;
            }
        }
    }

    /// Sends a packet; the way that it came by.
    fn probe(&self) -> [usize; 2] {
        self.wan.send(&self.frame);
        let mut heard = [0; 2];
        wait_until_for(LONG_WAIT, "the packet", || {
            heard = self.hear();
            heard != [0; 2]
        });
        heard
    }

    fn hear(&self) -> [usize; 2] {
        self.sockets.each_ref().map(|socket| std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count())
    }

    /// Sends until enough packets have come by the way `to` after `change`, which happens in another thread after a
    /// while.
    fn during(&self, from: usize, to: usize, change: impl FnOnce() + Send) -> Outage {
        const BEFORE: usize = 500;
        const AFTER: usize = 500;
        let (mut sent, mut heard, mut last, mut first) = (0usize, [0; 2], Instant::now(), None);
        let (begun, done) = (&AtomicBool::new(false), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                wait_until("packets by the way that there is", || begun.load(Ordering::Relaxed));
                change();
                done.store(true, Ordering::Relaxed);
            });
            let mut due = Instant::now();
            wait_until_for(LONG_WAIT, "packets by the other way", || {
                for _ in 0..100 {
                    while Instant::now() < due {
                        std::hint::spin_loop();
                    }
                    due = Instant::now() + Self::PAUSE;
                    self.wan.send(&self.frame);
                    sent += 1;
                    let new = self.hear();
                    heard = [heard[0] + new[from], heard[1] + new[to]];
                    if new[from] > 0 {
                        last = Instant::now();
                    }
                    if new[to] > 0 {
                        first.get_or_insert_with(Instant::now);
                    }
                    begun.store(heard[0] >= BEFORE, Ordering::Relaxed);
                }
                heard[1] >= AFTER && done.load(Ordering::Relaxed)
            });
        });
        // Those that are still on their way: none comes any more when two in a row have found none.
        let mut quiet = 0;
        wait_until("what is under way", || {
            let more: usize = self.hear().iter().sum();
            heard[1] += more;
            quiet = if more == 0 { quiet + 1 } else { 0 };
            quiet > 2
        });
        let gap = first.map_or(Duration::ZERO, |first| first.saturating_duration_since(last));
        // One that was late before may be among them, on a busy machine.
        Outage { lost: sent.saturating_sub(heard[0] + heard[1]), gap }
    }
}

/// The lines of a file of routes about a prefix.
type Lines<'f> = &'f dyn Fn(String) -> String;

/// So many prefixes of length 24 all over the address space, and not the last one.
fn spread_out(count: u32) -> impl Iterator<Item = Ipv4Addr> {
    // An odd factor is a permutation of the numbers of 24 bits.
    let nets =
        (0..1 << 24).map(|n: u32| n.wrapping_mul(0x9e_3779) & 0xff_ffff).map(|net| Ipv4Addr::from_bits(net << 8));
    nets.filter(|net| (11..=126).contains(&net.octets()[0]) || (128..=222).contains(&net.octets()[0]))
        .take(count as usize)
}

/// Traffic leaves a link whose other end is set down, for what is left: another member of a group, a floating route of
/// the same prefix, a shorter prefix. `PERIGEE_ROUTES` is how many further routes lead over the link (100),
/// `PERIGEE_REPEAT` how often it is cut (1). How long that took is written to the file that `PERIGEE_FIGURES` names;
/// nothing here depends on it.
fn traffic_leaves_a_link_that_is_cut(world: &World) {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect(name));
    let (routes, times) = (number("PERIGEE_ROUTES", 100), number("PERIGEE_REPEAT", 1));
    let wan = world.wire("r-client");
    let [one, two] = [("one", 2), ("two", 3)].map(|(name, net)| world.host(name, &[&format!("10.0.{net}.2/24")], &[]));
    let router = world.router("", PORTS);
    let resolved = |address: &str| router.neighbor(address).is_some_and(|(_, mac)| !mac.is_null());
    let mut figures = String::new();
    // The last prefix of all: the last whose turn comes when prefixes choose among their routes again.
    let (last, far) = ("223.255.255.0/24", "223.255.255.1");
    let mut stream = Stream::new(&wan, &router, [&one, &two], far);
    let floating =
        |prefix: String| format!("{prefix} via 10.0.2.2 dev one\n{prefix} via 10.0.3.2 dev two preference 200\n");
    let group = |prefix: String| format!("{prefix} via 10.0.2.2 dev one via 10.0.3.2 dev two\n");
    let around = |prefix: String| format!("{prefix} via 10.0.2.2 dev one\n");
    let cases: [(&str, Lines, bool); 3] = [
        ("a shorter prefix", &around, true),
        ("a group of two", &group, false),
        ("a floating route", &floating, false),
    ];
    for (what, lines, default) in cases {
        let prefixes = spread_out(routes).map(|net| format!("{net}/24")).chain([last.to_owned()]);
        let mut text: String = prefixes.map(lines).collect();
        if default {
            text += "0.0.0.0/0 via 10.0.3.2 dev two\n";
        }
        world.file("routes.txt", &text);
        router.ask("route load /run/routes.txt").good();
        wait_until("both neighbors", || resolved("10.0.2.2") && resolved("10.0.3.2"));
        stream.choose();
        for _ in 0..times {
            let settled = || router.show("fib").as_array().expect("a list").iter().all(|fib| fib["pending"] == false);
            wait_until_for(LONG_WAIT, "all prefixes to have followed", settled);
            let cut = stream.during(0, 1, || drop(one.run("ip link set eth0 down").good()));
            let back = stream.during(1, 0, || drop(one.run("ip link set eth0 up").good()));
            for (event, Outage { lost, gap }) in [("down", cut), ("up", back)] {
                let ms = gap.as_secs_f64() * 1e3;
                figures += &format!("{what}, {routes} routes, link {event}: {ms:.1} ms, {lost} packets lost\n");
            }
        }
    }
    if let Ok(file) = std::env::var("PERIGEE_FIGURES") {
        std::fs::write(file, &figures).expect("a file for the figures");
    }
    router.stop();
}
