// SPDX-License-Identifier: MIT
//! Why a packet leaves the fast path. Every drop and every punt has a module, a name and a counter per worker, and
//! names the section of the RFC that demands it, if there is one.

use crate::registry::ModuleId;
use std::sync::atomic::{AtomicU8, Ordering};
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

/// Number of counters and gauges that scripts can have.
pub const VALUES: usize = 256;

/// What a script's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// It only grows.
    Counter,
    /// It is set.
    Gauge,
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
#[derive(Debug)]
pub struct CustomReasons {
    named: Mutex<Vec<(String, String, Kind)>>,
    /// What scripts count and measure.
    values: Mutex<Vec<(String, String, ValueKind)>>,
    /// What each of them is for, which workers ask for with every drop: bits of [`DROP`] and [`PUNT`].
    kinds: [AtomicU8; REASON_COUNT - FIRST_CUSTOM as usize],
}

const DROP: u8 = 1;
const PUNT: u8 = 2;

impl Default for CustomReasons {
    fn default() -> Self {
        Self {
            named: Mutex::default(),
            values: Mutex::default(),
            kinds: [const { AtomicU8::new(0) }; REASON_COUNT - FIRST_CUSTOM as usize],
        }
    }
}

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
        self.kinds[place].fetch_or(bit(kind), Ordering::Relaxed);
        Reason(FIRST_CUSTOM + place as u16)
    }

    /// Checks that there is a reason, built-in or named, to drop packets or to punt them under.
    ///
    /// # Errors
    /// What was found, and what was expected.
    #[inline]
    pub fn check(&self, reason: Reason, kind: Kind) -> Result<(), String> {
        let place = usize::from(reason.0).checked_sub(FIRST_CUSTOM.into());
        let kinds = match place {
            Some(place) => self.kinds.get(place).map_or(0, |kinds| kinds.load(Ordering::Relaxed)),
            None => reason.describe().map_or(0, |(_, info)| bit(info.kind)),
        };
        if kinds & bit(kind) != 0 { Ok(()) } else { Err(wrong(reason, kind, kinds != 0)) }
    }

    /// All of these reasons: number, module, name, kind.
    pub fn all(&self) -> Vec<(Reason, String, String, Kind)> {
        let numbered = (FIRST_CUSTOM..).zip(self.list().iter().cloned()).collect::<Vec<_>>();
        numbered.into_iter().map(|(number, (module, name, kind))| (Reason(number), module, name, kind)).collect()
    }

    /// The number of a counter or gauge by its names, made if it is new.
    ///
    /// # Errors
    /// There are too many, or it is of the other kind.
    pub fn value(&self, module: &str, name: &str, kind: ValueKind) -> Result<u16, String> {
        let mut list = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let at = list.iter().position(|(m, n, _)| m == module && n == name);
        match at.map(|at| (at, list[at].2)) {
            Some((at, there)) if there == kind => Ok(at as u16),
            Some(_) => Err(format!("{module}.{name} is a counter and a gauge; expected one of them")),
            None if list.len() >= VALUES => {
                Err(format!("scripts have {VALUES} counters and gauges already; expected no more"))
            }
            None => {
                list.push((module.to_owned(), name.to_owned(), kind));
                Ok((list.len() - 1) as u16)
            }
        }
    }

    /// All counters and gauges, in the order of their numbers: module, name, kind.
    pub fn values(&self) -> Vec<(String, String, ValueKind)> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn list(&self) -> MutexGuard<'_, Vec<(String, String, Kind)>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bit(kind: Kind) -> u8 {
    match kind {
        Kind::Drop => DROP,
        Kind::Punt => PUNT,
    }
}

/// A packet under such a number would vanish from every counter.
#[cold]
fn wrong(reason: Reason, kind: Kind, exists: bool) -> String {
    let (what, made) = match kind {
        Kind::Drop => ("drop", "m.reason(MODULE, NAME)"),
        Kind::Punt => ("punt", "m.reason(MODULE, NAME, true)"),
    };
    let found = if exists { "a reason of the other kind" } else { "no reason" };
    format!("found {}, which is {found}; expected one to {what} packets under, such as {made} returns", reason.0)
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
