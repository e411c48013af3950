// SPDX-License-Identifier: MIT
//! Random bytes and mutations of good files: the parsers answer or list mistakes, they never panic.

use perigee_config::{Config, Machine, parse_routes};
use rand::prelude::*;

const CONFIG: &str = r#"
[router]
burst = 32
transmit_timeout = "100us"
cores = [0, 1]
[eal]
args = ["--log-level=8"]
memory = 64
[linux]
tables = ["main", 7]
protocols = ["bird"]
receive_buffer = "16 MB"
audit = "60s"
[port.wan]
device = "net_pcap0,rx_pcap=in.pcap"
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1/24", "2001:db8::1/64"]
[port.wan.vlan.7]
addresses = ["10.7.0.1/24"]
multicast_ttl = 16
multicast_boundary = ["239.0.0.0/8"]
[[route]]
prefix = "0.0.0.0/0"
via = [{ address = "10.0.0.2", weight = 2 }, { address = "10.7.0.2" }]
[[neighbor]]
address = "10.0.0.2"
mac = "02:00:00:00:00:02"
[[multicast]]
group = "239.1.1.1"
source = "10.0.0.2"
from = "wan"
to = ["wan.7"]
[[filter]]
proto = "tcp"
dport = "80-443"
action = "drop"
[[steer]]
ethertype = "arp"
"#;

const ROUTES: &str =
    "10.1.0.0/16 via 10.0.0.2 dev wan # x\n2001:db8:1::/48 via fe80::2 dev wan metric 3\n\n1.0.0.0/8 blackhole\n";

/// Pieces that are more likely to reach deep than single bytes.
const PIECES: [&str; 16] = [
    "[[",
    "]]",
    "\"",
    "'''",
    "\n",
    "=",
    ".",
    "/33",
    "-1",
    "99999999999999999999",
    "{",
    "}",
    "é",
    "\u{0}",
    "via",
    "[port.wan]\n",
];

fn rounds() -> u64 {
    std::env::var("PERIGEE_FUZZ_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

fn mutated(good: &str, rng: &mut StdRng) -> String {
    let mut bytes = good.as_bytes().to_vec();
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=bytes.len());
        match rng.random_range(0..5) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = rng.random(),
            2 if at < bytes.len() => {
                let end = (at + rng.random_range(1..20)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let from = rng.random_range(0..=at);
                let copy = bytes[from..at].to_vec();
                bytes.splice(at..at, copy.into_iter().take(60));
            }
            _ => {
                let piece = PIECES[rng.random_range(0..PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn random(rng: &mut StdRng) -> String {
    let length = rng.random_range(0..200);
    let bytes: Vec<u8> = (0..length).map(|_| rng.random()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn no_text_makes_a_parser_panic() {
    let machine = Machine { cores: vec![0, 1], ..Machine::default() };
    let interfaces = Config::parse_on("good.toml", CONFIG, &machine).unwrap().interfaces;
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..rounds() {
        let mut rng = StdRng::seed_from_u64(seed);
        let (config, routes) = match seed % 8 {
            0 => (random(&mut rng), random(&mut rng)),
            _ => (mutated(CONFIG, &mut rng), mutated(ROUTES, &mut rng)),
        };
        let outcome = std::panic::catch_unwind(|| {
            let parsed = Config::parse_on("fuzz.toml", &config, &machine);
            let listed = parse_routes("fuzz.txt", &routes, &interfaces);
            // Showing a mistake cuts text too.
            let shown = [parsed.as_ref().err().map(ToString::to_string), listed.err().map(|e| e.to_string())];
            assert!(shown.iter().flatten().all(|text| !text.is_empty()), "a refusal without a word");
            parsed.inspect(|config| {
                let again = Config::parse_on("again.toml", &config.to_toml(), &machine);
                assert_eq!(again.as_ref().map(Config::to_toml).ok(), Some(config.to_toml()));
                let changed = again.map(|again| config.restart_needed(&again));
                assert!(
                    changed.is_ok_and(|keys| keys.is_empty()),
                    "printed and read again, it is another configuration"
                );
            })
        });
        match outcome {
            Ok(Ok(_)) => accepted += 1,
            Ok(Err(_)) => refused += 1,
            Err(_) => panic!("seed {seed} with the configuration\n{config}\nand the routes\n{routes}"),
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 0 && refused > 0, "the mutations reach only one side");
}
