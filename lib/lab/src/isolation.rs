// SPDX-License-Identifier: MIT
//! May we make namespaces, and how? If not: why not, and what to do. Also both ends of a program that runs inside new
//! ones: the command that starts it there, and how it ends together with the program outside.

use crate::Place;
use crate::process::run;
use anyhow::{Context as _, Result, bail};
use std::fmt::{Display, Formatter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a program is isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// As root: network, mounts and processes.
    Root,
    /// As anyone: users as well, so that we are root inside.
    User,
}

impl Isolation {
    /// The prefix of the first command inside.
    pub fn unshare(self) -> &'static str {
        match self {
            Isolation::Root => "unshare --mount --net --pid --fork --kill-child",
            Isolation::User => "unshare --user --map-root-user --mount --net --pid --fork --kill-child",
        }
    }

    /// The prefix of a later command of the same user inside; a process number follows.
    pub fn nsenter(self) -> &'static str {
        match self {
            Isolation::Root => "nsenter -m -n -t",
            Isolation::User => "nsenter -U --preserve-credentials -m -n -t",
        }
    }
}

impl Display for Isolation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Isolation::Root => "root",
            Isolation::User => "user",
        })
    }
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let both = [Isolation::Root, Isolation::User];
        both.into_iter()
            .find(|way| way.to_string() == text)
            .ok_or_else(|| format!("found {text:?}, expected root or user"))
    }
}

/// The command that runs this program again, inside new namespaces for processes, network and mounts (and users, if we
/// are not root). Its first process ends when its standard input does ([`end_with_input`], [`on_input_end`]), and the
/// kernel ends all others with it.
/// Whatever it makes goes to `folder`.
///
/// # Errors
/// This program's own path is not known.
pub fn inside(isolation: Isolation, folder: &Path, search_path: &str) -> Result<Command> {
    let program = std::env::current_exe().context("the program's own path is not known")?;
    // A session of its own: Ctrl-C reaches the process outside alone, which ends the inside by closing its input, and
    // routers inside find no terminal.
    let mut command = Place::Router.command(&format!("setsid --wait {}", isolation.unshare()));
    command.arg(program);
    command.env("PATH", search_path).env("XDG_RUNTIME_DIR", folder).env("RUNTIME_DIRECTORY", folder);
    // iperf3 keeps what it sends in a temporary file.
    command.env("TMPDIR", folder).env_remove("PERIGEE_SOCKET");
    command.stdin(Stdio::piped());
    Ok(command)
}

/// Ends this process, and with it the namespaces, as soon as the process outside closes the pipe: it was asked to end,
/// or has died. In the latter case nobody else removes the folder.
///
/// # Errors
/// No thread can be started.
pub fn end_with_input(folder: &Path) -> Result<()> {
    let folder = folder.to_owned();
    let watch = move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = std::fs::remove_dir_all(folder);
        std::process::exit(1);
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(watch)?;
    Ok(())
}

/// Calls `f` when the process outside closes the pipe, so that this process may end in order, with a report of what
/// there is: it was asked to end, or the process outside has died. If it still runs after `longest`, it ends as by
/// [`end_with_input`].
///
/// The caller keeps what is returned until its work is over.
///
/// # Errors
/// No thread can be started.
pub fn on_input_end(folder: &Path, longest: Duration, f: impl FnOnce() + Send + 'static) -> Result<Inside> {
    watch(std::io::stdin(), folder, longest, f, || std::process::exit(1))
}

/// The end of the work inside: if the input has ended, this removes the folder, as nobody else may be there to do it.
#[must_use]
pub struct Inside {
    folder: PathBuf,
    asked: Arc<AtomicBool>,
}

impl Inside {
    /// Whether this process was asked to end.
    pub fn is_asked_to_end(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.is_asked_to_end() {
            let _ = std::fs::remove_dir_all(&self.folder); // it may be gone
        }
    }
}

fn watch(
    mut input: impl std::io::Read + Send + 'static,
    folder: &Path,
    longest: Duration,
    f: impl FnOnce() + Send + 'static,
    exit: impl FnOnce() + Send + 'static,
) -> Result<Inside> {
    let inside = Inside { folder: folder.to_owned(), asked: Arc::default() };
    let late = Inside { folder: folder.to_owned(), asked: inside.asked.clone() };
    let body = move || {
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        late.asked.store(true, Ordering::SeqCst);
        f();
        std::thread::sleep(longest);
        drop(late);
        exit();
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(body)?;
    Ok(inside)
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

/// Finds out by trying. Root does not take a user namespace unless it has to: inside one, it could not read its user's
/// files. `sudo` is the command to recommend to users who may not: `sudo perigee demo`.
///
/// # Errors
/// The kernel refuses; which setting does, and what to do.
pub fn isolation(search_path: &str, sudo: &str) -> Result<Isolation> {
    let root = rustix::process::geteuid().is_root();
    let ways: &[Isolation] = if root { &[Isolation::Root, Isolation::User] } else { &[Isolation::User] };
    let mut said = String::new();
    for way in ways {
        let mut trial = Place::Router.command(&format!("{} mount -t tmpfs tmpfs /run", way.unshare()));
        // A group of its own: a Ctrl-C during the trial must not look like a refusal.
        let ended = run(trial.env("PATH", search_path).process_group(0));
        if ended.code == Some(0) {
            return Ok(*way);
        }
        said = ended.complaint();
    }
    bail!(refusal(&said, root, sudo, setting))
}

/// The value of a kernel setting.
fn setting(name: &str) -> Option<String> {
    let value = std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(value.trim().to_owned())
}

fn refusal(said: &str, root: bool, sudo: &str, setting: impl Fn(&str) -> Option<String>) -> String {
    let forbids = |(name, bad, _): &(&str, &str, &str)| setting(name).as_deref() == Some(bad);
    let found = SETTINGS.into_iter().filter(|(name, ..)| !root || !name.starts_with("kernel")).find(forbids);
    let or_sudo = if root { String::new() } else { format!(", or run `{sudo}`") };
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

    const SUDO: &str = "sudo perigee demo";
    const DENIED: &str = "unshare: unshare failed: Operation not permitted";

    #[test]
    fn the_setting_that_forbids_is_named_with_the_way_out() {
        for (name, bad, good) in SETTINGS {
            let sentence = refusal(DENIED, false, SUDO, |asked| (asked == name).then(|| bad.to_owned()));
            let expected =
                format!("as {name} is {bad}: `sudo sysctl -w {name}={good}` allows them, or run `sudo perigee demo`");
            assert!(sentence.ends_with(&expected), "{sentence}");
        }
    }

    #[test]
    fn the_way_is_an_argument_of_the_program_inside() {
        for way in [Isolation::Root, Isolation::User] {
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        assert!("nobody".parse::<Isolation>().unwrap_err().contains("expected root or user"));
    }

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn the_end_of_the_input_asks_for_an_end_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (input, outside) = std::io::pipe().unwrap();
        let (asked, asks) = std::sync::mpsc::channel();
        let inside =
            watch(input, folder.path(), LONG, move || asked.send(()).unwrap(), || panic!("too early")).unwrap();
        assert!(!inside.is_asked_to_end() && asks.try_recv().is_err());
        drop(outside);
        asks.recv().unwrap();
        assert!(inside.is_asked_to_end() && folder.path().exists());
        drop(inside);
        assert!(!folder.path().exists());
    }

    #[test]
    fn an_end_that_does_not_come_is_forced() {
        let folder = tempfile::tempdir().unwrap();
        let (exits, exited) = std::sync::mpsc::channel();
        let exit = move || exits.send(()).unwrap();
        let _inside = watch(std::io::empty(), folder.path(), Duration::ZERO, || (), exit).unwrap();
        exited.recv().unwrap();
        assert!(!folder.path().exists());
    }

    #[test]
    fn work_that_ends_unasked_leaves_the_folder_to_the_process_outside() {
        let folder = tempfile::tempdir().unwrap();
        let (input, _outside) = std::io::pipe().unwrap();
        drop(watch(input, folder.path(), LONG, || (), || ()).unwrap());
        assert!(folder.path().exists());
    }

    #[test]
    fn settings_that_allow_are_not_blamed() {
        let allows =
            |asked: &str| SETTINGS.iter().find(|(name, ..)| *name == asked).map(|(.., good)| (*good).to_owned());
        let sentence = refusal(DENIED, false, SUDO, allows);
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
        let sentence = refusal(DENIED, true, SUDO, |name| name.starts_with("kernel").then(|| "0".to_owned()));
        assert_eq!(
            sentence,
            format!(
                "the kernel refuses new namespaces even to root ({DENIED}): in a container, start that with --privileged"
            )
        );
        let sentence = refusal(DENIED, true, SUDO, |name| (name == "user.max_net_namespaces").then(|| "0".to_owned()));
        assert!(sentence.ends_with("`sudo sysctl -w user.max_net_namespaces=15000` allows them"), "{sentence}");
    }
}
