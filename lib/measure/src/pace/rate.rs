// SPDX-License-Identifier: MIT
//! Rates as people write them: `1Mpps`, `10Gbit/s` on the wire, `50%` of the port's line rate, `line`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes that a frame takes on an Ethernet beyond its own: preamble 7, start of frame 1, gap 12.
pub const OVERHEAD: f64 = 20.0;
/// The lowest rate in frames per second: one frame in a quarter of an hour.
pub const LOWEST: f64 = 1e-3;
/// The highest: more than 64-byte frames on 800 Gbit/s, and ten frames in the clock's ns.
pub const HIGHEST: f64 = 1e10;

/// A rate, one way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Rate {
    /// Frames per second.
    Frames(f64),
    /// Bits per second on the wire: of each frame its bytes with FCS, and [`OVERHEAD`].
    Wire(f64),
    /// Percent of the line rate.
    Percent(f64),
    /// As fast as the port takes frames.
    Line,
}

/// Why a rate cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RateError {
    #[error("\"{0}\" is not a rate; write for example 1Mpps, 10Gbit/s (on the wire), 50% (of the line rate) or line")]
    Syntax(String),
    #[error("the rate \"{0}\" has no unit; write {0}pps for frames, or {0}bit/s for bits on the wire")]
    NoUnit(String),
    #[error("\"{0}\" has the prefix m, which is milli; write M for millions")]
    Milli(String),
    #[error("a rate of {0} cannot be kept; one of 0.001 to 10,000,000,000 frames per second is expected")]
    OutOfRange(String),
    #[error("{0} is more than the line rate; at most 100% can be sent")]
    AbovePercent(Rate),
    #[error("{0} needs the port's line rate, which its driver does not tell; give the rate in pps or bit/s")]
    UnknownLine(Rate),
    #[error(
        "{rate} of {size}-byte frames is {wanted:.4} Gbit/s on the wire, and the port has {line} Gbit/s; ask for at most {most:.0}pps"
    )]
    AboveLine { rate: Rate, size: f64, wanted: f64, line: f64, most: f64 },
    #[error("a burst of no frames cannot be sent; give 1 frame or more")]
    EmptyBurst,
    #[error(
        "the departures need a rate, and \"line\" means as fast as the port takes frames; give a rate in pps, bit/s or percent"
    )]
    NoSchedule,
}

impl Rate {
    /// Frames per second, for frames of `size` bytes with FCS (the mean, where sizes are mixed) on a line of `line`
    /// bits per second, where it is known; `None` for [`Rate::Line`].
    pub fn frames_per_second(self, size: f64, line: Option<f64>) -> Result<Option<f64>, RateError> {
        let bits = wire_bits(size);
        let rate = match self {
            Rate::Line => return Ok(None),
            Rate::Frames(rate) => rate,
            Rate::Wire(rate) => rate / bits,
            Rate::Percent(percent) if percent > 100.0 => return Err(RateError::AbovePercent(self)),
            Rate::Percent(percent) => line.ok_or(RateError::UnknownLine(self))? * percent / 100.0 / bits,
        };
        // Not a NaN either.
        if !(LOWEST..=HIGHEST).contains(&rate) {
            return Err(RateError::OutOfRange(self.to_string()));
        }
        // What is the line rate but for rounding is meant to be it.
        if let Some(line) = line
            && rate * bits > line * (1.0 + 1e-9)
        {
            let most = (line / bits).floor();
            return Err(RateError::AboveLine { rate: self, size, wanted: rate * bits / 1e9, line: line / 1e9, most });
        }
        Ok(Some(rate))
    }
}

/// Bits on the wire of a frame of `size` bytes with FCS.
pub fn wire_bits(size: f64) -> f64 {
    (size + OVERHEAD) * 8.0
}

const PREFIXES: [(&str, f64); 5] = [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)];

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("line") {
            return Ok(Rate::Line);
        }
        let syntax = || RateError::Syntax(text.into());
        if let Some(percent) = text.strip_suffix('%') {
            return checked(Rate::Percent(number(percent).ok_or_else(syntax)?), text);
        }
        let frames = text.strip_suffix("pps");
        let bits = text.strip_suffix("bit/s").or_else(|| text.strip_suffix("bps"));
        let Some(scaled) = frames.or(bits) else {
            return Err(if number(text).is_some() { RateError::NoUnit(text.into()) } else { syntax() });
        };
        let scaled = scaled.trim_end();
        if scaled.ends_with('m') {
            return Err(RateError::Milli(text.into()));
        }
        let (scaled, factor) = match scaled.strip_suffix('K') {
            Some(thousands) => (thousands, 1e3),
            None => PREFIXES
                .iter()
                .find_map(|(prefix, factor)| Some((scaled.strip_suffix(prefix)?, *factor)))
                .ok_or_else(syntax)?,
        };
        let value = number(scaled).ok_or_else(syntax)? * factor;
        checked(if frames.is_some() { Rate::Frames(value) } else { Rate::Wire(value) }, text)
    }
}

/// A plain number: no "inf", "nan" or sign, which Rust would take.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if plain { text.parse().ok() } else { None }
}

fn checked(rate: Rate, text: &str) -> Result<Rate, RateError> {
    let (value, allowed) = match rate {
        Rate::Frames(value) => (value, LOWEST..=HIGHEST),
        // Of the shortest and the longest frames that there may be.
        Rate::Wire(value) => (value, LOWEST * wire_bits(64.0)..=HIGHEST * wire_bits(65536.0)),
        Rate::Percent(value) if value > 100.0 => return Err(RateError::AbovePercent(rate)),
        Rate::Percent(value) => (value, f64::MIN_POSITIVE..=100.0),
        Rate::Line => return Ok(rate),
    };
    if allowed.contains(&value) { Ok(rate) } else { Err(RateError::OutOfRange(text.into())) }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match *self {
            Rate::Frames(value) => (value, "pps"),
            Rate::Wire(value) => (value, "bit/s"),
            Rate::Percent(value) => return write!(f, "{value}%"),
            Rate::Line => return f.write_str("line"),
        };
        // The largest prefix with which the text says the value exactly.
        let fits = |factor: &f64| value >= *factor && value / factor * factor == value;
        let (prefix, factor) = PREFIXES.iter().find(|(_, factor)| fits(factor)).unwrap_or(&("", 1.0));
        write!(f, "{}{prefix}{unit}", value / factor)
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;

    fn try_from(text: String) -> Result<Rate, RateError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> String {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_people_write_them() {
        for (text, rate) in [
            ("1Mpps", Rate::Frames(1e6)),
            ("100kpps", Rate::Frames(1e5)),
            ("14.88 Mpps", Rate::Frames(14.88e6)),
            ("5pps", Rate::Frames(5.0)),
            ("1e6pps", Rate::Frames(1e6)),
            ("2Kpps", Rate::Frames(2000.0)),
            ("10Gbit/s", Rate::Wire(1e10)),
            ("1.5 Gbps", Rate::Wire(1.5e9)),
            ("50%", Rate::Percent(50.0)),
            (" 0.1 % ", Rate::Percent(0.1)),
            ("line", Rate::Line),
            ("LINE", Rate::Line),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
            assert_eq!(rate.to_string().parse(), Ok(rate), "{text}");
        }
        assert_eq!(Rate::Frames(14.88e6).to_string(), "14.88Mpps");
        assert_eq!(serde_json::to_string(&Rate::Wire(1e10)).unwrap(), "\"10Gbit/s\"");
        assert_eq!(serde_json::from_str::<Rate>("\"1Mpps\"").unwrap(), Rate::Frames(1e6));
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, says) in [
            ("", "is not a rate"),
            ("fast", "is not a rate"),
            ("pps", "is not a rate"),
            ("infpps", "is not a rate"),
            ("nan%", "is not a rate"),
            ("-1pps", "is not a rate"),
            ("1Xpps", "is not a rate"),
            ("1MM pps", "is not a rate"),
            ("1000", "write 1000pps for frames"),
            ("1mpps", "M for millions"),
            ("0pps", "cannot be kept"),
            ("0%", "cannot be kept"),
            ("99Tpps", "cannot be kept"),
            ("1e999pps", "cannot be kept"),
            ("101%", "at most 100%"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn of_frames_on_a_line() {
        let ten = Some(1e10);
        let of = |text: &str, size: f64, line| text.parse::<Rate>().unwrap().frames_per_second(size, line);
        assert_eq!(of("100%", 64.0, ten).unwrap().map(|rate| rate as u64), Some(14_880_952));
        assert_eq!(of("10Gbit/s", 64.0, ten).unwrap().map(|rate| rate as u64), Some(14_880_952));
        assert_eq!(of("10Gbit/s", 1518.0, None).unwrap().map(|rate| rate as u64), Some(812_743));
        assert_eq!(of("1Mpps", 64.0, None), Ok(Some(1e6)));
        assert_eq!(of("line", 64.0, ten), Ok(None));
        assert!(of("50%", 64.0, None).unwrap_err().to_string().contains("does not tell"));
        let error = of("20Mpps", 64.0, ten).unwrap_err().to_string();
        assert!(error.contains("13.4400 Gbit/s") && error.contains("at most 14880952pps"), "{error}");
    }

    proptest! {
        /// A rate that a report prints is the one that it was.
        #[test]
        fn what_is_printed_is_read(value in LOWEST..HIGHEST, digits in 0u32..9, kind in 0..3) {
            let scale = 10f64.powi(digits as i32);
            let value = ((value * scale).round() / scale).max(LOWEST);
            let rate = match kind {
                0 => Rate::Frames(value),
                1 => Rate::Wire(value * 1000.0 + 1.0),
                _ => Rate::Percent(value / HIGHEST * 100.0),
            };
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn any_text(text in "[0-9eE.kKMGTm%pbits/ line-]{0,12}") {
            if let Ok(rate) = text.parse::<Rate>() {
                prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            }
        }
    }
}
