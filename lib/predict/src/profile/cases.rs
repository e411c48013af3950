// SPDX-License-Identifier: MIT
//! Good and bad profiles, made by changing good ones.

use super::Profile;

/// A profile with every key.
pub(super) const BATCH: &str = r#"{
  "format": "perigee-profile/1",
  "name": "lab router",
  "description": "for tests",
  "model": "batch",
  "parameters": {"c_batch_ns": 400, "c_packet_ns": 300.5, "c_byte_ns": 0.25, "miss_ns": 80,
                 "cache_bytes": 1000000, "d_ns": 7, "u_ns": 5, "contention_per": "packet"},
  "router": {"burst": 64, "receive_ring": 1024, "transmit_ring": 256, "transmit_buffer": 16,
             "transmit_timeout_us": 100, "ports": 4, "link_gbps": 25, "sleep_after_us": 50,
             "wake_up_us": 12.5, "punt_share": 0.01, "slow_path_ns": 20000, "punt_ring": 128,
             "working_set_bytes": 4000000},
  "fit": {"residuals": [0.1, -0.1, null], "a": {"a": 1, "a": 2}}
}"#;

/// The published profiles, as short as they can be.
const EQ7: &str = r#"{"format": "perigee-profile/1", "name": "published", "model": "eq7",
        "parameters": {"a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321}}"#;
const CONTENTION: &str = r#"{"format": "perigee-profile/1", "name": "published", "model": "contention",
        "parameters": {"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1},
        "router": {"sleep_after_us": null}}"#;

/// What `perigee predict calibrate` adds.
const CALIBRATED: &str = r#"{"format": "perigee-profile/1", "name": "this machine", "model": "batch",
        "parameters": {"c_batch_ns": 396, "c_packet_ns": 20.8, "c_byte_ns": 0, "miss_ns": 3.5, "cache_bytes": 12e6, "d_ns": 200,
        "u_ns": 44, "punt_ns": 18, "punt_burst_ns": 292},
        "router": {"transmit_buffer": 32, "transmit_timeout_us": 100, "transmit_when_idle": true, "poll_ns": 75,
        "pauses": {"per_second": 1300, "lengths_ns": [9000, 16000.5]}}}"#;

/// Whose text, what of it is replaced, by what, and is that a profile? `*begin` and `*end` have the new text put there, `*` is
/// the whole.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str, bool)] = &[
    // As they are.
    (EQ7, "", "", true),
    (CONTENTION, "", "", true),
    (BATCH, "", "", true),
    // A list is not an object.
    (CONTENTION, r#"{"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1}"#, "[563.4, 0, 29.1, 11.1]", false),
    (CONTENTION, r#"{"sleep_after_us": null}"#, "[]", false),
    (CONTENTION, r#"{"sleep_after_us": null}"#, "[32]", false),
    (CONTENTION, r#"{"sleep_after_us": null}"#, "null", false),
    (CONTENTION, r#"{"sleep_after_us": null}"#, "{}", true),
    (CONTENTION, "*", r#"["perigee-profile/1", "contention"]"#, false),
    // An object is not a string.
    (CONTENTION, r#""contention""#, r#"{"contention": null}"#, false),
    (BATCH, r#""packet""#, "null", false),
    (BATCH, r#""packet""#, r#""burst""#, true),
    // Bytes that some parsers take for the end, or skip.
    (BATCH, "*end", "\0", false),
    (BATCH, "*end", "\0}", false),
    (BATCH, "*begin", "\u{feff}", false),
    (BATCH, "*end", "\n\t ", true),
    (BATCH, "for tests", r"for \u0000 tests", true),
    // Rates and times: a burst of one packet takes 1e-3 to 1e9 ns.
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0, "a0": 0, "b": 1e-306, "b0": 0"#, false),
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0, "a0": 0, "b": 7.3888e-05, "b0": 0"#, true),
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0, "a0": 0, "b": 7.3887e-05, "b0": 0"#, false),
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0, "a0": 0, "b": 672000, "b0": 0"#, true),
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0, "a0": 0, "b": 672001, "b0": 0"#, false),
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0, "a0": 0.1, "b": 0.7, "b0": -7.1"#, false),
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0.01, "a0": -0.005, "b": 0.5, "b0": 0.1"#, true),
    (EQ7, r#""a": 0.011392, "a0": 0.002709, "b": 0.227037, "b0": 0.063321"#, r#""a": 0.01, "a0": -0.02, "b": 0.5, "b0": 0.1"#, false),
    (CONTENTION, "563.4", "1e-320", false),
    (CONTENTION, "563.4", "0.000999", false),
    (CONTENTION, "563.4", "0.001", true),
    (CONTENTION, r#""c_byte_ns": 0"#, r#""c_byte_ns": 1e9"#, false),
    (CONTENTION, r#""c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1"#, r#""c0_ns": 1e9, "c_byte_ns": 0, "d_ns": 0, "u_ns": 0"#, true),
    (CONTENTION, r#""c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1"#, r#""c0_ns": 1e9, "c_byte_ns": 0, "d_ns": 0, "u_ns": 1"#, false),
    (CONTENTION, r#""c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1"#, r#""c0_ns": 1e9, "c_byte_ns": 0, "d_ns": 1, "u_ns": 0"#, false),
    (BATCH, r#""miss_ns": 80"#, r#""miss_ns": 1e9"#, false),
    (BATCH, r#""d_ns": 7"#, r#""d_ns": 1e7"#, true),
    (BATCH, r#""d_ns": 7"#, r#""d_ns": 2e7"#, false),
    // Ports, bursts, timeouts.
    (BATCH, r#""ports": 4"#, r#""ports": 0"#, false),
    (BATCH, r#""ports": 4"#, r#""ports": 1"#, false),
    (BATCH, r#""ports": 4"#, r#""ports": 2"#, true),
    (BATCH, r#""ports": 4"#, r#""ports": 2.0"#, false),
    (BATCH, r#""ports": 4"#, r#""ports": 3"#, false),
    (BATCH, r#""ports": 4"#, r#""ports": 63"#, false),
    (BATCH, r#""ports": 4"#, r#""ports": 64"#, true),
    (BATCH, r#""ports": 4"#, r#""ports": 65"#, false),
    (BATCH, r#""ports": 4"#, r#""ports": 66"#, false),
    (BATCH, r#""burst": 64"#, r#""burst": 1"#, true),
    (BATCH, r#""burst": 64"#, r#""burst": 1025"#, false),
    (BATCH, r#""burst": 64"#, r#""burst": 4294967296"#, false),
    (BATCH, r#""burst": 64"#, r#""burst": -1"#, false),
    (BATCH, r#""burst": 64"#, r#""burst": 1.5"#, false),
    (BATCH, r#""burst": 64"#, r#""burst": 5.0"#, false),
    (BATCH, r#""transmit_timeout_us": 100"#, r#""transmit_timeout_us": 0.001"#, true),
    (BATCH, r#""transmit_timeout_us": 100"#, r#""transmit_timeout_us": 0.000999"#, false),
    (BATCH, r#""transmit_timeout_us": 100"#, r#""transmit_timeout_us": 4.9e-7"#, false),
    (BATCH, r#""slow_path_ns": 20000"#, r#""slow_path_ns": 0"#, true),
    // What costs packets for the slow path, what idle cores do, and what takes cores away.
    (CALIBRATED, "", "", true),
    (CALIBRATED, r#", "punt_ns": 18, "punt_burst_ns": 292"#, "", true),
    (CALIBRATED, "18", "-1", false),
    (CALIBRATED, "18", "9.9e8", true),
    (CALIBRATED, "18", "1e9", false),
    (CALIBRATED, "292", "1.1e9", false),
    (CALIBRATED, "292", r#""292""#, false),
    (CONTENTION, "563.4", r#"563.4, "punt_ns": 1"#, false),
    (CALIBRATED, r#""poll_ns": 75"#, r#""poll_ns": 0"#, true),
    (CALIBRATED, r#""poll_ns": 75"#, r#""poll_ns": 1e9"#, true),
    (CALIBRATED, r#""poll_ns": 75"#, r#""poll_ns": 1.1e9"#, false),
    (CALIBRATED, r#""poll_ns": 75"#, r#""poll_ns": -1"#, false),
    (CALIBRATED, "true", "false", true),
    (CALIBRATED, "true", "1", false),
    (CALIBRATED, r#"{"per_second": 1300, "lengths_ns": [9000, 16000.5]}"#, "null", true),
    (CALIBRATED, r#"{"per_second": 1300, "lengths_ns": [9000, 16000.5]}"#, "{}", false),
    (CALIBRATED, r#""per_second": 1300, "#, "", false),
    (CALIBRATED, r#""per_second""#, r#""often": 1, "per_second""#, false),
    (CALIBRATED, "1300", "0", true),
    (CALIBRATED, "1300", "-1", false),
    (CALIBRATED, "1300", "1e5", false),
    (CALIBRATED, r#"1300, "lengths_ns": [9000, 16000.5]"#, r#"1e6, "lengths_ns": [500]"#, true),
    (CALIBRATED, r#"1300, "lengths_ns": [9000, 16000.5]"#, r#"1e6, "lengths_ns": [501]"#, false),
    (CALIBRATED, r#"1300, "lengths_ns": [9000, 16000.5]"#, r#"1.1e6, "lengths_ns": [0]"#, false),
    (CALIBRATED, r#"1300, "lengths_ns": [9000, 16000.5]"#, r#"0.5, "lengths_ns": [1e9]"#, true),
    (CALIBRATED, r#"1300, "lengths_ns": [9000, 16000.5]"#, r#"0.4, "lengths_ns": [1.1e9]"#, false),
    (CALIBRATED, "[9000, 16000.5]", "[]", false),
    (CALIBRATED, "[9000, 16000.5]", "9000", false),
    (CALIBRATED, "16000.5", "-1", false),
    (CALIBRATED, "16000.5", "true", false),
    // Invalid numbers, keys that occur twice or have no name.
    (BATCH, "300.5", "1e999", false),
    (BATCH, "-0.1", "-1e999", false),
    (BATCH, "-0.1", "1e308", true),
    (BATCH, r#""miss_ns": 80"#, r#""miss_ns": 80, "miss_ns": 80"#, false),
    (BATCH, r#""burst": 64"#, r#""burst": 64, "": 1"#, false),
    (BATCH, r#""fit""#, r#""": 1, "fit""#, false),
    // Names without control characters.
    (BATCH, "lab router", r"lab \u0007 router", false),
    (BATCH, "lab router", r"lab \u001b[31m router", false),
    (BATCH, "lab router", r"lab \u007f router", false),
    (BATCH, "lab router", r"lab \u0085 router", false),
    (BATCH, "lab router", "lab \u{85} router", false),
    (BATCH, "lab router", "lab \u{7f} router", false),
    (BATCH, "lab router", r"lab \u00a0 router", true),
    (BATCH, "lab router", r"lab \u00e9 router", true),
];

fn changed((text, old, now, _): (&str, &str, &str, bool)) -> String {
    match old {
        "*" => now.to_owned(),
        "*begin" => now.to_owned() + text,
        "*end" => text.to_owned() + now,
        _ => {
            assert!(text.contains(old), "the test is wrong: no {old}");
            text.replacen(old, now, 1)
        }
    }
}

#[test]
fn good_and_bad_profiles() {
    for &case in CASES {
        let read = Profile::parse(&changed(case), "p.json");
        assert_eq!(read.is_ok(), case.3, "{:?} for {:?}: {read:?}", case.2, case.1);
    }
}

/// What is nested without end is refused before the stack ends.
#[test]
fn deep_nesting() {
    for (open, close) in [("[", "]"), ("{\"k\": ", "}")] {
        let nested = open.repeat(100_000) + "0" + &close.repeat(100_000);
        let text = EQ7.replacen('{', &format!("{{\"fit\": {nested}, "), 1);
        let said = Profile::parse(&text, "p.json").expect_err("too deep").to_string();
        assert!(said.contains("recursion limit exceeded"), "{said}");
    }
}
