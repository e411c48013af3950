// SPDX-License-Identifier: MIT
//! Counters for machines: OpenMetrics text, and DPDK's own telemetry.

use crate::{PORTS, Pair};
use perigee_tests::{Good, World};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

perigee_tests::scenarios![metrics_are_open_metrics, dpdks_own_telemetry_answers,];

/// Fails unless the text is OpenMetrics: every sample belongs to a family that was declared before it, and one `# EOF`
/// ends it.
fn check_open_metrics(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").expect("# EOF at the end");
    let (mut families, mut samples) = (BTreeMap::new(), BTreeMap::new());
    for line in body.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').expect("a name and a type");
            assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            continue;
        }
        if line.starts_with("# HELP ") || line.starts_with("# UNIT ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let name = series.split('{').next().unwrap_or(series);
        let plain = ["_total", "_info"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let kind = families.get(plain).or(families.get(name)).unwrap_or_else(|| panic!("{name} was not declared"));
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} twice");
    }
    samples
}

fn metrics_are_open_metrics(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("metrics = \"127.0.0.1:9100\"", PORTS);
    client.reaches("10.0.2.2");
    client.ping(20, "10.0.2.2");
    router.transmits(40);
    let samples = check_open_metrics(&router.ask("show metrics").good().out);
    let sent = samples["perigee_worker_transmitted_packets_total{worker=\"0\"}"];
    assert!(sent >= 40.0 && sent <= router.workers("transmitted") as f64, "{sent}");
    assert!(samples["perigee_port_receive_packets_total{port=\"wan\"}"] >= 20.0);

    let mut stream = TcpStream::connect("127.0.0.1:9100").expect("the configured address");
    stream
        .write_all(
            b"GET /metrics HTTP/1.1\r\nHost: r\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n",
        )
        .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
    assert!(check_open_metrics(body).len() >= samples.len());
    // Only the metrics are open to the network.
    let mut stream = TcpStream::connect("127.0.0.1:9100").expect("the configured address");
    stream.write_all(b"GET /v1/routes HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    router.stop();
}

fn dpdks_own_telemetry_answers(world: &World) {
    let _pair = Pair::new(world);
    // It knows the ports that DPDK drives.
    let ports = PORTS.replace("addresses", "driver = \"dpdk:af_packet\"\naddresses");
    let router = world.router("", &ports);
    let telemetry = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    let address = SocketAddrUnix::new("/run/dpdk/t/dpdk_telemetry.v2").expect("an address");
    connect(&telemetry, &address).expect("the telemetry socket");
    let receive = || {
        let mut buffer = vec![0; 16384];
        let (length, _) = recv(&telemetry, &mut buffer[..], RecvFlags::empty()).expect("an answer");
        serde_json::from_slice::<serde_json::Value>(&buffer[..length]).expect("JSON")
    };
    assert!(receive()["version"].as_str().is_some_and(|version| version.contains("DPDK")));
    send(&telemetry, b"/ethdev/list", SendFlags::empty()).expect("a question");
    assert_eq!(receive()["/ethdev/list"], serde_json::json!([0, 1]));
    router.stop();
}
