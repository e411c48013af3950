// SPDX-License-Identifier: MIT
//! What a configuration is checked against, besides itself.

use super::fib::{FibChoice, FibNames};

/// The machine a configuration is checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The cores that exist and are on line, ascending.
    pub cores: Vec<u16>,
    /// The lookup structures that this program has.
    pub fib: FibNames,
    /// The ones to use regardless of the configuration.
    pub fib_override: Option<FibChoice>,
}

impl Machine {
    /// This machine, from `/sys`; where that is hidden, with as many cores as this process may use.
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
