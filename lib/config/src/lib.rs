// SPDX-License-Identifier: MIT
//! The configuration: TOML in, checked values out, or every mistake with file, line, column and what was expected.
//!
//! | file | what it reads |
//! | --- | --- |
//! | `router.rs` | `[router]`, `[eal]`, the workers |
//! | `linux.rs` | `[linux]` |
//! | `ports.rs` | `[port.NAME]` and `[port.NAME.vlan.ID]` |
//! | `routing.rs` | `[[route]]`, `[[neighbor]]`, and whether an address is on an interface |
//! | `routes_file.rs` | `PREFIX via ADDRESS dev PORT`, a million lines of it |
//! | `filters.rs` | `[[filter]]`, `[[steer]]` |
//! | `print.rs` | the way back, for `perigee show config` |
//!
//! `reader.rs` walks the TOML tree and `mistake.rs` collects what does not fit; `values.rs` and `model.rs` are what
//! comes out.

#![forbid(unsafe_code)]

mod filters;
mod linux;
mod mistake;
mod model;
mod ports;
mod print;
mod reader;
mod router;
mod routes_file;
mod routing;
mod values;

use std::path::{Path, PathBuf};

use toml::de::DeTable;

pub use linux::{Feed, Linux, protocol_name, table_name};
pub use mistake::{ConfigError, Mistake};
pub use model::*;
pub use router::default_socket;
pub use routes_file::parse_routes;

use mistake::Mistakes;
use reader::Section;

/// The machine a configuration is checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The cores that exist and are on line, ascending.
    pub cores: Vec<u16>,
    /// The lookup structures that this program has.
    pub fib: FibNames,
    /// Those to use whatever the configuration says.
    pub fib_override: Option<FibChoice>,
}

impl Machine {
    /// This one, from `/sys`; where that is hidden, as many cores as this process may use.
    pub fn here() -> Self {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
        let cores = online.ok().and_then(|text| core_list(text.trim()));
        let usable = || {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            (0..count as u16).collect()
        };
        Self { cores: cores.unwrap_or_else(usable), ..Self::default() }
    }
}

/// A list as `/sys` writes it: `0-3,6`.
fn core_list(text: &str) -> Option<Vec<u16>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        cores.extend(first..=last);
    }
    Some(cores)
}

impl Config {
    /// Reads and checks the file at `path` and the routes file it names.
    ///
    /// # Errors
    /// Every mistake of the file, or, if it has none, those of its routes file; or that one could not be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        Self::load_on(path, &Machine::here())
    }

    /// Like [`Config::load`], for this machine with what the caller knows of it.
    ///
    /// # Errors
    /// The same.
    pub fn load_on(path: impl AsRef<Path>, machine: &Machine) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = read_text(path)?;
        let mut config = Self::parse_on(&name, &text, machine)?;
        if let Some(file) = &config.routes_file {
            let lines = read_text(file)?;
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
            // A tree mended by the parser would only yield mistakes that nobody made.
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
    let (router, workers) = router::read_router(&mut root, folder, machine);
    let eal = router::read_eal(&mut root, &router.name);
    let linux = linux::read_linux(&mut root);
    let before = mistakes.count();
    let (ports, interfaces) = ports::read_ports(&mut root, folder, &router);
    // With an interface missing, "via an address on no interface" would blame the wrong line.
    let sure = mistakes.count() == before;
    let networks = routing::Networks::new(&interfaces, sure);
    let routes = routing::read_routes(&mut root, &networks);
    let neighbors = routing::read_neighbors(&mut root, &networks);
    let filters = filters::read_filters(&mut root);
    let steers = filters::read_steers(&mut root, &ports, sure);
    let routes_file = root.text("routes_file", "the path of a file with routes", router::a_path(folder));
    root.finish();
    Config {
        router,
        eal,
        linux,
        workers,
        routes,
        file_routes: Vec::new(),
        routes_file: routes_file.map(|path| path.value),
        neighbors,
        filters,
        steers,
        ports,
        interfaces,
        warnings: Vec::new(),
    }
}

fn folder_of(name: &str) -> &Path {
    Path::new(name).parent().unwrap_or(Path::new(""))
}

/// The file as text. A byte that is not UTF-8 is a mistake with a place like any other.
fn read_text(path: &Path) -> Result<String, ConfigError> {
    let name = path.display();
    let bytes = std::fs::read(path)
        .map_err(|error| ConfigError::Unreadable(format!("cannot read {name}: {error}; is the path right?")))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let byte = error.as_bytes()[valid];
        let text = String::from_utf8_lossy(error.as_bytes());
        let mistakes = Mistakes::new(&name.to_string(), &text);
        mistakes.add(&(valid..valid), format!("found the byte 0x{byte:02x}, expected UTF-8 text"));
        ConfigError::Mistakes(mistakes.into_parts().0)
    })
}

/// `path` as it is if absolute, else below `folder`.
fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_are_read_as_sys_writes_them() {
        assert_eq!(core_list("0-3,6"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(core_list("0"), Some(vec![0]));
        assert_eq!(core_list(""), None);
    }
}
