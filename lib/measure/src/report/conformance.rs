// SPDX-License-Identifier: MIT
//! How far a run follows RFC 2544, and which of its trials may not be trusted.

use serde::{Deserialize, Serialize};

use crate::run::{Family, Settings, Test, TrialRecord, Ways};
use crate::search::profile::{Algorithm, Profile};

/// A trial that may not be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubted {
    /// Which trial of the run, from 1.
    pub trial: usize,
    pub size: u32,
    pub purpose: String,
    /// Why, a sentence each.
    pub why: Vec<String>,
}

/// The trials with doubts. Unsent frames are one if they are more than the profile allows.
pub(super) fn doubted(settings: &Settings, records: &[TrialRecord]) -> Vec<Doubted> {
    let numbered = records.iter().enumerate();
    let all = numbered.map(|(at, record)| Doubted {
        trial: at + 1,
        size: record.size,
        purpose: record.trial.purpose.to_string(),
        why: record.outcome.reasons(settings.profile.trust.unsent),
    });
    all.filter(|doubted| !doubted.why.is_empty()).collect()
}

/// How the settings deviate from RFC 2544, a sentence each.
pub(super) fn deviations(settings: &Settings) -> Vec<String> {
    let mut all = of_run(settings);
    all.extend(throughput(&settings.profile));
    for (test, of) in [
        (Test::Latency, latency as fn(&Profile) -> Vec<String>),
        (Test::LossRate, loss_rate),
        (Test::BackToBack, back_to_back),
        (Test::Recovery, recovery),
    ] {
        if settings.tests.contains(&test) {
            all.extend(of(&settings.profile));
        }
    }
    all
}

fn of_run(settings: &Settings) -> Vec<String> {
    let mut all = vec![];
    let standard: &[u32] = match settings.family {
        Family::Ipv4 => &[64, 128, 256, 512, 1024, 1280, 1518],
        // RFC 5180 section 5.1.1; 64 bytes have no room for IPv6, UDP and a stamp.
        Family::Ipv6 => &[84, 128, 256, 512, 1024, 1280, 1518],
    };
    let missing: Vec<_> = standard.iter().filter(|size| !settings.sizes.contains(size)).map(u32::to_string).collect();
    if !missing.is_empty() {
        all.push(format!("Frames of {} bytes were not measured (section 9.1).", missing.join(", ")));
    }
    if settings.family == Family::Ipv6 && settings.sizes.contains(&84) {
        all.push(
            "84 bytes take the place of 64, which have no room for IPv6, UDP and the tester's stamp (RFC 5180 section 5.1.1)."
                .to_owned(),
        );
    }
    if settings.ways == Ways::One {
        all.push("Frames went one way only; section 14 asks for both ways at once, too.".to_owned());
    }
    let left_out: Vec<_> =
        Test::ALL.iter().filter(|test| !settings.tests.contains(test)).map(Test::to_string).collect();
    if !left_out.is_empty() {
        all.push(format!("Tests that were not asked for: {} (section 26).", left_out.join(", ")));
    }
    let settle = settings.profile.settle;
    all.extend(less("Between learning frames and a trial there were", settle.learning, 2.0, "section 23"));
    all.extend(less("After the last frame of a trial, the tester listened for", settle.drain, 2.0, "section 23"));
    all.extend(less("Between trials there were", settle.pause, 5.0, "section 23"));
    all
}

/// A time or a number that is less than it should be.
fn less(what: &str, found: f64, least: f64, source: &str) -> Option<String> {
    (found < least).then(|| format!("{what} {found} s; {source} asks for {least} s."))
}

fn fewer(what: &str, found: u32, least: u32, source: &str) -> Option<String> {
    (found < least).then(|| format!("{what} {found} times; {source} asks for {least}."))
}

fn throughput(profile: &Profile) -> Vec<String> {
    let plan = &profile.throughput;
    let mut all = vec![];
    for goal in &plan.goals {
        let name = &goal.name;
        let last = format!("Goal {name}: the longest trials lasted");
        all.extend(less(&last, goal.final_duration, 60.0, "section 24"));
        if goal.loss_ratio > 0.0 {
            let percent = goal.loss_ratio * 100.0;
            all.push(format!(
                "Goal {name}: trials may lose {percent} % of their frames; throughput is without loss (section 26.1)."
            ));
        }
        // A binary search has the share of its verification.
        if goal.exceed_ratio > 0.0 && plan.search == Algorithm::Mlr {
            let percent = goal.exceed_ratio * 100.0;
            all.push(format!(
                "Goal {name}: a load passes even if trials that make up {percent} % of the time lose more than that (section 26.1: none)."
            ));
        }
    }
    if let (Algorithm::Verified, Some(verify)) = (plan.search, plan.verify) {
        all.push(format!(
            "A load fails only after {} lossy trials (ETSI GS NFV-TST 009 clause 12.3.3); section 26.1 takes the first.",
            verify.trials
        ));
    }
    all
}

fn latency(profile: &Profile) -> Vec<String> {
    let Some(plan) = &profile.latency else { return vec![] };
    let at_throughput = plan.shares.contains(&1.0);
    let missing = "Latency was not measured at the throughput itself, as section 26.2 asks, but at shares of it.";
    less("Latency trials lasted", plan.duration, 120.0, "section 26.2")
        .into_iter()
        .chain(less("In latency trials, frames were tagged after", plan.tag_after, 60.0, "section 26.2"))
        .chain(fewer("Latency trials were repeated", plan.repeats, 20, "section 26.2"))
        .chain((!at_throughput).then(|| missing.to_owned()))
        .collect()
}

fn loss_rate(profile: &Profile) -> Vec<String> {
    let Some(plan) = profile.loss_rate else { return vec![] };
    less("Trials of the frame loss rate lasted", plan.duration, 60.0, "section 24").into_iter().collect()
}

fn back_to_back(profile: &Profile) -> Vec<String> {
    let Some(plan) = profile.back_to_back else { return vec![] };
    less("The longest bursts lasted", plan.longest, 2.0, "section 26.4")
        .into_iter()
        .chain(fewer("The search for the longest burst was run", plan.repeats, 50, "section 26.4"))
        .chain(less("After a burst, the tester waited for idle buffers for", plan.idle, 2.0, "RFC 9004 section 6.2"))
        .collect()
}

fn recovery(profile: &Profile) -> Vec<String> {
    let Some(plan) = profile.recovery else { return vec![] };
    less("The overload before a recovery lasted", plan.duration, 60.0, "section 26.5").into_iter().collect()
}
