// SPDX-License-Identifier: MIT
//! The folder of a run: its trials, line by line, and its report. A run that is there is never overwritten.

use anyhow::{Context as _, Result, ensure};
use perigee_measure::report::{self, Report};
use perigee_measure::run::store::{self, Stored};
use std::path::{Path, PathBuf};

/// The name of the file of trials.
pub const TRIALS: &str = "run.jsonl";
/// The name of the report for programs.
pub const JSON: &str = "report.json";
/// Characters of a folder's name that come from the device's.
const LONGEST: usize = 40;
/// Runs of one device beside each other, at most.
const MOST: u32 = 10_000;

/// The folder of a run: the named one, or `rfc2544-TARGET`, or `rfc2544-TARGET-2` and so on where that has a run
/// already; `resume` takes the last one that has.
pub fn choose(named: Option<&Path>, target: &str, resume: bool) -> PathBuf {
    named.map_or_else(|| numbered(target, resume), Path::to_owned)
}

pub fn has_run(folder: &Path) -> bool {
    folder.join(TRIALS).exists()
}

/// Makes a folder, and sees that files can be written there. What it has of a report is removed: it is written again.
///
/// # Errors
/// It cannot be written, it has a run and none is to be resumed, or the other way round.
pub fn prepare(folder: &Path, resume: bool) -> Result<()> {
    let has_run = has_run(folder);
    ensure!(
        has_run || !resume,
        "{} has no run to resume: expected the file {TRIALS} of an earlier run there; name its folder by --report",
        folder.display()
    );
    ensure!(
        !has_run || resume,
        "{} has the results of an earlier run: resume it with --resume, or name another folder by --report",
        folder.display()
    );
    let probe = folder.join(".perigee");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe))
        .with_context(|| {
            format!("the report cannot be written to {}; name another folder by --report", folder.display())
        })?;
    // So that an old report is not taken for the new one.
    let _ = std::fs::remove_file(folder.join(JSON));
    Ok(())
}

/// The first number without a run, or the last with one.
fn numbered(target: &str, resume: bool) -> PathBuf {
    let base = format!("rfc2544-{}", plain(target));
    let of = |number: u32| if number == 1 { PathBuf::from(&base) } else { PathBuf::from(format!("{base}-{number}")) };
    let free = (1..MOST).find(|number| !of(*number).join(TRIALS).exists()).unwrap_or(MOST);
    of(if resume { (free - 1).max(1) } else { free })
}

/// A device's name as that of a file.
pub fn plain(target: &str) -> String {
    let mut name = String::new();
    for c in target.chars().take(LONGEST).map(|c| c.to_ascii_lowercase()) {
        match c.is_ascii_alphanumeric() {
            true => name.push(c),
            false if name.is_empty() || name.ends_with('-') => {}
            false => name.push('-'),
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "device".to_owned() } else { name.to_owned() }
}

/// The run that is in a folder.
///
/// # Errors
/// There is none, or it is broken.
pub fn stored(folder: &Path) -> Result<Stored> {
    let path = folder.join(TRIALS);
    let name = path.display().to_string();
    let bytes = std::fs::read(&path).with_context(|| format!("{name} cannot be read"))?;
    Ok(store::read(&bytes, &name)?)
}

/// Writes a report's files, as many as can be written; their names. Without a device that the model knows, there are no
/// points.
///
/// # Errors
/// The first that cannot be written.
pub fn write(report: &Report, folder: &Path, device: Option<report::Device>) -> Result<Vec<&'static str>> {
    let mut files = vec![
        (JSON, report.json()),
        ("report.html", report.html(env!("CARGO_PKG_VERSION"))),
        ("report.md", report.markdown()),
        ("results.csv", report.results_csv()),
        ("trials.csv", report.trials_csv()),
    ];
    match device.map(|device| report.points(device)) {
        Some(Ok(points)) => files.push(("points.csv", points)),
        Some(Err(why)) => eprintln!("note: no points.csv: {why}"),
        None => {}
    }
    let mut first = Ok(());
    for (name, text) in &files {
        let path = folder.join(name);
        let written = std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()));
        first = first.and(written);
    }
    first.map(|()| files.into_iter().map(|(name, _)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_plain() {
        for (target, name) in [
            ("linux", "linux"),
            ("./my-router.sh --fast /dev/x", "my-router-sh-fast-dev-x"),
            ("eth1 to eth2", "eth1-to-eth2"),
            ("../..", "device"),
        ] {
            assert_eq!(plain(target), name);
        }
        assert!(plain(&"x y".repeat(100)).len() <= LONGEST);
    }

    #[test]
    fn a_run_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let error = prepare(&path, true).unwrap_err().to_string();
        assert!(error.contains("no run to resume"), "{error}");
        prepare(&path, false).unwrap();
        std::fs::write(path.join(TRIALS), "").unwrap();
        let error = prepare(&path, false).unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");
        std::fs::write(path.join(JSON), "{}").unwrap();
        prepare(&path, true).unwrap();
        assert!(has_run(&path) && !path.join(JSON).exists());
    }
}
