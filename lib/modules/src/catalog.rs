// SPDX-License-Identifier: MIT
//! All modules of the registry in one table: their functions, their reasons, and the page about them.

use crate::context::Context;
use crate::reason::{FIRST_CUSTOM, Kind, PER_MODULE, Reason, ReasonInfo};
use perigee_packet::{Batch, Mask};
use std::fmt::Write;

/// A module's function.
pub enum Run {
    /// Narrows one mask.
    One(fn(&mut Context, &mut Batch, &mut Mask)),
    /// Narrows two masks, IPv4 and IPv6.
    Two(fn(&mut Context, &mut Batch, &mut Mask, &mut Mask)),
    /// Is never called: only a name for counters.
    None,
}

/// A module of the registry.
pub struct Module {
    /// Its name, in Lua, C, counters and documentation.
    pub name: &'static str,
    /// Its function.
    pub run: Run,
    /// Why it drops and punts, in the order of their numbers.
    pub reasons: &'static [ReasonInfo],
    /// What it does, in one sentence.
    pub summary: &'static str,
}

macro_rules! run {
    ($name:ident, one) => {
        Run::One(crate::$name::$name)
    };
    ($name:ident, two) => {
        Run::Two(crate::$name::$name)
    };
    ($name:ident, none) => {
        Run::None
    };
}

macro_rules! catalog {
    ($($name:ident($kind:ident),)*) => {
        /// All modules, in the order of their numbers.
        pub static MODULES: &[Module] = &[$(Module {
            name: stringify!($name),
            run: run!($name, $kind),
            reasons: crate::$name::REASONS,
            summary: crate::$name::SUMMARY,
        },)*];
    };
}
for_each_module!(catalog);

impl Reason {
    /// The built-in reason's module and description; `None` for a script's.
    pub fn describe(self) -> Option<(&'static str, &'static ReasonInfo)> {
        let module = MODULES.get(usize::from(self.0 / PER_MODULE))?;
        Some((module.name, module.reasons.get(usize::from(self.0 % PER_MODULE))?))
    }
}

/// All built-in reasons, with their modules' names.
pub fn all_reasons() -> impl Iterator<Item = (Reason, &'static str, &'static ReasonInfo)> {
    (0..FIRST_CUSTOM).filter_map(|n| Reason(n).describe().map(|(module, info)| (Reason(n), module, info)))
}

/// The page about the modules in Markdown: `docs/modules.md`.
pub fn documentation() -> String {
    let mut page = String::from(
        "<!-- Generated: cargo run -p perigee-modules --example document_modules > docs/modules.md -->\n\n# Modules\n\n\
         What the fast path is made of. Every packet a module does not let go on is dropped or punted (given to the slow \
         path) under\none of its reasons; `perigee show drops` counts them as `module.reason`.\n",
    );
    for module in MODULES {
        document(module, &mut page).expect("a String takes everything");
    }
    page
}

fn document(module: &Module, page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## {}\n\n{}", module.name, module.summary)?;
    match module.run {
        Run::One(_) => writeln!(page, "In Lua: `m.{}(batch, mask)`.", module.name)?,
        Run::Two(_) => writeln!(page, "In Lua: `m.{}(batch, ip4, ip6)`.", module.name)?,
        Run::None => writeln!(page, "Not a module: what the host itself counts.")?,
    }
    if module.reasons.is_empty() {
        return writeln!(page, "It drops and punts nothing.");
    }
    writeln!(page, "\n| reason | packet | when | demanded by |\n| --- | --- | --- | --- |")?;
    for reason in module.reasons {
        let kind = match reason.kind {
            Kind::Drop => "dropped",
            Kind::Punt => "punted",
        };
        writeln!(page, "| `{}` | {kind} | {} | {} |", reason.name, reason.text, reason.rfc)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_reason_has_a_name_of_its_own_and_a_text() {
        let mut names = HashSet::new();
        for (reason, module, info) in all_reasons() {
            assert!(names.insert((module, info.name)), "{module}.{} twice", info.name);
            assert!(
                !info.text.is_empty()
                    && info.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            );
            assert!(reason.0 < FIRST_CUSTOM);
        }
        assert!(MODULES.len() * usize::from(PER_MODULE) <= usize::from(FIRST_CUSTOM));
    }
}
