// SPDX-License-Identifier: MIT
//! `./x` on machines that are not as they should be: it continues, or says in a sentence what to do. Programs that
//! would change this machine (apt-get, sudo, cargo) are scripts of the test's here, which stand first in PATH.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A tree with `x`, and programs that stand in for others.
struct Tree {
    folder: tempfile::TempDir,
}

/// How `x` ended.
struct Ended {
    code: Option<i32>,
    text: String,
}

impl Ended {
    #[track_caller]
    fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.text);
        self.text
    }

    /// It failed and said this.
    #[track_caller]
    fn refused(self, words: &str) -> String {
        assert_eq!(self.code, Some(1), "{}", self.text);
        assert!(self.text.contains(words), "{words:?} is not in\n{}", self.text);
        self.text
    }
}

impl Tree {
    /// In a folder with a blank in its name. All packages are there, and a cargo that is new enough.
    fn new() -> Tree {
        let folder = tempfile::Builder::new().prefix("perigee x ").tempdir().expect("a folder");
        let tree = Tree { folder };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in ["programs", "home/.cargo/bin"] {
            fs::create_dir_all(tree.path(name)).expect("a folder");
        }
        for name in ["x", "Cargo.toml"] {
            fs::copy(root.join(name), tree.path(name)).expect(name);
        }
        tree.program("dpkg-query", "shift 3; printf 'installed %s\\n' \"$@\"");
        tree.program("cargo", "echo 'cargo 1.99.0 (0000000 2026-01-01)'");
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a program for `x` to find.
    fn program(&self, name: &str, script: &str) {
        self.file(&format!("programs/{name}"), script);
    }

    fn file(&self, name: &str, script: &str) {
        fs::write(self.path(name), format!("#!/bin/bash\n{script}\n")).expect("a program");
        fs::set_permissions(self.path(name), Permissions::from_mode(0o755)).expect("its mode");
    }

    /// Only these programs of the machine are found.
    fn only(&self, names: &[&str]) {
        let find = |name: &&&str| {
            ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|p| p.exists())
        };
        for name in names {
            symlink(find(&name).expect(name), self.path("programs").join(name)).expect("a link");
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("/bin/bash");
        command.arg(self.path("x")).args(words).env_clear().current_dir("/");
        command
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("programs").display()))
            .env("HOME", self.path("home"));
        command
    }

    fn x(&self, words: &[&str]) -> Ended {
        ended(&mut self.command(words))
    }
}

fn ended(command: &mut Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().expect("bash");
    Ended {
        code: status.code(),
        text: [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat(),
    }
}

/// Everything that `./x install` runs besides packages and cargo.
const PROGRAMS: &[&str] = &[
    "bash", "cat", "cut", "dirname", "getent", "grep", "head", "mktemp", "realpath", "rm", "sed", "sleep", "sort",
    "xargs",
];

/// One package is missing, and the user is `id`.
fn one_missing(id: u32) -> Tree {
    let tree = Tree::new();
    tree.program("dpkg-query", "shift 3; for name; do [ $name = ethtool ] || printf 'installed %s\\n' $name; done");
    tree.program("id", &format!("echo {id}"));
    tree
}

#[test]
fn nothing_is_said_where_nothing_is_missing() {
    assert_eq!(Tree::new().x(&["install"]).good(), "");
}

/// "E: Could not get lock /var/lib/apt/lists/lock": the whole run failed.
#[test]
fn another_apt_is_waited_for() {
    let tree = one_missing(0);
    let (tried, installed) = (tree.path("tried"), tree.path("installed"));
    let apt = format!(
        "[ \"$2\" != update ] || [ -e {tried:?} ] || {{ touch {tried:?}; echo 'E: Could not get lock X' >&2; exit 100; }}
        [ \"$2\" = update ] || echo \"$@\" >{installed:?}"
    );
    tree.program("apt-get", &apt);
    let text = tree.x(&["install"]).good();
    assert_eq!(text.matches("waiting for it").count(), 1, "{text}");
    let words = fs::read_to_string(installed).expect("it was installed");
    assert!(words.contains("-o DPkg::Lock::Timeout=") && words.trim_end().ends_with(" ethtool"), "{words}");
}

#[test]
fn packages_that_do_not_come_are_named() {
    let tree = one_missing(0);
    tree.program("apt-get", "[ \"$2\" = update ] || { echo 'E: Unable to locate package' >&2; exit 100; }");
    tree.x(&["install"]).refused("They come over the network. As root, run: apt-get install ethtool");
    tree.program("apt-get", "echo 'E: The list of sources could not be read.' >&2; exit 100");
    tree.x(&["install"]).refused("the packages were not installed; the reason is above");
}

#[test]
fn without_sudo_roots_command_is_said() {
    let tree = one_missing(1000);
    tree.only(PROGRAMS);
    let mut command = tree.command(&["install"]);
    let text = ended(command.env("PATH", tree.path("programs")))
        .refused("there is no sudo; as root, run: apt-get install ethtool");
    assert!(!text.contains("command not found"), "{text}");
    // One that needs a password, and has no terminal to ask for it.
    tree.program("sudo", "echo 'sudo: a terminal is required to read the password' >&2; exit 1");
    ended(&mut command).refused("As root, run: apt-get install ethtool");
}

/// Debian's cargo is older than what perigee needs, and stood before rustup's.
#[test]
fn rustups_cargo_is_taken_where_the_first_one_is_too_old() {
    let tree = Tree::new();
    tree.program("cargo", "echo 'cargo 1.63.0'");
    tree.x(&["install"]).refused("or newer, and here is 1.63.0.");
    tree.file("home/.cargo/bin/cargo", "echo 'cargo 1.99.0 (0000000 2026-01-01)'");
    assert_eq!(tree.x(&["install"]).good(), "");
    let mut both = tree.command(&["install"]);
    let path = ["programs", "home/.cargo/bin"].map(|name| tree.path(name).display().to_string()).join(":");
    assert_eq!(ended(both.env("PATH", path + ":/usr/bin:/bin")).good(), "");
    tree.program("cargo", "exit 1");
    tree.file("home/.cargo/bin/cargo", "exit 1");
    tree.x(&["install"]).refused("here is no cargo.");
}

/// `HOME: unbound variable`, from cron and in containers.
#[test]
fn an_empty_environment_is_enough() {
    let tree = Tree::new();
    assert_eq!(ended(tree.command(&["install"]).env_remove("HOME")).good(), "");
    assert!(ended(tree.command(&["help"]).env_clear()).good().contains("./x demo"));
}

#[test]
fn a_folder_that_cannot_be_built_in_is_named_with_the_way_out() {
    let tree = Tree::new();
    fs::write(tree.path("target"), "no folder").expect("a file");
    tree.x(&["build"]).refused("target/release cannot be written to: CARGO_TARGET_DIR=FOLDER ./x ...");
    // Any other folder will do, one with a blank in its name as well.
    let elsewhere = tree.path("another place");
    tree.program("cargo", "[ \"$1\" != --version ] || echo 'cargo 1.99.0'; echo \"$CARGO_TARGET_DIR\"");
    let text = ended(tree.command(&["build"]).env("CARGO_TARGET_DIR", &elsewhere)).good();
    assert!(text.contains(&elsewhere.join("release/perigee").display().to_string()), "{text}");
}

#[test]
fn crates_that_cannot_be_downloaded_are_explained() {
    let tree = Tree::new();
    let cargo = |fails: &str| format!("case $1 in --version) echo 'cargo 1.99.0' ;; *) {fails}; exit 101 ;; esac");
    tree.program("cargo", &cargo("echo 'error: could not compile'"));
    let text = tree.x(&["build"]).refused("could not compile");
    assert!(!text.contains("network"), "{text}");
    tree.program("cargo", &cargo("echo 'attempting to make an HTTP request, but --offline was specified'"));
    tree.x(&["build"]).refused("the first build needs the network");
}
