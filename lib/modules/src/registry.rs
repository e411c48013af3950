// SPDX-License-Identifier: MIT
//! The list of all modules. One line here makes a module known everywhere: its C export and Lua name, its counters, its
//! drop and punt reasons, its page in the documentation.

use crate::context::Context;
use crate::reason::{Kind, ReasonInfo};
use perigee_packet::{Batch, Mask};
use std::fmt::Write;

/// Calls the macro `$then` with the registry: `name(one)` for a module that narrows one mask, `name(two)` for one that
/// narrows two (IPv4, IPv6). `host` is no module: it names what the worker itself drops.
#[macro_export]
macro_rules! for_each_module {
    ($then:ident) => {
        $then! {
            host(none), classify(two), ipv4_valid(one), ipv6_valid(one), filter(two), ipv4_lookup(one),
            ipv6_lookup(one), mtu(two), ttl(one), hop_limit(one), apply(two), distribute(two), count(one),
        }
    };
}

/// A module's function.
pub enum Run {
    /// Narrows one mask.
    One(fn(&mut Context, &mut Batch, &mut Mask)),
    /// Narrows two masks, IPv4 and IPv6.
    Two(fn(&mut Context, &mut Batch, &mut Mask, &mut Mask)),
    /// Not called: a name for counters.
    None,
}

/// A line of the registry.
pub struct Module {
    /// Its name, in Lua, C, counters and documentation.
    pub name: &'static str,
    /// Its function.
    pub run: Run,
    /// Why it drops and punts, in the order of their numbers.
    pub reasons: &'static [ReasonInfo],
    /// Its head comment's first lines: what it does.
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

macro_rules! registry {
    ($($name:ident($kind:ident),)*) => {
        /// Number of a module in the registry.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum ModuleId { $($name,)* }

        /// All modules, in the order of their numbers.
        pub static MODULES: &[Module] = &[$(Module {
            name: stringify!($name),
            run: run!($name, $kind),
            reasons: crate::$name::REASONS,
            summary: crate::$name::SUMMARY,
        },)*];
    };
}
for_each_module!(registry);

/// The page about the modules in Markdown: `docs/modules.md`.
pub fn documentation() -> String {
    let mut page = String::from(
        "<!-- Generated: cargo run -p perigee-modules --example document > docs/modules.md -->\n\n# Modules\n\n\
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
