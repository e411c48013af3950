// SPDX-License-Identifier: MIT
//! The router of the demo: its configuration, and `perigee run` as a process.

use super::tools;
use super::world::{CLIENT, Host, SERVER};
use anyhow::{Context, Result, anyhow, bail};
use perigee_api::answers::VersionStatus;
use perigee_api::client::ApiClient;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names of the files in the temporary folder.
pub const SOCKET: &str = "demo.sock";
pub const LOG: &str = "router.log";
pub const CONFIG: &str = "demo.toml";
pub const FASTPATH: &str = "fastpath.lua";
pub const BLOCKLIST: &str = "blocklist.lua";

/// `perigee run`, running.
pub struct Router {
    child: Child,
    folder: PathBuf,
}

impl Router {
    /// Starts it, and waits until its API answers.
    pub fn start(folder: &Path, fib: Option<&str>) -> Result<Router> {
        fs::write(folder.join(CONFIG), config())?;
        fs::write(folder.join(FASTPATH), include_str!("../../../../lua/fastpath.lua"))?;
        fs::write(folder.join(BLOCKLIST), include_str!("../../../../lua/examples/blocklist.lua"))?;
        let log = File::create(folder.join(LOG))?;
        let program = std::env::current_exe().context("the program's own path is not known")?;
        let mut command = Command::new(program);
        command.arg("run").args(fib.map(|names| format!("--fib={names}")));
        command.arg(folder.join(CONFIG)).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut router = Router { child: command.spawn()?, folder: folder.to_owned() };
        let deadline = Instant::now() + PATIENCE;
        while router.version().is_err() {
            router.running()?;
            if Instant::now() > deadline {
                bail!("`perigee run` does not answer after {} s; {}", PATIENCE.as_secs(), router.last_words());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(router)
    }

    fn version(&self) -> Result<VersionStatus> {
        Ok(self.api()?.get("/v1/version")?)
    }

    /// Its API.
    pub fn api(&self) -> Result<ApiClient> {
        Ok(ApiClient::connect(&self.folder.join(SOCKET))?)
    }

    /// Does something with it; should that fail because it has ended, that is the reason.
    pub fn or_why<T>(&mut self, work: impl FnOnce(&Router) -> Result<T>) -> Result<T> {
        work(self).or_else(|error| self.running().and(Err(error)))
    }

    /// An error if it has ended.
    fn running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(anyhow!("`perigee run` ended with {status}; {}", self.last_words())),
        }
    }

    /// The last line of its log.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        log.lines().last().map_or("its log is empty".to_owned(), |line| format!("it said: {}", line.trim()))
    }

    /// Stops it as SIGTERM does; it must end well, which includes that no packet buffer is lost.
    pub fn stop(&mut self) -> Result<()> {
        self.running()?;
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.context("`perigee run` has no process number")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("`perigee run` ended with {status}; {}", self.last_words()),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        bail!("`perigee run` did not end {} s after SIGTERM; {}", PATIENCE.as_secs(), self.last_words())
    }

    /// Waits until it ends, which it should not.
    pub fn wait(&mut self) -> Result<()> {
        self.child.wait()?;
        self.running()
    }
}

/// The configuration.
fn config() -> String {
    let head = format!(
        "# SPDX-License-Identifier: MIT\n\
         # The router of `perigee demo`.\n\
         [router]\nname = \"demo\"\nscript = \"{FASTPATH}\"\nsocket = \"{SOCKET}\"\nidle = \"sleep\"\nworkers = 1\n\n\
         [eal]\nhugepages = false\nmemory = 256\n"
    );
    head + &port(&CLIENT) + &port(&SERVER)
}

fn port(host: &Host) -> String {
    format!(
        "\n[port.{}]\ninterface = \"{}\"\naddresses = [\"{}/24\", \"{}/64\"]\n",
        host.port, host.wire, host.router_v4, host.router_v6
    )
}

/// How `perigee` is called: by name if that finds this very program.
pub fn program() -> Result<String> {
    let own = std::env::current_exe().context("the program's own path is not known")?;
    let path = tools::search_path();
    let first = std::env::split_paths(&path).map(|folder| folder.join("perigee")).find(|file| file.is_file());
    let same = first.and_then(|file| file.canonicalize().ok()).is_some_and(|file| file == own);
    Ok(if same { "perigee".to_owned() } else { own.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_a_valid_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(CONFIG);
        fs::write(&file, config()).unwrap();
        fs::write(folder.path().join(FASTPATH), "").unwrap();
        let config = perigee_config::Config::load(&file).unwrap();
        assert_eq!(config.router.socket, folder.path().join(SOCKET));
        assert_eq!(config.ports.len(), 2);
        assert_eq!(config.workers.len(), 1);
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }
}
