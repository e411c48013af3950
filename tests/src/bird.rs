// SPDX-License-Identifier: MIT
//! BIRD, the routing daemon: beside the router, on its twins, or on a host.

use crate::place::Place;
use crate::process::{Ended, Process, run};
use crate::{LONG_WAIT, wait_until, wait_until_for};
use std::fs;
use std::path::{Path, PathBuf};

/// A running BIRD. It ends with its handle, and its routes stay in the kernel, as after a crash, unless it is [`Self::stop`]ped.
pub struct Bird {
    place: Place,
    name: String,
    process: Process,
    starts: usize,
}

impl Bird {
    pub(crate) fn start(place: Place, name: &str, configuration: &str) -> Bird {
        fs::write(file(name), configuration).expect("BIRD's configuration");
        let process = start(&place, name, "", 1);
        let bird = Bird { place, name: name.to_owned(), process, starts: 1 };
        bird.is_up();
        bird
    }

    /// Ends it without giving it a chance, as a crash does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after [`Self::kill`], to recover from a graceful restart.
    pub fn restart(&mut self) {
        self.starts += 1;
        self.process = start(&self.place, &self.name, " -R", self.starts);
        self.is_up();
    }

    /// Another configuration, while it runs.
    pub fn configure(&self, configuration: &str) {
        fs::write(file(&self.name), configuration).expect("BIRD's configuration");
        let said = self.ask("configure").good().out;
        assert!(said.contains("Reconfigured") || said.contains("Reconfiguration in progress"), "{said}");
    }

    /// What `birdc WORDS` says.
    pub fn ask(&self, words: &str) -> Ended {
        run(&mut self.place.command(&format!("birdc -s {} {words}", socket(&self.name).display())))
    }

    /// Waits until `birdc WORDS` says a text.
    pub fn says(&self, words: &str, text: &str) {
        let mut said = String::new();
        let what = format!("`birdc {words}` of {} to say {text:?}", self.name);
        wait_until_for(LONG_WAIT, &what, || {
            said = self.ask(words).text;
            said.contains(text)
        });
    }

    /// How many networks are in a table: `master4`.
    pub fn networks(&self, table: &str) -> usize {
        // "10000 of 10000 routes for 10000 networks in table master4"
        let said = self.ask(&format!("show route table {table} count")).good().out;
        let number = |text: &str| text.split(" networks").next()?.rsplit(' ').next()?.parse().ok();
        number(&said).unwrap_or_else(|| panic!("no number of networks in:\n{said}"))
    }

    /// Ends it in peace: it takes its routes out of the kernel.
    pub fn stop(mut self) {
        self.ask("down");
        wait_until("the end of BIRD", || self.process.ended().is_some());
    }

    fn is_up(&self) {
        wait_until(&format!("BIRD of {} to answer:\n{}", self.name, self.process.stderr()), || {
            self.ask("show status").text.contains("Daemon is up")
        });
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (protocols, log) = (self.ask("show protocols all").text, self.process.stderr());
            eprintln!("--- BIRD of {}\n{protocols}\n{log}---", self.name);
        }
    }
}

fn file(name: &str) -> PathBuf {
    Path::new("/run").join(format!("bird-{name}.conf"))
}

fn socket(name: &str) -> PathBuf {
    Path::new("/run").join(format!("bird-{name}.ctl"))
}

fn start(place: &Place, name: &str, options: &str, number: usize) -> Process {
    let (file, socket) = (file(name), socket(name));
    // What the one before has left, a new one would be asked by.
    let _ = fs::remove_file(&socket);
    let words = format!("bird -f -c {} -s {}{options}", file.display(), socket.display());
    Process::start(&format!("bird-{name}-{number}"), &mut place.command(&words))
}
