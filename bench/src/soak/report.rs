// SPDX-License-Identifier: MIT
//! The account: what was offered, what arrived, where the rest is; memory; gaps.

use super::SoakArgs;
use super::events::Happened;
use super::samples::{self, Gap, Sample, Watched};
use super::traffic::Outcome;
use anyhow::Result;
use perigee_api::answers::{DropKind, DropStatus, PortStatus};
use std::collections::BTreeMap;

/// Memory per script that was stopped where it stood, in bytes: its VM is in an unknown state and is never freed. A script
/// of one loop left 0.55 MB; the scripts of an hour's soak left 1.0 MB on average.
const STOPPED: u64 = 1_000_000;

/// Where frames get lost: before the router's workers, in the router, and behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Before,
    Within,
    Behind,
}

/// The counters of losses, and the frames of both ports of the traffic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// Frames that the first port received, and the second sent.
    pub received: u64,
    pub sent: u64,
    /// What was lost, by place and counter.
    pub losses: BTreeMap<(Place, String), u64>,
}

impl Ledger {
    /// The ledger of a router's counters now.
    pub fn of(ports: &[PortStatus], drops: &[DropStatus]) -> Ledger {
        let mut ledger = Ledger::default();
        let mut note = |place, name: String, packets| {
            ledger.losses.insert((place, name), packets);
        };
        for port in ports {
            let (counters, kernel) = (&port.counters, port.kernel.clone().unwrap_or_default());
            // What flows the other way, and the third port's, is none of the traffic's.
            if port.name == "wan" {
                ledger.received = counters.receive_packets;
                note(Place::Before, "wan.receive_missed".to_owned(), counters.receive_missed);
                note(Place::Before, "wan.receive_errors".to_owned(), counters.receive_errors);
                note(Place::Before, "wan.kernel.receive_dropped".to_owned(), kernel.receive_dropped);
                note(Place::Before, "wan.kernel.receive_errors".to_owned(), kernel.receive_errors);
            }
            if port.name == "lan" {
                ledger.sent = counters.transmit_packets;
                note(Place::Within, "lan.transmit_errors".to_owned(), counters.transmit_errors);
                // An interface without a queue reports what it drops to the sender: it is in both counters
                // (docs/losses.md).
                let dropped = kernel.transmit_dropped.saturating_sub(counters.transmit_errors);
                note(Place::Behind, "lan.kernel.transmit_dropped".to_owned(), dropped);
                note(Place::Behind, "lan.kernel.transmit_errors".to_owned(), kernel.transmit_errors);
            }
        }
        // What the slow path dropped is of the other packets: the traffic's are not for it.
        for reason in drops.iter().filter(|reason| reason.kind == DropKind::Drop && !reason.per_worker.is_empty()) {
            note(Place::Within, format!("{}.{}", reason.module, reason.reason), reason.packets);
        }
        ledger
    }

    /// Notes what Linux dropped on the tester's second interface: a backlog without room drops there. An interface
    /// without a queue reports the same frames to the sender, too.
    pub fn note_tester(&mut self, dropped: u64) {
        let reported = (Place::Behind, "lan.kernel.transmit_dropped".to_owned());
        let reported = self.losses.get(&reported).copied().unwrap_or(0);
        self.losses
            .insert((Place::Behind, "tester.kernel.receive_dropped".to_owned()), dropped.saturating_sub(reported));
    }

    /// What has changed since an earlier one.
    pub fn since(&self, before: &Ledger) -> Ledger {
        let change = |(name, packets): (&(Place, String), &u64)| {
            let change = packets.saturating_sub(before.losses.get(name).copied().unwrap_or(0));
            (change > 0).then(|| (name.clone(), change))
        };
        Ledger {
            received: self.received - before.received,
            sent: self.sent - before.sent,
            losses: self.losses.iter().filter_map(change).collect(),
        }
    }

    /// The losses in a place.
    fn lost(&self, place: Place) -> u64 {
        self.losses.iter().filter(|((of, _), _)| *of == place).map(|(_, packets)| packets).sum()
    }
}

/// Everything.
#[derive(Debug, Default)]
pub struct Results {
    /// The rate that passes without loss, if it was looked for.
    pub found: Option<u64>,
    pub rate: u64,
    pub start_seconds: f64,
    pub stop_seconds: f64,
    /// The longest gap of a spinner alone on the worker's core, before.
    pub alone: u64,
    pub outcome: Outcome,
    pub ledger: Ledger,
    pub samples: Vec<Sample>,
    pub watched: Watched,
    /// A minute after the traffic.
    pub rested: Sample,
    pub happened: Happened,
    /// Scripts that were stopped where they stood.
    pub stopped_scripts: u64,
    /// What was to hold and did not.
    pub broken: Vec<String>,
}

impl Results {
    /// Notes whether something held.
    pub fn note(&mut self, what: &str, held: Result<()>) {
        if let Err(error) = held {
            self.broken.push(format!("{what}: {error:#}"));
        }
    }

    /// Frames that got lost before the router's workers, in it, and behind it, and are in no counter there.
    pub fn unexplained(&self) -> u64 {
        let Results { outcome, ledger, .. } = self;
        outcome.sent.saturating_sub(ledger.received + ledger.lost(Place::Before))
            + ledger.received.saturating_sub(ledger.sent + ledger.lost(Place::Within))
            + ledger.sent.saturating_sub(outcome.received + ledger.lost(Place::Behind) + outcome.missed)
    }

    /// Samples after the first tenth, when everything has been used once.
    fn settled(&self) -> &[Sample] {
        &self.samples[self.samples.len() / 10..]
    }

    /// The gaps that were the router's own.
    fn own_gaps(&self) -> impl Iterator<Item = &Gap> {
        self.watched.gaps.iter().filter(|gap| gap.is_the_routers())
    }

    /// Whether memory has not grown by more than a tenth once everything has been used, and by what stopped scripts
    /// leave; by the medians of the first and last fifth.
    fn memory_held(&self) -> bool {
        let settled = self.settled();
        let fifth = settled.len().div_ceil(5);
        let median = |samples: &[Sample]| {
            let mut memory: Vec<u64> = samples.iter().map(|sample| sample.memory).collect();
            memory.sort_unstable();
            memory.get(memory.len() / 2).copied().unwrap_or(0)
        };
        let (first, last) = (median(&settled[..fifth]), median(&settled[settled.len() - fifth..]));
        last <= first + first / 10 + STOPPED * self.stopped_scripts
    }

    /// Whether everything held.
    pub fn is_good(&self) -> bool {
        let nothing_broken = self.broken.is_empty() && self.happened.failures.is_empty();
        let nothing_lost = self.unexplained() == 0 && self.outcome.received > 0;
        nothing_broken && nothing_lost && self.own_gaps().next().is_none() && self.memory_held()
    }
}

/// For people.
pub fn text(args: &SoakArgs, results: &Results) -> String {
    let mut lines = traffic_lines(args, results);
    lines.push(memory_line(results));
    lines.extend(gap_lines(results));
    let Results { happened, broken, .. } = results;
    lines.push("events:".to_owned());
    lines.extend(happened.counts.iter().map(|(name, count)| format!("  {count:>6}  {name}")));
    lines.extend(happened.failures.iter().chain(broken).take(20).map(|broken| format!("BROKEN: {broken}")));
    lines.push(if results.is_good() { "everything held" } else { "NOT EVERYTHING HELD" }.to_owned());
    lines.join("\n") + "\n"
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn traffic_lines(args: &SoakArgs, results: &Results) -> Vec<String> {
    let Results { outcome, ledger, .. } = results;
    let found = results.found.map(|found| format!(", of {found} that were found to pass without loss"));
    let found = found.unwrap_or_default();
    let mut lines = vec![
        format!(
            "{} minutes at {:.0} frames/s ({} asked for{found}), seed {}; start {:.2} s, stop {:.2} s",
            args.minutes,
            outcome.sent as f64 / (args.minutes * 60.0),
            results.rate,
            args.seed,
            results.start_seconds,
            results.stop_seconds
        ),
        format!(
            "frames: {} sent, {} received, {} lost, of which {} in no counter; {} duplicates, {} reordered; {} not sent in time",
            outcome.sent,
            outcome.received,
            outcome.lost(),
            results.unexplained(),
            outcome.duplicates,
            outcome.reordered,
            outcome.unsent
        ),
        format!("the router received {} frames and sent {}; lost, by counter:", ledger.received, ledger.sent),
    ];
    lines.extend(ledger.losses.iter().map(|((_, name), packets)| format!("  {packets:>10}  {name}")));
    if outcome.missed > 0 {
        lines.push(format!("  {:>10}  the tester's own receive queue", outcome.missed));
    }
    lines.extend(outcome.latency.map(|(most, usual)| {
        format!(
            "delay: 99.9 % {:.3} ms, the longest {:.3} ms; the tester stood still for {:.3} ms",
            ms(usual),
            ms(most),
            ms(outcome.pause)
        )
    }));
    lines
}

fn memory_line(results: &Results) -> String {
    let Results { samples, rested, .. } = results;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let settled = results.settled();
    let (first, last) = (settled.first().copied().unwrap_or_default(), samples.last().copied().unwrap_or_default());
    format!(
        "memory: {:.1} MB after a tenth of the time, {:.1} MB at the end, {:.1} MB a minute later; slope {:+.2} MB/hour; \
         {} descriptors, then {}, then {}; {} scripts were stopped where they stood, and keep at most {:.0} MB",
        mb(first.memory),
        mb(last.memory),
        mb(rested.memory),
        samples::slope(settled) / 1e6,
        first.descriptors,
        last.descriptors,
        rested.descriptors,
        results.stopped_scripts,
        mb(STOPPED * results.stopped_scripts)
    )
}

fn gap_lines(results: &Results) -> Vec<String> {
    let Watched { moments, gaps, probed } = &results.watched;
    let longest = gaps.iter().map(|gap| gap.gap).max().unwrap_or(0);
    let mut lines = vec![format!(
        "gaps of the worker's loop: {} of {moments} moments have one of more than 1 ms, the longest {:.3} ms; {} of them are not the machine's{}; \
         a spinner alone on that core, before: {:.3} ms",
        gaps.len(),
        ms(longest),
        results.own_gaps().count(),
        if *probed { "" } else { " (there was no probe: this user may not have real-time priority)" },
        ms(results.alone)
    )];
    lines.extend(results.own_gaps().take(10).map(|gap| {
        format!(
            "  at {:.1} s: {:.3} ms; the worker waited for its core {:.3}, the hypervisor had it {:.0}, the probe was late by {:.3}",
            gap.seconds,
            ms(gap.gap),
            ms(gap.waited),
            ms(gap.stolen),
            ms(gap.late)
        )
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_counter_breaks_the_soak() {
        let losses = |packets| BTreeMap::from([((Place::Before, "wan.receive_missed".to_owned()), packets)]);
        let ledger = |packets| Ledger { received: 90, sent: 90, losses: losses(packets) };
        let outcome = Outcome { sent: 100, received: 88, missed: 2, ..Outcome::default() };
        let results = |counted| Results { outcome: outcome.clone(), ledger: ledger(counted), ..Results::default() };
        assert_eq!((results(10).unexplained(), results(10).is_good()), (0, true));
        assert_eq!((results(9).unexplained(), results(9).is_good()), (1, false));
        let mut within = results(10);
        within.ledger.sent = 89;
        within.outcome.received = 87;
        assert_eq!(within.unexplained(), 1, "lost between receiving and sending");
        within.ledger.losses.insert((Place::Behind, "lan.kernel.transmit_dropped".to_owned()), 1);
        assert_eq!(within.unexplained(), 1, "what was lost elsewhere explains nothing here");
        within.ledger.losses.insert((Place::Within, "host.transmit_full".to_owned()), 1);
        assert_eq!(within.unexplained(), 0);
        within.outcome.received = 80;
        assert_eq!(within.unexplained(), 6);
        within.ledger.note_tester(7);
        assert_eq!(within.unexplained(), 0, "one of the seven is in two counters");
        assert_eq!(ledger(10).since(&ledger(4)).losses, losses(6));
        let mut broken = results(10);
        broken.note("the audit", Err(anyhow::anyhow!("differences")));
        assert!(!broken.is_good());
    }

    #[test]
    fn a_ledger_has_what_happens_to_the_traffic() {
        let reason = |kind| DropStatus {
            module: "ttl".to_owned(),
            reason: "expired".to_owned(),
            kind,
            rfc: None,
            packets: 3,
            per_worker: vec![3],
        };
        assert_eq!(Ledger::of(&[], &[reason(DropKind::Drop)]).lost(Place::Within), 3);
        assert_eq!(
            Ledger::of(&[], &[reason(DropKind::Punt)]).lost(Place::Within),
            0,
            "what the slow path gets is not lost"
        );
    }

    #[test]
    fn memory_that_grows_breaks_the_soak() {
        let results = |grown: u64| {
            let sample = |i: u64| Sample { seconds: i as f64, memory: 100 + grown * i / 99, ..Sample::default() };
            Results { samples: (0..100).map(sample).collect(), ..Results::default() }
        };
        assert!(results(0).memory_held() && results(10).memory_held() && !results(30).memory_held());
        assert!(Results::default().memory_held());
        let with_scripts = |grown, stopped_scripts| {
            let samples = (0..100).map(|i| Sample { memory: 100 + grown * i / 99, ..Sample::default() }).collect();
            Results { samples, stopped_scripts, ..Results::default() }
        };
        assert!(with_scripts(STOPPED, 1).memory_held() && !with_scripts(3 * STOPPED, 1).memory_held());
    }
}
