// SPDX-License-Identifier: MIT
//! The account: what was offered, what arrived, where the rest is; memory; gaps.

use super::SoakArgs;
use super::events::Happened;
use super::samples::{self, GAP, Sample};
use super::traffic::Outcome;
use anyhow::Result;
use perigee_api::answers::{DropKind, DropStatus, PortStatus};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The counters of losses, by name, and the frames of both ports of the traffic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ledger {
    /// Frames that the first port received, and the second sent.
    pub received: u64,
    pub sent: u64,
    /// What was lost, by counter.
    pub losses: BTreeMap<String, u64>,
}

impl Ledger {
    /// The ledger of a router's counters now.
    pub fn of(ports: &[PortStatus], drops: &[DropStatus]) -> Ledger {
        let mut ledger = Ledger::default();
        for port in ports {
            let counters = &port.counters;
            match port.name.as_str() {
                "wan" => ledger.received = counters.receive_packets,
                "lan" => ledger.sent = counters.transmit_packets,
                // Its losses are none of the traffic's.
                _ => continue,
            }
            let name = &port.name;
            for (what, packets) in [
                ("receive_missed", counters.receive_missed),
                ("receive_errors", counters.receive_errors),
                ("transmit_errors", counters.transmit_errors),
            ] {
                ledger.losses.insert(format!("{name}.{what}"), packets);
            }
            if let Some(kernel) = &port.kernel {
                ledger.losses.insert(format!("{name}.kernel.receive_dropped"), kernel.receive_dropped);
                ledger.losses.insert(format!("{name}.kernel.receive_errors"), kernel.receive_errors);
                ledger.losses.insert(format!("{name}.kernel.transmit_dropped"), kernel.transmit_dropped);
                ledger.losses.insert(format!("{name}.kernel.transmit_errors"), kernel.transmit_errors);
            }
        }
        // What the slow path dropped is of the other packets: the traffic's are not for it.
        let dropped = drops.iter().filter(|drop| drop.kind == DropKind::Drop && !drop.per_worker.is_empty());
        for drop in dropped {
            ledger.losses.insert(format!("{}.{}", drop.module, drop.reason), drop.packets);
        }
        ledger
    }

    /// What has changed since an earlier one.
    pub fn since(&self, before: &Ledger) -> Ledger {
        let change = |(name, packets): (&String, &u64)| {
            let change = packets.saturating_sub(before.losses.get(name).copied().unwrap_or(0));
            (change > 0).then(|| (name.clone(), change))
        };
        Ledger {
            received: self.received - before.received,
            sent: self.sent - before.sent,
            losses: self.losses.iter().filter_map(change).collect(),
        }
    }

    /// The losses whose names begin so.
    fn lost(&self, names: &str) -> u64 {
        self.losses.iter().filter(|(name, _)| name.starts_with(names)).map(|(_, packets)| packets).sum()
    }
}

/// Everything.
#[derive(Debug, Default)]
pub struct Results {
    pub found: u64,
    pub rate: u64,
    pub start_seconds: f64,
    pub stop_seconds: f64,
    /// The longest gap of a spinner alone on the worker's core, before.
    pub alone: u64,
    pub outcome: Outcome,
    pub ledger: Ledger,
    pub samples: Vec<Sample>,
    /// A minute after the traffic.
    pub rested: Sample,
    pub happened: Happened,
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
        let (before, behind) = (ledger.lost("wan."), ledger.lost("lan.") + outcome.missed);
        let within: u64 = ledger.losses.values().sum::<u64>() - ledger.lost("wan.") - ledger.lost("lan.");
        outcome.sent.saturating_sub(ledger.received + before)
            + ledger.received.saturating_sub(ledger.sent + within)
            + ledger.sent.saturating_sub(outcome.received + behind)
    }

    /// Samples after the first tenth, when everything has been used once.
    fn settled(&self) -> &[Sample] {
        &self.samples[self.samples.len() / 10..]
    }

    /// The samples whose gap was the router's own.
    fn own_gaps(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.is_the_routers())
    }

    /// Whether everything held. Memory may grow by as much as it differs between samples anyway.
    pub fn is_good(&self) -> bool {
        let nothing_broken = self.broken.is_empty() && self.happened.failures.is_empty();
        nothing_broken && self.unexplained() == 0 && self.own_gaps().next().is_none() && self.outcome.received > 0
    }
}

/// For people.
pub fn text(args: &SoakArgs, results: &Results) -> String {
    let Results { outcome, ledger, samples, rested, happened, .. } = results;
    let mut text = String::new();
    let mut say = |line: String| {
        let _ = writeln!(text, "{line}"); // a String takes everything
    };
    let ms = |ns: u64| ns as f64 / 1e6;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    say(format!(
        "{} minutes at {} frames/s ({} were found to pass without loss), seed {}; start {:.2} s, stop {:.2} s",
        args.minutes, results.rate, results.found, args.seed, results.start_seconds, results.stop_seconds
    ));
    say(format!(
        "frames: {} sent, {} received, {} lost, of which {} in no counter; {} duplicates, {} reordered; {} not sent in time",
        outcome.sent,
        outcome.received,
        outcome.lost(),
        results.unexplained(),
        outcome.duplicates,
        outcome.reordered,
        outcome.unsent
    ));
    say(format!("the router received {} of them and sent {}; lost, by counter:", ledger.received, ledger.sent));
    for (name, packets) in &ledger.losses {
        say(format!("  {packets:>10}  {name}"));
    }
    if outcome.missed > 0 {
        say(format!("  {:>10}  the tester's own receive queue", outcome.missed));
    }
    if let Some((most, usual)) = outcome.latency {
        say(format!(
            "delay: 99.9 % {:.3} ms, the longest {:.3} ms; the tester stood still for {:.3} ms",
            ms(usual),
            ms(most),
            ms(outcome.pause)
        ));
    }
    let settled = results.settled();
    let (first, last) = (settled.first().copied().unwrap_or_default(), samples.last().copied().unwrap_or_default());
    say(format!(
        "memory: {:.1} MB after a tenth of the time, {:.1} MB at the end, {:.1} MB a minute later; slope {:+.2} MB/hour; \
         {} descriptors, then {}, then {}",
        mb(first.memory),
        mb(last.memory),
        mb(rested.memory),
        samples::slope(settled) / 1e6,
        first.descriptors,
        last.descriptors,
        rested.descriptors
    ));
    let longest = samples.iter().map(|sample| sample.gap).max().unwrap_or(0);
    let gaps = samples.iter().filter(|sample| sample.gap > GAP).count();
    say(format!(
        "gaps of the worker's loop: {gaps} of {} samples have one of more than 1 ms, the longest {:.3} ms; {} of them are not the machine's; \
         a spinner alone on that core, before: {:.3} ms",
        samples.len(),
        ms(longest),
        results.own_gaps().count(),
        ms(results.alone)
    ));
    for sample in results.own_gaps().take(10) {
        say(format!(
            "  at {:.0} s: {:.3} ms, of which the worker waited for its core {:.3}, the hypervisor had it {:.0}, the spinner's {:.3}",
            sample.seconds,
            ms(sample.gap),
            ms(sample.waited),
            ms(sample.stolen),
            ms(sample.spinner)
        ));
    }
    say("events:".to_owned());
    for (name, count) in &happened.counts {
        say(format!("  {count:>6}  {name}"));
    }
    for broken in happened.failures.iter().chain(&results.broken).take(20) {
        say(format!("BROKEN: {broken}"));
    }
    say(if results.is_good() { "everything held" } else { "NOT EVERYTHING HELD" }.to_owned());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_counter_breaks_the_soak() {
        let losses = |packets| BTreeMap::from([("wan.receive_missed".to_owned(), packets)]);
        let ledger = |packets| Ledger { received: 90, sent: 90, losses: losses(packets) };
        let outcome = Outcome { sent: 100, received: 88, missed: 2, ..Outcome::default() };
        let results = |counted| Results { outcome: outcome.clone(), ledger: ledger(counted), ..Results::default() };
        assert_eq!((results(10).unexplained(), results(10).is_good()), (0, true));
        assert_eq!((results(9).unexplained(), results(9).is_good()), (1, false));
        let mut within = results(10);
        within.ledger.sent = 89;
        assert_eq!(within.unexplained(), 1, "lost between receiving and sending");
        within.ledger.losses.insert("host.transmit_full".to_owned(), 1);
        assert_eq!(within.unexplained(), 0);
        let change = BTreeMap::from([("wan.receive_missed".to_owned(), 6)]);
        assert_eq!(ledger(10).since(&ledger(4)).losses, change);
        let reason = |kind, packets| DropStatus { kind, packets, per_worker: vec![packets], ..DropStatus::default() };
        let counted = Ledger::of(&[], &[reason(DropKind::Punt, 1_000_000), reason(DropKind::Drop, 3)]).losses;
        assert_eq!(counted.values().sum::<u64>(), 3, "what the slow path gets is not lost");
        let mut broken = results(10);
        broken.note("the audit", Err(anyhow::anyhow!("differences")));
        assert!(!broken.is_good());
    }
}
