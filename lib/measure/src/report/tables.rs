// SPDX-License-Identifier: MIT
//! The results as tables for people, in Markdown and on the page.

use perigee_chart::number::{self, prefixed, share};
use perigee_chart::significant;

use super::Report;
use crate::pace::rate::wire_bits;
use crate::run::Ways;
use crate::search::back_to_back::Applies;
use crate::search::latency::AtLoad;
use crate::search::statistics::Summary;
use crate::search::throughput::Verdict;

/// A table of figures as people read them.
pub struct Table {
    pub title: &'static str,
    /// What the figures are.
    pub about: String,
    /// The columns' names; those with text rather than figures are marked.
    pub header: Vec<(&'static str, bool)>,
    pub rows: Vec<Vec<String>>,
}

/// The tables with results.
pub(super) fn results(report: &Report) -> Vec<Table> {
    let all =
        [throughput(report), latency(report), loss_rate(report), back_to_back(report), recovery(report), reset(report)];
    all.into_iter().filter(|table| !table.rows.is_empty()).map(without_remarks).collect()
}

/// Leaves out the last column if there is nothing in it.
fn without_remarks(mut table: Table) -> Table {
    if table.rows.iter().all(|row| row.last().is_some_and(String::is_empty)) {
        table.header.pop();
        table.rows.iter_mut().for_each(|row| {
            row.pop();
        });
    }
    table
}

/// The machine, the gravest facts first.
pub(super) fn environment(report: &Report) -> Table {
    let row = |finding: crate::environment::Finding| {
        vec![finding.name, finding.value, finding.judgement.to_string(), finding.advice.unwrap_or_default()]
    };
    Table {
        title: "The machine",
        about: String::new(),
        header: vec![("what", true), ("found", true), ("judgement", true), ("what to do", true)],
        rows: report.findings().into_iter().map(row).collect(),
    }
}

/// The raw trials.
pub(super) fn trials(report: &Report) -> Table {
    let row = |(at, record): (usize, &crate::run::TrialRecord)| {
        let (trial, outcome) = (&record.trial, &record.outcome);
        vec![
            (at + 1).to_string(),
            record.size.to_string(),
            trial.purpose.to_string(),
            rate(trial.load),
            significant(trial.duration, 4),
            grouped(outcome.sent),
            grouped(outcome.lost()),
            share(outcome.loss_ratio()),
            report.judged(outcome).name().to_owned(),
            record.began.clone(),
        ]
    };
    let figures = ["frames/s", "s", "sent", "lost", "loss"].map(|name| (name, false));
    let mut header = vec![("trial", false), ("bytes", false), ("for", true)];
    header.extend(figures);
    header.extend([("result", true), ("began", false)]);
    Table {
        title: "Trials",
        about: "Passed: no more was lost than the first goal allows. Doubted: it may not be trusted.".to_owned(),
        header,
        rows: report.trials.iter().enumerate().map(row).collect(),
    }
}

fn figures<const N: usize>(names: [&'static str; N], words: &[&'static str]) -> Vec<(&'static str, bool)> {
    let figures = names.into_iter().map(|name| (name, false));
    figures.chain(words.iter().map(|name| (*name, true))).collect()
}

fn throughput(report: &Report) -> Table {
    let mut rows = vec![];
    for row in &report.throughput {
        for goal in &row.goals {
            let or_none = |value: Option<f64>, text: &dyn Fn(f64) -> String| value.map_or("none".to_owned(), text);
            let remark = match goal.verdict {
                Verdict::Regular => "regular",
                Verdict::MinimumFails => "the minimum load fails",
                Verdict::MaximumPasses => "the maximum load passes",
                Verdict::TesterTooSlow => "the tester cannot send more",
                Verdict::AtLeast => "at least: the tester was the limit",
                Verdict::Unanswered => "no answer: the tester fell short again and again",
                Verdict::Unfinished => "not finished",
            };
            rows.push(vec![
                row.size.to_string(),
                goal.goal.name.clone(),
                rate(row.maximum_pps),
                or_none(goal.pps, &rate),
                or_none(goal.bits_per_s, &|bits| format!("{}bit/s", prefixed(bits))),
                or_none(goal.share, &share),
                or_none(goal.proven_pps, &rate),
                or_none(goal.upper_pps, &rate),
                or_none(goal.loss, &share),
                row.trials.to_string(),
                format!("{remark}{}", if goal.trusted { "" } else { "; not to be trusted" }),
            ]);
        }
    }
    Table {
        title: "Throughput",
        about: each_way(report, "The highest rate that is forwarded as the goal demands (section 26.1)"),
        header: [
            &[("bytes", false), ("goal", true)][..],
            &figures(
                ["maximum/s", "frames/s", "on the wire", "of maximum", "passed at", "failed at", "loss", "trials"],
                &["result"],
            ),
        ]
        .concat(),
        rows,
    }
}

/// What a table shows, and that rates are those of one direction if there are two.
fn each_way(report: &Report, what: &str) -> String {
    match report.settings.ways {
        Ways::One => format!("{what}."),
        Ways::Both => format!("{what}. Rates are those of each direction; frames go both ways at once."),
    }
}

fn latency(report: &Report) -> Table {
    let row = |size: u32, at: &AtLoad| {
        let times = [at.min, at.mean.mean, at.median.median, at.p99.median, at.p999.median, at.max].map(time);
        let imperfect = at.imperfect;
        let remarks = [
            (imperfect.without, "without latencies"),
            (imperfect.few, "with too few tagged frames"),
            (imperfect.lossy, "with loss"),
            (imperfect.doubted, "doubted"),
        ];
        let remarks = remarks.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let head = [size.to_string(), share(at.share), rate(at.load)];
        let trials = at.median.count.to_string();
        head.into_iter().chain(times).chain([trials, remarks.collect::<Vec<_>>().join(", ")]).collect()
    };
    Table {
        title: "Latency",
        about: each_way(
            report,
            "At shares of the throughput (section 26.2): of all repetitions the smallest, the mean of the means, the medians of the \
             percentiles (RFC 8219 section 7.2), and the greatest",
        ),
        header: figures(
            ["bytes", "of throughput", "frames/s", "minimum", "mean", "median", "p99", "p99.9", "maximum", "trials"],
            &["remarks"],
        ),
        rows: report.latency.iter().flat_map(|of| of.loads.iter().map(|at| row(of.size, at))).collect(),
    }
}

fn loss_rate(report: &Report) -> Table {
    let mut rows = vec![];
    for row in &report.loss_rate {
        for point in &row.curve.points {
            rows.push(vec![
                row.size.to_string(),
                rate(point.load),
                format!("{}bit/s", prefixed(point.load * wire_bits(f64::from(row.size)))),
                share(point.load / row.maximum_pps),
                rate(point.load * (1.0 - point.loss_ratio)),
                share(point.loss_ratio),
                if point.trusted { String::new() } else { "not to be trusted".to_owned() },
            ]);
        }
    }
    Table {
        title: "Frame loss rate",
        about: each_way(
            report,
            "What is lost of a load, from the maximum down to two loads without loss (section 26.3)",
        ),
        header: figures(["bytes", "frames/s", "on the wire", "of maximum", "forwarded/s", "loss"], &["remarks"]),
        rows,
    }
}

/// Mean, minimum, maximum and deviation; empty cells without measurements.
fn spread(summary: Option<&Summary>, text: impl Fn(f64) -> String) -> [String; 4] {
    summary.map_or_else(Default::default, |of| [of.mean, of.min, of.max, of.deviation].map(text))
}

fn back_to_back(report: &Report) -> Table {
    let seconds = |seconds: Option<f64>| seconds.map_or(String::new(), |seconds| time(seconds * 1e9));
    let mut rows = vec![];
    for row in &report.back_to_back {
        let bursts = &row.bursts;
        let remark = match bursts.applies {
            Applies::Yes => "",
            Applies::AtMaximum => "the throughput is the maximum, so no burst fills buffers",
            Applies::TooShort => "the longest burst passed: longer ones are needed",
            Applies::TesterTooSlow => "the tester could not send a whole burst",
            Applies::Unfinished => "not finished",
        };
        let trust = if bursts.trusted { "" } else { "not to be trusted" };
        let remarks: Vec<_> = [remark, trust].into_iter().filter(|text| !text.is_empty()).collect();
        let head = [row.size.to_string(), rate(row.maximum_pps)];
        let frames = spread(bursts.summary.as_ref(), |frames| grouped(frames.round() as u64));
        let buffers = [seconds(bursts.implied_buffer), seconds(bursts.corrected_buffer)];
        let tail = [bursts.longest.len().to_string(), remarks.join("; ")];
        rows.push(head.into_iter().chain(frames).chain(buffers).chain(tail).collect());
    }
    Table {
        title: "Back-to-back frames",
        about: "The longest burst at the maximum rate that is forwarded whole, in frames (section 26.4), the buffer time that it \
                implies, and that time corrected for what is forwarded meanwhile (RFC 9004)."
            .to_owned(),
        header: figures(
            ["bytes", "frames/s", "mean", "minimum", "maximum", "deviation", "implied", "corrected", "searches"],
            &["remarks"],
        ),
        rows,
    }
}

fn recovery(report: &Report) -> Table {
    let mut rows = vec![];
    for row in &report.recovery {
        let found = &row.recovered;
        let remarks = [
            (found.not_recovered, "did not recover in time"),
            (found.not_overloaded, "without overload"),
            (found.doubted, "doubted"),
        ];
        let remarks = remarks.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let times = spread(found.summary.as_ref(), |seconds| time(seconds * 1e9));
        let tail = [row.trials.to_string(), remarks.collect::<Vec<_>>().join(", ")];
        rows.push([row.size.to_string()].into_iter().chain(times).chain(tail).collect());
    }
    Table {
        title: "System recovery",
        about: "From the end of an overload to the last frame that is lost (section 26.5).".to_owned(),
        header: figures(["bytes", "mean", "minimum", "maximum", "deviation", "trials"], &["remarks"]),
        rows,
    }
}

fn reset(report: &Report) -> Table {
    let mut rows = vec![];
    for row in &report.reset {
        let times = spread(row.times.summary.as_ref(), |seconds| time(seconds * 1e9));
        let by_loss = Summary::of(row.times.by_loss.iter().copied());
        let remarks = [(row.times.not_back, "did not come back"), (row.times.doubted, "doubted")];
        let remarks = remarks.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let by_loss = by_loss.map_or(String::new(), |of| time(of.mean * 1e9));
        let tail = [by_loss, row.trials.to_string(), remarks.collect::<Vec<_>>().join(", ")];
        rows.push([row.size.to_string()].into_iter().chain(times).chain(tail).collect());
    }
    Table {
        title: "Reset",
        about: "From the last frame before a reset to the first after it (section 26.6, RFC 6201), and the same by the frames lost."
            .to_owned(),
        header: figures(["bytes", "mean", "minimum", "maximum", "deviation", "by loss", "trials"], &["remarks"]),
        rows,
    }
}

/// Nanoseconds in a unit that suits; nothing has none.
fn time(nanoseconds: f64) -> String {
    if nanoseconds == 0.0 { "0".to_owned() } else { number::time(nanoseconds) }
}

/// Frames per second with separators; small ones with decimals.
pub(super) fn rate(pps: f64) -> String {
    if pps < 1000.0 { significant(pps, 4) } else { grouped(pps.round() as u64) }
}

/// `1,234,567`.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for at in (first..digits.len()).step_by(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text += &digits[at..at + 3];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        let numbers = [0, 7, 999, 1000, 14_880_952, 123_456_789].map(grouped);
        assert_eq!(numbers.join(" "), "0 7 999 1,000 14,880,952 123,456,789");
        assert_eq!([0.5, 999.94, 1_488_095.2].map(rate).join(" "), "0.5 999.9 1,488,095");
    }
}
