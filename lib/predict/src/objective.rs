// SPDX-License-Identifier: MIT
//! Objectives: what a router should reach, such as `loss<0.001%,p99<100us,utilisation<80%`.

use crate::figures::{Figures, Method};
use crate::number::{share, time};
use crate::traffic::{Mistake, mistake};
use std::fmt;
use std::str::FromStr;

/// A figure that may have a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Share of packets that is lost.
    Loss,
    /// Utilisation of the busiest core.
    Utilisation,
    /// Mean sojourn time.
    Mean,
    /// Sojourn time that 50 % do not exceed.
    P50,
    /// 90 %.
    P90,
    /// 99 %.
    P99,
    /// 99.9 %.
    P999,
}

const QUANTITIES: [(&str, Quantity); 8] = [
    ("loss", Quantity::Loss),
    ("utilisation", Quantity::Utilisation),
    ("utilization", Quantity::Utilisation),
    ("mean", Quantity::Mean),
    ("p50", Quantity::P50),
    ("p90", Quantity::P90),
    ("p99", Quantity::P99),
    ("p99.9", Quantity::P999),
];

impl Quantity {
    /// Is it a share, 0 to 1? Else it is a time in nanoseconds.
    fn is_share(self) -> bool {
        matches!(self, Self::Loss | Self::Utilisation)
    }

    /// Its value, if known: a share, or nanoseconds.
    pub fn of(self, figures: &Figures) -> Option<f64> {
        let percentiles = figures.sojourn_ns;
        match self {
            Self::Loss => figures.loss,
            Self::Utilisation => figures.busiest(),
            Self::Mean => figures.mean_ns,
            Self::P50 => percentiles.map(|p| p.p50),
            Self::P90 => percentiles.map(|p| p.p90),
            Self::P99 => percentiles.map(|p| p.p99),
            Self::P999 => percentiles.map(|p| p.p999),
        }
    }

    /// Its value, or why there is none.
    ///
    /// # Errors
    /// Why it is not known, for users.
    pub fn known(self, figures: &Figures) -> Result<f64, String> {
        self.of(figures).filter(|value| value.is_finite()).ok_or_else(|| match self.method(figures) {
            Method::Missing(why) => why.clone(),
            _ => "no packet passed".to_owned(),
        })
    }

    /// How it is known.
    fn method(self, figures: &Figures) -> &Method {
        match self {
            Self::Loss => &figures.methods.loss,
            Self::Utilisation => &figures.methods.utilisation,
            Self::Mean => &figures.methods.mean,
            _ => &figures.methods.percentiles,
        }
    }

    /// A value of it with its unit: `0.02%`, `12.3us`.
    pub fn show(self, value: f64) -> String {
        if self.is_share() { share(value) } else { time(value) }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let name = QUANTITIES.iter().find(|(_, quantity)| quantity == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// An upper limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// The figure that is limited.
    pub quantity: Quantity,
    /// A share, 0 to 1, or nanoseconds.
    pub limit: f64,
    /// May the limit itself be reached (`<=`)?
    pub inclusive: bool,
}

impl Condition {
    fn allows(&self, value: f64) -> bool {
        value < self.limit || self.inclusive && value == self.limit
    }
}

/// No loss at all.
pub const NO_LOSS: Condition = Condition { quantity: Quantity::Loss, limit: 0.0, inclusive: true };

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}{}{}", self.quantity, if self.inclusive { "<=" } else { "<" }, self.quantity.show(self.limit))
    }
}

/// The result of comparing figures with an objective.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All limits are kept.
    Met,
    /// Some are not.
    Missed {
        /// The first of them.
        condition: Condition,
        /// Its figure.
        value: f64,
        /// How far the worst is from its limit, as a ratio; more than 1, or just 1 where `<` has equality.
        excess: f64,
    },
    /// A figure is not known; none of those known breaks its limit.
    Unknown {
        /// Its limit.
        condition: Condition,
        why: String,
    },
}

/// Why a loss of which only bounds are known cannot be judged.
pub fn between(least: Option<f64>, most: f64) -> String {
    let (least, most) = (share(least.unwrap_or(0.0)), share(most));
    format!("loss is between {least} and {most}: only a simulation that is long enough could say")
}

/// Limits that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective(Vec<Condition>);

impl Objective {
    /// The limits.
    pub fn conditions(&self) -> &[Condition] {
        &self.0
    }

    /// The smallest limit of loss, if there is one.
    pub fn loss(&self) -> Option<f64> {
        self.0.iter().filter(|c| c.quantity == Quantity::Loss).map(|c| c.limit).reduce(f64::min)
    }

    /// Is it met?
    pub fn judge(&self, figures: &Figures) -> Verdict {
        let mut missed: Option<Verdict> = None;
        let mut unknown = None;
        for condition in &self.0 {
            let value = match condition.quantity.known(figures) {
                Ok(value) => value,
                Err(why) => {
                    unknown.get_or_insert(Verdict::Unknown { condition: *condition, why });
                    continue;
                }
            };
            if condition.allows(value) {
                if let Some(why) = too_few_packets(condition, value, figures) {
                    unknown.get_or_insert(Verdict::Unknown { condition: *condition, why });
                }
                continue;
            }
            if let Some(least) =
                figures.loss_at_least.filter(|least| condition.quantity == Quantity::Loss && condition.allows(*least))
            {
                let why = between(Some(least), value);
                unknown.get_or_insert(Verdict::Unknown { condition: *condition, why });
                continue;
            }
            let excess = if condition.limit > 0.0 { value / condition.limit } else { f64::MAX };
            match &mut missed {
                Some(Verdict::Missed { excess: worst, .. }) => *worst = worst.max(excess),
                _ => missed = Some(Verdict::Missed { condition: *condition, value, excess }),
            }
        }
        missed.or(unknown).unwrap_or(Verdict::Met)
    }
}

/// N packets without a loss say, at 95 %, that less than 3 / N are lost; no more.
fn too_few_packets(condition: &Condition, value: f64, figures: &Figures) -> Option<String> {
    let Method::Simulated { counted, .. } = condition.quantity.method(figures) else { return None };
    let known = 3.0 / (*counted).max(1) as f64;
    let unknown = condition.quantity == Quantity::Loss && value == 0.0 && condition.limit < known;
    unknown.then(|| {
        let advice = match condition.limit > 0.0 {
            true => format!("simulate {:.0} (--packets)", 3.0 / condition.limit),
            false => "no number of packets says more than a limit above 0".to_owned(),
        };
        format!("a simulation of {counted} packets without loss says loss<{} only: {advice}", share(known))
    })
}

impl FromStr for Objective {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let mut conditions = Vec::new();
        for part in text.split(',') {
            let wrong = || {
                let names = "loss, utilisation, mean, p50, p90, p99, p99.9";
                mistake(part, format!("a limit of {names}, with its unit: loss<0.001%, p99<100us, utilisation<80%"))
            };
            let (name, limit) = part.split_once('<').ok_or_else(wrong)?;
            let (inclusive, limit) = limit.strip_prefix('=').map_or((false, limit), |limit| (true, limit));
            let (name, limit) = (name.trim(), limit.trim());
            let (_, quantity) = QUANTITIES.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?;
            let limit = value(limit, quantity.is_share()).ok_or_else(wrong)?;
            if limit == 0.0 && !inclusive {
                return Err(mistake(part, format!("a limit that can be kept: {name}<=0 or {name}<0.001%")));
            }
            conditions.push(Condition { quantity: *quantity, limit, inclusive });
        }
        Ok(Self(conditions))
    }
}

/// `0.001%`; `100us`.
fn value(text: &str, is_share: bool) -> Option<f64> {
    let units: &[(&str, f64)] = match is_share {
        // A share without a unit is taken for percent by one and for a ratio by another.
        true => &[("%", 0.01)],
        false => &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)],
    };
    let (number, factor) = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number: f64 = number.trim().parse().ok()?;
    let value = number * factor;
    let most = if is_share { 1.0 } else { 1e15 };
    (0.0..=most).contains(&value).then_some(value)
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, condition) in self.0.iter().enumerate() {
            write!(f, "{}{condition}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Methods, Percentiles};
    use proptest::prelude::*;

    fn figures(loss: f64, p99: f64) -> Figures {
        Figures {
            offered_pps: 1e6,
            accepted_pps: Some(1e6 * (1.0 - loss)),
            loss: Some(loss),
            loss_at_least: None,
            mean_ns: Some(p99 / 4.0),
            sojourn_ns: Some(Percentiles { p50: p99 / 5.0, p90: p99 / 2.0, p99, p999: 2.0 * p99 }),
            utilisation: Some(vec![0.3, 0.7]),
            batch: Some(2.0),
            methods: Methods::all(Method::Closed("a formula")),
        }
    }

    fn objective(text: &str) -> Objective {
        text.parse().unwrap()
    }

    #[test]
    fn objectives_are_read() {
        let all = objective("loss<0.001%, p99<100us,utilisation<=80%,mean<2 ms,p99.9<1s,p50<=5ns");
        let limits: Vec<_> = all.conditions().iter().map(|c| (c.quantity, c.limit, c.inclusive)).collect();
        let expected = [
            (Quantity::Loss, 1e-5, false),
            (Quantity::P99, 1e5, false),
            (Quantity::Utilisation, 0.8, true),
            (Quantity::Mean, 2e6, false),
            (Quantity::P999, 1e9, false),
            (Quantity::P50, 5.0, true),
        ];
        for ((quantity, limit, inclusive), wanted) in limits.into_iter().zip(expected) {
            assert_eq!((quantity, inclusive), (wanted.0, wanted.2));
            assert!((limit / wanted.1 - 1.0).abs() < 1e-12);
        }
        assert_eq!(all.to_string(), "loss<0.001%,p99<100us,utilisation<=80%,mean<2ms,p99.9<1s,p50<=5ns");
        for wrong in [
            "",
            "loss",
            "loss>1%",
            "loss<",
            "p98<1us",
            "p99<100",
            "loss<5us",
            "loss<101%",
            "mean<-1us",
            "loss<0",
            "loss<1",
            "utilisation<0.8",
        ] {
            assert!(wrong.parse::<Objective>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_are_judged() {
        let both = objective("loss<0.1%,p99<100us");
        assert_eq!(both.judge(&figures(0.0, 99e3)), Verdict::Met);
        assert!(matches!(both.judge(&figures(0.0, 100e3)), Verdict::Missed { excess: 1.0, .. }));
        match both.judge(&figures(0.002, 500e3)) {
            Verdict::Missed { condition, value, excess } => {
                assert_eq!((condition.quantity, value), (Quantity::Loss, 0.002));
                assert!((excess - 5.0).abs() < 1e-12, "p99 is the worst");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(objective("loss<=0%").judge(&figures(0.0, 1.0)), Verdict::Met);
        assert!(matches!(objective("utilisation<60%").judge(&figures(0.0, 1.0)), Verdict::Missed { value: 0.7, .. }));
    }

    #[test]
    fn bounds_of_loss_are_judged_by_both_ends() {
        let between = |least| Figures { loss_at_least: Some(least), ..figures(0.002, 1.0) };
        let judge = |limit: &str, least| objective(limit).judge(&between(least));
        assert_eq!(judge("loss<0.3%", 1e-4), Verdict::Met);
        assert!(matches!(judge("loss<0.1%", 1e-4), Verdict::Unknown { why, .. } if why.contains("0.01% and 0.2%")));
        assert!(matches!(judge("loss<0.1%", 1.5e-3), Verdict::Missed { value: 0.002, .. }));
    }

    #[test]
    fn what_is_not_known_is_not_met() {
        let mut some = figures(0.0, 1.0);
        some.sojourn_ns = None;
        some.methods.percentiles = Method::Missing("no ns-3".to_owned());
        assert!(matches!(objective("p99<1s").judge(&some), Verdict::Unknown { why, .. } if why == "no ns-3"));
        assert!(matches!(objective("p99<1s,mean<0.1ns").judge(&some), Verdict::Missed { .. }), "one miss is enough");
        some.methods.loss =
            Method::Simulated { ns3: "3.37".to_owned(), events: 9, packets: 1200, counted: 1000, settled: true };
        assert_eq!(objective("loss<1%").judge(&some), Verdict::Met);
        let said = objective("loss<0.1%").judge(&some);
        assert!(matches!(&said, Verdict::Unknown { why, .. } if why.contains("simulate 3000")), "{said:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC{0,24}") {
            let _ = text.parse::<Objective>();
        }

        #[test]
        fn what_is_written_is_read(text in "(loss|p99|p99.9|mean|p9|utilisation)<=?[0-9]{0,3}(\\.[0-9]{1,2})?[%a-z]{0,2}") {
            if let Ok(read) = text.parse::<Objective>() {
                let again = read.to_string().parse::<Objective>().unwrap();
                prop_assert_eq!(again.0.len(), 1);
                prop_assert!((again.0[0].limit - read.0[0].limit).abs() <= 0.006 * read.0[0].limit);
            }
        }
    }
}
