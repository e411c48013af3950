// SPDX-License-Identifier: MIT
//! `perigee run`: a router in the foreground, until a signal.

use crate::launch::{Running, launch};
use crate::{check, reload};
use anyhow::{Result, anyhow};
use clap::Args;
use perigee_api::client::ApiClient;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Before the first thread starts, so that no signal is missed.
    let _guard = runtime.enter();
    let mut signals = Signals::new()?;
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
    runtime.block_on(signals.wait(&running));
    let account = running.shut_down()?;
    tracing::info!("stopped; every packet buffer is back; {account}");
    Ok(ExitCode::SUCCESS)
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the end, and reloads meanwhile if asked to.
    async fn wait(&mut self, running: &Running) {
        while !running.stopping() {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => reload_self(running),
                () = tokio::time::sleep(Duration::from_millis(200)) => {}
            }
        }
        tracing::error!("a thread of the router has ended");
    }
}

/// SIGHUP: what `perigee reload` does. The client blocks, so it has a thread of its own.
fn reload_self(running: &Running) {
    let Some(socket) = running.socket().map(Path::to_owned) else { return };
    std::thread::spawn(move || {
        match ApiClient::connect(&socket).map_err(Into::into).and_then(|c| reload::reload_at(&c, None)) {
            Ok(message) => tracing::info!("reloaded: {message}"),
            Err(error) => tracing::error!("not reloaded: {error:#}"),
        }
    });
}
