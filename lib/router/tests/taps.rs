// SPDX-License-Identifier: MIT
//! Traces and captures of whole routers on heap packets: what they show, that they end, and that every buffer is
//! returned.

mod common;

use common::*;
use perigee_api::Server;
use perigee_api::client::{ApiClient, ClientError};
use perigee_api::pcapng::{Block, Direction, Packet, Reader};
use perigee_api::queries::Reload;
use perigee_api::taps::{TraceEntry, TraceLine, TraceStep};
use perigee_packet::wire::arp;
use perigee_packet::{Arp, Ethernet};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::PathBuf;
use std::sync::Arc;

/// A route by a neighbor that is known, as the sender is.
fn routed() -> String {
    let route = "[[route]]\nprefix = \"10.3.0.0/16\"\nvia = \"10.0.2.2\"\n";
    [TWO_PORTS, route, &neighbors(&[("10.0.2.2", PEER_B), ("10.0.1.2", PEER_A)])].concat()
}

/// A router and its API.
struct Tapped {
    bed: Bed,
    server: Server,
    socket: PathBuf,
    folder: tempfile::TempDir,
}

impl Tapped {
    fn new(text: &str, queues: Queues) -> Tapped {
        let folder = tempfile::tempdir().unwrap();
        let mut bed = Bed::new(text, &folder.path().join("router.toml"), queues);
        bed.settle();
        (0..2).for_each(|port| drop(bed.sent(port)));
        let socket = folder.path().join("api.sock");
        let server = Server::start(&socket, None, Arc::new(bed.mailbox.clone())).unwrap();
        Tapped { bed, server, socket, folder }
    }

    /// Starts a stream and waits until its first piece has come: the tap is on, and every worker has seen it.
    fn stream(&mut self, path: &str) -> Stream {
        let (socket, path) = (self.socket.clone(), path.to_owned());
        let (on, is_on) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let client = ApiClient::connect(&socket)?;
            client.stream(&path, |piece| {
                bytes.extend(piece);
                let _ = on.send(());
                true
            })?;
            Ok(bytes)
        });
        while is_on.try_recv().is_err() && !thread.is_finished() {
            self.bed.settle();
        }
        self.bed.settle();
        Stream(thread)
    }

    /// Injects frames on port a, one burst each.
    fn send(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            assert!(self.bed.receive[0][0].inject(frame));
            self.bed.settle();
        }
    }

    /// The stream's bytes, once it has ended by itself.
    fn end_of(&mut self, stream: Stream) -> Result<Vec<u8>, ClientError> {
        while !stream.0.is_finished() {
            self.bed.settle();
        }
        stream.0.join().unwrap()
    }

    fn traces(&mut self, stream: Stream) -> Vec<TraceEntry> {
        let bytes = self.end_of(stream).unwrap();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(|line| serde_json::from_slice::<TraceLine>(line).unwrap());
        lines.filter_map(|line| if let TraceLine::Trace(entry) = line { Some(*entry) } else { None }).collect()
    }

    fn packets(&mut self, stream: Stream) -> Vec<Packet> {
        let mut reader = Reader::default();
        reader.push(&self.end_of(stream).unwrap());
        let blocks = std::iter::from_fn(|| reader.block().unwrap());
        let packets = blocks.filter_map(|block| if let Block::Packet(packet) = block { Some(packet) } else { None });
        let packets = packets.collect();
        assert!(reader.is_empty());
        packets
    }

    /// Ends everything: no buffer may be missing.
    fn end(self) {
        let Tapped { bed, server, folder, .. } = self;
        assert_eq!(bed.end(), 0, "packet buffers are missing");
        drop((server, folder));
    }
}

struct Stream(std::thread::JoinHandle<Result<Vec<u8>, ClientError>>);

fn steps(entry: &TraceEntry) -> Vec<(&str, &str)> {
    entry.steps.iter().map(|step| (step.module.as_str(), step.decision.as_str())).collect()
}

fn step<'a>(entry: &'a TraceEntry, module: &str) -> &'a TraceStep {
    let found = entry.steps.iter().find(|step| step.module == module);
    found.unwrap_or_else(|| panic!("no {module} in {entry:#?}"))
}

#[test]
fn a_forwarded_packet_is_followed_through_every_module() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    let stream = tapped.stream("/v1/trace?count=1&filter=dst%2010.3.0.0/16");
    // The first does not match.
    tapped.send(&[udp("10.0.2.2", 64, 1000), udp("10.3.4.5", 64, 1000), udp("10.3.4.6", 64, 1000)]);
    let traces = tapped.traces(stream);
    assert_eq!(traces.len(), 1, "no more than wanted");
    let trace = &traces[0];
    assert_eq!((trace.port.as_str(), trace.length), ("a", 62));
    assert!(trace.time > 1_700_000_000_000_000_000, "since 1970, not since the router started: {}", trace.time);
    assert_eq!(trace.packet, "10.0.1.2.1000 > 10.3.4.5.9: UDP, TTL 64, 62 bytes");
    let sent: String = udp("10.3.4.5", 64, 1000).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(trace.bytes, sent);
    let expected = [
        ("classify", "goes on"),
        ("ipv4_valid", "goes on"),
        ("filter", "goes on"),
        ("urpf", "goes on"),
        ("multicast", "goes on"),
        ("ipv4_lookup", "next hop"),
        ("mtu", "goes on"),
        ("redirect", "goes on"),
        ("ttl", "goes on"),
        ("apply", "goes on"),
        ("distribute", "transmitted"),
    ];
    assert_eq!(steps(trace), expected);
    let lookup = step(trace, "ipv4_lookup");
    let route = lookup.route.as_ref().unwrap();
    assert_eq!((route.prefix.to_string().as_str(), route.source.name()), ("10.3.0.0/16", "static"));
    assert_eq!(lookup.detail.as_deref(), Some("via 10.0.2.2 dev b"));
    assert_eq!(step(trace, "ttl").detail.as_deref(), Some("64 hops left become 63"));
    assert_eq!(step(trace, "apply").detail.as_deref(), Some("02:00:00:00:00:01 > 02:00:00:00:01:0b, port b"));
    assert_eq!(step(trace, "distribute").detail.as_deref(), Some("port b"));
    tapped.end();
}

#[test]
fn a_drop_says_its_reason_and_section() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    let stream = tapped.stream("/v1/trace?count=2");
    let mut broken = udp("10.3.4.5", 64, 1000);
    broken[24] ^= 1;
    tapped.send(&[broken, udp("127.0.0.1", 64, 1000)]);
    let traces = tapped.traces(stream);
    for (trace, reason) in traces.iter().zip(["ipv4_valid.checksum", "ipv4_valid.martian_destination"]) {
        assert_eq!(steps(trace), [("classify", "goes on"), ("ipv4_valid", "dropped")]);
        let dropped = step(trace, "ipv4_valid");
        assert_eq!(dropped.reason.as_deref(), Some(reason));
        assert!(dropped.rfc.as_ref().is_some_and(|rfc| rfc.starts_with("RFC 1812 5.")), "{dropped:?}");
    }
    assert_eq!(traces.len(), 2);
    tapped.end();
}

#[test]
fn a_punted_packet_is_followed_into_the_slow_path() {
    followed_into_the_slow_path(&routed());
}

// While a tap is on, the threads of the slow path leave everything to one of them.
#[test]
fn a_punted_packet_is_followed_into_a_slow_path_of_several_threads() {
    followed_into_the_slow_path(&routed().replace("[router]\n", "[router]\nslow_paths = 4\n"));
}

fn followed_into_the_slow_path(text: &str) {
    let mut tapped = Tapped::new(text, ONE_EACH);
    let stream = tapped.stream("/v1/trace?count=2");
    tapped.send(&[udp("10.3.4.5", 1, 1000), udp("10.0.2.77", 64, 1000)]);
    let traces = tapped.traces(stream);
    let [expired, unresolved] = &traces[..] else { panic!("two traces: {traces:#?}") };
    let punted = step(expired, "ttl");
    assert_eq!((punted.decision.as_str(), punted.reason.as_deref()), ("punted", Some("ttl.expired")));
    assert_eq!(punted.rfc.as_deref(), Some("RFC 1812 5.3.1"));
    let slow: Vec<_> = expired.steps.iter().filter(|step| step.module == "slowpath").collect();
    assert!(slow.iter().any(|step| step.decision == "icmp errors sent" && step.rfc.is_some()), "{slow:#?}");
    assert!(slow.iter().any(|step| step.reason.as_deref() == Some("slowpath.ttl_expired")), "{slow:#?}");
    let sent = slow.iter().find(|step| step.decision == "transmitted").expect("the error is sent");
    let sent = sent.detail.as_deref().unwrap();
    assert!(sent.starts_with("port a: 10.0.1.1 > 10.0.1.2: ICMP time exceeded"), "{sent}");

    let punted = step(unresolved, "ipv4_lookup");
    assert_eq!(punted.reason.as_deref(), Some("ipv4_lookup.unresolved"));
    assert_eq!(punted.route.as_ref().map(|route| route.prefix.to_string()).as_deref(), Some("10.0.2.0/24"));
    let slow: Vec<_> = unresolved.steps.iter().filter(|step| step.module == "slowpath").collect();
    assert!(slow.iter().any(|step| step.decision == "waits"), "{slow:#?}");
    let asked = slow.iter().filter_map(|step| step.detail.as_deref()).any(|d| d.contains("ARP: who has 10.0.2.77?"));
    assert!(asked, "{slow:#?}");
    tapped.end();
}

#[test]
fn a_port_is_captured_in_both_directions_and_from_both_paths() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    let (a, b) = (tapped.stream("/v1/capture?port=a&count=3"), tapped.stream("/v1/capture?port=b&count=2&snaplen=20"));
    // Forwarded; expired, so answered by the slow path; for an unknown neighbor, so the slow path asks for it.
    tapped.send(&[udp("10.3.4.5", 64, 1000), udp("10.3.4.5", 1, 1000)]);
    tapped.send(&[udp("10.0.2.77", 64, 1000)]);
    let a = tapped.packets(a);
    assert_eq!(
        a.iter().map(|p| p.direction.unwrap()).collect::<Vec<_>>(),
        [Direction::In, Direction::In, Direction::Out]
    );
    assert_eq!((&a[0].bytes, &a[1].bytes), (&udp("10.3.4.5", 64, 1000), &udp("10.3.4.5", 1, 1000)), "as they came in");
    assert_eq!(a[2].bytes[34..36], [11, 0], "ICMP time exceeded");
    assert!(a.iter().all(|packet| packet.comment.is_none() && packet.interface == 0));

    let b = tapped.packets(b);
    let sent = tapped.bed.sent(1);
    assert_eq!(b.len(), 2);
    // The worker's packet waits in the transmit buffer for its turn, so the wire may have another order.
    for packet in &b {
        assert_eq!((packet.direction, packet.bytes.len()), (Some(Direction::Out), 20));
        let on_wire = sent.iter().find(|frame| frame.starts_with(&packet.bytes)).expect("on the wire too");
        assert_eq!(packet.length as usize, on_wire.len());
    }
    tapped.end();
}

#[test]
fn drops_and_punts_are_captured_with_their_reasons() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    let (drops, punts) =
        (tapped.stream("/v1/capture?what=drops&count=3"), tapped.stream("/v1/capture?what=punts&count=2"));
    let mut broken = udp("10.3.4.5", 64, 1000);
    broken[24] ^= 1;
    let mut other = udp("10.3.4.5", 64, 1000);
    other[5] = 0x77;
    tapped.send(&[
        broken.clone(),
        other.clone(),
        udp("10.3.4.5", 64, 1000),
        udp("10.3.4.5", 1, 1000),
        udp("10.0.1.1", 64, 1000),
    ]);
    let drops = tapped.packets(drops);
    let comment = |packet: &Packet| packet.comment.clone().unwrap();
    assert_eq!((&drops[0].bytes, &drops[1].bytes), (&broken, &other));
    assert!(comment(&drops[0]).starts_with("ipv4_valid.checksum: ") && comment(&drops[0]).contains("(RFC 1812 5.2.2"));
    assert!(comment(&drops[1]).starts_with("classify.not_ours: "));
    assert!(comment(&drops[2]).starts_with("slowpath.ttl_expired (RFC "), "{}", comment(&drops[2]));
    let punts = tapped.packets(punts);
    assert_eq!(punts[0].bytes, udp("10.3.4.5", 1, 1000));
    assert!(comment(&punts[0]).starts_with("ttl.expired: ") && comment(&punts[0]).ends_with("(RFC 1812 5.3.1)"));
    assert!(comment(&punts[1]).starts_with("ipv4_lookup.local: "));
    tapped.end();
}

#[test]
fn taps_are_bounded_and_end_with_their_clients() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    let streams: Vec<Stream> = (0..8).map(|_| tapped.stream("/v1/capture?port=b&count=1")).collect();
    let socket = tapped.socket.clone();
    let asked = tapped.bed.ask(move || {
        let client = ApiClient::connect(&socket).unwrap();
        client.stream("/v1/trace", |_| true).unwrap_err().to_string()
    });
    assert!(asked.starts_with("8 taps are on, which is all there can be"), "{asked}");
    assert!(tapped.bed.workers[0].context().tapped());
    tapped.send(&[udp("10.3.4.5", 64, 1000)]);
    for stream in streams {
        assert_eq!(tapped.packets(stream).len(), 1);
    }
    // It takes the API's thread a while to notice that they are gone.
    while tapped.bed.workers[0].context().tapped() {
        tapped.bed.settle();
    }
    let stream = tapped.stream("/v1/trace?count=1");
    tapped.send(&[udp("10.3.4.5", 64, 1000)]);
    assert_eq!(tapped.traces(stream).len(), 1, "there is room again");
    tapped.end();
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    for (path, expected) in [
        ("/v1/trace?filter=host", "filter, character 5: found the end, expected an address"),
        ("/v1/trace?filter=in%20c", "filter, character 4: found `c`, expected the name of a port"),
        ("/v1/trace?count=0", "found count=0, expected a number from 1 on"),
        ("/v1/trace?snaplen=1", "Failed to deserialize query string"),
        ("/v1/capture", "it is not said what to capture; expected port=NAME or what=drops|punts"),
        ("/v1/capture?what=all", "it is not said what to capture"),
        ("/v1/capture?port=c", "there is no port c; there are a, b, and `drops` and `punts`"),
    ] {
        let stream = tapped.stream(path);
        let error = tapped.end_of(stream).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{path}: {error}");
    }
    assert!(!tapped.bed.workers[0].context().tapped(), "nothing was turned on");
    tapped.end();
}

/// Streams go on over a reload, and end when the router does.
#[test]
fn taps_survive_a_reload_and_end_with_the_router() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    let stream = tapped.stream("/v1/capture?port=a");
    tapped.send(&[udp("10.3.4.5", 64, 1000)]);
    let socket = tapped.socket.clone();
    tapped.bed.ask(move || {
        let client = ApiClient::connect(&socket).unwrap();
        client.ask(&Reload { script: None, text: None }).unwrap().message
    });
    tapped.bed.settle();
    tapped.send(&[udp("10.3.4.5", 64, 1000)]);
    tapped.bed.slow.finish();
    let bytes = stream.0.join().unwrap().unwrap();
    let mut reader = Reader::default();
    reader.push(&bytes);
    let packets = std::iter::from_fn(|| reader.block().unwrap()).filter(|block| matches!(block, Block::Packet(_)));
    assert_eq!(packets.count(), 2);
    tapped.end();
}

/// With two workers behind one queue, a frame is captured once, even if it is handed over.
#[test]
fn a_frame_that_is_handed_over_is_captured_once() {
    let two_workers = routed().replace("cores = [0]", "cores = [0, 1]");
    let mut tapped = Tapped::new(&two_workers, Queues { receive: 1, transmit: 3 });
    let stream = tapped.stream("/v1/capture?port=a&filter=udp&count=41");
    for last in 1..=40u8 {
        tapped.send(&[udp(&format!("10.3.0.{last}"), 64, 1000)]);
    }
    assert!(tapped.bed.counters[0].handed_over.get() > 0, "some went to the other worker");
    tapped.send(&[udp("10.3.1.1", 64, 1000)]);
    let packets = tapped.packets(stream);
    assert_eq!(packets.len(), 41);
    assert!(packets.iter().enumerate().all(|(n, p)| p.bytes[33] == if n == 40 { 1 } else { n as u8 + 1 }));
    tapped.end();
}

/// All taps on, random frames: nothing crashes, and every buffer is returned.
#[test]
fn random_frames_under_every_tap() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    let paths = [
        "/v1/trace",
        "/v1/trace?filter=not%20udp",
        "/v1/capture?port=a",
        "/v1/capture?what=drops",
        "/v1/capture?what=punts",
    ];
    let streams: Vec<Stream> = paths.iter().map(|path| tapped.stream(path)).collect();
    for _ in 0..3000 {
        let mut frame = udp(&format!("10.{}.4.5", rng.random_range(0..5)), rng.random_range(0..4), 1000);
        if rng.random_bool(0.2) {
            let mut message = vec![0; arp::LEN];
            let ask = arp::Repr::request(PEER_A, "10.0.1.2".parse().unwrap(), "10.0.1.1".parse().unwrap());
            ask.emit(&mut message).unwrap();
            frame.truncate(14);
            frame[12..14].copy_from_slice(&[8, 6]);
            frame.extend(message);
        }
        for _ in 0..rng.random_range(0..3) {
            let at = rng.random_range(0..frame.len());
            frame[at] = rng.random();
        }
        frame.truncate(rng.random_range(1..=frame.len()));
        tapped.bed.receive[0][0].inject(&frame);
        if rng.random_bool(0.2) {
            tapped.bed.settle();
            (0..2).for_each(|port| drop(tapped.bed.sent(port)));
        }
    }
    tapped.bed.settle();
    tapped.bed.slow.finish();
    for (path, stream) in paths.iter().zip(streams) {
        let bytes = stream.0.join().unwrap().unwrap();
        assert!(bytes.len() > 10_000, "{path}: only {} bytes", bytes.len());
    }
    tapped.end();
}

/// MAC addresses in the configuration are not asked for: the tests above count on it.
#[test]
fn the_configuration_knows_both_neighbors() {
    let mut tapped = Tapped::new(&routed(), ONE_EACH);
    tapped.send(&[udp("10.3.4.5", 64, 1000)]);
    let sent = tapped.bed.sent(1);
    assert_eq!(sent.len(), 1);
    assert!(Arp::new(Ethernet::new(&sent[0]).unwrap().payload()).is_err());
    tapped.end();
}
