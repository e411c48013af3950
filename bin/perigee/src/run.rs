// SPDX-License-Identifier: MIT
//! `perigee run`: a router in the foreground, until a signal.

use crate::launch::{Running, launch, spawn};
use crate::{check, reload};
use anyhow::{Result, anyhow};
use clap::Args;
use perigee_api::client::ApiClient;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Arguments of `perigee run`.
#[derive(Args)]
pub struct RunArgs {
    /// The configuration, in TOML
    file: PathBuf,
    /// The lookup structure to use instead of the configuration's `fib`: NAME, or one for IPv4 and one for IPv6
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    fib: Vec<String>,
    /// Log more (-v) or everything (-vv); the environment variable PERIGEE_LOG selects it in detail
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// Log lines on standard error.
pub fn log(verbose: u8) {
    let level = [LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE][usize::from(verbose.min(2))];
    // The prefix of all of perigee's crates.
    let otherwise = || Targets::new().with_default(LevelFilter::WARN).with_target("perigee", level);
    let given = std::env::var("PERIGEE_LOG").ok().map(|text| text.parse::<Targets>().map_err(|error| (text, error)));
    let (given, mistake) = match given.transpose() {
        Ok(given) => (given, None),
        Err(mistake) => (None, Some(mistake)),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
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
    log(args.verbose);
    perigee_dpdk::set_runtime_dir(perigee_dpdk::fallback_runtime_dir().as_deref())?;
    let mut machine = check::machine();
    if !args.fib.is_empty() {
        let choice = machine.fib.choose(&args.fib);
        machine.fib_override = Some(choice.map_err(|expected| {
            anyhow!("found --fib {}, expected {}", args.fib.join(","), expected.replace('"', ""))
        })?);
    }
    let config = check::load(&args.file, &machine)?;
    perigee_helper::privileges::plan(config.router.user.as_deref())?;
    // Before the first thread starts, so that no signal is missed.
    let signals = Signals::new(config.router.end_budget + END_OF_PORT * config.ports.len() as u32)?;
    let names: Vec<String> = config.ports.iter().map(|port| port.name.clone()).collect();
    let running = launch(config, &args.file, machine)?;
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
    tracing::info!("running; `perigee show ports --socket {}`", running.socket().unwrap_or(Path::new("")).display());
    let asked = signals.wait(&running);
    let account = running.shut_down()?;
    tracing::info!("stopped; every packet buffer is back; {account}");
    Ok(if asked { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What each port adds to the time that the end may take, launch and all, before it is made by force: the kernel waits for other cores
/// whenever a packet socket is closed.
const END_OF_PORT: Duration = Duration::from_millis(100);

/// What a signal asks for.
enum Asked {
    End,
    Reload,
}

/// Signals, received by a thread of their own from the start on: whatever else hangs, the router ends.
struct Signals {
    asked: Receiver<Asked>,
    /// How long the end may take.
    limit: Duration,
}

impl Signals {
    fn new(limit: Duration) -> Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        drop(guard);
        let (sender, asked) = channel();
        let wait = async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    // Nobody listens during the launch's last moments and the end's first.
                    _ = hangup.recv() => drop(sender.send(Asked::Reload)),
                }
            }
            let _ = sender.send(Asked::End);
        };
        let thread = move || {
            runtime.block_on(wait);
            end_by_force(limit);
        };
        spawn("signals", Box::new(thread))?;
        Ok(Signals { asked, limit })
    }

    /// Waits for the end, and reloads meanwhile if asked to; returns whether the end was asked for.
    fn wait(&self, running: &Running) -> bool {
        while !running.stopping() {
            match self.asked.recv_timeout(Duration::from_millis(200)) {
                Ok(Asked::End) | Err(RecvTimeoutError::Disconnected) => return true,
                Ok(Asked::Reload) => reload_self(running),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        tracing::error!("the router ends by itself: the lines before this one say why");
        // The others may wait for it.
        let limit = self.limit;
        if let Err(error) = spawn("end", Box::new(move || end_by_force(limit))) {
            tracing::warn!("the end may take long: {error}");
        }
        false
    }
}

/// Ends the process if it has not ended in order in time. The helper restores the interfaces when its socket closes.
fn end_by_force(limit: Duration) {
    std::thread::sleep(limit);
    tracing::error!(
        "the router did not end in order within {limit:?}: it ends by force, and the helper restores the interfaces"
    );
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    // The first process of a container does not die of that.
    std::thread::sleep(Duration::from_millis(100));
    std::process::abort();
}

/// SIGHUP: what `perigee reload` does. The client blocks, so it has a thread of its own.
fn reload_self(running: &Running) {
    let Some(socket) = running.socket().map(Path::to_owned) else { return };
    std::thread::spawn(move || {
        // What comes of it is logged where it is done.
        if let Err(error) = ApiClient::connect(&socket).map_err(Into::into).and_then(|c| reload::reload_at(&c, None)) {
            tracing::debug!("SIGHUP: {error:#}");
        }
    });
}
