// SPDX-License-Identifier: MIT
//! May we make namespaces? If not: why not, and what to do.

use super::tools;
use anyhow::{Result, bail};
use std::os::unix::process::CommandExt;

/// How the demo shuts itself in.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Isolation {
    /// As root: network, mounts and processes.
    Root,
    /// As anyone: users as well, so that we are root inside.
    User,
}

impl Isolation {
    /// The words that begin the first command inside.
    pub fn unshare(self) -> &'static str {
        match self {
            Isolation::Root => "unshare --mount --net --pid --fork --kill-child",
            Isolation::User => "unshare --user --map-root-user --mount --net --pid --fork --kill-child",
        }
    }

    /// The words that begin a later command of the same user inside; a process number follows.
    pub fn nsenter(self) -> &'static str {
        match self {
            Isolation::Root => "nsenter -m -n -t",
            Isolation::User => "nsenter -U --preserve-credentials -m -n -t",
        }
    }
}

/// Settings that forbid namespaces: name, the value that forbids, one that allows.
const SETTINGS: [(&str, &str, &str); 6] = [
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user.max_user_namespaces", "0", "15000"),
    ("user.max_net_namespaces", "0", "15000"),
    ("user.max_mnt_namespaces", "0", "15000"),
    ("user.max_pid_namespaces", "0", "15000"),
];

/// Finds out by trying. Root takes no user namespace where it need not: inside one, it could not read its user's files.
pub fn isolation(search_path: &str) -> Result<Isolation> {
    let root = rustix::process::geteuid().is_root();
    let ways: &[Isolation] = if root { &[Isolation::Root, Isolation::User] } else { &[Isolation::User] };
    let mut said = String::new();
    for way in ways {
        let mut trial = tools::command(&format!("{} mount -t tmpfs tmpfs /run", way.unshare()));
        // A group of its own: a Ctrl-C during the trial must not look like a refusal.
        let output = trial.env("PATH", search_path).process_group(0).output()?;
        if output.status.success() {
            return Ok(*way);
        }
        said = tools::said(&output);
    }
    bail!(refusal(&said, root, setting))
}

/// The value of a kernel setting.
fn setting(name: &str) -> Option<String> {
    let value = std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(value.trim().to_owned())
}

fn refusal(said: &str, root: bool, setting: impl Fn(&str) -> Option<String>) -> String {
    let forbids = |(name, bad, _): &(&str, &str, &str)| setting(name).as_deref() == Some(bad);
    let found = SETTINGS.into_iter().filter(|(name, ..)| !root || !name.starts_with("kernel")).find(forbids);
    let or_sudo = if root { "" } else { ", or run `sudo perigee demo`" };
    match found {
        Some((name, bad, good)) => {
            format!(
                "the kernel refuses new namespaces, as {name} is {bad}: `sudo sysctl -w {name}={good}` allows them{or_sudo}"
            )
        }
        None if root => format!(
            "the kernel refuses new namespaces even to root ({said}): in a container, start that with --privileged"
        ),
        None => format!(
            "the kernel refuses new namespaces ({said}): see kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns and user.max_user_namespaces{or_sudo}; \
             in a container, start that with --privileged"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: &str = "unshare: unshare failed: Operation not permitted";

    #[test]
    fn the_setting_that_forbids_is_named_with_the_way_out() {
        for (name, bad, good) in SETTINGS {
            let sentence = refusal(DENIED, false, |asked| (asked == name).then(|| bad.to_owned()));
            let expected =
                format!("as {name} is {bad}: `sudo sysctl -w {name}={good}` allows them, or run `sudo perigee demo`");
            assert!(sentence.ends_with(&expected), "{sentence}");
        }
    }

    #[test]
    fn settings_that_allow_are_not_blamed() {
        let allows =
            |asked: &str| SETTINGS.iter().find(|(name, ..)| *name == asked).map(|(.., good)| (*good).to_owned());
        let sentence = refusal(DENIED, false, allows);
        assert!(sentence.contains(DENIED) && sentence.contains("sudo perigee demo"), "{sentence}");
        for name in [
            "kernel.unprivileged_userns_clone",
            "kernel.apparmor_restrict_unprivileged_userns",
            "user.max_user_namespaces",
        ] {
            assert!(sentence.contains(name), "{sentence}");
        }
    }

    #[test]
    fn root_is_not_sent_to_sudo() {
        let sentence = refusal(DENIED, true, |name| name.starts_with("kernel").then(|| "0".to_owned()));
        assert_eq!(
            sentence,
            format!(
                "the kernel refuses new namespaces even to root ({DENIED}): in a container, start that with --privileged"
            )
        );
        let sentence = refusal(DENIED, true, |name| (name == "user.max_net_namespaces").then(|| "0".to_owned()));
        assert!(sentence.ends_with("`sudo sysctl -w user.max_net_namespaces=15000` allows them"), "{sentence}");
    }
}
