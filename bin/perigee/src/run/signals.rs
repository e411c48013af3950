// SPDX-License-Identifier: MIT
//! What signals ask a router for: SIGTERM and SIGINT its end, in order or by force, SIGHUP a reload.

use crate::launch::{Running, Start, ends, spawn};
use anyhow::Result;
use perigee_api::Request;
use perigee_api::queries::Reload;
use perigee_lua::end_by_force;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Each port and each worker adds this to the time limit of the end, as the kernel waits for other cores whenever it
/// closes a packet socket. It covers a step of the start, too.
const END_OF_EACH: Duration = Duration::from_millis(100);

/// How long the end waits for DPDK's start, which nothing interrupts: on a busy machine it has taken 12 s.
const DPDK_STARTS: Duration = Duration::from_secs(60);

/// How often it is looked whether it has.
const STEP: Duration = Duration::from_millis(20);

/// What a signal asks for.
enum Asked {
    End,
    Reload,
}

/// Signals, received by a thread of their own from the start on: whatever else hangs, the router ends. The second one
/// that asks for the end makes it by force.
pub(super) struct Signals {
    asked: Receiver<Asked>,
    /// How long the end may take.
    limit: Duration,
}

impl Signals {
    /// Receives signals from now on, those that come during `start` as well; the router's end may take `budget`, and a
    /// little more for each of its ports and workers. `behind`: the process in front of this one passes signals on, all
    /// of them as SIGINT; one that `killall` sends to both then comes as SIGTERM, too, and is no second one.
    ///
    /// # Errors
    /// They cannot be received, or no thread can be started.
    pub(super) fn new(start: Arc<Start>, budget: Duration, ports_and_workers: usize, behind: bool) -> Result<Signals> {
        let limit = budget + END_OF_EACH * ports_and_workers as u32;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        drop(guard);
        let (sender, asked) = channel();
        let wait = async move {
            let by_terminate = loop {
                tokio::select! {
                    _ = terminate.recv() => break true,
                    _ = interrupt.recv() => break false,
                    // Nobody listens during the launch's last moments and the end's first.
                    _ = hangup.recv() => drop(sender.send(Asked::Reload)),
                }
            };
            let _ = sender.send(Asked::End);
            // From here on this thread starts none, and logs only while the router is not there yet: a C module may
            // keep a lock that either takes.
            let starts = start.ask_to_end();
            // Whatever is still under way: the start of another router waits for one that ends, not for one that runs.
            ends();
            if starts {
                tracing::info!("the end is asked for: it comes as soon as DPDK has started");
            }
            let last = async {
                let _ = tokio::time::timeout(DPDK_STARTS, async {
                    while start.is_busy() {
                        tokio::time::sleep(STEP).await;
                    }
                })
                .await;
                tokio::time::sleep(limit).await;
            };
            let counts = |terminate: bool| !behind || terminate == by_terminate;
            tokio::select! {
                _ = terminate.recv(), if counts(true) => SECOND_SIGNAL.to_owned(),
                _ = interrupt.recv(), if counts(false) => SECOND_SIGNAL.to_owned(),
                () = last => late(limit),
            }
        };
        let thread = move || {
            let why = runtime.block_on(wait);
            end_by_force(format_args!("{why}"))
        };
        spawn("signals", Box::new(thread))?;
        Ok(Signals { asked, limit })
    }

    /// Waits for the end, and reloads when asked to; returns whether the end was asked for.
    pub(super) fn wait(&self, running: &Running) -> bool {
        while !running.stopping() {
            match self.asked.recv_timeout(Duration::from_millis(200)) {
                Ok(Asked::End) | Err(RecvTimeoutError::Disconnected) => return true,
                Ok(Asked::Reload) => reload_self(running),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        tracing::error!("the router ends without a signal: the lines before this one say why");
        // The others may wait for it.
        let limit = self.limit;
        let thread = move || {
            std::thread::sleep(limit);
            end_by_force(format_args!("{}", late(limit)));
        };
        if let Err(error) = spawn("end", Box::new(thread)) {
            tracing::warn!("the end may take long: {error}");
        }
        false
    }
}

/// Why the end is made by force.
const SECOND_SIGNAL: &str = "a second signal asks for the end";

fn late(limit: Duration) -> String {
    format!("the router did not end in order within {limit:?}")
}

/// SIGHUP: what `perigee reload` does, without a client, who could be refused. What comes of it is logged where it is
/// done.
fn reload_self(running: &Running) {
    tracing::info!("SIGHUP: configuration and script are loaded again");
    running.ask(|reply| Request::Reload(Reload { script: None, text: None }, reply));
}
