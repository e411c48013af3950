// SPDX-License-Identifier: MIT
//! The router of the demo: its configuration, and `perigee run` as a process.

use super::world::{CLIENT, SERVER, Side};
use crate::output::word;
use anyhow::{Context, Result};
use perigee_api::client::ApiClient;
use perigee_lab::{Launch, Place, Router, budgets, tools};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long it may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names of the files in the temporary folder.
pub const SOCKET: &str = "demo.sock";
pub const LOG: &str = "router.log";
pub const CONFIG: &str = "demo.toml";
pub const FASTPATH: &str = "fastpath.lua";
pub const BLOCKLIST: &str = "blocklist.lua";

/// Starts it, and waits until it runs. Its ports are the in-kernel plane's, or the worker's.
pub fn start(folder: &Path, fib: Option<&str>, in_kernel: bool) -> Result<Router> {
    fs::write(folder.join(CONFIG), config(in_kernel)?)?;
    fs::write(folder.join(FASTPATH), include_str!("../../../../lua/fastpath.lua"))?;
    fs::write(folder.join(BLOCKLIST), include_str!("../../../../lua/examples/blocklist.lua"))?;
    Router::start(Launch {
        program: std::env::current_exe().context("the program's own path is not known")?,
        place: Place::Router,
        configuration: folder.join(CONFIG),
        arguments: fib.map(|names| format!("--fib={names}")).into_iter().collect(),
        socket: folder.join(SOCKET),
        log: Some(folder.join(LOG)),
        patience: PATIENCE,
    })
}

/// Its API.
pub fn api(router: &Router) -> Result<ApiClient> {
    Ok(ApiClient::connect(router.socket())?)
}

/// The configuration.
fn config(in_kernel: bool) -> Result<String> {
    let head = format!(
        "# SPDX-License-Identifier: MIT\n\
         # The router of `perigee demo`.\n\
         [router]\nname = \"demo\"\nscript = \"{FASTPATH}\"\nsocket = \"{SOCKET}\"\nidle = \"sleep\"\nworkers = 1\n{}\n\
         [eal]\nhugepages = false\nmemory = 256\n",
        budgets("")?
    );
    let plane = if in_kernel { "plane = \"xdp\"\n" } else { "" };
    Ok(head + &port(&CLIENT) + plane + &port(&SERVER) + plane)
}

fn port(side: &Side) -> String {
    format!(
        "\n[port.{}]\ninterface = \"{}\"\naddresses = [\"{}/24\", \"{}/64\"]\n",
        side.port, side.wire, side.router_v4, side.router_v6
    )
}

/// How to call `perigee`: by name if that finds this very program.
pub fn program() -> Result<String> {
    let own = std::env::current_exe().context("the program's own path is not known")?;
    let path = tools::search_path();
    let first = std::env::split_paths(&path).map(|folder| folder.join("perigee")).find(|file| file.is_file());
    let same = first.and_then(|file| file.canonicalize().ok()).is_some_and(|file| file == own);
    Ok(if same { "perigee".to_owned() } else { word(own.display()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_a_valid_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(CONFIG);
        fs::write(&file, config(true).unwrap()).unwrap();
        fs::write(folder.path().join(FASTPATH), "").unwrap();
        let in_kernel = perigee_config::Config::load(&file).unwrap();
        assert!(in_kernel.ports.iter().all(|port| port.plane == Some(perigee_config::Plane::Xdp)));
        fs::write(&file, config(false).unwrap()).unwrap();
        let config = perigee_config::Config::load(&file).unwrap();
        assert_eq!(config.router.socket, folder.path().join(SOCKET));
        assert_eq!(config.ports.len(), 2);
        assert_eq!(config.workers.len(), 1);
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }
}
