// SPDX-License-Identifier: MIT
//! What a reload does with a change of each key: all that are declared are tried.

use std::collections::BTreeSet;

use perigee_config::{Config, FibNames, Machine, Reload, keys};

/// A key with its table, what stands before it there, two values, and what the refusal of a reload names; nothing where
/// the change is live.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("", "routes_file", "", "'a.txt'", "'b.txt'", ""),
    ("[router]", "name", "[router]", "'a'", "'b'", "router.name, router.socket, eal.file_prefix"),
    ("[router]", "script", "[router]", "'a.lua'", "'b.lua'", ""),
    ("[router]", "namespace", "[router]", "'a'", "'b'", "router.namespace"),
    ("[router]", "burst", "[router]", "16", "17", "router.burst"),
    ("[router]", "transmit_queue", "[router]", "16", "17", "router.transmit_queue"),
    ("[router]", "transmit_timeout", "[router]", "'1ms'", "'1001us'", "router.transmit_timeout"),
    ("[router]", "idle", "[router]", "'poll'", "'adaptive'", "router.idle"),
    ("[router]", "fib", "[router]", "'auto'", "'other'", ""),
    ("[router]", "socket", "[router]", "'/a'", "'/b'", "router.socket"),
    ("[router]", "socket_group", "[router]", "'adm'", "'perigee'", "router.socket_group"),
    ("[router]", "metrics", "[router]", "'127.0.0.1:1'", "'127.0.0.1:2'", "router.metrics"),
    ("[router]", "punt_ring", "[router]", "64", "128", "router.punt_ring"),
    ("[router]", "mbufs", "[router]", "2048", "2049", "router.mbufs"),
    ("[router]", "slow_paths", "[router]", "1", "2", "router.slow_paths"),
    ("[router]", "icmp_rate", "[router]", "0", "1", "router.icmp_rate"),
    ("[router]", "icmp_source_rate", "[router]", "0", "1", "router.icmp_source_rate"),
    ("[router]", "stall_budget", "[router]", "'1s'", "'2s'", ""),
    ("[router]", "end_budget", "[router]", "'1s'", "'2s'", "router.end_budget"),
    ("[router]", "round_budget", "[router]", "'1ms'", "'2ms'", ""),
    ("[router]", "gc_budget", "[router]", "'1ms'", "'2ms'", ""),
    ("[router]", "helper_death", "[router]", "'end'", "'replace'", ""),
    ("[router]", "over_budget", "[router]", "'warn'", "'roll-back'", ""),
    ("[router]", "user", "[router]", "'nobody'", "'7'", "router.user"),
    ("[policer]", "routing", "[policer]", "1", "2", ""),
    ("[policer]", "routing_burst", "[policer]", "1", "2", ""),
    ("[policer]", "discovery", "[policer]", "1", "2", ""),
    ("[policer]", "discovery_burst", "[policer]", "1", "2", ""),
    ("[policer]", "unresolved", "[policer]", "1", "2", ""),
    ("[policer]", "unresolved_burst", "[policer]", "1", "2", ""),
    ("[policer]", "icmp", "[policer]", "1", "2", ""),
    ("[policer]", "icmp_burst", "[policer]", "1", "2", ""),
    ("[policer]", "management", "[policer]", "1", "2", ""),
    ("[policer]", "management_burst", "[policer]", "1", "2", ""),
    ("[policer]", "other", "[policer]", "1", "2", ""),
    ("[policer]", "other_burst", "[policer]", "1", "2", ""),
    ("[router]", "max_neighbors", "[router]", "16", "17", "router.max_neighbors"),
    ("[router]", "max_unresolved", "[router]", "16", "17", "router.max_unresolved"),
    ("[router]", "neighbor_rate", "[router]", "1", "2", "router.neighbor_rate"),
    ("[router]", "max_routes", "[router]", "1000", "2000", "router.max_routes"),
    ("[router]", "plane", "[router]", "'worker'", "'xdp'", ""),
    ("[router]", "stack", "[port.a]\ninterface = 'x'\ntwin = false\nplane = 'xdp'\n[router]\nplane = 'xdp'", "'linux'", "'perigee'", "router.stack"),
    ("[router]", "plane_persist", "[router]", "true", "false", "router.plane_persist"),
    ("[router]", "plane_memory", "[router]", "64", "65", "router.plane_memory"),
    ("[router]", "workers", "[router]", "1", "2", "workers"),
    ("[router]", "cores", "[router]", "[1]", "[2]", "workers"),
    ("[[worker]]", "core", "[[worker]]", "1", "2", "workers"),
    ("[[worker]]", "ports", "[port.b]\ninterface = 'x'\n[[worker]]\ncore = 1", "['a']", "['a', 'b']", "[[worker]]"),
    ("[eal]", "args", "[eal]", "['-a']", "['-b']", "eal.args"),
    ("[eal]", "hugepages", "[eal]", "true", "'auto'", "eal.hugepages"),
    ("[eal]", "memory", "[eal]", "64", "65", "eal.memory"),
    ("[eal]", "file_prefix", "[eal]", "'a'", "'b'", "eal.file_prefix"),
    ("[linux]", "feed", "[linux]", "'fpm'", "'none'", "linux.feed"),
    ("[linux]", "tables", "[linux]", "[1]", "[2]", ""),
    ("[linux]", "protocols", "[linux]", "[1]", "[2]", ""),
    ("[linux]", "ignore_protocols", "[linux]", "[1]", "[2]", ""),
    ("[linux]", "unknown_routes", "[linux]", "'to-linux'", "'unreachable'", ""),
    ("[linux]", "fpm", "[linux]", "'127.0.0.1:1'", "'127.0.0.1:2'", "linux.fpm"),
    ("[linux]", "fpm_from", "[linux]", "['frr']", "['frr', '10.0.0.1']", "linux.fpm_from"),
    ("[linux]", "fpm_hold", "[linux]", "'1s'", "'2s'", "linux.fpm_hold"),
    ("[linux]", "receive_buffer", "[linux]", "'4 KB'", "'5 KB'", "linux.receive_buffer"),
    ("[linux]", "audit", "[linux]", "'1s'", "'1001ms'", ""),
    ("[port.NAME]", "device", "[port.b]", "'net_null1'", "'net_null2'", "port.b.device"),
    ("[port.NAME]", "interface", "[port.b]", "'x'", "'y'", "port.b.interface"),
    ("[port.NAME]", "driver", "[port.b]\ninterface = 'x'", "'packet'", "'xdp'", "port.b.driver"),
    ("[port.NAME]", "plane", "[port.b]\ninterface = 'x'\ndriver = 'xdp'", "'worker'", "'xdp'", "port.b.plane"),
    ("[port.NAME]", "mac", "[port.b]\ninterface = 'x'", "'02:00:00:00:00:01'", "'02:00:00:00:00:02'", "port.b.mac"),
    ("[port.NAME]", "mtu", "[port.b]\ninterface = 'x'", "1400", "1401", "port.b.mtu"),
    ("[port.NAME]", "promiscuous", "[port.b]\ninterface = 'x'", "true", "false", "port.b.promiscuous"),
    ("[port.NAME]", "super_frames", "[port.b]\ninterface = 'x'", "true", "false", "port.b.super_frames"),
    ("[port.NAME]", "queues", "[port.b]\ninterface = 'x'", "1", "2", "port.b.queues"),
    ("[port.NAME]", "weight", "[port.b]\ninterface = 'x'", "1", "2", "port.b.weight"),
    ("[port.NAME]", "twin", "[port.b]\ninterface = 'x'", "true", "false", "port.b.twin"),
    ("[port.NAME]", "addresses", "[port.b]\ninterface = 'x'", "['10.1.0.1/24']", "[]", ""),
    ("[port.NAME]", "redirects", "[port.b]\ninterface = 'x'", "true", "false", ""),
    ("[port.NAME]", "urpf", "[port.b]\ninterface = 'x'", "'strict'", "'loose'", ""),
    ("[port.NAME]", "directed_broadcast", "[port.b]\ninterface = 'x'", "true", "false", ""),
    ("[port.NAME]", "source_routes", "[port.b]\ninterface = 'x'", "true", "false", ""),
    ("[port.NAME]", "multicast_ttl", "[port.b]\ninterface = 'x'", "1", "2", ""),
    ("[port.NAME]", "multicast_boundary", "[port.b]\ninterface = 'x'", "['239.0.0.0/8']", "[]", ""),
    ("[port.NAME.vlan.ID]", "multicast_ttl", "[port.a.vlan.7]", "1", "2", ""),
    ("[port.NAME.vlan.ID]", "multicast_boundary", "[port.a.vlan.7]", "['239.0.0.0/8']", "['ff05::/16']", ""),
    ("[port.NAME.vlan.ID]", "mtu", "[port.a.vlan.7]", "1400", "1401", ""),
    ("[port.NAME.vlan.ID]", "addresses", "[port.a.vlan.7]", "['10.1.0.1/24']", "[]", ""),
    ("[port.NAME.vlan.ID]", "redirects", "[port.a.vlan.7]", "true", "false", ""),
    ("[port.NAME.vlan.ID]", "urpf", "[port.a.vlan.7]", "'strict'", "'loose'", ""),
    ("[port.NAME.vlan.ID]", "directed_broadcast", "[port.a.vlan.7]", "true", "false", ""),
    ("[port.NAME.vlan.ID]", "source_routes", "[port.a.vlan.7]", "true", "false", ""),
    ("[[route]]", "prefix", "[[route]]\nblackhole = true", "'10.8.0.0/16'", "'10.9.0.0/16'", ""),
    ("[[route]]", "via", "[[route]]\nprefix = '10.9.0.0/16'", "'10.0.0.2'", "'10.0.0.3'", ""),
    ("[[route]]", "dev", "[[route]]\nprefix = '2001:db8::/32'\nvia = 'fe80::2'", "'a'", "'a.7'", ""),
    ("[[route]]", "recursive", "[[route]]\nprefix = '10.9.0.0/16'\nvia = '10.0.0.2'", "true", "false", ""),
    ("[[route]]", "blackhole", "[[route]]\nprefix = '10.9.0.0/16'", "true", "false\nprohibit = true", ""),
    ("[[route]]", "unreachable", "[[route]]\nprefix = '10.9.0.0/16'", "true", "false\nprohibit = true", ""),
    ("[[route]]", "prohibit", "[[route]]\nprefix = '10.9.0.0/16'", "true", "false\nblackhole = true", ""),
    ("[[route]]", "preference", "[[route]]\nprefix = '10.9.0.0/16'\nblackhole = true", "1", "2", ""),
    ("[[route]]", "metric", "[[route]]\nprefix = '10.9.0.0/16'\nblackhole = true", "0", "1", ""),
    ("[[route]] via", "address", "[[route]]\nprefix = '::/0'\n[[route.via]]\ndev = 'a'", "'fe80::2'", "'fe80::3'", ""),
    ("[[route]] via", "dev", "[[route]]\nprefix = '::/0'\n[[route.via]]\naddress = 'fe80::2'", "'a'", "'a.7'", ""),
    ("[[route]] via", "recursive", "[[route]]\nprefix = '0.0.0.0/0'\n[[route.via]]\naddress = '10.0.0.2'",
        "true", "false", ""),
    ("[[route]] via", "weight",
        "[[route]]\nprefix = '0.0.0.0/0'\nvia = [{ address = '10.0.0.2' }, { address = '10.0.0.3',",
        "1 }]", "2 }]", ""),
    ("[[neighbor]]", "address", "[[neighbor]]\nmac = '02:00:00:00:00:02'", "'10.0.0.2'", "'10.0.0.3'", ""),
    ("[[neighbor]]", "mac", "[[neighbor]]\naddress = '10.0.0.2'", "'02:00:00:00:00:02'", "'02:00:00:00:00:03'", ""),
    ("[[neighbor]]", "dev", "[[neighbor]]\nmac = '02:00:00:00:00:02'\naddress = 'fe80::2'", "'a'", "'a.7'", ""),
    ("[[multicast]]", "group", "[[multicast]]\nto = ['a']", "'239.1.1.1'", "'239.1.1.2'", ""),
    ("[[multicast]]", "source", "[[multicast]]\nto = ['a']\ngroup = '239.1.1.1'", "'10.0.0.2'", "'10.0.0.3'", ""),
    ("[[multicast]]", "from", "[[multicast]]\nto = ['a.8']\ngroup = '239.1.1.1'", "'a'", "'a.7'", ""),
    ("[[multicast]]", "to", "[[multicast]]\ngroup = '239.1.1.1'", "['a']", "['a', 'a.7']", ""),
    ("[[filter]]", "src", "[[filter]]\naction = 'drop'", "'10.0.0.0/8'", "'10.0.0.0/9'", ""),
    ("[[filter]]", "dst", "[[filter]]\naction = 'drop'", "'10.0.0.0/8'", "'10.0.0.0/9'", ""),
    ("[[filter]]", "proto", "[[filter]]\naction = 'drop'", "'tcp'", "'udp'", ""),
    ("[[filter]]", "sport", "[[filter]]\naction = 'drop'\nproto = 'tcp'", "1", "2", ""),
    ("[[filter]]", "dport", "[[filter]]\naction = 'drop'\nproto = 'tcp'", "1", "2", ""),
    ("[[filter]]", "action", "[[filter]]", "'drop'", "'accept'", ""),
    ("[[filter]]", "from", "[[filter]]\naction = 'drop'", "'ports'", "'linux'", ""),
    ("[[steer]]", "port", "[port.b]\ninterface = 'x'\n[[steer]]\nproto = 'tcp'", "'a'", "'b'", "[[steer]]"),
    ("[[steer]]", "ethertype", "[[steer]]", "'arp'", "'lldp'", "[[steer]]"),
    ("[[steer]]", "src", "[[steer]]", "'10.0.0.0/8'", "'10.0.0.0/9'", "[[steer]]"),
    ("[[steer]]", "dst", "[[steer]]", "'10.0.0.0/8'", "'10.0.0.0/9'", "[[steer]]"),
    ("[[steer]]", "proto", "[[steer]]", "'tcp'", "'udp'", "[[steer]]"),
    ("[[steer]]", "sport", "[[steer]]\nproto = 'tcp'", "1", "2", "[[steer]]"),
    ("[[steer]]", "dport", "[[steer]]\nproto = 'tcp'", "1", "2", "[[steer]]"),
];

const PORT: &str = "[port.a]\ndevice = 'net_null0'\naddresses = ['10.0.0.1/24']\n[port.a.vlan.8]\n";

fn parse(text: &str) -> Config {
    let fib = FibNames { v4: vec!["other".into()], v6: vec![] };
    let machine = Machine { cores: vec![0, 1, 2, 3], fib, ..Machine::default() };
    Config::parse_on("test.toml", text, &machine).unwrap_or_else(|error| panic!("{error}\nin\n{text}"))
}

/// The key with `value`, among all that it needs.
fn with(&(table, key, before, ..): &Case, value: &str) -> Config {
    let (port, seven) = match before {
        _ if before.contains("[port.a]") => ("", ""),
        _ if before.contains(".vlan.7") => (PORT, ""),
        _ => (PORT, "[port.a.vlan.7]\n"),
    };
    let gap = if before.ends_with(',') { " " } else { "\n" };
    match table {
        "" => parse(&format!("{key} = {value}\n{port}{seven}")),
        _ => parse(&format!("{port}{seven}{before}{gap}{key} = {value}\n")),
    }
}

#[test]
fn a_change_of_a_key_is_live_or_named() {
    for case in CASES {
        let (table, key, _, first, second, named) = case;
        let (before, now) = (with(case, first), with(case, second));
        assert_eq!(before.restart_needed(&before), Vec::<String>::new(), "{table} {key}");
        assert_ne!(before, now, "{table} {key} has no effect");
        assert_eq!(before.restart_needed(&now).join(", "), *named, "{table} {key}");
        assert_eq!(now.restart_needed(&before).join(", "), *named, "{table} {key}, back");
    }
}

#[test]
fn every_key_is_tried_and_described_as_it_behaves() {
    let tried: BTreeSet<_> = CASES.iter().map(|(table, key, .., named)| (*table, *key, !named.is_empty())).collect();
    let declared: BTreeSet<_> = keys().iter().map(|key| (key.table, key.name, key.reload == Reload::Restart)).collect();
    assert_eq!(tried, declared);
}

#[test]
fn every_key_is_described() {
    for key in keys() {
        let texts = [&key.sentence, &key.expected, &key.default];
        assert!(texts.iter().all(|text| !text.is_empty() && !text.contains('|')), "{key:?}");
        assert!(key.sentence.ends_with('.'), "{key:?}");
    }
}

#[test]
fn ports_and_steers_that_come_and_go_need_a_restart() {
    let two = |first: &str, second: &str| {
        let port = |name: &str| format!("[port.{name}]\ndevice = 'net_{name}'\n");
        parse(&(port(first) + &port(second)))
    };
    assert_eq!(two("a", "b").restart_needed(&two("a", "c")), ["[port.b]", "[port.c]"]);
    assert_eq!(two("a", "b").restart_needed(&two("b", "a")), ["the order of the ports"]);
    let steers = |n: usize| parse(&(PORT.to_owned() + &"[[steer]]\nethertype = 'arp'\n".repeat(n)));
    assert_eq!(steers(1).restart_needed(&steers(2)), ["[[steer]]"]);
    assert_eq!(steers(1).restart_needed(&steers(0)), ["[[steer]]"]);
    let vlan = parse(&format!("{PORT}[port.a.vlan.9]\n"));
    assert!(vlan.restart_needed(&parse(PORT)).is_empty(), "VLANs come and go");
}

#[test]
fn the_same_said_in_other_words_is_no_change() {
    let one = parse(&format!("{PORT}[router]\nworkers = 1\ntransmit_timeout = '1ms'\n"));
    let other = parse(&format!("{PORT}[router]\ntransmit_timeout = '1000us'\n[[worker]]\ncore = 3\n"));
    assert!(one.restart_needed(&other).is_empty());
}
