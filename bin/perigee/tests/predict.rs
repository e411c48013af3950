// SPDX-License-Identifier: MIT
//! `perigee predict fit` and `verify` as programs: what they print and write, and their exit codes.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/predict").join(name)
}

fn predict(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perigee")).arg("predict").args(arguments).output().expect("perigee runs")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn good(arguments: &[&str]) -> String {
    let output = predict(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn refused(arguments: &[&str]) -> String {
    let output = predict(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty() && error.starts_with("perigee: ") && error.lines().count() == 1, "{error}");
    error
}

#[test]
fn from_points_to_a_profile_to_errors() {
    let folder = tempfile::tempdir().expect("folder");
    let profile = folder.path().join("profile.json");
    let (four, all) = (example("four-points.csv"), example("published.csv"));
    let text = good(&["fit", path(&four), "--model=eq7", "-o", path(&profile)]);
    for part in
        ["eq7, fitted to 4 points", "0.0113921", "no intervals: as many parameters as points", "nothing tests this fit"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = good(&["verify", path(&profile), path(&all)]);
    for part in
        ["all points (20):", "not fitted (16):", "fitted (4):", "limited by links (3):", "mean absolute 1.396 %"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let found: Value = serde_json::from_str(&good(&["verify", path(&profile), path(&all), "--json"])).expect("JSON");
    assert_eq!((found["points"].as_array().map(Vec::len), found["new"]["points"].as_u64()), (Some(20), Some(16)));
    let json = good(&["fit", path(&four), "--model=eq7", "--json"]);
    assert_eq!(json, std::fs::read_to_string(&profile).expect("written"));
}

#[test]
fn the_model_is_chosen_and_what_is_not_determined_is_said() {
    let text = good(&["fit", path(&example("published.csv"))]);
    for part in [
        "contention is chosen: root mean square error of 17 rates",
        "left out, as links limit the rate",
        "c_batch_ns cannot be determined",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = good(&["fit", path(&example("contention-points.csv"))]);
    assert!(text.contains("warning: c_byte_ns: not determined, held at 0"), "{text}");
}

#[test]
fn mistakes_are_said_with_status_1() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("a file");
        file
    };
    let four = example("four-points.csv");
    let points = file("p.csv", "flows,cores,frame_size,gbps\n1,1,64,fast\n");
    assert!(refused(&["fit", path(&points)]).contains("p.csv:2: column gbps: found \"fast\", expected a number"));
    let points = file("q.csv", "flows,cores,frame_size,gbps\n1,1,64,1.2\n1,1,512,7.5\n");
    let said = refused(&["fit", path(&points), "--model", "eq7"]);
    assert!(said.contains("all points have 1 core; measure on 2 or more cores"), "{said}");
    let said = refused(&["fit", path(&points), "--model", "batch"]);
    assert!(said.contains("measure with a second forced burst size (column burst)"), "{said}");
    let said = refused(&["fit", path(&four), "--burst=0"]);
    assert!(said.contains("router.burst: found 0, expected a whole number, 1 to 1024"), "{said}");
    let said = refused(&["fit", path(&four), "-o", path(&folder.path().join("none/profile.json"))]);
    assert!(said.contains("expected a file that can be written"), "{said}");
    let profile = file(
        "p.json",
        r#"{"format":"perigee-profile/1","name":"x","model":"eq7","parameters":{"a":1,"a0":0,"b":-1,"b0":0}}"#,
    );
    let said = refused(&["verify", path(&profile), path(&four)]);
    assert!(said.contains("p.json: parameters.b: found -1, expected a number >= 0"), "{said}");
    assert!(refused(&["verify", path(&folder.path().join("no.json")), path(&four)]).contains("no.json: No such file"));
}
