// SPDX-License-Identifier: MIT
//! What a configuration means: structures, workers, the files beside it; and that it prints as it reads.

mod marks;

use marks::{PORT, check, compare, machine, parse, unmark};
use perigee_config::{Config, Device, FibChoice, LinuxDriver, Machine, Plane, parse_routes};
use perigee_net::{InterfaceId, Member, Multipath, RouteSource, RouteTarget};

#[test]
fn a_lookup_structure_is_for_the_families_that_have_it() {
    let cases = [
        ("", ["auto", "auto"]),
        ("fib = \"auto\"", ["auto", "auto"]),
        ("fib = \"both\"", ["both", "both"]),
        ("fib = \"old\"", ["old", "auto"]),
        ("fib = \"new\"", ["auto", "new"]),
        ("fib = [\"old\"]", ["old", "auto"]),
        ("fib = [\"old\", \"new\"]", ["old", "new"]),
        ("fib = [\"new\", \"old\"]", ["old", "new"]),
        ("fib = [\"both\", \"new\"]", ["both", "new"]),
        ("fib = [\"both\", \"auto\"]", ["both", "auto"]),
        ("fib = [\"auto\", \"both\"]", ["auto", "both"]),
    ];
    for (line, [v4, v6]) in cases {
        let config = parse(&format!("{PORT}[router]\n{line}\n")).unwrap_or_else(|error| panic!("{error}"));
        let expected = FibChoice { v4: v4.into(), v6: v6.into() };
        assert_eq!(config.router.fib, expected, "{line}");
        assert_eq!(parse(&config.to_toml()).unwrap().router.fib, expected, "{line}, printed and read again");
    }
    let machine = Machine { fib_override: Some(FibChoice { v4: "old".into(), v6: "new".into() }), ..machine() };
    let config = Config::parse_on("test.toml", &format!("{PORT}[router]\nfib = \"both\"\n"), &machine).unwrap();
    assert_eq!(config.router.fib, machine.fib_override.unwrap(), "the command line takes precedence");
}

#[test]
fn two_workers_on_one_core_are_warned_about() {
    let config = parse(&format!("{PORT}[router]\ncores = [1, 1]\n")).unwrap();
    let warnings: Vec<_> = config.warnings.iter().map(|w| (w.line, w.column)).collect();
    assert_eq!(warnings, [(5, 13)]);
    assert!(config.warnings[0].message.contains("a second worker on core 1"));
    let config = parse(&format!("{PORT}[router]\nworkers = 3\n")).unwrap();
    let cores: Vec<_> = config.workers.iter().map(|w| w.core).collect();
    assert_eq!((cores, config.warnings.len()), (vec![3, 2, 1], 0));
    let auto = parse(&format!("{PORT}[router]\nworkers = \"auto\"\n")).unwrap();
    assert_eq!(auto.workers, config.workers);
}

#[test]
fn workers_name_their_ports() {
    let lan = "[port.lan]\ndevice = \"net_null1\"\n";
    let config = |workers: &str| parse(&format!("{PORT}{lan}{workers}"));
    let two =
        config("[[worker]]\ncore = 2\nports = [\"lan\", \"wan\"]\n[[worker]]\ncore = 1\nports = [\"lan\"]\n").unwrap();
    let named: Vec<_> = two.workers.iter().map(|worker| (worker.core, &worker.ports[..])).collect();
    assert_eq!(named, [(2, &[0, 1][..]), (1, &[1])]);
    assert_eq!(parse(&two.to_toml()).unwrap().workers, two.workers, "{}", two.to_toml());

    let one = |ports: &str| format!("{PORT}{lan}[[worker]]\ncore = 1\nports = {ports}\n");
    check(&one("[«\"wam\"»]"), &["found \"wam\", expected one of the ports wan, lan"]);
    check(&one("[\"wan\", «\"wan\"»]"), &["found the port `wan` again, expected each port of a worker once"]);
    check(&one("[«7»]"), &["expected the name of a port"]);
    check(&one("«\"wan\"»"), &["expected an array, each element the name of a port"]);
    check(&one("[]").replace("ports", "«ports»"), &["found no port, expected the name of at least one"]);
    check(&format!("{PORT}weight = «0»\n"), &["found 0, expected a weight from 1 to 1000"]);
    // Where a port could not be read, its name is not the mistake.
    check(
        &format!("[port.«\"a b\"»]\ndevice = \"net_null7\"\n{PORT}[[worker]]\ncore = 1\nports = [\"x\"]\n"),
        &["found the port name"],
    );

    let idle = config("[[worker]]\ncore = 2\nports = [\"lan\", \"wan\"]\n[[worker]]\ncore = 1\n").unwrap();
    assert!(idle.warnings[0].message.contains("found no port for the worker on core 1"), "{:?}", idle.warnings);
    assert!(config("[[worker]]\ncore = 2\nports = [\"lan\"]\n[[worker]]\ncore = 1\n").unwrap().warnings.is_empty());
    assert!(config("[[worker]]\ncore = 2\n[[worker]]\ncore = 1\n[[worker]]\ncore = 0\n").unwrap().warnings.is_empty());
}

/// A configuration that uses everything.
const FULL: &str = r#"
routes_file = "routes.txt"

[router]
name = "edge"
script = "fast.lua"
namespace = "blue"
burst = 64
transmit_queue = 16
transmit_timeout = "2ms"
idle = "sleep"
socket = "/tmp/edge.sock"
metrics = "127.0.0.1:9100"
punt_ring = 2048
mbufs = 4096
icmp_rate = 10

[[worker]]
core = 2
[[worker]]
core = 3
ports = ["lan"]

[eal]
args = ["--log-level=8"]
hugepages = false
memory = 256
file_prefix = "edge"

[linux]
feed = "fpm"
tables = ["main", 100]
protocols = ["bgp", 77]
ignore_protocols = ["dhcp"]
fpm = "127.0.0.1:2621"
fpm_from = ["frr", "1000", "10.0.0.1"]
fpm_hold = "30s"
receive_buffer = "16 MB"
audit = "60s"

[port.wan.policer]
icmp = 1000
[port.wan]
interface = "eth0"
driver = "dpdk:af_xdp"
mac = "02:00:00:00:00:01"
mtu = 9000
promiscuous = true
queues = 2
weight = 3
twin = false
addresses = ["10.0.0.1/24", "fe80::1/64"]
[port.wan.vlan.100]
mtu = 1500
addresses = ["10.0.100.1/31"]
[port.lan]
addresses = ["fe80::1/64"]
multicast_ttl = 32
multicast_boundary = ["239.0.0.0/8", "ff05::/16"]
device = "net_pcap0,rx_pcap=in.pcap,tx_pcap=/out.pcap,infinite_rx=1"

[[route]]
prefix = "0.0.0.0/0"
via = "10.0.0.2"
metric = 20
[[route]]
prefix = "::/0"
via = "fe80::2"
dev = "wan"
[[route]]
prefix = "10.0.0.0/8"
unreachable = true
[[route]]
prefix = "10.8.0.0/16"
via = [{ address = "10.0.0.2", weight = 3 }, { address = "10.0.100.0", dev = "wan.100" }]
preference = 200
[[route]]
prefix = "10.9.0.0/16"
via = [{ address = "10.0.0.2", weight = 256 }, { address = "10.8.0.1", recursive = true }]
[[route]]
prefix = "10.10.0.0/16"
via = "10.8.0.1"
recursive = true

[[neighbor]]
address = "10.0.100.0"
mac = "02:00:00:00:00:02"
dev = "wan.100"

[[multicast]]
group = "239.1.1.1"
to = ["wan", "wan.100"]
[[multicast]]
group = "ff05::1"
source = "2001:db8::2"
from = "lan"
to = ["wan.100"]

[[filter]]
src = "10.0.0.0/8"
proto = "tcp"
dport = "80-443"
action = "accept"
[[filter]]
dst = "2001:db8::1"
proto = 47
action = "drop"

[[steer]]
port = "wan"
ethertype = 0x88cc
[[steer]]
proto = "ospf"
"#;

#[test]
fn what_was_read_prints_and_reads_back_the_same() {
    let machine = machine();
    let config = Config::parse_on("/etc/perigee/edge.toml", FULL, &machine).unwrap();
    let wan = config.ports.iter().find(|port| port.name == "wan").unwrap();
    assert_eq!(
        (wan.policer.icmp, wan.policer.icmp_burst),
        (1000, config.policer.icmp_burst),
        "what a port does not say"
    );
    assert_eq!(config.interfaces[2].name, "wan.100");
    assert_eq!(config.router.script.as_deref(), Some("/etc/perigee/fast.lua".as_ref()));
    let printed = config.to_toml();
    assert!(printed.contains("rx_pcap=/etc/perigee/in.pcap,tx_pcap=/out.pcap"), "{printed}");
    let again = Config::parse_on("printed.toml", &printed, &machine).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    assert_eq!(again, config, "{printed}");
}

#[test]
fn the_routes_file_is_as_exact() {
    let config = parse(PORT).unwrap();
    let good = "# a comment\n\n10.1.0.0/16 via 10.0.0.2 dev wan\n0.0.0.0/0 via 10.0.0.3 metric 5 # why\n2001:db8:1::/48 via fe80::2 dev wan\n192.0.2.0/24 blackhole\n\
        10.4.0.0/16 via 10.0.0.2 dev wan weight 2 via 10.0.0.3 preference 9 metric 1\n10.5.0.0/16 recursive 10.4.0.1\n";
    let routes = parse_routes("r", good, &config.interfaces).unwrap();
    assert_eq!(routes.len(), 6);
    let routes: Vec<_> = routes.iter().map(|(_, route)| route).collect();
    let wan = Some(InterfaceId(0));
    let gateway = |last, weight| Member { address: Some([10, 0, 0, last].into()), interface: wan, weight };
    let two = Multipath::new(&[gateway(2, 2), gateway(3, 1)]).unwrap();
    assert_eq!(routes[4].target, RouteTarget::Multipath(two));
    assert_eq!((routes[4].preference, routes[4].metric), (9, 1));
    assert_eq!(routes[0].preference, RouteSource::Static.preference());
    assert_eq!(routes[5].target, RouteTarget::Gateway { address: [10, 4, 0, 1].into(), interface: None });
    // A byte-order mark, which a TOML file may have as well; and what nobody sends may be refused.
    let marked = "\u{feff}10.1.0.0/16 via 10.0.0.2\n127.0.0.0/8 blackhole\n";
    assert_eq!(parse_routes("r", marked, &config.interfaces).unwrap().len(), 2);
    let most = |n: usize| parse_routes("r", &format!("10.4.0.0/16{}\n", " via 10.0.0.2".repeat(n)), &config.interfaces);
    assert!(most(256).is_ok() && most(257).unwrap_err().to_string().contains("expected 1 to 256"));
    let cases = [
        ("«10.1.0.1/16» via 10.0.0.2 dev wan", "(it has bits beyond its length; 10.1.0.0/16?)"),
        ("«ten» via 10.0.0.2", "expected a prefix"),
        ("«239.0.0.0/8» via 10.0.0.2", "that packets are forwarded to: these are groups"),
        ("10.1.0.0/16«»", "found the end of the line, expected via ADDRESS"),
        ("10.1.0.0/16 via«» # nothing", "expected the address of a neighbor"),
        ("10.1.0.0/16 «thru» 10.0.0.2", "found \"thru\""),
        ("10.1.0.0/16 via «fe80::2» dev wan", "an IPv4 address"),
        ("10.1.0.0/16 via «10.9.0.2» dev wan", "in no network of `wan`"),
        ("10.1.0.0/16 via «10.0.0.1»", "an address of `wan` itself"),
        ("10.1.0.0/16 via 10.0.0.2 dev «lan»", "expected one of wan"),
        ("10.1.0.0/16 via 10.0.0.2 dev«»", "the name of an interface"),
        ("10.1.0.0/16 via 10.0.0.2 metric «x»", "a metric from 0"),
        ("10.1.0.0/16 via 10.0.0.2 dev wan «onlink»", "expected the end of the line"),
        ("10.1.0.0/16 via 10.0.0.2 weight «0»", "a weight from 1 to 256"),
        ("10.1.0.0/16 via 10.0.0.2 via«»", "the address of a neighbor"),
        ("10.1.0.0/16 via 10.0.0.2 preference «256»", "a preference from 0 to 255"),
        ("10.1.0.0/16 recursive «224.0.0.1»", "that other routes lead to"),
        ("10.1.0.0/16 blackhole «dev» wan", "expected the end of the line"),
        ("2001:db8::/32 via «10.0.0.2»", "an IPv6 address"),
    ];
    for (line, words) in cases {
        let (text, places) = unmark(&format!("10.3.0.0/16 via 10.0.0.2\n{line}\n"));
        let error = parse_routes("routes.txt", &text, &config.interfaces).expect_err(&text);
        compare(&text, error.mistakes(), &places, &[words]);
    }
    let many = parse_routes("r", &"x\n".repeat(1000), &config.interfaces).unwrap_err();
    assert_eq!(many.mistakes().len(), 20, "a file of the wrong kind is not listed whole");
}

/// "nosuch.lua: No such file or directory" said neither which line names it nor that it is the script.
#[test]
fn a_script_that_is_missing_is_a_mistake_of_its_line() {
    let config =
        Config::parse("some/r.toml", &format!("[router]\nburst = 8\n  script = \"nosuch.lua\"\n{PORT}")).unwrap();
    let said = config.unreadable_script("some/nosuch.lua: No such file or directory");
    let expected = "some/r.toml:3:3: cannot read the script some/nosuch.lua: No such file or directory\n  \
                    3 |   script = \"nosuch.lua\"\n    |   ^^^^^^";
    assert_eq!(said, expected);
    let none = Config::parse("r.toml", PORT).unwrap();
    assert_eq!(none.unreadable_script("x.lua: gone"), "cannot read the script x.lua: gone");
}

#[test]
fn files_are_read_from_the_folder_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    std::fs::write(&path, format!("routes_file = \"r.txt\"\n{PORT}")).unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    // Without a place, it was not said who wants the file.
    assert!(error.contains("a.toml:1:1: cannot read") && error.contains("r.txt: No such file"), "{error}");
    std::fs::write(folder.path().join("r.txt"), "10.1.0.0/16 via 10.0.0.2\n10.1.0.0/16 via\n").unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("r.txt:2:16: found the end of the line"), "{error}");
    std::fs::write(folder.path().join("r.txt"), "10.1.0.0/16 via 10.0.0.2\n").unwrap();
    assert_eq!(Config::load(&path).unwrap().file_routes.len(), 1);
    std::fs::write(&path, b"[router]\nname = \"\xff\"\n").unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("a.toml:2:9: found the byte 0xff, expected UTF-8 text"), "{error}");
}

#[test]
fn every_example_is_accepted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            Config::load(&path).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(count >= 2, "the examples are gone");
}

#[test]
fn the_routers_plane_is_for_ports_that_it_fits() {
    const PORTS: &str = "[router]\nplane = 'xdp'\n[port.a]\ninterface = 'eth0'\n[port.b]\ninterface = 'eth1'\nplane = 'worker'\n\
        [port.c]\ninterface = 'eth2'\ndriver = 'packet'\n[port.d]\ndevice = 'net_null0'\n[port.e]\ninterface = 'eth3'\ndriver = 'xdp'\n[port.f]\ninterface = 'eth4'\ndriver = 'xdp'\nplane = 'worker'\n";
    let config = Config::parse("r.toml", PORTS).unwrap();
    let planes: Vec<_> = config.ports.iter().map(|port| port.plane).collect();
    assert_eq!(planes, [Some(Plane::Xdp), None, None, None, Some(Plane::Xdp), Some(Plane::Worker)]);
    assert!(matches!(config.ports[0].device, Device::Linux { driver: LinuxDriver::Xdp, .. }));
    let again = Config::parse("again.toml", &config.to_toml()).unwrap();
    assert_eq!(again.ports, config.ports);
}

#[test]
fn what_is_linuxs_is_refused_where_linux_is_the_stack() {
    const START: &str = "[router]\nstack = 'linux'\n[port.a]\ninterface = 'eth0'\n";
    let config = Config::parse("r.toml", START).unwrap();
    assert_eq!(
        (config.router.plane, config.ports[0].plane, config.ports[0].twin),
        (Plane::Xdp, Some(Plane::Xdp), false)
    );
    let again = Config::parse("again.toml", &config.to_toml()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again, config);
    for (more, expected) in [
        ("addresses = ['10.0.0.1/24']", "ip address add"),
        ("mac = '02:00:00:00:00:01'", "ip link set"),
        ("mtu = 9000", "ip link set INTERFACE mtu"),
        ("twin = true", "interface itself"),
        ("plane = 'worker'", "take packets away"),
        ("driver = 'packet'", "another `driver`"),
        ("source_routes = true", "accept_source_route"),
        ("[port.a.vlan.7]", "type vlan"),
        ("[port.b]\ndevice = 'net_null0'", "Linux's own"),
        ("[[route]]\nprefix = '10.9.0.0/16'\nblackhole = true", "ip route add"),
        ("[linux]\nfeed = 'none'", "netlink"),
    ] {
        let error = Config::parse("r.toml", &format!("{START}{more}\n")).unwrap_err();
        assert!(error.mistakes()[0].message.contains(expected), "{more}: {error}");
    }
}
