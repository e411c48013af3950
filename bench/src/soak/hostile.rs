// SPDX-License-Identifier: MIT
//! Scripts that do not return, throw or cannot be read. The router refuses each or returns to the last good one.

use anyhow::{Context as _, Result, ensure};
use perigee_lab::{Router, World, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the router says of a script.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    /// It runs, until another one is loaded.
    Taken,
    /// `perigee reload` fails with this in its message.
    Refused(&'static str),
}

use Verdict::{Refused, Taken};

const NEVER: Verdict = Refused("did not return");

/// A finalizer that does not return.
const FINALIZER: &str = "local p = newproxy(true) getmetatable(p).__gc = function() while true do end end keep = p\n";
/// Where the default fast path stands in a script's text, and the folder of the C module.
const FAST_PATH: &str = "FAST_PATH";
const FOLDER: &str = "FOLDER";

/// Scripts, and what becomes of them.
const SCRIPTS: [(&str, Verdict); 12] = [
    ("return function() while true do end end", NEVER),
    ("jit.off() return function() while true do end end", NEVER),
    ("return function() coroutine.wrap(function() while true do end end)() end", NEVER),
    ("return function() while true do pcall(function() while true do error('again') end end) end end", NEVER),
    ("return function(w) local burst = w:batch() while true do w:receive(1, burst) end end", NEVER),
    ("while true do end", Refused("")),
    ("return function() error('no') end", Refused(": no")),
    ("return function() os.exit(3) end", Refused("os.exit")),
    ("return 7", Refused("expected a function")),
    ("FINALIZER FAST_PATH", Taken),
    (
        "local ffi = require 'ffi' ffi.cdef 'void loops(void);' local lib = ffi.load('FOLDER/hostile.so')\n\
      return function() lib.loops() end",
        NEVER,
    ),
    (
        "local ffi = require 'ffi' ffi.cdef 'void sleeps(void);' local lib = ffi.load('FOLDER/hostile.so')\n\
      return function() lib.sleeps() end",
        NEVER,
    ),
];

/// The C module.
const MODULE: &str = "#include <unistd.h>\n\
    void loops(void) { for (volatile long n = 0;; n++) ; }\n\
    void sleeps(void) { for (;;) sleep(1000); }\n";

/// The scripts as files, and a FIFO without a writer.
pub struct Hostile {
    files: Vec<(PathBuf, Verdict)>,
    next: usize,
    stopped: u64,
}

impl Hostile {
    /// Writes the scripts and builds the module; `fast_path` is the default script.
    pub fn write(world: &World, fast_path: &str) -> Result<Hostile> {
        let folder = world.folder();
        let source = world.file("hostile.c", MODULE)?;
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut command = Command::new(compiler);
        run(command.args(["-O1", "-shared", "-fPIC", "-o"]).arg(folder.join("hostile.so")).arg(source)).output()?;
        let mut files = Vec::new();
        for (number, (text, verdict)) in SCRIPTS.into_iter().enumerate() {
            let text = text.replace("FINALIZER ", FINALIZER).replace(FAST_PATH, fast_path);
            let text = text.replace(FOLDER, &folder.display().to_string());
            files.push((world.file(&format!("hostile{number}.lua"), &text)?, verdict));
        }
        let fifo = folder.join("fifo.lua");
        run(Command::new("mkfifo").arg(&fifo)).output()?;
        files.push((fifo, Refused("regular file")));
        Ok(Hostile { files, next: 0, stopped: 0 })
    }

    /// Loads the next one, and the good script after it.
    pub fn load_next(&mut self, router: &Router, good: &Path) -> Result<()> {
        let (file, verdict) = &self.files[self.next % self.files.len()];
        self.next += 1;
        let answer = router.ask(&format!("reload {}", file.display()));
        let refused = answer.code != Some(0);
        let expected = match verdict {
            Taken => !refused,
            Refused(words) => refused && answer.text.contains(words),
        };
        ensure!(expected, "{}: expected {verdict:?}, but: {}", file.display(), answer.text);
        // One with a finalizer is stopped when the good one takes its place.
        self.stopped += u64::from(matches!(verdict, Taken) || answer.text.contains("did not return"));
        let again = router.ask(&format!("reload {}", good.display())).output();
        again.map(drop).with_context(|| format!("after {}", file.display()))
    }

    /// How many scripts were stopped where they stood. Their VMs stay in memory.
    pub fn stopped(&self) -> u64 {
        self.stopped
    }
}
