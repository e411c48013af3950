// SPDX-License-Identifier: MIT
//! Machines that are read from made-up files, and compared with each other.

use super::*;
use proptest::prelude::*;

/// A machine's files.
fn files(cpuinfo: &str, caches: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let file = root.path().join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("written");
        fs::write(file, text).expect("written");
    };
    write("proc/cpuinfo", cpuinfo);
    write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    write("etc/os-release", "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    for (at, (level, kind, size)) in caches.iter().enumerate() {
        for (name, text) in [("level", level), ("type", kind), ("size", size)] {
            write(&format!("sys/devices/system/cpu/cpu0/cache/index{at}/{name}"), &format!("{text}\n"));
        }
    }
    root
}

const CPUINFO: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R) Gold: 6430\n\
    stepping\t: 8\nflags\t\t: fpu avx2 hypervisor avx512f avx512dq avx512bw avx512vl\n\nprocessor\t: 1\nvendor_id\t: Another\n";

fn xeon() -> Machine {
    Machine {
        vendor: Some("GenuineIntel".to_owned()),
        family: Some(6),
        model: Some(143),
        stepping: Some(8),
        processor: Some("Intel(R) Xeon(R) Gold: 6430".to_owned()),
        vectors: Vectors::Avx512,
        l2_bytes: Some(2 << 20),
        l3_bytes: Some(60 << 20),
        virtual_machine: true,
        cores: 4,
        kernel: Some("6.1.0".to_owned()),
        system: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        dpdk: Some("DPDK 22.11.4".to_owned()),
    }
}

fn skylake() -> Machine {
    Machine { model: Some(85), stepping: Some(4), l2_bytes: Some(1 << 20), l3_bytes: Some(33 << 20), ..xeon() }
}

fn zen3() -> Machine {
    let epyc = Machine { vendor: Some("AuthenticAMD".to_owned()), family: Some(25), model: Some(1), ..xeon() };
    Machine { stepping: Some(1), vectors: Vectors::Avx2, l2_bytes: Some(512 << 10), l3_bytes: Some(32 << 20), ..epyc }
}

/// A machine of which the kernel says nothing.
fn unknown() -> Machine {
    Machine::read(Path::new("/nonexistent"), 1, None)
}

#[test]
fn a_machine_is_read() {
    let root = files(
        CPUINFO,
        &[("1", "Data", "48K"), ("2", "Instruction", "7K"), ("2", "Unified", "2048K"), ("3", "Unified", "60M")],
    );
    let read = Machine::read(root.path(), 4, Some("DPDK 22.11.4".to_owned()));
    assert_eq!(read, xeon());
    assert_eq!(read.to_string(), "Intel(R) Xeon(R) Gold: 6430 (6/143/8), 4 cores");
    for (flags, vectors, hypervisor) in [
        ("fpu avx2 avx512f avx512bw", Vectors::Avx2, false),
        ("avx512f avx512bw avx512vl", Vectors::None, false),
        ("avx hypervisor", Vectors::None, true),
    ] {
        let root = files(&format!("flags : {flags}\n"), &[("3", "Unified", "big")]);
        let read = Machine::read(root.path(), 1, None);
        assert_eq!((read.vectors, read.virtual_machine, read.l3_bytes), (vectors, hypervisor, None), "{flags}");
    }
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let read = unknown();
    assert_eq!((&read.vendor, read.family, read.l2_bytes, &read.kernel), (&None, None, None, &None));
    assert_eq!(read.to_string(), "an unknown processor (?/?/?), 1 core");
}

#[test]
fn identity_comes_first_then_vectors_then_caches_then_cores() {
    let stepping = Machine { stepping: Some(7), ..xeon() };
    // An L3 of half the size, and one of a sixteenth.
    let caches = |divisor: u64| Machine { l3_bytes: Some((33 << 20) / divisor), ..skylake() };
    let narrow = Machine { vectors: Vectors::Avx2, ..skylake() };
    let many = Machine { cores: 64, ..skylake() };
    let order = [xeon(), stepping, skylake(), many, caches(2), caches(16), narrow, zen3(), unknown()];
    for pair in order.windows(2) {
        let [nearer, farther] = [&pair[0], &pair[1]].map(|machine| Distance::between(&xeon(), machine));
        assert_eq!(nearer.compare(&farther), Ordering::Less, "{nearer:?} {farther:?}");
    }
    let mut shuffled = order.to_vec();
    while !shuffled.is_empty() {
        shuffled.reverse();
        let at = nearest(&xeon(), &shuffled).expect("one of them");
        assert_eq!(shuffled.remove(at), order[order.len() - 1 - shuffled.len()]);
    }
    assert_eq!(nearest(&xeon(), &[]), None);
}

#[test]
fn equals_are_in_their_order() {
    assert_eq!(nearest(&unknown(), &[zen3(), zen3(), skylake(), zen3()]), Some(0));
    assert_eq!(nearest(&xeon(), &[zen3(), skylake(), skylake()]), Some(1));
}

#[test]
fn an_unknown_machine_has_a_nearest_one_too() {
    // It has neither vendor nor vectors; of AVX2 and AVX-512 the first is nearer to none.
    assert_eq!(nearest(&unknown(), &[xeon(), zen3()]), Some(1));
    // Without a vendor, the numbers of another say nothing.
    let nameless = Machine { vendor: None, ..xeon() };
    assert_eq!(Distance::between(&nameless, &xeon()).identity, 4);
    assert_eq!(Distance::between(&unknown(), &unknown()).identity, 4);
    // A profile without sizes is not nearer than one with others.
    let sizeless = Machine { l2_bytes: None, l3_bytes: None, ..skylake() };
    assert_eq!(nearest(&xeon(), &[sizeless, skylake()]), Some(1));
}

#[test]
fn nearness_in_words() {
    let tiny = Machine { vectors: Vectors::None, l3_bytes: None, ..xeon() };
    for (there, words) in [
        (xeon(), "the same processor"),
        (Machine { stepping: Some(7), ..xeon() }, "another stepping of the same processor"),
        (Machine { model: Some(85), ..xeon() }, "another Intel processor, with AVX-512 like this one"),
        (
            skylake(),
            "another Intel processor, with AVX-512 like this one, and with other caches (L2 1 MiB, L3 33 MiB; here L2 2 MiB, L3 60 MiB)",
        ),
        (
            tiny,
            "the same processor, with no AVX2, where this one has AVX-512, and with other caches (L2 2 MiB, L3 unknown; here L2 2 MiB, L3 60 MiB)",
        ),
        (
            Machine { l2_bytes: Some(2 << 20), l3_bytes: Some(60 << 20), ..zen3() },
            "a processor of another vendor (AMD; this one: Intel), with AVX2, where this one has AVX-512",
        ),
    ] {
        assert_eq!(near(&xeon(), &there), words);
    }
    assert!(near(&unknown(), &xeon()).starts_with("a processor of another vendor (Intel; this one: unknown)"));
}

fn profile() -> Profile {
    let text = r#"{"format": "perigee-profile/1", "name": "n", "model": "eq7", "parameters": {"a": 1, "a0": 0, "b": 0, "b0": 0}, "fit": {"kept": 7}}"#;
    Profile::parse(text, "n.json").expect("a profile")
}

#[test]
fn an_origin_is_kept_in_the_fit() {
    let origin = Origin { machine: xeon(), command: "perigee predict calibrate".into(), date: "2026-11-26".into() };
    let mut profile = profile();
    origin.write(&mut profile);
    let read = Profile::parse(&profile.to_json(), "n.json").expect("a profile");
    assert_eq!(Origin::of(&read, "n.json").expect("an origin"), origin);
    assert_eq!(read.fit.expect("a fit")["kept"], 7);
}

#[test]
fn an_origin_is_checked() {
    let said = |profile: &Profile| Origin::of(profile, "n.json").expect_err("a mistake").to_string();
    let mut profile = profile();
    assert_eq!(said(&profile), "n.json: fit: missing field `machine`");
    Origin { machine: xeon(), command: String::new(), date: String::new() }.write(&mut profile);
    let fit = profile.fit.as_mut().expect("a fit");
    fit["machine"]["vectors"] = "avx1024".into();
    assert!(said(&profile).starts_with("n.json: fit.machine.vectors: unknown variant `avx1024`, expected"));
    let fit = profile.fit.as_mut().expect("a fit");
    fit["machine"]["color"] = "red".into();
    assert!(said(&profile).starts_with("n.json: fit.machine"));
    profile.fit = Some(3.into());
    assert!(said(&profile).starts_with("n.json: fit: invalid type"));
    profile.fit = None;
    assert!(said(&profile).contains("missing field"));
}

/// Any machine, of few values, so that some are alike.
fn machines() -> impl Strategy<Value = Machine> {
    let few = || proptest::option::of(0..3_u32);
    let size = || proptest::option::of(prop_oneof![Just(0), Just(1_u64 << 20), Just(1 << 25)]);
    let vectors = prop_oneof![Just(Vectors::None), Just(Vectors::Avx2), Just(Vectors::Avx512)];
    let vendor = proptest::option::of(prop_oneof![Just("GenuineIntel".to_owned()), Just("X".to_owned())]);
    (vendor, few(), few(), few(), vectors, size(), size(), 0..3_u32).prop_map(
        |(vendor, family, model, stepping, vectors, l2_bytes, l3_bytes, cores)| {
            let processor = Machine { vendor, family, model, stepping, vectors, ..unknown() };
            Machine { l2_bytes, l3_bytes, cores, ..processor }
        },
    )
}

proptest! {
    /// Whatever the machines: the distance has no direction, and none is nearer than the nearest.
    #[test]
    fn the_nearest_is_the_nearest(here in machines(), list in proptest::collection::vec(machines(), 1..8)) {
        let at = nearest(&here, &list).expect("one of them");
        let distance = Distance::between(&here, &list[at]);
        for machine in &list {
            prop_assert_eq!(Distance::between(&here, machine), Distance::between(machine, &here));
            prop_assert!(distance.compare(&Distance::between(&here, machine)) != Ordering::Greater);
        }
        prop_assert!(!near(&here, &list[at]).is_empty());
    }
}
