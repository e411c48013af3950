// SPDX-License-Identifier: MIT
//! Finds the running router that a command is about.

use anyhow::{Result, bail};
use clap::Args;
use perigee_api::Endpoint;
use perigee_api::client::ApiClient;
use perigee_config::default_socket;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The running router that is meant.
#[derive(Args, Clone)]
pub struct RouterArg {
    /// The router's API socket [default: the only one in $XDG_RUNTIME_DIR/perigee or /run/perigee]
    #[arg(long, global = true, value_name = "PATH", env = "PERIGEE_SOCKET")]
    pub socket: Option<PathBuf>,
}

/// Connects to the router that is meant.
pub fn connect(router: &RouterArg) -> Result<ApiClient> {
    let socket = match &router.socket {
        Some(socket) => socket.clone(),
        None => only_socket()?,
    };
    Ok(ApiClient::connect(&socket)?)
}

/// Asks a router for a stream, and gives its pieces to a session as they come. The session begins once the router has
/// agreed, so that a refusal leaves nothing behind. Returns `None` if the stream was empty.
pub fn stream<E: Endpoint, S>(
    router: &RouterArg,
    asked: &E,
    begin: impl Fn() -> Result<S>,
    piece: impl Fn(&mut S, &[u8]) -> Result<()>,
) -> Result<Option<S>> {
    let (mut session, mut failed) = (None, None);
    connect(router)?.stream(&asked.url(), |bytes| {
        let begun = match &mut session {
            Some(session) => Ok(session),
            none => begin().map(|session| none.insert(session)),
        };
        let taken = begun.and_then(|session| piece(session, bytes));
        let goes_on = taken.is_ok();
        // It is not an error if the reader has seen enough (`| head`).
        let enough = |error: &anyhow::Error| {
            error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
        };
        failed = taken.err().filter(|error| !enough(error));
        goes_on
    })?;
    failed.map_or(Ok(session), Err)
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
