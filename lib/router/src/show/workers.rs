// SPDX-License-Identifier: MIT
//! `perigee show workers`, `modules` and `drops`: counters of workers and slow path.

use super::View;
use perigee_api::Answers;
use perigee_api::answers::{DropKind, DropStatus, ModuleStatus, ScriptValue, ValueKind, WorkerState, WorkerStatus};
use perigee_api::queries::{ShowCounters, ShowDrops, ShowModules, ShowWorkers};
use perigee_modules::{Counters, Kind, MODULES, Reason, all_reasons, host, reason, stopwatch};
use perigee_slowpath::CounterKind;

/// The sum of all workers' counters, and the in-kernel plane's.
pub(super) fn sum(view: &View<'_>, count: impl Fn(&Counters) -> u64) -> u64 {
    let kernel = view.workers.kernel().map_or(0, |counters| count(&counters));
    view.workers.counters().map(count).sum::<u64>() + kernel
}

impl Answers<ShowWorkers> for View<'_> {
    fn answer(&self, _: ShowWorkers) -> Vec<WorkerStatus> {
        let tables_version = self.forwarding.version();
        let worker = |(index, counters): (usize, &Counters)| WorkerStatus {
            worker: index as u16,
            core: self.config.workers.get(index).map_or(0, |worker| worker.core),
            queues: self.workers.polled(index).to_vec(),
            state: if self.workers.is_silent(index, self.now) { WorkerState::Silent } else { WorkerState::Running },
            batches: counters.bursts.get(),
            idle_polls: counters.polls.get().saturating_sub(counters.bursts.get()),
            received: counters.received.get().saturating_sub(counters.handed_over.get()),
            handed_over: counters.handed_over.get(),
            transmitted: (0..self.ports.width()).map(|port| counters.port_transmitted(port)).sum(),
            punted: counters.punted.get(),
            punt_full: counters.reason_packets(host::PUNT_RING_FULL),
            unclaimed: counters.unclaimed.get(),
            tables_version,
            longest_gap: counters.longest_gap.get() as f64 / 1e9,
            uptime: self.now.saturating_sub(self.started) as f64 / 1e9,
        };
        self.workers.counters().enumerate().map(worker).collect()
    }
}

impl Answers<ShowModules> for View<'_> {
    fn answer(&self, _: ShowModules) -> Vec<ModuleStatus> {
        let drops = self.answer(ShowDrops {});
        let packets = |module: &str, kind: DropKind| {
            drops.iter().filter(|drop| drop.module == module && drop.kind == kind).map(|drop| drop.packets).sum()
        };
        let builtin = MODULES.iter().enumerate().map(|(index, module)| ModuleStatus {
            module: module.name.to_owned(),
            about: module.summary.to_owned(),
            calls: sum(self, |counters| counters.module_calls(index)),
            packets: sum(self, |counters| counters.module_packets(index)),
            dropped: packets(module.name, DropKind::Drop),
            punted: packets(module.name, DropKind::Punt),
            ..times(
                sum(self, |counters| counters.module_time(index).0),
                sum(self, |counters| counters.module_time(index).1),
            )
        });
        let mut modules: Vec<ModuleStatus> = builtin.collect();
        modules.push(script_module(self));
        for (_, name, ..) in self.workers.custom().all() {
            if !modules.iter().any(|module| module.module == name) {
                let (dropped, punted) = (packets(&name, DropKind::Drop), packets(&name, DropKind::Punt));
                let about = "A script's own.".to_owned();
                modules.push(ModuleStatus { module: name, about, dropped, punted, ..ModuleStatus::default() });
            }
        }
        modules.push(slow_path_module(self));
        modules
    }
}

/// What a module's time in timed bursts says.
fn times(ns: u64, packets: u64) -> ModuleStatus {
    let packet_ns = (packets > 0).then(|| ns as f64 / packets as f64);
    ModuleStatus { seconds: ns as f64 * f64::from(stopwatch::EVERY) / 1e9, packet_ns, ..ModuleStatus::default() }
}

/// The script, shown like a module.
fn script_module(view: &View<'_>) -> ModuleStatus {
    ModuleStatus {
        module: "script".to_owned(),
        about: "The script itself, between the modules.".to_owned(),
        packets: sum(view, |counters| counters.received.get().saturating_sub(counters.handed_over.get())),
        calls: sum(view, |counters| counters.bursts.get()),
        ..times(sum(view, Counters::script_time), sum(view, |counters| counters.timed_packets.get()))
    }
}

/// The slow path, shown like a module.
fn slow_path_module(view: &View<'_>) -> ModuleStatus {
    let counters = view.assistants.counters(view.slow);
    ModuleStatus {
        module: "slowpath".to_owned(),
        about: "ARP, ND, ICMP, fragments, options, and what is for the router itself.".to_owned(),
        packets: counters.punted,
        dropped: counters.iter().filter(|count| count.kind == CounterKind::Drop).map(|count| count.value).sum(),
        ..ModuleStatus::default()
    }
}

impl Answers<ShowCounters> for View<'_> {
    fn answer(&self, _: ShowCounters) -> Vec<ScriptValue> {
        let value = |(number, (module, name, kind)): (u16, (String, String, reason::ValueKind))| {
            let of = |counters: &Counters| counters.value(number).map_or(0, |value| value.get());
            let per_worker: Vec<u64> = self.workers.counters().map(of).collect();
            let kind = match kind {
                reason::ValueKind::Counter => ValueKind::Counter,
                reason::ValueKind::Gauge => ValueKind::Gauge,
            };
            ScriptValue { module, name, kind, value: per_worker.iter().sum(), per_worker }
        };
        (0..).zip(self.workers.custom().values()).map(value).collect()
    }
}

impl Answers<ShowDrops> for View<'_> {
    fn answer(&self, _: ShowDrops) -> Vec<DropStatus> {
        let kernel = self.workers.kernel();
        let in_kernel = |reason| kernel.as_ref().map_or(0, |counters| counters.reason_packets(reason));
        let status = |reason: Reason, module: &str, name: &str, kind: Kind, rfc: &str| {
            let per_worker: Vec<u64> =
                self.workers.counters().map(|counters| counters.reason_packets(reason)).collect();
            DropStatus {
                module: module.to_owned(),
                reason: name.to_owned(),
                kind: if kind == Kind::Drop { DropKind::Drop } else { DropKind::Punt },
                rfc: (!rfc.is_empty()).then(|| rfc.to_owned()),
                packets: per_worker.iter().sum::<u64>() + in_kernel(reason),
                per_worker,
            }
        };
        let builtin =
            all_reasons().map(|(reason, module, info)| status(reason, module, info.name, info.kind, info.rfc));
        let custom = self.workers.custom().all().into_iter();
        let custom = custom.map(|(reason, module, name, kind)| status(reason, &module, &name, kind, ""));
        builtin.chain(custom).chain(slow_drops(self)).collect()
    }
}

/// Frames that the slow path dropped, and those that it could not send.
fn slow_drops(view: &View<'_>) -> Vec<DropStatus> {
    let drop = |reason: &str, rfc: &str, packets| DropStatus {
        module: "slowpath".to_owned(),
        reason: reason.to_owned(),
        kind: DropKind::Drop,
        rfc: (!rfc.is_empty()).then(|| rfc.to_owned()),
        packets,
        per_worker: Vec::new(),
    };
    let mut counters = view.assistants.counters(view.slow);
    // Frames without an interface never reach the slow path itself.
    counters.drops.unknown_interface += view.lost.astray + view.assistants.astray();
    let drops = counters.iter().filter(|count| count.kind == CounterKind::Drop);
    let dropped = drops.map(|count| drop(count.name, count.section, count.value));
    let unsent = view.ports.lost_to_transmit().iter().sum::<u64>() + view.assistants.lost_to_transmit();
    let around = [
        ("transmit", "", unsent),
        ("owner_ring_full", "", view.assistants.refused()),
        ("policed", "RFC 6192", view.lost.policed),
        ("denied", "", view.lost.denied),
        ("denied_linux", "", view.lost.denied_linux),
        ("no_twin", "", view.lost.no_twin),
        ("twin", "", view.ports.iter().filter_map(|port| port.twin.as_ref()).map(|twin| twin.entry().dropped).sum()),
    ];
    dropped.chain(around.map(|(reason, rfc, packets)| drop(reason, rfc, packets))).collect()
}
