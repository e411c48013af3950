// SPDX-License-Identifier: MIT
//! Verdicts computed from the samples: each comparison with a publication, its interval, and whether that is narrow
//! enough to tell.
//!
//! A time is the middle one of the rounds', each of which is that of its faster windows at the machine's full pace (the
//! figures take the fastest round, of which there is no interval). Its interval comes from samples drawn again, rounds
//! first and then windows within them, as windows of a round are alike (a bootstrap of clusters, 95 %).
//!
//! A comparison is **not resolved** if its interval is wider than the effect that it is to show: the distance from what
//! was published to what would be there without the effect. Else it agrees if what was published is within the
//! interval, or within 5 % of it, as publications give no intervals; and differs if not.

use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::path::Path;

/// Samples that are drawn again.
const DRAWS: usize = 4000;
const SEED: u64 = 2026;
/// The share of windows that are slower than what counts, as lib/rig has it.
const SLOWER: f64 = 0.8;
/// A pace that is divided out wholly would make a round faster than it was.
const FAST: f64 = 0.9;
/// What publications may be off by.
const TOLERANCE: f64 = 0.05;

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Agrees,
    Differs,
    NotResolved,
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::NotResolved => "not resolved",
        })
    }
}

/// A comparison, and what the data say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub figure: &'static str,
    pub what: String,
    pub published: f64,
    pub here: f64,
    /// 95 %.
    pub interval: (f64, f64),
    pub verdict: Verdict,
}

/// `published` against an interval, where `without` would be there without the effect.
pub fn judge(published: f64, without: f64, (low, high): (f64, f64)) -> Verdict {
    if high - low > (published - without).abs() {
        return Verdict::NotResolved;
    }
    let slack = TOLERANCE * published.abs();
    let agrees = (low - slack..=high + slack).contains(&published);
    if agrees { Verdict::Agrees } else { Verdict::Differs }
}

/// The samples of a condition: windows by round, each a time in ns at full pace.
type Rounds = Vec<Vec<f64>>;

/// A figure's samples by the cells in front of them.
struct Samples(BTreeMap<Vec<String>, Rounds>);

impl Samples {
    /// Reads `raw.csv` as [`super::moonroute::raw_table`] has it.
    fn read(folder: &Path) -> Result<Samples> {
        let file = folder.join("raw.csv");
        let text = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let mut all: BTreeMap<Vec<String>, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            ensure!(cells.len() > 4, "{}: found {line:?}, expected keys, round, window, mpps, pace", file.display());
            let (keys, rest) = cells.split_at(cells.len() - 4);
            let number = |at: usize| rest[at].parse::<f64>().with_context(|| format!("{}: {line:?}", file.display()));
            let ns = 1e3 / (number(2)? / number(3)?.clamp(FAST, 1.0 / FAST));
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            all.entry(keys).or_default().entry(number(0)? as u32).or_default().push(ns);
        }
        Ok(Samples(all.into_iter().map(|(keys, rounds)| (keys, rounds.into_values().collect())).collect()))
    }

    fn of(&self, keys: &[&str]) -> Result<&Rounds> {
        self.0.get(&keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()).with_context(|| {
            let known: Vec<String> = self.0.keys().map(|keys| keys.join(" ")).collect();
            format!("found no samples of {}, but of {}", keys.join(" "), known.join("; "))
        })
    }
}

/// ns of a packet.
fn time(rounds: &Rounds) -> f64 {
    let mut each: Vec<f64> = rounds.iter().map(|windows| quantile(windows.clone(), 1.0 - SLOWER)).collect();
    each.sort_by(f64::total_cmp);
    match each.len() {
        0 => f64::NAN,
        n => 0.5 * (each[(n - 1) / 2] + each[n / 2]),
    }
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (share * values.len() as f64).ceil() as usize;
    values.get(at.saturating_sub(1).min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Splitmix64: the same draws each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    fn again(&mut self, rounds: &Rounds) -> Rounds {
        (0..rounds.len())
            .map(|_| {
                let windows = &rounds[self.below(rounds.len())];
                (0..windows.len()).map(|_| windows[self.below(windows.len())]).collect()
            })
            .collect()
    }
}

/// An effect of some conditions' times, and its interval.
fn effect(conditions: &[&Rounds], of: impl Fn(&[f64]) -> f64) -> (f64, (f64, f64)) {
    let here = of(&conditions.iter().map(|rounds| time(rounds)).collect::<Vec<_>>());
    let mut draws = Draws(SEED);
    let mut all: Vec<f64> = (0..DRAWS)
        .map(|_| of(&conditions.iter().map(|rounds| time(&draws.again(rounds))).collect::<Vec<_>>()))
        .collect();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((share * DRAWS as f64) as usize).min(DRAWS - 1)];
    (here, (at(0.025), at(0.975)))
}

/// What a comparison is made of.
struct Comparison {
    figure: &'static str,
    what: &'static str,
    published: f64,
    /// What would be there without the effect.
    without: f64,
    /// The cells of its conditions.
    conditions: &'static [&'static [&'static str]],
    of: fn(&[f64]) -> f64,
}

const IO: [&[&str]; 4] = [
    &["af_packet", "poptrie  one by one"],
    &["af_packet", "DXR"],
    &["memory", "poptrie  one by one"],
    &["memory", "DXR"],
];

/// Shares and ratios, as absolute figures of other machines do not compare. A flat curve would rise or fall by a tenth
/// if it were not.
const COMPARISONS: [Comparison; 12] = [
    Comparison {
        figure: "moonroute-sizes",
        what: "rate at 544 bytes of that at 64, one network: flat",
        published: 1.0,
        without: 0.9,
        conditions: &[&["1", "544"], &["1", "64"]],
        of: inverse_ratio,
    },
    Comparison {
        figure: "moonroute-sizes",
        what: "the same with 2^20 networks",
        published: 1.0,
        without: 0.9,
        conditions: &[&["1048576", "544"], &["1048576", "64"]],
        of: inverse_ratio,
    },
    Comparison {
        figure: "moonroute-clock",
        what: "ns more with 2^21 networks than with one (published: 2^24)",
        published: 14.0,
        without: 0.0,
        conditions: &[&["dir24", "2097152"], &["dir24", "1"]],
        of: difference,
    },
    Comparison {
        figure: "moonroute-workers",
        what: "two workers of one, one network",
        published: 1.95,
        without: 1.0,
        conditions: &[&["1", "2"], &["1", "1"]],
        of: inverse_ratio,
    },
    Comparison {
        figure: "moonroute-workers",
        what: "two workers of one, 2^20 networks (published: 2^24)",
        published: 2.02,
        without: 1.0,
        conditions: &[&["1048576", "2"], &["1048576", "1"]],
        of: inverse_ratio,
    },
    Comparison {
        figure: "moonroute-routes",
        what: "rate with 2^20 networks of that with one, DIR-24-8",
        published: 0.995,
        without: 0.8,
        conditions: &[&["dir24", "1048576"], &["dir24", "1"]],
        of: inverse_ratio,
    },
    Comparison {
        figure: "moonroute-batches",
        what: "rate of receive bursts of 1 of that of 128, transmit bursts of 32",
        published: 0.224,
        without: 1.0,
        conditions: &[&["1", "32"], &["128", "32"]],
        of: inverse_ratio,
    },
    Comparison {
        figure: "mswitch-io-lookup",
        what: "DXR saves of a packet's time, over af_packet",
        published: 0.139,
        without: 0.0,
        conditions: &[IO[0], IO[1]],
        of: saved,
    },
    Comparison {
        figure: "mswitch-io-lookup",
        what: "DXR saves of a packet's time, in memory",
        published: 0.198,
        without: 0.0,
        conditions: &[IO[2], IO[3]],
        of: saved,
    },
    Comparison {
        figure: "mswitch-io-lookup",
        what: "savings add up: what DXR saves over af_packet, of what it saves in memory",
        published: 0.96,
        without: 0.0,
        conditions: &IO,
        of: |t| (t[0] - t[1]) / (t[2] - t[3]),
    },
    Comparison {
        figure: "mswitch-breakdown",
        what: "the lookup's share of a packet's time, DXR",
        published: 0.12,
        without: 0.0,
        conditions: &[&["dxr20", "valid"], &["dxr20", "lookup"], &["dxr20", "distribute"]],
        of: |t| (t[1] - t[0]) / t[2],
    },
    Comparison {
        figure: "mswitch-breakdown",
        what: "input's and output's headers' share (classify, distribute), DXR; there Ethernet input, output and ARP",
        published: 0.62,
        without: 0.0,
        conditions: &[&["dxr20", "receive"], &["dxr20", "classify"], &["dxr20", "apply"], &["dxr20", "distribute"]],
        of: |t| (t[1] - t[0] + t[3] - t[2]) / t[3],
    },
];

fn inverse_ratio(times: &[f64]) -> f64 {
    times[1] / times[0]
}

fn difference(times: &[f64]) -> f64 {
    times[0] - times[1]
}

fn saved(times: &[f64]) -> f64 {
    (times[0] - times[1]) / times[0]
}

/// Judges what is in a folder of results, in the order of the page. What is not there is left out.
///
/// # Errors
/// Samples that are not as the figures write them.
pub fn all(folder: &Path) -> Result<Vec<Judged>> {
    let mut judged = Vec::new();
    for Comparison { figure, what, published, without, conditions, of } in &COMPARISONS {
        let folder = folder.join(figure);
        if !folder.join("raw.csv").exists() {
            continue;
        }
        let samples = Samples::read(&folder)?;
        let rounds: Result<Vec<&Rounds>> = conditions.iter().map(|keys| samples.of(keys)).collect();
        let (here, interval) = effect(&rounds.with_context(|| format!("{figure}, {what}"))?, of);
        let verdict = judge(*published, *without, interval);
        judged.push(Judged { figure, what: (*what).to_owned(), published: *published, here, interval, verdict });
    }
    Ok(judged)
}

/// As a table of Markdown.
pub fn markdown(judged: &[Judged]) -> String {
    let mut text =
        "| figure | compared | published | here | 95 % | verdict |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
    for one in judged {
        let Judged { figure, what, published, here, interval: (low, high), verdict } = one;
        let [published, here, low, high] = [*published, *here, *low, *high].map(short);
        text += &format!("| {figure} | {what} | {published} | {here} | {low} to {high} | {verdict} |\n");
    }
    text
}

fn short(value: f64) -> String {
    if value.abs() >= 10.0 { format!("{value:.1}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- verdicts: computed by `./x evaluate --verdicts docs/evaluation` -->\n\n";
    const END: &str = "\n<!-- end of verdicts -->";

    /// "Savings add up: agrees", where the interval of the saving was -12 to +25 ns and the saving 2.3.
    #[test]
    fn a_comparison_whose_interval_is_wider_than_its_effect_is_not_resolved() {
        assert_eq!(judge(13.0, 0.0, (-12.0, 25.0)), Verdict::NotResolved);
        assert_eq!(judge(13.0, 0.0, (11.0, 15.0)), Verdict::Agrees);
        assert_eq!(judge(13.0, 0.0, (2.0, 5.0)), Verdict::Differs);
        assert_eq!(judge(1.0, 0.9, (0.97, 1.02)), Verdict::Agrees);
        assert_eq!(judge(1.0, 0.9, (0.8, 1.1)), Verdict::NotResolved);
    }

    #[test]
    fn intervals_hold_what_samples_are_drawn_from() {
        let mut draws = Draws(7);
        // Times of 100 ns, rounds apart by 2 %, windows by 1 %.
        let mut rounds = |count: usize| -> Rounds {
            let apart = |draws: &mut Draws, share: f64| 1.0 + share * (draws.below(1000) as f64 / 500.0 - 1.0);
            (0..count)
                .map(|_| {
                    let of_round = 100.0 * apart(&mut draws, 0.02);
                    (0..10).map(|_| of_round * apart(&mut draws, 0.01)).collect()
                })
                .collect()
        };
        let held = (0..100).filter(|_| {
            let (one, other) = (rounds(8), rounds(8));
            let (_, (low, high)) = effect(&[&one, &other], inverse_ratio);
            (low..=high).contains(&1.0)
        });
        let held = held.count();
        assert!(held >= 85, "{held} of 100");
    }

    /// The page says what its data say.
    #[test]
    fn the_page_has_the_verdicts_that_its_data_say() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = std::fs::read_to_string(docs.join("evaluation.md")).unwrap();
        let (_, rest) = page.split_once(BEGIN).expect("the mark where verdicts begin");
        let (block, _) = rest.split_once(END).expect("the mark where they end");
        let computed = markdown(&all(&docs.join("evaluation")).unwrap());
        assert_eq!(block, computed, "renew it: ./x evaluate --verdicts docs/evaluation");
    }
}
