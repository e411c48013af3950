// SPDX-License-Identifier: MIT
//! A router that is started from a terminal: it has none, and Ctrl-C, signals, exit codes and pipes are as with any
//! other program.

use crate::{PORTS, Pair};
use perigee_tests::{Good, LONGEST_WAIT, Process, Signal, World, perigee, run, wait_for, wait_until};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, kill_process};
use std::fs::{File, read_link, read_to_string};
use std::io::Write;
use std::path::Path;
use std::process::Command;

perigee_tests::scenarios![
    nothing_types_into_the_terminal_that_a_router_was_started_from,
    signals_exit_codes_and_pipes_at_a_terminal_are_as_usual,
];

/// The default fast path.
const SCRIPT: &str = include_str!("../../lua/fastpath.lua");

/// A terminal in which a command runs, and whoever types there.
struct Terminal {
    process: Process,
    keys: File,
}

impl Terminal {
    /// `script` makes the terminal, and ends with the exit code of the command.
    fn start(world: &World, command: &str) -> Terminal {
        ["/run/keys", "/run/typescript"].iter().for_each(|file| drop(std::fs::remove_file(file)));
        run(Command::new("mkfifo").arg("/run/keys")).good();
        let line = format!("exec script -qefc '{command}' /run/typescript < /run/keys");
        let process = world.start(Command::new("sh").args(["-c", &line]).env("SHELL", "/bin/sh"));
        let keys = wait_for("the terminal", || {
            open("/run/keys", OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok().map(File::from)
        });
        let terminal = Terminal { process, keys };
        wait_until("the router to run", || terminal.shows("running;"));
        terminal
    }

    fn shows(&self, text: &str) -> bool {
        read_to_string("/run/typescript").unwrap_or_default().contains(text)
    }

    fn types(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("the terminal is there");
    }

    /// Waits for its end, with this exit code of the command.
    #[track_caller]
    fn ends(mut self, code: i32) {
        let status = self.process.wait(LONGEST_WAIT).good();
        let shown = read_to_string("/run/typescript").unwrap_or_default();
        assert_eq!(status.code(), Some(code), "{shown}");
    }
}

/// The process in front, and the router behind it.
fn front_and_router() -> (Pid, Pid) {
    wait_for("the router behind the process in front", || {
        let folders = std::fs::read_dir("/proc").expect("/proc").flatten();
        folders.into_iter().find_map(|entry| {
            let line = read_to_string(entry.path().join("cmdline")).ok()?;
            let front = line.split('\0').find_map(|word| word.strip_prefix("--behind="))?.parse().ok()?;
            // In our namespaces: another test's routers may run beside.
            let here = read_link("/proc/self/ns/net").ok() == read_link(entry.path().join("ns/net")).ok();
            let router = entry.file_name().to_str()?.parse().ok().filter(|_| here)?;
            Some((Pid::from_raw(front)?, Pid::from_raw(router)?))
        })
    })
}

fn field(process: Pid, index: usize) -> String {
    let text = read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).expect("the process runs");
    let fields = text.rsplit(')').next().expect("fields behind the name");
    fields.split_whitespace().nth(index - 3).expect("a field").to_owned()
}

/// A C module of a worker pushed characters into the terminal, and root's shell ran them when the router had ended.
fn nothing_types_into_the_terminal_that_a_router_was_started_from(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let tries = "local ffi = require 'ffi'
        ffi.cdef 'int ioctl(int, unsigned long, ...);'
        local function type_into_terminals()
          if io.open('/dev/tty') then error('there is a terminal') end
          for fd = 0, 255 do
            for _, request in ipairs { 0x5412, 0x541c, 0x540e } do
              if ffi.C.ioctl(fd, request, ffi.new('char[2]', 'x')) ~= -1 then error('typed into ' .. fd) end
            end
          end
        end
        type_into_terminals()
        return function(worker)
          type_into_terminals()";
    let script = world.file("types.lua", &SCRIPT.replace("return function(worker)", tries));
    let file = world.configuration("", PORTS);
    let mut terminal = Terminal::start(world, &format!("exec {} run {}", perigee().display(), file.display()));
    world.perigee(&["reload", &script.display().to_string(), "--socket", "/run/t.sock"]).good();
    client.reaches("10.0.2.2");
    let (front, router) = front_and_router();
    assert_eq!(field(router, 7), "0", "the router's terminal");
    assert_ne!(field(front, 7), "0", "the terminal of the process in front");
    let own = |folder: String| folder != format!("/proc/{}", front.as_raw_nonzero());
    let behind: Vec<_> = world.processes().into_iter().filter(|folder| own(folder.clone())).collect();
    assert!(behind.len() >= 2, "a router and its helper: {behind:?}");
    for folder in behind {
        for entry in std::fs::read_dir(Path::new(&folder).join("fd")).expect("a process").flatten() {
            let target = read_link(entry.path()).unwrap_or_default();
            let terminals = ["/dev/pts", "/dev/tty", "/dev/console", "/dev/ptmx"];
            assert!(!terminals.iter().any(|start| target.starts_with(start)), "{folder} holds {}", target.display());
        }
    }
    terminal.types(b"\x03");
    terminal.ends(0);
    let shown = read_to_string("/run/typescript").expect("what the terminal showed");
    assert!(shown.contains("every packet buffer is back") && !shown.contains("typed into"), "{shown}");
}

fn signals_exit_codes_and_pipes_at_a_terminal_are_as_usual(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let interfaces = world.interfaces();
    let file = world.configuration("", PORTS);
    let line = format!("exec {} run {}", perigee().display(), file.display());
    // Signals to the process that the shell knows.
    for signal in [Signal::TERM, Signal::INT] {
        let terminal = Terminal::start(world, &line);
        client.reaches("10.0.2.2");
        let (front, router) = front_and_router();
        assert_eq!(field(router, 4), front.as_raw_nonzero().to_string());
        kill_process(front, signal).expect("it runs");
        terminal.ends(0);
        world.nothing_left(&interfaces);
    }
    // `killall perigee`: both get it, and it counts once.
    let terminal = Terminal::start(world, &line);
    let (front, router) = front_and_router();
    for process in [router, front] {
        kill_process(process, Signal::TERM).expect("it runs");
    }
    terminal.ends(0);
    assert!(!read_to_string("/run/typescript").expect("it showed something").contains("by force"));
    world.nothing_left(&interfaces);
    // A router that is killed, as its shell sees it.
    let terminal = Terminal::start(world, &line);
    kill_process(front_and_router().1, Signal::KILL).expect("it runs");
    terminal.ends(137);
    wait_until("the interfaces to be restored", || world.interfaces() == interfaces);
    // One whose process in front is killed ends in order.
    let _ = std::fs::remove_file("/run/t.sock");
    let terminal = Terminal::start(world, &line);
    kill_process(front_and_router().0, Signal::KILL).expect("it runs");
    terminal.ends(137);
    world.nothing_left(&interfaces);
    // A configuration that is refused.
    let refused = format!("exec script -qefc '{} run /nosuch.toml' /run/typescript < /dev/null", perigee().display());
    let mut process = world.start(Command::new("sh").args(["-c", &refused]));
    assert_eq!(process.wait(LONGEST_WAIT).good().code(), Some(1));
    assert!(read_to_string("/run/typescript").expect("it showed something").contains("/nosuch.toml"));
    // Through a pipe, whose end reads to the last line.
    let mut terminal = Terminal::start(world, &format!("{} 2>&1 | tee -i /run/log", line.replace("exec ", "")));
    client.reaches("10.0.2.2");
    terminal.types(b"\x03");
    // The shell between them gets it as well, and has its own way to end.
    terminal.process.wait(LONGEST_WAIT).good();
    wait_until("the last line in the pipe", || {
        read_to_string("/run/log").unwrap_or_default().contains("every packet buffer is back")
    });
    world.nothing_left(&interfaces);
}
