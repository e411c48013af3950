// SPDX-License-Identifier: MIT
//! SIGINT and SIGTERM for commands that run until they are interrupted.

use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Calls `stop` at the first SIGINT or SIGTERM. A second one, or `grace` (and a second) without an end, ends the
/// process at once.
///
/// # Errors
/// No thread can be started.
pub fn on_signals(stop: impl FnOnce() + Send + 'static, grace: Duration) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wait = async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        let code = tokio::select! {
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
        };
        stop();
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = tokio::time::sleep(grace + Duration::from_secs(1)) => {}
        }
        std::process::exit(code)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}
