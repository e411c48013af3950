// SPDX-License-Identifier: MIT
//! The tester's two ports at a device: the device's MAC addresses, the frames that go from one port to the other, and
//! the tester's own limits.

use super::Interrupt;
use crate::measure::ports::{self, Longest, TesterPort};
use crate::measure::surroundings::Ports;
use crate::task::{Cores, MachineArgs};
use anyhow::{Result, bail, ensure};
use perigee_dpdk::{Clock, Eal, MBUF};
use perigee_measure::resident::Resident;
use perigee_measure::run::{Family, Ways};
use perigee_measure::search::profile::Settle;
use perigee_measure::search::{Purpose, Shape, Trial};
use perigee_measure::station::End;
use perigee_measure::tester::{Manner, Surroundings as _, Tester, Way};
use perigee_measure::traffic::{self, Description, Order, Range, Sizes, Traffic};
use perigee_net::{MacAddr, Prefix};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a device may take to answer ARP or a neighbor solicitation.
const NEIGHBOR: Duration = Duration::from_secs(30);
/// Between two questions.
const ASK_AGAIN: Duration = Duration::from_millis(300);
/// How long it may take until it forwards.
const FORWARDING: Duration = Duration::from_secs(20);
/// Seconds in which the tester finds out how fast it can send.
const REACH: f64 = 0.5;
/// How late a frame may leave, ns.
const ALLOWANCE: u64 = 1_000_000;
/// The source port of the first flow (RFC 2544 C.2.6.4), and how many flows there are ports for from there on.
const FIRST_PORT: u16 = 49_184;
pub const MOST_FLOWS: u32 = 16_000;
/// Flows for each core of a device with several: they are spread by a hash.
const FLOWS_PER_CORE: u32 = 64;
/// How the tester's own latency is measured: frames per second, seconds.
const FLOOR: (f64, f64) = (2000.0, 1.0);

/// At one side of the device: its network, the device's address, the tester's (RFC 2544 C.2.2, RFC 5180 section 5.2).
#[derive(Clone, Copy)]
struct Side {
    network: &'static str,
    device: &'static str,
    tester: &'static str,
}

const V4: [Side; 2] = [
    Side { network: "198.18.0.0/16", device: "198.18.0.1", tester: "198.18.0.2" },
    Side { network: "198.19.0.0/16", device: "198.19.0.1", tester: "198.19.0.2" },
];
const V6: [Side; 2] = [
    Side { network: "2001:2::/64", device: "2001:2::1", tester: "2001:2::2" },
    Side { network: "2001:2:0:8000::/64", device: "2001:2:0:8000::1", tester: "2001:2:0:8000::2" },
];

/// Flows each way for a device with so many cores, if nobody says how many.
pub fn flows_for(cores: usize) -> u32 {
    if cores > 1 { (FLOWS_PER_CORE * cores as u32).min(MOST_FLOWS) } else { 1 }
}

/// What DPDK is shared for.
#[derive(Clone)]
pub struct Bench {
    pub eal: Eal,
    pub clock: Clock,
    /// The tester's cores.
    pub cores: Vec<usize>,
    /// The longest frame in bytes with FCS.
    pub largest: u16,
    pub family: Family,
    pub settle: Settle,
    /// Flows each way.
    pub flows: u32,
}

impl Bench {
    /// Starts DPDK. `largest` is the longest frame in bytes with FCS, `flows` those of each way.
    ///
    /// # Errors
    /// As [`ports::start`].
    pub fn start(
        machine: &MachineArgs,
        cores: Vec<usize>,
        largest: u32,
        family: Family,
        settle: Settle,
        flows: u32,
    ) -> Result<Bench> {
        let machine = MachineArgs { cores: Some(Cores(cores.clone())), ..machine.clone() };
        let largest = u16::try_from(largest).unwrap_or(u16::MAX);
        Ok(Bench { eal: ports::start(&machine)?, clock: Clock::new(), cores, largest, family, settle, flows })
    }
}

/// The tester's ports at both sides of a device.
pub struct Between {
    pub ports: Ports,
    ends: Vec<End>,
    macs: [MacAddr; 2],
    bench: Bench,
}

impl Between {
    /// Opens the ports, which answer ARP and neighbor discovery from now on; asks for the device's MAC addresses if
    /// they are not given. `advice` is what to do about a device that does not answer.
    ///
    /// # Errors
    /// A port cannot be opened, the device does not answer, or the user interrupts.
    pub fn open(
        bench: &Bench,
        names: &[String; 2],
        macs: Option<[MacAddr; 2]>,
        advice: &str,
        interrupt: &Interrupt,
    ) -> Result<Between> {
        let mut between = Between::cable(bench, names)?;
        let sides = if bench.family == Family::Ipv4 { V4 } else { V6 };
        for ((end, port), side) in between.ends.iter_mut().zip(&between.ports.ports).zip(sides) {
            let network: Prefix = side.network.parse().expect("a constant prefix");
            end.resident = Some(Resident::new(port.mac(), vec![network], vec![address(side.device)]));
        }
        between.macs = match macs {
            Some(macs) => macs,
            None => [between.find(0, sides[0], advice, interrupt)?, between.find(1, sides[1], advice, interrupt)?],
        };
        Ok(between)
    }

    /// Both ends of a cable from the tester to itself.
    ///
    /// # Errors
    /// A port cannot be opened.
    pub fn cable(bench: &Bench, names: &[String; 2]) -> Result<Between> {
        let open =
            ports::open_all(&bench.eal, &names.each_ref().map(String::as_str), Longest::untagged(bench.largest))?;
        let ends = open.iter().map(TesterPort::end).collect::<Result<Vec<_>>>()?;
        let macs = [open[1].mac(), open[0].mac()];
        let (eal, clock, cores) = (bench.eal.clone(), bench.clock, bench.cores.clone());
        let ports = Ports { eal, clock, cores, ports: open, reset: None, reset_error: Arc::default() };
        Ok(Between { ports, ends, macs, bench: bench.clone() })
    }

    /// Asks for the device's MAC address at a side.
    fn find(&mut self, number: usize, side: Side, advice: &str, interrupt: &Interrupt) -> Result<MacAddr> {
        let [device, tester] = [side.device, side.tester].map(address);
        let (start, mut asked) = (Instant::now(), None::<Instant>);
        let clock = self.ports.clock;
        loop {
            let end = &mut self.ends[number];
            let resident = end.resident.as_ref().expect("every end has one");
            if let Some(mac) = resident.neighbor(device) {
                return Ok(mac);
            }
            if asked.is_none_or(|asked| asked.elapsed() > ASK_AGAIN) {
                let question = resident.ask(tester, device);
                end.send(&question);
                asked = Some(Instant::now());
            }
            while end.receive(&|| clock.now()) > 0 {}
            interrupt.check()?;
            if start.elapsed() > NEIGHBOR {
                bail!("nobody at {} answers for {device}: {advice}", self.ports.ports[number].name);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The frames of a size, each way.
    fn ways(&self, size: u32, ways: Ways) -> Result<Vec<Way>> {
        let sizes: Sizes = size.to_string().parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let family = if self.bench.family == Family::Ipv4 { traffic::Family::Ipv4 } else { traffic::Family::Ipv6 };
        // By their source ports.
        let last = FIRST_PORT + (self.bench.flows.clamp(1, MOST_FLOWS) - 1) as u16;
        let source_port = Some(Range::new(Order::Sequential, FIRST_PORT, last)?);
        let there = Description { sizes: Some(sizes), family: Some(family), source_port, ..Description::default() };
        Ok(match ways {
            Ways::One => vec![self.way(0, 1, there)?],
            Ways::Both => vec![self.way(0, 1, there.clone())?, self.way(1, 0, there.opposite())?],
        })
    }

    fn way(&self, from: usize, to: usize, description: Description) -> Result<Way> {
        let (mut source, mut destination) = (self.ports.ports[from].mac(), self.macs[from]);
        if description.reversed {
            (source, destination) = (destination, source);
        }
        let description = Description {
            source_mac: Some(Range::one(source)),
            destination_mac: Some(Range::one(destination)),
            ..description
        };
        let traffic = Traffic::new(&description)?;
        let flows = traffic.flows();
        let name = format!("{} to {}", self.ports.ports[from].name, self.ports.ports[to].name);
        Ok(Way::new(name, from, to, Box::new(traffic), flows))
    }

    /// A tester with frames of a size; [`Self::keep`] takes it back. `floor` is its own latency, ns.
    ///
    /// # Errors
    /// The frames are impossible.
    pub fn tester(&mut self, size: u32, ways: Ways, floor: Option<u64>) -> Result<Tester> {
        let room = self.ports.ports.iter().map(|port| port.room(self.bench.largest)).min().unwrap_or(0);
        let manner = Manner { settle: self.bench.settle, allowance: ALLOWANCE, room, latency_every: 1, floor };
        let ways = self.ways(size, ways)?;
        let run = self.ports.now() as u16;
        Ok(Tester::new(std::mem::take(&mut self.ends), ways, &MBUF, manner, run))
    }

    pub fn keep(&mut self, tester: Tester) {
        self.ends = tester.into_ends();
    }

    /// Sends learning frames, again until some come through.
    ///
    /// # Errors
    /// None of them does within [`FORWARDING`].
    pub fn expect_forwarding(&mut self, tester: &mut Tester) -> Result<()> {
        let start = Instant::now();
        loop {
            let learned = tester.learn(&mut self.ports)?;
            let silent: Vec<&str> =
                learned.iter().filter(|(_, frames)| *frames == 0).map(|(way, _)| way.as_str()).collect();
            if silent.is_empty() {
                return Ok(());
            }
            ensure!(
                start.elapsed() < FORWARDING,
                "the device forwards nothing from {}: none of the learning frames came through within {} s; look at its routes \
                 and neighbors",
                silent.join(", and nothing from "),
                FORWARDING.as_secs()
            );
        }
    }

    /// Frames per second that the tester can send, each way.
    ///
    /// # Errors
    /// The device forwards nothing.
    pub fn reach(&mut self, size: u32, ways: Ways) -> Result<f64> {
        let mut tester = self.tester(size, ways, None)?;
        let reached = self.expect_forwarding(&mut tester).and_then(|()| tester.reach(&mut self.ports, REACH));
        self.keep(tester);
        reached
    }

    /// The tester's own latency with frames of a size: the smallest that is measured over a cable to itself, ns.
    ///
    /// # Errors
    /// Nothing comes back.
    pub fn floor(&mut self, size: u32, interrupt: &Interrupt) -> Result<u64> {
        let mut tester = self.tester(size, Ways::One, None)?;
        let (load, duration) = FLOOR;
        let trial = Trial { load, duration, shape: Shape::Steady, purpose: Purpose::LossRate { attempt: 1 } };
        let record = tester.trial(&mut self.ports, size, &trial, |course| interrupt.watch(course), &mut |_| {})?;
        self.keep(tester);
        interrupt.check()?;
        match record.outcome.latency {
            Some(latency) => Ok(latency.min as u64),
            None => bail!("nothing comes back over a cable from the tester to itself"),
        }
    }

    /// Bits per second of the slower line, if the drivers of both ports know theirs.
    pub fn line(&self) -> Option<f64> {
        let lines: Vec<f64> = self.ports.ports.iter().filter_map(TesterPort::line).collect();
        (lines.len() == self.ports.ports.len()).then(|| lines.into_iter().fold(f64::INFINITY, f64::min))
    }

    /// Closes the ports.
    ///
    /// # Errors
    /// Packet buffers are missing.
    pub fn close(self) -> Result<()> {
        drop(self.ends);
        // Each is closed, whatever the others say.
        self.ports.ports.into_iter().map(TesterPort::close).fold(Ok(()), Result::and)
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("a constant address")
}
