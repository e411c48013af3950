// SPDX-License-Identifier: MIT
//! `perigee run` on a source that never ends, asked before and after a measurement.

use super::traffic::{IN, Kind, OWN, SMALL_MTU};
use crate::traffic::write_pcap;
use anyhow::{Context as _, Result, ensure};
use perigee_api::client::ApiClient;
use perigee_api::queries::{ShowPorts, ShowSlowPath};
use perigee_lab::{Launch, Place, Router};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long it may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// From the start to the measurement.
const WARM: Duration = Duration::from_millis(500);

/// What a router did in the time measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Packets that came to the slow path.
    pub judged: u64,
    /// Frames sent by the port that packets come in on: errors and replies.
    pub sent_back: u64,
    /// Frames sent by the other port.
    pub forwarded: u64,
    /// CPU time in seconds: the worker's,
    pub worker_cpu: f64,
    /// and that of the slow path.
    pub slow_cpu: f64,
}

/// One worker on `core`, no limit of errors, senders and destinations behind known gateways.
fn config(folder: &Path, kind: Kind, core: usize) -> String {
    let source = folder.join(kind.name()).display().to_string();
    format!(
        "[router]\nname = \"slowpath\"\nsocket = \"slowpath.sock\"\ncores = [{core}]\nidle = \"poll\"\n\
         icmp_rate = 1000000000\nicmp_source_rate = 1000000000\n\n\
         [eal]\nhugepages = false\nmemory = 512\n\n[linux]\nfeed = \"none\"\n\n[policer]\nother = 1000000000\n\n\
         [port.in]\ndevice = \"net_pcap0,rx_pcap={source},infinite_rx=1\"\nmac = \"{IN}\"\ntwin = false\n\
         addresses = [\"{OWN}/24\"]\n\n\
         [port.out]\ndevice = \"net_null0,no-rx=1\"\nmac = \"02:00:00:00:02:01\"\ntwin = false\nmtu = {SMALL_MTU}\n\
         addresses = [\"10.0.2.1/24\"]\n\n\
         [[neighbor]]\naddress = \"10.0.1.2\"\nmac = \"02:00:00:00:01:02\"\n\n\
         [[neighbor]]\naddress = \"10.0.2.2\"\nmac = \"02:00:00:00:02:02\"\n\n\
         [[route]]\nprefix = \"30.0.0.0/8\"\nvia = \"10.0.1.2\"\n\n\
         [[route]]\nprefix = \"20.0.0.0/8\"\nvia = \"10.0.2.2\"\n"
    )
}

/// Starts a router, measures it for `time`, and stops it; every packet buffer must come back.
pub fn measure(folder: &Path, kind: Kind, core: usize, time: Duration) -> Result<Sample> {
    let source = folder.join(kind.name());
    if !source.exists() {
        write_pcap(&source, &kind.frames()?)?;
    }
    let file = folder.join("slowpath.toml");
    fs::write(&file, config(folder, kind, core))?;
    let mut lab = Router::start(Launch {
        program: perigee_lab::program()?,
        place: Place::Router,
        configuration: file,
        arguments: Vec::new(),
        socket: folder.join("slowpath.sock"),
        log: Some(folder.join("slowpath.log")),
        patience: PATIENCE,
    })?;
    let mut api = ApiClient::connect(lab.socket())?;
    std::thread::sleep(WARM);
    let before = look(&mut lab, &mut api)?;
    std::thread::sleep(time);
    let after = look(&mut lab, &mut api)?;
    lab.stop()?;
    let sample = Sample {
        judged: after.judged - before.judged,
        sent_back: after.sent_back - before.sent_back,
        forwarded: after.forwarded - before.forwarded,
        worker_cpu: after.worker_cpu - before.worker_cpu,
        slow_cpu: after.slow_cpu - before.slow_cpu,
    };
    ensure!(kind == Kind::Simple || sample.judged > 0, "no packet of {kind:?} came to the slow path");
    Ok(sample)
}

fn look(lab: &mut Router, api: &mut ApiClient) -> Result<Sample> {
    let (ports, slow) = lab.or_why(|_| Ok((api.ask(&ShowPorts {})?, api.ask(&ShowSlowPath {})?)))?;
    let sent = |name: &str| {
        let port = ports.iter().find(|port| port.name == name);
        port.map(|port| port.counters.transmit_packets).with_context(|| format!("the port {name} is gone"))
    };
    let (worker_cpu, slow_cpu) = cpu(lab.pid())?;
    Ok(Sample {
        judged: slow.events.get("punted").copied().unwrap_or(0),
        sent_back: sent("in")?,
        forwarded: sent("out")?,
        worker_cpu,
        slow_cpu,
    })
}

/// CPU time of workers and slow path, in seconds.
fn cpu(pid: u32) -> Result<(f64, f64)> {
    let (mut workers, mut slow) = (0.0, 0.0);
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let ns: f64 = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
        match read("comm").trim() {
            name if name.starts_with("worker-") => workers += ns / 1e9,
            name if name.starts_with("slow-path") => slow += ns / 1e9,
            _ => {}
        }
    }
    ensure!(workers > 0.0, "/proc does not say how long the worker ran; is it mounted?");
    Ok((workers, slow))
}
