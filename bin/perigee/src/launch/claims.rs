// SPDX-License-Identifier: MIT
//! What a router claims before it touches anything: the place of its API's socket, and the interfaces under its ports.
//! Another router that ends is waited for; one that runs is named.

use super::start::Start;
use anyhow::{Result, bail};
use perigee_config::{Config, Device};
use perigee_helper::{Claim, Claims, Holder};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The claims, held until the process is gone: what it does at its very end (DPDK removes its socket) is past then.
static CLAIMS: OnceLock<Claims> = OnceLock::new();

/// How long the end of another router is waited for: it may have many sockets to close, or a helper that waits for
/// Linux.
const ENDS: Duration = Duration::from_secs(120);

/// How long one is waited for that shows no sign of its end: its signal may be on the way.
const RUNS: Duration = Duration::from_secs(5);

/// Claims what this router needs alone.
///
/// # Errors
/// Another router has it, or the end was asked for.
pub(super) fn take(config: &Config, start: &Start) -> Result<()> {
    let interface = |port: &perigee_config::Port| match &port.device {
        Device::Linux { interface, .. } => Some(Claim::Interface(interface.clone())),
        Device::Dpdk(_) => None,
    };
    let socket = Claim::Socket(config.router.socket.clone());
    let wanted: Vec<Claim> = std::iter::once(socket).chain(config.ports.iter().filter_map(interface)).collect();
    let (begin, mut said) = (Instant::now(), None);
    loop {
        start.step()?;
        let taken = match Claims::take(&wanted) {
            Ok(claims) => {
                let _ = CLAIMS.set(claims);
                // The end may have been asked for when there were no claims yet that could say it.
                return start.step().inspect_err(|_| ends()).map_err(Into::into);
            }
            Err(taken) => taken,
        };
        let ends = taken.holder == Holder::Ending;
        let (longest, often) = match ends {
            true => (ENDS, Duration::from_millis(20)),
            // Each question leaves something with the one that is asked.
            false => (RUNS, Duration::from_millis(250)),
        };
        if begin.elapsed() >= longest {
            match ends {
                true => bail!(
                    "{taken}; is the helper stopped? `pgrep -f 'perigee helper'` finds it: let it go on, or kill it"
                ),
                false => {
                    bail!("{taken}; stop that one, or give this one another `name` or `socket`, and other interfaces")
                }
            }
        }
        if said.as_ref() != Some(&taken) {
            tracing::info!("{taken}; this start waits for its end, {} s at most", longest.as_secs());
            said = Some(taken);
        }
        std::thread::sleep(often);
    }
}

/// Runs `start`, whose process shares the claims.
pub(super) fn shared<T>(start: impl FnOnce() -> T) -> std::io::Result<T> {
    match CLAIMS.get() {
        Some(claims) => claims.share(start),
        None => Ok(start()),
    }
}

/// The router ends: another one's start may wait for it. Takes no lock.
pub fn ends() {
    if let Some(claims) = CLAIMS.get() {
        claims.end();
    }
}
