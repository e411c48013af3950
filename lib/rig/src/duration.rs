// SPDX-License-Identifier: MIT
//! How long rounds will take: said before they begin. No clock is read here.

use crate::arrivals::Load;
use crate::request::Request;
use crate::rounds::{LOOK, Manner, TIME, TRIES, WARM, WARM_OWN, first_references};
use std::collections::BTreeSet;
use std::fmt::{Display, Formatter};
use std::time::Duration;

/// What a measurement takes besides its time, and for each of its workers: threads, VMs, packets.
const SETUP: Duration = Duration::from_millis(10);
const SETUP_OF_WORKER: Duration = Duration::from_millis(3);

/// How long it will take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Without repetitions.
    pub least: Duration,
    /// With as many of them as patience allows.
    pub most: Duration,
}

impl Estimate {
    /// With something else that takes so long.
    #[must_use]
    pub fn and(self, more: Duration) -> Estimate {
        Estimate { least: self.least + more, most: self.most + more }
    }
}

/// `about 90 s, up to 3 min where others disturb it`
impl Display for Estimate {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "about {}, up to {} where others disturb it", words(self.least), words(self.most))
    }
}

/// `40 s`, `4 min`
pub fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 95.0 { format!("{:.0} s", seconds.ceil()) } else { format!("{:.0} min", (seconds / 60.0).ceil()) }
}

/// A measurement of this many workers.
fn one(workers: usize, time: Duration) -> Duration {
    SETUP + SETUP_OF_WORKER * workers as u32 + time
}

/// A request between its references.
fn beside(request: &Request) -> Duration {
    let workers = request.cores.len();
    let reference = match request.load {
        Load::Share { .. } => one(workers, WARM_OWN + TIME),
        _ => one(workers, WARM + TIME),
    };
    let looks = if request.load == Load::Saturated { Duration::ZERO } else { 2 * LOOK };
    one(workers, request.warm + request.time) + 2 * reference + looks
}

/// How long several calls of [`in_rounds`](crate::in_rounds) take one after the other, each with these requests.
pub fn estimate(stages: &[Vec<Request>], manner: Manner) -> Estimate {
    let (mut known, mut all) = (BTreeSet::new(), Estimate { least: Duration::ZERO, most: Duration::ZERO });
    for requests in stages {
        let first = first_references(requests);
        let mut least = Duration::ZERO;
        for request in requests.iter().filter(|request| !matches!(request.load, Load::Share { .. })) {
            let workers = request.cores.len();
            if known.insert(workers) {
                least += one(workers, WARM + TIME) * first[usize::from(workers > 1)] as u32;
            }
        }
        let once: Duration = requests.iter().map(beside).sum();
        let rounds = once * u32::try_from(manner.rounds).unwrap_or(u32::MAX);
        let longest = requests.iter().map(beside).max().unwrap_or_default();
        // The last repetition begins while patience lasts.
        let repeated = (manner.patience + longest).min(rounds * (TRIES as u32 - 1));
        all = Estimate { least: all.least + least + rounds, most: all.most + least + rounds + repeated };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn on(workers: usize) -> Request {
        let time = Duration::from_millis(500);
        Request { warm: Duration::ZERO, time, ..Request::new((0..workers).collect()) }
    }

    #[test]
    fn what_is_estimated_grows_with_requests_and_rounds_and_ends_with_patience() {
        let manner = Manner { rounds: 2, seed: 1, patience: MINUTE };
        let of = |workers: &[usize], manner| estimate(&[workers.iter().map(|n| on(*n)).collect()], manner);
        let one = of(&[1], manner);
        assert!((2.0..4.0).contains(&one.least.as_secs_f64()), "{one:?}");
        assert!(one.most < one.least * 6, "nothing is tried more often than six times: {one:?}");
        let many = of(&[1; 200], manner);
        assert!(many.most - many.least < MINUTE + Duration::from_secs(2), "{many:?}");
        assert_eq!(
            of(&[1; 20], Manner { rounds: 4, ..manner }).least - of(&[1; 20], manner).least,
            40 * beside(&on(1))
        );
        // The first references of a number of cores are taken once.
        let twice = estimate(&[vec![on(2)], vec![on(2)]], manner);
        assert!(twice.least < 2 * estimate(&[vec![on(2)]], manner).least - Duration::from_secs(3), "{twice:?}");
    }

    #[test]
    fn first_references_do_not_grow_with_the_numbers_of_cores() {
        let first = |counts: &[usize]| first_references(&counts.iter().map(|n| on(*n)).collect::<Vec<_>>())[1];
        assert_eq!((first(&[1, 2]), first(&[1, 2, 4, 4])), (60, 60));
        let all = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64];
        assert_eq!(first(&all), 20);
        assert!(first(&(2..=64).collect::<Vec<_>>()) == 20);
    }

    #[test]
    fn times_are_words() {
        let of = |seconds| words(Duration::from_millis(seconds));
        assert_eq!(
            (of(39_400), of(94_000), of(100_000), of(600_000)),
            ("40 s".into(), "94 s".into(), "2 min".into(), "10 min".into())
        );
        let estimate = Estimate { least: MINUTE, most: 3 * MINUTE }.and(MINUTE);
        assert_eq!(estimate.to_string(), "about 2 min, up to 4 min where others disturb it");
    }
}
