// SPDX-License-Identifier: MIT
//! Traffic against an oracle that reads its frames byte by byte (`oracle.rs`): here chosen descriptions, in
//! `descriptions.rs` random ones. Of those, proptest prints the smallest that fails, and keeps its seed.

mod descriptions;
mod oracle;

use oracle::{read, read_all, take};
use perigee_measure::traffic::{
    Description, Family, Frames, Headers, MICROSOFT_KEY, Protocol, SYMMETRIC_KEY, Traffic, TrafficError, smallest_frame,
};
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::{Batch, Mask, Pool};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::IpAddr;

fn description(value: Value) -> Description {
    serde_json::from_value(value).unwrap()
}

fn traffic(value: Value) -> Traffic {
    Traffic::new(&description(value.clone())).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn error(value: Value) -> TrafficError {
    Traffic::new(&description(value.clone())).map(|_| ()).expect_err(&value.to_string())
}

/// Traffic of more flows than are kept is made frame by frame.
#[test]
fn many_flows_are_right_too() {
    for value in [
        json!({ "destination": "16.0.0.0/15" }),
        json!({ "source": "random:198.18.0.0/15", "destination": "198.20.0.0/26", "flows": 70_000 }),
        json!({ "source": "random:2001:2::/48", "destination": "2001:2:0:1::/120", "flows": 70_000, "sizes": "128,90,1500:3" }),
        json!({ "destination": "zipf(1.1):16.0.0.0/13", "source_port": "7-8", "sizes": "imix" }),
        json!({ "destination": "zipf(1):2001:2::/111", "protocol": "tcp-syn", "stamp": false, "vlan": "3-9" }),
        json!({ "rfc4814": true, "protocol": "tcp-syn", "flows": 80_000 }),
        json!({ "source_mac": "random:02:00:00:00:00:00-02:00:00:ff:ff:ff", "protocol": "icmp", "source": "10.0.0.0/29",
            "service_vlan": "9", "vlan": "random:1-4094", "flows": 16_000_000 }),
    ] {
        let mut traffic = traffic(value.clone());
        assert!(traffic.flows() > 65_536, "{value}: {} flows", traffic.flows());
        for read in read_all(&mut traffic, 3_000) {
            assert_eq!(read.stamp.is_some(), traffic.is_stamped());
        }
    }
}

/// A whole turn of many flows has each of them once, and is followed by the next.
#[test]
fn many_flows_come_once_each() {
    let mut traffic = traffic(json!({ "destination": "random:16.0.0.0/16", "source_port": "1-3" }));
    let flows = traffic.flows() as usize;
    assert_eq!(flows, 3 * 65_536);
    let reads = read_all(&mut traffic, flows + 100);
    let (turn, next) = reads.split_at(flows);
    assert!((0..).zip(turn).all(|(flow, read)| read.stamp.unwrap().flow == flow));
    assert!(turn.iter().zip(next).all(|(first, again)| first.tuple == again.tuple));
    assert_eq!(next[0].stamp.unwrap().sequence, 1);
}

#[test]
fn the_same_seed_sends_the_same_frames() {
    for value in [
        json!({ "destination": "zipf(1):198.18.0.0/24", "sizes": "imix", "source_port": "1-5" }),
        json!({ "destination": "random:16.0.0.0/8", "sizes": "64-100" }),
        json!({ "destination": "zipf(1):198.16.0.0/14" }),
    ] {
        let mut one = traffic(value.clone());
        let frames = take(&mut one, 1000);
        assert_eq!(take(&mut traffic(value.clone()), 1000), frames);
        one.restart();
        assert_eq!(take(&mut one, 1000), frames);
        let mut other = value;
        other["seed"] = json!(2);
        assert_ne!(take(&mut traffic(other), 1000), frames);
    }
}

/// Two random ranges of one length are in different orders; so are the sizes.
#[test]
fn random_orders_are_independent() {
    let value = json!({ "source": "random:10.0.0.0/24", "destination": "random:10.1.0.0/24", "sizes": "100-355" });
    let mut traffic = traffic(value);
    let frames = take(&mut traffic, 256);
    let last = |frame: &Vec<u8>| [29, 33].map(|at| usize::from(frame[at]));
    let same = |equal: fn([usize; 2], usize) -> bool| frames.iter().filter(|f| equal(last(f), f.len() - 96)).count();
    assert!(same(|[source, destination], _| source == destination) < 10);
    assert!(same(|[source, _], size| source == size) < 10);
    assert!(same(|[_, destination], size| destination == size) < 10);
}

/// Lengths are those of the next frames until these are written, however many buffers there are each time, and if they
/// are too small for some frames.
#[test]
fn buffers_may_run_short() {
    for value in [
        json!({ "sizes": "imix", "destination": "zipf(1):198.18.0.0/28", "source_port": "1-3" }),
        json!({ "sizes": "imix", "destination": "zipf(1):16.0.0.0/13", "source_port": "1-3" }),
        json!({ "sizes": "imix", "destination": "random:16.0.0.0/8", "source": "10.0.0.0/30" }),
    ] {
        let expected = take(&mut traffic(value.clone()), 600);
        let mut traffic = traffic(value);
        let pool = HeapPool::leak(256);
        let mut found = Vec::new();
        let mut short = 0;
        for turn in 0.. {
            let asked = traffic.lengths(1 + turn * 7 % 256).to_vec();
            assert_eq!(traffic.lengths(asked.len()), asked);
            let mut batch = Batch::new(pool);
            let there = asked.len() / (1 + turn % 3);
            for length in &asked[..there] {
                // Heap buffers have 128 bytes behind the frame.
                let length = if turn % 4 == 3 { 60 } else { usize::from(*length) };
                batch.push(pool.packet(&vec![1; length]).unwrap(), 0).unwrap();
            }
            let written = traffic.write(&mut batch, Mask::ALL, oracle::NOW, oracle::RUN);
            assert!(written == there || turn % 4 == 3);
            short += usize::from(written < there);
            found.extend((0..written).map(|slot| batch.frame(slot as u8).unwrap().to_vec()));
            if found.len() >= 600 {
                break;
            }
        }
        assert!(short > 0 && found.starts_with(&expected));
    }
}

/// Frames that could not be sent leave no gap behind, whichever of several bursts they were in.
#[test]
fn unsent_frames_leave_no_gap() {
    for value in [
        json!({ "source_port": "1-7", "sizes": "imix" }),
        json!({ "destination": "zipf(1):16.0.0.0/12" }),
        json!({ "family": "ipv6", "protocol": "tcp-syn", "vlan": "zipf(1):1-9" }),
    ] {
        let mut traffic = traffic(value);
        let pool = HeapPool::leak(256);
        let mut sequences: HashMap<u32, u32> = HashMap::new();
        for turn in 0..100 {
            let mut batch = Batch::new(pool);
            for length in traffic.lengths(32) {
                batch.push(pool.packet(&vec![1; usize::from(*length)]).unwrap(), 0).unwrap();
            }
            traffic.write(&mut batch, Mask::ALL, oracle::NOW, oracle::RUN);
            let sent = turn * 5 % 33;
            traffic.unsent(&batch, !Mask::first(sent));
            for slot in 0..sent as u8 {
                let stamp = read(batch.frame(slot).unwrap(), true).stamp.unwrap();
                let next = sequences.entry(stamp.flow).or_default();
                assert_eq!(stamp.sequence, *next, "flow {}", stamp.flow);
                *next += 1;
            }
        }
    }
}

/// Several traffics, with flow numbers that follow each other.
#[test]
fn flows_are_numbered_from_anywhere() {
    let mut traffic = traffic(json!({ "source_port": "1-3" }));
    traffic.number_from(u32::MAX - 1);
    let pool = HeapPool::leak(4);
    let mut flows = Vec::new();
    for _ in 0..4 {
        let mut batch = Batch::new(pool);
        batch.push(pool.packet(&[0; 60]).unwrap(), 0).unwrap();
        assert_eq!(traffic.write(&mut batch, Mask::ALL, 0, 0), 1);
        let stamp = read(batch.frame(0).unwrap(), true).stamp.unwrap();
        flows.push((stamp.flow, stamp.sequence));
        traffic.unsent(&batch, Mask::ALL);
    }
    assert_eq!(flows, [(u32::MAX - 1, 0), (u32::MAX, 0), (0, 0), (u32::MAX - 1, 0)]);
}

/// Packets of other lengths are resized; one without room ends the writing. Only the slots of the mask are written.
#[test]
fn other_lengths_and_slots() {
    let mut traffic = traffic(json!({ "sizes": "100", "source_port": "1-9" }));
    let pool = HeapPool::leak(8);
    let mut batch = Batch::new(pool);
    for length in [60, 96, 200, 14] {
        batch.push(pool.packet(&vec![9; length]).unwrap(), 0).unwrap();
    }
    let mut mask = Mask::ALL;
    mask.clear(1);
    assert_eq!(traffic.write(&mut batch, mask, 0, 0), 3);
    assert_eq!(batch.frame(1).unwrap(), [9; 96]);
    for (slot, flow) in [(0, 0), (2, 1), (3, 2)] {
        let read = read(batch.frame(slot).unwrap(), true);
        assert_eq!(read.stamp.unwrap().flow, flow);
    }
    let mut large = self::traffic(json!({ "sizes": "9000" }));
    assert_eq!(large.write(&mut batch, Mask::ALL, 0, 0), 0, "heap buffers have 128 bytes behind the frame");
    assert_eq!(large.lengths(1), [8996], "it is still to be sent");
}

/// Chi square of the ranks that 200,000 frames have drawn, five deviations around its mean.
#[test]
fn zipf_has_its_probabilities() {
    for (count, s, ports) in [(256, 1.1, "9"), (1 << 17, 0.9, "1-2"), (64, 0.0, "1-3")] {
        let bits = 32 - (count as u32).trailing_zeros();
        let mut traffic = traffic(json!({ "destination": format!("zipf({s}):64.0.0.0/{bits}"), "source_port": ports }));
        let draws = 200_000;
        let mut found: Vec<f64> = vec![0.0; count];
        for frame in take(&mut traffic, draws) {
            // Flow j * n + z has the z-th value.
            found[read(&frame, true).stamp.unwrap().flow as usize % count] += 1.0;
        }
        let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-s)).collect();
        let scale = draws as f64 / weights.iter().sum::<f64>();
        // Rare values are put together until 20 are expected.
        let (mut chi, mut freedom, mut sums) = (0.0, -1.0, (0.0, 0.0));
        for (found, weight) in found.iter().zip(&weights) {
            sums = (sums.0 + found, sums.1 + weight * scale);
            if sums.1 >= 20.0 {
                chi += (sums.0 - sums.1).powi(2) / sums.1;
                (freedom, sums) = (freedom + 1.0, (0.0, 0.0));
            }
        }
        assert!((chi - freedom).abs() < 5.0 * (2.0f64 * freedom).sqrt(), "{count}, {s}: {chi} of {freedom}");
    }
}

/// The hash bit by bit, as Microsoft's pseudocode has it.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let window = |at: usize| (0..32).fold(0, |word, n| word << 1 | u32::from(bit(key, at + n)));
    (0..8 * input.len()).filter(|at| bit(input, *at)).fold(0, |hash, at| hash ^ window(at))
}

#[test]
fn rss_spreads_evenly_or_not_at_all() {
    for (rss, key, table, queues, only) in [
        ("4", MICROSOFT_KEY, 128, 4, None),
        ("6,table=512", MICROSOFT_KEY, 512, 6, None),
        ("3/8,key=symmetric", SYMMETRIC_KEY, 128, 8, Some(3)),
        ("16,key=symmetric", SYMMETRIC_KEY, 128, 16, None),
    ] {
        for more in [
            json!({}),
            json!({ "family": "ipv6" }),
            json!({ "protocol": "tcp-syn", "destination": "198.19.0.0/24", "sizes": "imix", "stamp": false }),
            json!({ "protocol": "icmp", "source": "10.0.0.0/16", "flows": 100 }),
            json!({ "source": "random:198.18.0.0/16", "flows": 5000 }),
        ] {
            let mut value = more;
            value["rss"] = json!(rss);
            let mut traffic = traffic(value.clone());
            let flows = traffic.flows();
            let mut shares = vec![0; queues];
            for (flow, read) in read_all(&mut traffic, flows as usize).iter().enumerate() {
                let mut input = Vec::new();
                for address in read.tuple.addresses {
                    match address {
                        IpAddr::V4(address) => input.extend(address.octets()),
                        IpAddr::V6(address) => input.extend(address.octets()),
                    }
                }
                if read.protocol != Protocol::Icmp {
                    read.tuple.ports.iter().for_each(|port| input.extend(port.to_be_bytes()));
                }
                let queue = (toeplitz(&key, &input) % table) as usize % queues;
                assert_eq!(queue, only.unwrap_or(flow % queues), "flow {flow} of {value}");
                shares[queue] += 1;
            }
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(only.is_some() || most - least <= 1, "{shares:?}");
        }
    }
}

#[test]
fn destinations_come_from_a_route_file() {
    let table = "# a table\n10.0.0.0/8 via 10.0.0.1 dev wan\n192.0.2.0/24\n203.0.113.7/32\n2001:db8::/32\n0.0.0.0/0\n";
    let read_file = |path: &std::path::Path| {
        assert_eq!(path.to_str(), Some("table.txt"));
        Ok(table.to_owned())
    };
    let prefixes = |text: &str| text.split(' ').map(|p| p.parse().unwrap()).collect::<Vec<perigee_net::Prefix>>();
    let v4 = prefixes("10.0.0.0/8 192.0.2.0/24 203.0.113.7/32 0.0.0.0/0");
    // More routes than heads are kept of, in all orders.
    let many: String =
        (0..70_000u32).map(|n| format!("{}/24\n", std::net::Ipv4Addr::from_bits(0x1000_0000 + (n << 8)))).collect();
    for order in ["", "random:", "zipf(0):"] {
        let given = description(json!({ "destination": format!("{order}routes:table.txt") }));
        let mut traffic = Traffic::with_files(&given, |_| Ok(many.clone())).unwrap();
        assert_eq!(traffic.flows(), 70_000);
        let mut routes: Vec<u32> = Vec::new();
        for read in read_all(&mut traffic, 1000) {
            let IpAddr::V4(address) = read.tuple.addresses[1] else { panic!("IPv4 was asked for") };
            routes.push((address.to_bits() - 0x1000_0000) >> 8);
        }
        assert!(routes.iter().all(|route| *route < 70_000));
        assert_eq!(routes.is_sorted(), order.is_empty());
    }
    for (text, family, expected) in [
        ("routes:table.txt", "ipv4", v4.clone()),
        ("random:routes:table.txt", "ipv4", v4.clone()),
        ("zipf(0.5):routes:table.txt", "ipv4", v4),
        ("routes:table.txt", "ipv6", prefixes("2001:db8::/32")),
    ] {
        let given = description(json!({ "destination": text, "family": family, "seed": 3 }));
        let mut traffic = Traffic::with_files(&given, read_file).unwrap();
        assert_eq!(traffic.flows() as usize, expected.len());
        let found: Vec<IpAddr> = read_all(&mut traffic, 60).iter().map(|read| read.tuple.addresses[1]).collect();
        assert!(expected.iter().all(|prefix| found.iter().any(|address| prefix.contains(*address))), "{found:?}");
        let turn = found.iter().zip(&expected);
        if text == "routes:table.txt" {
            assert!(turn.into_iter().all(|(address, prefix)| prefix.contains(*address)), "{found:?}");
        }
    }
    let given = description(json!({ "destination": "routes:table.txt" }));
    let unreadable = Traffic::new(&given).map(|_| ()).unwrap_err().to_string();
    assert!(unreadable.starts_with("the route file table.txt cannot be read"), "{unreadable}");
}

#[test]
fn the_smallest_frames() {
    let mut table = Vec::new();
    for protocol in [Protocol::Udp, Protocol::TcpSyn, Protocol::Icmp] {
        for family in [Family::Ipv4, Family::Ipv6] {
            for (tags, stamp) in [(0, true), (2, true), (0, false), (2, false)] {
                let smallest = smallest_frame(Headers { protocol, family, tags, stamp });
                table.push(smallest);
                let mut value = json!({ "protocol": protocol.name(), "family": family.to_string(), "stamp": stamp });
                if tags == 2 {
                    value["vlan"] = json!("1-9");
                    value["service_vlan"] = json!(7);
                }
                // It is the default, and it works; one byte less does not.
                let frames = read_all(&mut traffic(value.clone()), 10);
                assert_eq!(frames.len(), 10);
                assert_eq!(traffic(value.clone()).lengths(1), [smallest - 4]);
                value["sizes"] = json!(smallest - 1);
                if smallest > 64 {
                    let text = error(value).to_string();
                    let expected = format!("which need {smallest} bytes; use {smallest} or more");
                    assert!(text.contains(&expected), "{text}");
                }
            }
        }
    }
    // Sizes that the genome could name, but does not, need not fit.
    let long = json!({ "protocol": "tcp-syn", "family": "ipv6", "sizes": "genome:gbb" });
    assert_eq!(traffic(long).sizes().collect::<Vec<_>>(), [1518, 128]);
    let (udp, tcp) = ([64, 72, 64, 64, 84, 92, 66, 74], [76, 84, 64, 66, 96, 104, 78, 86]);
    assert_eq!(table, [udp, tcp, udp].concat());
}

#[test]
fn mistakes_are_named() {
    for (value, part) in [
        (json!({ "sizes": 64, "protocol": "tcp-syn" }), "Ethernet, IPv4, TCP and the stamp, which need 76 bytes"),
        (json!({ "sizes": 64, "protocol": "tcp-syn" }), "or stamp = false"),
        (json!({ "sizes": "imix", "family": "ipv6" }), "a frame of 64 bytes is too short"),
        (json!({ "source": "10.0.0.1", "destination": "2001:2::1" }), "source is IPv4 and destination is not"),
        (json!({ "source": "10.0.0.1", "family": "ipv6" }), "family is IPv6 and source is not"),
        (json!({ "flows": 2 }), "found 2 flows, but the ranges make only 1 different ones"),
        (json!({ "flows": 0 }), "expected 1 to 16777216"),
        (json!({ "flows": 20_000_000, "rfc4814": true }), "expected 1 to 16777216"),
        (json!({ "flows": 100_000, "rss": "4" }), "expected 1 to 65536 with rss"),
        (json!({ "flows": 7, "source_port": "zipf(1):1-3", "destination_port": "1-9" }), "a multiple of 3"),
        (
            json!({ "source_port": "zipf(1):1-3", "destination_port": "zipf(1):1-3" }),
            "source_port and destination_port are both",
        ),
        (json!({ "source": "zipf(1):10.0.0.0/7" }), "a Zipf range of 33554432 values, expected at most 16777216"),
        (json!({ "dscp": 64 }), "found dscp = 64, expected 0 to 63"),
        (json!({ "service_vlan": 7 }), "service_vlan without vlan"),
        (json!({ "protocol": "icmp", "destination_port": 7 }), "found destination_port with icmp"),
        (json!({ "source_mac": "01:00:5e:00:00:01" }), "the group address 01:00:5e:00:00:01 in source_mac"),
        (json!({ "destination_mac": "01:00:5e:00:00:01", "reversed": true }), "in destination_mac"),
        (json!({ "rss": "4", "source_port": 9 }), "of 1 flows that the ranges make"),
        (json!({ "rss": "4", "source": "zipf(1):10.0.0.0/24" }), "found rss and a Zipf range (source)"),
    ] {
        let text = error(value).to_string();
        assert!(text.contains(part), "{text}");
    }
    let unknown = serde_json::from_value::<Description>(json!({ "size": 64 })).unwrap_err().to_string();
    assert!(unknown.contains("unknown field `size`"), "{unknown}");
}

#[test]
fn descriptions_survive_json() {
    let value = json!({ "sizes": "imix", "protocol": "icmp", "source": "zipf(1.5):routes:x", "rss": "2/4", "ttl": 3, "vlan": 7 });
    let given = description(value);
    let text = serde_json::to_string(&given).unwrap();
    assert_eq!(serde_json::from_str::<Description>(&text).unwrap(), given);
    assert_eq!(serde_json::from_str::<Description>("{}").unwrap(), Description::default());
}

/// RFC 4814: many different ports, each within its bounds, and close to evenly spread.
#[test]
fn random_ports_are_those_of_rfc_4814() {
    let mut traffic = traffic(json!({ "rfc4814": true }));
    assert_eq!(traffic.flows(), 65_536);
    let reads = read_all(&mut traffic, 20_000);
    assert!(reads.iter().all(|read| read.tuple.ports[0] >= 1024 && (1..=49_151).contains(&read.tuple.ports[1])));
    let high = reads.iter().filter(|read| read.tuple.ports[1] > 24_576).count();
    assert!((9_000..11_000).contains(&high), "{high}");
}
