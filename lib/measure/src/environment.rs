// SPDX-License-Identifier: MIT
//! The machine that a measurement ran on, and what about it speaks against the figures.
//!
//! Everything is read from the files below a given root, `/` on a real machine: `proc` and `sys`. Nothing here fails:
//! what cannot be read is unknown, and said to be.

mod cores;
mod interfaces;
mod machine;
mod meanwhile;

pub use interfaces::Interface;
pub use meanwhile::Meanwhile;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a fact means for figures measured here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    Fine,
    Unknown,
    /// Figures differ more from one run to the next.
    CostsRepeatability,
    /// Figures may be wrong.
    MayFalsify,
}

/// One fact about the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub name: String,
    pub value: String,
    pub judgement: Judgement,
    /// What to do about it, a sentence; `None` where there is nothing to do.
    pub advice: Option<String>,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub findings: Vec<Finding>,
    pub interfaces: Vec<Interface>,
}

impl Environment {
    /// Looks at the machine below `root`, for measurements that use these processors and Linux interfaces.
    pub fn read(root: &Path, cores: &[u32], interfaces: &[&str]) -> Environment {
        let root = Root(root);
        let cores: BTreeSet<u32> = cores.iter().copied().collect();
        let mut findings = machine::findings(&root, &cores);
        findings.extend(cores::findings(&root, &cores));
        let interfaces = interfaces.iter().map(|name| Interface::read(&root, name, &cores)).collect();
        Environment { findings, interfaces }
    }

    /// Everything, that of the interfaces included.
    pub fn all(&self) -> Vec<Finding> {
        self.findings.iter().cloned().chain(self.interfaces.iter().flat_map(Interface::findings)).collect()
    }

    /// The worst judgement of all; unknown facts are none.
    pub fn worst(&self) -> Judgement {
        let known = self.all().into_iter().map(|finding| finding.judgement).filter(|at| *at != Judgement::Unknown);
        known.max().unwrap_or(Judgement::Unknown)
    }

    /// A table in Markdown, the gravest first.
    pub fn markdown(&self) -> String {
        let mut lines = "| what | found | judgement | what to do |\n| --- | --- | --- | --- |\n".to_string();
        for finding in self.by_judgement() {
            let advice = finding.advice.as_deref().unwrap_or("");
            let cells = [&finding.name, &finding.value, &finding.judgement.to_string(), advice]
                .map(|cell| cell.replace('|', "\\|"));
            lines += &format!("| {} |\n", cells.join(" | "));
        }
        lines
    }

    fn by_judgement(&self) -> Vec<Finding> {
        let mut all = self.all();
        all.sort_by_key(|finding| std::cmp::Reverse(finding.judgement));
        all
    }
}

/// A plain list, the gravest first, with what is to be done about it.
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.by_judgement() {
            writeln!(f, "{}: {} ({})", finding.name, finding.value, finding.judgement)?;
            if let Some(advice) = finding.advice {
                writeln!(f, "    {advice}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Judgement::Fine => "fine",
            Judgement::Unknown => "unknown",
            Judgement::CostsRepeatability => "costs repeatability",
            Judgement::MayFalsify => "may falsify",
        })
    }
}

impl Finding {
    fn fine(name: impl Into<String>, value: impl Into<String>) -> Finding {
        Finding { name: name.into(), value: value.into(), judgement: Judgement::Fine, advice: None }
    }

    fn unknown(name: impl Into<String>) -> Finding {
        Finding { judgement: Judgement::Unknown, ..Finding::fine(name, "unknown") }
    }

    /// A fact with a judgement that is not fine.
    fn but(
        name: impl Into<String>,
        value: impl Into<String>,
        judgement: Judgement,
        advice: impl Into<String>,
    ) -> Finding {
        Finding { judgement, advice: Some(advice.into()), ..Finding::fine(name, value) }
    }
}

/// Where files are read.
struct Root<'a>(&'a Path);

impl Root<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// A file's text without white space around it; `None` if it cannot be read, or is empty.
    fn text(&self, path: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_string();
        (!text.is_empty()).then_some(text)
    }

    fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// A list of processors, such as `0-3,8`.
    fn list(&self, path: &str) -> Option<BTreeSet<u32>> {
        parse_list(&self.text(path)?)
    }

    /// Names in a folder, sorted; none if it cannot be read.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// A parameter of the kernel's command line: empty if it has no value.
    fn parameter(&self, name: &str) -> Option<String> {
        let line = self.text("proc/cmdline")?;
        let mut values = line.split_whitespace().filter_map(|word| match word.split_once('=') {
            Some((key, value)) => (key == name).then_some(value),
            None => (word == name).then_some(""),
        });
        // The last one counts.
        values.next_back().map(str::to_string)
    }
}

/// Processors as Linux lists them, with flags of `isolcpus` before them left out; `None` if that is no list.
fn parse_list(text: &str) -> Option<BTreeSet<u32>> {
    // More processors than Linux can have would be a mistake, and a long loop.
    const MOST: u32 = 65536;
    let mut found = BTreeSet::new();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    for part in parts.skip_while(|part| part.starts_with(|c: char| c.is_ascii_alphabetic())) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found)
}

/// Processors as Linux lists them.
fn list(cores: &BTreeSet<u32>) -> String {
    let mut parts: Vec<(u32, u32)> = vec![];
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let text = |(first, last): (u32, u32)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    parts.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_read_as_written(cores in prop::collection::btree_set(0u32..300, 0..40)) {
            prop_assert_eq!(parse_list(&list(&cores)), Some(cores));
        }

        #[test]
        fn any_text_is_a_list_or_not(text in "[0-9a-z,-]{0,20}") {
            parse_list(&text);
        }
    }

    #[test]
    fn flags_of_isolcpus() {
        assert_eq!(parse_list("nohz,domain,managed_irq,2-3,8"), Some([2, 3, 8].into()));
        assert_eq!(parse_list("0-4294967295"), None);
        assert_eq!(parse_list("3-x"), None);
    }
}
