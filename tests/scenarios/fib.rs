// SPDX-License-Identifier: MIT
//! With every lookup structure packets follow the routes, also those that come and go while the router runs.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, World, wait_until};

perigee_tests::scenarios![
    packets_cross_with_every_lookup_structure,
    the_command_line_chooses_before_the_configuration,
    routes_are_loaded_from_a_file,
];

/// The names of all structures, as `perigee check` lists them: IPv4, IPv6.
fn names(world: &World) -> [Vec<String>; 2] {
    let file = world.configuration("fib = \"bogus\"", PORTS);
    let output = world.perigee(&["check", &file.display().to_string()]).refused("\"bogus\"").text;
    assert!(output.contains("router.toml:"), "file and line:\n{output}");
    ["IPv4", "IPv6"].map(|family| {
        let (_, rest) =
            output.split_once(&format!("one for {family} (")).unwrap_or_else(|| panic!("{family}:\n{output}"));
        let (list, _) = rest.split_once(')').expect("a closed list");
        list.split(", ").map(str::to_owned).collect()
    })
}

fn packets_cross_with_every_lookup_structure(world: &World) {
    let Pair { client, server } = Pair::new(world);
    let [v4, v6] = names(world);
    assert!(v4.iter().any(|name| name == "rte_fib") && v6.iter().any(|name| name == "rte_fib6"), "{v4:?} {v6:?}");
    for address in ["10.7.0.1/32", "2001:db8:7::1/128"] {
        server.run(&format!("ip addr add {address} dev lo")).good();
    }
    for turn in 0..v4.len().max(v6.len()) {
        let (v4, v6) = (&v4[turn % v4.len()], &v6[turn % v6.len()]);
        println!("{v4} and {v6}");
        let router = world.router(&format!("fib = [\"{v4}\", \"{v6}\"]"), PORTS);
        let used = router.show("fib");
        for (index, name) in [v4, v6].into_iter().enumerate() {
            assert_eq!(used[index]["chosen"].as_str(), Some(name.as_str()), "{used}");
            assert!(used[index]["bytes"].as_u64() > Some(0), "{used}");
        }
        for address in ["10.0.2.2", "2001:db8:2::2"] {
            client.reaches(address);
            // Its neighbor is known now: by the fast path.
            wait_until("the fast path to carry both ways", || {
                let before = router.workers("transmitted");
                client.ping(5, address);
                router.workers("transmitted") - before >= 10
            });
        }
        for (prefix, via, address) in
            [("10.7.0.0/24", "10.0.2.2", "10.7.0.1"), ("2001:db8:7::/48", "2001:db8:2::2", "2001:db8:7::1")]
        {
            router.ask(&format!("route add {prefix} via {via}")).good();
            client.reaches(address);
            router.ask(&format!("route del {prefix}")).good();
            wait_until("the route to be gone", || client.run(&format!("ping -n -c 1 -W 1 {address}")).code == Some(1));
        }
        router.alone();
        router.stop();
    }
}

fn the_command_line_chooses_before_the_configuration(world: &World) {
    let report = world.perigee(&["demo", "--json", "--fib", "rte_fib,rte_fib6"]).good().out;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON on standard output");
    assert_eq!(report["ping"]["loss"].as_f64(), Some(0.0), "{report}");
    let file = world.configuration("", PORTS).display().to_string();
    world.perigee(&["run", "--fib", "bogus", &file]).refused("found --fib bogus, expected auto");
}

fn routes_are_loaded_from_a_file(world: &World) {
    let Pair { client, server } = Pair::new(world);
    server.run("ip addr add 10.7.0.1/32 dev lo").good();
    let router = world.router("", PORTS);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let write = |text: &str| std::fs::write(file.path(), text).expect("the file");
    let load = format!("route load {}", file.path().display());
    // More than one request holds.
    let many: String = (0..3000).map(|n| format!("20.{}.{}.0/24 via 10.0.2.2\n", n / 250, n % 250)).collect();
    write(&format!("# from a file\n10.7.0.0/24 via 10.0.2.2\n{many}"));
    let done = router.ask(&load).good().out;
    assert!(done.contains("3001 added, 0 changed, 0 as they were, 0 refused"), "{done}");
    client.reaches("10.7.0.1");
    write(&format!("{many}30.0.0.0/8 via 192.0.2.1\n10.7.0.0/24 via 10.0.2.3\n"));
    let partly = router.ask(&load);
    assert_eq!(partly.code, Some(1));
    let expected = [
        "0 added, 1 changed, 3000 as they were, 1 refused",
        &format!("the first refused is {}:3001: gateway 192.0.2.1 is not on", file.path().display()),
    ];
    assert!(expected.iter().all(|text| partly.out.contains(text)), "{}", partly.out);
    write("10.8.0.0/24 via 10.0.2.2\n10.9.0.0/24 by 10.0.2.2\n");
    router.ask(&load).refused(&format!("{}:2: found `by 10.0.2.2`, expected `via ADDRESS`", file.path().display()));
    router.ask(&load).refused("no route was loaded: one line has a mistake");
    write("10.7.0.0/25 prohibit\n");
    router.ask(&load).good();
    let shown = client.ping_refused("10.7.0.1");
    assert!(shown.contains("Packet filtered"), "{shown}");
    router.alone();
    router.stop();
}
