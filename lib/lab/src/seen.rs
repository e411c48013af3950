// SPDX-License-Identifier: MIT
//! What /proc says about processes: who is there, whose child it is, and how much memory it has.

use anyhow::{Context as _, Result};
use std::fs;

/// A process, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub pid: u32,
    pub parent: u32,
    /// When it started, in clock ticks since the machine did.
    pub started: u64,
    /// The program's arguments, its own name first.
    pub arguments: Vec<String>,
    /// Resident memory without hugepages, the most so far, and hugepages, in bytes.
    pub resident: u64,
    pub most_resident: u64,
    pub hugepages: u64,
}

impl Seen {
    /// Looks at a process.
    ///
    /// # Errors
    /// There is no such process.
    pub fn look(pid: u32) -> Result<Seen> {
        let file =
            |name: &str| fs::read(format!("/proc/{pid}/{name}")).with_context(|| format!("there is no process {pid}"));
        let (status, stat, line) = (file("status")?, file("stat")?, file("cmdline")?);
        let (status, stat) = (String::from_utf8_lossy(&status), String::from_utf8_lossy(&stat));
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        // The program's name, in parentheses, may have blanks; the start is the 22nd field (proc_pid_stat(5)).
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        let started = behind_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
        let arguments = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        Ok(Seen {
            pid,
            parent: number("PPid") as u32,
            started,
            arguments: arguments.collect(),
            resident: number("VmRSS") * 1024,
            most_resident: number("VmHWM") * 1024,
            hugepages: number("HugetlbPages") * 1024,
        })
    }

    /// Whether it is the privileged helper of a router, or its standby.
    fn is_helper(&self) -> bool {
        self.arguments.get(1).is_some_and(|word| word == "helper")
    }
}

/// All processes that /proc shows.
///
/// # Errors
/// There is no /proc.
pub fn processes() -> Result<Vec<Seen>> {
    let list = fs::read_dir("/proc").context("/proc is not mounted")?;
    // Others end meanwhile.
    Ok(list.filter_map(|entry| Seen::look(entry.ok()?.file_name().to_str()?.parse().ok()?).ok()).collect())
}

/// The routers' helpers and standbys in this process's network namespace, oldest first.
///
/// # Errors
/// There is no /proc.
pub fn helpers() -> Result<Vec<Seen>> {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = network("self");
    let mut helpers = processes()?;
    helpers.retain(|process| process.is_helper() && network(&process.pid.to_string()) == own);
    helpers.sort_by_key(|process| (process.started, process.pid));
    Ok(helpers)
}

/// A router and its helpers: its children, and a standby that has taken over and lost its parent.
///
/// # Errors
/// There is no /proc, or no such process.
pub fn router(pid: u32) -> Result<Vec<Seen>> {
    let mut found = vec![Seen::look(pid)?];
    let network = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let of_router = |process: &Seen| {
        process.pid != pid && (process.parent == pid || process.is_helper() && network(process.pid) == network(pid))
    };
    found.extend(processes()?.into_iter().filter(of_router));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_parent_are_seen() {
        let own = Seen::look(std::process::id()).unwrap();
        assert!(own.resident > 0 && own.most_resident >= own.resident && own.started > 0 && own.parent > 0);
        assert!(own.arguments[0].contains("perigee_lab"), "{:?}", own.arguments);
        let all = processes().unwrap();
        assert!([own.pid, own.parent].iter().all(|pid| all.iter().any(|seen| seen.pid == *pid)));
        assert!(Seen::look(u32::MAX).is_err());
        assert_eq!(router(own.pid).unwrap()[0].pid, own.pid);
    }
}
