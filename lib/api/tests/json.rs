// SPDX-License-Identifier: MIT
//! The JSON of answers, as a router of version 0.1.0 gave it to the command line: read, and written again byte for
//! byte.
//!
//! Scripts depend on these names and values. What a version takes away or renames is said in CHANGELOG.md.

use perigee_api::Query;
use perigee_api::answers::*;
use perigee_api::queries::*;
use perigee_api::taps::TraceLine;

/// Reads an answer and writes it as the server does, with its fields in alphabetical order.
fn answers<Q: Query>(text: &str) {
    let answer: Q::Answer = serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", Q::PATH));
    assert_eq!(serde_json::to_value(answer).unwrap().to_string(), text, "{}", Q::PATH);
}

#[test]
fn answers_are_the_bytes_they_were() {
    answers::<ShowVersion>(
        r#"{"config":"r.toml","dpdk":"DPDK 22.11.11","name":"demo","perigee":"0.1.0","pid":25880,"uptime":8.179803267}"#,
    );
    answers::<ShowPorts>(
        r#"[{"counters":{"receive_bytes":1326,"receive_errors":0,"receive_missed":0,"receive_no_buffer":0,"receive_packets":15,"receive_super_frames":0,"receive_super_segments":0,"transmit_bytes":1832,"transmit_dropped":0,"transmit_errors":0,"transmit_packets":20,"transmit_super_frames":0,"transmit_super_segments":0},"device":"net_af_packet_to-client","driver":"net_af_packet","interfaces":[{"addresses":["10.0.1.1/24","2001:db8:1::1/64","fe80::4cce:6ff:fef3:f0d2/64"],"mtu":1500,"name":"left","up":true,"vlan":null}],"kernel":{"receive_dropped":3,"receive_errors":0,"transmit_dropped":1,"transmit_errors":0},"link_up":true,"mac":"4e:ce:06:f3:f0:d2","mtu":1500,"name":"left","numa":null,"offloads":[],"promiscuous":false,"receive_queues":2,"speed":10000,"transmit_queues":2,"twin":{"dropped":0,"from_linux":4,"index":4,"missed":2,"name":"left","namespace":null,"to_linux":5}}]"#,
    );
    answers::<ShowWorkers>(
        r#"[{"batches":24,"core":1,"handed_over":0,"idle_polls":58204,"longest_gap":0.00081085,"punt_full":0,"punted":12,"queues":["left:0","left:1","right:0","right:1"],"received":26,"state":"running","tables_version":14,"transmitted":14,"unclaimed":0,"uptime":6.436757188,"worker":0}]"#,
    );
    answers::<ShowModules>(
        r#"[{"about":"What the worker itself drops: packets a script left over, and those a full queue had no room for.","calls":0,"dropped":0,"module":"host","packet_ns":null,"packets":0,"punted":0,"seconds":0.0},{"about":"Sorts frames by destination MAC address, VLAN and Ethernet type into IPv4, IPv6 and the rest.","calls":28,"dropped":0,"module":"classify","packet_ns":12.5,"packets":30,"punted":10,"seconds":0.0625}]"#,
    );
    answers::<ShowDrops>(
        r#"[{"kind":"drop","module":"host","packets":0,"per_worker":[0],"reason":"unclaimed","rfc":null},{"kind":"punt","module":"classify","packets":4,"per_worker":[4],"reason":"arp","rfc":"RFC 826"},{"kind":"punt","module":"classify","packets":0,"per_worker":[0],"reason":"other_type","rfc":null},{"kind":"drop","module":"ipv4_valid","packets":0,"per_worker":[0],"reason":"short","rfc":"RFC 1812 5.2.2 (1)"},{"kind":"drop","module":"slowpath","packets":0,"per_worker":[],"reason":"unknown_interface","rfc":"configuration"},{"kind":"drop","module":"slowpath","packets":0,"per_worker":[],"reason":"transmit","rfc":null}]"#,
    );
    answers::<ShowRoutes>(
        r#"{"memory":21237208,"refused":0,"routes":[{"action":"forward","best":true,"dev":"left","metric":0,"preference":0,"prefix":"10.0.1.0/24","source":"connected","via":null},{"action":"forward","best":false,"dev":"left","metric":0,"preference":10,"prefix":"10.0.1.0/24","source":"linux","via":null},{"action":"forward","best":false,"dev":"left","metric":0,"preference":10,"prefix":"10.0.1.0/24","protocol":"kernel","source":"linux","via":null},{"action":"forward","best":true,"dev":"right","metric":20,"preference":10,"prefix":"10.4.0.0/16","protocol":"bgp","source":"linux","via":"10.0.2.2"},{"action":"forward","best":true,"dev":"right","metric":20,"preference":10,"prefix":"10.4.0.0/17","protocol":"77","source":"linux","via":"10.0.2.2"},{"action":"local","best":true,"dev":null,"metric":0,"preference":0,"prefix":"10.0.1.1/32","source":"local","via":null},{"action":"forward","best":true,"dev":"right","metric":0,"preference":1,"prefix":"10.5.0.0/16","source":"api","via":"10.0.2.2"},{"action":"forward","best":true,"dev":null,"gateways":[{"dev":"right","via":"10.0.2.2","weight":2},{"dev":"right","via":"10.0.2.3","weight":1}],"metric":0,"preference":1,"prefix":"10.6.0.0/16","source":"api","via":null},{"action":"forward","best":true,"dev":null,"gateways":[{"dev":"right","via":"10.0.2.2","weight":2},{"dev":"right","via":"10.0.2.3","weight":1}],"metric":0,"preference":1,"prefix":"10.7.0.0/16","source":"static","via":null},{"action":"blackhole","best":true,"dev":null,"metric":0,"preference":1,"prefix":"10.8.0.0/16","source":"static","via":null},{"action":"forward","best":false,"dev":"spare","down":true,"metric":0,"preference":1,"prefix":"10.9.0.0/16","source":"static","via":"10.0.3.2"},{"action":"forward","best":true,"dev":null,"gateways":[{"dev":"right","via":"10.0.2.2","weight":1},{"dev":"spare","down":true,"via":"10.0.3.2","weight":1}],"metric":0,"preference":1,"prefix":"10.10.0.0/16","source":"static","via":null}],"total":21}"#,
    );
    answers::<ShowFib>(
        r#"[{"bytes":20974616,"chosen":"auto","family":"IPv4","pending":false,"prefixes":13,"structure":"dirb","why":"dirb: the most popular of 2 next hops, up to 255, have 99 % of the routed /24"},{"bytes":262592,"chosen":"auto","family":"IPv6","pending":false,"prefixes":4,"structure":"range6","why":null}]"#,
    );
    answers::<ShowNeighbors>(
        r#"[{"address":"10.0.1.2","dev":"left","mac":"02:00:00:00:01:02","state":"reachable"},{"address":"10.0.2.2","dev":"right","mac":"02:00:00:00:02:02","state":"reachable"}]"#,
    );
    answers::<ShowNeighborUsage>(
        r#"[{"dev":"left","family":"IPv4","known":3,"known_limit":65536,"unconfirmed":1,"unresolved":2,"unresolved_limit":1024}]"#,
    );
    answers::<LoadRoutes>(
        r#"{"added":3,"changed":1,"first_refused":{"at":4,"why":"gateway 192.0.2.1 is not on a connected network"},"refused":1,"unchanged":0}"#,
    );
    answers::<FlushNeighbors>(r#"{"message":"3 neighbors forgotten"}"#);
    answers::<ShowNextHops>(
        r#"[{"dev":"spare","down":true,"id":11,"kind":"neighbor","mac":null,"target":null,"uses":2,"via":"10.0.3.2"},{"dev":"left","id":5,"kind":"connected","mac":null,"target":null,"uses":2,"via":null},{"dev":"right","id":7,"kind":"neighbor","mac":"02:00:00:00:02:02","target":null,"uses":3,"via":"10.0.2.2"},{"dev":null,"id":9,"kind":"group","mac":null,"members":[{"id":7,"share":0.6640625,"weight":2},{"id":8,"share":0.3359375,"weight":1}],"target":null,"uses":1,"via":null},{"dev":"right","id":11,"kind":"recursive","mac":null,"target":7,"uses":3,"via":"10.0.2.2"}]"#,
    );
    answers::<ShowMulticast>(
        r#"[{"by_linux":false,"bytes":36,"from":"wan","group":"239.1.1.1","last_use":0.25,"origin":"linux","packets":1,"source":"10.0.1.2","to":[{"dev":"lan","ttl":1}],"wrong_interface":0},{"by_linux":false,"bytes":0,"from":null,"group":"ff05::1","last_use":null,"origin":"static","packets":0,"source":null,"to":[],"wrong_interface":2}]"#,
    );
    answers::<ShowScripts>(
        r#"[{"blacklisted":0,"collection_seconds":0.25,"collections":7,"error":null,"gc_kb":0.0,"generation":1,"loaded_at":1795380807.9109664,"longest_collection":0.125,"over_budget":2,"path":"built-in","stalls":1,"state":"running","throws":0,"trace_aborts":1,"traces":3,"worker":0}]"#,
    );
    answers::<ShowCounters>(
        r#"[{"kind":"counter","module":"mine","name":"flows","per_worker":[1,2],"value":3},{"kind":"gauge","module":"mine","name":"entries","per_worker":[4],"value":4}]"#,
    );
    answers::<ShowFilters>(
        r#"[{"action":"drop","done_in":"software","from":"ports","hits":12,"kind":"filter","number":1,"rule":"proto 17 dport 9"},{"action":"slow path","done_in":"software","from":"ports","hits":null,"kind":"steer","number":1,"rule":"ethertype 0x88cc"},{"action":"slow path","done_in":"software","from":"ports","hits":null,"kind":"steer","number":2,"rule":"proto 6 dport 179"}]"#,
    );
    answers::<ShowLinux>(
        r#"{"addresses":8,"audit_differences":0,"audits":0,"changes":4,"differences":["wan belongs to the bridge br0"],"dumps":1,"feed":"netlink","group_neighbors":0,"helper":"alive","helper_deaths":0,"left_out":{"kind":7,"link_local":4,"table":5},"left_out_routes":[{"prefix":"10.9.0.0/16","protocol":"bgp","table":"100","why":"its table is not followed"}],"links":5,"linux_only":0,"malformed":0,"namespace":null,"neighbors_by_hand":0,"next_hops":0,"overruns":0,"proxied":0,"refused":0,"repaired":0,"resync_seconds":0.00005645,"resyncs":1,"routes":4,"skipped":0,"state":"following","tables":["main"]}"#,
    );
    answers::<Audit>(
        r#"{"differences":[{"kind":"not in Linux","linux":null,"lookup":null,"metric":10,"prefix":"10.1.0.0/16","rib":"via 10.0.2.2 dev right"}],"linux_routes":4,"neighbors":2,"next_hops":9,"prefixes":17,"repaired":0,"rib_routes":21,"seconds":0.05370053,"total":1}"#,
    );
    answers::<ShowConfig>(r#"{"toml":"[router]\nname = \"demo\"\n"}"#);
    answers::<AddRoute>(r#"{"message":"route to 10.5.0.0/16 via 10.0.2.2 added"}"#);
}

/// A line of a trace has its fields in the order of their declaration.
#[test]
fn traces_are_the_bytes_they_were() {
    let line = r#"{"time":1795380812379541464,"port":"left","packet":"10.0.1.2 > 10.0.2.2: ICMP echo request, TTL 64, 98 bytes","length":98,"bytes":"4ece06f3f0d2","steps":[{"module":"classify","decision":"goes on","detail":"interface left, network header at byte 14"},{"module":"ipv4_lookup","decision":"next hop","detail":"via 10.0.2.2 dev right","next_hop":7,"route":{"prefix":"10.0.2.0/24","source":"connected","action":"forward","via":null,"dev":"right","preference":0,"metric":0,"best":true}}]}"#;
    let read: TraceLine = serde_json::from_str(line).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), line);
}

#[test]
fn states_are_the_words_they_were() {
    fn words<T: serde::Serialize>(states: &[T]) -> String {
        let word = |state| serde_json::to_value(state).unwrap().as_str().unwrap().to_owned();
        states.iter().map(word).collect::<Vec<_>>().join(", ")
    }
    assert_eq!(words(&[LinuxFeed::Netlink, LinuxFeed::Fpm, LinuxFeed::None]), "netlink, fpm, none");
    let states = [LinuxState::Following, LinuxState::Reading, LinuxState::Lost, LinuxState::Off];
    assert_eq!(words(&states), "following, reading, lost, off");
    assert_eq!(
        words(&[HelperState::None, HelperState::Alive, HelperState::Silent, HelperState::Dead]),
        "none, alive, silent, dead"
    );
    assert_eq!(words(&[WorkerState::Running, WorkerState::Silent]), "running, silent");
    assert_eq!(words(&[DropKind::Drop, DropKind::Punt]), "drop, punt");
    assert_eq!(words(&[IpFamily::V4, IpFamily::V6]), "IPv4, IPv6");
    let origins = [
        RouteOrigin::Local,
        RouteOrigin::Connected,
        RouteOrigin::Static,
        RouteOrigin::Linux,
        RouteOrigin::Dynamic,
        RouteOrigin::Api,
    ];
    assert_eq!(words(&origins), "local, connected, static, linux, dynamic, api");
    let actions = [
        RouteAction::Forward,
        RouteAction::Local,
        RouteAction::Blackhole,
        RouteAction::Unreachable,
        RouteAction::Prohibit,
        RouteAction::ToLinux,
        RouteAction::Refused,
    ];
    assert_eq!(words(&actions), "forward, local, blackhole, unreachable, prohibit, to-linux, refused");
    let fates = [RouteFate::Blackhole, RouteFate::Unreachable, RouteFate::Prohibit];
    assert_eq!(words(&fates), "blackhole, unreachable, prohibit");
    let kinds = [NextHopType::Neighbor, NextHopType::Connected, NextHopType::Recursive, NextHopType::Group];
    assert_eq!(words(&kinds), "neighbor, connected, recursive, group");
    let neighbors = [
        NeighborState::Static,
        NeighborState::Incomplete,
        NeighborState::Reachable,
        NeighborState::Stale,
        NeighborState::Delay,
        NeighborState::Probe,
        NeighborState::Failed,
    ];
    assert_eq!(words(&neighbors), "static, incomplete, reachable, stale, delay, probe, failed");
    assert_eq!(words(&[ScriptState::Running, ScriptState::RolledBack]), "running, rolled_back");
    assert_eq!(words(&[FilterKind::Filter, FilterKind::Steer]), "filter, steer");
    assert_eq!(words(&[FilterAction::Accept, FilterAction::Drop, FilterAction::SlowPath]), "accept, drop, slow path");
    assert_eq!(words(&[DoneIn::Software, DoneIn::Hardware]), "software, hardware");
}
