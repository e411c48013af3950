// SPDX-License-Identifier: MIT
//! The configurations in `examples/` are accepted by the programs they are for, and those for BGP work as described.

use perigee_lab::bird::{Channel, Configuration, Session};
use perigee_tests::{Good, Host, Router, World, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

perigee_tests::scenarios![
    all_are_accepted needs BIRDC FRR,
    bgp_by_bird_does_what_it_says needs BIRDC,
    bgp_by_frr_does_what_it_says needs BIRDC FRR,
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

fn text(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Examples whose names begin and end like this.
fn named(begin: &str, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder()).expect("the folder of examples").flatten().map(|entry| entry.path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(begin) && name.ends_with(end)
    };
    all.filter(fits).collect()
}

fn all_are_accepted(world: &World) {
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
        daemons.load(&file).good();
    }
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
fn provider_bird() -> String {
    let session = |name, own, router, family| Session {
        name,
        local: (own, 65_002),
        neighbor: (router, 65_001),
        options: "",
        channel: Channel { family, import: "all", export: "all" },
    };
    let all = Configuration::new("10.0.1.2")
        .kernel("ipv4", "where source = RTS_BGP", "")
        .kernel("ipv6", "where source = RTS_BGP", "")
        .networks("four_networks", "ipv4", false, ["20.0.0.0/24", "20.0.1.0/25", "10.66.0.0/16"])
        .networks("six_networks", "ipv6", false, ["2001:db8:f000::/48", "2001:db8:f001:1::/64"])
        .bgp(&session("four", "10.0.1.2", "10.0.1.1", "ipv4"))
        .bgp(&session("six", "2001:db8:1::2", "2001:db8:1::1", "ipv6"));
    all.text().to_owned()
}

/// Wanted routes are there and lead somewhere; refused ones are not there; the provider knows the way back.
fn does_what_it_says(router: &Router, client: &Host) {
    for (network, address) in [("20.0.0.0/24", "20.0.0.1"), ("2001:db8:f000::/48", "2001:db8:f000::1")] {
        router.leads(network, "wan");
        client.reaches(address);
        let before = router.workers("transmitted");
        client.ping(20, address);
        router.transmits(before + 40);
    }
    for refused in ["20.0.1.0/25", "10.66.0.0/16", "2001:db8:f001:1::/64"] {
        assert_eq!(router.route(refused), None, "{refused}");
    }
    router.alone();
    router.audited();
}

fn bgp_by_bird_does_what_it_says(world: &World) {
    let (router, provider, client) = with_a_provider(world);
    let _provider = provider.bird(&provider_bird());
    let bird = world.bird(&text("bird-bgp.conf"));
    bird.says("show protocols provider", "Established").good();
    bird.says("show protocols provider6", "Established").good();
    does_what_it_says(&router, &client);
    router.stop();
}

fn bgp_by_frr_does_what_it_says(world: &World) {
    let (router, provider, client) = with_a_provider(world);
    let _provider = provider.bird(&provider_bird());
    let _frr = world.frr(&["zebra -K 120", "bgpd"], &text("frr-bgp.conf"));
    does_what_it_says(&router, &client);
    router.stop();
}
