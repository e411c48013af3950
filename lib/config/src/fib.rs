// SPDX-License-Identifier: MIT
//! The lookup structures that `fib` in `[router]` and `--fib` choose from.
//!
//! Their names are not known here: the program lists them in [`super::Machine::fib`].

use toml::Value;
use toml::de::DeValue;

use super::given::unfit;
use super::kind::{Kind, value};

/// The name that leaves the choice to the router.
pub const AUTO: &str = "auto";

/// The names of the chosen lookup structures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibChoice {
    /// For IPv4.
    pub v4: String,
    /// For IPv6.
    pub v6: String,
}

impl Default for FibChoice {
    fn default() -> Self {
        Self { v4: AUTO.into(), v6: AUTO.into() }
    }
}

/// The names that `fib` may have, besides [`AUTO`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FibNames {
    /// Of structures for IPv4.
    pub v4: Vec<String>,
    /// Of structures for IPv6.
    pub v6: Vec<String>,
}

impl FibNames {
    /// Resolves names: one for the families that have it, or one for each family.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn choose(&self, names: &[impl AsRef<str>]) -> Result<FibChoice, String> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let has = |list: &[String], name: &str| name == AUTO || list.iter().any(|known| known == name);
        let (v4, v6) = (|name: &str| has(&self.v4, name), |name: &str| has(&self.v6, name));
        let choice = |a: &str, b: &str| FibChoice { v4: a.to_owned(), v6: b.to_owned() };
        match names[..] {
            [name] if v4(name) && v6(name) => Ok(choice(name, name)),
            [name] if v4(name) => Ok(choice(name, AUTO)),
            [name] if v6(name) => Ok(choice(AUTO, name)),
            [a, b] if v4(a) && v6(b) => Ok(choice(a, b)),
            [a, b] if v4(b) && v6(a) => Ok(choice(b, a)),
            _ => Err(self.expected()),
        }
    }

    /// Describes what [`choose`](Self::choose) accepts.
    pub fn expected(&self) -> String {
        let list = |names: &[String]| names.iter().filter(|name| *name != AUTO).cloned().collect::<Vec<_>>().join(", ");
        format!(
            "\"{AUTO}\", the name of a lookup structure, or one for IPv4 ({}) and one for IPv6 ({})",
            list(&self.v4),
            list(&self.v6)
        )
    }
}

/// A name, or a list of one or two.
pub(crate) fn structures(names: &FibNames) -> Kind<'_, FibChoice> {
    let parse = |given: &DeValue| {
        let chosen: Option<Vec<&str>> = match given {
            DeValue::Array(array) => array.iter().map(|name| name.get_ref().as_str()).collect(),
            one => one.as_str().map(|name| vec![name]),
        };
        let Some(chosen) = chosen else { return unfit() };
        names.choose(&chosen).map_err(|_| match chosen[..] {
            [a, b] => format!("{a:?} and {b:?}"),
            _ => String::new(),
        })
    };
    value(names.expected(), parse, |choice: &FibChoice| Value::from(vec![choice.v4.clone(), choice.v6.clone()]))
        .described("\"auto\", the name of a lookup structure, or an array of one for IPv4 and one for IPv6")
}
