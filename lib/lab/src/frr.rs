// SPDX-License-Identifier: MIT
//! FRR, the routing daemons: next to the router, on its twins, or on a host.

mod configuration;

pub use configuration::{Session, bgp, ospf};

use crate::process::{Ended, Process, run};
use crate::{LONG_WAIT, LONGEST_WAIT, Place, wait_until};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::mount::{MountFlags, mount, mount_bind};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Where Debian puts the daemons.
const PROGRAMS: &str = "/usr/lib/frr";

/// Some daemons of FRR, as one instance. They end with their handle.
pub struct Frr {
    place: Place,
    configuration: PathBuf,
    daemons: BTreeMap<String, Process>,
}

impl Frr {
    /// Starts `daemons` in this order, each with its options: `"zebra -K 60"`. The configuration is `NAME-frr.conf` in
    /// `folder`, NAME being the place's.
    ///
    /// # Errors
    /// One does not come up, or does not take the configuration.
    pub fn start(place: Place, folder: &Path, daemons: &[&str], configuration: &str) -> Result<Frr> {
        make_a_home()?;
        let own = Path::new("/etc/frr").join(place.name());
        fs::create_dir(&own).with_context(|| format!("{} cannot be made", own.display()))?;
        fs::write(own.join("vtysh.conf"), "").context("vtysh.conf cannot be written")?;
        let file = folder.join(format!("{}-frr.conf", place.name()));
        fs::write(&file, configuration).with_context(|| format!("{} cannot be written", file.display()))?;
        let mut frr = Frr { place, configuration: file, daemons: BTreeMap::new() };
        for words in daemons {
            frr.run(words)?;
        }
        frr.load(&frr.configuration)?;
        Ok(frr)
    }

    /// Kills a daemon by SIGKILL, like a crash.
    ///
    /// # Errors
    /// It does not run.
    pub fn kill(&mut self, daemon: &str) -> Result<()> {
        let process = self.daemons.remove(daemon);
        process.with_context(|| format!("{daemon} of {} does not run", self.place.name()))?.kill()
    }

    /// Starts a daemon, with its options, after [`Self::kill`], and gives it its configuration.
    ///
    /// # Errors
    /// It does not come up, or does not take it.
    pub fn restart(&mut self, words: &str) -> Result<()> {
        self.run(words)?;
        self.load(&self.configuration)
    }

    /// Adds configuration lines while it runs: `["router ospf", "..."]`.
    ///
    /// # Errors
    /// It does not take them.
    pub fn configure(&self, lines: &[&str]) -> Result<()> {
        let mut command = self.vtysh();
        for line in ["configure terminal"].iter().chain(lines) {
            command.args(["-c", line]);
        }
        run(&mut command).output().map(|_| ())
    }

    /// Runs `vtysh -c WORDS`.
    pub fn ask(&self, words: &str) -> Ended {
        run(self.vtysh().args(["-c", words]))
    }

    /// Waits until the output of `vtysh -c WORDS` contains a text.
    ///
    /// # Errors
    /// It does not within [`LONG_WAIT`]; the error has the last output.
    #[track_caller]
    pub fn says(&self, words: &str, text: &str) -> Result<()> {
        let mut said = String::new();
        let what = format!("`{words}` of FRR of {} to say {text:?}", self.place.name());
        let waited = wait_until(LONG_WAIT, &what, || {
            said = self.ask(words).text;
            Ok(said.contains(text))
        });
        waited.with_context(|| format!("it says: {}", said.trim()))
    }

    /// Gives a configuration to all running daemons; none of its lines may be refused.
    ///
    /// # Errors
    /// One is.
    pub fn load(&self, file: &Path) -> Result<()> {
        let ended = run(self.vtysh().arg("-f").arg(file));
        ensure!(ended.code == Some(0) && !ended.text.contains('%'), "{}:\n{}", ended.command, ended.text);
        Ok(())
    }

    fn vtysh(&self) -> Command {
        self.place.command(&format!("vtysh -N {}", self.place.name()))
    }

    /// Starts a daemon and waits until it answers.
    fn run(&mut self, words: &str) -> Result<()> {
        let daemon = words.split(' ').next().unwrap_or_default();
        let name = self.place.name();
        let folder = Path::new("/run/frr").join(name);
        let socket = folder.join(format!("{daemon}.vty"));
        // What the one before has left, a new one would be asked by.
        let _ = fs::remove_file(&socket);
        // Configurations come by vtysh: an empty file, as they look for one.
        let line = format!(
            "{PROGRAMS}/{daemon} -u root -g root -N {name} -f /dev/null -A 127.0.0.1 -P 0 --log stdout{}",
            &words[daemon.len()..]
        );
        let mut process = Process::start(&mut self.place.command(&line))?;
        let waited = wait_until(LONGEST_WAIT, &format!("{daemon} of {name} to listen"), || {
            if let Some(status) = process.ended()? {
                bail!("`{line}` ended with {status}: {}", process.said().trim());
            }
            Ok(socket.exists() && (daemon != "zebra" || folder.join("zserv.api").exists()))
        });
        waited.with_context(|| format!("it says so far: {}", process.said().trim()))?;
        self.daemons.insert(daemon.to_owned(), process);
        Ok(())
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (daemon, process) in &self.daemons {
                eprintln!("--- {daemon} of {}\n{}---", self.place.name(), process.said());
            }
        }
    }
}

/// FRR wants folders of its own, and its user in a group of its own. Here only root is there: a world in which root is
/// in that group, and in which these folders are ours. Made once in a world.
fn make_a_home() -> Result<()> {
    static MADE: Mutex<bool> = Mutex::new(false);
    let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *made {
        return Ok(());
    }
    for folder in ["/etc/frr", "/var/tmp"] {
        mount("tmpfs", folder, "tmpfs", MountFlags::empty(), None)
            .with_context(|| format!("{folder} of our own cannot be mounted"))?;
    }
    fs::write("/run/group", "root:x:0:\nfrr:x:0:root\nfrrvty:x:0:root\n").context("/run/group cannot be written")?;
    mount_bind("/run/group", "/etc/group").context("an /etc/group of our own cannot be mounted")?;
    fs::create_dir("/run/frr").context("/run/frr cannot be made")?;
    *made = true;
    Ok(())
}
