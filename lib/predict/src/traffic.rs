// SPDX-License-Identifier: MIT
//! Traffic: rates, frame sizes and numbers of cores, as written on a command line.

use crate::number::prefixed;
use crate::service::wire_bits;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The frame sizes accepted, in bytes, from Ethernet header to frame check sequence.
pub const FRAMES: std::ops::RangeInclusive<u32> = 64..=9216;
/// The most cores accepted.
pub const MAX_CORES: u32 = 64;
/// The most sizes in a mix.
const MAX_SIZES: usize = 64;
/// The highest rate accepted, in bit/s: far beyond any router, and far below what would lose precision.
const MAX_RATE: f64 = 1e15;

/// A word that cannot be understood: what was found and what was expected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("found {found}, expected {expected}")]
pub struct Mistake {
    /// What was found.
    pub found: String,
    /// What was expected, with an example.
    pub expected: String,
}

/// A [`Mistake`] from its two sides.
pub(crate) fn mistake(found: impl fmt::Display, expected: impl Into<String>) -> Mistake {
    // It is printed on terminals.
    let mut found = found.to_string().replace(char::is_control, "?");
    if found.trim().is_empty() {
        found = "nothing".to_owned();
    }
    // A whole file given by mistake must not fill the screen.
    if found.chars().count() > 60 {
        found = found.chars().take(57).chain("...".chars()).collect();
    }
    Mistake { found, expected: expected.into() }
}

/// An offered rate, all ports together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Bits per second on the wire: each frame with its preamble, start and gap, 20 bytes (IEEE 802.3).
    Bits(f64),
    /// Packets per second.
    Packets(f64),
}

impl Rate {
    /// Packets per second, with these sizes.
    pub fn pps(self, sizes: &Sizes) -> f64 {
        match self {
            Self::Bits(rate) => rate / sizes.mean_wire_bits(),
            Self::Packets(rate) => rate,
        }
    }

    /// Gbit/s on the wire, with these sizes.
    pub fn gbps(self, sizes: &Sizes) -> f64 {
        match self {
            Self::Bits(rate) => rate / 1e9,
            Self::Packets(rate) => rate * sizes.mean_wire_bits() / 1e9,
        }
    }
}

/// `10G`, `800M`, `2.5Gbit/s` on the wire; `5Mpps`, `14880952pps`. Prefixes are powers of 1000.
impl FromStr for Rate {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || mistake(text, "a rate > 0 with its unit: 10G, 800M (bit/s on the wire) or 5Mpps, 800kpps");
        let word = text.trim();
        let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
        let (number, unit) = word.split_at(end);
        let unit = unit.trim();
        let (prefix, packets) = match unit.strip_suffix("pps") {
            Some(prefix) => (prefix, true),
            None => {
                let bits = ["bit/s", "bps", "b/s"].into_iter().find_map(|end| unit.strip_suffix(end));
                if bits.is_none() && unit.is_empty() {
                    return Err(wrong());
                }
                (bits.unwrap_or(unit), false)
            }
        };
        let factor = match prefix {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            _ => return Err(wrong()),
        };
        let value = number.parse::<f64>().map_err(|_| wrong())? * factor;
        if !(value > 0.0 && value <= MAX_RATE) {
            return Err(wrong());
        }
        Ok(if packets { Self::Packets(value) } else { Self::Bits(value) })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Self::Bits(rate) => write!(f, "{}bit/s", prefixed(rate)),
            Self::Packets(rate) => write!(f, "{}pps", prefixed(rate)),
        }
    }
}

/// A mix of frame sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    entries: Vec<(u32, f64)>,
    text: String,
}

/// The simple IMIX: of 12 frames 7 have 64 bytes, 4 have 570, one has 1518; as FD.io's CSIT sends it. RFC 6985 gives
/// mixes names, letter by letter, but prefers none.
pub const IMIX: [(u32, f64); 3] = [(64, 7.0), (570, 4.0), (1518, 1.0)];

impl Sizes {
    /// Sizes in bytes, with the share of packets that have each; shares add up to 1.
    pub fn entries(&self) -> &[(u32, f64)] {
        &self.entries
    }

    /// A mean packet on the wire, in bits, with its 20 bytes around the frame.
    pub fn mean_wire_bits(&self) -> f64 {
        self.entries.iter().map(|&(size, share)| share * wire_bits(size)).sum()
    }

    /// A mean frame, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.entries.iter().map(|&(size, share)| share * f64::from(size)).sum()
    }

    /// Frames of one size.
    pub fn one(size: u32) -> Self {
        Self::new(&[(size, 1.0)], &size.to_string())
    }

    fn new(weighted: &[(u32, f64)], text: &str) -> Self {
        let all: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        Self { entries: weighted.iter().map(|&(size, weight)| (size, weight / all)).collect(), text: text.to_owned() }
    }
}

/// `64`, `imix`, or sizes with weights: `64:7,594:4,1518:1`.
impl FromStr for Sizes {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        // The text is repeated in reports: without its spaces, line ends and tabs.
        let word: String = text.split_whitespace().collect();
        let word = word.as_str();
        if word.eq_ignore_ascii_case("imix") {
            return Ok(Self::new(&IMIX, "imix"));
        }
        let mut weighted: Vec<(u32, f64)> = Vec::new();
        for part in word.split(',') {
            let wrong = || {
                let (least, most) = (FRAMES.start(), FRAMES.end());
                mistake(
                    part,
                    format!("imix, a frame size of {least} to {most} bytes, or sizes with weights > 0: 64:7,1518:1"),
                )
            };
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let size = size.trim().parse().ok().filter(|size| FRAMES.contains(size)).ok_or_else(wrong)?;
            let weight = weight.trim().parse().ok().filter(|weight| (1e-9..=1e9).contains(weight)).ok_or_else(wrong)?;
            if weighted.iter().any(|&(known, _)| known == size) {
                return Err(mistake(format!("{size} bytes twice in {word}"), "each frame size once"));
            }
            weighted.push((size, weight));
        }
        if weighted.len() > MAX_SIZES {
            return Err(mistake(format!("{} frame sizes", weighted.len()), format!("at most {MAX_SIZES}")));
        }
        Ok(Self::new(&weighted, word))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.text.parse::<u32>() {
            Ok(size) => write!(f, "{size} B"),
            Err(_) => write!(f, "{} (mean {:.0} B)", self.text, self.mean_bytes()),
        }
    }
}

/// Numbers of cores, ascending, each once.
#[derive(Clone, Debug, PartialEq)]
pub struct Cores(Vec<u32>);

impl Cores {
    /// The numbers.
    pub fn counts(&self) -> &[u32] {
        &self.0
    }
}

/// `4`, `1..16` (both ends count), `1,2,4..8`.
impl FromStr for Cores {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let mut counts = Vec::new();
        for part in text.split(',') {
            let wrong = || {
                let expected = format!("a number of cores, 1 to {MAX_CORES}, a range 1..16 or a list 1,2,4");
                mistake(part, expected)
            };
            let count = |text: &str| {
                let count = text.trim().parse().ok();
                count.filter(|count| (1..=MAX_CORES).contains(count)).ok_or_else(wrong)
            };
            let (from, to) = part.split_once("..").unwrap_or((part, part));
            let (from, to) = (count(from)?, count(to.strip_prefix('=').unwrap_or(to))?);
            if from > to {
                return Err(mistake(part, format!("the smaller number first: {to}..{from}")));
            }
            counts.extend(from..=to);
        }
        counts.sort_unstable();
        counts.dedup();
        Ok(Self(counts))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut first = true;
        let mut rest = &self.0[..];
        while let Some(&from) = rest.first() {
            let run = rest.iter().zip(from..).take_while(|&(&count, next)| count == next).count();
            f.write_str(if first { "" } else { "," })?;
            match run {
                1 => write!(f, "{from}")?,
                _ => write!(f, "{from}..{}", rest[run - 1])?,
            }
            first = false;
            rest = &rest[run..];
        }
        Ok(())
    }
}

/// How packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At random and independently of each other, as from many users.
    Poisson,
    /// Evenly spaced, as from test equipment.
    Constant,
}

impl FromStr for Arrivals {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        match text {
            "poisson" => Ok(Self::Poisson),
            "constant" => Ok(Self::Constant),
            _ => Err(mistake(text, "poisson or constant")),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A word with control characters commanded the terminal that its refusal was printed on.
    #[test]
    fn a_refusal_quotes_no_control_characters() {
        let said = "10\u{1b}[2JG\n".parse::<Rate>().unwrap_err().to_string();
        assert!(said.starts_with("found 10?[2JG?, expected a rate"), "{said}");
    }

    #[test]
    fn rates_have_units() {
        assert_eq!("10G".parse(), Ok(Rate::Bits(10e9)));
        assert_eq!("2.5 Gbit/s".parse(), Ok(Rate::Bits(2.5e9)));
        assert_eq!("800Mbps".parse(), Ok(Rate::Bits(8e8)));
        assert_eq!("5Mpps".parse(), Ok(Rate::Packets(5e6)));
        assert_eq!("14880952pps".parse(), Ok(Rate::Packets(14_880_952.0)));
        for wrong in ["", "10", "-1G", "0G", "G", "pps", "1e3G", "10X", "1.2.3G", "NaNG", "infG", "10 G G", "9999T"] {
            let said = wrong.parse::<Rate>().unwrap_err().to_string();
            assert!(said.starts_with("found ") && said.contains("10G"), "{wrong:?}: {said}");
        }
        assert_eq!("".parse::<Rate>().unwrap_err().found, "nothing");
    }

    /// RFC 2544's figure: 14,880,952 frames of 64 bytes fill 10 Gbit/s.
    #[test]
    fn a_rate_counts_the_gap_between_frames() {
        let sizes: Sizes = "64".parse().unwrap();
        assert_eq!(Rate::Bits(10e9).pps(&sizes).floor(), 14_880_952.0);
        assert_eq!(Rate::Packets(1e6).gbps(&sizes), 0.672);
        assert_eq!(Rate::Bits(10e9).to_string(), "10 Gbit/s");
        assert_eq!(Rate::Packets(14_880_952.0).to_string(), "14.88 Mpps");
    }

    #[test]
    fn mixes_have_weights() {
        let imix: Sizes = "imix".parse().unwrap();
        assert_eq!(imix, Sizes::new(&IMIX, "imix"));
        assert!((imix.mean_bytes() - (7.0 * 64.0 + 4.0 * 570.0 + 1518.0) / 12.0).abs() < 1e-9);
        let two: Sizes = "64:3,1518:1".parse().unwrap();
        assert_eq!(two.entries(), [(64, 0.75), (1518, 0.25)]);
        assert_eq!("64,128".parse::<Sizes>().unwrap().entries(), [(64, 0.5), (128, 0.5)]);
        for wrong in ["", "63", "9217", "64:0", "64:-1", "64:x", "64:1,", "64,64", "64:1e99", "64:NaN", "mix"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong:?}");
        }
        let many = (64..200).map(|size| size.to_string()).collect::<Vec<_>>().join(",");
        assert!(many.parse::<Sizes>().unwrap_err().to_string().contains("at most 64"));
    }

    #[test]
    fn cores_are_numbers_ranges_and_lists() {
        let counts = |text: &str| text.parse::<Cores>().unwrap();
        assert_eq!(counts("4").counts(), [4]);
        assert_eq!(counts("1..3").counts(), [1, 2, 3]);
        assert_eq!(counts("8,1,2..4,3").counts(), [1, 2, 3, 4, 8]);
        assert_eq!(counts("8,1,2..4,3").to_string(), "1..4,8");
        for wrong in ["", "0", "65", "4..1", "1..", "..4", "1,,2", "1-4", "-1", "1...4", "1..99999999999"] {
            assert!(wrong.parse::<Cores>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn numbers_are_short() {}

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC{0,20}") {
            let _ = (text.parse::<Rate>(), text.parse::<Sizes>(), text.parse::<Cores>(), text.parse::<Arrivals>());
        }

        #[test]
        fn texts_that_are_nearly_right(text in "[0-9]{0,3}[.:,x]{0,3}[0-9]{0,2}[kMGT ]?(bit/s|pps)?") {
            if let Ok(rate) = text.parse::<Rate>() {
                let sizes = "64".parse::<Sizes>().unwrap();
                prop_assert!(rate.pps(&sizes) > 0.0 && rate.gbps(&sizes).is_finite());
            }
            if let Ok(sizes) = text.parse::<Sizes>() {
                prop_assert!((sizes.entries().iter().map(|e| e.1).sum::<f64>() - 1.0).abs() < 1e-9);
            }
            if let Ok(cores) = text.parse::<Cores>() {
                prop_assert_eq!(cores.to_string().parse::<Cores>().unwrap(), cores);
            }
        }
    }
}
