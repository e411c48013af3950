// SPDX-License-Identifier: MIT
//! How far a helper reaches, and which capabilities that takes.

use caps::Capability;
use perigee_net::Namespace;

/// Which network namespaces a helper has to do with; each takes a capability more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The router's own.
    Own,
    /// Those with a name or a path: to enter one takes `CAP_SYS_ADMIN`.
    Namespaces,
    /// Those of processes: to look into `/proc/PID/ns` of others takes `CAP_SYS_PTRACE`.
    Processes,
}

impl Reach {
    /// What a namespace asks for.
    pub fn to(namespace: Option<&Namespace>) -> Reach {
        match namespace {
            None => Reach::Own,
            Some(Namespace::Name(_) | Namespace::Path(_)) => Reach::Namespaces,
            Some(Namespace::Pid(_)) => Reach::Processes,
        }
    }

    /// What a helper keeps: `CAP_NET_ADMIN`, for interfaces and neighbors, `CAP_DAC_READ_SEARCH`, for the files of a
    /// configuration that root started a router with, and what it takes to enter namespaces.
    pub(crate) fn capabilities(self) -> &'static [Capability] {
        const ALL: &[Capability] = &[
            Capability::CAP_NET_ADMIN,
            Capability::CAP_DAC_READ_SEARCH,
            Capability::CAP_SYS_ADMIN,
            Capability::CAP_SYS_PTRACE,
        ];
        match self {
            Reach::Own => &ALL[..2],
            Reach::Namespaces => &ALL[..3],
            Reach::Processes => ALL,
        }
    }

    /// Its word on the helper's command line.
    pub fn word(self) -> &'static str {
        match self {
            Reach::Own => "own",
            Reach::Namespaces => "namespaces",
            Reach::Processes => "processes",
        }
    }
}

impl std::str::FromStr for Reach {
    type Err = String;

    fn from_str(word: &str) -> Result<Reach, String> {
        let all = [Reach::Own, Reach::Namespaces, Reach::Processes];
        all.into_iter()
            .find(|reach| reach.word() == word)
            .ok_or_else(|| format!("found {word:?}, expected own, namespaces or processes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_keeps_the_capabilities_that_security_md_lists() {
        let page = include_str!("../../../SECURITY.md");
        let row = |capability: &Capability| {
            let name = format!("`{capability}`");
            page.lines().find(|line| line.starts_with("| ") && line.contains(&name)).unwrap_or_else(|| panic!("{name}"))
        };
        let helper = |line: &&str| line.starts_with("| `CAP_") && !line.contains("in the process at the terminal");
        let all = Reach::Processes.capabilities();
        assert_eq!(page.lines().filter(helper).count(), all.len(), "those of the table and no other one");
        for (number, capability) in all.iter().enumerate() {
            let namespace = row(capability).contains("`namespace` is configured");
            let process = row(capability).contains("`namespace` is a process");
            assert_eq!(Reach::Own.capabilities().len() <= number, namespace || process, "{capability}");
            assert_eq!(Reach::Namespaces.capabilities().len() <= number, process, "{capability}");
        }
    }
}
