// SPDX-License-Identifier: MIT
//! The tester's own latency without any port: writing a stamp, reading it and the clock. Frames go through a ring of
//! DPDK, from the core back to itself. What drivers, buses and the kernel add is not in it; only a cable from port to
//! port shows that.

use super::threads;
use anyhow::{Result, bail};
use perigee_dpdk::{Clock, Eal, MBUF, MbufPool, PoolConfig, ring};
use perigee_measure::pace::{ALLOWANCE, Limit, Pacer, Pattern};
use perigee_measure::received::{Latencies, Settings};
use perigee_measure::station::{Course, End, Listener, Station, Stream};
use perigee_measure::traffic::{Description, Traffic};

/// Frames, and their rate.
const FRAMES: u64 = 5000;
const RATE: f64 = 100_000.0;
/// Packet buffers: more than are ever under way.
const BUFFERS: u32 = 1023;
/// Attempts: a core that others take for the whole twentieth of a second sends nothing.
const ATTEMPTS: usize = 20;
/// Mark of the stamps.
const RUN: u16 = 0x0101;

/// The smallest latency that is measured in a twentieth of a second, ns.
///
/// # Errors
/// There is no memory for a ring and some packets, or the core was others' all the time.
pub fn floor(eal: &Eal, clock: Clock, cores: &[usize]) -> Result<u64> {
    for _ in 0..ATTEMPTS {
        if let Some(floor) = attempt(eal, clock, cores)? {
            return Ok(floor);
        }
    }
    bail!("no frame came through a ring in {ATTEMPTS} attempts: other programs keep core {} busy", cores[0])
}

fn attempt(eal: &Eal, clock: Clock, cores: &[usize]) -> Result<Option<u64>> {
    let (sender, receiver) = ring(eal, BUFFERS + 1, None)?;
    let pool = MbufPool::new(eal, PoolConfig { buffers: BUFFERS, cache: 64, ..PoolConfig::default() })?;
    let mut end = End::new(Box::new(sender), Box::new(receiver), pool, &MBUF);
    let traffic = Traffic::new(&Description::default())?;
    let flows = traffic.flows();
    let limit = Limit { frames: Some(FRAMES), duration: None };
    let pacer = Pacer::new(Pattern::Constant { rate: RATE }, clock.now(), limit, ALLOWANCE);
    end.stream = Some(Stream::new(Box::new(traffic), &MBUF, pacer, RUN));
    end.listener = Some(Listener::new(Settings::new(RUN, flows)));
    let course = Course::new(1, ALLOWANCE);
    let station = Station { ends: vec![end] };
    let done = threads::run(vec![station], eal, clock, cores, &course, |_| {})?;
    let latencies = done.latencies.into_iter().flatten().next();
    Ok(latencies.as_ref().and_then(Latencies::summary).map(|summary| summary.min_ns))
}
