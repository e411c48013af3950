// SPDX-License-Identifier: MIT
//! docs/tasks.md names every function that tasks have, and none that they do not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/tasks.md")).unwrap()
}

/// `task.start` of a line `function task.start(f, ...)`; functions of metatables do not count.
fn defined(line: &str) -> Option<String> {
    let name = line.strip_prefix("function ")?.split('(').next()?;
    (!name.contains("__") && name.contains(['.', ':'])).then(|| name.to_owned())
}

fn functions(files: &[&str]) -> BTreeSet<String> {
    let text = files.iter().map(|file| fs::read_to_string(root().join(file)).unwrap()).collect::<String>();
    text.lines().filter_map(defined).collect()
}

#[test]
fn every_function_is_on_the_page_and_every_function_of_the_page_is_there() {
    let files = ["task", "frame", "histogram", "counter", "pcapng"].map(|name| format!("lua/task/perigee/{name}.lua"));
    let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
    files.push("lua/perigee/worker.lua");
    // The worker itself is the router's.
    let known: BTreeSet<String> = functions(&files).into_iter().filter(|name| !name.starts_with("worker:")).collect();
    assert!(known.contains("task.start") && known.contains("mask:has") && known.len() > 60, "{known:?}");
    let page = page();
    let reference = page.split("## Reference").nth(1).unwrap().split("## Coming from").next().unwrap();
    let named: BTreeSet<String> = reference
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.strip_suffix(')')?.split_once('('))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.contains(['.', ':']) && !name.starts_with("gather:"))
        .collect();
    let missing: Vec<_> = known.difference(&named).collect();
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "not on the page: {missing:?}; only on the page: {unknown:?}");
}

#[test]
fn every_module_for_programs_of_libmoon_is_on_the_page() {
    let page = page();
    let table = page.split("## Coming from").nth(1).unwrap();
    for (folder, before) in [("lua/task/libmoon", ""), ("lua/task/libmoon/proto", "proto.")] {
        for entry in fs::read_dir(root().join(folder)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let Some(name) = name.strip_suffix(".lua") else { continue };
            assert!(
                table.contains(&format!("`{before}{name}`")),
                "docs/tasks.md does not name the module {before}{name}"
            );
        }
    }
}
