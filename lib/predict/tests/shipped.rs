// SPDX-License-Identifier: MIT
//! The profiles that ship: each folder is complete and registered, and its profile is what a fit of its points gives.

#[path = "../examples/shipped_profiles.rs"]
#[allow(dead_code, reason = "an example's main")]
mod shipped_profiles;

use perigee_predict::machine::{Machine, Origin};
use perigee_predict::shipped::{self, ALL};
use perigee_predict::{Model, Profile};
use shipped_profiles::{folder, refitted};
use std::fs;
use std::path::Path;

#[test]
fn each_folder_is_registered_and_each_name_has_one() {
    let entries = fs::read_dir(folder()).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut folders: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("a name in UTF-8"))
        .collect();
    folders.sort();
    let names: Vec<&str> = ALL.iter().map(|shipped| shipped.name).collect();
    assert_eq!(names, folders, "lib/predict/src/shipped.rs lists the folders of lib/predict/profiles in their order");
    assert!(!names.is_empty());
}

#[test]
fn each_says_what_it_is() {
    for shipped in ALL {
        let name = shipped.name;
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
        assert_eq!(shipped.json, fs::read_to_string(folder().join(name).join("profile.json")).expect("its text"));
        let profile = Profile::parse(shipped.json, name).expect("a profile");
        assert_eq!(profile.name, name, "its name is its folder's: perigee predict calibrate --name {name}");
        assert!(matches!(profile.model, Model::Batch { .. }), "{name}: perigee predict calibrate makes batch models");
        let origin = shipped.origin();
        let Machine { vendor, family, model, stepping, processor, l2_bytes, l3_bytes, cores, .. } = &origin.machine;
        assert!(vendor.is_some() && processor.is_some(), "{name}: {:?}", origin.machine);
        assert!([family, model, stepping].into_iter().all(Option::is_some), "{name}: {:?}", origin.machine);
        assert!([l2_bytes, l3_bytes].into_iter().all(|bytes| bytes.is_some_and(|b| b > 0)), "{name}: {l2_bytes:?}");
        assert!(*cores > 0, "{name}");
        assert!(origin.command.starts_with("perigee predict calibrate"), "{name}: {}", origin.command);
        assert!(!origin.command.contains("--quick"), "{name}: a quick one determines less");
        let digits: Vec<usize> = origin.date.split('-').map(str::len).collect();
        assert_eq!(digits, [4, 2, 2], "{name}: {}", origin.date);
        let text = serde_json::to_string(&origin).expect("JSON");
        assert!(!text.contains('\\'), "{name}: something that is not for terminals: {text}");
    }
}

#[test]
fn each_is_what_a_fit_of_its_points_gives() {
    for shipped in ALL {
        let (name, kept) = (shipped.name, shipped.profile());
        let fresh = refitted(&folder().join(name)).expect("a fit");
        for ((parameter, kept), (_, fresh)) in kept.model.parameters().into_iter().zip(fresh.model.parameters()) {
            assert!(
                (kept - fresh).abs() <= 1e-9 * fresh.abs(),
                "{name}: {parameter} is {kept}, a fit gives {fresh}; cargo run -p perigee-predict --example shipped_profiles"
            );
        }
        assert_eq!((&kept.router, shipped.origin()), (&fresh.router, Origin::of(&fresh, name).expect("an origin")));
        times(&folder().join(name).join("latency.csv"));
    }
}

/// The times that were measured: a row a load, all of them numbers.
fn times(file: &Path) {
    let mut csv = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(file).expect("a file");
    assert_eq!(csv.headers().expect("a header").get(0), Some("load"), "{}", file.display());
    let rows: Vec<Vec<f64>> = csv.deserialize().map(|row| row.expect("numbers")).collect();
    let loads: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    let rise = loads.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(!loads.is_empty() && rise && loads.iter().all(|load| (0.0..1.0).contains(load)), "{loads:?}");
}

#[test]
fn its_own_machine_has_a_profile_of_that_processor() {
    for shipped in ALL {
        let here = shipped.origin().machine;
        let found = shipped::nearest(&here).expect("one");
        assert_eq!(perigee_predict::machine::near(&here, &found.origin().machine), "the same processor");
        assert_eq!(shipped::find(shipped.name), Some(shipped));
    }
    assert_eq!(shipped::find("none-of-them"), None);
    let unknown = Machine::read(Path::new("/nonexistent"), 1, None);
    assert!(shipped::nearest(&unknown).is_some());
}
