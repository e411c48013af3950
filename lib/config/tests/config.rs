// SPDX-License-Identifier: MIT
//! Every mistake a configuration can contain: where it is reported, and how; in the snippets «...» marks the place.

mod marks;

use marks::{PORT, check, parse};

#[test]
fn a_mistake_is_shown_with_its_line_and_a_caret() {
    let text = format!("{PORT}[router]\nburst = 0\n");
    let error = parse(&text).unwrap_err().to_string();
    let expected = "test.toml:5:9: found 0, expected packets from 1 to 256\n  5 | burst = 0\n    |         ^";
    assert_eq!(error, expected);
}

#[test]
fn all_mistakes_are_listed_in_the_order_of_the_file() {
    check(
        "[router]\nburst = «0»\n«brust» = 1\nidle = «7»\n«[port.«\"a b\"»]\n[«nonsense»]\n",
        &[
            "found 0",
            "`burst`",
            "\"poll\" or \"sleep\"",
            "neither `device` nor `interface`",
            "letters, digits",
            "unknown key `nonsense`",
        ],
    );
}

#[test]
fn what_is_not_toml_is_refused_with_its_place() {
    check("[router]\nburst = «»\nname = «»\n", &["found what is not TOML: ", "not TOML"]);
    check("[router]\nburst = 1\n«burst» = 2\n", &["duplicate key"]);
}

#[test]
fn every_check_of_the_router_section() {
    let cases = [
        ("«burts» = 3", "found the unknown key `burts` in [router], expected `burst`"),
        ("name = «\"a b\"»", "found \"a b\", expected 1 to 32 letters"),
        ("name = «7»", "found 7, expected 1 to 32"),
        ("script = «\"\"»", "expected the path of a Lua script"),
        ("namespace = «\"..\"»", "expected the name, the path or the process"),
        ("burst = «0»", "found 0, expected packets from 1 to 256"),
        ("burst = «257»", "found 257"),
        ("burst = «\"32\"»", "found \"32\""),
        ("burst = «0xffffffffffffffffffff»", "expected packets from 1 to 256"),
        ("transmit_queue = «-1»", "found -1, expected packets from 1 to 256"),
        ("transmit_timeout = «\"100\"»", "(it has no unit), expected a time up to 1s"),
        ("transmit_timeout = «\"2s\"»", "(too long)"),
        ("transmit_timeout = «\"1h\"»", "(its unit is not us, ms or s)"),
        ("idle = «\"dream\"»", "found \"dream\", expected \"adaptive\", \"poll\" or \"sleep\""),
        (
            "fib = «\"bogus\"»",
            "found \"bogus\", expected \"auto\", the name of a lookup structure, or one for IPv4 (both, old) and",
        ),
        ("fib = «[\"new\", \"both\", \"old\"]»", "and one for IPv6 (both, new)"),
        ("fib = «[\"new\", \"new\"]»", "(\"new\" and \"new\")"),
        ("fib = «[1]»", "the name of a lookup structure"),
        ("fib = «[]»", "the name of a lookup structure"),
        ("fib = «7»", "found 7, expected \"auto\""),
        ("metrics = «\"localhost\"»", "an address with a port"),
        ("punt_ring = «1000»", "a power of two from 64 to 65536"),
        ("mbufs = «12»", "packet buffers from 1024"),
        ("icmp_rate = «1.5»", "found the fraction 1.5"),
        ("workers = «0»", "workers from 1 to 128, or \"auto\""),
        ("workers = «129»", "found 129"),
        ("workers = «\"all\"»", "found \"all\", expected workers from 1"),
        ("cores = [0, «4»]", "found 4, expected a core that this process can be bound to, one of 0 to 3"),
        ("cores = «0»", "expected an array, each element a core"),
        ("«cores» = []", "found no core to work on"),
        ("workers = 2\n«cores» = [1]", "only one of workers, cores and [[worker]]"),
    ];
    for (snippet, words) in cases {
        check(&format!("{PORT}[router]\n{snippet}\n"), &[words]);
    }
    let long = format!("{PORT}[router]\nsocket = «\"/{}\"»\n", "x".repeat(107));
    check(&long, &["(108 bytes long), expected the path of a unix socket"]);
    check(&format!("{PORT}[[worker]]\ncore = «9»\n"), &["found 9, expected a core that this process"]);
    check(&format!("{PORT}«[[worker]]»\n"), &["found no `core` in [[worker]]"]);
    check(&format!("worker = «1»\n{PORT}"), &["expected tables headed [[worker]]"]);
    check(&format!("router = «1»\n{PORT}"), &["expected a table headed [router]"]);
}

#[test]
fn every_check_of_the_eal_section() {
    let cases = [
        ("args = [«1»]", "an argument of the EAL"),
        ("hugepages = «\"maybe\"»", "true, false or \"auto\""),
        ("memory = «1»", "megabytes from 16"),
        ("file_prefix = «\"a/b\"»", "letters, digits"),
        ("«socket_mem» = 1", "unknown key `socket_mem` in [eal], expected one of args,"),
    ];
    for (snippet, words) in cases {
        check(&format!("{PORT}[eal]\n{snippet}\n"), &[words]);
    }
}

#[test]
fn every_check_of_the_linux_section() {
    let cases = [
        ("feed = «\"bgp\"»", "found \"bgp\", expected \"netlink\", \"fpm\" or \"none\""),
        ("«tables» = []", "found no table, expected one at least"),
        ("tables = [\"main\", «\"mane\"»]", "found \"mane\", expected a table: one of main, default, local, or its"),
        ("tables = [254, «\"main\"»]", "found the table main a second time"),
        ("tables = [«0»]", "found 0, expected a table"),
        ("tables = [«4294967296»]", "expected a table"),
        ("protocols = [«\"brid\"»]", "who makes routes: one of redirect, kernel"),
        ("protocols = [«256»]", "or its number up to 255"),
        ("ignore_protocols = «\"bird\"»", "expected an array"),
        ("fpm = «\"2620\"»", "an address with a port, such as \"127.0.0.1:2620\""),
        ("fpm_hold = «60»", "found 60, expected a time"),
        ("receive_buffer = «\"1 KB\"»", "(out of range), expected a size from \"4 KB\" to \"1 GB\""),
        ("receive_buffer = «\"4 k\"»", "(its unit is not KB, MB or GB)"),
        ("audit = «\"10ms\"»", "(too short), expected a time of 1s or more"),
        ("«adit» = \"60s\"", "unknown key `adit` in [linux], expected `audit`"),
    ];
    for (snippet, words) in cases {
        check(&format!("{PORT}[linux]\n{snippet}\n"), &[words]);
    }
    let many: Vec<String> = (1..=17).map(|table| table.to_string()).collect();
    check(&format!("{PORT}[linux]\n«tables» = [{}]\n", many.join(", ")), &["found 17 tables, expected 16 at most"]);
}

#[test]
fn every_check_of_a_port() {
    let cases = [
        ("[port.«sixteen_letters_»]\ndevice = \"net_null1\"", "a port name of 16 characters, expected 1 to 15"),
        ("«[port.lan]»", "neither `device` nor `interface` in [port.lan]"),
        ("[port.lan]\ndevice = \"net_null1\"\n«interface» = \"eth1\"", "both `device` and `interface`"),
        ("[port.lan]\n«device» = \"net_null0,copy=1\"", "the device of port `wan` again"),
        ("[port.lan]\ndevice = «\"01:00\"»", "expected a PCI address or a virtual device"),
        ("[port.lan]\ndevice = «\"net_null1, x\"»", "there is a blank in it"),
        ("[port.lan]\ndevice = \"0000:01:00.0\"\n«driver» = \"dpdk:af_xdp\"", "expected it only beside `interface`"),
        ("[port.lan]\ninterface = «\"averyveryverylongname\"»", "the name of a Linux interface"),
        (
            "[port.lan]\ninterface = \"eth1\"\ndriver = «\"e1000\"»",
            "\"packet\", \"xdp\", \"dpdk:af_packet\" or \"dpdk:af_xdp\"",
        ),
        ("[port.«eth1»]\ninterface = \"eth1\"", "found a port named like its Linux interface `eth1`"),
        ("[port.lan]\ndevice = \"net_null1\"\nmac = «\"01:00:5e:00:00:01\"»", "(a group address or zero)"),
        ("[port.lan]\ndevice = \"net_null1\"\nmac = «\"02:00\"»", "the MAC address of one station"),
        ("[port.lan]\ndevice = \"net_null1\"\nmtu = «67»", "bytes of IP from 68 to 9600"),
        ("[port.lan]\ndevice = \"net_null1\"\npromiscuous = «1»", "true or false"),
        ("[port.lan]\ndevice = \"net_null1\"\nqueues = «0»", "receive queues from 1"),
        ("[port.lan]\ndevice = \"net_null1\"\ntwin = «\"yes\"»", "true or false"),
        ("[port.lan]\ndevice = \"net_null1\"\n«adress» = []", "unknown key `adress` in [port.lan]"),
        ("[port]\nlan = «3»", "expected a table headed [port.lan]"),
    ];
    for (snippet, words) in cases {
        check(&format!("{PORT}{snippet}\n"), &[words]);
    }
    check("[port.«\"a.b\"»]\ndevice = \"net_null1\"\n", &["found the port name \"a.b\""]);
    check("[«port»]\n", &["found no port, expected at least one table headed [port.NAME]"]); // fuzz seed 202055
    check("port = «3»\n", &["expected a table of its own headed [port.3]"]);
    check(&format!("{PORT}vlan = «100»\n"), &["expected a table of its own headed [port.wan.vlan.100]"]);
    check(&format!("{PORT}vlan = «true»\n"), &["expected a table headed [port.wan.vlan.NAME]"]);
    check("[port.«drops»]\ndevice = \"net_null1\"\n", &["`perigee capture drops` captures all drops"]);
    check(&format!("{PORT}[router]\n«routes_file» = \"r\"\n"), &["expected it before the first head of a table"]);
    let error = parse("").unwrap_err();
    assert!(error.to_string().starts_with("test.toml:1:1: found no port, expected"), "{error}");
    let error = parse(&format!("{PORT}[port.wan]\n")).unwrap_err();
    assert!(error.to_string().contains("test.toml:4:"), "a port named twice: {error}");
}

#[test]
fn every_check_of_addresses_and_vlans() {
    let addresses = [
        ("10.1.0.1", "(it has no prefix length)"),
        ("10.1.0.256/24", "an address of the router"),
        ("10.1.0.0/24", "(the address of the network itself)"),
        ("10.1.0.255/24", "(the network's broadcast address)"),
        ("224.0.0.5/32", "(no host's address)"),
        ("127.0.0.1/8", "(no host's address)"),
        ("255.255.255.255/32", "(no host's address)"),
        ("::/128", "(no host's address)"),
        ("10.1.0.1/0", "(its network would be everything)"),
        ("10.0.0.1/16", "found 10.0.0.1, which `wan` has already"),
    ];
    for (address, words) in addresses {
        check(&format!("{PORT}[port.lan]\ndevice = \"net_null1\"\naddresses = [«\"{address}\"»]\n"), &[words]);
    }
    check(
        &format!("{PORT}[port.lan]\ndevice = \"net_null1\"\naddresses = «\"10.1.0.1/24\"»\n"),
        &["expected an array"],
    );
    let vlans = [
        ("[port.wan.vlan.«0»]", "found the VLAN \"0\", expected a number from 1 to 4094"),
        ("[port.wan.vlan.«4095»]", "found the VLAN \"4095\""),
        ("[port.wan.vlan.«007»]", "found the VLAN \"007\""),
        ("[port.wan.vlan.«red»]", "found the VLAN \"red\""),
        ("[port.wan.vlan.7]\nmtu = «9000»", "expected at most 1500, the port's own"),
        ("[port.wan.vlan.7]\nmtu = 1000\naddresses = [«\"2001:db8:1::1/64\"»]", "expected an MTU of at least 1280"),
        ("[port.wan.vlan.7]\n«color» = 1", "unknown key `color` in [port.wan.vlan.7]"),
    ];
    for (snippet, words) in vlans {
        check(&format!("{PORT}{snippet}\n"), &[words]);
    }
}

/// The first of two interfaces in one network went dead, in silence.
#[test]
fn a_network_is_on_one_interface() {
    let words = "found 10.0.0.9/24, whose network `wan` is on already, expected each network on one interface";
    check(&format!("{PORT}[port.lan]\ndevice = \"net_null1\"\naddresses = [«\"10.0.0.9/24\"»]\n"), &[words]);
    check(&format!("{PORT}[port.wan.vlan.7]\naddresses = [«\"10.0.0.9/24\"»]\n"), &[words]);
    let good = |wan: &str, lan: &str| {
        let text = format!(
            "[port.wan]\ndevice = \"net_null0\"\naddresses = [{wan}]\n[port.lan]\ndevice = \"net_null1\"\naddresses = [{lan}]\n"
        );
        parse(&text).unwrap_or_else(|error| panic!("{error}"));
    };
    // Several addresses of one network, one network within another, unnumbered links, and link-local addresses.
    good("\"10.0.0.1/24\", \"10.0.0.2/24\"", "\"10.0.0.129/25\"");
    good("\"10.0.0.1/32\", \"fe80::1/64\"", "\"10.0.0.2/32\", \"fe80::1/64\", \"2001:db8::1/128\"");
}

#[test]
fn every_check_of_routes() {
    let cases = [
        ("«[[route]]»\nblackhole = true", "found no `prefix` in [[route]]"),
        ("[[route]]\nprefix = «\"10.1.0.1/16\"»\nblackhole = true", "(it has bits beyond its length; 10.1.0.0/16?)"),
        ("[[route]]\nprefix = «\"10.1.0.0\"»\nblackhole = true", "(it has no length)"),
        ("«[[route]]»\nprefix = \"10.1.0.0/16\"", "found no `via` in [[route]], expected `via = \"ADDRESS\"`"),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"10.9.0.1\"»",
            "in no network of any interface, expected an address within 10.0.0.0/24 (wan)",
        ),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"10.9.0.1\"»\ndev = \"wan\"", "in no network of `wan`"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"10.0.0.1\"»", "an address of `wan` itself"),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"2001:db8::2\"»",
            "expected an address of the family of 10.1.0.0/16",
        ),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"ten\"»", "an IPv4 or IPv6 address"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"224.0.0.1\"»", "expected the address of a neighbor"),
        // Linux and the API refuse these, too.
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"10.0.0.255\"»", "a broadcast address of 10.0.0.0/24"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"10.0.0.0\"»", "a broadcast address of 10.0.0.0/24"),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"255.255.255.255\"»\nrecursive = true",
            "the address of a router that other routes lead to",
        ),
        ("[[route]]\nprefix = \"2001:db8:1::/48\"\nvia = «\"fe80::1\"»", "without `dev`"),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\ndev = «\"lan\"»",
            "found the interface \"lan\", expected one of wan",
        ),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\nmetric = «-1»", "a metric from 0"),
        ("[[route]]\nprefix = «\"fe80::/10\"»\nvia = \"2001:db8::2\"", "these are link-local addresses"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\nblackhole = «true»", "both sent on and dropped"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nblackhole = true\nprohibit = «true»", "a second fate"),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nblackhole = true\n[[route]]\nprefix = «\"10.1.0.0/16\"»\nvia = \"10.0.0.2\"",
            "a second route to 10.1.0.0/16 with the metric 0",
        ),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\npreference = «256»", "a preference from 0 to 255"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\n«via» = []", "a route with 0 gateways, expected 1 to 256"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = [«\"10.0.0.2\"»]", "expected a table"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = [«{}»]", "found no `address`"),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nvia = [{ address = \"10.0.0.2\" }, { address = «\"10.9.0.2\"» }]",
            "in no network",
        ),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nvia = [{ address = \"10.0.0.2\", weight = «0» }]",
            "a weight from 1 to 256",
        ),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\n«dev» = \"wan\"\nvia = [{ address = \"10.0.0.2\" }]",
            "with each of them",
        ),
        (
            "[[route]]\nprefix = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\ndev = \"wan\"\nrecursive = «true»",
            "expected one of them",
        ),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nvia = «\"127.0.0.1\"»\nrecursive = true", "that other routes lead to"),
        ("[[route]]\nprefix = \"10.1.0.0/16\"\nblackhole = true\n«gateway» = 1", "unknown key `gateway` in [[route]]"),
    ];
    for (snippet, words) in cases {
        check(&format!("{PORT}{snippet}\n"), &[words]);
    }
    check(&format!("routes_file = «1»\n{PORT}"), &["the path of a file with routes"]);
}

#[test]
fn every_check_of_neighbors() {
    let mac = "mac = \"02:00:00:00:00:02\"";
    check(&format!("{PORT}«[[neighbor]]»\n{mac}\n"), &["found no `address`"]);
    check(&format!("{PORT}«[[neighbor]]»\naddress = \"10.0.0.2\"\n"), &["found no `mac`"]);
    check(&format!("{PORT}[[neighbor]]\n{mac}\naddress = «\"10.9.0.2\"»\n"), &["in no network of any interface"]);
    check(&format!("{PORT}[[neighbor]]\n{mac}\naddress = «\"10.0.0.1\"»\n"), &["an address of `wan` itself"]);
    check(&format!("{PORT}[[neighbor]]\n{mac}\naddress = \"10.0.0.2\"\ndev = «\"x\"»\n"), &["the interface \"x\""]);
    check(
        &format!("{PORT}[[neighbor]]\naddress = \"10.0.0.2\"\nmac = «\"ff:ff:ff:ff:ff:ff\"»\n"),
        &["(a group address or zero)"],
    );
    let twice = format!("[[neighbor]]\n{mac}\naddress = \"10.0.0.2\"\n[[neighbor]]\n{mac}\naddress = «\"10.0.0.2\"»\n");
    check(&format!("{PORT}{twice}"), &["the neighbor 10.0.0.2 a second time"]);
}

#[test]
fn every_check_of_multicast() {
    let to = "to = [\"wan\"]";
    let group = "group = \"239.1.1.1\"";
    let cases = [
        (format!("«[[multicast]]»\n{to}"), "found no `group` in [[multicast]], expected a multicast group"),
        (format!("«[[multicast]]»\n{group}"), "found no `to` in [[multicast]], expected the name of an interface"),
        (
            format!("[[multicast]]\ngroup = «\"10.0.0.1\"»\n{to}"),
            "expected a multicast group that reaches beyond its link",
        ),
        (format!("[[multicast]]\ngroup = «\"224.0.0.5\"»\n{to}"), "(packets to it are never forwarded)"),
        (format!("[[multicast]]\ngroup = «\"ff02::5\"»\n{to}"), "(packets to it are never forwarded)"),
        (format!("[[multicast]]\n{group}\n{to}\nsource = «\"239.1.1.2\"»"), "expected the address of a host"),
        (format!("[[multicast]]\n{group}\n{to}\nsource = «\"169.254.0.1\"»"), "(packets from it are never forwarded)"),
        (
            format!("[[multicast]]\n{group}\n{to}\nsource = «\"2001:db8::2\"»"),
            "expected an address of the family of 239.1.1.1",
        ),
        (format!("[[multicast]]\n{group}\nto = [«\"lan\"»]"), "found the interface \"lan\", expected one of wan"),
        (format!("[[multicast]]\n{group}\nto = «\"wan\"»"), "expected an array"),
        (format!("[[multicast]]\n{group}\n{to}\nfrom = «\"lan\"»"), "found the interface \"lan\""),
        (format!("[[multicast]]\n{group}\nfrom = \"wan\"\nto = [«\"wan\"»]"), "where packets come in"),
        (format!("[[multicast]]\n{group}\nto = [\"wan\", «\"wan\"»]"), "found \"wan\" a second time"),
        (
            format!("[[multicast]]\n{group}\n{to}\n[[multicast]]\n«group» = \"239.1.1.1\"\n{to}"),
            "a second route of 239.1.1.1",
        ),
        (
            format!("[[multicast]]\n{group}\n{to}\n«ttl» = 1"),
            "unknown key `ttl` in [[multicast]], expected one of from, group, source, to",
        ),
        ("[port.lan]\ndevice = \"net_null1\"\nmulticast_ttl = «0»".into(), "a TTL from 1 to 255"),
        (
            "[port.lan]\ndevice = \"net_null1\"\nmulticast_boundary = [«\"10.0.0.0/8\"»]".into(),
            "(it is not of multicast groups), expected a prefix of groups",
        ),
        (
            "[port.lan]\ndevice = \"net_null1\"\nmulticast_boundary = [«\"224.0.0.0/3\"»]".into(),
            "(it is not of multicast",
        ),
        ("[port.lan]\ndevice = \"net_null1\"\nmulticast_boundary = [«\"239.1.1.1\"»]".into(), "(it has no length)"),
    ];
    for (snippet, words) in cases {
        check(&format!("{PORT}{snippet}\n"), &[words]);
    }
    // One for any source and one for a source of its own are two routes.
    let two = format!("[[multicast]]\n{group}\n{to}\n[[multicast]]\n{group}\nsource = \"10.0.0.2\"\nto = []\n");
    assert_eq!(parse(&format!("{PORT}{two}")).unwrap().multicast.len(), 2);
}

#[test]
fn every_check_of_filters_and_steers() {
    let cases = [
        ("«[[filter]]»\nproto = \"tcp\"", "found no `action` in [[filter]]"),
        ("[[filter]]\naction = «\"deny\"»", "\"accept\" or \"drop\""),
        ("[[filter]]\naction = \"drop\"\nsrc = «\"10.0.0.1/8\"»", "10.0.0.0/8?"),
        ("[[filter]]\naction = \"drop\"\nsrc = \"10.0.0.0/8\"\ndst = «\"2001:db8::1\"»", "of the family of 10.0.0.0/8"),
        ("[[filter]]\naction = \"drop\"\nproto = «\"tpc\"»", "expected a protocol: tcp"),
        ("[[filter]]\naction = \"drop\"\nproto = «256»", "expected a protocol"),
        ("[[filter]]\naction = \"drop\"\nproto = \"udp\"\ndport = «\"90-80\"»", "(the end is before the beginning)"),
        ("[[filter]]\naction = \"drop\"\nproto = \"udp\"\nsport = «65536»", "a port or a range"),
        ("[[filter]]\naction = \"drop\"\ndport = «80»", "without a protocol that has ports"),
        ("[[filter]]\naction = \"drop\"\nproto = \"icmp\"\ndport = «80»", "without a protocol that has ports"),
        ("[[filter]]\naction = \"drop\"\n«source» = 1", "unknown key `source`"),
        ("«[[steer]]»\nport = \"wan\"", "found no `ethertype`"),
        ("[[steer]]\nport = «\"lan\"»\nethertype = \"arp\"", "expected one of the ports wan"),
        ("[[steer]]\nethertype = «1500»", "an Ethernet type from 0x600"),
        ("[[steer]]\nethertype = «\"arp\"»\nproto = \"tcp\"", "one or the other"),
    ];
    for (snippet, words) in cases {
        check(&format!("{PORT}{snippet}\n"), &[words]);
    }
}

#[test]
fn one_wrong_port_does_not_accuse_the_routes_that_use_it() {
    check(
        "[port.wan]\ndevice = \"net_null0\"\naddresses = [«\"10.0.0.0/24\"»]\n[[route]]\nprefix = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\n",
        &["the address of the network itself"],
    );
}
