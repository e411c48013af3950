// SPDX-License-Identifier: MIT
//! The machine that a profile was measured on, and how near another one is to it.
//!
//! A profile that was measured has its machine, its command and its date in `fit`, which is kept for readers
//! ([`Origin`]). Everything about a machine is read below a given root, `/` on a real one; what cannot be read is
//! unknown.

use crate::error::Error;
use crate::number::significant;
use crate::profile::Profile;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use std::fs;
use std::path::Path;

/// How many doublings a size counts as that one of two machines does not say: more than two real caches ever differ by.
const UNKNOWN_DOUBLINGS: f64 = 16.0;

/// A machine: what its speed depends on, and what ran on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's vendor as it names itself: `GenuineIntel`, `AuthenticAMD`.
    pub vendor: Option<String>,
    /// The vendor's number for a line of processors.
    pub family: Option<u32>,
    /// The vendor's number for a design of that family.
    pub model: Option<u32>,
    /// The vendor's number for a revision of that design.
    pub stepping: Option<u32>,
    /// The processor's name, as the kernel has it.
    pub processor: Option<String>,
    pub vectors: Vectors,
    /// A core's second level of cache, in bytes.
    pub l2_bytes: Option<u64>,
    /// The third level of cache, in bytes; cores share it.
    pub l3_bytes: Option<u64>,
    /// Whether a hypervisor is below.
    pub virtual_machine: bool,
    /// Cores that the router could use.
    pub cores: u32,
    /// Linux's release.
    pub kernel: Option<String>,
    /// The distribution.
    pub system: Option<String>,
    /// DPDK's version.
    pub dpdk: Option<String>,
}

/// The widest vector instructions of a processor among those that perigee has code for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vectors {
    None,
    Avx2,
    /// With the parts for bytes, words and short vectors (BW, VL).
    Avx512,
}

impl Machine {
    /// The machine with its files below `root`; `cores` may be used of it.
    pub fn read(root: &Path, cores: u32, dpdk: Option<String>) -> Machine {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| field(&cpuinfo, ':', name);
        let number = |name: &str| field(name)?.parse().ok();
        let flags = field("flags").unwrap_or_default();
        let has = |wanted: &str| flags.split_whitespace().any(|flag| flag == wanted);
        Machine {
            vendor: field("vendor_id"),
            family: number("cpu family"),
            model: number("model"),
            stepping: number("stepping"),
            processor: field("model name"),
            vectors: match (has("avx2"), ["avx512f", "avx512bw", "avx512vl"].into_iter().all(has)) {
                (true, true) => Vectors::Avx512,
                (true, false) => Vectors::Avx2,
                (false, _) => Vectors::None,
            },
            l2_bytes: cache(root, "2"),
            l3_bytes: cache(root, "3"),
            virtual_machine: has("hypervisor"),
            cores,
            // Its numbers: what follows them is whose build it is.
            kernel: text("proc/sys/kernel/osrelease")
                .and_then(|release| Some(release.trim().split(['-', '+']).next()?.to_owned())),
            system: text("etc/os-release").and_then(|release| self::field(&release, '=', "PRETTY_NAME")),
            dpdk,
        }
    }

    /// The processor and its numbers: `Intel(R) Xeon(R) Processor (6/143/8)`.
    pub fn processor_words(&self) -> String {
        let number = |number: Option<u32>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let numbers = [self.family, self.model, self.stepping].map(number).join("/");
        format!("{} ({numbers})", self.processor.as_deref().unwrap_or("an unknown processor"))
    }

    /// The vendor's usual name.
    fn vendor_words(&self) -> &str {
        match self.vendor.as_deref() {
            Some("GenuineIntel") => "Intel",
            Some("AuthenticAMD") => "AMD",
            Some("HygonGenuine") => "Hygon",
            Some(other) => other,
            None => "unknown",
        }
    }
}

/// The processor, its numbers, and how many cores there are.
impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {} core{}", self.processor_words(), self.cores, if self.cores == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Vectors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Vectors::None => "no AVX2",
            Vectors::Avx2 => "AVX2",
            Vectors::Avx512 => "AVX-512",
        })
    }
}

/// The value of a line `NAME SEPARATOR VALUE`, the first of that name; none if it is empty.
fn field(text: &str, separator: char, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = lines.find(|(found, _)| found.trim() == name)?;
    let value = value.trim().trim_matches('"');
    (!value.is_empty()).then(|| value.to_owned())
}

/// Bytes of the first core's cache of a level, as far as it holds data.
fn cache(root: &Path, level: &str) -> Option<u64> {
    let caches = fs::read_dir(root.join("sys/devices/system/cpu/cpu0/cache")).ok()?;
    let mut sizes = caches.flatten().filter_map(|cache| {
        let text = |name: &str| Some(fs::read_to_string(cache.path().join(name)).ok()?.trim().to_owned());
        let wanted = text("level")? == level && text("type")? != "Instruction";
        wanted.then(|| text("size")).flatten().and_then(|size| bytes(&size))
    });
    sizes.next()
}

/// Bytes of a size as Linux writes it: `2048K`.
fn bytes(size: &str) -> Option<u64> {
    let (number, factor) = match size.strip_suffix(['K', 'M']) {
        Some(number) if size.ends_with('M') => (number, 1 << 20),
        Some(number) => (number, 1 << 10),
        None => (size, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// How far apart two machines are, what matters most first: a later part counts only among machines that are alike in
/// all before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Of vendor, family, model and stepping those that are not known to be alike, from the first of them on: 0 is the
    /// same processor, 4 one of another vendor.
    pub identity: u8,
    /// Steps between the widest vector instructions.
    pub vectors: u8,
    /// How often L2 and L3 have to be doubled to be alike, both together.
    pub caches: f64,
    /// How often the number of cores has to be doubled.
    pub cores: f64,
}

impl Distance {
    /// Between two machines; it has no direction.
    pub fn between(one: &Machine, other: &Machine) -> Distance {
        let alike = [
            one.vendor.is_some() && one.vendor == other.vendor,
            one.family.is_some() && one.family == other.family,
            one.model.is_some() && one.model == other.model,
            one.stepping.is_some() && one.stepping == other.stepping,
        ];
        let known = alike.into_iter().take_while(|alike| *alike).count();
        let caches = [(one.l2_bytes, other.l2_bytes), (one.l3_bytes, other.l3_bytes)];
        Distance {
            identity: (alike.len() - known) as u8,
            vectors: (one.vectors as u8).abs_diff(other.vectors as u8),
            caches: caches.into_iter().map(|(one, other)| doublings(one, other)).sum(),
            cores: doublings(Some(one.cores.into()), Some(other.cores.into())),
        }
    }

    /// Which is nearer?
    pub fn compare(&self, other: &Distance) -> Ordering {
        let whole = |distance: &Distance| (distance.identity, distance.vectors);
        let parts = self.caches.total_cmp(&other.caches).then(self.cores.total_cmp(&other.cores));
        whole(self).cmp(&whole(other)).then(parts)
    }
}

fn doublings(one: Option<u64>, other: Option<u64>) -> f64 {
    match (one, other) {
        (Some(one), Some(other)) if one > 0 && other > 0 => ((one as f64).log2() - (other as f64).log2()).abs(),
        _ => UNKNOWN_DOUBLINGS,
    }
}

/// Which of some machines is the nearest to this one? Among equals the first.
pub fn nearest(here: &Machine, machines: &[Machine]) -> Option<usize> {
    let distances = machines.iter().map(|machine| Distance::between(here, machine)).enumerate();
    distances.min_by(|(_, one), (_, other)| one.compare(other)).map(|(at, _)| at)
}

/// How near a machine is to this one, in words: `the same processor`, `another Intel processor, with AVX-512 like this
/// one`.
pub fn near(here: &Machine, there: &Machine) -> String {
    let Distance { identity, vectors, caches, .. } = Distance::between(here, there);
    let mut words = match identity {
        0 => "the same processor".to_owned(),
        1 => "another stepping of the same processor".to_owned(),
        2 | 3 => format!("another {} processor", there.vendor_words()),
        _ => format!("a processor of another vendor ({}; this one: {})", there.vendor_words(), here.vendor_words()),
    };
    if vectors > 0 {
        words += &format!(", with {}, where this one has {}", there.vectors, here.vectors);
    } else if identity > 1 {
        words += &format!(", with {} like this one", there.vectors);
    }
    if caches >= 1.0 {
        words += &format!(", and with other caches ({}; here {})", cache_words(there), cache_words(here));
    }
    words
}

fn cache_words(machine: &Machine) -> String {
    let size = |bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{} MiB", significant(bytes as f64 / f64::from(1 << 20), 3)),
        None => "unknown".to_owned(),
    };
    format!("L2 {}, L3 {}", size(machine.l2_bytes), size(machine.l3_bytes))
}

/// Where a profile comes from; it is in the profile's `fit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Where its points were measured.
    pub machine: Machine,
    /// With which command.
    pub command: String,
    /// On which day, in UTC: `2026-11-26`.
    pub date: String,
}

impl Origin {
    /// A profile's; `name` is its file's name in errors.
    ///
    /// # Errors
    /// A profile without, or whose `fit` has something else there.
    pub fn of(profile: &Profile, name: &str) -> Result<Origin, Error> {
        let fit = profile.fit.clone().unwrap_or(Value::Object(serde_json::Map::new()));
        serde_path_to_error::deserialize(fit).map_err(|error| {
            let path = match error.path().to_string() {
                whole if whole == "." => "fit".to_owned(),
                key => format!("fit.{key}"),
            };
            Error::Value { file: name.to_owned(), path, said: error.into_inner().to_string() }
        })
    }

    /// Writes it into a profile that a fit has made.
    pub fn write(&self, profile: &mut Profile) {
        let fit = profile.fit.get_or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let (Some(fit), Ok(Value::Object(origin))) = (fit.as_object_mut(), serde_json::to_value(self)) {
            fit.extend(origin);
        }
    }
}

#[cfg(test)]
mod tests;
