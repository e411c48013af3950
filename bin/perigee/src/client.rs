// SPDX-License-Identifier: MIT
//! Finds the running router that a command is about.

use anyhow::{Result, bail};
use clap::Args;
use perigee_api::Endpoint;
use perigee_api::client::ApiClient;
use perigee_config::default_socket;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The running router that is meant.
#[derive(Args, Clone)]
pub struct RouterArg {
    /// The router's API socket [default: the only one in $XDG_RUNTIME_DIR/perigee and /run/perigee]
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

/// The one socket in the default folders: those of this user and those of services.
fn only_socket() -> Result<PathBuf> {
    let example = default_socket("NAME");
    let own = example.parent().unwrap_or(&example);
    the_only_one(&[own, Path::new("/run/perigee")])
}

fn the_only_one(folders: &[&Path]) -> Result<PathBuf> {
    let (mut sockets, mut others) = (Vec::new(), Vec::new());
    for folder in folders {
        match std::fs::read_dir(folder) {
            Ok(entries) => sockets.extend(entries.flatten().map(|entry| entry.path())),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => others.push(folder.display().to_string()),
            Err(_) => {}
        }
    }
    sockets.retain(|path: &PathBuf| path.extension().is_some_and(|e| e == "sock"));
    sockets.sort();
    // Both may be the same.
    sockets.dedup();
    match sockets.as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            let mut folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            folders.dedup();
            let has = if folders.len() == 1 { "has" } else { "have" };
            if let Some(others) = others.first() {
                bail!(
                    "no router of yours runs here, and {others} is another user's: run this as the user who started the router, or have it name a `socket_group` that you are in"
                );
            }
            bail!(
                "no router runs here: {} {has} no socket; start one with `perigee run FILE`, or name its --socket",
                folders.join(" and ")
            )
        }
        several => {
            let list: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            bail!("several routers run here; name one with --socket: {}", list.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root shell that had kept a user's XDG_RUNTIME_DIR did not see root's router.
    #[test]
    fn the_only_socket_of_both_folders_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let [own, all] = ["own", "all"].map(|name| folder.path().join(name));
        let refused = || the_only_one(&[&own, &all]).unwrap_err().to_string();
        assert!(refused().contains("own and ") && refused().contains("all have no socket"), "{}", refused());
        assert!(the_only_one(&[&own, &own]).unwrap_err().to_string().contains("own has no socket"));
        for folder in [&own, &all] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(all.join("a.sock"), "").unwrap();
        assert_eq!(the_only_one(&[&own, &all]).unwrap(), all.join("a.sock"));
        assert_eq!(the_only_one(&[&all, &all]).unwrap(), all.join("a.sock"));
        std::fs::write(own.join("b.sock"), "").unwrap();
        assert!(refused().starts_with("several routers run here"), "{}", refused());
    }

    #[test]
    fn a_folder_of_another_user_is_not_said_to_be_empty() {
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        // Root reads any folder, but not without its capabilities.
        let refused = std::thread::spawn(move || {
            perigee_helper::privileges::drop_all().unwrap();
            the_only_one(&[&closed]).unwrap_err().to_string()
        });
        assert!(refused.join().unwrap().contains("is another user's: run this as"));
    }
}
