// SPDX-License-Identifier: MIT
//! `perigee predict profiles`, and where the other subcommands find a profile: by file, by name, by this machine.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn predict(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee"));
    command.current_dir(folder).arg("predict").args(arguments).env_remove("PERIGEE_NS3").output().expect("perigee runs")
}

/// What it prints, and what it says on the standard error.
fn good(folder: &Path, arguments: &[&str]) -> (String, String) {
    let Output { status, stdout, stderr } = predict(folder, arguments);
    let (printed, said) = (String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"));
    assert!(status.success(), "{arguments:?}: {said}");
    (printed, said)
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = predict(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty() && error.starts_with("perigee: ") && error.lines().count() == 1, "{error}");
    error
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&good(folder, arguments).0).expect("JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text {key} in {value}"))
}

/// The profiles that ship, and which of them is the nearest.
fn shipped(folder: &Path) -> (Vec<Value>, String) {
    let list = json(folder, &["profiles", "--json"]).as_array().expect("a list").clone();
    let nearest: Vec<&Value> = list.iter().filter(|line| line["nearest"] == true).collect();
    assert_eq!(nearest.len(), 1, "{list:?}");
    let name = text(nearest[0], "name").to_owned();
    (list, name)
}

fn files(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lib/predict/profiles").join(name)
}

/// A question that closed forms answer.
const QUESTION: [&str; 3] = ["--rate=1Mpps", "--cores=1..2", "--closed"];

#[test]
fn profiles_that_ship_are_listed_and_printed() {
    let folder = tempfile::tempdir().expect("folder");
    let (list, nearest) = shipped(folder.path());
    let (table, _) = good(folder.path(), &["profiles"]);
    for line in &list {
        let name = text(line, "name");
        assert!(table.contains(name) && table.contains(text(line, "date")) && table.contains(text(line, "command")));
        let printed = good(folder.path(), &["profiles", name]).0;
        assert_eq!(printed, fs::read_to_string(files(name).join("profile.json")).expect("a file"));
    }
    let line = table.lines().last().expect("a line");
    assert!(line.starts_with("the nearest to this machine (") && line.contains(&format!("): {nearest}, ")), "{table}");
    let error = refused(folder.path(), &["profiles", "a-toaster"]);
    assert!(error.contains("no profile of the name \"a-toaster\" ships, expected one of ") && error.contains(&nearest));
}

#[test]
fn without_a_profile_the_nearest_is_taken_and_said_to_be() {
    let folder = tempfile::tempdir().expect("folder");
    let (list, nearest) = shipped(folder.path());
    let near = list.iter().find(|line| line["nearest"] == true).map(|line| text(line, "near")).expect("one");
    let run = |more: &[&str]| good(folder.path(), &[&["run"], &QUESTION[..], more].concat());
    let (tables, said) = run(&["--html=page.html"]);
    let sentence =
        format!("No profile is named, so this is {nearest}, the nearest to this machine of those that ship: {near}. ");
    assert!(
        said.starts_with(&sentence) && said.contains("`perigee predict calibrate` measures this machine"),
        "{said}"
    );
    assert!(tables.starts_with(&format!("{nearest}: 1 Mpps")) && tables.contains(said.trim()), "{tables}");
    let page = fs::read_to_string(folder.path().join("page.html")).expect("written");
    assert!(page.contains(&format!("<h1>{nearest}</h1>")) && page.contains(&sentence));
    let (answer, again) = run(&["--json"]);
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((text(&answer, "profile"), answer["notes"][0].as_str()), (&*nearest, Some(said.trim())));
    assert_eq!(again, said);
    // A question that makes no sense is said alone.
    assert!(refused(folder.path(), &["run", "--rate=10"]).contains("--rate: found 10"));
}

#[test]
fn a_name_stands_for_a_file_unless_there_is_one() {
    let folder = tempfile::tempdir().expect("folder");
    let (_, name) = shipped(folder.path());
    let run = [&["run", &name], &QUESTION[..]].concat();
    let (tables, said) = good(folder.path(), &run);
    assert!(tables.starts_with(&format!("{name}: ")) && !tables.contains("No profile is named"), "{tables}");
    assert_eq!(said, "");
    // A folder of that name, as `calibrate --out` makes one, is no profile.
    fs::create_dir(folder.path().join(&name)).expect("made");
    assert_eq!(good(folder.path(), &run).0, tables);
    fs::remove_dir(folder.path().join(&name)).expect("removed");
    let other = r#"{"format": "perigee-profile/1", "name": "a file", "model": "contention",
        "parameters": {"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1}}"#;
    fs::write(folder.path().join(&name), other).expect("written");
    assert!(good(folder.path(), &run).0.starts_with("a file: "));
}

#[test]
fn a_name_that_is_neither_is_refused_with_the_names_that_are() {
    let folder = tempfile::tempdir().expect("folder");
    let (_, name) = shipped(folder.path());
    let points = files(&name).join("points.csv");
    let points = points.to_str().expect("a path in UTF-8");
    for arguments in [&["run", "absent", "--rate=1G"][..], &["verify", "absent", points]] {
        let error = refused(folder.path(), arguments);
        assert!(error.contains("absent: No such file") && error.contains("or the name of one that ships: "), "{error}");
        assert!(error.contains(&name), "{error}");
    }
    // A file that is no profile is that, whatever it is called.
    fs::write(folder.path().join(&name), "{").expect("written");
    assert!(refused(folder.path(), &["run", &name, "--rate=1G"]).contains("expected JSON"));
}

#[test]
fn one_that_ships_is_compared_with_its_own_points() {
    let folder = tempfile::tempdir().expect("folder");
    let (list, _) = shipped(folder.path());
    for name in list.iter().map(|line| text(line, "name")) {
        let points = files(name).join("points.csv");
        let found = json(folder.path(), &["verify", name, points.to_str().expect("UTF-8"), "--json"]);
        assert_eq!((text(&found, "profile"), &found["fitted"]["points"]), (name, &found["all"]["points"]));
        assert!(found["new"].is_null());
    }
}
