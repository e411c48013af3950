// SPDX-License-Identifier: MIT
//! docs/conformance.md: every row with perigee and Linux side by side. Rows and texts are those of the table; results
//! and reasons are those of the last run that was written, and stay when the page is rendered again.

use crate::rows::{Family, ROWS};
use crate::run::{Outcome, Verdict};
use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;
use std::path::PathBuf;

/// How the page is made, which it says itself.
pub const COMMAND: &str = "./x conformance --write";
const HEADER: &str = "| row | level | section | | perigee | Linux |";
const MADE: &str = "Made by";

/// What the results of a page are: one text for each row, and how they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// A sentence: versions, kernel, date.
    pub made: String,
    /// Of each row, of perigee and of Linux.
    pub rows: Vec<[String; 2]>,
}

/// The page's path.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md")
}

/// How an outcome stands on the page.
pub fn cell(outcome: &Outcome) -> String {
    let reason = outcome.reason.replace('|', "/");
    match outcome.verdict {
        Verdict::Pass => "pass".to_owned(),
        other => format!("**{}**: {reason}", other.name()),
    }
}

/// The page.
pub fn render(results: &Results) -> String {
    let mut page = format!(
        "<!-- SPDX-License-Identifier: MIT -->\n\
         <!-- Generated: {COMMAND} -->\n\
         # Conformance\n\n\
         What RFCs demand of a router, packets in and packets out. `./x conformance` runs every row against perigee, \
         `--target linux` against the\nkernel, `--target COMMAND` against any other router; `--help` says more, and \
         [tests/conformance](../tests/conformance/README.md) how it works.\n\n\
         M: the RFC says MUST; S: it says SHOULD; M/S: both, each about a part of the row, and the row passes only if both \
         do; -: neither, or two\nRFCs that differ. A row passes if all its cases do: most run plain packets and such with \
         options, which perigee's fast path and slow path\nforward.\n\n\
         {}\n",
        results.made
    );
    for family in [Family::Ipv4, Family::Ipv6] {
        let of: Vec<_> = ROWS.iter().zip(&results.rows).filter(|(row, _)| row.family == family).collect();
        let passed = |target: usize| of.iter().filter(|(_, cells)| cells[target] == "pass").count();
        // Writing to a string does not fail.
        let _ = write!(
            page,
            "\n## {}\n\nOf {} rows perigee passes {}, Linux {}.\n\n{HEADER}\n| --- | --- | --- | --- | --- | --- |\n",
            family.title(),
            of.len(),
            passed(0),
            passed(1)
        );
        for (row, [perigee, linux]) in of {
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} | {perigee} | {linux} |",
                row.number, row.level, row.section, row.sentence
            );
        }
    }
    page
}

/// The results on a page.
///
/// # Errors
/// It has not as many rows as the table.
pub fn parse(page: &str) -> Result<Results> {
    let made = page.lines().find(|line| line.starts_with(MADE)).context("found no line that says how it was made")?;
    let cells = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(str::to_owned);
        let number = cells.next()?;
        number.parse::<u8>().ok()?;
        let (perigee, linux) = (cells.nth(3)?, cells.next()?);
        Some([perigee, linux])
    };
    let rows: Vec<_> = page.lines().filter_map(cells).collect();
    ensure!(rows.len() == ROWS.len(), "found {} rows, expected {}", rows.len(), ROWS.len());
    Ok(Results { made: made.to_owned(), rows })
}

/// The sentence about how results were made.
pub fn made(perigee: &str, kernel: &str, date: &str) -> String {
    format!(
        "{MADE} `{COMMAND}` on {date}: {perigee} with its default driver (`packet`) on veth pairs, and Linux {kernel}, configured for the \
         rows (tests/conformance/src/target/linux.rs)."
    )
}

/// Checks that rows and texts of the page are those of the table.
///
/// # Errors
/// They are not.
pub fn check() -> Result<()> {
    let path = path();
    let page = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let stale = || format!("docs/conformance.md is stale; run: {COMMAND}");
    let results = parse(&page).with_context(stale)?;
    ensure!(render(&results) == page, stale());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_what_it_was_made_from() {
        let reason = "**fail**: a bar / in it".to_owned();
        let mut rows = vec![["pass".to_owned(), "pass".to_owned()]; ROWS.len()];
        rows[5] = ["pass".to_owned(), reason];
        let results = Results { made: made("perigee 0.1.0", "6.1", "2026-01-01"), rows };
        let page = render(&results);
        assert_eq!(parse(&page).unwrap(), results);
        assert!(page.contains("Of 46 rows perigee passes 46, Linux 45."));
        assert!(parse(&page.replace("| 25 |", "| x |")).is_err());
    }

    #[test]
    fn the_page_has_the_rows_of_the_table() {
        check().unwrap();
    }
}
