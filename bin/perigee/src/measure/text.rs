// SPDX-License-Identifier: MIT
//! Rates, times and histograms as people read them.

use perigee_measure::buckets::Buckets;
use perigee_measure::received::Interval;

/// "1.234 Mpps"
pub fn pps(rate: f64) -> String {
    scaled(rate, "pps")
}

/// "1.234 Gbit/s"
pub fn bits(rate: f64) -> String {
    scaled(rate, "bit/s")
}

fn scaled(value: f64, unit: &str) -> String {
    let (factor, prefix) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{} {prefix}{unit}", significant(value / factor))
}

/// Four significant digits, and never an exponent.
fn significant(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A time in ns: "640 ns", "12.3 us", "1.50 ms".
pub fn time(ns: f64) -> String {
    match ns {
        v if v >= 1e9 => format!("{:.2} s", v / 1e9),
        v if v >= 1e6 => format!("{:.2} ms", v / 1e6),
        v if v >= 1e3 => format!("{:.1} us", v / 1e3),
        v => format!("{v:.0} ns"),
    }
}

/// The line of an interval. `sends` and `receives` say which halves there are.
pub fn line(interval: &Interval, sends: bool, receives: bool) -> String {
    let mut line = format!("{:4.0} s", interval.to_s);
    if sends {
        line += &format!("  sent {:>11}  {:>13}", pps(interval.sent_pps), bits(interval.sent_bits_per_s));
        if interval.unsent > 0 {
            line += &format!("  UNSENT {}", interval.unsent);
        }
    }
    if receives {
        line += &format!("  received {:>11}  missing {}", pps(interval.received_pps), interval.missing);
        for (what, n) in
            [("duplicates", interval.duplicates), ("reordered", interval.reordered), ("corrupted", interval.corrupted)]
        {
            if n > 0 {
                line += &format!("  {what} {n}");
            }
        }
        if let (Some(p50), Some(p99), Some(max)) =
            (interval.latency_p50_ns, interval.latency_p99_ns, interval.latency_max_ns)
        {
            line += &format!("  latency p50 {} p99 {} max {}", time(p50 as f64), time(p99 as f64), time(max as f64));
        }
    }
    line
}

/// Rows of a histogram at most.
const ROWS: usize = 12;
/// Characters of its longest bar.
const BAR: f64 = 40.0;

/// A histogram of times in ns: one row per power of two, or finer where all values are close together.
pub fn histogram(buckets: &Buckets) -> String {
    let all: Vec<(u64, u64, u64)> = buckets.iter().collect();
    let total = buckets.count();
    if total == 0 {
        return String::new();
    }
    // Neighbors are joined until there are few enough rows.
    let mut rows = all;
    while rows.len() > ROWS {
        rows = rows
            .chunks(2)
            .map(|pair| (pair[0].0, pair[pair.len() - 1].1, pair.iter().map(|row| row.2).sum()))
            .collect();
    }
    let most = rows.iter().map(|row| row.2).max().unwrap_or(1);
    let mut text = String::new();
    for (first, last, count) in rows {
        let bar = "#".repeat(((count as f64 / most as f64) * BAR).ceil() as usize);
        let share = count as f64 * 100.0 / total as f64;
        text += &format!("{:>9} .. {:<9} {share:>7.3} %  {bar}\n", time(first as f64), time(last as f64));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        let texts =
            [pps(14_880_952.0), pps(999.4), pps(0.0), bits(9.87e9), time(12.0), time(1500.0), time(2.5e6), time(3e9)];
        assert_eq!(
            texts,
            ["14.88 Mpps", "999.4 pps", "0.000 pps", "9.870 Gbit/s", "12 ns", "1.5 us", "2.50 ms", "3.00 s"]
        );
    }

    #[test]
    fn a_histogram_has_few_rows_and_all_values() {
        let mut buckets = Buckets::default();
        assert_eq!(histogram(&buckets), "");
        (1..100_000u64).for_each(|n| buckets.record(n));
        let text = histogram(&buckets);
        assert!((2..=ROWS).contains(&text.lines().count()), "{text}");
        let sum: f64 = text
            .lines()
            .map(|line| line.split('%').next().unwrap().rsplit(' ').nth(1).unwrap().parse::<f64>().unwrap())
            .sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}: {text}");
    }
}
