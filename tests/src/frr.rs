// SPDX-License-Identifier: MIT
//! FRR, the routing daemons: beside the router, on its twins, or on a host.

use crate::place::Place;
use crate::process::{Ended, Process, run};
use crate::{LONG_WAIT, wait_until, wait_until_for};
use nix::mount::{MsFlags, mount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Where Debian puts the daemons.
const PROGRAMS: &str = "/usr/lib/frr";

/// Some daemons of FRR, as one instance. They end with their handle.
pub struct Frr {
    place: Place,
    name: String,
    configuration: PathBuf,
    daemons: BTreeMap<String, Process>,
    starts: usize,
}

impl Frr {
    /// `daemons` in the order of their start, each with its options: `"zebra -K 60"`.
    pub(crate) fn start(place: Place, name: &str, daemons: &[&str], configuration: &str) -> Frr {
        make_a_home();
        fs::create_dir(Path::new("/etc/frr").join(name)).expect("a folder in our /etc/frr");
        fs::write(Path::new("/etc/frr").join(name).join("vtysh.conf"), "").expect("vtysh.conf");
        let file = Path::new("/run").join(format!("frr-{name}.conf"));
        fs::write(&file, configuration).expect("FRR's configuration");
        let (name, daemons_of) = (name.to_owned(), BTreeMap::new());
        let mut frr = Frr { place, name, configuration: file, daemons: daemons_of, starts: 0 };
        for words in daemons {
            frr.run(words);
        }
        frr.load(&frr.configuration);
        frr
    }

    /// Ends a daemon without giving it a chance, as a crash does.
    pub fn kill(&mut self, daemon: &str) {
        let mut process = self.daemons.remove(daemon).expect("it runs");
        process.kill();
    }

    /// Starts a daemon, with its options, after [`Self::kill`], and gives it its configuration.
    pub fn restart(&mut self, words: &str) {
        self.run(words);
        self.load(&self.configuration);
    }

    /// Another configuration line, or several, while it runs: `["router ospf", "..."]`.
    pub fn configure(&self, lines: &[&str]) {
        let mut command = self.vtysh();
        for line in ["configure terminal"].iter().chain(lines) {
            command.args(["-c", line]);
        }
        run(&mut command).good();
    }

    /// What `vtysh -c WORDS` says.
    pub fn ask(&self, words: &str) -> Ended {
        run(self.vtysh().args(["-c", words]))
    }

    /// The same as JSON; null if it is none, as before a protocol has begun.
    pub fn show(&self, words: &str) -> Value {
        serde_json::from_str(&self.ask(&format!("show {words} json")).out).unwrap_or_default()
    }

    /// Waits until `vtysh -c WORDS` says a text.
    pub fn says(&self, words: &str, text: &str) {
        let what = format!("`{words}` of {} to say {text:?}", self.name);
        wait_until_for(LONG_WAIT, &what, || self.ask(words).text.contains(text));
    }

    fn vtysh(&self) -> std::process::Command {
        self.place.command(&format!("vtysh -N {}", self.name))
    }

    /// Starts a daemon and waits until it can be asked.
    fn run(&mut self, words: &str) {
        let daemon = words.split(' ').next().unwrap_or_default();
        let folder = Path::new("/run/frr").join(&self.name);
        let socket = folder.join(format!("{daemon}.vty"));
        // What the one before has left, a new one would be asked by.
        let _ = fs::remove_file(&socket);
        self.starts += 1;
        // Configurations come by vtysh: an empty file, as they look for one.
        let line = format!(
            "{PROGRAMS}/{daemon} -u root -g root -N {} -f /dev/null -A 127.0.0.1 -P 0 --log stdout{}",
            self.name,
            &words[daemon.len()..]
        );
        let name = format!("{daemon}-{}-{}", self.name, self.starts);
        let mut process = Process::start(&name, &mut self.place.command(&line));
        wait_until(&format!("{daemon} of {} to listen", self.name), || {
            let ended = process.ended();
            assert!(ended.is_none(), "{line}: {ended:?}:\n{}", process.said());
            socket.exists() && (daemon != "zebra" || folder.join("zserv.api").exists())
        });
        self.daemons.insert(daemon.to_owned(), process);
    }

    /// Gives a configuration to all daemons that run; none of its lines may be refused.
    pub fn load(&self, file: &Path) {
        let ended = run(self.vtysh().arg("-f").arg(file)).good();
        assert!(!ended.text.contains('%'), "{}:\n{}", ended.command, ended.text);
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (daemon, process) in &self.daemons {
                eprintln!("--- {daemon} of {}\n{}---", self.name, process.said());
            }
        }
    }
}

/// FRR wants folders of its own, and its user in a group of its own. Here only root is there: a world in which root is in that
/// group, and in which these folders are ours.
fn make_a_home() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let none: Option<&str> = None;
        for folder in ["/etc/frr", "/var/tmp"] {
            mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), none)
                .unwrap_or_else(|error| panic!("{folder} of our own: {error}"));
        }
        fs::write("/run/group", "root:x:0:\nfrr:x:0:root\nfrrvty:x:0:root\n").expect("a file");
        mount(Some("/run/group"), "/etc/group", none, MsFlags::MS_BIND, none).expect("our own /etc/group");
        fs::create_dir("/run/frr").expect("/run/frr");
    });
}
