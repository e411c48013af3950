// SPDX-License-Identifier: MIT
//! What the slow path takes to judge a packet: one whose time is over, from its frame to the answer's.

use crate::cores::Cores;
use crate::tables::{self, HOST_MAC};
use crate::traffic::Traffic;
use anyhow::{Result, ensure};
use nix::time::{ClockId, clock_gettime};
use perigee_net::{InterfaceId, MacAddr, Prefix4};
use perigee_slowpath::{
    Assistant, Config, GroupPacket, Input, Limits, MulticastDecision, Output, RouteDecision, Routes, SlowPath, Time,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Packets between two looks at the time.
const TURN: usize = 256;
/// Networks that they are for.
const NETWORKS: u32 = 256;

/// All of them are answered where they come from.
struct Back;

impl Routes for Back {
    fn route(&self, _destination: IpAddr, _flow: u32) -> RouteDecision {
        RouteDecision::Station(InterfaceId(0), HOST_MAC)
    }

    fn leads_back(&self, _source: IpAddr, _by: Option<InterfaceId>) -> bool {
        true
    }

    fn multicast(&self, _now: Time, _packet: &GroupPacket) -> MulticastDecision {
        MulticastDecision::NoRoute
    }

    fn lets_linux_send(&self, _interface: InterfaceId, _group: IpAddr, _ttl: u8) -> bool {
        true
    }
}

/// Nanoseconds of CPU time per packet with a TTL of 1, answered by an ICMP error (RFC 1812 5.2.7.3), without limits of
/// their rate. The ring that it comes by and the queue that the answer leaves by are not in it.
///
/// # Errors
/// The core cannot be used, or packets are not answered.
pub fn slow_path_ns(cores: &Cores, core: usize, time: Duration) -> Result<f64> {
    let cores = cores.clone();
    let run = move || {
        cores.pin(core)?;
        judge(time)
    };
    std::thread::spawn(run).join().map_err(|_| anyhow::anyhow!("the slow path panicked"))?
}

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn judge(time: Duration) -> Result<f64> {
    let unlimited = 1_000_000_000;
    let config = Config {
        icmp_errors_per_second: unlimited,
        icmp_errors_per_source: unlimited,
        icmp_error_burst: unlimited,
        ..Config::default()
    };
    let mut owner = SlowPath::new(config.clone());
    for (id, interface) in tables::interfaces(2)?.iter() {
        owner.handle(Time(0), Input::SetInterface { id, interface: interface.clone() }, &Back);
    }
    let mut assistant = Assistant::new(config.clone(), Arc::new(Limits::new(&config)));
    assistant.set_interfaces(&owner.interfaces());
    let frames = frames(tables::mac(0))?;
    let (begun, before, mut packets, mut answers) = (Instant::now(), cpu(), 0_usize, 0_usize);
    for turn in frames.chunks(TURN).cycle() {
        let now = Time(begun.elapsed().as_millis() as u64);
        for frame in turn {
            let judged = assistant.handle(now, InterfaceId(0), frame, &Back);
            packets += usize::from(judged);
            while let Some(output) = assistant.poll_output() {
                answers += usize::from(matches!(output, Output::Transmit { .. }));
            }
        }
        if begun.elapsed() >= time {
            break;
        }
    }
    ensure!(packets > 0 && answers == packets, "{answers} of {packets} packets were answered; expected all");
    Ok((cpu() - before).as_nanos() as f64 / packets as f64)
}

fn frames(mac: MacAddr) -> Result<Vec<Vec<u8>>> {
    let networks = tables::networks(NETWORKS, 1).into_iter().map(|network| Prefix4::new(network, 24));
    let traffic = Traffic::new(64, mac, &networks.collect::<Result<Vec<_>, _>>()?, 1.0, 1)?;
    Ok(traffic.frames().take(TURN * 64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_answered() {
        let cores = Cores::usable().unwrap();
        let ns = slow_path_ns(&cores, cores.list()[0], Duration::from_millis(20)).unwrap();
        assert!(ns > 0.0);
    }
}
