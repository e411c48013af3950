// SPDX-License-Identifier: MIT
//! Which measurement is missing if points do not determine a parameter.

use super::design::{Factor, Form, Term};
use crate::points::Point;
use crate::profile::Router;
use std::collections::{BTreeMap, BTreeSet};

/// What is the same in all points, if anything that the term is made of is.
fn constant(term: &Term, points: &[&Point], router: &Router) -> Option<(Factor, f64)> {
    term.factors.iter().find_map(|factor| {
        let first = factor.of(points.first()?, router);
        points.iter().all(|point| factor.of(point, router) == first).then_some((*factor, first))
    })
}

/// Why parameters that the model needs cannot be determined, and what to measure.
pub fn refusal(form: &Form, dropped: &[usize], points: &[&Point], router: &Router) -> String {
    let terms = form.terms();
    let names: Vec<&str> = dropped.iter().map(|&j| terms[j].name).collect();
    // Equation 5 needs two frame sizes on each of two numbers of cores, whichever parameter it is about.
    let asked: Vec<&Term> =
        if *form == Form::Eq7 { terms.iter().collect() } else { dropped.iter().map(|&j| &terms[j]).collect() };
    let mut reasons: Vec<String> = Vec::new();
    for (factor, value) in asked.iter().filter_map(|term| constant(term, points, router)) {
        let reason = format!("all points have {}; {}", factor.say(value), factor.remedy(value));
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    if reasons.is_empty() {
        let (found, remedy) = if *form == Form::Eq7 { eq7_grid(points) } else { together(asked[0], &[], form) };
        reasons.push(format!("{found}; {remedy}"));
    }
    format!("{} cannot be determined: {}", names.join(", "), reasons.join("; "))
}

/// Which corner of Equation 5's grid is missing, of points with several frame sizes and numbers of cores.
fn eq7_grid(points: &[&Point]) -> (String, String) {
    let mut sizes: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for point in points {
        sizes.entry(point.cores).or_default().insert(point.frame_size);
    }
    let all: BTreeSet<u32> = sizes.values().flatten().copied().collect();
    let (k, fewest) = sizes.iter().rev().min_by_key(|(_, sizes)| sizes.len()).expect("a fit has points");
    let other: Vec<String> = all.difference(fewest).map(u32::to_string).collect();
    let cores = if *k == 1 { "1 core".to_owned() } else { format!("{k} cores") };
    (
        "two frame sizes on each of two numbers of cores are needed".to_owned(),
        format!("measure frames of {} bytes on {cores}, too", other.join(" or ")),
    )
}

/// A parameter's factors changed only together with those of others.
fn together(term: &Term, partners: &[usize], form: &Form) -> (String, String) {
    let names = |factors: &mut dyn Iterator<Item = &Factor>| {
        let mut names: Vec<&str> = factors.map(|factor| factor.name()).collect();
        names.dedup();
        names.join(" and ")
    };
    let own = names(&mut term.factors.iter());
    let others = names(&mut partners.iter().flat_map(|&j| form.terms()[j].factors));
    let others = if others.is_empty() { "the others".to_owned() } else { others };
    let remedy = if term.factors == [Factor::Direction] {
        "measure two-way traffic on one more number of cores from 2 on, or one-way and two-way traffic on the same cores \
         (column two_way)"
            .to_owned()
    } else {
        format!("measure with {own} changed and {others} as before")
    };
    (format!("in these points {own} changes only together with {others}"), remedy)
}

/// Why a parameter is held at 0 though the model can do without it, and what to measure.
pub fn held(form: &Form, index: usize, partners: &[usize], points: &[&Point], router: &Router) -> String {
    let term = &form.terms()[index];
    let (found, remedy, reach) = match constant(term, points, router) {
        Some((factor, value)) => {
            let reach = match factor {
                Factor::Cores => ". Predictions for other numbers of cores are guesses",
                Factor::FrameSize => ". Predictions for other frame sizes are guesses",
                Factor::WorkingSet => ". Predictions do not know what a larger table costs",
                Factor::Direction | Factor::Burst | Factor::Punted => "",
            };
            (format!("all points have {}", factor.say(value)), factor.remedy(value), reach)
        }
        None => {
            let (found, remedy) = together(term, partners, form);
            (found, remedy, "")
        }
    };
    let names: Vec<&str> = partners.iter().map(|&j| form.terms()[j].name).collect();
    let inside =
        if names.is_empty() { String::new() } else { format!(" and its part counted in {}", names.join(" and ")) };
    format!("not determined, held at 0{inside}: {found}; {remedy}{reach}")
}
