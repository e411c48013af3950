// SPDX-License-Identifier: MIT
//! A report as Markdown.

use std::fmt::Write as _;

use super::tables::{self, Table};
use super::{Judged, Report};

impl Report {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}.\n\n", escaped(&self.target), escaped(&self.what()));
        self.headline().iter().for_each(|line| item(&mut text, line));
        for results in tables::results(self) {
            table(&mut text, &results);
        }
        if !self.skipped.is_empty() {
            text += "\n## Tests that were not run\n\n";
            for skipped in &self.skipped {
                item(&mut text, &format!("{} bytes, {}: {}.", skipped.size, skipped.test, skipped.why));
            }
        }
        text += "\n## How far this follows RFC 2544\n\n";
        if self.deviations.is_empty() {
            text += "It does in durations, repetitions and frame sizes.\n";
        }
        self.deviations.iter().for_each(|line| item(&mut text, line));
        let count = |judged| self.trials.iter().filter(|record| self.judged(&record.outcome) == judged).count();
        let _ = writeln!(text, "\n{} of {} trials may not be trusted.\n", count(Judged::Doubted), self.trials.len());
        for doubted in &self.doubted {
            let why = doubted.why.join(" ");
            item(&mut text, &format!("Trial {}, {} bytes, {}: {why}", doubted.trial, doubted.size, doubted.purpose));
        }
        table(&mut text, &tables::environment(self));
        table(&mut text, &tables::trials(self));
        text
    }
}

fn item(text: &mut String, line: &str) {
    let _ = writeln!(text, "- {}", escaped(line));
}

fn table(text: &mut String, table: &Table) {
    let row = |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let _ = write!(text, "\n## {}\n\n", table.title);
    if !table.about.is_empty() {
        let _ = write!(text, "{}\n\n", escaped(&table.about));
    }
    *text += &row(&mut table.header.iter().map(|(name, _)| (*name).to_owned()));
    *text += &row(&mut table.header.iter().map(|(_, words)| (if *words { "---" } else { "---:" }).to_owned()));
    for cells in &table.rows {
        *text += &row(&mut cells.iter().map(|cell| escaped(cell)));
    }
}

/// Text that stays text: what Markdown or HTML would take for a mark is escaped, and a line stays one.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => safe.extend(['\\', c]),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    #[test]
    fn marks_are_text() {
        assert_eq!(super::escaped("a|b\n# <i> & *x* [l](u)"), "a\\|b \\# &lt;i&gt; &amp; \\*x\\* \\[l\\](u)");
    }
}
