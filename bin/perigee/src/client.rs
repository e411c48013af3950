// SPDX-License-Identifier: MIT
//! Finds the running router that a command is about.

use crate::cli::RouterArg;
use anyhow::{Result, bail};
use perigee_control::client::ApiClient;
use perigee_control::config::default_socket;
use std::path::PathBuf;

/// Connects to the router that is meant.
pub fn connect(router: &RouterArg) -> Result<ApiClient> {
    let socket = match &router.socket {
        Some(socket) => socket.clone(),
        None => only_socket()?,
    };
    Ok(ApiClient::connect(&socket)?)
}

/// The one socket in the default folder.
fn only_socket() -> Result<PathBuf> {
    let example = default_socket("NAME");
    let folder = example.parent().unwrap_or(&example);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "sock")).collect();
    sockets.sort();
    match sockets.as_slice() {
        [only] => Ok(only.clone()),
        [] => bail!(
            "no router runs here: {} has no socket; start one with `perigee run FILE`, or name its --socket",
            folder.display()
        ),
        several => {
            let list: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            bail!("several routers run here; name one with --socket: {}", list.join(", "))
        }
    }
}
