// SPDX-License-Identifier: MIT
//! How far a profile reaches: the numbers of cores that its points are of, and how well these tell what a further core
//! costs. Contention grows with each core, so a little that is not known of two cores is much on sixteen.

use crate::profile::{Model, Profile};
use serde_json::Value;
use std::collections::BTreeSet;

/// The parameter that a prediction multiplies by the number of further cores.
pub(crate) const FURTHER: &str = "d_ns";

/// What a profile's fit says of numbers of cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach {
    /// Numbers of cores of its points, in rising order; not empty.
    pub measured: Vec<u32>,
    /// The 95 % interval of what a further core costs, in ns, where the points determine it.
    pub interval: Option<[f64; 2]>,
}

impl Reach {
    /// Of a profile whose report says it; what other programs write there may be anything.
    pub fn of(profile: &Profile) -> Option<Reach> {
        let list = |key: &str| profile.fit.as_ref()?.get(key)?.as_array();
        let cores = |point: &Value| u32::try_from(point.get("cores")?.as_u64()?).ok();
        let measured: BTreeSet<u32> = list("points")?.iter().filter_map(cores).collect();
        let parameters = list("parameters").map_or(&[][..], Vec::as_slice);
        let further = parameters.iter().find(|parameter| parameter["name"] == FURTHER);
        let end = |name: &str| further?.get(name)?.as_f64().filter(|ns| ns.is_finite());
        let interval = end("low").zip(end("high")).map(|(low, high)| [low.max(0.0), high.max(0.0)]);
        (!measured.is_empty()).then(|| Reach { measured: measured.into_iter().collect(), interval })
    }

    /// Were fewer cores measured than these?
    pub fn is_beyond(&self, cores: u32) -> bool {
        self.measured.last().is_some_and(|most| cores > *most)
    }

    /// The profile if a further core costs the least that it may, and if it costs the most.
    pub fn ends(&self, profile: &Profile) -> Option<[Profile; 2]> {
        let with = |ns: f64| {
            let mut profile = profile.clone();
            match &mut profile.model {
                Model::Contention { d_ns, .. } | Model::Batch { d_ns, .. } => *d_ns = ns,
                Model::Eq7 { .. } => return None,
            }
            Some(profile)
        };
        let [low, high] = self.interval?;
        Some([with(low)?, with(high)?])
    }

    /// `1, 2 and 4 cores`
    pub fn words(&self) -> String {
        cores(&self.measured)
    }
}

/// `1 core`, `1, 2 and 4 cores`
pub(crate) fn cores(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.split_last() {
        Some((last, [])) => format!("{last} core{}", if last == "1" { "" } else { "s" }),
        Some((last, rest)) => format!("{} and {last} cores", rest.join(", ")),
        None => "no cores".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(fit: &str) -> Profile {
        let text = format!(
            r#"{{"format": "perigee-profile/1", "name": "n", "model": "batch", "parameters": {{"c_batch_ns": 389, "c_packet_ns": 19,
                "c_byte_ns": 0, "miss_ns": 0, "cache_bytes": 0, "d_ns": 359, "u_ns": 0}}, "router": {{}}, "fit": {fit}}}"#
        );
        Profile::parse(&text, "p.json").unwrap()
    }

    #[test]
    fn a_report_says_what_was_measured() {
        let known = profile(
            r#"{"points": [{"cores": 2}, {"cores": 1}, {"cores": 1}, {}], "parameters": [{"name": "d_ns", "low": -3, "high": 506}]}"#,
        );
        let reach = Reach::of(&known).unwrap();
        assert_eq!(reach, Reach { measured: vec![1, 2], interval: Some([0.0, 506.0]) });
        assert!(!reach.is_beyond(2) && reach.is_beyond(3));
        let ends = reach.ends(&known).unwrap().map(|profile| profile.model.parameters()[5]);
        assert_eq!(ends, [("d_ns", 0.0), ("d_ns", 506.0)]);
        for anything in ["{}", "[]", "7", r#"{"points": []}"#, r#"{"points": [{"cores": "many"}], "parameters": {}}"#] {
            assert_eq!(Reach::of(&profile(anything)), None, "{anything}");
        }
        let held =
            profile(r#"{"points": [{"cores": 1}], "parameters": [{"name": "d_ns", "low": null, "high": null}]}"#);
        let reach = Reach::of(&held).unwrap();
        assert_eq!((reach.words(), reach.interval, reach.ends(&held)), ("1 core".to_owned(), None, None));
        assert_eq!((cores(&[1, 2, 4]), cores(&[3])), ("1, 2 and 4 cores".to_owned(), "3 cores".to_owned()));
    }
}
