// SPDX-License-Identifier: MIT
//! What is checked: each module of the tree with a selftest, and programs, by scripts in `programs/`.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Module,
    Program,
}

/// Something that passes or fails.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    pub kind: Kind,
    /// The module's name, or the script's.
    pub name: String,
    /// For `bash`: 0 is a pass, 43 and 77 say that it cannot run here.
    pub script: String,
}

/// The scripts of `programs/`, as (name, text).
const PROGRAMS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Selftests that wait in vain for what a checkout without its large files lacks: (module, file).
const NEEDS: &[(&str, &str)] =
    &[("program.ipfix.tests.test", "program/ipfix/tests/sanitized500k_truncated128.pcap.bz2")];

/// How a module's selftest is run, in bash.
fn selftest(name: &str) -> String {
    let needs = NEEDS.iter().find(|(module, _)| *module == name);
    let guard = needs.map_or_else(String::new, |(_, file)| {
        format!("[ -e {file} ] || {{ echo 'the checkout lacks {file}'; exit 77; }}\n")
    });
    format!("{guard}exec $SNABB snsh -t {name}")
}

/// The checks for a tree, modules first, each kind by name.
///
/// # Errors
/// The tree cannot be read.
pub fn all(tree: &Path) -> Result<Vec<Check>> {
    let mut modules = Vec::new();
    for folder in ["core", "lib", "apps", "program"] {
        collect(tree, &tree.join(folder), &mut modules)?;
    }
    modules.sort();
    let module = |name: String| Check { kind: Kind::Module, script: selftest(&name), name };
    let program = |(name, text): &(&str, &str)| Check {
        kind: Kind::Program,
        name: (*name).to_owned(),
        script: (*text).to_owned(),
    };
    Ok(modules.into_iter().map(module).chain(PROGRAMS.iter().map(program)).collect())
}

/// Adds the modules below a folder that define `selftest`, under the names that they are asked for.
fn collect(tree: &Path, folder: &Path, to: &mut Vec<String>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(tree, &path, to)?;
        } else if path.extension().is_some_and(|kind| kind == "lua" || kind == "dasl") && has_selftest(&path)? {
            let name = path.strip_prefix(tree)?.with_extension("");
            to.push(name.display().to_string().replace('/', "."));
        }
    }
    Ok(())
}

/// As Snabb's own `make test` finds them: a line that begins with this.
fn has_selftest(path: &Path) -> Result<bool> {
    let text = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(String::from_utf8_lossy(&text).lines().any(|line| line.starts_with("function selftest")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_a_selftest_are_found() {
        let tree = tempfile::tempdir().unwrap();
        for folder in ["core", "lib/a-b", "apps", "program"] {
            fs::create_dir_all(tree.path().join(folder)).unwrap();
        }
        fs::write(tree.path().join("lib/a-b/x.lua"), "module(...)\nfunction selftest ()\nend\n").unwrap();
        fs::write(tree.path().join("core/y.lua"), "-- function selftest is not here\n").unwrap();
        fs::write(tree.path().join("apps/z.md"), "function selftest ()\n").unwrap();
        fs::write(tree.path().join("lib/asm.dasl"), "function selftest ()\n").unwrap();
        let checks = all(tree.path()).unwrap();
        let modules: Vec<&str> = checks.iter().filter(|c| c.kind == Kind::Module).map(|c| c.name.as_str()).collect();
        assert_eq!(modules, ["lib.a-b.x", "lib.asm"]);
        assert!(checks.len() > modules.len(), "there are programs");
        assert!(all(&tree.path().join("nothing")).is_err());
    }
}
