// SPDX-License-Identifier: MIT
//! The text against a small strict parser of OpenMetrics 1.0.

use std::collections::{HashMap, HashSet};

use super::*;
use crate::answers::*;
use perigee_net::MacAddr;

/// A sample's name with its labels sorted in, and its value.
type Samples = HashMap<(String, Vec<(String, String)>), f64>;

/// Reads the text or says what is wrong with it.
fn parse(text: &str) -> Result<Samples, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("it does not end in # EOF")?;
    let (mut families, mut samples) = (HashSet::new(), Samples::new());
    let mut family = (String::new(), String::new());
    for line in body.lines() {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# ") {
            let words: Vec<&str> = rest.splitn(3, ' ').collect();
            let [what, name, value] = words[..] else { return Err(wrong("a short comment")) };
            match what {
                "TYPE" => {
                    if !families.insert(name.to_owned()) {
                        return Err(wrong("a family twice"));
                    }
                    if !matches!(value, "counter" | "gauge" | "info") {
                        return Err(wrong("an unknown type"));
                    }
                    family = (name.to_owned(), value.to_owned());
                }
                "UNIT" if name == family.0 && name.ends_with(&format!("_{value}")) => {}
                "HELP" if name == family.0 && !value.is_empty() => {}
                _ => return Err(wrong("a comment out of place")),
            }
            continue;
        }
        let end = line.find(['{', ' ']).ok_or_else(|| wrong("no value"))?;
        let suffix = match family.1.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        if line[..end] != format!("{}{suffix}", family.0) {
            return Err(wrong("a sample outside its family"));
        }
        let (labels, rest) = parse_labels(&line[end..]).ok_or_else(|| wrong("bad labels"))?;
        let value: f64 = rest.strip_prefix(' ').and_then(|v| v.parse().ok()).ok_or_else(|| wrong("a bad value"))?;
        if samples.insert((line[..end].to_owned(), labels), value).is_some() {
            return Err(wrong("a sample twice"));
        }
    }
    Ok(samples)
}

/// `{key="value",...}` and what follows; escapes undone, keys sorted.
fn parse_labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let Some(mut rest) = text.strip_prefix('{') else {
        return Some((Vec::new(), text));
    };
    let mut labels = Vec::new();
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let fits = |b: u8| b.is_ascii_lowercase() || b == b'_';
        if key.is_empty() || !key.bytes().all(fits) {
            return None;
        }
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    _ => return None,
                }),
                (_, c) => value.push(c),
            }
        };
        labels.push((key.to_owned(), value));
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    labels.sort();
    Some((labels, rest.strip_prefix('}')?))
}

fn snapshot() -> Snapshot {
    let port = PortStatus {
        name: "wan".into(),
        device: "eth0".into(),
        driver: "net_af_packet".into(),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        link_up: true,
        speed: None,
        promiscuous: false,
        receive_queues: 1,
        transmit_queues: 2,
        numa: None,
        offloads: vec![],
        twin: Some(TwinEntry {
            name: "wan".into(),
            namespace: None,
            index: 4,
            to_linux: 1,
            from_linux: 2,
            dropped: 0,
            missed: 3,
        }),
        interfaces: vec![InterfaceEntry { name: "wan".into(), vlan: None, up: false, mtu: 1500, addresses: vec![] }],
        counters: PortCounters { receive_packets: 17, ..PortCounters::default() },
        kernel: Some(KernelLosses { receive_dropped: 5, ..KernelLosses::default() }),
        plane: None,
        device_counters: [("rx_q0_errors".to_owned(), 6)].into(),
    };
    let drop = DropStatus {
        module: "ipv4_valid".into(),
        reason: "odd \"quoted\"\\\nreason".into(),
        kind: DropKind::Drop,
        rfc: None,
        packets: 12,
        per_worker: vec![5, 7],
    };
    let filter = |kind, hits| FilterStatus {
        kind,
        number: 3,
        rule: "proto 17 dport 9".into(),
        from: FilteredFrom::Ports,
        action: FilterAction::Drop,
        done_in: DoneIn::Software,
        hits,
    };
    let punt = DropStatus { kind: DropKind::Punt, ..drop.clone() };
    let slow = DropStatus { module: "slowpath".into(), per_worker: vec![], ..drop.clone() };
    Snapshot {
        ports: vec![port],
        workers: vec![WorkerStatus::default()],
        modules: vec![ModuleStatus { module: "ttl".into(), packets: 3, ..ModuleStatus::default() }],
        drops: vec![drop, punt, slow],
        filters: vec![filter(FilterKind::Filter, Some(23)), filter(FilterKind::Steer, None)],
        slow_path: SlowPathStatus {
            threads: 1,
            reassembling_bytes: 640,
            events: [("reassembled".to_owned(), 4)].into(),
            ..SlowPathStatus::default()
        },
        scripts: vec![ScriptStatus { gc_kb: 0.5, ..ScriptStatus::default() }],
        routes: vec![(RouteOrigin::Static, 8)],
        fib: vec![FibStatus {
            family: IpFamily::V4,
            chosen: "auto".into(),
            structure: "dirb".into(),
            why: None,
            prefixes: 1,
            bytes: 9,
            pending: false,
        }],
        neighbors: vec![(NeighborState::Reachable, 2)],
        buffers: Some((1, 1024)),
        ..Snapshot::default()
    }
}

#[test]
fn the_text_is_openmetrics_and_holds_the_numbers() {
    let text = render(&snapshot(), Format::Open);
    let samples = parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        samples.get(&(name.to_owned(), labels)).copied()
    };
    assert_eq!(value("perigee_port_receive_packets_total", &[("port", "wan")]), Some(17.0));
    assert_eq!(value("perigee_port_kernel_receive_dropped_total", &[("port", "wan")]), Some(5.0));
    let labels = [("counter", "rx_q0_errors"), ("port", "wan")];
    assert_eq!(value("perigee_port_device_losses_total", &labels), Some(6.0));
    assert_eq!(value("perigee_twin_missed_packets_total", &[("port", "wan")]), Some(3.0));
    assert_eq!(value("perigee_interface_up", &[("interface", "wan")]), Some(0.0));
    let reason = [("module", "ipv4_valid"), ("reason", "odd \"quoted\"\\\nreason"), ("worker", "1")];
    assert_eq!(value("perigee_dropped_packets_total", &reason), Some(7.0));
    let slow = [("module", "slowpath"), ("reason", "odd \"quoted\"\\\nreason")];
    assert_eq!(value("perigee_dropped_packets_total", &slow), Some(12.0));
    let filter = [("action", "drop"), ("from", "ports"), ("number", "3"), ("rule", "proto 17 dport 9")];
    assert_eq!(value("perigee_filter_packets_total", &filter), Some(23.0));
    assert_eq!(value("perigee_script_memory_bytes", &[("worker", "0")]), Some(512.0));
    assert_eq!(value("perigee_fib_bytes", &[("family", "IPv4"), ("structure", "dirb")]), Some(9.0));
    assert_eq!(value("perigee_buffers", &[("what", "all")]), Some(1024.0));
    assert_eq!(value("perigee_reassembly_bytes", &[]), Some(640.0));
    assert_eq!(value("perigee_slowpath_events_total", &[("event", "reassembled")]), Some(4.0));
}

#[test]
fn an_empty_router_has_metrics_too() {
    parse(&render(&Snapshot::default(), Format::Open)).unwrap();
}

#[test]
fn the_parser_of_this_test_is_strict() {
    let family = "# TYPE a counter\n# HELP a x\n";
    for bad in [
        "a_total 1\n",
        "a 1\n# EOF\n",
        "a_total{b=\"\n\"} 1\n# EOF\n",
        "a_total x\n# EOF\n",
        "a_total 1\na_total 1\n# EOF\n",
    ] {
        assert!(parse(&format!("{family}{bad}")).is_err(), "{bad}");
    }
    assert!(parse(&format!("{family}a_total 1\n# EOF\n")).is_ok());
}

#[test]
fn who_does_not_ask_for_openmetrics_gets_what_prometheus_has_always_read() {
    assert_eq!(Format::accepted(None), Format::Prometheus);
    assert_eq!(Format::accepted(Some("text/plain;version=0.0.4;q=0.5,*/*;q=0.1")), Format::Prometheus);
    assert_eq!(Format::accepted(Some("application/openmetrics-text;version=1.0.0,*/*;q=0.1")), Format::Open);
    // RFC 9110 12.4.2: what is refused is not sent, nor what is less welcome.
    for (accept, format) in [
        ("application/openmetrics-text;q=0, text/plain", Format::Prometheus),
        ("application/openmetrics-text; q=0.2, text/plain; q=0.9", Format::Prometheus),
        ("application/openmetrics-text;q=0.9,text/*;q=0.2", Format::Open),
        ("APPLICATION/OpenMetrics-Text", Format::Open),
        ("text/plain, application/openmetrics-text", Format::Open),
        ("*/*", Format::Prometheus),
        ("application/*;q=0.5", Format::Open),
        ("text/plain;q=0, */*", Format::Open),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
          text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            Format::Open,
        ),
        ("", Format::Prometheus),
        (",;q=,q=1", Format::Prometheus),
    ] {
        assert_eq!(Format::accepted(Some(accept)), format, "{accept}");
    }
    let text = render(&snapshot(), Format::Prometheus);
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
    // Each sample's family is its own name.
    let mut families = std::collections::BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|declared| declared.split_once(' ')) {
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert!(families.insert(name, kind).is_none(), "{name} twice");
        } else if !line.starts_with("# HELP ") {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(families.get(name) == Some(&"counter"), name.ends_with("_total"), "{line}");
            assert!(families.contains_key(name), "{line}");
        }
    }
}
