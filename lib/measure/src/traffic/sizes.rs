// SPDX-License-Identifier: MIT
//! Frame sizes and mixes of them. A size is that of the RFCs: with the 4 bytes of the FCS, without preamble and gap.

use std::fmt;
use std::str::FromStr;

use super::error::TrafficError;
use super::random::Shuffle;
use super::text::as_text;

/// The smallest Ethernet frame in bytes (IEEE 802.3 section 4A.4.2).
pub const SMALLEST: u16 = 64;
/// The largest frame that can be asked for in bytes; it is the largest of RFC 6985.
pub const LARGEST: u16 = 16_000;
/// Bytes of the frame check sequence, which the device adds.
pub const FCS: u16 = 4;

/// The "simple IMIX": sizes and their shares.
const IMIX: [(u16, u32); 3] = [(64, 7), (594, 4), (1518, 1)];

/// The letters of RFC 6985, without z, which is the MTU.
const GENOME: [(char, u16); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16_000),
];

/// The longest period of a mix in frames.
const LONGEST: u64 = 65_536;

const EXPECTED: &str = "a size such as 64, a range 64-1518, a mix 64:7,594:4,1518:1 of sizes and their shares, imix, or \
                        genome:aaaddg with the letters of RFC 6985";

/// The sizes of the frames, and in which order they come.
///
/// ```text
/// 64                   one size
/// 64:7,594:4,1518:1    a mix: of 12 frames in a row, 7 of 64, 4 of 594 and 1 of 1518 bytes, spread evenly
/// imix                 the same
/// 64-1518              every size from the first to the last once, in a random order
/// genome:aaaddg        RFC 6985: a frame per letter, in this order: a 64, b 128, c 256, d 512, e 1024, f 1280, g 1518,
///                      h 2112, i 9000, j 16000
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Sizes and weights, at least one.
    Mix(Vec<(u16, u32)>),
    /// First and last.
    Range(u16, u16),
    /// Letters, at least one.
    Genome(String),
}

impl Sizes {
    /// Frames of one size in bytes.
    ///
    /// # Errors
    /// A size outside [`SMALLEST`] to [`LARGEST`].
    pub fn one(size: u16) -> Result<Sizes, TrafficError> {
        Ok(Sizes(Form::Mix(vec![(check(size.into())?, 1)])))
    }

    /// The simple IMIX: of 12 frames 7 of 64, 4 of 594 and 1 of 1518 bytes.
    pub fn imix() -> Sizes {
        Sizes(Form::Mix(IMIX.to_vec()))
    }

    /// The smallest size in bytes.
    pub fn smallest(&self) -> u16 {
        match &self.0 {
            Form::Mix(mix) => mix.iter().map(|(size, _)| *size).min(),
            Form::Range(first, _) => Some(*first),
            Form::Genome(letters) => letters.chars().filter_map(of_letter).min(),
        }
        .unwrap_or(SMALLEST)
    }

    /// The sizes as a cycle.
    ///
    /// # Errors
    /// A mix whose weights are too large.
    pub(crate) fn cycle(&self, seed: u64) -> Result<Cycle, TrafficError> {
        match &self.0 {
            Form::Mix(mix) => Ok(Cycle { sizes: mix.iter().map(|(size, _)| *size).collect(), pattern: spread(mix)? }),
            Form::Range(first, last) => {
                let sizes: Vec<u16> = (*first..=*last).collect();
                let shuffle = Shuffle::new(sizes.len() as u128, seed);
                let pattern = (0..sizes.len() as u64).map(|at| shuffle.at(at) as u16).collect();
                Ok(Cycle { sizes, pattern })
            }
            Form::Genome(letters) => {
                let mut sizes: Vec<u16> = Vec::new();
                let index = |size| {
                    let known = sizes.iter().position(|known| *known == size);
                    known.unwrap_or_else(|| {
                        sizes.push(size);
                        sizes.len() - 1
                    }) as u16
                };
                let pattern = letters.chars().filter_map(of_letter).map(index).collect();
                Ok(Cycle { sizes, pattern })
            }
        }
    }
}

fn of_letter(letter: char) -> Option<u16> {
    GENOME.iter().find(|(known, _)| *known == letter).map(|(_, size)| *size)
}

/// Sizes and the order that they come in.
pub(crate) struct Cycle {
    /// The sizes that come up, with the FCS.
    pub sizes: Vec<u16>,
    /// Indices into `sizes`, one per frame of a period.
    pub pattern: Vec<u16>,
}

/// A period of a mix in which each size is spread evenly: always the size comes that lags furthest behind its share
/// (the smooth weighted round robin of nginx).
fn spread(mix: &[(u16, u32)]) -> Result<Vec<u16>, TrafficError> {
    let divisor = mix.iter().fold(0, |divisor, (_, weight)| gcd(divisor, u64::from(*weight))).max(1);
    let weights: Vec<i64> = mix.iter().map(|(_, weight)| (u64::from(*weight) / divisor) as i64).collect();
    let total: i64 = weights.iter().sum();
    if total as u64 > LONGEST {
        return Err(TrafficError::Weights { found: total as u64, most: LONGEST });
    }
    let mut lag = vec![0; mix.len()];
    let turn = |_| {
        lag.iter_mut().zip(&weights).for_each(|(lag, weight)| *lag += weight);
        let furthest = (0..lag.len()).rev().max_by_key(|at| lag[*at]).unwrap_or(0);
        lag[furthest] -= total;
        furthest as u16
    };
    Ok((0..total).map(turn).collect())
}

/// The greatest common divisor; that of 0 and a number is the number.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn check(size: u64) -> Result<u16, TrafficError> {
    let wrong = TrafficError::Size { found: size, smallest: SMALLEST, largest: LARGEST };
    u16::try_from(size).ok().filter(|size| (SMALLEST..=LARGEST).contains(size)).ok_or(wrong)
}

impl FromStr for Sizes {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Sizes, TrafficError> {
        if text == "imix" {
            return Ok(Sizes::imix());
        }
        if let Some(letters) = text.strip_prefix("genome:") {
            return match letters.chars().all(|letter| of_letter(letter).is_some())
                && (1..=LONGEST as usize).contains(&letters.len())
            {
                true => Ok(Sizes(Form::Genome(letters.to_owned()))),
                false => Err(TrafficError::text(text, "genome: and letters from a to j; for z, the MTU, write a mix")),
            };
        }
        let wrong = || TrafficError::text(text, EXPECTED);
        let size = |text: &str| check(text.parse().map_err(|_| wrong())?);
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (size(first)?, size(last)?);
            return match first <= last {
                true => Ok(Sizes(Form::Range(first, last))),
                false => Err(TrafficError::Empty { found: text.to_owned() }),
            };
        }
        let part = |part: &str| {
            let (bytes, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight: u32 = weight.parse().map_err(|_| wrong())?;
            if weight == 0 { Err(wrong()) } else { Ok((size(bytes)?, weight)) }
        };
        Ok(Sizes(Form::Mix(text.split(',').map(part).collect::<Result<_, _>>()?)))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Mix(mix) if *mix == IMIX => f.write_str("imix"),
            Form::Mix(mix) if mix.len() == 1 => write!(f, "{}", mix[0].0),
            Form::Mix(mix) => {
                let parts: Vec<String> = mix.iter().map(|(size, weight)| format!("{size}:{weight}")).collect();
                f.write_str(&parts.join(","))
            }
            Form::Range(first, last) => write!(f, "{first}-{last}"),
            Form::Genome(letters) => write!(f, "genome:{letters}"),
        }
    }
}

as_text! { Sizes; }

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn period(text: &str) -> Vec<u16> {
        let cycle = text.parse::<Sizes>().unwrap().cycle(1).unwrap();
        cycle.pattern.iter().map(|index| cycle.sizes[usize::from(*index)]).collect()
    }

    #[test]
    fn texts_are_read_and_written() {
        for text in ["64", "imix", "64:3,1518:1", "64-1518", "genome:aaaf", "9000", "64:1,65:1"] {
            let sizes: Sizes = text.parse().unwrap();
            assert_eq!(sizes.to_string(), text);
            assert_eq!(serde_json::from_str::<Sizes>(&serde_json::to_string(&sizes).unwrap()).unwrap(), sizes);
        }
        assert_eq!("64:7,594:4,1518:1".parse::<Sizes>().unwrap(), Sizes::imix());
        assert_eq!(serde_json::from_str::<Sizes>("128").unwrap(), Sizes::one(128).unwrap());
        assert_eq!(("genome:gab".parse::<Sizes>().unwrap().smallest(), Sizes::imix().smallest()), (64, 64));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<Sizes>().unwrap_err().to_string();
        for text in ["", "x", "64:", ":7", "64:7,", "64:0", "64;7", "-", "64-", "-64", "64:7:1"] {
            assert!(error(text).contains("expected a size such as 64"), "{text}: {}", error(text));
        }
        for text in ["63", "0", "16001", "64-16001", "99999", "64:1,9:1"] {
            assert!(error(text).contains("expected 64 to 16000"), "{text}: {}", error(text));
        }
        assert!(error("1518-64").contains("is empty"));
        assert!(error("genome:aaz").contains("from a to j") && error("genome:").contains("from a to j"));
        let long: Sizes = "64:65536,65:65535".parse().unwrap();
        assert!(long.cycle(1).map(|_| ()).unwrap_err().to_string().contains("131071"));
    }

    /// The genome is the order; the classic mix is spread, and no size comes in a lump.
    #[test]
    fn orders_are_fixed() {
        assert_eq!(period("genome:aabg"), [64, 64, 128, 1518]);
        assert_eq!(period("imix"), [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64]);
    }

    #[test]
    fn a_range_has_each_size_once_and_mixed() {
        let mut sizes = period("64-1518");
        let rising = sizes.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((600..850).contains(&rising), "{rising} of 1454 steps go up");
        sizes.sort_unstable();
        assert_eq!(sizes, (64..=1518).collect::<Vec<u16>>());
    }

    proptest! {
        /// Each size has exactly its share of a period, and nearly so in each beginning of it.
        #[test]
        fn a_mix_is_exact_and_even(weights in prop::collection::vec(1u32..40, 1..6)) {
            let mix: Vec<(u16, u32)> = (64..).zip(weights).collect();
            let pattern = spread(&mix).unwrap();
            let divisor = mix.iter().fold(0, |d, (_, weight)| gcd(d, u64::from(*weight))) as u32;
            let total: u32 = mix.iter().map(|(_, weight)| weight / divisor).sum();
            prop_assert_eq!(pattern.len(), total as usize);
            let mut counts = vec![0u32; mix.len()];
            for (sent, index) in (1..).zip(&pattern) {
                counts[usize::from(*index)] += 1;
                for (count, (_, weight)) in counts.iter().zip(&mix) {
                    let share = f64::from(sent) * f64::from(weight / divisor) / f64::from(total);
                    prop_assert!((f64::from(*count) - share).abs() < mix.len() as f64, "{counts:?} after {sent}");
                }
            }
            prop_assert!(counts.iter().zip(&mix).all(|(count, (_, weight))| *count == weight / divisor));
        }
    }
}
