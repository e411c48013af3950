// SPDX-License-Identifier: MIT
//! Every target with its committed seeds, and with changes of them at random: a target that no longer holds, or no
//! longer builds, is found without libFuzzer. What libFuzzer finds becomes a seed under a name that says what was
//! wrong.
//!
//! `PERIGEE_FUZZ` multiplies the number of inputs per target (150), `PERIGEE_FUZZ_SEED` is the seed (default: a new one
//! each time).

use perigee_fuzz::{TARGETS, Target, filters, flood, hostile, target};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};

const INPUTS: u64 = 150;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is \"{text}\"; set it to a number")))
}

/// Says which input it was.
struct Report<'a>(&'a Target, &'a str, &'a [u8]);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}, {}: {:02x?}", self.0.name, self.1, self.2);
        }
    }
}

fn try_one(target: &Target, what: &str, bytes: &[u8]) {
    let _report = Report(target, what, bytes);
    (target.run)(bytes);
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The seeds of a target, in the order of their names.
fn seeds(target: &Target) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(corpus().join(target.name)).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect()
}

fn changed(seed: &[u8], other: &[u8], random: &mut SmallRng, longest: usize) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..8) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            2 if at < bytes.len() => bytes[at] = random.random(),
            3 => {
                bytes.truncate(at);
                bytes.extend_from_slice(other.get(at..).unwrap_or(other));
            }
            _ => {
                let more: Vec<u8> = (0..random.random_range(1..40)).map(|_| random.random()).collect();
                drop(bytes.splice(at..at, more));
            }
        }
    }
    bytes.truncate(longest);
    bytes
}

fn fuzz(name: &str) {
    let target = target(name).unwrap();
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{name} has no seed");
    for (path, bytes) in &seeds {
        try_one(target, path, bytes);
    }
    try_one(target, "nothing", &[]);
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    for _ in 0..INPUTS * number("PERIGEE_FUZZ").unwrap_or(1) {
        let [one, other] = [0; 2].map(|_| &seeds[random.random_range(0..seeds.len())].1);
        try_one(target, "a change of a seed", &changed(one, other, &mut random, target.longest));
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                fuzz(stringify!($name));
            }
        )*
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}
targets! { ports scripts tasks snabb api linux helper netlink pcap socket fpm config profile expression views }

#[test]
fn every_target_is_here_and_every_seed_is_of_one() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, TESTED);
    for folder in std::fs::read_dir(corpus()).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&&*name), "corpus/{name} is of no target");
    }
}

#[test]
fn the_same_seed_sends_the_same_frames() {
    let folder = tempfile::tempdir().unwrap();
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    let run = |threads| flood::run(20_000, seed, threads, folder.path(), |_| ());
    let (one, two) = (run(1), run(2));
    assert_eq!(one, two);
    assert!(one.forwarded > 1000 && one.slow > 0 && one.reasons.len() > 20, "{one:?}");
    assert_ne!(flood::run(20_000, seed ^ 1, 1, folder.path(), |_| ()).digest, one.digest);
}

/// `./x fuzz filters`, short.
#[test]
fn no_frame_passes_a_filter_that_denies_it() {
    let folder = tempfile::tempdir().unwrap();
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    let outcome = filters::run(50_000 * number("PERIGEE_FUZZ").unwrap_or(1), seed, folder.path(), |_| ());
    assert!(outcome.hidden > 100 && outcome.passed > 1000 && outcome.lists > 10, "{outcome:?}");
}

/// `./x fuzz hostile`, short.
#[test]
fn no_script_stops_a_worker_or_ends_the_process_without_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let seed = number("PERIGEE_FUZZ_SEED").unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    let child = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_perigee-fuzz"));
        command.arg("victim");
        command
    };
    let outcome = hostile::run(40 * number("PERIGEE_FUZZ").unwrap_or(1), seed, folder.path(), &child, || ());
    println!("{outcome:?}");
    assert!(outcome.ways.len() > 2, "{outcome:?}");
}
