// SPDX-License-Identifier: MIT
//! `[eal]`: how DPDK's environment abstraction layer starts.

use toml::Value;
use toml::de::DeValue;

use super::given::{Parsed, unfit};
use super::kind::{Kind, integer, list, optional, text, value};
use super::section::section;
use super::values::is_word;

section! {
    /// How DPDK's environment abstraction layer starts.
    pub struct Eal(context) keys {
        /// Further arguments, as the EAL takes them.
        args: Vec<String>, list(text("an argument of the EAL, such as \"--log-level=8\"", argument)),
            default Vec::new(), restart;
        /// Whether memory is taken from hugepages; with `"auto"`, if the machine has any.
        hugepages: Hugepages, hugepages_kind(), default Hugepages::Auto, restart;
        /// Megabytes of memory. DPDK's lookup structures (`rte_fib` and others) get theirs besides.
        memory: Option<u32>, optional(integer("megabytes", 16..=1_048_576)),
            default None => "the EAL's own choice", restart;
        /// Keeps the files of several routers apart.
        file_prefix: String, text("letters, digits, - or _", prefix),
            default context.name.to_owned() => "the router's name", restart;
    }
}

/// Whether DPDK takes hugepages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hugepages {
    /// Takes them if the machine has any.
    Auto,
    /// Takes them or fails.
    On,
    /// Does not take them.
    Off,
}

fn hugepages_kind() -> Kind<'static, Hugepages> {
    let parse = |value: &DeValue| match value {
        DeValue::Boolean(true) => Ok(Hugepages::On),
        DeValue::Boolean(false) => Ok(Hugepages::Off),
        DeValue::String(text) if text == "auto" => Ok(Hugepages::Auto),
        _ => unfit(),
    };
    value("true, false or \"auto\"", parse, |hugepages| match hugepages {
        Hugepages::Auto => Value::from("auto"),
        Hugepages::On => true.into(),
        Hugepages::Off => false.into(),
    })
}

fn argument(text: &str) -> Parsed<String> {
    if text.is_empty() || text.contains('\0') { unfit() } else { Ok(text.to_owned()) }
}

fn prefix(text: &str) -> Parsed<String> {
    if is_word(text) { Ok(text.to_owned()) } else { unfit() }
}
