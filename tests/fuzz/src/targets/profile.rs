// SPDX-License-Identifier: MIT
//! What `perigee predict` reads: profiles, measured points, and the words of the command line. What is accepted is written and read again
//! as the same, and questions about it have answers of finite numbers; what is not is refused in a sentence.

use crate::input::Input;
use crate::sentence;
use perigee_predict::answer::{Question, Simulate, answer};
use perigee_predict::capacity::Traffic;
use perigee_predict::fit::{Options, fit};
use perigee_predict::objective::Objective;
use perigee_predict::traffic::{Arrivals, Cores, Rate, Sizes};
use perigee_predict::{Profile, points, verify};
use std::fmt::Display;
use std::str::FromStr;

/// Points beyond which a fit is only slow.
const MOST_POINTS: usize = 40;

/// Runs one input: what it is, then its text.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.below(4) {
        0 | 1 => profile(&mut input),
        2 => measured(input.rest()),
        _ => words(&String::from_utf8_lossy(input.rest())),
    }
}

/// A profile, and a question about it.
fn profile(input: &mut Input) {
    let (cores, rate, size) = (1 + input.below(8), 1 + input.below(200), 64 + input.below(1400));
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    let profile = match Profile::parse(&text, "fuzz.json") {
        Ok(profile) => profile,
        Err(error) => return sentence::check(&error.to_string()),
    };
    let written = profile.to_json();
    let again = Profile::parse(&written, "again.json").unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again, profile, "written and read again, it is another profile\n{written}");
    // Rings and bursts of thousands make the closed forms large, not different.
    if profile.router.burst > 64 {
        return;
    }
    let question = Question {
        profile,
        rate: Rate::from_str(&format!("{rate}00Mbps")).expect("a rate"),
        traffic: Traffic {
            sizes: Sizes::from_str(&size.to_string()).expect("a size"),
            flows: 100,
            directions: 2,
            arrivals: Arrivals::Poisson,
        },
        cores: Cores::from_str(&cores.to_string()).expect("a number of cores"),
        objective: None,
        simulate: Simulate::Never,
        seed: 1,
        packets: 1000,
    };
    match answer(&question, None, &|_, _| {}) {
        Ok(answer) => {
            sentence::check(&answer.sentence);
            for row in &answer.rows {
                let figures = [row.capacity_pps, row.capacity_gbps];
                assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{row:?}");
            }
            serde_json::to_string(&answer).expect("an answer has a JSON");
        }
        Err(error) => sentence::check(&error.to_string()),
    }
}

/// Measured points, fitted, and the fit compared with them.
fn measured(text: &[u8]) {
    let points = match points::parse(text, "fuzz.csv") {
        Ok(points) => points,
        // A line of the message for each line that is wrong.
        Err(error) => return sentence::check_lines(&error.to_string()),
    };
    if points.len() > MOST_POINTS {
        return;
    }
    match fit(&points, "fuzz.csv", &Options::default()) {
        Ok(fit) => {
            let written = fit.profile.to_json();
            let again = Profile::parse(&written, "fit.json").unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(again, fit.profile, "written and read again, a fit is another profile\n{written}");
            if let Err(error) = verify::verify(&fit.profile, &points, "fuzz.csv") {
                sentence::check(&error.to_string());
            }
        }
        Err(error) => sentence::check(&error.to_string()),
    }
}

/// The words of a command line.
fn words(text: &str) {
    said(text.parse::<Rate>());
    said(text.parse::<Sizes>());
    said(text.parse::<Cores>());
    said(text.parse::<Objective>());
}

fn said<T: Display, E: Display>(parsed: Result<T, E>) {
    match parsed {
        Ok(value) => sentence::check(&value.to_string()),
        Err(error) => sentence::check(&error.to_string()),
    }
}
