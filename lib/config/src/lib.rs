// SPDX-License-Identifier: MIT
//! The configuration: TOML in, checked values out, or every mistake with file, line, column and what was expected.
//!
//! | file | what it declares and reads |
//! | --- | --- |
//! | `router.rs`, `workers.rs`, `fib.rs` | `[router]`, `[[worker]]`, what `fib` chooses from |
//! | `eal.rs` | `[eal]` |
//! | `linux.rs` | `[linux]` |
//! | `policer.rs` | `[policer]` |
//! | `stack.rs` | what `stack = "linux"` leaves to Linux |
//! | `ports.rs`, `interfaces.rs` | `[port.NAME]`; `[port.NAME.vlan.ID]` and the addresses of both |
//! | `routes.rs`, `neighbors.rs`, `networks.rs` | `[[route]]`, `[[neighbor]]`; which interface an address is on |
//! | `multicast.rs` | `[[multicast]]`; what of multicast may pass an interface |
//! | `files.rs` | the files that a configuration names |
//! | `routes_file.rs` | `PREFIX via ADDRESS dev PORT`, a million lines of it |
//! | `filters.rs`, `steers.rs`, `tuples.rs` | `[[filter]]`, `[[steer]]`, and the packets both are about |
//!
//! Each declares its keys by `section::section!`, with a kind of value from `kind.rs`. `reader.rs` walks the TOML
//! tree, `given.rs` is a value of it, `mistake.rs` collects what does not fit. `model.rs` is the whole, and `tables.rs`
//! turns it into tables again, for `print.rs` (`perigee show config`) and `reload.rs` (what needs a restart).
//! `document.rs` writes docs/configuration.md.

#![forbid(unsafe_code)]

mod document;
mod eal;
mod fib;
mod files;
mod filters;
mod given;
mod interfaces;
mod kind;
mod linux;
mod machine;
mod mistake;
mod model;
mod multicast;
mod neighbors;
mod networks;
mod once;
mod policer;
mod ports;
mod print;
mod reader;
mod reload;
mod router;
mod routes;
mod routes_file;
mod section;
mod stack;
mod steers;
mod tables;
mod tuples;
mod values;
mod workers;

use std::io;
use std::path::Path;

use toml::de::DeTable;

pub use document::{Key, documentation, keys};
pub use eal::{Eal, Hugepages};
pub use fib::{AUTO, FibChoice, FibNames};
pub use files::files_named;
pub use filters::{Action, Filter, FilteredFrom};
pub use interfaces::Interface;
pub use linux::{Feed, FpmAddress, FpmGuest, Linux, UnknownRoutes, table_name};
pub use machine::Machine;
pub use mistake::{ConfigError, Mistake};
pub use model::Config;
pub use neighbors::Neighbor;
pub use policer::Policer;
pub use ports::{Device, LinuxDriver, Plane, Port};
pub use router::{HelperDeath, Idle, OverBudget, Router, Stack, default_socket};
pub use routes_file::parse_routes;
pub use section::Reload;
pub use stack::MOST_FILTERS;
pub use steers::{Steer, SteerMatch};
pub use workers::Worker;

use mistake::{Mistakes, Places};
use reader::Section;
use routes_file::FileKeys;
use section::Context;
use workers::NamedWorker;

/// Reads a file of no more than this many bytes.
pub type ReadFile = dyn Fn(&Path, u64) -> io::Result<Vec<u8>>;

impl Config {
    /// Reads and checks the file at `path` and the routes file it names.
    ///
    /// # Errors
    /// Every mistake of the file, or, if it has none, those of its routes file; or that one could not be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::load_on(path, &Machine::here())
    }

    /// Like [`Config::load`], on a machine that the caller describes.
    ///
    /// # Errors
    /// Like [`Config::load`].
    pub fn load_on(path: impl AsRef<Path>, machine: &Machine) -> Result<Self, ConfigError> {
        Self::load_by(path, machine, &perigee_file::read)
    }

    /// Like [`Config::load_on`], where the caller reads the files, up to a number of bytes: somebody else may have to
    /// open them.
    ///
    /// # Errors
    /// Like [`Config::load`].
    pub fn load_by(path: impl AsRef<Path>, machine: &Machine, read: &ReadFile) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = read_text(path, perigee_file::LONGEST_TEXT, read)?;
        let mut config = Self::parse_on(&name, &text, machine)?;
        if let Some(file) = &config.routes_file {
            let lines = read_text(file, perigee_file::LONGEST, read).map_err(|error| match error {
                ConfigError::Unreadable(why) => match config.places.routes_file.clone() {
                    Some(place) => ConfigError::Mistakes(vec![place.says(why)]),
                    None => ConfigError::Unreadable(why),
                },
                mistakes => mistakes,
            })?;
            config.file_routes = parse_routes(&file.display().to_string(), &lines, &config.interfaces)?;
        }
        Ok(config)
    }

    /// Checks `text` against this machine. Relative paths in it start at the folder of `name`; a routes file is
    /// named but not read.
    ///
    /// # Errors
    /// Every mistake, in the order of the text.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        Self::parse_on(name, text, &Machine::here())
    }

    /// Like [`Config::parse`], for another machine than this.
    ///
    /// # Errors
    /// Every mistake, in the order of the text.
    pub fn parse_on(name: &str, text: &str, machine: &Machine) -> Result<Self, ConfigError> {
        let mistakes = Mistakes::new(name, text);
        let (tree, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let span = error.span().unwrap_or(text.len()..text.len());
            mistakes.add(&span, format!("found what is not TOML: {}", error.message()));
        }
        let config = if errors.is_empty() {
            let root = Section::new("the file", tree.get_ref(), 0..0, &mistakes);
            Some(read_config(root, folder_of(name), machine))
        } else {
            // A tree that the parser has repaired would only yield mistakes that nobody made.
            None
        };
        let (mistakes, warnings) = mistakes.into_parts();
        match config {
            Some(config) if mistakes.is_empty() => Ok(Config { warnings, ..config }),
            _ => Err(ConfigError::Mistakes(mistakes)),
        }
    }
}

fn read_config(mut root: Section, folder: &Path, machine: &Machine) -> Config {
    let mistakes = root.mistakes();
    let context = Context { folder, machine, ..Context::bare() };
    let (router, workers, script) = read_router(&mut root, &context);
    let routes_file = root.place("routes_file").map(|span| mistakes.place(&span));
    let places = Places { script, routes_file };
    let context = Context { name: &router.name, ..context };
    let eal = read_table(&mut root, "eal", |s| Eal::read(s, &context));
    let linux = read_table(&mut root, "linux", |s| Linux::read(s, &context));
    let policer = read_table(&mut root, "policer", |s| Policer::read(s, &context));
    let context = Context { policer: Some(&policer), ..context };
    let before = mistakes.count();
    let (ports, interfaces) = ports::read_ports(&mut root, &context, &router);
    // If an interface is missing, "via an address on no interface" would blame the wrong line.
    let sure = mistakes.count() == before;
    let workers = workers::find_ports(workers, &ports, sure, &root);
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let context = Context { ports: &names, sure, ..context };
    let networks = networks::Networks::new(&interfaces, sure);
    let routes = routes::read_routes(&mut root, &context, &networks);
    let neighbors = neighbors::read_neighbors(&mut root, &context, &networks);
    let multicast = multicast::read_multicast(&mut root, &context, &networks);
    let filters = filters::read_filters(&mut root, &context);
    let steers = steers::read_steers(&mut root, &context);
    let FileKeys { routes_file } = FileKeys::read(&mut root, &context);
    stack::check_file(&router, &linux, &filters, &root);
    root.finish();
    Config {
        router,
        eal,
        linux,
        policer,
        workers,
        routes,
        file_routes: Vec::new(),
        routes_file,
        neighbors,
        multicast,
        filters,
        steers,
        ports,
        interfaces,
        warnings: Vec::new(),
        places,
    }
}

/// The table `[key]`, whether it is there or not.
pub(crate) fn read_table<T>(root: &mut Section, key: &'static str, read: impl FnOnce(&mut Section) -> T) -> T {
    let mut section = root.table(key);
    let value = read(&mut section);
    section.finish();
    value
}

/// `[router]`, in which the workers may be named, and where it names a script. The command line takes precedence for
/// the lookup structures.
fn read_router(root: &mut Section, context: &Context) -> (Router, Vec<NamedWorker>, Option<Mistake>) {
    let mut section = root.table("router");
    let mut router = Router::read(&mut section, context);
    if let Some(choice) = &context.machine.fib_override {
        router.fib = choice.clone();
    }
    let workers = workers::read_workers(root, &mut section, context);
    stack::check_router(&mut router, &section);
    let script = section.place("script").map(|span| section.mistakes().place(&span));
    section.finish();
    (router, workers, script)
}

fn folder_of(name: &str) -> &Path {
    Path::new(name).parent().unwrap_or(Path::new(""))
}

/// The file as text. A byte that is not UTF-8 is a mistake with a place like any other.
fn read_text(path: &Path, longest: u64, read: &ReadFile) -> Result<String, ConfigError> {
    let name = path.display();
    let bytes = read(path, longest).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "user {}, as whom this runs, must be able to read it and to enter the folders that it is in",
                rustix::process::geteuid().as_raw()
            ),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => "is the path right?".to_owned(),
            _ => return ConfigError::Unreadable(format!("cannot read {name}: {error}")),
        };
        ConfigError::Unreadable(format!("cannot read {name}: {error}; {advice}"))
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[valid];
        let text = String::from_utf8_lossy(error.as_bytes());
        let mistakes = Mistakes::new(&name.to_string(), &text);
        mistakes.add(&(valid..valid), format!("found the byte 0x{byte:02x}, expected UTF-8 text"));
        ConfigError::Mistakes(mistakes.into_parts().0)
    })
}
