// SPDX-License-Identifier: MIT
//! A test at one frame size: one of the searches, and whatever may be asked of all of them.

use super::settings::{Settings, Test};
use crate::search::back_to_back::BackToBack;
use crate::search::latency::Latency;
use crate::search::loss_rate::LossRate;
use crate::search::recovery::{Recovery, Reset};
use crate::search::throughput::{Found, Throughput, Verdict};
use crate::search::{Left, Likely, Method as _, Mismatch, Outcome, Search, Trial};

/// A test at one frame size, and its progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// In bytes, with the FCS.
    pub size: u32,
    pub searching: Searching,
}

/// A search of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Searching {
    Throughput(Search<Throughput>),
    Latency(Search<Latency>),
    LossRate(Search<LossRate>),
    BackToBack(Search<BackToBack>),
    Recovery(Search<Recovery>),
    Reset(Search<Reset>),
}

macro_rules! each {
    ($searching:expr, $search:ident => $what:expr) => {
        match $searching {
            Searching::Throughput($search) => $what,
            Searching::Latency($search) => $what,
            Searching::LossRate($search) => $what,
            Searching::BackToBack($search) => $what,
            Searching::Recovery($search) => $what,
            Searching::Reset($search) => $what,
        }
    };
}

impl Stage {
    /// The test at this size, before its first trial. `throughput` is that of this size.
    ///
    /// # Errors
    /// Why it cannot be run: the end of a sentence, such as "there is no throughput".
    pub(super) fn new(
        settings: &Settings,
        size: u32,
        test: Test,
        throughput: Option<Measured>,
    ) -> Result<Self, &'static str> {
        let (profile, maximum) = (&settings.profile, settings.maximum(size).ok_or("it has no maximum rate")?);
        let none = Measured { rate: 0.0, tester: None, is_bound: false };
        let Measured { rate, tester, is_bound } = throughput.unwrap_or(none);
        if rate <= 0.0 && !matches!(test, Test::Throughput | Test::LossRate) {
            return Err("no throughput was found");
        }
        let reachable = tester.map_or(maximum, |tester| tester.min(maximum));
        if is_bound && matches!(test, Test::BackToBack | Test::Recovery) {
            return Err("the throughput is a lower bound, so what exceeds it need not overload the device");
        }
        if rate >= reachable && matches!(test, Test::BackToBack | Test::Recovery) {
            return Err("the throughput is the highest rate that can be sent, so the device cannot be overloaded");
        }
        let undescribed = "the profile does not describe it";
        let searching = match test {
            Test::Throughput => Searching::Throughput(Search::new(
                profile.throughput(maximum).map_err(|_| "its maximum rate is too low")?,
            )),
            Test::Latency => Searching::Latency(Search::new(profile.latency(rate).ok_or(undescribed)?)),
            Test::LossRate => Searching::LossRate(Search::new(profile.loss_rate(maximum).ok_or(undescribed)?)),
            Test::BackToBack => {
                Searching::BackToBack(Search::new(profile.back_to_back(reachable, rate).ok_or(undescribed)?))
            }
            Test::Recovery => Searching::Recovery(Search::new(profile.recovery(reachable, rate).ok_or(undescribed)?)),
            Test::Reset => Searching::Reset(Search::new(profile.reset(rate).ok_or(undescribed)?)),
        };
        Ok(Self { size, searching })
    }

    pub fn test(&self) -> Test {
        match self.searching {
            Searching::Throughput(_) => Test::Throughput,
            Searching::Latency(_) => Test::Latency,
            Searching::LossRate(_) => Test::LossRate,
            Searching::BackToBack(_) => Test::BackToBack,
            Searching::Recovery(_) => Test::Recovery,
            Searching::Reset(_) => Test::Reset,
        }
    }

    /// The next trial, or `None` at the end.
    pub fn next(&self) -> Option<Trial> {
        each!(&self.searching, search => search.next())
    }

    pub fn outcomes(&self) -> &[Outcome] {
        each!(&self.searching, search => search.outcomes())
    }

    pub(super) fn report(&mut self, outcome: Outcome) -> Result<(), Mismatch> {
        each!(&mut self.searching, search => search.report(outcome))
    }

    pub(super) fn left(&self, around: f64) -> Left {
        each!(&self.searching, search => search.left(around))
    }

    pub(super) fn likely(&self) -> Likely {
        each!(&self.searching, search => search.method().likely(search.outcomes()))
    }

    /// The results for each goal, if this is the test of throughput.
    pub fn throughput(&self) -> Option<Vec<Found>> {
        match &self.searching {
            Searching::Throughput(search) => Some(search.found()),
            _ => None,
        }
    }
}

/// A throughput that further tests start from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// In frames per second, one way.
    pub rate: f64,
    /// The most that the tester could send, if it fell short.
    pub tester: Option<f64>,
    /// The rate is a lower bound: the device may forward more.
    pub is_bound: bool,
}

impl Measured {
    /// That of the first goal, if it has one.
    pub fn of(found: &[Found]) -> Option<Self> {
        let first = found.first()?;
        Some(Self { rate: first.throughput?, tester: first.tester, is_bound: first.verdict == Verdict::AtLeast })
    }
}
