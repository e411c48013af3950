// SPDX-License-Identifier: MIT
//! Why a packet leaves the fast path. Every drop and every punt has a module, a name and a counter per worker, and names
//! the section of the RFC that demands it, if there is one.

use crate::registry::ModuleId;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many reasons a module can have.
pub const PER_MODULE: u16 = 16;
/// First number of reasons that scripts and shared libraries name at run time.
pub const FIRST_CUSTOM: u16 = 512;
/// Number of reasons in all.
pub const REASON_COUNT: usize = 768;

/// Number of a reason: the module's number times 16, plus its place in the module; from [`FIRST_CUSTOM`] on, those of
/// scripts.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(pub u16);

/// What happens to the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is freed.
    Drop,
    /// The slow path gets it.
    Punt,
}

/// A reason's description.
#[derive(Debug, Clone, Copy)]
pub struct ReasonInfo {
    /// Its name, unique in its module.
    pub name: &'static str,
    /// What happens to the packet.
    pub kind: Kind,
    /// The section that demands it ("RFC 1812 5.2.2"), or "".
    pub rfc: &'static str,
    /// What was wrong with the packet, or why it needs the slow path.
    pub text: &'static str,
}

impl Reason {
    /// The `place`-th reason of a module.
    pub const fn new(module: ModuleId, place: u16) -> Reason {
        assert!(place < PER_MODULE);
        Reason(module as u16 * PER_MODULE + place)
    }

    /// Its index among the counters; reasons that do not exist share the last one.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0).min(REASON_COUNT - 1)
    }
}

/// The reasons that scripts and shared libraries name at run time, shared by all workers of a router.
#[derive(Debug, Default)]
pub struct CustomReasons(Mutex<Vec<(String, String, Kind)>>);

impl CustomReasons {
    /// The number of a module's reason by its names, made if it is new. When all are taken, they share the last one.
    pub fn number(&self, module: &str, name: &str, kind: Kind) -> Reason {
        let mut list = self.list();
        let place = list.iter().position(|(m, n, k)| m == module && n == name && *k == kind);
        let place = place.unwrap_or_else(|| {
            if FIRST_CUSTOM as usize + list.len() < REASON_COUNT - 1 {
                list.push((module.to_owned(), name.to_owned(), kind));
                list.len() - 1
            } else {
                REASON_COUNT - 1 - FIRST_CUSTOM as usize
            }
        });
        Reason(FIRST_CUSTOM + place as u16)
    }

    /// All of these reasons: number, module, name, kind.
    pub fn all(&self) -> Vec<(Reason, String, String, Kind)> {
        let numbered = (FIRST_CUSTOM..).zip(self.list().iter().cloned()).collect::<Vec<_>>();
        numbered.into_iter().map(|(number, (module, name, kind))| (Reason(number), module, name, kind)).collect()
    }

    fn list(&self) -> MutexGuard<'_, Vec<(String, String, Kind)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Declares a module's reasons: `drop|punt CONSTANT = "name", "RFC section", "text";`.
macro_rules! reasons {
    ($module:ident: $($kind:ident $constant:ident = $name:literal, $rfc:literal, $text:literal;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, dead_code)]
        enum Place { $($constant,)* }
        $(
            #[doc = $text]
            pub const $constant: $crate::Reason =
                $crate::Reason::new($crate::registry::ModuleId::$module, Place::$constant as u16);
        )*
        /// Why this module drops and punts.
        pub const REASONS: &[$crate::reason::ReasonInfo] = &[$($crate::reason::ReasonInfo {
            name: $name, kind: $crate::reason::reasons!(@ $kind), rfc: $rfc, text: $text,
        },)*];
    };
    (@ drop) => { $crate::reason::Kind::Drop };
    (@ punt) => { $crate::reason::Kind::Punt };
}
pub(crate) use reasons;
