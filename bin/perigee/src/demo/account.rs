// SPDX-License-Identifier: MIT
//! Could a packet have gone around perigee? Compares its counters with those of client and server.

use super::router;
use super::world::Network;
use anyhow::{Context, Result, bail};
use perigee_api::answers::{DropKind, DropStatus};
use perigee_api::queries::{ShowDrops, ShowPorts, ShowWorkers};
use perigee_lab::{Router, patient};
use serde::Serialize;
use serde_json::Value;
use std::time::{Duration, Instant};

/// What the hosts' kernels counted, both hosts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Hosts {
    /// Frames they sent.
    pub sent: u64,
    /// Frames that reached them.
    pub received: u64,
    /// TCP segments and pings among these: at least these the router forwarded or sent itself.
    pub forwarded: u64,
}

/// What perigee counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Perigee {
    /// Packets that the workers received.
    pub received: u64,
    /// Packets that the workers sent: the fast path.
    pub fast_path: u64,
    /// Packets that the in-kernel plane sent.
    pub in_kernel: u64,
    /// Packets that the workers gave to the slow path.
    pub slow_path: u64,
    /// Packets that went on to Linux through a twin.
    pub to_linux: u64,
    /// Packets that Linux sent through a twin.
    pub from_linux: u64,
    /// Packets dropped anywhere.
    pub dropped: u64,
    /// Frames sent by all ports, of workers and slow path; like workers and the hosts' kernels it counts a super-frame
    /// once.
    pub sent: u64,
    /// Segments that made no frame of their own, as they were sent in super-frames.
    pub merged: u64,
}

/// Everything counted.
pub struct Accounts {
    pub hosts: Hosts,
    pub perigee: Perigee,
    /// Reasons with packets.
    pub drops: Vec<DropStatus>,
}

/// Frames that the slow path sends unasked: ARP and ND requests, and packets that waited for the answers.
const UNASKED: u64 = 200;

/// How long workers' counters may take to be published.
const SETTLING: Duration = Duration::from_secs(10);

/// The accounts, once the last packets are counted; they must agree.
pub fn settled(network: &Network, router: &Router) -> Result<Accounts> {
    network.world.forwards_nothing()?;
    let (longest, start) = (patient(SETTLING)?, Instant::now());
    loop {
        // In this order: perigee's counters only grow, so a packet that comes between the two does no harm.
        let hosts = hosts(network)?;
        let (perigee, drops) = perigee(router)?;
        match disagreement(&hosts, &perigee) {
            None => return Ok(Accounts { hosts, perigee, drops }),
            Some(sentence) if start.elapsed() > longest => bail!(sentence),
            // Workers publish their counters a little later.
            Some(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// What does not agree, as a sentence.
fn disagreement(hosts: &Hosts, perigee: &Perigee) -> Option<String> {
    let own = perigee.sent.saturating_sub(perigee.fast_path + perigee.in_kernel);
    if hosts.received > perigee.sent {
        return Some(format!(
            "{} frames reached client and server, but perigee sent {}: some went around it",
            hosts.received, perigee.sent
        ));
    }
    if perigee.received > hosts.sent + perigee.from_linux {
        return Some(format!(
            "perigee received {} frames, but client and server sent {}: some came from elsewhere",
            perigee.received, hosts.sent
        ));
    }
    if own > perigee.slow_path + perigee.from_linux + UNASKED {
        return Some(format!(
            "perigee sent {} frames, its workers only {} of them and the in-kernel plane {}: the fast path did not forward the rest",
            perigee.sent, perigee.fast_path, perigee.in_kernel
        ));
    }
    let segments = perigee.fast_path + perigee.in_kernel + perigee.merged;
    (hosts.forwarded > segments + perigee.slow_path + perigee.from_linux).then(|| {
        format!(
            "{} TCP segments and pings reached client and server, but perigee's workers and its in-kernel plane sent {segments}, the workers gave {} to \
             the slow path, and Linux sent {}",
            hosts.forwarded, perigee.slow_path, perigee.from_linux
        )
    })
}

/// Asks the kernels of client and server.
fn hosts(network: &Network) -> Result<Hosts> {
    let mut sum = Hosts::default();
    for host in [&network.client, &network.server] {
        let link: Value = serde_json::from_str(&host.run("ip -json -stats link show eth0").output()?)?;
        let packets = |way: &str| {
            link[0]["stats64"][way]["packets"].as_u64().with_context(|| format!("no {way} counter of eth0"))
        };
        sum.sent += packets("tx")?;
        sum.received += packets("rx")?;
        sum.forwarded += forwarded(&host.run("cat /proc/net/snmp /proc/net/snmp6").output()?);
    }
    Ok(sum)
}

/// TCP segments, echo requests and replies that a host received, by `/proc/net/snmp` and `snmp6`.
fn forwarded(snmp: &str) -> u64 {
    // A line of names, then one of numbers; for IPv6, a name and a number per line.
    let lines: Vec<Vec<&str>> = snmp.lines().map(|line| line.split_whitespace().collect()).collect();
    let v4 = |protocol: &str, name: &str| {
        let mut both = lines.iter().filter(|line| line.first() == Some(&protocol));
        let column = both.next()?.iter().position(|word| *word == name)?;
        both.next()?.get(column)?.parse().ok()
    };
    let v6 = |name: &str| lines.iter().find(|line| line.first() == Some(&name))?.get(1)?.parse().ok();
    let counters: [Option<u64>; 5] = [
        v4("Tcp:", "InSegs"),
        v4("Icmp:", "InEchos"),
        v4("Icmp:", "InEchoReps"),
        v6("Icmp6InEchos"),
        v6("Icmp6InEchoReplies"),
    ];
    counters.into_iter().flatten().sum()
}

/// Asks perigee.
fn perigee(router: &Router) -> Result<(Perigee, Vec<DropStatus>)> {
    let api = router::api(router)?;
    let workers = api.ask(&ShowWorkers {})?;
    let mut drops = api.ask(&ShowDrops {})?;
    let ports = api.ask(&ShowPorts {})?;
    drops.retain(|drop| drop.packets > 0);
    let twins = || ports.iter().filter_map(|port| port.twin.as_ref());
    let merged =
        ports.iter().map(|port| port.counters.transmit_super_segments - port.counters.transmit_super_frames).sum();
    let counted = Perigee {
        received: workers.iter().map(|worker| worker.received).sum::<u64>()
            + ports.iter().filter_map(|port| Some(port.plane.as_ref()?.finished)).sum::<u64>(),
        fast_path: workers.iter().map(|worker| worker.transmitted).sum(),
        in_kernel: ports.iter().filter_map(|port| Some(port.plane.as_ref()?.sent)).sum(),
        slow_path: workers.iter().map(|worker| worker.punted).sum(),
        to_linux: twins().map(|twin| twin.to_linux).sum(),
        from_linux: twins().map(|twin| twin.from_linux).sum(),
        dropped: drops.iter().filter(|drop| drop.kind == DropKind::Drop).map(|drop| drop.packets).sum(),
        sent: ports.iter().map(|port| port.counters.transmit_packets).sum::<u64>() - merged,
        merged,
    };
    Ok((counted, drops))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: Hosts = Hosts { sent: 1030, received: 1010, forwarded: 1000 };

    fn good() -> Perigee {
        Perigee { received: 1028, fast_path: 1000, slow_path: 25, sent: 1012, ..Perigee::default() }
    }

    #[test]
    fn every_disagreement_is_noticed() {
        assert_eq!(disagreement(&HOSTS, &good()), None);
        let said = |perigee: Perigee| disagreement(&HOSTS, &perigee).unwrap();
        assert!(said(Perigee { sent: 1009, ..good() }).contains("around"));
        assert!(said(Perigee { received: 1031, ..good() }).contains("elsewhere"));
        assert!(said(Perigee { fast_path: 700, ..good() }).contains("fast path did not"));
        assert!(said(Perigee { fast_path: 974, ..good() }).contains("segments"));
        assert_eq!(disagreement(&HOSTS, &Perigee { fast_path: 20, in_kernel: 980, ..good() }), None);
        assert_eq!(disagreement(&HOSTS, &Perigee { fast_path: 990, merged: 10, ..good() }), None, "in super-frames");
    }

    #[test]
    fn counters_of_a_kernel() {
        let text = "Icmp: InMsgs InErrors InEchos InEchoReps\nIcmp: 9 0 2 3\nTcp: RtoAlgorithm MaxConn InSegs\nTcp: 1 -1 100\n\
            Icmp6InMsgs\t5\nIcmp6InEchos                    \t7\nIcmp6InEchoReplies              \t11\n";
        assert_eq!(forwarded(text), 123);
        assert_eq!(forwarded(""), 0);
    }
}
