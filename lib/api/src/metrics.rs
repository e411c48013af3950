// SPDX-License-Identifier: MIT
//! OpenMetrics 1.0 text, as Prometheus and others scrape it.

use std::fmt::Write;

use crate::answers::{DropKind, FibStatus, LinuxStatus, Snapshot};

/// The content type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics, ending in `# EOF`.
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = Writer(String::new());
    text.family("perigee_build", Kind::Info, "", "Versions of the running router.");
    let version = &snapshot.version;
    let labels = [("name", &*version.name), ("perigee", &version.perigee), ("dpdk", &version.dpdk)];
    text.sample("perigee_build_info", &labels, 1);
    text.family("perigee_uptime_seconds", Kind::Gauge, "seconds", "Time since the router started.");
    text.sample("perigee_uptime_seconds", &[], version.uptime);
    ports(&mut text, snapshot);
    workers(&mut text, snapshot);
    modules(&mut text, snapshot);
    scripts(&mut text, snapshot);
    tables(&mut text, snapshot);
    linux(&mut text, &snapshot.linux);
    text.0.push_str("# EOF\n");
    text.0
}

fn ports(text: &mut Writer, snapshot: &Snapshot) {
    let ports = &snapshot.ports;
    text.gauges("perigee_port_up", "", "Whether the port has a link.", ports, |p| {
        (vec![("port", p.name.clone())], f64::from(u8::from(p.link_up)))
    });
    let label = |name: &str| vec![("port", name.to_owned())];
    text.counters("perigee_port_receive_packets", "packets", "Frames received.", ports, |p| {
        (label(&p.name), p.counters.receive_packets)
    });
    text.counters("perigee_port_receive_bytes", "bytes", "Bytes of frames received.", ports, |p| {
        (label(&p.name), p.counters.receive_bytes)
    });
    text.counters("perigee_port_receive_errors", "", "Damaged frames.", ports, |p| {
        (label(&p.name), p.counters.receive_errors)
    });
    text.counters("perigee_port_receive_missed", "", "Frames no queue had room for.", ports, |p| {
        (label(&p.name), p.counters.receive_missed)
    });
    text.counters("perigee_port_receive_no_buffer", "", "Times the pool was empty.", ports, |p| {
        (label(&p.name), p.counters.receive_no_buffer)
    });
    text.counters("perigee_port_transmit_packets", "packets", "Frames sent.", ports, |p| {
        (label(&p.name), p.counters.transmit_packets)
    });
    text.counters("perigee_port_transmit_bytes", "bytes", "Bytes of frames sent.", ports, |p| {
        (label(&p.name), p.counters.transmit_bytes)
    });
    text.counters("perigee_port_transmit_errors", "", "Frames the device could not send.", ports, |p| {
        (label(&p.name), p.counters.transmit_errors)
    });
    text.counters("perigee_port_transmit_dropped", "", "Frames no transmit queue had room for.", ports, |p| {
        (label(&p.name), p.counters.transmit_dropped)
    });
}

fn workers(text: &mut Writer, snapshot: &Snapshot) {
    let workers = &snapshot.workers;
    let label = |worker: u16| vec![("worker", worker.to_string())];
    text.counters("perigee_worker_batches", "", "Bursts that were not empty.", workers, |w| {
        (label(w.worker), w.batches)
    });
    text.counters("perigee_worker_idle_polls", "", "Polls that found nothing.", workers, |w| {
        (label(w.worker), w.idle_polls)
    });
    text.counters("perigee_worker_received_packets", "packets", "Packets received.", workers, |w| {
        (label(w.worker), w.received)
    });
    text.counters(
        "perigee_worker_handed_over_packets",
        "packets",
        "Packets handed to the worker their flow belongs to.",
        workers,
        |w| (label(w.worker), w.handed_over),
    );
    text.counters("perigee_worker_transmitted_packets", "packets", "Packets handed to devices.", workers, |w| {
        (label(w.worker), w.transmitted)
    });
    text.counters("perigee_worker_punted_packets", "packets", "Packets given to the slow path.", workers, |w| {
        (label(w.worker), w.punted)
    });
    text.counters("perigee_worker_punt_full_packets", "packets", "Packets the full punt ring cost.", workers, |w| {
        (label(w.worker), w.punt_full)
    });
    text.counters("perigee_worker_unclaimed_packets", "packets", "Packets a script left behind.", workers, |w| {
        (label(w.worker), w.unclaimed)
    });
    text.gauges(
        "perigee_worker_longest_gap_seconds",
        "seconds",
        "Longest time between two rounds of the loop.",
        workers,
        |w| (label(w.worker), w.longest_gap),
    );
}

fn linux(text: &mut Writer, linux: &LinuxStatus) {
    let following = u64::from(linux.state == "following");
    text.family("perigee_linux_following", Kind::Gauge, "", "Whether Linux is followed, and nothing was lost.");
    text.sample("perigee_linux_following", &[], following);
    text.family("perigee_linux_routes", Kind::Gauge, "", "Routes taken over from Linux.");
    text.sample("perigee_linux_routes", &[], linux.routes);
    text.family("perigee_linux_resync_seconds", Kind::Gauge, "seconds", "How long the last dump took to compare.");
    text.sample("perigee_linux_resync_seconds", &[], linux.resync_seconds);
    let counters = [
        ("perigee_linux_changes", linux.changes, "Routes of Linux taken over, replaced and withdrawn."),
        ("perigee_linux_refused", linux.refused, "Routes of Linux that did not fit the table."),
        ("perigee_linux_overruns", linux.overruns, "Times the kernel had no room for its news."),
        ("perigee_linux_malformed", linux.malformed, "Messages that contradict themselves."),
        ("perigee_linux_resyncs", linux.resyncs, "Dumps compared with what was there."),
        ("perigee_linux_repaired", linux.repaired, "Routes that a dump showed to differ."),
        ("perigee_audits", linux.audits, "Audits begun."),
        ("perigee_audit_differences", linux.audit_differences, "Differences that audits have found."),
    ];
    for (name, value, help) in counters {
        text.counters(name, "", help, &[value], |value| (Vec::new(), *value));
    }
    let left_out: Vec<(&String, u64)> = linux.left_out.iter().map(|(why, n)| (why, *n)).collect();
    text.counters("perigee_linux_left_out", "", "Routes seen and left out, by reason.", &left_out, |(why, n)| {
        (vec![("reason", (*why).clone())], *n)
    });
}

fn modules(text: &mut Writer, snapshot: &Snapshot) {
    let label = |module: &str| vec![("module", module.to_owned())];
    text.counters("perigee_module_packets", "packets", "Packets given to the module.", &snapshot.modules, |m| {
        (label(&m.module), m.packets)
    });
    let each: Vec<_> = snapshot
        .drops
        .iter()
        .flat_map(|drop| drop.per_worker.iter().enumerate().map(move |(worker, packets)| (drop, worker, *packets)))
        .collect();
    let families = [
        ("perigee_dropped_packets", DropKind::Drop, "Packets dropped, by reason."),
        ("perigee_punted_packets", DropKind::Punt, "Packets given to the slow path, by reason."),
    ];
    for (name, kind, help) in families {
        let of_kind: Vec<_> = each.iter().filter(|(drop, ..)| drop.kind == kind).collect();
        text.counters(name, "packets", help, &of_kind, |(drop, worker, packets)| {
            let mut labels = label(&drop.module);
            labels.push(("reason", drop.reason.clone()));
            labels.push(("worker", worker.to_string()));
            (labels, *packets)
        });
    }
}

fn scripts(text: &mut Writer, snapshot: &Snapshot) {
    let scripts = &snapshot.scripts;
    let label = |worker: u16| vec![("worker", worker.to_string())];
    text.gauges("perigee_script_generation", "", "How often the script was loaded.", scripts, |s| {
        (label(s.worker), s.generation as f64)
    });
    text.counters("perigee_script_throws", "", "Errors of the script at run time.", scripts, |s| {
        (label(s.worker), s.throws)
    });
    text.counters("perigee_script_trace_aborts", "", "Traces LuaJIT gave up.", scripts, |s| {
        (label(s.worker), s.trace_aborts)
    });
    text.gauges("perigee_script_blacklisted", "", "Code LuaJIT will not compile.", scripts, |s| {
        (label(s.worker), s.blacklisted as f64)
    });
    text.gauges("perigee_script_memory_bytes", "bytes", "Memory of the Lua state.", scripts, |s| {
        (label(s.worker), s.gc_kb * 1024.0)
    });
}

fn tables(text: &mut Writer, snapshot: &Snapshot) {
    text.gauges("perigee_routes", "", "Routes, by source.", &snapshot.routes, |(source, count)| {
        (vec![("source", source.clone())], *count as f64)
    });
    text.gauges("perigee_fib_bytes", "bytes", "Memory of the lookup structures.", &snapshot.fib, |fib| {
        (fib_labels(fib), fib.bytes as f64)
    });
    text.gauges("perigee_fib_prefixes", "", "Prefixes in the lookup structures.", &snapshot.fib, |fib| {
        (fib_labels(fib), fib.prefixes as f64)
    });
    text.gauges("perigee_next_hops", "", "Next hops in use, by kind.", &snapshot.next_hops, |(kind, count)| {
        (vec![("kind", kind.clone())], *count as f64)
    });
    text.gauges("perigee_neighbors", "", "Neighbors, by state.", &snapshot.neighbors, |(state, count)| {
        (vec![("state", state.clone())], *count as f64)
    });
    let buffers = snapshot.buffers.iter().flat_map(|(used, all)| [("used", *used), ("all", *all)]);
    let buffers: Vec<_> = buffers.collect();
    text.gauges("perigee_buffers", "", "Packet buffers of the pools.", &buffers, |(what, count)| {
        (vec![("what", (*what).to_owned())], *count as f64)
    });
}

fn fib_labels(fib: &FibStatus) -> Labels {
    vec![("family", fib.family.clone()), ("structure", fib.structure.clone())]
}

enum Kind {
    Counter,
    Gauge,
    Info,
}

type Labels = Vec<(&'static str, String)>;

/// Text under construction.
struct Writer(String);

impl Writer {
    /// The head of a family; a unit must be the last word of the name.
    fn family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
        };
        let _ = writeln!(self.0, "# TYPE {name} {kind}"); // a String takes everything
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {}", escaped(help));
    }

    fn counters<T>(&mut self, name: &str, unit: &str, help: &str, of: &[T], each: impl Fn(&T) -> (Labels, u64)) {
        self.family(name, Kind::Counter, unit, help);
        let sample = format!("{name}_total");
        for (labels, value) in of.iter().map(each) {
            let labels: Vec<_> = labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
            self.sample(&sample, &labels, value);
        }
    }

    fn gauges<T>(&mut self, name: &str, unit: &str, help: &str, of: &[T], each: impl Fn(&T) -> (Labels, f64)) {
        self.family(name, Kind::Gauge, unit, help);
        for (labels, value) in of.iter().map(each) {
            let labels: Vec<_> = labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
            self.sample(name, &labels, value);
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

/// As OpenMetrics escapes label values and help texts.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
