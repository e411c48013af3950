// SPDX-License-Identifier: MIT
//! What a run is to do. With the trials so far, its settings determine the next one, so they are stored with them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pace::rate::wire_bits;
use crate::search::profile::{Mistake, Profile};

/// The settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub profile: Profile,
    /// Frame sizes with the FCS, in the order in which they are measured.
    pub sizes: Vec<u32>,
    pub family: Family,
    pub ways: Ways,
    pub maximum: Maximum,
    /// The tests to run; those that need the throughput bring its test along.
    pub tests: Vec<Test>,
    /// Flows each way.
    #[serde(default = "one")]
    pub flows: u32,
}

/// The network protocol of the test frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    Ipv4,
    Ipv6,
}

/// Whether frames go from the first port to the second alone, or also back at the same rate (RFC 2544 section 14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ways {
    One,
    Both,
}

/// The highest load, each way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Maximum {
    /// The rate of the links, in bits per second on the wire: frames with FCS, preamble and gap (RFC 2544 section 20).
    Line(f64),
    /// For links without a rate of their own: frames per second, by frame size.
    Frames(BTreeMap<u32, f64>),
}

/// A test of RFC 2544, in the order in which they are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Section 26.1.
    Throughput,
    /// Section 26.2.
    Latency,
    /// Section 26.3.
    LossRate,
    /// Section 26.4, RFC 9004.
    BackToBack,
    /// Section 26.5.
    Recovery,
    /// Section 26.6, at the smallest frame size.
    Reset,
}

/// Settings that cannot be measured with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingsError {
    #[error("found no frame sizes, expected at least one; name some, or use those of the profile")]
    NoSize,
    #[error("found the frame size {0} twice, expected each once; leave one out")]
    Twice(u32),
    #[error("found a frame size of {found} bytes, expected {least} to {most} with the FCS for {family}; change it")]
    Size { found: u32, least: u32, most: u32, family: Family },
    #[error("found no tests, expected at least one; name some, or use all of the profile")]
    NoTest,
    #[error(
        "found the test {test}, which the profile {profile} does not describe; leave it out, or add it to the profile"
    )]
    Undescribed { test: Test, profile: String },
    #[error("found no maximum rate for frames of {0} bytes, expected one for each frame size; add it")]
    NoMaximum(u32),
    #[error("at {size} bytes: {mistake}")]
    Maximum { size: u32, mistake: Mistake },
    #[error(transparent)]
    Profile(#[from] Mistake),
}

impl Settings {
    /// All tests and sizes of a profile.
    pub fn new(profile: Profile, family: Family, ways: Ways, maximum: Maximum) -> Self {
        let sizes = match family {
            Family::Ipv4 => profile.sizes.clone(),
            Family::Ipv6 => profile.sizes_ipv6.clone(),
        };
        let tests = Test::ALL.into_iter().filter(|test| test.is_in(&profile)).collect();
        Self { profile, sizes, family, ways, maximum, tests, flows: one() }
    }

    /// # Errors
    /// The first of them that is impossible.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.profile.check()?;
        if self.sizes.is_empty() {
            return Err(SettingsError::NoSize);
        }
        for (at, &size) in self.sizes.iter().enumerate() {
            let (least, most) = self.family.sizes();
            if !(least..=most).contains(&size) {
                return Err(SettingsError::Size { found: size, least, most, family: self.family });
            }
            if self.sizes[..at].contains(&size) {
                return Err(SettingsError::Twice(size));
            }
            let maximum = self.maximum(size).ok_or(SettingsError::NoMaximum(size))?;
            self.profile.throughput(maximum).map_err(|mistake| SettingsError::Maximum { size, mistake })?;
        }
        if self.tests.is_empty() {
            return Err(SettingsError::NoTest);
        }
        match self.tests.iter().find(|test| !test.is_in(&self.profile)) {
            Some(&test) => Err(SettingsError::Undescribed { test, profile: self.profile.name.clone() }),
            None => Ok(()),
        }
    }

    /// The highest load for frames of this size, in frames per second, one way; `None` if it is not known.
    pub fn maximum(&self, size: u32) -> Option<f64> {
        match &self.maximum {
            Maximum::Line(bits) => Some(bits / wire_bits(f64::from(size))),
            Maximum::Frames(rates) => rates.get(&size).copied(),
        }
    }

    /// The tests of one frame size, in their order.
    pub(super) fn tests_of(&self, size: u32) -> Vec<Test> {
        let is_smallest = self.sizes.iter().all(|other| *other >= size);
        let is_wanted = |test: Test| self.tests.contains(&test) && (test != Test::Reset || is_smallest);
        let needs_throughput = Test::ALL.into_iter().any(|test| is_wanted(test) && test.needs_throughput());
        let is_run = |test: &Test| is_wanted(*test) || (*test == Test::Throughput && needs_throughput);
        Test::ALL.into_iter().filter(is_run).collect()
    }

    /// How other settings differ from these stored ones: a sentence; `None` if they are the same.
    pub fn difference(&self, others: &Settings) -> Option<String> {
        let json = |settings: &Settings| serde_json::to_value(settings).expect("settings are JSON");
        let (key, stored, now) = difference("", &json(self), &json(others))?;
        Some(format!(
            "the stored run has {stored} for {key}, and now it is {now}; repeat the settings of the stored run, or start a new one"
        ))
    }
}

fn one() -> u32 {
    1
}

/// The first value that differs: its key, and both values.
fn difference(key: &str, a: &Value, b: &Value) -> Option<(String, String, String)> {
    if let (Value::Object(a), Value::Object(b)) = (a, b) {
        let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
        let under = |inner: &String| if key.is_empty() { inner.clone() } else { format!("{key}.{inner}") };
        let of = |object: &serde_json::Map<String, Value>, key: &String| object.get(key).cloned().unwrap_or_default();
        return keys.into_iter().find_map(|inner| difference(&under(inner), &of(a, inner), &of(b, inner)));
    }
    let text = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    (a != b).then(|| (key.to_owned(), text(a), text(b)))
}

impl Family {
    /// The smallest and the largest frame that may be asked for: what Ethernet, or IPv6, UDP and the stamp need, and
    /// RFC 5180's.
    fn sizes(self) -> (u32, u32) {
        match self {
            Self::Ipv4 => (64, 9216),
            Self::Ipv6 => (84, 9216),
        }
    }
}

impl Ways {
    /// How many directions frames take.
    pub fn count(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Both => 2,
        }
    }
}

impl Test {
    pub const ALL: [Test; 6] =
        [Test::Throughput, Test::Latency, Test::LossRate, Test::BackToBack, Test::Recovery, Test::Reset];

    /// Whether the profile says how it is run.
    pub fn is_in(self, profile: &Profile) -> bool {
        match self {
            Self::Throughput => true,
            Self::Latency => profile.latency.is_some(),
            Self::LossRate => profile.loss_rate.is_some(),
            Self::BackToBack => profile.back_to_back.is_some(),
            Self::Recovery => profile.recovery.is_some(),
            Self::Reset => profile.reset.is_some(),
        }
    }

    fn needs_throughput(self) -> bool {
        !matches!(self, Self::Throughput | Self::LossRate)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one way",
            Self::Both => "both ways",
        })
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::LossRate => "frame loss rate",
            Self::BackToBack => "back-to-back frames",
            Self::Recovery => "system recovery",
            Self::Reset => "reset",
        })
    }
}
