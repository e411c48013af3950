// SPDX-License-Identifier: MIT
//! Expressions against an oracle: frames are built from known fields, expressions from a tree that is evaluated over
//! those fields, without looking at bytes or text. Then random words, which must never crash the parser.
//!
//! `PERIGEE_FUZZ` multiplies, `PERIGEE_FUZZ_SEED` repeats.

use perigee_packet::{Expression, Summary};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a frame is made of.
#[derive(Debug, Clone)]
struct Truth {
    to: u8,
    from: u8,
    vlan: Option<u16>,
    kind: Kind,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: (u16, u16),
    later_fragment: bool,
    padding: usize,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    V4,
    V6,
    Arp,
    Other,
}

/// A tree of the test's own.
#[derive(Debug, Clone)]
enum Tree {
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
    /// 0 source, 1 destination, 2 either; the address and how many bits of it count.
    Net(u8, IpAddr, u8),
    Port(u8, u16, u16),
    Proto(u8),
    Kind(Kind),
    Vlan(Option<u16>),
    Mac(u8, u8),
    Less(usize),
    Greater(usize),
    In(u16),
}

const PORTS: [&str; 3] = ["wan", "lan", "dmz"];

fn address(rng: &mut SmallRng, v4: bool) -> IpAddr {
    // Few bits vary, so that prefixes match often.
    let mut low = || rng.random_range(0..3u8) << rng.random_range(0..8);
    if v4 {
        IpAddr::V4(Ipv4Addr::new(10, low(), low(), low()))
    } else {
        IpAddr::V6(Ipv6Addr::from([0x20, 1, 0xd, 0xb8, low(), 0, 0, 0, 0, 0, 0, 0, 0, 0, low(), low()]))
    }
}

fn truth(rng: &mut SmallRng) -> Truth {
    let kind = [Kind::V4, Kind::V4, Kind::V6, Kind::V6, Kind::Arp, Kind::Other][rng.random_range(0..6)];
    Truth {
        to: rng.random_range(0..4),
        from: rng.random_range(0..4),
        vlan: rng.random_bool(0.3).then(|| rng.random_range(0..4)),
        kind,
        source: address(rng, kind != Kind::V6),
        destination: address(rng, kind != Kind::V6),
        protocol: [1, 6, 17, 58, 89][rng.random_range(0..5)],
        ports: (rng.random_range(0..50), rng.random_range(0..50)),
        later_fragment: rng.random_bool(0.1),
        padding: rng.random_range(0..60),
        port: rng.random_range(0..3),
    }
}

impl Truth {
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, self.to, 2, 0, 0, 0, 0, self.from];
        if let Some(vid) = self.vlan {
            frame.extend([0x81, 0x00, 0xe0 | (vid >> 8) as u8, vid as u8]);
        }
        let ports = [self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat();
        match (self.kind, self.source, self.destination) {
            (Kind::V4, IpAddr::V4(source), IpAddr::V4(destination)) => {
                let fragment = if self.later_fragment { 5 } else { 0 };
                // One word of options, so that the ports are not where they are most often.
                frame.extend([8, 0, 0x46, 0, 0, 0, 0, 0, 0, fragment, 64, self.protocol, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                frame.extend([1, 1, 1, 1]);
                frame.extend(ports);
            }
            (Kind::V6, IpAddr::V6(source), IpAddr::V6(destination)) => {
                let first = if self.later_fragment { 44 } else { self.protocol };
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, first, 64]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
                if self.later_fragment {
                    frame.extend([self.protocol, 0, 1, 0, 0, 0, 0, 0]);
                }
                frame.extend(ports);
            }
            (Kind::Arp, IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
                frame.extend(source.octets());
                frame.extend([0; 6]);
                frame.extend(destination.octets());
            }
            _ => frame.extend([0x88, 0xcc]),
        }
        frame.resize(frame.len() + self.padding, 0xa5);
        frame
    }

    fn ports(&self) -> Option<(u16, u16)> {
        let ip = matches!(self.kind, Kind::V4 | Kind::V6);
        (ip && !self.later_fragment && [6, 17].contains(&self.protocol)).then_some(self.ports)
    }
}

/// Bit by bit, most significant first.
fn same_bits(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let octets = |address| match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let (a, b) = (octets(a), octets(b));
    let bit = |of: &[u8], i: usize| of[i / 8] >> (7 - i % 8) & 1;
    a.len() == b.len() && (0..usize::from(bits)).all(|i| bit(&a, i) == bit(&b, i))
}

fn either(end: u8, source: bool, destination: bool) -> bool {
    [source, destination, source || destination][usize::from(end)]
}

fn oracle(tree: &Tree, t: &Truth) -> bool {
    match tree {
        Tree::And(a, b) => oracle(a, t) & oracle(b, t),
        Tree::Or(a, b) => oracle(a, t) | oracle(b, t),
        Tree::Not(a) => !oracle(a, t),
        Tree::Net(end, net, bits) => {
            t.kind != Kind::Other
                && either(*end, same_bits(t.source, *net, *bits), same_bits(t.destination, *net, *bits))
        }
        Tree::Port(end, low, high) => t.ports().is_some_and(|(s, d)| {
            let within = |port: u16| port >= *low && port <= *high;
            either(*end, within(s), within(d))
        }),
        Tree::Proto(number) => matches!(t.kind, Kind::V4 | Kind::V6) && t.protocol == *number,
        Tree::Kind(kind) => t.kind == *kind,
        Tree::Vlan(vid) => t.vlan.is_some() && (vid.is_none() || *vid == t.vlan),
        Tree::Mac(end, last) => either(*end, t.from == *last, t.to == *last),
        Tree::Less(length) => t.frame().len() <= *length,
        Tree::Greater(length) => t.frame().len() >= *length,
        Tree::In(port) => t.port == *port,
    }
}

fn tree(rng: &mut SmallRng, depth: usize) -> Tree {
    let inner = |rng: &mut SmallRng| Box::new(tree(rng, depth - 1));
    let end = rng.random_range(0..3);
    match rng.random_range(if depth == 0 { 4 } else { 0 }..13) {
        0 | 1 => Tree::And(inner(rng), inner(rng)),
        2 => Tree::Or(inner(rng), inner(rng)),
        3 => Tree::Not(inner(rng)),
        4 | 5 => {
            let v4 = rng.random_bool(0.6);
            let bits = rng.random_range(0..=if v4 { 32 } else { 128 });
            Tree::Net(end, address(rng, v4), bits)
        }
        6 => {
            let low = rng.random_range(0..50);
            Tree::Port(end, low, rng.random_range(low..=50))
        }
        7 => Tree::Proto([1, 6, 17, 58, 89][rng.random_range(0..5)]),
        8 => Tree::Kind([Kind::V4, Kind::V6, Kind::Arp][rng.random_range(0..3)]),
        9 => Tree::Vlan(rng.random_bool(0.7).then(|| rng.random_range(0..4))),
        10 => Tree::Mac(end, rng.random_range(0..4)),
        11 if rng.random_bool(0.5) => Tree::Less(rng.random_range(0..130)),
        11 => Tree::Greater(rng.random_range(0..130)),
        _ => Tree::In(rng.random_range(0..3)),
    }
}

/// The tree as text, in one of several equivalent ways.
fn words(tree: &Tree, rng: &mut SmallRng) -> String {
    let ended = |end: u8| ["src ", "dst ", ""][usize::from(end)];
    match tree {
        Tree::And(a, b) => {
            let and = ["and", "&&"][rng.random_range(0..2)];
            format!("({} {and} {})", words(a, rng), words(b, rng))
        }
        Tree::Or(a, b) => {
            let or = ["or", "||"][rng.random_range(0..2)];
            format!("({} {or} {})", words(a, rng), words(b, rng))
        }
        Tree::Not(a) => format!("{} ({})", ["not", "!"][rng.random_range(0..2)], words(a, rng)),
        Tree::Net(end, net, bits) => {
            let word = if *end == 2 || rng.random_bool(0.7) { ["net ", "host "][rng.random_range(0..2)] } else { "" };
            format!("{}{word}{net}/{bits}", ended(*end))
        }
        Tree::Port(end, low, high) => {
            let word = match end {
                0 if rng.random_bool(0.5) => "sport ".to_owned(),
                1 if rng.random_bool(0.5) => "dport ".to_owned(),
                end => format!("{}port ", ended(*end)),
            };
            if low == high { format!("{word}{low}") } else { format!("{word}{low}-{high}") }
        }
        Tree::Proto(number) => match (number, rng.random_bool(0.5)) {
            (1, true) => "icmp".to_owned(),
            (6, true) => "tcp".to_owned(),
            (17, true) => "proto udp".to_owned(),
            (58, true) => "proto icmp6".to_owned(),
            (number, _) => format!("proto {number}"),
        },
        Tree::Kind(Kind::V4) => "ip".to_owned(),
        Tree::Kind(Kind::V6) => "ip6".to_owned(),
        Tree::Kind(_) => "arp".to_owned(),
        Tree::Vlan(None) => "vlan".to_owned(),
        Tree::Vlan(Some(vid)) => format!("vlan {vid}"),
        Tree::Mac(end, last) => {
            format!("ether {} 02:00:00:00:00:{last:02x}", ["src", "dst", "host"][usize::from(*end)])
        }
        Tree::Less(length) => format!("less {length}"),
        Tree::Greater(length) => format!("greater {length}"),
        Tree::In(port) => format!("in {}", PORTS[usize::from(*port)]),
    }
}

fn port(name: &str) -> Option<u16> {
    PORTS.iter().position(|port| *port == name).map(|number| number as u16)
}

fn read(text: &str) -> Expression {
    Expression::parse(text, port).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn rng() -> (SmallRng, usize) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    (SmallRng::seed_from_u64(seed), number("PERIGEE_FUZZ").unwrap_or(1) as usize)
}

#[test]
fn an_expression_matches_what_the_oracle_says() {
    let (mut rng, times) = rng();
    let mut matched = 0;
    for _ in 0..20_000 * times {
        let depth = rng.random_range(0..5);
        let tree = tree(&mut rng, depth);
        let text = words(&tree, &mut rng);
        let expression = read(&text);
        assert_eq!(read(&expression.to_string()), expression, "{text}\n{expression}");
        for _ in 0..5 {
            let truth = truth(&mut rng);
            let expected = oracle(&tree, &truth);
            matched += usize::from(expected);
            assert_eq!(expression.matches(&truth.frame(), truth.port), expected, "{text}\n{truth:?}");
        }
    }
    let all = 100_000 * times;
    assert!((all / 5..all * 4 / 5).contains(&matched), "{matched} of {all} matched: this tests little");
}

#[test]
fn words_and_bytes_at_random_are_survived() {
    let (mut rng, times) = rng();
    let vocabulary = [
        "host",
        "net",
        "src",
        "dst",
        "port",
        "sport",
        "dport",
        "proto",
        "tcp",
        "udp",
        "icmp",
        "arp",
        "ip",
        "ip6",
        "vlan",
        "ether",
        "less",
        "greater",
        "in",
        "wan",
        "and",
        "or",
        "not",
        "!",
        "(",
        ")",
        "&&",
        "||",
        "10.0.0.1",
        "10.0.0.0/8",
        "::/0",
        "2001:db8::/33",
        "10.0.0.0/33",
        "1-2",
        "2-1",
        "70000",
        "53",
        "02:00:00:00:00:01",
        "+5",
        "-",
        "/",
        "é",
        "",
    ];
    let mut read = 0;
    for _ in 0..200_000 * times {
        let n = rng.random_range(0..9);
        let mut text: String =
            (0..n).map(|_| vocabulary[rng.random_range(0..vocabulary.len())].to_owned() + " ").collect();
        if rng.random_bool(0.1) && !text.is_empty() {
            let at = rng.random_range(0..=text.chars().count());
            let byte = text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
            text.insert(byte, char::from_u32(rng.random_range(1..0x500)).unwrap_or('x'));
        }
        match Expression::parse(&text, port) {
            Ok(expression) => {
                read += 1;
                let frame: Vec<u8> = (0..rng.random_range(0..80)).map(|_| rng.random()).collect();
                expression.matches(&frame, 0);
                assert_eq!(Expression::parse(&expression.to_string(), port), Ok(expression), "{text}");
            }
            Err(error) => {
                assert!((1..=text.chars().count() + 1).contains(&error.position), "{text}: {error}");
                assert!(!error.found.is_empty() && !error.expected.is_empty());
            }
        }
    }
    assert!(read > 1000 * times, "only {read} were expressions");
}

#[test]
fn any_frame_has_a_line() {
    let (mut rng, times) = rng();
    for _ in 0..100_000 * times {
        let mut frame = truth(&mut rng).frame();
        for _ in 0..rng.random_range(0..4) {
            let at = rng.random_range(0..frame.len());
            frame[at] = rng.random();
        }
        frame.truncate(rng.random_range(0..=frame.len()));
        let line = Summary::of(&frame).to_string();
        assert!(line.contains(&format!("{} bytes", frame.len())) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn mistakes_are_found_where_they_are() {
    let error = |text: &str| Expression::parse(text, port).expect_err(text).to_string();
    let cases = [
        ("host", "filter, character 5: found the end, expected an address or a prefix such as"),
        ("host ten", "filter, character 6: found `ten`, expected an address"),
        ("net 10.0.0.0/33", "filter, character 5: found `10.0.0.0/33`, expected a prefix"),
        ("port 53 53", "filter, character 9: found `53`, expected `and`, `or` or the end"),
        ("port 2-1", "filter, character 6: found `2-1`, expected a port's number, or two"),
        ("(tcp or udp", "filter, character 12: found the end, expected `and`, `or` or `)`"),
        ("tcp)", "filter, character 4: found `)`, expected `and`, `or` or the end"),
        ("in moon", "filter, character 4: found `moon`, expected the name of a port"),
        ("proto 256", "filter, character 7: found `256`, expected tcp, udp"),
        ("vlan 4096", "filter, character 6: found `4096`, expected a VLAN's number"),
        ("ether 02:00:00:00:00:01", "filter, character 7: found `02:00:00:00:00:01`, expected `src`, `dst` or `host`"),
        ("é and nonsense", "filter, character 1: found `é`, expected a primitive such as"),
        ("not", "filter, character 4: found the end, expected a primitive"),
    ];
    for (text, expected) in cases {
        assert!(error(text).starts_with(expected), "{text}: {}", error(text));
    }
    assert!(error(&"(".repeat(100)).contains("no more than 32 parentheses"));
    assert!(error(&"not ".repeat(100)).contains("no more than 32 parentheses"));
    assert!(error(&"tcp and ".repeat(1000)).contains("at most 4096"));
    // Long lists are no nesting.
    read(&vec!["tcp"; 500].join(" or "));
}

#[test]
fn words_of_tcpdump_mean_the_same_here() {
    for (text, same) in [
        ("tcp port 80", "tcp and port 80"),
        ("not tcp port 80", "not (tcp and port 80)"),
        ("tcp port 80 and host 10.0.0.1", "(tcp and port 80) and net 10.0.0.1/32"),
        ("src 10.0.0.1", "src host 10.0.0.1"),
        ("src port 53", "sport 53"),
        ("net 10.1.2.3/8", "net 10.0.0.0/8"),
        ("udp or tcp and less 100", "udp or (tcp and less 100)"),
        ("! arp", "not arp"),
    ] {
        let flat = |expression: Expression| expression.to_string().replace(['(', ')'], "");
        assert_eq!(flat(read(text)), flat(read(same)), "{text}");
    }
    assert!(read("").matches(&[], 9), "the empty expression matches everything");
}

/// A word with control characters commanded the terminal that its refusal was printed on.
#[test]
fn a_refusal_quotes_no_control_characters() {
    let error = Expression::parse("tcp \u{1b}[2J", |_| None).unwrap_err();
    assert_eq!(error.to_string(), "filter, character 5: found `?[2J`, expected `and`, `or` or the end");
}
