// SPDX-License-Identifier: MIT
//! Finds the running router that a command is about.

use anyhow::{Result, bail};
use clap::Args;
use perigee_api::client::ApiClient;
use perigee_config::default_socket;
use std::path::PathBuf;

/// Which running router is meant.
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

/// A path with parameters; those without a value are left out.
pub fn query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let mut query = path.to_owned();
    for (name, value) in parameters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        query.push(if query.contains('?') { '&' } else { '?' });
        query.push_str(&format!("{name}="));
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => query.push(byte.into()),
                _ => query.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    query
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        let some = |text: &str| Some(text.to_owned());
        let path = query("/v1/x", &[("a", some("tcp and (é)")), ("b", None), ("c", some("1-2"))]);
        assert_eq!(path, "/v1/x?a=tcp%20and%20%28%C3%A9%29&c=1-2");
        assert_eq!(query("/v1/x", &[("b", None)]), "/v1/x");
    }
}
