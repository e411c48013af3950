// SPDX-License-Identifier: MIT
//! What is printed: rows with their results and reasons, totals; or JSON.

use crate::rows::Family;
use crate::run::{Outcome, Verdict};
use serde::Serialize;
use std::fmt::Write as _;

/// A line for each row, the reason below it, and totals.
pub fn text(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let width = outcomes.iter().map(|outcome| outcome.row().section.len()).max().unwrap_or(0);
    for outcome in outcomes {
        let row = outcome.row();
        let result = if outcome.verdict == Verdict::Fail { "FAIL" } else { outcome.verdict.name() };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:8} {result}  {:3}  {:width$}  {}", row.name(), row.level, row.section, row.sentence);
        if outcome.verdict != Verdict::Pass {
            let _ = writeln!(text, "{:15}{}", "", outcome.reason);
        }
        for frame in &outcome.frames {
            let _ = writeln!(text, "{:15}{frame}", "");
        }
    }
    text + "\n" + &totals(outcomes)
}

/// A line for each family.
pub fn totals(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for family in [Family::Ipv4, Family::Ipv6] {
        let count = |verdict: Option<Verdict>| {
            let of = |outcome: &&Outcome| {
                outcome.row().family == family && verdict.is_none_or(|verdict| verdict == outcome.verdict)
            };
            outcomes.iter().filter(of).count()
        };
        let [pass, fail, not] =
            [Verdict::Pass, Verdict::Fail, Verdict::NotApplicable].map(|verdict| count(Some(verdict)));
        if count(None) > 0 {
            let _ = writeln!(text, "{}: {pass} of {} pass, {fail} fail, {not} n.a.", family.title(), count(None));
        }
    }
    text
}

/// A row in JSON: exactly these keys.
#[derive(Serialize)]
struct Entry {
    family: &'static str,
    row: u8,
    section: &'static str,
    level: &'static str,
    result: Verdict,
}

/// An array of all rows.
///
/// # Errors
/// None that could happen: it is serialized to memory.
pub fn json(outcomes: &[Outcome]) -> serde_json::Result<String> {
    let entry = |outcome: &Outcome| {
        let row = outcome.row();
        let (family, section, level) = (row.family.name(), row.section, row.level);
        Entry { family, row: row.number, section, level, result: outcome.verdict }
    };
    serde_json::to_string_pretty(&outcomes.iter().map(entry).collect::<Vec<_>>())
}

/// Whether a row fails that a must or a should demands.
pub fn is_bad(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| outcome.verdict == Verdict::Fail && outcome.row().is_demanded())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(row: usize, verdict: Verdict) -> Outcome {
        Outcome { row, verdict, reason: "it rains".to_owned(), frames: Vec::new() }
    }

    #[test]
    fn totals_and_json_say_the_same() {
        let all = [outcome(0, Verdict::Pass), outcome(6, Verdict::Fail), outcome(70, Verdict::NotApplicable)];
        assert_eq!(totals(&all), "IPv4: 1 of 2 pass, 1 fail, 0 n.a.\nIPv6: 0 of 1 pass, 0 fail, 1 n.a.\n");
        let json: serde_json::Value = serde_json::from_str(&json(&all).unwrap()).unwrap();
        let entry = serde_json::json!(
            {"family": "ipv4", "row": 7, "section": "RFC 1812 5.2.2", "level": "-", "result": "fail"}
        );
        assert_eq!(json[1], entry);
        assert_eq!(json[2]["result"], "n.a.");
        // Row 7 is neither a must nor a should.
        assert!(!is_bad(&all));
        assert!(is_bad(&[outcome(0, Verdict::Fail)]));
        assert!(text(&all).contains("it rains"));
    }
}
