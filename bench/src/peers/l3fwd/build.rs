// SPDX-License-Identifier: MIT
//! l3fwd from source: Debian's source package of the very DPDK that is installed, by apt with folders of its own.

use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A change of l3fwd's sources: the file, what stands there once, and what is put in its place.
type Change = (&'static str, &'static str, &'static str);

/// What it takes to hold a full table, and to receive from net_pcap, which keeps a file's packets in buffers and checks
/// no checksum. The numbers are for 1,000,000 routes of each family; what stands there is that of DPDK 22.11.
const CHANGES: &[Change] = &[
    ("l3fwd_lpm.c", "IPV4_L3FWD_LPM_MAX_RULES         1024", "IPV4_L3FWD_LPM_MAX_RULES (1 << 20)"),
    ("l3fwd_lpm.c", "IPV4_L3FWD_LPM_NUMBER_TBL8S (1 << 8)", "IPV4_L3FWD_LPM_NUMBER_TBL8S (1 << 17)"),
    ("l3fwd_lpm.c", "IPV6_L3FWD_LPM_MAX_RULES         1024", "IPV6_L3FWD_LPM_MAX_RULES (1 << 20)"),
    ("l3fwd_lpm.c", "IPV6_L3FWD_LPM_NUMBER_TBL8S (1 << 16)", "IPV6_L3FWD_LPM_NUMBER_TBL8S (1 << 18)"),
    ("l3fwd_fib.c", "config_ipv4.max_routes = (1 << 16)", "config_ipv4.max_routes = (1 << 20)"),
    ("l3fwd_fib.c", "config_ipv4.dir24_8.num_tbl8 = (1 << 15)", "config_ipv4.dir24_8.num_tbl8 = (1 << 17)"),
    ("l3fwd_fib.c", "config.max_routes = (1 << 16) - 1", "config.max_routes = (1 << 20)"),
    ("l3fwd_fib.c", "config.trie.num_tbl8 = (1 << 15)", "config.trie.num_tbl8 = (1 << 18)"),
    ("main.c", ".offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM", ".offloads = 0"),
    ("main.c", "(unsigned)8192)", "(unsigned)200000)"),
    ("Makefile", "$(PKGCONF) --cflags libdpdk)", "$(PKGCONF) --cflags libdpdk) -march=native"),
];

/// The program, built.
pub struct L3fwd {
    pub(super) program: PathBuf,
}

impl L3fwd {
    /// Fetches, changes and builds it, unless that was done before. `say`: told what is being done.
    pub fn build(say: &dyn Fn(&str)) -> Result<L3fwd> {
        let version = version()?;
        let mut hasher = DefaultHasher::new();
        (CHANGES, processor()).hash(&mut hasher);
        let folder = target()?.join("l3fwd").join(format!("{version}-{:016x}", hasher.finish()));
        let program = folder.join("l3fwd");
        if !program.exists() {
            let work = folder.join("work");
            let _ = fs::remove_dir_all(&work);
            fs::create_dir_all(&work).with_context(|| format!("{} cannot be made", work.display()))?;
            say("fetching DPDK's sources");
            fetch(&work, &version)?;
            say("building l3fwd");
            let sources = unpack(&work)?;
            change(&sources, CHANGES)?;
            run(
                Command::new("make").arg("shared").current_dir(&sources),
                "sudo apt-get install build-essential pkg-config",
            )?;
            // In one step, so that a build that was interrupted is not taken for one.
            fs::rename(sources.join("build/l3fwd-shared"), &program).context("make has built no build/l3fwd-shared")?;
            let _ = fs::remove_dir_all(&work);
        }
        Ok(L3fwd { program })
    }
}

/// The version of the source package that the installed DPDK was built from.
fn version() -> Result<String> {
    let mut command = Command::new("dpkg-query");
    let output =
        run(command.args(["-W", "-f", "${source:Version}", "libdpdk-dev"]), "sudo apt-get install libdpdk-dev")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What `-march=native` stands for.
fn processor() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpu.lines().find(|line| line.starts_with("flags")).unwrap_or_default().to_owned()
}

/// Cargo's target folder, which this program is in.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let folder = program.ancestors().nth(2).context("the program is not in cargo's target folder")?;
    Ok(folder.to_owned())
}

/// Runs a command to its end; `remedy` is what to do if it cannot be run.
fn run(command: &mut Command, remedy: &str) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{name} cannot be run: {remedy}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        bail!("{name} ended with {}; it said: {line}; perhaps: {remedy}", output.status);
    }
    Ok(output)
}

/// Downloads the source package. apt's lists of source packages are not the machine's but in this folder, made from the
/// machine's own lists.
fn fetch(work: &Path, version: &str) -> Result<()> {
    for folder in ["sources", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(work.join(folder))?;
    }
    let single = fs::read_to_string("/etc/apt/sources.list").map(|text| ("sources.list".to_owned(), text));
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let parts =
        parts.filter_map(|part| Some((part.file_name().to_str()?.to_owned(), fs::read_to_string(part.path()).ok()?)));
    for (name, text) in single.into_iter().chain(parts) {
        if name.ends_with(".list") || name.ends_with(".sources") {
            fs::write(work.join("sources").join(&name), of_sources(&text))?;
        }
    }
    let remedy = "see whether `apt-get update` works, and the network";
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.current_dir(work).args(["-q", "-o", "Dir::Etc::SourceList=/dev/null"]);
        for (option, folder) in
            [("Dir::Etc::SourceParts", "sources"), ("Dir::State::Lists", "lists"), ("Dir::Cache", "cache")]
        {
            command.arg("-o").arg(format!("{option}={}", work.join(folder).display()));
        }
        // As root it would download as another user, who may not write here.
        command.args(["-o", "APT::Sandbox::User=root"]).args(arguments);
        run(&mut command, remedy)
    };
    // Lists that have no source packages make it fail, and the one that is needed may be there all the same.
    let updated = apt(&["update"]);
    let downloaded = apt(&["source", "--download-only", &format!("dpdk={version}")]);
    match (updated, downloaded) {
        (_, Ok(_)) => Ok(()),
        (Err(first), Err(_)) => Err(first).context("Debian's source packages are not found"),
        (Ok(_), Err(error)) => Err(error).with_context(|| format!("the source package dpdk {version} is not found")),
    }
}

/// Of a list of binary packages, that of source packages: both of apt's formats (sources.list(5)).
fn of_sources(text: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("deb") => format!("deb-src{}", &line.trim_start()[3..]),
            Some("Types:") => "Types: deb-src".to_owned(),
            _ => line.to_owned(),
        }
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

/// Takes l3fwd out of the archive; returns its folder. Debian's own patches do not touch it.
fn unpack(work: &Path) -> Result<PathBuf> {
    let names = fs::read_dir(work)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let archive = names.into_iter().find(|name| name.contains(".orig.tar."));
    let archive = archive.context("the source package has no archive of DPDK")?;
    let mut command = Command::new("tar");
    command.current_dir(work).args(["--strip-components=1", "--wildcards", "-xf", &archive]);
    run(command.args(["*/examples/l3fwd", "*/examples/common"]), "sudo apt-get install tar xz-utils")?;
    Ok(work.join("examples/l3fwd"))
}

/// Makes the changes; each must find its text exactly once.
fn change(sources: &Path, changes: &[Change]) -> Result<()> {
    for (file, from, to) in changes {
        let path = sources.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let times = text.matches(from).count();
        ensure!(
            times == 1,
            "found {from:?} {times} times in l3fwd's {file}, expected it once, as in DPDK 22.11; leave --peers l3fwd out"
        );
        fs::write(&path, text.replace(from, to))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_binary_packages_become_those_of_source_packages() {
        let one_line = "# deb x\ndeb [arch=amd64] http://a b main\n  deb http://c d\ndeb-src http://e f\n";
        assert_eq!(
            of_sources(one_line),
            "# deb x\ndeb-src [arch=amd64] http://a b main\ndeb-src http://c d\ndeb-src http://e f\n"
        );
        let deb822 = "Types: deb\nURIs: http://a\nSuites: b\n\nTypes: deb deb-src\nURIs: http://c\n";
        assert_eq!(of_sources(deb822), "Types: deb-src\nURIs: http://a\nSuites: b\n\nTypes: deb-src\nURIs: http://c\n");
    }

    #[test]
    fn a_change_that_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("main.c"), "a 1; b 1;").unwrap();
        assert!(change(folder.path(), &[("main.c", "a 1", "a 2")]).is_ok());
        assert_eq!(fs::read_to_string(folder.path().join("main.c")).unwrap(), "a 2; b 1;");
        let error = change(folder.path(), &[("main.c", "a 1", "a 3")]).unwrap_err().to_string();
        assert!(error.contains("found \"a 1\" 0 times in l3fwd's main.c"), "{error}");
        assert!(change(folder.path(), &[("none.c", "a", "b")]).is_err());
    }
}
