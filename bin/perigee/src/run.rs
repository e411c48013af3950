// SPDX-License-Identifier: MIT
//! `perigee run`: a router in the foreground, until a signal.

mod carried;
mod front;
mod signals;

use crate::check;
use crate::launch::{Interrupted, Start, ends, launch};
use crate::output::word;
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use perigee_helper::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use signals::Signals;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How long destructors of scripts' C modules may take, when all else has ended.
const DESTRUCTORS: Duration = Duration::from_secs(1);

/// Arguments of `perigee run`.
#[derive(Args)]
pub struct RunArgs {
    /// The configuration, in TOML
    file: PathBuf,
    /// The lookup structure to use instead of the configuration's `fib`: NAME, or one for IPv4 and one for IPv6
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    fib: Vec<String>,
    /// Start even if an interface carries addresses of this machine, its default route or connections, which are lost; or, with
    /// `stack = "linux"`, if packets pass by rules of nftables or policies of IPsec
    #[arg(long)]
    force: bool,
    /// Log more (-v) or everything (-vv); the environment variable PERIGEE_LOG selects it in detail
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// The process in front of this one has the terminal; see front.rs
    #[arg(long, hide = true, value_name = "PID")]
    behind: Option<i32>,
    /// The output is a terminal's in the end
    #[arg(long, hide = true)]
    colors: bool,
}

/// The helper's log lines on standard error. A line that cannot be written at once is lost, so that a log without a
/// reader does not delay what the helper restores.
pub(crate) fn log_of_helper() {
    log(0, false, || Ready(std::io::stderr()));
}

/// Writes what can be written at once.
struct Ready<W>(W);

impl<W: Write + AsFd> Write for Ready<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut fds = [PollFd::new(&self.0, PollFlags::OUT)];
        match poll(&mut fds, Some(&Timespec::default())) {
            // Lines are shorter than what a pipe that is ready has room for (pipe(7), PIPE_BUF).
            Ok(1) => self.0.write(bytes),
            _ => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Log lines by a writer.
fn log<W>(verbose: u8, colors: bool, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = [LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE][usize::from(verbose.min(2))];
    // The prefix of all of perigee's crates.
    let otherwise = || Targets::new().with_default(LevelFilter::WARN).with_target("perigee", level);
    let given = std::env::var("PERIGEE_LOG").ok().map(|text| text.parse::<Targets>().map_err(|error| (text, error)));
    let (given, mistake) = match given.transpose() {
        Ok(given) => (given, None),
        Err(mistake) => (None, Some(mistake)),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colors).with_target(false);
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(given.unwrap_or_else(otherwise)));
    // Calling it again is not an error: tests start several routers.
    let _ = subscriber.try_init();
    if let Some((text, error)) = mistake {
        tracing::warn!(
            "PERIGEE_LOG is `{text}`, which is not understood ({error}); expected such as info,perigee_linux=debug"
        );
    }
}

pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let front = args.behind.and_then(Pid::from_raw);
    if front.is_none() && terminal::is_there() {
        return front::stay();
    }
    terminal::give_up().context("the router cannot give up its terminal")?;
    front.map_or(Ok(()), terminal::end_with)?;
    log(args.verbose, args.colors, std::io::stderr);
    // Before anything that may take long.
    tracing::info!("perigee {}, configuration {}", env!("CARGO_PKG_VERSION"), args.file.display());
    perigee_dpdk::set_runtime_dir(perigee_dpdk::fallback_runtime_dir().as_deref())?;
    allow_open_files();
    let mut machine = check::machine();
    if !args.fib.is_empty() {
        let choice = machine.fib.choose(&args.fib);
        machine.fib_override = Some(choice.map_err(|expected| {
            anyhow!("found --fib {}, expected {}", args.fib.join(","), expected.replace('"', ""))
        })?);
    }
    // Else a socket in the file's folder would have another path when the file is read again, and so be another one.
    let file = std::path::absolute(&args.file)?;
    let config = check::load(&file, &machine)?;
    carried::look(&config, args.force)?;
    perigee_helper::privileges::plan(config.router.user.as_deref())?;
    // Before the first thread starts, so that no signal is missed.
    let start = Arc::new(Start::default());
    let ports_and_workers = config.ports.len() + config.workers.len();
    let signals = Signals::new(start.clone(), config.router.end_budget, ports_and_workers, front.is_some())?;
    let names: Vec<String> = config.ports.iter().map(|port| port.name.clone()).collect();
    let running = match launch(config, &file, machine, &start) {
        Err(error) if error.is::<Interrupted>() => {
            tracing::info!("stopped before the router ran; nothing is left behind");
            return Ok(ExitCode::SUCCESS);
        }
        running => running?,
    };
    // The kernel has forgotten it, as the router has become another user.
    if let Some(error) = front.and_then(|front| terminal::end_with(front).err()) {
        tracing::warn!("{error}, so this one ends");
        ends();
        return running.shut_down().map(|_| ExitCode::FAILURE);
    }
    for (name, port) in names.iter().zip(running.ports()) {
        tracing::info!(
            "port {name}: {} ({}), {}, {} receive queues, MTU {}",
            port.device,
            port.driver,
            port.mac,
            port.receive_queues,
            port.mtu
        );
    }
    let socket = running.socket().unwrap_or(Path::new("")).display();
    tracing::info!("running; `perigee show ports --socket {}`", word(socket));
    let asked = signals.wait(&running);
    ends();
    let account = running.shut_down();
    perigee_lua::end_within(DESTRUCTORS, u8::from(!(asked && account.is_ok())));
    tracing::info!("stopped; every packet buffer is back; {}", account?);
    Ok(if asked { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each worker has some descriptors for each port: the usual limit of 1024 is too low for three ports on 64 cores, and
/// any process may raise it to the hard one.
fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!("the limit of open files stays: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The helper did not restore interfaces while its log had no reader.
    #[test]
    fn a_log_that_nobody_reads_keeps_nobody() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut log = Ready(writer);
        let line = [b'x'; 4000];
        for _ in 0..100 {
            assert_eq!(log.write(&line).unwrap(), line.len());
        }
        drop(reader);
    }
}
