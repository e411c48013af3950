// SPDX-License-Identifier: MIT
//! Rules of the tests' sources, and of all files, that no compiler knows.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files that git tracks; where there is no git, all that are not built. Paths are those in the repository.
fn files() -> Vec<String> {
    let tracked = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    if let Some(tracked) = tracked.ok().filter(|tracked| tracked.status.success()) {
        let list = String::from_utf8_lossy(&tracked.stdout).into_owned();
        return list.split_terminator('\0').map(str::to_owned).collect();
    }
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).into_iter().flatten().flatten() {
            let path = folder.join(entry.file_name());
            match entry.path().is_dir() {
                true if path != Path::new("target") && path != Path::new(".git") => folders.push(path),
                true => {}
                false => found.push(path.display().to_string()),
            }
        }
    }
    found
}

/// Texts, by their paths; binary files, and deleted ones that are still tracked, are left out.
fn texts(choose: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let text = |path: String| fs::read_to_string(root().join(&path)).ok().map(|text| (path, text));
    files().into_iter().filter(|path| choose(path)).filter_map(text).collect()
}

/// The lines of tests, with their numbers: of a file of tests all, of others those behind `#[cfg(test)]`.
fn lines_of_tests<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let folders = ["tests/", "bench/tests/"];
    let whole = folders.iter().any(|folder| path.starts_with(folder)) || path.contains("/tests/");
    let whole = whole || path.ends_with("/tests.rs");
    let first = if whole { Some(0) } else { text.lines().position(|line| line.trim() == "#[cfg(test)]") };
    let numbered = (1..).zip(text.lines());
    first.map_or_else(Vec::new, |first| numbered.skip(first).collect())
}

/// A call of the kernel's sleep, not a method of that name, nor a script's.
fn sleeps(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.contains("thread::sleep(") || code.contains("time::sleep(") || code.trim_start().starts_with("sleep(")
}

#[test]
fn no_verdict_hangs_on_a_sleep() {
    let mut bare = Vec::new();
    for (path, text) in texts(|path| path.ends_with(".rs") && !path.ends_with("rules.rs")) {
        let lines = lines_of_tests(&path, &text);
        for (at, (number, line)) in lines.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |before| lines[before].1);
            if sleeps(line) && !before.trim_start().starts_with("// sleep: ") {
                bare.push(format!("{path}:{number}"));
            }
        }
    }
    assert!(
        bare.is_empty(),
        "found a sleep in a test, expected a wait for an event or a counter (`wait_for`), or a line before it that says why it \
         decides nothing, `// sleep: WHY`: {}",
        bare.join(", ")
    );
}

/// Where an absolute path into somebody's folders begins in a line.
fn machine_path(line: &str) -> Option<usize> {
    let begins = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_ascii_alphanumeric() && !"._-/~$}>*]".contains(c))
    };
    let folders = ["home", "root", "work", "Users"].map(|name| format!("/{name}/"));
    let found = |folder: &String| line.match_indices(folder.as_str()).map(|(at, _)| at).find(|at| begins(*at));
    folders
        .iter()
        .find_map(found)
        .filter(|at| !["/home/someone", "/home/$"].iter().any(|known| line[*at..].starts_with(known)))
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    let mut found = Vec::new();
    for (path, text) in texts(|_| true) {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| machine_path(line).is_some());
        found.extend(lines.map(|(number, _)| format!("{path}:{number}")));
    }
    assert!(
        found.is_empty(),
        "found an absolute path of one machine, expected one below the repository, or of /home/someone: {}",
        found.join(", ")
    );
}

/// Pages whose tables promise something: the last cell of each row names the test that keeps it.
const PROMISES: [&str; 4] = ["docs/linux.md", "docs/losses.md", "docs/promises.md", "docs/security.md"];

/// The rows of a page's tables of promises, each with the name in its last cell. Heads of such tables end in `test`.
fn promises(page: &str) -> Vec<(&str, Option<&str>)> {
    let (mut rows, mut promising) = (Vec::new(), false);
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let is_head = lines.peek().is_some_and(|next| next.starts_with("| ---"));
        if is_head {
            promising = last_cell(line) == Some("test");
        } else if !line.starts_with("| ") {
            promising = false;
        } else if promising && !line.starts_with("| ---") {
            rows.push((line, last_name(line)));
        }
    }
    rows
}

fn last_cell(row: &str) -> Option<&str> {
    Some(row.trim_end().strip_suffix('|')?.rsplit('|').next()?.trim())
}

fn last_name(row: &str) -> Option<&str> {
    last_cell(row)?.strip_prefix('`')?.strip_suffix('`').filter(|name| !name.contains('`'))
}

#[test]
fn every_promise_names_a_test_that_there_is() {
    let sources = texts(|path| path.ends_with(".rs"));
    let after = sources.iter().flat_map(|(_, text)| text.split("fn ").skip(1));
    let functions: HashSet<&str> = after.filter_map(|rest| Some(rest.split_once('(')?.0)).collect();
    for page in PROMISES {
        let text = fs::read_to_string(root().join(page)).expect(page);
        let rows = promises(&text);
        assert!(rows.len() > 20, "{page} has {} rows", rows.len());
        let without: Vec<&str> = rows
            .iter()
            .filter(|(_, name)| !name.is_some_and(|name| functions.contains(name)))
            .map(|(row, _)| *row)
            .collect();
        assert!(without.is_empty(), "{page}: rows without a test that there is:\n{}", without.join("\n"));
    }
}

/// What each point of a list of promises begins with, in bold.
fn in_bold(list: &str) -> Vec<String> {
    let one_line = list.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.split("- ").filter_map(|point| Some(point.split_once("**")?.1.split_once("**")?.0.to_owned())).collect()
}

#[test]
fn every_promise_of_security_has_a_table_of_its_tests() {
    let read = |page: &str| fs::read_to_string(root().join(page)).expect(page);
    let (security, tests) = (read("SECURITY.md"), read("docs/security.md"));
    let promised = security.split("## ").find(|part| part.starts_with("What is promised")).expect("the promises");
    let points = promised.lines().filter(|line| line.starts_with("- ")).count();
    let begin = in_bold(promised);
    assert!(points > 15 && begin.len() == points, "{points} points begin with {begin:?}");
    let tables: Vec<&str> = tests.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let missing: Vec<_> = begin.iter().zip(&tables).filter(|(promise, table)| promise != table).collect();
    assert!(missing.is_empty(), "docs/security.md has other tables than SECURITY.md has promises: {missing:?}");
}

/// Where bytes from the network are read: Rust's rules hold there, whatever the bytes are.
#[test]
fn headers_are_parsed_without_unsafe() {
    let rooms = ["lib/net/src", "lib/packet/src/wire", "lib/modules/src", "lib/slowpath/src"];
    let parsers = texts(|path| path.ends_with(".rs") && rooms.iter().any(|room| path.starts_with(room)));
    assert!(parsers.len() > 50, "{} files", parsers.len());
    for (path, text) in parsers {
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let found = code.filter(|line| line.contains("unsafe") && !line.contains("forbid(unsafe_code)")).count();
        assert_eq!(found, 0, "{path} has code with `unsafe`");
    }
    for crates in ["net", "modules", "slowpath"] {
        let top = fs::read_to_string(root().join(format!("lib/{crates}/src/lib.rs"))).expect("a crate");
        assert!(top.contains("#![forbid(unsafe_code)]"), "lib/{crates} may have code with `unsafe`");
    }
}

#[test]
fn the_rules_find_what_they_are_for() {
    assert!(sleeps("    std::thread::sleep(PAUSE);") && sleeps("  sleep(Duration::from_secs(1));"));
    assert!(!sleeps("    task.sleep(1)") && !sleeps("// thread::sleep(x)") && !sleeps("let sleep = sleeps(1);"));
    let text = "fn run() {}\n#[cfg(test)]\nmod tests {}\n";
    assert_eq!(lines_of_tests("lib/x/src/a.rs", text), [(2, "#[cfg(test)]"), (3, "mod tests {}")]);
    assert_eq!(lines_of_tests("lib/x/tests/a.rs", text).len(), 3);
    let path = |folder: &str| format!("/{folder}/x");
    assert_eq!(machine_path(&format!("see {}", path("work"))), Some(4));
    assert_eq!(machine_path(&path("home")), Some(0));
    assert_eq!(machine_path(&format!("target{}", path("work"))), None);
    assert_eq!(machine_path(&path("tmp")), None);
    let page = "text\n| what | test |\n| --- | --- |\n| a | `b_c` |\n| d | e |\n";
    assert_eq!(promises(page), [("| a | `b_c` |", Some("b_c")), ("| d | e |", None)]);
    assert_eq!(in_bold("- **A b\n  c** is. **Not d**\n- When e, **f** is.\n"), ["A b c", "f"]);
    let other = "\n| name | metric |\n| --- | --- |\n| f | `g` |\n";
    assert_eq!(promises(&format!("{page}{other}")), promises(page), "a table without tests promises nothing");
}
