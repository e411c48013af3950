// SPDX-License-Identifier: MIT
//! A command whose work runs in new namespaces: `perigee demo`, and benchmarks of devices that it builds itself.
//!
//! ```text
//!  outside   finds the tools, makes a temporary folder, waits, removes the folder
//!     | unshare: namespaces for processes, network and mounts (and users, if not root)
//!  inside    the same program again, with arguments of its own: the work
//! ```
//!
//! On the first signal the inside's standard input is closed, which asks it to end; on the second, or when its time is
//! over, it is killed. Its output is the user's, and its exit code is passed on. Whatever it started ends with it, as
//! it is the first process of its namespace.

use anyhow::{Context as _, Result, anyhow};
use perigee_lab::isolation::{self, Isolation};
use perigee_lab::patient;
use perigee_lab::tools::{self, Tool};
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The programs without which nothing can be isolated.
const NEEDED: [Tool; 5] = [tools::IP, tools::ETHTOOL, tools::UNSHARE, tools::NSENTER, tools::MOUNT];

/// The longest folder whose sockets, DPDK's own included, have paths of at most 107 bytes.
const LONGEST_BASE: usize = 40;

/// What is to be isolated.
pub struct Isolated<'a> {
    /// The subcommand, part of its temporary folder's name: `demo`.
    pub name: &'a str,
    /// The whole subcommand, for advice: `bench rfc2544`.
    pub command: &'a str,
    /// What runs the programs, in a sentence: `the demo`.
    pub who: &'a str,
    /// Programs that it runs.
    pub tools: &'a [Tool],
    /// Whether it makes TAP interfaces, as twins are.
    pub tun: bool,
    /// How long the inside may take to end once it was asked to: to write its report, if it has one.
    /// `$PERIGEE_PATIENCE` multiplies it.
    pub patience: Duration,
}

/// How the inside ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its exit code; `None` if it was killed.
    pub code: Option<u8>,
    /// The first signal by which the user asked for the end.
    pub signal: Option<SignalKind>,
}

impl End {
    /// The exit code to pass on: that of the inside; 128 and the signal's number if it was killed after one.
    pub fn exit_code(self) -> u8 {
        let killed = self.signal.map_or(1, |signal| 128 + signal.as_raw_value() as u8);
        self.code.unwrap_or(killed)
    }
}

impl Isolated<'_> {
    /// Runs this program again, inside, with `arguments`, which are made from the way it is isolated and its temporary
    /// folder; the folder is removed at the end.
    ///
    /// # Errors
    /// A program is missing, or the kernel refuses namespaces or the folder; nothing was started then. Or the inside
    /// cannot be started or ended.
    pub fn run(&self, arguments: impl FnOnce(Isolation, &Path) -> Vec<OsString>) -> Result<End> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _guard = runtime.enter();
        // From here on no signal ends this process before it has cleaned up.
        let mut signals = Signals::new()?;
        let patience = patient(self.patience)?;
        let (path, sudo) = (tools::search_path(), format!("sudo perigee {}", self.command));
        tools::require(&[&NEEDED, self.tools].concat(), &path, self.who)?;
        if self.tun {
            tools::require_tun(&sudo)?;
        }
        let isolation = isolation::isolation(&path, &sudo)?;
        let folder = self.folder()?;
        let mut command = isolation::inside(isolation, folder.path(), &path)?;
        command.args(arguments(isolation, folder.path()));
        let mut command = Command::from(command);
        command.kill_on_drop(true);
        let end = runtime.block_on(supervise(command, patience, async || signals.next().await))?;
        remove(folder)?;
        Ok(end)
    }

    fn folder(&self) -> Result<TempDir> {
        let base = base(std::env::temp_dir());
        let (prefix, owner_only) = (format!("perigee-{}-", self.name), Permissions::from_mode(0o700));
        let folder = tempfile::Builder::new().prefix(&prefix).permissions(owner_only).tempdir_in(base);
        folder.map_err(|error| anyhow!("no folder can be made: {error}; set TMPDIR to another place"))
    }
}

fn remove(folder: TempDir) -> Result<()> {
    let path = folder.path().to_owned();
    match folder.close() {
        // The inside may have removed it already.
        Err(error) if path.exists() => Err(error).with_context(|| format!("{} cannot be removed", path.display())),
        _ => Ok(()),
    }
}

/// Where temporary folders are made. What is below /run is hidden inside, and a path may be too long for a socket.
fn base(wanted: PathBuf) -> PathBuf {
    let hidden = wanted.starts_with("/run") || wanted.starts_with("/var/run") || wanted.is_relative();
    if hidden || wanted.as_os_str().len() > LONGEST_BASE { PathBuf::from("/tmp") } else { wanted }
}

/// Waits for the inside; after a signal for `patience` at most, and not beyond another signal.
async fn supervise(
    mut command: Command,
    patience: Duration,
    mut next_signal: impl AsyncFnMut() -> SignalKind,
) -> Result<End> {
    let mut child = command.spawn().context("unshare cannot be run")?;
    let input = child.stdin.take();
    let signal = tokio::select! {
        status = child.wait() => return Ok(End { code: code(status?), signal: None }),
        signal = next_signal() => signal,
    };
    drop(input);
    let ended = tokio::select! {
        status = child.wait() => Some(status?),
        _ = next_signal() => None,
        () = tokio::time::sleep(patience) => None,
    };
    let code = match ended {
        Some(status) => code(status),
        None => {
            child.kill().await.context("the processes inside cannot be ended")?;
            None
        }
    };
    Ok(End { code, signal: Some(signal) })
}

/// An exit code, as a shell has it for a process that ended by a signal.
fn code(status: std::process::ExitStatus) -> Option<u8> {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::process::Stdio;

    /// No test waits for this.
    const LONG: Duration = Duration::from_secs(1000);

    /// How a shell script ends that gets some signals, and after them none.
    fn end(script: &str, patience: Duration, signals: &[SignalKind]) -> End {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
        let mut signals = signals.iter().copied();
        let next = async || match signals.next() {
            Some(signal) => signal,
            None => pending().await,
        };
        runtime.block_on(supervise(command, patience, next)).unwrap()
    }

    #[test]
    fn the_exit_code_is_passed_on() {
        for code in [0, 1, 2, 101] {
            let end = end(&format!("exit {code}"), LONG, &[]);
            assert_eq!((end, end.exit_code()), (End { code: Some(code), signal: None }, code));
        }
        assert_eq!(end("kill -9 $$", LONG, &[]).exit_code(), 137);
    }

    #[test]
    fn the_first_signal_closes_the_input_and_waits_for_the_end() {
        let end = end("cat; exit 7", LONG, &[SignalKind::interrupt()]);
        assert_eq!(end, End { code: Some(7), signal: Some(SignalKind::interrupt()) });
        assert_eq!(end.exit_code(), 7);
    }

    #[test]
    fn the_second_signal_kills_at_once() {
        let end = end("exec sleep 1000", LONG, &[SignalKind::terminate(), SignalKind::interrupt()]);
        assert_eq!(end, End { code: None, signal: Some(SignalKind::terminate()) });
        assert_eq!(end.exit_code(), 128 + 15);
    }

    #[test]
    fn what_takes_too_long_is_killed() {
        let end = end("exec sleep 1000", Duration::from_millis(50), &[SignalKind::interrupt()]);
        assert_eq!(end, End { code: None, signal: Some(SignalKind::interrupt()) });
    }

    #[test]
    fn the_folder_is_neither_hidden_inside_nor_too_long_for_sockets() {
        for good in ["/tmp", "/var/tmp", "/home/someone/tmp"] {
            assert_eq!(base(good.into()), Path::new(good));
        }
        for bad in ["/run/user/1000", "/var/run", "tmp", "/a/folder/that/is/much/too/long/for/any/socket"] {
            assert_eq!(base(bad.into()), Path::new("/tmp"));
        }
    }
}
