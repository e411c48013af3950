// SPDX-License-Identifier: MIT
//! An EAL that cannot start: one clear sentence with DPDK's own reason, and nothing left behind.

use perigee_dpdk::{Eal, EalConfig, Hugepages};

/// Set where this program runs for what it prints.
const ALONE: &str = "PERIGEE_PRINTS_ALONE";

fn main() {
    if std::env::args().nth(1).is_some_and(|filter| !filter.starts_with('-') && !"refusals".contains(&filter)) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = EalConfig {
        hugepages: Hugepages::No,
        // More than 47 bits of addresses.
        memory_mb: 200_000_000,
        runtime_dir: Some(folder.path().into()),
        ..EalConfig::default()
    };
    let too_much = EalConfig { hugepages: Hugepages::Yes, memory_mb: u32::MAX, ..config.clone() };
    let error = Eal::start(&too_much).unwrap_err().to_string();
    assert!(error.starts_with("4294967295 MB of free hugepages are needed and"), "{error}");
    println!("{error}");

    let no_core = EalConfig { main_core: Some(999), ..config.clone() };
    let error = Eal::start(&no_core).unwrap_err().to_string();
    assert!(error.starts_with("the main core is to be 999"), "{error}");
    println!("{error}");

    // It took half a minute to find this out.
    let error = Eal::start(&config).unwrap_err().to_string();
    assert!(error.starts_with("found 200000000 MB of memory for DPDK, expected no more than the "), "{error}");
    println!("{error}");

    let config = EalConfig { memory_mb: 64, extra: vec!["--bogus".to_owned()], ..config };
    let error = Eal::start(&config).unwrap_err().to_string();
    assert!(error.starts_with("found \"--bogus\" as DPDK's arguments, expected such as DPDK "), "{error}");
    println!("{error}");
    if std::env::var_os(ALONE).is_some() {
        return;
    }
    // A hundred lines of usage were printed, by C: of standard output the sentences are left.
    let this = std::env::current_exe().expect("this program");
    let printed = std::process::Command::new(this).env(ALONE, "1").output().expect("this program again");
    assert_eq!(printed.stdout.split(|byte| *byte == b'\n').count(), 5);
    assert!(String::from_utf8_lossy(&printed.stderr).contains("unrecognized option '--bogus'"));
    assert!(!folder.path().join("dpdk").join(&config.file_prefix).exists());

    let error = Eal::start(&config).unwrap_err().to_string();
    assert!(error.contains("only once per process"), "{error}");
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
}
