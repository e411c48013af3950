// SPDX-License-Identifier: MIT
//! The configurations in `examples/` are accepted by the programs they are for, and those for BGP do what they say.

use perigee_tests::{Host, LONG_WAIT, Needs, Router, World, run, scenario_with, wait_until_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

fn text(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Examples whose names begin and end with something.
fn named(begin: &str, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder()).expect("the folder of examples").flatten().map(|entry| entry.path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(begin) && name.ends_with(end)
    };
    all.filter(fits).collect()
}

#[test]
fn all_are_accepted() {
    scenario_with(&[Needs::BIRD, Needs::FRR], |world| {
        let (perigee, bird, frr) = (named("", ".toml"), named("bird-", ".conf"), named("frr-", ".conf"));
        assert!(perigee.len() >= 4 && bird.len() >= 2 && frr.len() >= 3, "examples are gone");
        for name in ["to-wan", "to-lan", "left", "right"] {
            world.ip(&format!("link add {name} type veth peer name {name}-peer"));
        }
        for file in perigee {
            world.perigee(&["check", &file.display().to_string()]).good();
        }
        for file in bird {
            run(Command::new("bird").arg("-p").arg("-c").arg(file)).good();
        }
        // Daemons that have every command of them; they, too, must not complain.
        let daemons = world.frr(&["zebra -M dplane_fpm_nl", "ospfd", "ospf6d", "bgpd"], "");
        for file in frr {
            daemons.load(&file);
        }
    });
}

/// A router by `daemons.toml`, and a host that is its provider.
fn with_a_provider(world: &World) -> (Router, Host, Host) {
    let provider = world.host("provider", &["10.0.1.2/24", "2001:db8:1::2/64"], &[]);
    let client = world.host("client", &["10.0.2.2/24", "2001:db8:2::2/64"], &["10.0.2.1", "2001:db8:2::1"]);
    world.ip("link set r-provider down");
    world.ip("link set r-provider name to-wan");
    world.ip("link set r-client down");
    world.ip("link set r-client name to-lan");
    for announced in ["20.0.0.1/32", "2001:db8:f000::1/128", "2001:db8:f001::1/128"] {
        provider.run(&format!("ip addr add {announced} dev lo")).good();
    }
    let place = "[router]\nsocket = \"/run/t.sock\"\n";
    let router = Router::start(&world.file("daemons.toml", &text("daemons.toml").replace("[router]\n", place)));
    (router, provider, client)
}

/// What the provider runs: routes that the example takes, and some that it refuses.
const PROVIDER: &str = "log stderr all;\nrouter id 10.0.1.2;\nprotocol device { }\n\
    protocol kernel { ipv4 { export where source = RTS_BGP; }; }\n\
    protocol kernel { ipv6 { export where source = RTS_BGP; }; }\n\
    protocol static { ipv4; route 20.0.0.0/24 blackhole; route 20.0.1.0/25 blackhole; route 10.66.0.0/16 blackhole; }\n\
    protocol static { ipv6; route 2001:db8:f000::/48 blackhole; route 2001:db8:f001:1::/64 blackhole; }\n\
    protocol bgp four { local 10.0.1.2 as 65002; neighbor 10.0.1.1 as 65001; connect delay time 1; error wait time 1, 2; \
    ipv4 { import all; export all; }; }\n\
    protocol bgp six { local 2001:db8:1::2 as 65002; neighbor 2001:db8:1::1 as 65001; connect delay time 1; \
    error wait time 1, 2; ipv6 { import all; export all; }; }\n";

/// Routes that shall be there are, and lead somewhere; those that are refused are not; the provider knows the way back.
fn does_what_it_says(router: &Router, client: &Host) {
    for (network, address) in [("20.0.0.0/24", "20.0.0.1"), ("2001:db8:f000::/48", "2001:db8:f000::1")] {
        router.leads(network, "wan");
        client.reaches(address);
        let before = router.workers("transmitted");
        client.ping(20, address);
        wait_until_for(LONG_WAIT, "the workers' counters", || router.workers("transmitted") >= before + 40);
    }
    for refused in ["20.0.1.0/25", "10.66.0.0/16", "2001:db8:f001:1::/64"] {
        assert_eq!(router.route(refused), None, "{refused}");
    }
    router.alone();
    router.audited();
}

#[test]
fn bgp_by_bird_does_what_it_says() {
    scenario_with(&[Needs::BIRD], |world| {
        let (router, provider, client) = with_a_provider(world);
        let _provider = provider.bird(PROVIDER);
        let bird = world.bird(&text("bird-bgp.conf"));
        bird.says("show protocols provider", "Established");
        bird.says("show protocols provider6", "Established");
        does_what_it_says(&router, &client);
        router.stop();
    });
}

#[test]
fn bgp_by_frr_does_what_it_says() {
    scenario_with(&[Needs::BIRD, Needs::FRR], |world| {
        let (router, provider, client) = with_a_provider(world);
        let _provider = provider.bird(PROVIDER);
        let _frr = world.frr(&["zebra -K 120", "bgpd"], &text("frr-bgp.conf"));
        does_what_it_says(&router, &client);
        router.stop();
    });
}
