// SPDX-License-Identifier: MIT
//! Fuzzes every view on the stable toolchain: random bytes, captured packets with some bytes changed, and captured
//! packets cut off at every length.
//!
//! `PERIGEE_FUZZ` multiplies the number of inputs per view (200,000), `PERIGEE_FUZZ_SEED` is the seed (default: a new
//! one each time). A failure prints the seed and the input. `./x fuzz views` feeds libFuzzer's inputs to the same
//! functions.

#[path = "../src/wire/captured.rs"]
mod captured;
mod exercise;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Prints the input that was being tried when an assertion failed.
struct Report<'a>(&'a [u8]);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("input: {:02x?}", self.0);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; set it to a number")))
}

/// Runs `exercise` on all inputs; `layer` cuts a view's bytes out of a captured packet.
fn fuzz(exercise: fn(&[u8]) -> bool, captured: &[&str], layer: usize) {
    let corpus: Vec<Vec<u8>> = captured.iter().map(|hex| captured::layer(hex, layer)).collect();
    for bytes in &corpus {
        assert!(exercise(bytes), "a captured packet is refused: {bytes:02x?}");
        for len in 0..bytes.len() {
            let _report = Report(&bytes[..len]);
            exercise(&bytes[..len]);
        }
    }

    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    let times = number("PERIGEE_FUZZ").unwrap_or(1);
    println!("PERIGEE_FUZZ_SEED={seed} PERIGEE_FUZZ={times}");
    let count = 200_000 * times;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut taken = 0;
    for turn in 0..count {
        let input = if turn % 4 == 0 { random(&mut rng) } else { mutated(&mut rng, &corpus) };
        let _report = Report(&input);
        taken += u64::from(exercise(&input));
    }
    println!("{taken} of {count} inputs were taken");
    // An exercise that refuses nearly everything would test nothing behind the constructor.
    assert!(count < 1000 || taken > count / 20, "only {taken} of {count} inputs got past the constructor");
}

fn random(rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..128)];
    rng.fill(&mut bytes[..]);
    bytes
}

/// A captured packet with one to six changes, half of them near the front, where the lengths and types are.
fn mutated(rng: &mut SmallRng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[rng.random_range(0..corpus.len())].clone();
    for _ in 0..rng.random_range(1..=6) {
        if bytes.is_empty() {
            break;
        }
        let reach = if rng.random() { bytes.len() } else { bytes.len().min(24) };
        let at = rng.random_range(0..reach);
        match rng.random_range(0..6) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = [0, 1, 2, 4, 7, 8, 0x7f, 0x80, 0xfe, 0xff][rng.random_range(0..10)],
            2 => bytes[at] = rng.random(),
            3 => bytes.truncate(at),
            4 => bytes.insert(at, rng.random()),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

/// Where the layers of an untagged frame start: the network header, and what it carries over either protocol.
const NETWORK: usize = 14;
const OVER_IPV4: usize = NETWORK + 20;
const OVER_IPV6: usize = NETWORK + 40;

/// A service and a customer tag, then an IPv4 packet.
const TAGGED: &str = "ffffffffffff52540012345688a800648100b00a0800450000245b0240004001c7d40a0002010a0002020800b7d2341c\
    00010001020304050607";
/// Hop-by-hop, routing, fragment and destination options headers, then UDP.
const EXTENSIONS_6: &str = "ea3c9a447e0a0ece00b6b1ca86dd6000000000280040fe800000000000000cce00fffeb6b1cafe80000000000000e83c\
    9afffe447e0a2b000502000001002c000401000000003c0000010102030411000104000000000035003500080000";
/// A router advertisement with prefix, MTU and source link-layer address.
const ROUTER_ADVERTISEMENT: &str = "3333000000010ece00b6b1ca86dd6000000000403afffe800000000000000cce00fffeb6b1caff020000000000000000\
    000000000001860000004080070800007530000003e8030440c000015180000038400000000020010db8000000000000\
    00000000000005010000000005dc01010ece00b6b1ca";
/// A redirect with target link-layer address and redirected header.
const REDIRECT_6: &str = "ea3c9a447e0a0ece00b6b1ca86dd6000000000403afffe800000000000000cce00fffeb6b1cafe80000000000000e83c\
    9afffe447e0a8900000000000000fe80000000000000e83c9afffe447e0a20010db80000000000000000000000010201\
    ea3c9a447e0a04020000000000006000000000003aff";

macro_rules! fuzz_tests {
    ($($name:ident($layer:expr): $($captured:expr),+;)+) => {
        $(
            #[test]
            fn $name() {
                fuzz(exercise::$name, &[$($captured),+], $layer);
            }
        )+
    };
}

fuzz_tests! {
    ethernet(0): captured::ECHO_REQUEST_4, captured::UDP_6, captured::MLD_REPORT, captured::ARP_REPLY, TAGGED, EXTENSIONS_6;
    vlan(14): TAGGED;
    arp(NETWORK): captured::ARP_REQUEST, captured::ARP_REPLY;
    ipv4(NETWORK): captured::ECHO_REQUEST_4, captured::RECORD_ROUTE_4, captured::TIMESTAMP_4, captured::TCP_SYN_4;
    icmp4(OVER_IPV4): captured::ECHO_REQUEST_4, captured::ECHO_REPLY_4, captured::UNREACHABLE_4;
    ipv6(NETWORK): captured::ECHO_REQUEST_6, captured::MLD_REPORT, captured::UDP_6, EXTENSIONS_6;
    icmp6(OVER_IPV6): captured::SOLICITATION_DAD, captured::ADVERTISEMENT, captured::ROUTER_SOLICITATION,
        captured::ECHO_REQUEST_6, captured::UNREACHABLE_6, ROUTER_ADVERTISEMENT, REDIRECT_6;
    udp(OVER_IPV4): captured::UDP_4;
}
