// SPDX-License-Identifier: MIT
//! What is printed and written of outcomes.

use crate::checks::Kind;
use crate::run::{Outcome, Ran, Request, Verdict};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "ok",
        Verdict::Fail => "FAILS",
        Verdict::Skip => "skipped",
    }
}

/// What a message, or a pass, does not say: (check, reason).
const NOTES: &[(&str, &str)] = &[
    ("apps.ipv4.reassemble", "the selftest writes 15,000 bytes into a packet of 10,240"),
    ("apps.tap.tap", "see the program `tap`"),
    ("lib.token_bucket", "counts in half a second, exactly: the best of 8 runs"),
    ("lib.tsc", "compares clocks: the best of 8 runs"),
    (
        "lib.yang.data",
        "compares texts in the order of `pairs`, which LuaJIT changes from run to run: the best of 8 runs",
    ),
    ("lwaftr-properties", "wants a card on the PCI bus, and calls itself flaky"),
    ("program.ipfix.tests.test", "the checkout lacks its large files; see the program `ipfix-probe`"),
];

/// Why it did not pass, for a table: what is known of it, or else its message.
fn reason(outcome: &Outcome) -> String {
    let known = NOTES.iter().find(|(name, _)| *name == outcome.name);
    let quoted =
        |message: String| if message.is_empty() { message } else { format!("`{}`", message.replace('`', "'")) };
    let snabb = outcome.snabb.as_ref().filter(|ran| ran.verdict != Verdict::Pass);
    let text = match (outcome.perigee.verdict, known, snabb) {
        (Verdict::Pass, _, Some(ran)) => format!("Snabb: {}", quoted(why(ran))),
        (_, Some((_, note)), _) => (*note).to_owned(),
        (Verdict::Pass, None, None) => String::new(),
        (_, None, _) => quoted(why(&outcome.perigee)),
    };
    text.replace('|', "\\|")
}

/// Why it did not pass: the last line that says something, without folders that differ from run to run.
fn why(ran: &Ran) -> String {
    if ran.verdict == Verdict::Pass {
        return String::new();
    }
    let says = |line: &&str| !line.is_empty() && !line.starts_with("exit code") && !line.starts_with("[C]:");
    let mut lines = ran.said.lines().map(str::trim);
    // Before a traceback stands what went wrong.
    let before = lines.clone().take_while(|line| *line != "stack traceback:").filter(says).last();
    let line = before.or_else(|| lines.rfind(|line| !line.is_empty())).unwrap_or("no message");
    let words = line.split(' ').map(|word| word.rsplit_once("/src/").map_or(word, |(_, path)| path));
    let text = words.collect::<Vec<_>>().join(" ");
    text.chars().take(160).collect()
}

/// A line for people.
pub fn line(outcome: &Outcome) -> String {
    let snabb = outcome.snabb.as_ref().map_or("", |ran| word(ran.verdict));
    format!("{:<44} {:<8} {snabb:<8} {}", outcome.name, word(outcome.perigee.verdict), why(&outcome.perigee))
        .trim_end()
        .to_owned()
}

/// An entry of the JSON.
#[derive(Serialize)]
pub struct Entry<'a> {
    kind: Kind,
    name: &'a str,
    perigee: Verdict,
    snabb: Option<Verdict>,
    why: String,
}

/// As JSON.
pub fn entry(outcome: &Outcome) -> Entry<'_> {
    Entry {
        kind: outcome.kind,
        name: &outcome.name,
        perigee: outcome.perigee.verdict,
        snabb: outcome.snabb.as_ref().map(|ran| ran.verdict),
        why: why(&outcome.perigee),
    }
}

/// The figures.
pub fn summary(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for (kind, what) in [(Kind::Module, "selftests of modules"), (Kind::Program, "programs")] {
        let of_kind: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.kind == kind).collect();
        let count = |is: &dyn Fn(&Outcome) -> bool| of_kind.iter().filter(|outcome| is(outcome)).count();
        let here = |verdict| count(&|outcome| outcome.perigee.verdict == verdict);
        let _ = write!(
            text,
            "{what}: {} pass, {} fail, {} are skipped",
            here(Verdict::Pass),
            here(Verdict::Fail),
            here(Verdict::Skip)
        );
        let passes = |outcome: &Outcome| outcome.snabb.as_ref().is_some_and(|ran| ran.verdict == Verdict::Pass);
        let both = count(&|outcome| passes(outcome) && outcome.perigee.verdict == Verdict::Pass);
        if of_kind.iter().any(|outcome| outcome.snabb.is_some()) {
            let _ = write!(text, "; of {} that pass on Snabb, {both} pass here", count(&passes));
        }
        text.push('\n');
    }
    let (passed, failed, skipped) = (Verdict::Pass, Verdict::Fail, Verdict::Skip);
    let all = |verdict| outcomes.iter().filter(|outcome| outcome.perigee.verdict == verdict).count();
    let good = if outcomes.iter().any(Outcome::is_worse) { "FAILED" } else { "ok" };
    let _ =
        writeln!(text, "test result: {good}. {} passed; {} failed; {} ignored", all(passed), all(failed), all(skipped));
    text
}

/// The commit of a checkout, if it is one of git's.
pub fn commit(tree: &Path) -> String {
    let said = Command::new("git").arg("-C").arg(tree).args(["log", "-1", "--format=%h of %cs"]).output();
    let said = said.ok().filter(|output| output.status.success());
    said.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// docs/snabb-tree.md.
pub fn document(request: &Request, outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "<!-- SPDX-License-Identifier: MIT -->\n<!-- Written by `./x test snabb-tree --write`. -->\n# A tree of Snabb's as a guest\n\n\
         Every module of [snabbco/snabb](https://github.com/snabbco/snabb) (commit {}) that has a selftest, and its programs, as they are,\n\
         run by `perigee snabb --tree`",
        request.commit
    );
    text += if request.snabb.is_some() { ", beside Snabb itself on the same machine.\n" } else { ".\n" };
    text += "\n    SNABB_TREE=~/snabb ./x test snabb-tree --snabb ~/snabb/src/snabb\n\n";
    for line in summary(outcomes).lines().filter(|line| !line.starts_with("test result")) {
        let _ = writeln!(text, "- {line}");
    }
    for (kind, title) in [(Kind::Program, "Programs"), (Kind::Module, "Modules")] {
        let _ = writeln!(text, "\n## {title}\n\n| | Snabb | perigee | why not |\n| --- | --- | --- | --- |");
        for outcome in outcomes.iter().filter(|outcome| outcome.kind == kind) {
            let snabb = outcome.snabb.as_ref().map_or("not run", |ran| word(ran.verdict));
            let _ = writeln!(
                text,
                "| {} | {snabb} | {} | {} |",
                outcome.name,
                word(outcome.perigee.verdict),
                reason(outcome)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_line_before_a_traceback() {
        let ran = |verdict, said: &str| Ran { verdict, said: said.to_owned() };
        let failed = "starting\n/tmp/x/src/lib/a.lua:7: bad thing\nstack traceback:\n\t[C]: in function\nexit code 1";
        assert_eq!(why(&ran(Verdict::Fail, failed)), "lib/a.lua:7: bad thing");
        assert_eq!(why(&ran(Verdict::Pass, "fine")), "");
        assert_eq!(why(&ran(Verdict::Fail, "\nexit code 3")), "exit code 3");
        assert_eq!(why(&ran(Verdict::Skip, "no device\n")), "no device");
    }

    #[test]
    fn what_fails_on_snabb_too_is_not_worse() {
        let ran = |verdict| Ran { verdict, said: String::new() };
        let outcome = |perigee, snabb: Option<Verdict>| Outcome {
            kind: Kind::Module,
            name: "x".to_owned(),
            perigee: ran(perigee),
            snabb: snabb.map(ran),
        };
        assert!(outcome(Verdict::Fail, None).is_worse() && outcome(Verdict::Fail, Some(Verdict::Pass)).is_worse());
        assert!(!outcome(Verdict::Fail, Some(Verdict::Fail)).is_worse());
        assert!(!outcome(Verdict::Pass, None).is_worse());
        let both = [outcome(Verdict::Pass, Some(Verdict::Pass)), outcome(Verdict::Fail, Some(Verdict::Pass))];
        let said = summary(&both);
        assert!(said.contains("of 2 that pass on Snabb, 1 pass here") && said.contains("FAILED. 1 passed; 1 failed"));
    }
}
