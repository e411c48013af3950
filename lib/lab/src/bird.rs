// SPDX-License-Identifier: MIT
//! BIRD, the routing daemon: next to the router, on its twins, or on a host.

mod configuration;

pub use configuration::{Channel, Configuration, Session};

use crate::process::{Ended, Process, run};
use crate::{LONG_WAIT, Place, wait_until};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// A running BIRD. It ends with its handle, and its routes stay in the kernel, as after a crash, unless it is
/// [`Self::stop`]ped.
pub struct Bird {
    place: Place,
    folder: PathBuf,
    process: Process,
}

/// Routes in one of its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The table: `master4`.
    pub table: String,
    pub routes: u64,
    /// Networks that they lead to.
    pub networks: u64,
}

impl Bird {
    /// Starts it, and waits until it answers. Its files are `NAME-bird.conf`, `.ctl` (its socket) and `.log` in
    /// `folder`, NAME being the place's.
    ///
    /// # Errors
    /// It does not come up.
    pub fn start(place: Place, folder: &Path, configuration: &str) -> Result<Bird> {
        write(&file(folder, &place, "conf"), configuration)?;
        let process = start(&place, folder, "")?;
        let mut bird = Bird { place, folder: folder.to_owned(), process };
        bird.comes_up()?;
        Ok(bird)
    }

    /// Kills it by SIGKILL, like a crash.
    ///
    /// # Errors
    /// It has ended already.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Starts it again after [`Self::kill`], to recover from a graceful restart.
    ///
    /// # Errors
    /// It does not come up.
    pub fn restart(&mut self) -> Result<()> {
        self.process = start(&self.place, &self.folder, " -R")?;
        self.comes_up()
    }

    /// Gives it another configuration while it runs.
    ///
    /// # Errors
    /// It does not accept it.
    pub fn configure(&self, configuration: &str) -> Result<()> {
        write(&file(&self.folder, &self.place, "conf"), configuration)?;
        let said = self.ask("configure").output()?;
        let taken = said.contains("Reconfigured") || said.contains("Reconfiguration in progress");
        ensure!(taken, "BIRD of {} does not take its configuration: {said}", self.place.name());
        Ok(())
    }

    /// Runs `birdc WORDS`.
    pub fn ask(&self, words: &str) -> Ended {
        run(&mut self.place.command(&format!("birdc -s {} {words}", self.socket().display())))
    }

    /// Waits until the output of `birdc WORDS` contains a text.
    ///
    /// # Errors
    /// It does not within [`LONG_WAIT`]; the error has the last output.
    #[track_caller]
    pub fn says(&self, words: &str, text: &str) -> Result<()> {
        let mut said = String::new();
        let what = format!("`birdc {words}` of {} to say {text:?}", self.place.name());
        let waited = wait_until(LONG_WAIT, &what, || {
            said = self.ask(words).text;
            Ok(said.contains(text))
        });
        waited.with_context(|| format!("it says: {}", said.trim()))
    }

    /// How many routes are in each of its tables; an error if it has ended.
    ///
    /// # Errors
    /// It has ended, or does not answer.
    pub fn counts(&mut self) -> Result<Vec<Count>> {
        self.process.running()?;
        Ok(counts(&self.ask("show route count").output()?))
    }

    /// Stops it cleanly: it removes its routes from the kernel.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(mut self) -> Result<()> {
        self.ask("down");
        self.process.wait(LONG_WAIT).map(|_| ())
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// The socket for `birdc`.
    pub fn socket(&self) -> PathBuf {
        file(&self.folder, &self.place, "ctl")
    }

    fn comes_up(&mut self) -> Result<()> {
        let what = format!("BIRD of {} to answer", self.place.name());
        let socket = self.socket();
        let waited = wait_until(LONG_WAIT, &what, || {
            if let Some(status) = self.process.ended()? {
                bail!("`{}` ended with {status}: {}", self.process.command(), self.process.stderr().trim());
            }
            Ok(socket.exists() && self.ask("show status").text.contains("Daemon is up"))
        });
        waited.with_context(|| format!("it has logged so far: {}", self.process.stderr().trim()))
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (protocols, log) = (self.ask("show protocols all").text, self.process.stderr());
            eprintln!("--- BIRD of {}\n{protocols}\n{log}---", self.place.name());
        }
    }
}

fn file(folder: &Path, place: &Place, kind: &str) -> PathBuf {
    folder.join(format!("{}-bird.{kind}", place.name()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn start(place: &Place, folder: &Path, options: &str) -> Result<Process> {
    let path = |kind| file(folder, place, kind);
    // What the one before has left, a new one would be asked by.
    let _ = fs::remove_file(path("ctl"));
    let words = format!("bird -f -c {} -s {}{options}", path("conf").display(), path("ctl").display());
    Process::logging(&mut place.command(&words), &path("log"))
}

/// The lines `10 of 12 routes for 10 networks in table master4`.
fn counts(text: &str) -> Vec<Count> {
    let count = |line: &str| {
        let (numbers, table) = line.split_once(" networks in table ")?;
        let (routes, networks) = numbers.split_once(" routes for ")?;
        let routes = routes.split_once(" of ")?.0;
        Some(Count { table: table.to_owned(), routes: routes.parse().ok()?, networks: networks.parse().ok()? })
    };
    text.lines().filter_map(|line| count(line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_counted_by_table() {
        let text = "BIRD 2.0.12 ready.\n901899 of 901900 routes for 901890 networks in table master4\n\
                    12 of 12 routes for 12 networks in table master6\nTotal: 901911 of 901912 routes for 901902 networks in 2 tables\n";
        let count = |table: &str, routes, networks| Count { table: table.to_owned(), routes, networks };
        assert_eq!(counts(text), [count("master4", 901_899, 901_890), count("master6", 12, 12)]);
        assert_eq!(counts("No such file"), []);
    }
}
