// SPDX-License-Identifier: MIT
//! The metrics as text: OpenMetrics 1.0, or the older format of Prometheus.

use std::borrow::Borrow;
use std::fmt::Write;

use crate::answers::{
    DropKind, FibStatus, FilterStatus, HelperState, KernelLosses, LinuxState, LinuxStatus, PortStatus, ScriptStatus,
    ScriptValue, SlowPathStatus, Snapshot, TwinEntry, ValueKind, WorkerStatus,
};

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    Open,
    /// Prometheus's older text format, 0.0.4: counters' families end in `_total`, and there are neither units nor
    /// information.
    Prometheus,
}

impl Format {
    /// The one that a client asks for by its `Accept` header, if it has one.
    pub fn accepted(accept: Option<&str>) -> Format {
        let Some(accept) = accept else { return Format::Prometheus };
        let (open, named) = quality(accept, "application/openmetrics-text");
        let (plain, _) = quality(accept, "text/plain");
        // Both are as welcome to `*/*`: then what every tool can read.
        if open > plain || named && open > 0.0 && open == plain { Format::Open } else { Format::Prometheus }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How welcome a media type is by an `Accept` header, from 0 to 1, and whether it is named there: the most specific
/// range that has it decides, of several the best (RFC 9110 12.5.1).
fn quality(accept: &str, wanted: &str) -> (f32, bool) {
    let (family, _) = wanted.split_once('/').unwrap_or((wanted, ""));
    let mut found = (0, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or("").to_ascii_lowercase();
        let specific = match name.split_once('/') {
            _ if name == wanted => 3,
            Some((of, "*")) if of == family => 2,
            Some(("*", "*")) => 1,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        // A weight that is not a number is ignored.
        let quality = weight.and_then(|weight| weight.trim().parse().ok()).unwrap_or(1.0);
        if specific > found.0 || specific == found.0 && quality > found.1 {
            found = (specific, quality);
        }
    }
    (found.1, found.0 == 3)
}

/// All metrics; OpenMetrics' end in `# EOF`.
pub fn render(snapshot: &Snapshot, format: Format) -> String {
    let mut text = Writer(String::new(), format);
    text.family("perigee_build", Kind::Info, "", "Versions of the running router.");
    let version = &snapshot.version;
    let labels = [("name", &*version.name), ("perigee", &version.perigee), ("dpdk", &version.dpdk)];
    text.sample("perigee_build_info", &labels, 1);
    text.family("perigee_uptime_seconds", Kind::Gauge, "seconds", "Time since the router started.");
    text.sample("perigee_uptime_seconds", &[], version.uptime);
    ports(&mut text, &snapshot.ports);
    workers(&mut text, &snapshot.workers);
    modules(&mut text, snapshot);
    filters(&mut text, &snapshot.filters);
    slow_path(&mut text, &snapshot.slow_path);
    scripts(&mut text, &snapshot.scripts);
    values(&mut text, &snapshot.values);
    tables(&mut text, snapshot);
    linux(&mut text, &snapshot.linux);
    if format == Format::Open {
        text.0.push_str("# EOF\n");
    }
    text.0
}

/// Counters of one kind of thing: name, unit, help, and the value.
type Counters<T> = [(&'static str, &'static str, &'static str, fn(&T) -> u64)];

const PORTS: &Counters<PortStatus> = &[
    ("perigee_port_receive_packets", "packets", "Frames received.", |p| p.counters.receive_packets),
    ("perigee_port_receive_bytes", "bytes", "Bytes of frames received.", |p| p.counters.receive_bytes),
    ("perigee_port_receive_errors", "", "Frames damaged or too long.", |p| p.counters.receive_errors),
    ("perigee_port_receive_missed", "", "Frames no queue had room for.", |p| p.counters.receive_missed),
    ("perigee_port_receive_no_buffer", "", "Times the pool was empty.", |p| p.counters.receive_no_buffer),
    ("perigee_port_receive_super_frames", "", "Super-frames received.", |p| p.counters.receive_super_frames),
    ("perigee_port_receive_super_segments", "", "Segments in them.", |p| p.counters.receive_super_segments),
    ("perigee_port_transmit_packets", "packets", "Frames sent.", |p| p.counters.transmit_packets),
    ("perigee_port_transmit_bytes", "bytes", "Bytes of frames sent.", |p| p.counters.transmit_bytes),
    ("perigee_port_transmit_errors", "", "Frames the device could not send.", |p| p.counters.transmit_errors),
    ("perigee_port_transmit_dropped", "", "Frames no transmit queue had room for.", |p| p.counters.transmit_dropped),
    ("perigee_port_transmit_super_frames", "", "Super-frames sent.", |p| p.counters.transmit_super_frames),
    ("perigee_port_transmit_super_segments", "", "Segments in them.", |p| p.counters.transmit_super_segments),
    ("perigee_port_kernel_receive_dropped", "", "Frames Linux lost before the receive queues.", |p| {
        kernel(p, |k| k.receive_dropped)
    }),
    ("perigee_port_kernel_receive_errors", "", "Frames that were damaged when Linux received them.", |p| {
        kernel(p, |k| k.receive_errors)
    }),
    ("perigee_port_kernel_transmit_dropped", "", "Frames Linux lost after the transmit queues took them.", |p| {
        kernel(p, |k| k.transmit_dropped)
    }),
    ("perigee_port_kernel_transmit_errors", "", "Frames Linux failed to send.", |p| kernel(p, |k| k.transmit_errors)),
];

/// What Linux has lost on the interface under a port, if it has one.
fn kernel(port: &PortStatus, count: impl Fn(&KernelLosses) -> u64) -> u64 {
    port.kernel.as_ref().map_or(0, count)
}

/// A counter of a port's twin, if it has one.
fn twin(port: &PortStatus, count: impl Fn(&TwinEntry) -> u64) -> u64 {
    port.twin.as_ref().map_or(0, count)
}

const TWINS: &Counters<PortStatus> = &[
    ("perigee_twin_to_linux_packets", "packets", "Frames given to Linux.", |p| twin(p, |t| t.to_linux)),
    ("perigee_twin_from_linux_packets", "packets", "Frames that came from Linux.", |p| twin(p, |t| t.from_linux)),
    ("perigee_twin_dropped_packets", "packets", "Frames Linux had no room for.", |p| twin(p, |t| t.dropped)),
    ("perigee_twin_missed_packets", "packets", "Frames from Linux the twin's queue had no room for.", |p| {
        twin(p, |t| t.missed)
    }),
];

const WORKERS: &Counters<WorkerStatus> = &[
    ("perigee_worker_batches", "", "Bursts that were not empty.", |w| w.batches),
    ("perigee_worker_idle_polls", "", "Polls that found nothing.", |w| w.idle_polls),
    ("perigee_worker_received_packets", "packets", "Packets received.", |w| w.received),
    ("perigee_worker_handed_over_packets", "packets", "Packets handed to the worker their flow belongs to.", |w| {
        w.handed_over
    }),
    ("perigee_worker_transmitted_packets", "packets", "Packets handed to devices.", |w| w.transmitted),
    ("perigee_worker_punted_packets", "packets", "Packets given to the slow path.", |w| w.punted),
    ("perigee_worker_punt_full_packets", "packets", "Packets the full punt ring cost.", |w| w.punt_full),
    ("perigee_worker_unclaimed_packets", "packets", "Packets a script left behind.", |w| w.unclaimed),
];

const LINUX: &Counters<LinuxStatus> = &[
    ("perigee_linux_changes", "", "Routes of Linux taken over, replaced and withdrawn.", |l| l.changes),
    ("perigee_linux_refused", "", "Routes of Linux that did not fit the table.", |l| l.refused),
    ("perigee_linux_overruns", "", "Times the kernel had no room for notifications.", |l| l.overruns),
    ("perigee_linux_malformed", "", "Messages that contradict themselves.", |l| l.malformed),
    ("perigee_linux_resyncs", "", "Dumps compared with what was there.", |l| l.resyncs),
    ("perigee_linux_repaired", "", "Routes that a dump showed to differ.", |l| l.repaired),
    ("perigee_helper_deaths", "", "Helper processes that died and were not to.", |l| l.helper_deaths),
    ("perigee_audits", "", "Audits begun.", |l| l.audits),
    ("perigee_audit_differences", "", "Differences that audits have found.", |l| l.audit_differences),
];

const SCRIPTS: &Counters<ScriptStatus> = &[
    ("perigee_script_throws", "", "Errors of the script at run time.", |s| s.throws),
    ("perigee_script_trace_aborts", "", "Traces LuaJIT gave up.", |s| s.trace_aborts),
    ("perigee_script_stalls", "", "Times the script did not return and was stopped.", |s| s.stalls),
    ("perigee_script_collections", "", "Steps of the garbage collector.", |s| s.collections),
    ("perigee_script_over_budget", "", "Rounds and collections over their budgets.", |s| s.over_budget),
];

fn ports(text: &mut Writer, ports: &[PortStatus]) {
    let label = |port: &PortStatus| vec![("port", port.name.clone())];
    text.gauges("perigee_port_up", "", "Whether the port has a link.", ports, |p| {
        (label(p), f64::from(u8::from(p.link_up)))
    });
    text.table(PORTS, ports, label);
    let of_devices: Vec<_> =
        ports.iter().flat_map(|port| port.device_counters.iter().map(move |(name, n)| (port, name, *n))).collect();
    let help = "Losses that devices count under their drivers' names.";
    text.counters("perigee_port_device_losses", "", help, &of_devices, |(port, name, n)| {
        (vec![("port", port.name.clone()), ("counter", (*name).clone())], *n)
    });
    let with_twins: Vec<&PortStatus> = ports.iter().filter(|port| port.twin.is_some()).collect();
    text.table(TWINS, &with_twins, |port| label(port));
    let interfaces: Vec<_> = ports.iter().flat_map(|port| &port.interfaces).collect();
    text.gauges("perigee_interface_up", "", "Whether the interface is set up.", &interfaces, |interface| {
        (vec![("interface", interface.name.clone())], f64::from(u8::from(interface.up)))
    });
}

fn workers(text: &mut Writer, workers: &[WorkerStatus]) {
    let label = |worker: &WorkerStatus| vec![("worker", worker.worker.to_string())];
    text.table(WORKERS, workers, label);
    let help = "Longest time between two rounds of the loop.";
    text.gauges("perigee_worker_longest_gap_seconds", "seconds", help, workers, |w| (label(w), w.longest_gap));
}

fn linux(text: &mut Writer, linux: &LinuxStatus) {
    let following = u64::from(linux.state == LinuxState::Following);
    text.family("perigee_linux_following", Kind::Gauge, "", "Whether Linux is followed, and nothing was lost.");
    text.sample("perigee_linux_following", &[], following);
    let alive = u64::from(linux.helper != HelperState::Dead);
    text.family("perigee_helper_alive", Kind::Gauge, "", "Whether the helper process lives, if the router has one.");
    text.sample("perigee_helper_alive", &[], alive);
    text.family("perigee_linux_routes", Kind::Gauge, "", "Routes taken over from Linux.");
    text.sample("perigee_linux_routes", &[], linux.routes);
    text.family("perigee_linux_resync_seconds", Kind::Gauge, "seconds", "How long the last dump took to compare.");
    text.sample("perigee_linux_resync_seconds", &[], linux.resync_seconds);
    text.table(LINUX, std::slice::from_ref(linux), |_| Vec::new());
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
    let help = "Time of the module, and of the script between modules, estimated from one burst in 127.";
    let timed: Vec<_> = snapshot.modules.iter().filter(|module| module.packet_ns.is_some()).collect();
    text.counters("perigee_module_seconds", "seconds", help, &timed, |m| (label(&m.module), m.seconds));
    // What the slow path dropped is of no worker.
    let each: Vec<_> = snapshot
        .drops
        .iter()
        .flat_map(|drop| {
            let of_workers = drop.per_worker.iter().enumerate().map(move |(worker, n)| (drop, Some(worker), *n));
            let slow = drop.per_worker.is_empty().then_some((drop, None, drop.packets));
            of_workers.chain(slow)
        })
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
            labels.extend(worker.map(|worker| ("worker", worker.to_string())));
            (labels, *packets)
        });
    }
}

/// What each filter decided about. A list that changes is another one: its rules have other numbers and count from
/// zero.
fn filters(text: &mut Writer, all: &[FilterStatus]) {
    let counted: Vec<_> = all.iter().filter_map(|filter| Some((filter, filter.hits?))).collect();
    let help = "Packets that a rule of [[filter]] decided about, by its place in the file.";
    text.counters("perigee_filter_packets", "packets", help, &counted, |(filter, hits)| {
        let number = ("number", filter.number.to_string());
        let (action, from) = (("action", filter.action.to_string()), ("from", filter.from.to_string()));
        (vec![number, ("rule", filter.rule.clone()), from, action], *hits)
    });
}

/// Counters and gauges of the script's own.
fn values(text: &mut Writer, all: &[ScriptValue]) {
    let of = |kind| all.iter().filter(move |value| value.kind == kind).collect::<Vec<_>>();
    let label = |value: &ScriptValue| vec![("module", value.module.clone()), ("name", value.name.clone())];
    let (counters, gauges) = (of(ValueKind::Counter), of(ValueKind::Gauge));
    text.counters("perigee_script_counter", "", "What the script counts.", &counters, |v| (label(v), v.value));
    if !gauges.is_empty() {
        text.family("perigee_script_gauge", Kind::Gauge, "", "What the script measures.");
        for value in gauges {
            let labels = [("module", &*value.module), ("name", &*value.name)];
            text.sample("perigee_script_gauge", &labels, value.value);
        }
    }
}

fn slow_path(text: &mut Writer, slow: &SlowPathStatus) {
    let gauges = [
        ("perigee_slowpath_waiting", "", "Packets that wait for a neighbor.", slow.waiting),
        ("perigee_reassembly_datagrams", "", "Datagrams that wait for more fragments.", slow.reassembling),
        ("perigee_reassembly_bytes", "bytes", "Their memory.", slow.reassembling_bytes),
    ];
    for (name, unit, help, value) in gauges {
        text.family(name, Kind::Gauge, unit, help);
        text.sample(name, &[], value);
    }
    let events: Vec<_> = slow.events.iter().collect();
    text.counters("perigee_slowpath_events", "", "What the slow path did.", &events, |(event, count)| {
        (vec![("event", (*event).clone())], **count)
    });
}

fn scripts(text: &mut Writer, scripts: &[ScriptStatus]) {
    let label = |script: &ScriptStatus| vec![("worker", script.worker.to_string())];
    text.gauges("perigee_script_generation", "", "How often the script was loaded.", scripts, |s| {
        (label(s), s.generation as f64)
    });
    text.table(SCRIPTS, scripts, label);
    text.gauges("perigee_script_blacklisted", "", "Code LuaJIT will not compile.", scripts, |s| {
        (label(s), s.blacklisted as f64)
    });
    text.gauges(
        "perigee_script_longest_collection_seconds",
        "seconds",
        "The longest pause for garbage.",
        scripts,
        |s| (label(s), s.longest_collection),
    );
    text.counters("perigee_script_collection_seconds", "seconds", "Time spent on garbage.", scripts, |s| {
        (label(s), s.collection_seconds)
    });
    text.gauges("perigee_script_memory_bytes", "bytes", "Memory of the Lua state.", scripts, |s| {
        (label(s), s.gc_kb * 1024.0)
    });
}

fn tables(text: &mut Writer, snapshot: &Snapshot) {
    text.gauges("perigee_routes", "", "Routes, by source.", &snapshot.routes, |(source, count)| {
        (vec![("source", source.to_string())], *count as f64)
    });
    text.gauges("perigee_fib_bytes", "bytes", "Memory of the lookup structures.", &snapshot.fib, |fib| {
        (fib_labels(fib), fib.bytes as f64)
    });
    text.gauges("perigee_fib_prefixes", "", "Prefixes in the lookup structures.", &snapshot.fib, |fib| {
        (fib_labels(fib), fib.prefixes as f64)
    });
    text.gauges("perigee_next_hops", "", "Next hops in use, by kind.", &snapshot.next_hops, |(kind, count)| {
        (vec![("kind", kind.to_string())], *count as f64)
    });
    text.gauges("perigee_neighbors", "", "Neighbors, by state.", &snapshot.neighbors, |(state, count)| {
        (vec![("state", state.to_string())], *count as f64)
    });
    let buffers = snapshot.buffers.iter().flat_map(|(used, all)| [("used", *used), ("all", *all)]);
    let buffers: Vec<_> = buffers.collect();
    text.gauges("perigee_buffers", "", "Packet buffers of the pools.", &buffers, |(what, count)| {
        (vec![("what", (*what).to_owned())], *count as f64)
    });
}

fn fib_labels(fib: &FibStatus) -> Labels {
    vec![("family", fib.family.to_string()), ("structure", fib.structure.clone())]
}

enum Kind {
    Counter,
    Gauge,
    Info,
}

type Labels = Vec<(&'static str, String)>;

/// The text under construction.
struct Writer(String, Format);

impl Writer {
    /// The head of a family; a unit must be the last word of the name.
    fn family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        let (ending, kind) = match (kind, self.1) {
            (Kind::Counter, Format::Open) => ("", "counter"),
            (Kind::Counter, Format::Prometheus) => ("_total", "counter"),
            (Kind::Gauge, _) => ("", "gauge"),
            (Kind::Info, Format::Open) => ("", "info"),
            (Kind::Info, Format::Prometheus) => ("_info", "gauge"),
        };
        let _ = writeln!(self.0, "# TYPE {name}{ending} {kind}"); // a String takes everything
        if !unit.is_empty() && self.1 == Format::Open {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name}{ending} {}", escaped(help));
    }

    fn counters<T, V: std::fmt::Display>(
        &mut self,
        name: &str,
        unit: &str,
        help: &str,
        of: &[T],
        each: impl Fn(&T) -> (Labels, V),
    ) {
        self.family(name, Kind::Counter, unit, help);
        let sample = format!("{name}_total");
        for (labels, value) in of.iter().map(each) {
            let labels: Vec<_> = labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
            self.sample(&sample, &labels, value);
        }
    }

    /// Counters that all have the same labels.
    fn table<T>(&mut self, counters: &Counters<T>, of: &[impl Borrow<T>], labels: impl Fn(&T) -> Labels) {
        for (name, unit, help, value) in counters {
            self.counters(name, unit, help, of, |each| (labels(each.borrow()), value(each.borrow())));
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
