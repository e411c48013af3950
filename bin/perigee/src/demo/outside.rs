// SPDX-License-Identifier: MIT
//! The process that the user started: checks, makes the temporary folder, waits, and leaves nothing behind.

use super::DemoArgs;
use anyhow::{Context, Result, anyhow};
use perigee_lab::isolation::{self, Isolation};
use perigee_lab::tools::{self, Tool};
use std::fs::Permissions;
use std::io::{IsTerminal, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The programs that the demo runs.
const NEEDED: [Tool; 8] = [
    tools::IP,
    tools::ETHTOOL,
    tools::PING,
    tools::TRACEROUTE,
    tools::IPERF3,
    tools::UNSHARE,
    tools::NSENTER,
    tools::MOUNT,
];

/// The way out for users who may not make namespaces.
const SUDO: &str = "sudo perigee demo";

/// How long the processes inside may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest folder whose sockets, DPDK's own included, have paths of at most 107 bytes.
const LONGEST_BASE: usize = 40;

pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _guard = runtime.enter();
    // From here on no signal ends this process before it has cleaned up.
    let mut signals = Signals::new()?;
    let path = tools::search_path();
    let bgp: &[Tool] = if args.bgp { &[tools::BIRD, tools::BIRDC] } else { &[] };
    tools::require(&[&NEEDED, bgp].concat(), &path, "the demo")?;
    tools::require_tun(SUDO)?;
    let isolation = isolation::isolation(&path, SUDO)?;
    let base = base(std::env::temp_dir());
    let owner_only = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("perigee-demo-").permissions(owner_only).tempdir_in(base);
    let folder = folder.map_err(|error| anyhow!("no folder can be made: {error}; set TMPDIR to another place"))?;
    let command = inside(args, isolation, folder.path(), &path)?;
    let end = runtime.block_on(supervise(command, &mut signals))?;
    remove(folder)?;
    Ok(match end {
        End::Signal(signal) => {
            stopped();
            // With --keep, this is the only way to end it.
            if args.keep { ExitCode::SUCCESS } else { ExitCode::from(128 + signal.as_raw_value() as u8) }
        }
        End::Success => ExitCode::SUCCESS,
        // The inside has already reported it.
        End::Failure => ExitCode::FAILURE,
    })
}

fn remove(folder: TempDir) -> Result<()> {
    let path = folder.path().to_owned();
    match folder.close() {
        // The inside may have removed it already.
        Err(error) if path.exists() => Err(error).with_context(|| format!("{} cannot be removed", path.display())),
        _ => Ok(()),
    }
}

/// Reports the end, if the terminal is still there.
fn stopped() {
    let mut stderr = std::io::stderr();
    // The terminal has written ^C into the spinner's line.
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "\n" };
    let _ = writeln!(stderr, "{clear}perigee: demo stopped; nothing is left behind");
}

/// Where temporary folders are made. What is below /run is hidden inside, and a path may be too long for a socket.
fn base(wanted: PathBuf) -> PathBuf {
    let hidden = wanted.starts_with("/run") || wanted.starts_with("/var/run") || wanted.is_relative();
    if hidden || wanted.as_os_str().len() > LONGEST_BASE { PathBuf::from("/tmp") } else { wanted }
}

/// The command that becomes `inside`.
fn inside(args: &DemoArgs, isolation: Isolation, folder: &Path, path: &str) -> Result<Command> {
    let mut command = isolation::inside(isolation, folder, path)?;
    command.args(["demo", "--isolation", &isolation.to_string(), "--inside"]).arg(folder);
    command.args(args.keep.then_some("--keep")).args(args.json.then_some("--json"));
    command.args(args.bgp.then_some("--bgp"));
    command.args(args.fib.iter().map(|names| format!("--fib={names}")));
    let mut command = Command::from(command);
    command.kill_on_drop(true);
    Ok(command)
}

enum End {
    Success,
    Failure,
    Signal(SignalKind),
}

/// Waits for the inside, or for a signal that ends it.
async fn supervise(mut command: Command, signals: &mut Signals) -> Result<End> {
    let mut child = command.spawn().context("unshare cannot be run")?;
    let input = child.stdin.take();
    let caught = tokio::select! {
        status = child.wait() => return Ok(if status?.success() { End::Success } else { End::Failure }),
        caught = signals.next() => caught,
    };
    drop(input);
    if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
        child.kill().await.context("the demo's processes cannot be ended")?;
    }
    Ok(End::Signal(caught))
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
