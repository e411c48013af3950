// SPDX-License-Identifier: MIT
//! Profiles: what is read is what was written, and every mistake is named.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn contention() -> Value {
    json!({
        "format": FORMAT, "name": "test", "model": "contention",
        "parameters": {"c0_ns": 563.4, "c_byte_ns": 0.0, "d_ns": 29.1, "u_ns": 11.1},
    })
}

fn refused(profile: &Value) -> String {
    Profile::parse(&profile.to_string(), "p.json").expect_err("a mistake").to_string()
}

#[test]
fn the_times_follow_the_equations() {
    let profile = Profile::parse(&contention().to_string(), "p.json").expect("a profile");
    assert_eq!(profile.router, Router::default());
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    close(profile.service(1, false, 0.0, 0.0).total_ns(&[64, 1518]), 2.0 * 563.4);
    close(profile.service(4, true, 0.0, 0.0).packet_ns(64), 563.4 + 3.0 * 29.1 + 11.1);
    close(profile.service(4, false, 0.0, 0.0).packet_ns(64), 563.4 + 3.0 * 29.1);
    let eq7 = Model::Eq7 { a: 0.011392, a0: 0.002709, b: 0.227037, b0: 0.063321 };
    // Eq. 5 itself, for the aggregate of four cores.
    let d = (0.011392 * 4.0 + 0.002709) * 256.0 + 0.227037 * 4.0 + 0.063321;
    close(eq7.service(4, true, 0.0, Punted::default()).packet_ns(256), 4.0 * 276.0 * 8.0 / d);
    close(4.0 * eq7.service(4, true, 0.0, Punted::default()).saturated_gbps(256, 32), d);
    let batch = |contention_per| Model::Batch {
        c_batch_ns: 400.0,
        c_packet_ns: 30.0,
        c_byte_ns: 0.1,
        miss_ns: 80.0,
        cache_bytes: 1000.0,
        d_ns: 5.0,
        u_ns: 7.0,
        punt_ns: 40.0,
        punt_burst_ns: 200.0,
        contention_per,
    };
    // Three quarters of 4000 bytes are not in the cache.
    let service = batch(Per::Burst).service(3, true, 4000.0, Punted::default());
    close(service.total_ns(&[100, 200]), 400.0 + 2.0 * 5.0 + 7.0 + 2.0 * (30.0 + 0.75 * 80.0) + 0.1 * 300.0);
    let service = batch(Per::Packet).service(3, false, 500.0, Punted::default());
    close(service.total_ns(&[100, 200]), 400.0 + 2.0 * (30.0 + 2.0 * 5.0) + 0.1 * 300.0);
    close(service.total_ns(&[]), 0.0);
    // Half of the packets, so three of four bursts of two.
    let service = batch(Per::Packet).service(1, false, 500.0, Punted { share: 0.5, burst: 2 });
    close(service.total_ns(&[100, 200]), 400.0 + 0.75 * 200.0 + 2.0 * (30.0 + 0.5 * 40.0) + 0.1 * 300.0);
}

#[test]
fn mistakes_are_named() {
    let with = |pointer: &str, value: Value| {
        let mut profile = contention();
        profile["router"] = json!({});
        let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
        profile.pointer_mut(parent).expect("a parent")[last] = value;
        refused(&profile)
    };
    for (pointer, value, expected) in [
        ("/parameters/c0_ns", json!(-3), "p.json: parameters.c0_ns: found -3, expected a number >= 0"),
        ("/parameters/c0_ns", json!("x"), "p.json: parameters.c0_ns: invalid type: string \"x\", expected f64"),
        ("/parameters/c0_ns", json!(null), "p.json: parameters.c0_ns: invalid type: null, expected f64"),
        ("/parameters/c0_ns", json!(0), "found 0 ns for a burst of one packet of 64 bytes, k = 1, one-way"),
        (
            "/parameters/u_ns",
            json!(1e9),
            "found 1000000563.4 ns for a burst of one packet of 64 bytes, k = 1, two-way, with",
        ),
        ("/parameters/a", json!(1), "p.json: parameters.a: unknown field `a`, expected one of `c0_ns`, `c_byte_ns`"),
        (
            "/model",
            json!("m/m/1"),
            "p.json: model: unknown variant `m/m/1`, expected one of `eq7`, `contention`, `batch`",
        ),
        ("/model", json!("eq7"), "p.json: parameters.c0_ns: unknown field `c0_ns`"),
        ("/format", json!("perigee-profile/2"), "p.json: format: found \"perigee-profile/2\", expected \"perigee"),
        ("/surprise", json!(1), "p.json: surprise: unknown field `surprise`, expected one of `format`"),
        ("/router/burst", json!(0), "p.json: router.burst: found 0, expected a whole number, 1 to 1024"),
        ("/router/burst", json!(1.5), "p.json: router.burst: invalid type: floating point `1.5`, expected u32"),
        ("/router/burst", json!(4_294_967_296_u64), "router.burst: invalid value: integer `4294967296`, expected u32"),
        ("/router/burst", json!([1]), "p.json: router.burst: invalid type: sequence, expected u32"),
        ("/router/burst", json!(-1), "p.json: router.burst: invalid value: integer `-1`, expected u32"),
        ("/router/burst", json!(1000), "p.json: router.receive_ring: found 512, expected at least router.burst, 1000"),
        ("/router/transmit_buffer", json!(8), "p.json: router.transmit_timeout_us: found 0, expected a number >= 1e-3"),
        ("/router/link_gbps", json!(0), "p.json: router.link_gbps: found 0, expected a number >= 1e-6"),
        ("/router/punt_share", json!(1.1), "p.json: router.punt_share: found 1.1, expected a number, 0 to 1"),
        ("/router/ports", json!(65), "p.json: router.ports: found 65, expected an even whole number, 2 to 64"),
        ("/router/ports", json!(3), "p.json: router.ports: found 3, expected an even whole number, 2 to 64"),
        ("/router/sleep_after_us", json!(-1), "p.json: router.sleep_after_us: found -1, expected a number >= 0"),
        ("/router/transmit_buffer", json!(1025), "p.json: router.transmit_buffer: found 1025, expected a whole number"),
        (
            "/parameters/c0_ns",
            json!(1e10),
            "p.json: parameters.c0_ns: found 10000000000, expected a number >= 0 (and at",
        ),
        ("/name", json!(""), "p.json: name: found 0 bytes, expected a name of 1 to 200 bytes"),
        (
            "/name",
            json!("\u{1b}[31m"),
            "p.json: name: found \"?[31m\" with a control character, expected a name without",
        ),
        ("/router/queues", json!(1), "p.json: router.queues: unknown field `queues`, expected one of `burst`"),
        ("/router/", json!(1), "p.json: router: unknown field ``, expected one of"),
        ("/a\nb\u{7}", json!(1), "p.json: a?b?: unknown field `a?b?`"),
        ("/router", json!([32]), "p.json: router: invalid type: sequence, expected an object"),
        ("/router", json!(null), "p.json: router: invalid type: null, expected an object"),
        (
            "/parameters",
            json!([563.4, 0, 29.1, 11.1]),
            "p.json: parameters: invalid type: sequence, expected an object",
        ),
        ("/model", json!({"contention": null}), "p.json: model: invalid type: map, expected a string"),
        ("/parameters/c0_ns", json!(1e300), "p.json: parameters.c0_ns: found 1e300, expected a number >= 0"),
        ("/parameters/c0_ns", json!(-1e-300), "p.json: parameters.c0_ns: found -1e-300, expected a number >= 0"),
    ] {
        let said = with(pointer, value);
        assert!(said.contains(expected), "{pointer}: {said}");
    }
    let mut profile = contention();
    profile["router"] = json!({"transmit_buffer": 600, "transmit_timeout_us": 10});
    let said = refused(&profile);
    assert!(
        said.starts_with("p.json: router.transmit_ring: found 512, expected at least router.transmit_buffer"),
        "{said}"
    );
    let mut profile = contention();
    profile["parameters"].as_object_mut().expect("an object").remove("d_ns");
    assert!(refused(&profile).starts_with("p.json: parameters: missing field `d_ns`"), "{}", refused(&profile));
    for (text, expected) in [
        ("{\n\"a\" 1}", "p.json:2:5: found a mistake (expected `:`), expected JSON"),
        ("", "p.json:1:0: found a mistake (EOF while parsing a value)"),
        ("[]", "p.json: profile: "),
        ("{\"format\": \"a\", \"format\": \"b\"}", "p.json: profile: duplicate field `format`"),
        ("\u{feff}{}", "p.json:1:1: found a mistake (expected value), expected JSON"),
        ("{\"format\":\n\"a\"}\0}", "p.json:2:5: found a mistake (trailing characters), expected JSON"),
    ] {
        let said = Profile::parse(text, "p.json").expect_err("a mistake").to_string();
        assert!(said.contains(expected), "{text}: {said}");
    }
    let twice = contention().to_string().replace("\"c0_ns\":", "\"c0_ns\":1,\"c0_ns\":");
    let said = Profile::parse(&twice, "p.json").expect_err("a mistake").to_string();
    assert_eq!(said, "p.json: parameters: duplicate field `c0_ns`");
    let long = contention().to_string().replace("\"name\"", &format!("\"{}\"", "x".repeat(1000)));
    let said = Profile::parse(&long, "p.json").expect_err("a mistake").to_string();
    assert!(said.starts_with(&format!("p.json: {}...: unknown field `xxx", "x".repeat(300))), "{said}");
    assert!(said.len() < 700, "{said}");
    let after = contention().to_string() + "}";
    assert!(Profile::parse(&after, "p.json").expect_err("a mistake").to_string().contains("expected JSON"));
    let huge = contention().to_string().replace("563.4", "1e999");
    let said = Profile::parse(&huge, "p.json").expect_err("a mistake").to_string();
    assert!(said.ends_with("found a mistake (number out of range), expected JSON"), "{said}");
}

#[test]
fn a_rate_that_vanishes_is_no_model() {
    let mut profile = contention();
    profile["model"] = json!("eq7");
    profile["parameters"] = json!({"a": 0.01, "a0": -0.02, "b": 0.5, "b0": 0.1});
    let said = refused(&profile);
    let expected = "p.json: parameters: found D(1, 64) = -0.04 Gbit/s";
    assert!(said.starts_with(expected) && said.contains(", expected 6.72e-7 to 672000 there: a packet"), "{said}");
    assert!(said.ends_with("takes 1e-3 to 1e9 ns of a core, for 1 to 64 cores and 64 to 9216 bytes"), "{said}");
    profile["parameters"]["a0"] = json!(-0.005);
    Profile::parse(&profile.to_string(), "p.json").expect("a0 may be negative");
}

#[test]
fn files_that_are_not_there_or_no_text() {
    let folder = tempfile::tempdir().expect("folder");
    let said = Profile::load(&folder.path().join("none.json")).expect_err("no file").to_string();
    assert!(said.contains("none.json: No such file") && said.contains("perigee predict fit"), "{said}");
    let file = folder.path().join("p.json");
    for (bytes, expected) in [
        (&b"{\n \"\xff\"}"[..], ":2:3: found a mistake (invalid unicode code point), expected JSON"),
        (b"\xff\xfe{", ":1:1: found a mistake (expected value)"),
        (b"{}\xe2\x82", ": missing field `format`"),
    ] {
        fs::write(&file, bytes).expect("a file");
        let said = Profile::load(&file).expect_err("no text").to_string();
        assert!(said.contains(expected), "{said}");
    }
}

fn any_model() -> impl Strategy<Value = Model> {
    let ns = 0.0..1e6;
    prop_oneof![
        (0.001..1.0, 0.0..1.0, 0.01..10.0, 0.0..1.0).prop_map(|(a, a0, b, b0)| Model::Eq7 { a, a0, b, b0 }),
        (1.0..1e6, 0.0..1e4, ns.clone(), ns.clone()).prop_map(|(c0_ns, c_byte_ns, d_ns, u_ns)| Model::Contention {
            c0_ns,
            c_byte_ns,
            d_ns,
            u_ns
        }),
        (prop::array::uniform9(ns), prop::bool::ANY).prop_map(|(p, per_packet)| Model::Batch {
            c_batch_ns: p[0] + 1.0,
            c_packet_ns: p[1],
            c_byte_ns: p[2] / 100.0,
            miss_ns: p[3],
            cache_bytes: p[4],
            d_ns: p[5],
            u_ns: p[6],
            punt_ns: p[7],
            punt_burst_ns: p[8],
            contention_per: if per_packet { Per::Packet } else { Per::Burst },
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(model in any_model(), burst in 1..512_u32, sleep in prop::option::of(0.0..1e3)) {
        let router = Router { burst, sleep_after_us: sleep, ..Router::default() };
        let fit = Some(json!({"any": ["thing", 1]}));
        let profile = Profile { name: "n".to_owned(), description: None, model, router, fit };
        prop_assert_eq!(Profile::parse(&profile.to_json(), "p.json").expect("as written"), profile);
    }

    #[test]
    fn no_text_makes_it_panic(cut in 0..400_usize, byte in any::<u8>(), at in 0..400_usize) {
        let mut text = contention().to_string().into_bytes();
        if let Some(place) = text.get_mut(at) { *place = byte; }
        text.truncate(cut.max(1));
        if let Ok(text) = String::from_utf8(text) {
            let _ = Profile::parse(&text, "p.json");
        }
    }
}
