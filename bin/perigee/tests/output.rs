// SPDX-License-Identifier: MIT
//! Where nobody reads what is printed, commands do their work and end as they would.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// A pipe whose reader has gone.
fn broken() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn status(words: &[&str], standard: impl FnOnce(&mut Command) -> &mut Command) -> ExitStatus {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perigee"));
    standard(command.args(words).env("XDG_RUNTIME_DIR", "/nowhere").stdin(Stdio::null()));
    command.status().expect("perigee runs")
}

/// `perigee header | head -1`: "failed printing to stdout: Broken pipe", and exit code 101.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/two-ports.toml");
    let example = example.to_str().expect("a path in UTF-8");
    for words in [&["header"][..], &["completions", "bash"], &["check", example], &["snabb"]] {
        let status = status(words, |command| command.stdout(broken()));
        assert_eq!(status.code(), Some(0), "{words:?}");
    }
}

#[test]
fn a_failure_that_nobody_reads_of_is_one_by_its_exit_code() {
    let socket = ["show", "ports", "--socket", "/nowhere/a.sock"];
    for words in [&socket[..], &["check", "/nowhere/a.toml"], &["run", "/nowhere/a.toml"]] {
        let status = status(words, |command| command.stdout(broken()).stderr(broken()));
        assert_eq!(status.code(), Some(1), "{words:?}");
    }
}
