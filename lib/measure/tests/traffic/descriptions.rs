// SPDX-License-Identifier: MIT
//! Random descriptions, and what holds for the frames of all of them.

use super::oracle::{self, read, read_all, take};
use super::{description, traffic};
use perigee_measure::traffic::{Description, Family, Protocol, Traffic, TrafficError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::net::IpAddr;

/// The text of a range with an order.
fn order() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 4 => Just("random:".to_owned()), 1 => (0.0..3.0).prop_map(|s| format!("zipf({s}):"))]
}

/// Ranges of numbers up to `most`, as texts.
fn range(most: u64, text: fn(u64) -> String) -> impl Strategy<Value = String> {
    let length = prop_oneof![Just(0), 1u64..20, 0u64..400];
    (order(), 1..=most, length)
        .prop_map(move |(order, first, length)| format!("{order}{}-{}", text(first), text((first + length).min(most))))
}

fn port(number: u64) -> String {
    number.to_string()
}

fn mac(number: u64) -> String {
    format!("02:00:00:00:{:02x}:{:02x}", number >> 8, number & 255)
}

fn v4(number: u64) -> String {
    IpAddr::V4((0xc612_0000 + number as u32).into()).to_string()
}

fn v6(number: u64) -> String {
    IpAddr::V6((0x2001_0002u128 << 96 | u128::from(number) << 40).into()).to_string()
}

fn sizes() -> impl Strategy<Value = String> {
    let mix = prop::collection::vec((64u16..1600, 1u32..9), 1..5);
    let mix =
        mix.prop_map(|mix| mix.iter().map(|(size, weight)| format!("{size}:{weight}")).collect::<Vec<_>>().join(","));
    prop_oneof![
        mix,
        (64u16..200, 0u16..100).prop_map(|(first, more)| format!("{first}-{}", first + more)),
        Just("imix".to_owned()),
        Just("genome:abacaj".to_owned()),
    ]
}

prop_compose! {
    /// A description, each of whose fields may be missing. It need not be a good one.
    fn any_description()(
        v4_not_6 in any::<bool>(),
    )(
        addresses in prop::array::uniform2(range(0x1_ffff, if v4_not_6 { v4 } else { v6 })),
        ports in prop::array::uniform2(range(0xffff, port)),
        tags in prop::array::uniform2(range(4094, port)),
        macs in prop::array::uniform2(range(0xffff, mac)),
        sizes in sizes(),
        protocol in prop::sample::select(vec!["udp", "tcp-syn", "icmp"]),
        family in Just(if v4_not_6 { "ipv4" } else { "ipv6" }),
        given in prop::bits::u16::ANY,
        flows in 1u32..3000,
        ttl in any::<u8>(), dscp in 0u8..64, seed in any::<u64>(), stamp in prop::bool::weighted(0.8),
    ) -> Value {
        let mut fields = Map::new();
        let mut add = |bit: u32, name: &str, value: Value| {
            if given >> bit & 1 == 1 {
                fields.insert(name.to_owned(), value);
            }
        };
        let [source, destination] = addresses;
        add(0, "source", json!(source));
        add(1, "destination", json!(destination));
        add(2, "source_port", json!(ports[0]));
        if protocol != "icmp" {
            add(3, "destination_port", json!(ports[1]));
        }
        add(4, "vlan", json!(tags[0]));
        if given >> 4 & 3 == 3 {
            add(5, "service_vlan", json!(tags[1]));
        }
        add(6, "source_mac", json!(macs[0]));
        add(7, "destination_mac", json!(macs[1]));
        add(8, "sizes", json!(sizes));
        if given >> 9 & 7 == 0 {
            add(14, "flows", json!(flows));
        }
        for (name, value) in [("protocol", json!(protocol)), ("family", json!(family)), ("ttl", json!(ttl)),
            ("dscp", json!(dscp)), ("seed", json!(seed)), ("stamp", json!(stamp))] {
            fields.insert(name.to_owned(), value);
        }
        Value::Object(fields)
    }
}

/// A good description near this one: without what is wrong with it.
fn repaired(mut value: Value) -> Value {
    loop {
        let wrong = match Traffic::new(&description(value.clone())) {
            Ok(_) => return value,
            Err(TrafficError::TooShort { .. }) => "sizes",
            Err(TrafficError::Duplicates { .. } | TrafficError::ZipfFlows { .. }) => "flows",
            Err(TrafficError::TwoZipf { second, .. }) => second,
            Err(TrafficError::OuterTagAlone) => "service_vlan",
            Err(TrafficError::ZipfValues { .. }) => {
                let drawn = |name: &&str| value[*name].as_str().is_some_and(|text| text.starts_with("zipf"));
                ["source", "destination"].into_iter().find(drawn).unwrap()
            }
            Err(other) => panic!("{value}: {other}"),
        };
        value.as_object_mut().unwrap().remove(wrong).unwrap();
    }
}

/// First and last value of a range's text.
fn ends(value: &Value, name: &str) -> Option<(String, String)> {
    let text = value.get(name)?.as_str()?;
    let text = text.rsplit_once("random:").map_or(text, |(_, rest)| rest);
    let text = text.rsplit_once("):").map_or(text, |(_, rest)| rest);
    text.split_once('-').map(|(first, last)| (first.to_owned(), last.to_owned()))
}

fn check_ranges(value: &Value, read: &oracle::Read) {
    let inside = |name: &str, found: IpAddr| {
        if let Some((first, last)) = ends(value, name) {
            assert!(
                (first.parse::<IpAddr>().unwrap()..=last.parse::<IpAddr>().unwrap()).contains(&found),
                "{name} {found}"
            );
        }
    };
    inside("source", read.tuple.addresses[0]);
    inside("destination", read.tuple.addresses[1]);
    let inside = |name: &str, found: u16, default: u16| match ends(value, name) {
        Some((first, last)) => {
            assert!((first.parse::<u16>().unwrap()..=last.parse().unwrap()).contains(&found), "{name} {found}");
        }
        None => assert_eq!(found, default, "{name}"),
    };
    inside("source_port", read.tuple.ports[0], 49_184);
    inside("destination_port", read.tuple.ports[1], if read.protocol == Protocol::Icmp { 0 } else { 7 });
    inside("service_vlan", read.tuple.tags[0], 0);
    inside("vlan", read.tuple.tags[1], 0);
    for (at, name) in ["source_mac", "destination_mac"].into_iter().enumerate() {
        let (first, last) = ends(value, name).unwrap_or_else(|| (mac(at as u64 + 1), mac(at as u64 + 1)));
        let (first, last) = (first.parse().unwrap(), last.parse().unwrap());
        assert!((first..=last).contains(&read.tuple.macs[at]), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Every frame of every description is what it says, with right lengths and checksums.
    #[test]
    fn frames_are_as_described(value in any_description()) {
        let value = repaired(value);
        let mut traffic = traffic(value.clone());
        for read in read_all(&mut traffic, 400) {
            check_ranges(&value, &read);
            prop_assert_eq!(json!(read.protocol.name()), value["protocol"].clone());
            prop_assert_eq!((json!(read.ttl), json!(read.dscp)), (value["ttl"].clone(), value["dscp"].clone()));
            prop_assert_eq!(json!(Family::of(read.tuple.addresses[0]).to_string()), value["family"].clone());
        }
    }

    /// The opposite direction swaps what belongs to the two ends, frame by frame.
    #[test]
    fn the_opposite_direction_answers(value in any_description()) {
        let there = description(repaired(value));
        let tuples = |description: &Description| -> Vec<oracle::Tuple> {
            read_all(&mut Traffic::new(description).unwrap(), 100).iter().map(|read| read.tuple).collect()
        };
        let answers = tuples(&there).into_iter().map(|mut tuple| {
            tuple.macs.reverse();
            tuple.addresses.reverse();
            if there.protocol != Protocol::Icmp {
                tuple.ports.reverse();
            }
            tuple
        });
        prop_assert_eq!(tuples(&there.opposite()), answers.collect::<Vec<_>>());
        prop_assert_eq!(there.opposite().opposite(), there);
    }

    /// A period of the sizes has exactly the shares of the mix, as does each flow in time.
    #[test]
    fn sizes_have_their_shares(weights in prop::collection::vec(1u32..9, 1..5), flows in 1u16..50, stamp in any::<bool>()) {
        let mix: Vec<String> = weights.iter().enumerate().map(|(at, weight)| format!("{}:{weight}", 64 + 4 * at)).collect();
        let ports = format!("1-{flows}");
        let mut traffic = traffic(json!({ "sizes": mix.join(","), "source_port": ports, "stamp": stamp }));
        let period: u32 = weights.iter().sum();
        let mut of_flow: HashMap<u32, HashMap<usize, u32>> = HashMap::new();
        for _ in 0..3 * u32::from(flows) {
            let mut counts = vec![0; weights.len()];
            for frame in take(&mut traffic, period as usize) {
                let at = (frame.len() - 60) / 4;
                counts[at] += 1;
                if stamp {
                    *of_flow.entry(read(&frame, true).stamp.unwrap().flow).or_default().entry(at).or_default() += 1;
                }
            }
            prop_assert_eq!(&counts, &weights);
        }
        // And each flow has them, too.
        for counts in of_flow.values() {
            let each: Vec<u32> = (0..weights.len()).map(|at| counts.get(&at).copied().unwrap_or(0)).collect();
            let expected: Vec<u32> = weights.iter().map(|weight| 3 * weight).collect();
            prop_assert_eq!(&each, &expected);
        }
        let mean = weights.iter().zip(64..).map(|(weight, at)| weight * (64 + 4 * (at - 64))).sum::<u32>();
        prop_assert!((traffic.mean_size() - f64::from(mean) / f64::from(period)).abs() < 1e-9);
    }
}
