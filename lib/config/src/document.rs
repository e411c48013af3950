// SPDX-License-Identifier: MIT
//! The page about every key: docs/configuration.md.

use std::fmt::Write;

use super::eal::Eal;
use super::filters::FilterKeys;
use super::interfaces::{AddressKeys, PolicyKeys, VlanKeys};
use super::linux::Linux;
use super::mistake::Mistakes;
use super::multicast::{LimitKeys, MulticastKeys};
use super::neighbors::NeighborKeys;
use super::policer::Policer;
use super::ports::{Device, DeviceKeys, Port};
use super::reader::Section;
use super::router::Router;
use super::routes::{GatewayKeys, PrefixKeys, RouteKeys, ViaKeys};
use super::routes_file::{FORMAT, FileKeys};
use super::section::{Context, Entry, Keys, Reload};
use super::steers::{SteerKeys, steered};
use super::tuples::TupleKeys;
use super::workers::{CoreKeys, WorkerKeys};

/// A key of the configuration, as its declaration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The head of the tables that have it: `[router]`, `[port.NAME]`; empty before the first head.
    pub table: &'static str,
    pub name: &'static str,
    /// What it is for, in one sentence or two.
    pub sentence: String,
    /// Type and range.
    pub expected: String,
    /// The default, as TOML or described.
    pub default: String,
    /// What a reload does with a changed value.
    pub reload: Reload,
}

/// Every key of the configuration.
pub fn keys() -> Vec<Key> {
    chapters().into_iter().flat_map(|chapter| chapter.keys).collect()
}

/// The page: every table with its keys.
pub fn documentation() -> String {
    let mut page = String::from(INTRODUCTION);
    for Chapter { title, about, keys } in chapters() {
        let _ = write!(page, "\n## {title}\n\n{about}\n\n"); // a String takes everything
        page.push_str("| key | value | default | reload | |\n| --- | --- | --- | --- | --- |\n");
        for key in keys {
            let reload = match key.reload {
                Reload::Live => "live",
                Reload::Restart => "restart",
            };
            let Key { name, expected, default, sentence, .. } = key;
            let _ = writeln!(page, "| `{name}` | {expected} | {default} | {reload} | {sentence} |");
        }
    }
    let _ = write!(page, "\n## The routes file\n\n{FORMAT}");
    page
}

const INTRODUCTION: &str = r#"<!-- SPDX-License-Identifier: MIT -->
<!-- Generated: cargo run -p perigee-config --example document_configuration > docs/configuration.md -->
# Configuration

`perigee run FILE` reads a TOML file. `perigee check FILE` reports every mistake in it, with line, column and what was
expected; `perigee show config` prints what a running router has, defaults included. Files to start from are in
[examples/](../examples/README.md).

`perigee reload` reads the file again. It changes everything or nothing: the keys marked *live* change while packets
flow; after a change of one marked *restart* the reload is refused and names the key.

- Paths that do not begin with `/` start at the folder of the file.
- A time is a whole number with `us`, `ms` or `s`: `"100us"`. A size is one with `KB`, `MB` or `GB`, in units of 1024:
  `"256 MB"`.
- `dev` names a port (`"wan"`) or one of its VLANs (`"wan.100"`).
- A key that is not listed here is a mistake.
"#;

/// A section of the page.
struct Chapter {
    title: &'static str,
    about: &'static str,
    keys: Vec<Key>,
}

impl Chapter {
    /// The keys of the tables `table`; `about` as the declaration has it.
    fn new(title: &'static str, table: &'static str, about: &'static str, entries: Vec<Entry>) -> Self {
        let keys = entries.into_iter().map(|entry| key(table, entry)).collect();
        Self { title, about: about.trim(), keys }
    }
}

/// The chapters: sections without any keys, which show the defaults and descriptions.
fn chapters() -> Vec<Chapter> {
    let nothing = Mistakes::new("", "");
    let s = &mut Section::absent("", &nothing);
    let c = &Context::bare();
    let limits = LimitKeys::read(s, c).entries();
    let interface = [AddressKeys::read(s, c).entries(), PolicyKeys::read(s, c).entries(), limits].concat();
    let tuple = TupleKeys::read(s, c);
    let policer = Policer::read(s, c);
    let port = Port::read(s, c, String::new(), Device::Dpdk(String::new()), policer.clone());
    let tables = |lists: &[Vec<Entry>]| lists.concat();
    vec![
        Chapter::new("Before the first head", "", FileKeys::ABOUT, FileKeys::read(s, c).entries()),
        Chapter::new(
            "`[router]`",
            "[router]",
            Router::ABOUT,
            tables(&[Router::read(s, c).entries(), WorkerKeys::read(s, c).entries()]),
        ),
        Chapter::new("`[[worker]]`", "[[worker]]", CoreKeys::ABOUT, CoreKeys::read(s, c).entries()),
        Chapter::new("`[eal]`", "[eal]", Eal::ABOUT, Eal::read(s, c).entries()),
        Chapter::new("`[linux]`", "[linux]", Linux::ABOUT, Linux::read(s, c).entries()),
        Chapter::new("`[policer]`", "[policer]", Policer::ABOUT, policer.entries()),
        Chapter::new(
            "`[port.NAME]`",
            "[port.NAME]",
            Port::ABOUT,
            tables(&[DeviceKeys::read(s, c).entries(), port.entries(), interface.clone()]),
        ),
        Chapter::new(
            "`[port.NAME.vlan.ID]`",
            "[port.NAME.vlan.ID]",
            VlanKeys::ABOUT,
            tables(&[VlanKeys::read(s, c).entries(), interface]),
        ),
        Chapter::new(
            "`[[route]]`",
            "[[route]]",
            PrefixKeys::ABOUT,
            tables(&[PrefixKeys::read(s, c).entries(), ViaKeys::read(s, c).entries(), RouteKeys::read(s, c).entries()]),
        ),
        Chapter::new(
            "`via = [{ ... }, ...]` of a route",
            "[[route]] via",
            GatewayKeys::ABOUT,
            GatewayKeys::read(s, c).entries(),
        ),
        Chapter::new("`[[neighbor]]`", "[[neighbor]]", NeighborKeys::ABOUT, NeighborKeys::read(s, c).entries()),
        Chapter::new("`[[multicast]]`", "[[multicast]]", MulticastKeys::ABOUT, MulticastKeys::read(s, c).entries()),
        Chapter::new(
            "`[[filter]]`",
            "[[filter]]",
            FilterKeys::ABOUT,
            tables(&[tuple.entries(), FilterKeys::read(s, c).entries()]),
        ),
        Chapter::new("`[[steer]]`", "[[steer]]", SteerKeys::ABOUT, steered(&SteerKeys::read(s, c), &tuple)),
    ]
}

fn key(table: &'static str, entry: Entry) -> Key {
    let default = match (entry.default, entry.value) {
        (Some(words), _) => words.to_owned(),
        (None, Some(value)) => format!("`{value}`"),
        (None, None) => "none".to_owned(),
    };
    let sentence = entry.sentence.trim().to_owned();
    let Entry { key: name, expected, reload, .. } = entry;
    Key { table, name, sentence, expected: expected.into_owned(), default, reload }
}
