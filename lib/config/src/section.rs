// SPDX-License-Identifier: MIT
//! The declaration of a section's keys, from which everything else is generated: [`section!`].
//!
//! ```text
//!                     ┌► a struct with a field for each key, documented
//! section! { keys } ──┼► read:    the struct from TOML, with every mistake
//!                     └► entries: name, sentence, kind, default, live or restart, value
//!                          ├► print.rs     TOML again
//!                          ├► reload.rs    what needs a restart
//!                          └► document.rs  docs/configuration.md
//! ```
//!
//! A key is a line of this form, under its sentence:
//!
//! ```text
//! /// Packets taken from a queue at once.
//! burst: u16, integer("packets", 1..=256), default 32, restart;
//! ```
//!
//! that is name, type, kind ([`super::kind`]), default, and what a reload does with a change: `live` or `restart`. A
//! default that depends on other things is described for the reader of the page: `default None => "the device's own"`.
//! It may use the keys declared before it, which are names of locals there: a function that makes a kind must be named
//! otherwise.

use std::path::Path;

use toml::Value;

use super::fib::FibNames;
use super::kind::Words;
use super::machine::Machine;
use super::policer::Policer;

/// What happens to a changed key when the router reloads its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The running router takes it.
    Live,
    /// The reload is refused: the router must be restarted.
    Restart,
}

/// A key of a section with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: &'static str,
    /// What it is for.
    pub sentence: &'static str,
    /// Type and range.
    pub expected: Words,
    /// The default, if it is described rather than a value.
    pub default: Option<&'static str>,
    pub reload: Reload,
    /// The value as TOML; nothing if the section does not have the key.
    pub value: Option<Value>,
}

/// The keys that have a value, as a table of TOML.
pub(crate) fn toml_table(entries: Vec<Entry>) -> toml::Table {
    entries.into_iter().filter_map(|entry| Some((entry.key.to_owned(), entry.value?))).collect()
}

/// What [`section!`] generates besides a struct.
pub(crate) trait Keys {
    /// What the section is for.
    const ABOUT: &str;
    /// The names of the keys.
    const NAMES: &[&str];

    /// The keys in the order of their declaration.
    fn entries(&self) -> Vec<Entry>;
}

/// What the keys of a section may need to know of earlier sections.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    /// The folder that relative paths start at.
    pub folder: &'c Path,
    pub machine: &'c Machine,
    /// The router's name.
    pub name: &'c str,
    /// The limits of all ports, which one port's begin with.
    pub policer: Option<&'c Policer>,
    /// The ports' names.
    pub ports: &'c [&'c str],
    /// Whether every port was read; if not, a name that none of them has is not a mistake.
    pub sure: bool,
}

impl Context<'static> {
    /// A context for printing and describing, where nothing is checked.
    pub fn bare() -> Self {
        static NOTHING: Machine = Machine {
            cores: Vec::new(),
            affinity: Vec::new(),
            fib: FibNames { v4: Vec::new(), v6: Vec::new() },
            fib_override: None,
        };
        Self { folder: Path::new(""), machine: &NOTHING, name: "", policer: None, ports: &[], sure: false }
    }
}

/// Declares a section: see the head of this file. The fields `beside` the keys are given to `read`, and stand first.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $Section:ident($context:ident)
        $(beside { $($(#[doc = $field_doc:literal])* $field:ident: $Field:ty,)* })?
        keys {
            $(
                $(#[doc = $sentence:literal])*
                $key:ident: $Value:ty, $kind:expr, default $default:expr $(=> $described:literal)?, $reload:ident;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $Section {
            $($($(#[doc = $field_doc])* pub $field: $Field,)*)?
            $($(#[doc = $sentence])* pub $key: $Value,)*
        }

        impl $Section {
            /// The values of the file, with defaults for missing keys.
            pub(crate) fn read(
                section: &mut $crate::reader::Section,
                $context: &$crate::section::Context,
                $($($field: $Field,)*)?
            ) -> Self {
                let _ = $context;
                $(
                    let kind: $crate::kind::Kind<$Value> = $kind;
                    let $key = section.key(stringify!($key), &kind).unwrap_or_else(|| $default);
                )*
                Self { $($($field,)*)? $($key,)* }
            }
        }

        impl $crate::section::Keys for $Section {
            const ABOUT: &str = concat!($($about),*);
            const NAMES: &[&str] = &[$(stringify!($key)),*];

            fn entries(&self) -> Vec<$crate::section::Entry> {
                let $context = &$crate::section::Context::bare();
                let _ = $context;
                vec![$({
                    let kind: $crate::kind::Kind<$Value> = $kind;
                    $crate::section::Entry {
                        key: stringify!($key),
                        sentence: concat!($($sentence),*),
                        value: kind.print(&self.$key),
                        expected: kind.describe(),
                        default: None$(.or(Some($described)))?,
                        reload: $crate::section::section!(@$reload),
                    }
                }),*]
            }
        }
    };
    (@live) => { $crate::section::Reload::Live };
    (@restart) => { $crate::section::Reload::Restart };
}
pub(crate) use section;
