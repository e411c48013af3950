// SPDX-License-Identifier: MIT
//! The profiles that ship: of machines that perigee was measured on, by `perigee predict calibrate`.
//!
//! Each is a folder of `lib/predict/profiles`, whose README says what belongs there; the program has its `profile.json`
//! in itself.

use crate::machine::{self, Machine, Origin};
use crate::profile::Profile;

/// A profile that ships.
#[derive(Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its folder's name, which is the profile's, too.
    pub name: &'static str,
    /// Its `profile.json`.
    pub json: &'static str,
}

macro_rules! shipped {
    ($($name:literal,)*) => {
        /// All of them, in the order of their names.
        pub const ALL: &[Shipped] = &[$(
            Shipped { name: $name, json: include_str!(concat!("../profiles/", $name, "/profile.json")) },
        )*];
    };
}

shipped! {
    "intel-xeon-avx512-vm",
}

impl Shipped {
    pub fn profile(&self) -> Profile {
        Profile::parse(self.json, self.name).expect("a test reads each of them")
    }

    /// Where it was measured, how and when.
    pub fn origin(&self) -> Origin {
        Origin::of(&self.profile(), self.name).expect("a test reads each of them")
    }
}

/// The one of a name.
pub fn find(name: &str) -> Option<&'static Shipped> {
    ALL.iter().find(|shipped| shipped.name == name)
}

/// The names, for messages: `a, b, c`.
pub fn names() -> String {
    ALL.iter().map(|shipped| shipped.name).collect::<Vec<_>>().join(", ")
}

/// The one whose machine is the nearest to this one; none only if none ships.
pub fn nearest(here: &Machine) -> Option<&'static Shipped> {
    let machines: Vec<Machine> = ALL.iter().map(|shipped| shipped.origin().machine).collect();
    machine::nearest(here, &machines).map(|at| &ALL[at])
}
