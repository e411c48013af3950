// SPDX-License-Identifier: MIT
//! Results in a folder, one for each figure: what an interrupted run has measured is there for the next one. Of one
//! machine only.

use super::figures::Figure;
use super::outcome::Outcome;
use crate::machine::Machine;
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MACHINE: &str = "machine.json";
const OUTCOME: &str = "outcome.json";
/// What other benches have said.
pub const SAID: &str = "said.json";

/// A kept outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    pub name: String,
    /// With fewer points and rounds?
    pub quick: bool,
    pub seconds: f64,
    /// What it was narrowed to, or measured with, by flags.
    #[serde(default)]
    pub narrowed: String,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The folder.
pub struct Store {
    pub folder: PathBuf,
    /// The machine, as JSON.
    pub machine: serde_json::Value,
    quick: bool,
}

impl Store {
    /// Opens or makes it.
    ///
    /// # Errors
    /// It has results of another machine, or cannot be written to.
    pub fn open(folder: &Path, machine: &Machine, quick: bool) -> Result<Store> {
        fs::create_dir_all(folder)
            .with_context(|| format!("{}: expected a folder that can be made", folder.display()))?;
        let machine = serde_json::to_value(machine)?;
        let file = folder.join(MACHINE);
        match fs::read_to_string(&file) {
            Ok(text) => {
                let known: serde_json::Value =
                    serde_json::from_str(&text).with_context(|| file.display().to_string())?;
                ensure!(
                    known == machine,
                    "{} has results of another machine ({}), which do not mix with those of this one: name another folder by --out",
                    folder.display(),
                    known["processor"].as_str().unwrap_or("unknown")
                );
            }
            Err(_) => fs::write(&file, serde_json::to_string_pretty(&machine)? + "\n")?,
        }
        Ok(Store { folder: folder.to_owned(), machine, quick })
    }

    /// The outcome of a figure, if it is there.
    pub fn read(&self, figure: &Figure) -> Option<Kept> {
        serde_json::from_str(&fs::read_to_string(self.folder.join(figure.name).join(OUTCOME)).ok()?).ok()
    }

    /// Is it there, measured at least as thoroughly as is asked for now, and with the same flags? A figure that was
    /// left out or interrupted is tried again.
    pub fn has(&self, figure: &Figure, narrowed: &str) -> bool {
        let good = |kept: Kept| {
            let whole = kept.outcome.left_out.is_none() && !kept.outcome.partly;
            whole && (self.quick || !kept.quick) && kept.narrowed == narrowed
        };
        self.read(figure).is_some_and(good)
    }

    /// Keeps an outcome.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn keep(&self, figure: &Figure, outcome: &Outcome, narrowed: &str, took: Duration) -> Result<()> {
        let folder = self.folder.join(figure.name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("data.csv"), outcome.data.csv())?;
        fs::write(folder.join("raw.csv"), outcome.raw.csv())?;
        if !outcome.said.is_empty() {
            fs::write(folder.join(SAID), serde_json::to_string_pretty(&outcome.said)? + "\n")?;
        }
        for (number, picture) in outcome.pictures.iter().enumerate() {
            let svg = perigee_chart::draw(&picture.chart(), perigee_chart::Place::File).into_string() + "\n";
            fs::write(folder.join(format!("figure-{}.svg", number + 1)), svg)?;
        }
        let kept = Kept {
            name: figure.name.to_owned(),
            quick: self.quick,
            seconds: took.as_secs_f64(),
            narrowed: narrowed.to_owned(),
            outcome: outcome.clone(),
        };
        // Last, and at once: what is interrupted before is measured again.
        let file = folder.join(OUTCOME);
        fs::write(file.with_extension("new"), serde_json::to_string(&kept)? + "\n")?;
        Ok(fs::rename(file.with_extension("new"), file)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::FIGURES;
    use super::*;

    #[test]
    fn what_is_there_is_not_measured_again_and_machines_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::this();
        let (figure, took) = (&FIGURES[0], Duration::from_secs(1));
        let quick = Store::open(folder.path(), &machine, true).unwrap();
        assert!(!quick.has(figure, ""));
        quick.keep(figure, &Outcome::left_out("no core"), "", took).unwrap();
        assert!(!quick.has(figure, ""), "it is tried again");
        quick.keep(figure, &Outcome { partly: true, ..Outcome::default() }, "", took).unwrap();
        assert!(
            !quick.has(figure, "") && quick.read(figure).is_some(),
            "an interrupted one is there until it is tried again"
        );
        quick.keep(figure, &Outcome::default(), "--scheme masks", took).unwrap();
        assert!(quick.has(figure, "--scheme masks") && !quick.has(figure, ""), "a part is not the whole");
        quick.keep(figure, &Outcome::default(), "", took).unwrap();
        assert!(quick.has(figure, ""));
        assert!(!Store::open(folder.path(), &machine, false).unwrap().has(figure, ""), "a whole one was asked for");
        let other = Machine { processor: "another".to_owned(), ..machine };
        assert!(Store::open(folder.path(), &other, true).err().unwrap().to_string().contains("do not mix"));
    }
}
