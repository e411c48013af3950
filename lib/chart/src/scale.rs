// SPDX-License-Identifier: MIT
//! Axes: their limits, ticks and labels.

/// An axis with limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<f64>,
    /// Of categories.
    names: Vec<String>,
}

/// Below this part of the highest value, a linear axis begins at 0.
const FROM_ZERO: f64 = 0.75;
/// Above this part of it, too: else what hardly differs would be spread over all of the height.
const FLAT: f64 = 0.98;

impl Scale {
    /// An axis for these values, with about this many ticks. Values that are not finite, or not positive on a
    /// logarithmic axis, do not count.
    pub fn new(values: impl IntoIterator<Item = f64>, log: bool, ticks: usize) -> Self {
        let (mut low, mut high, mut whole) = (f64::INFINITY, f64::NEG_INFINITY, true);
        for value in values.into_iter().filter(|value| value.is_finite() && (!log || *value > 0.0)) {
            (low, high) = (low.min(value), high.max(value));
            whole &= value.fract() == 0.0;
        }
        if low > high {
            return Self {
                low: if log { 1.0 } else { 0.0 },
                high: if log { 10.0 } else { 1.0 },
                log,
                ticks: Vec::new(),
                names: Vec::new(),
            };
        }
        if log { Self::logarithmic(low, high, ticks) } else { Self::linear(low, high, ticks, whole) }
    }

    /// An axis of categories: a place for each name, and half of one on both sides.
    pub fn categories(names: &[String]) -> Self {
        let last = names.len().saturating_sub(1) as f64;
        let ticks = (0..names.len()).map(|at| at as f64).collect();
        Self { low: -0.5, high: last + 0.5, log: false, ticks, names: names.to_vec() }
    }

    /// There are no halves between whole numbers.
    fn linear(low: f64, high: f64, wanted: usize, whole: bool) -> Self {
        let single = low == high;
        let low = if low >= 0.0 && (single || low < FROM_ZERO * high || low > FLAT * high) { 0.0 } else { low };
        let high = if high <= 0.0 && (single || high > FROM_ZERO * low) { 0.0 } else { high };
        let room = if high > low { high - low } else { low.abs().max(1.0) };
        let step = nice(room / wanted.max(1) as f64).max(if whole { 1.0 } else { 0.0 });
        let first = (low / step).floor();
        let last = (high / step).ceil().max(first + 1.0);
        let ticks: Vec<f64> = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
        Self { low: first * step, high: last * step, log: false, ticks, names: Vec::new() }
    }

    fn logarithmic(low: f64, high: f64, wanted: usize) -> Self {
        let decades = (high / low).log10();
        // 1; 1 and 3; 1, 2 and 5 in each decade, as there is room.
        let steps: &[f64] = if decades > 0.9 * wanted as f64 {
            &[1.0]
        } else if decades > 0.45 * wanted as f64 {
            &[1.0, 3.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        // Over very many decades, ticks at every n-th.
        let every = ((last - first) as usize / (2 * wanted.max(1))).max(1);
        let mut ticks = Vec::new();
        for decade in (first - 1..=last).step_by(every) {
            ticks.extend(steps.iter().map(|step| step * 10f64.powi(decade)));
        }
        let from = ticks.iter().rposition(|tick| *tick <= low * (1.0 + 1e-9)).unwrap_or(0);
        let to = ticks.iter().position(|tick| *tick >= high * (1.0 - 1e-9)).unwrap_or(ticks.len() - 1);
        let to = to.max(from + 1).min(ticks.len() - 1);
        let ticks = ticks[from.min(to)..=to].to_vec();
        let (low, high) = (ticks[0].min(low), ticks[ticks.len() - 1].max(high));
        Self { low, high, log: true, ticks, names: Vec::new() }
    }

    /// Where a value is, from 0 (the lowest) to 1; outside of that if it is.
    pub fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (low, high) = (of(self.low), of(self.high));
        if high > low { (of(value) - low) / (high - low) } else { 0.5 }
    }

    /// Does the axis have this value?
    pub fn has(&self, value: f64) -> bool {
        value.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&self.place(value)) && (!self.log || value > 0.0)
    }

    /// Values with a tick.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// The label of a tick.
    pub fn label(&self, tick: f64) -> String {
        if !self.names.is_empty() {
            return self.names.get(tick.round().max(0.0) as usize).cloned().unwrap_or_default();
        }
        let step = match self.ticks[..] {
            [first, second, ..] if !self.log => second - first,
            _ => tick.abs(),
        };
        let most = if self.log { tick.abs() } else { self.low.abs().max(self.high.abs()) };
        let (factor, suffix) = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")]
            .into_iter()
            .find(|(factor, _)| most >= *factor)
            .map_or((1.0, ""), |(factor, suffix)| (if suffix == "k" { 1e3 } else { factor }, suffix));
        if tick == 0.0 {
            return "0".to_owned();
        }
        if tick.abs() < 1e-3 {
            return format!("{tick:.0e}").replace("e-", "e−");
        }
        let places = (-(step / factor).abs().log10().floor()).clamp(0.0, 12.0) as usize;
        let number = format!("{:.places$}", tick / factor).replace('-', "−");
        format!("{number}{suffix}")
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn nice(step: f64) -> f64 {
    if !(step.is_finite() && step > f64::MIN_POSITIVE * 10.0) {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    let digit = step / power;
    let digits = [1.0, 2.0, 5.0, 10.0];
    power * digits.into_iter().find(|nice| digit <= nice * (1.0 + 1e-9)).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(values: &[f64], log: bool) -> Vec<String> {
        let scale = Scale::new(values.iter().copied(), log, 6);
        scale.ticks().iter().map(|tick| scale.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&[1.0, 16.0], false), ["0", "5", "10", "15", "20"]);
        assert_eq!(labels(&[0.91, 0.97], false), ["0.91", "0.92", "0.93", "0.94", "0.95", "0.96", "0.97"]);
        assert_eq!(labels(&[0.0, 14.88e6], false), ["0", "5M", "10M", "15M"]);
        assert_eq!(labels(&[-3.0, 3.0], false), ["−3", "−2", "−1", "0", "1", "2", "3"]);
        assert_eq!(labels(&[0.7, 43.0], true), ["0.5", "1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(&[1e-7, 1.0], true), ["1e−7", "1e−6", "1e−5", "1e−4", "0.001", "0.01", "0.1", "1"]);
        assert_eq!(labels(&[64.0, 1518.0], true), ["50", "100", "200", "500", "1000", "2000"]);
        assert_eq!(labels(&[1.0, 3.0], false), ["0", "1", "2", "3"], "whole numbers");
        assert_eq!(labels(&[5.0], false), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(&[-2.5], false).len(), 6);
    }

    #[test]
    fn places_are_between_the_ends() {
        let linear = Scale::new([1.0, 16.0], false, 6);
        assert_eq!((linear.place(0.0), linear.place(10.0), linear.place(20.0)), (0.0, 0.5, 1.0));
        let log = Scale::new([1.0, 100.0], true, 6);
        assert!((log.place(10.0) - 0.5).abs() < 1e-12 && !log.has(0.0) && log.has(100.0) && !log.has(101.0));
        assert!(Scale::new([], false, 6).ticks().is_empty());
        assert!(Scale::new([0.0, -1.0], true, 6).ticks().is_empty());
    }

    /// 361.8 to 362.1 instructions were spread over all of the height.
    #[test]
    fn what_hardly_differs_is_not_spread_over_the_height() {
        let scale = Scale::new([361.8, 362.1], false, 6);
        assert_eq!(scale.label(scale.ticks()[0]), "0");
        assert!((scale.place(361.8) - scale.place(362.1)).abs() < 0.01);
    }

    #[test]
    fn categories_have_their_names() {
        let scale = Scale::categories(&["quiet".to_owned(), "changes".to_owned()]);
        assert_eq!(scale.ticks().iter().map(|tick| scale.label(*tick)).collect::<Vec<_>>(), ["quiet", "changes"]);
        assert!(scale.has(0.0) && scale.has(1.0) && !scale.has(2.0) && scale.place(0.0) > 0.2);
    }

    proptest! {
        #[test]
        fn every_value_is_on_its_axis(values in prop::collection::vec(-1e12..1e12f64, 1..20), log in any::<bool>(), ticks in 2usize..12) {
            let scale = Scale::new(values.iter().copied(), log, ticks);
            for value in values.into_iter().filter(|value| !log || *value > 0.0) {
                prop_assert!(scale.has(value), "{} on {:?}", value, scale);
            }
            prop_assert!(scale.ticks().len() <= 4 * ticks + 4);
            for tick in scale.ticks() {
                prop_assert!(!scale.label(*tick).is_empty());
            }
        }

        #[test]
        fn any_size_of_values(exponents in prop::collection::vec(-300..300i32, 1..6), log in any::<bool>()) {
            let scale = Scale::new(exponents.iter().map(|e| 10f64.powi(*e)), log, 6);
            prop_assert!(scale.ticks().len() < 40);
            prop_assert!(exponents.iter().all(|e| scale.place(10f64.powi(*e)).is_finite()));
        }
    }
}
