// SPDX-License-Identifier: MIT
//! A world as a row's test sees it: stations that send, and what comes out of the router.
//!
//! **Silence is judged by what follows.** Behind the packets that are tested the runner sends others that must arrive:
//! a plain one to each other link, and an echo request to the router, whose reply has passed wherever the router makes
//! its own packets. Only when these have come, and then one from each other link too, is it said that nothing came.

use crate::judge::{Judged, Stop, demand, fail, same};
use crate::network::{
    self, POINT_TO_POINT_STATION, SAME_LINK_GATEWAY4, SAME_LINK_GATEWAY6, SECOND_GATEWAY, Side, UNROUTED4, World,
};
use crate::record::Record;
use crate::seen::{Seen, is_echo_of};
use crate::station::{Answers, Station};
use crate::wire::{Caught, IcmpError, Packet4, Packet6, Probe, framed, target};
use anyhow::{Context as _, Result, bail};
use perigee_net::MacAddr;
use perigee_packet::wire::protocol;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// What must arrive, arrives within this time, or the row fails. Far more than needed: the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(10);
/// How long a world's end is listened to behind the last marker, for routers that use several threads.
const AFTER: Duration = Duration::from_millis(4);
/// The identifier of echo requests that are markers.
const MARKER: u16 = 0x4d41;
/// The UDP port of other markers.
const MARKER_PORT: u16 = 0x4d42;

/// Stations on the links of a router.
pub struct Bench {
    world: World,
    stations: Vec<Station>,
    /// Who answers ARP and neighbor discovery, and with which MAC address.
    pub answers: Answers,
    /// What has come since [`Bench::begin`].
    log: Vec<Caught>,
    /// What came before the router was ready.
    startup: Vec<Caught>,
    /// All frames of the row, for captures.
    pub record: Record,
    identification: u16,
    strangers: usize,
}

impl Bench {
    /// Stations at the far ends of the links of a world; `interface` names the near end of each.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn open(world: World, sides: &[Side], interface: impl Fn(Side) -> String) -> Result<Bench> {
        let station = |side: &Side| {
            let (own, router) = (network::mac(world, *side, 2), network::mac(world, *side, 1));
            Station::open(*side, &interface(*side), own, router)
        };
        let mut bench = Bench {
            world,
            stations: sides.iter().map(station).collect::<Result<_>>()?,
            answers: Answers::default(),
            log: Vec::new(),
            startup: Vec::new(),
            record: Record::default(),
            identification: 0x1000,
            strangers: 0,
        };
        bench.answer_as_usual();
        Ok(bench)
    }

    /// All stations and gateways answer when they are asked for.
    pub fn answer_as_usual(&mut self) {
        self.answers = Answers::default();
        for side in self.sides() {
            let usual = network::mac(self.world, side, 2);
            self.answers.set(side, side.station4(), usual);
            self.answers.set(side, side.station6(), usual);
            self.answers.set(side, side.station_link_local(), usual);
        }
        let second = network::mac(self.world, Side::Right, SECOND_GATEWAY);
        self.answers.set(Side::Right, Side::Right.host4(SECOND_GATEWAY), second);
        self.answers.set(Side::Right, Side::Right.host6(SECOND_GATEWAY.into()), second);
        self.answers.set(Side::Right, POINT_TO_POINT_STATION, network::mac(self.world, Side::Right, 4));
        let gateway = network::mac(self.world, Side::Left, 254);
        self.answers.set(Side::Left, SAME_LINK_GATEWAY4, gateway);
        self.answers.set(Side::Left, SAME_LINK_GATEWAY6, gateway);
        if self.world == World::Conflict {
            self.answers.set(Side::Right, Side::Right.router6(), second);
        }
    }

    /// The world.
    pub fn world(&self) -> World {
        self.world
    }

    /// The links that there are.
    pub fn sides(&self) -> Vec<Side> {
        self.stations.iter().map(|station| station.side).collect()
    }

    /// A station's MAC address; 1 is the router's.
    pub fn mac(&self, side: Side, host: u8) -> MacAddr {
        if host == 1 { self.station(side).router } else { network::mac(self.world, side, host) }
    }

    /// A station.
    fn station(&self, side: Side) -> &Station {
        self.stations.iter().find(|station| station.side == side).expect("rows ask for links that there are")
    }

    /// A number that no other packet of this world has.
    pub fn number(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// A mark that no other packet of this world has.
    pub fn mark(&mut self) -> u64 {
        0xc04f_0000_7e57_0000 | u64::from(self.number())
    }

    /// IPv4 with UDP from the left station to the right one.
    pub fn udp4(&mut self) -> Packet4 {
        Packet4::udp(self.number(), Side::Left.station4(), Side::Right.station4(), 64)
    }

    /// IPv4 with UDP from a station on the left to where no route leads. Each is from a station of its own, which
    /// answers ARP: some routers limit such errors by their destination.
    pub fn unrouted4(&mut self) -> Packet4 {
        let source = self.stranger4();
        Packet4::udp(self.number(), source, UNROUTED4, 64)
    }

    /// The address of another station on the left link, which answers.
    pub fn stranger4(&mut self) -> Ipv4Addr {
        let host = 20 + (self.strangers % 200) as u8;
        self.strangers += 1;
        let mac = self.station(Side::Left).mac;
        self.answers.set(Side::Left, Side::Left.host4(host), mac);
        Side::Left.host4(host)
    }

    /// IPv6 with UDP from the left station to the right one.
    pub fn udp6(&mut self) -> Packet6 {
        Packet6::udp(self.mark(), Side::Left.station6(), Side::Right.station6(), 64)
    }

    /// An echo request from a station to the router's address on its link.
    pub fn echo4(&mut self, side: Side, data: usize) -> Packet4 {
        Packet4::echo(self.number(), side.station4(), side.router4(), data)
    }

    /// An echo request from a station to the router's address on its link.
    pub fn echo6(&mut self, side: Side, data: usize) -> Packet6 {
        Packet6::echo(self.mark(), side.station6(), side.router6(), data)
    }

    /// Sends a frame as it is.
    ///
    /// # Errors
    /// The link is gone.
    pub fn send_frame(&mut self, side: Side, frame: &[u8]) -> Result<()> {
        self.record.sent(side, frame);
        self.station(side).link.send(frame)
    }

    /// Sends a packet to the router.
    ///
    /// # Errors
    /// As [`Bench::send_frame`].
    pub fn send(&mut self, side: Side, probe: &impl Probe) -> Result<()> {
        self.send_to(side, self.station(side).router, probe)
    }

    /// Sends a packet in a frame to a MAC address.
    ///
    /// # Errors
    /// As [`Bench::send_frame`].
    pub fn send_to(&mut self, side: Side, to: MacAddr, probe: &impl Probe) -> Result<()> {
        let frame = framed(self.station(side).mac, to, probe.ethertype(), &probe.bytes());
        self.send_frame(side, &frame)
    }

    /// Forgets what has come so far.
    ///
    /// # Errors
    /// A link is gone.
    pub fn begin(&mut self) -> Result<()> {
        self.collect()?;
        self.log.clear();
        Ok(())
    }

    /// What has come since [`Bench::begin`].
    pub fn log(&self) -> &[Caught] {
        &self.log
    }

    /// What came before the router was ready.
    pub fn startup(&self) -> &[Caught] {
        &self.startup
    }

    /// Takes what has come so far as what came before the router was ready.
    pub fn started(&mut self) {
        self.startup = std::mem::take(&mut self.log);
    }

    /// Reads all links once; neighbors are answered. True if something came.
    fn collect(&mut self) -> Result<bool> {
        let before = self.log.len();
        for at in 0..self.stations.len() {
            let side = self.stations[at].side;
            while let Some(frame) = self.stations[at].link.next()? {
                if frame.len() < 14 {
                    continue;
                }
                self.record.received(side, &frame);
                let caught = Caught { side, frame };
                if let Some(answer) = self.answers.answer(&caught) {
                    self.send_frame(side, &answer)?;
                }
                self.log.push(caught);
            }
        }
        Ok(self.log.len() > before)
    }

    /// Collects until `done` says so, or the time is over; returns whether it was said.
    ///
    /// # Errors
    /// A link is gone.
    pub fn wait(&mut self, limit: Duration, mut done: impl FnMut(&[Caught]) -> bool) -> Result<bool> {
        let start = Instant::now();
        loop {
            let came = self.collect()?;
            if done(&self.log) {
                return Ok(true);
            }
            let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
                return Ok(false);
            };
            if !came {
                let mut fds: Vec<PollFd> =
                    self.stations.iter().map(|station| PollFd::new(&station.link, PollFlags::IN)).collect();
                let pause = left.min(Duration::from_millis(20));
                let timeout = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
                poll(&mut fds, Some(&timeout)).context("links cannot be waited for")?;
            }
        }
    }

    /// Collects for a while.
    ///
    /// # Errors
    /// A link is gone.
    pub fn listen(&mut self, time: Duration) -> Result<()> {
        self.wait(time, |_| false).map(|_| ())
    }

    /// Collects until a frame fits.
    ///
    /// # Errors
    /// None comes; the reason says that `what` was expected.
    pub fn expect(&mut self, what: &str, mut fits: impl FnMut(&Caught) -> bool) -> Judged<Caught> {
        let mut found = None;
        self.wait(LIMIT, |log| {
            found = log.iter().find(|caught| fits(caught)).cloned();
            found.is_some()
        })?;
        found.map_or_else(|| fail(format_args!("{what} did not come")), Ok)
    }

    /// Waits until everything that was sent from a link is dealt with; the head of this file says how.
    ///
    /// # Errors
    /// A marker does not come back.
    pub fn settle(&mut self, from: Side) -> Result<()> {
        let others: Vec<Side> = self.sides().into_iter().filter(|side| *side != from).collect();
        let number = self.number();
        let data = [b"marker ", &number.to_be_bytes()[..]].concat();
        for to in &others {
            let mut plain = Packet4::udp(number, from.station4(), to.station4(), 0);
            plain.payload = [&MARKER_PORT.to_be_bytes()[..], &[0, 9, 0, (8 + data.len()) as u8, 0, 0], &data].concat();
            self.send(from, &plain)?;
        }
        self.ask(from, number)?;
        let arrived = |log: &[Caught], side: Side, fits: &dyn Fn(&Caught) -> bool| {
            log.iter().any(|caught| caught.side == side && fits(caught))
        };
        let plain = |caught: &Caught| is_marker(caught) && caught.packet().ends_with(&data);
        let replied = |caught: &Caught| is_reply(caught, number);
        let came =
            self.wait(LIMIT, |log| others.iter().all(|to| arrived(log, *to, &plain)) && arrived(log, from, &replied))?;
        if !came {
            bail!("what was sent behind it from the {from} link, plain packets and an echo request, did not come back");
        }
        for side in &others {
            self.ask(*side, number)?;
        }
        if !self.wait(LIMIT, |log| others.iter().all(|side| arrived(log, *side, &replied)))? {
            bail!("an echo request that was sent behind it to the router was not answered");
        }
        self.listen(AFTER)
    }

    fn ask(&mut self, side: Side, number: u16) -> Result<()> {
        let rest = u32::from(MARKER) << 16 | u32::from(number);
        let echo = Packet4::icmp(number, side.station4(), side.router4(), (8, 0, rest), b"marker");
        self.send(side, &echo)
    }

    /// What has come of a probe since [`Bench::begin`].
    pub fn seen(&self, probe: &impl Probe) -> Seen {
        let mut seen = Seen::default();
        for caught in self.log.iter().filter(|caught| !is_marker(caught)) {
            if let Some(error) = probe.error_in(caught) {
                seen.errors.push((caught.side, error));
            } else if probe.is_in(caught) {
                seen.passed.push(caught.clone());
            } else if !caught.is_chatter() {
                seen.strays.push(caught.clone());
            }
        }
        seen
    }

    /// Sends a packet and collects until it is dealt with.
    ///
    /// # Errors
    /// As [`Bench::settle`].
    pub fn offer(&mut self, from: Side, probe: &impl Probe) -> Judged<Seen> {
        self.offer_to(from, self.station(from).router, probe)
    }

    /// [`Bench::offer`] in a frame to a MAC address.
    ///
    /// # Errors
    /// As [`Bench::settle`].
    pub fn offer_to(&mut self, from: Side, to: MacAddr, probe: &impl Probe) -> Judged<Seen> {
        self.begin()?;
        self.send_to(from, to, probe)?;
        self.settle(from)?;
        Ok(self.seen(probe))
    }

    /// [`Bench::offer_to`] for a packet that is forwarded or answered by an ICMP error: waits for either first. A
    /// neighbor may have to be asked before, and another thread of the slow path than that of the last marker may
    /// send it.
    ///
    /// # Errors
    /// As [`Bench::settle`].
    pub fn outcome_to(&mut self, from: Side, to: MacAddr, probe: &impl Probe) -> Judged<Seen> {
        self.begin()?;
        self.send_to(from, to, probe)?;
        self.wait(LIMIT, |log| log.iter().any(|caught| probe.is_in(caught) || probe.error_in(caught).is_some()))?;
        self.settle(from)?;
        Ok(self.seen(probe))
    }

    /// [`Bench::outcome_to`] in a frame to the router.
    ///
    /// # Errors
    /// As [`Bench::settle`].
    pub fn outcome(&mut self, from: Side, probe: &impl Probe) -> Judged<Seen> {
        self.outcome_to(from, self.station(from).router, probe)
    }

    /// Demands that a packet is forwarded to a link, once, and that nothing else comes of it.
    ///
    /// # Errors
    /// It is not.
    pub fn pass(&mut self, from: Side, probe: &impl Probe, to: Side) -> Judged<Caught> {
        let mut seen = self.outcome(from, probe)?;
        if let Some((_, error)) = seen.errors.first() {
            return fail(format_args!("it was answered by an ICMP error, type {} code {}", error.kind, error.code));
        }
        match (seen.passed.pop(), seen.passed.len()) {
            (None, _) => fail("it was not forwarded"),
            (Some(passed), 0) if passed.side == to => Ok(passed),
            (Some(passed), 0) => fail(format_args!("it was forwarded to the {} link, expected {to}", passed.side)),
            (Some(_), more) => fail(format_args!("it was forwarded {} times", more + 1)),
        }
    }

    /// Demands that nothing at all comes of a packet.
    ///
    /// # Errors
    /// Something does.
    pub fn silence(&mut self, from: Side, probe: &impl Probe) -> Judged {
        self.silence_to(from, self.station(from).router, probe)
    }

    /// [`Bench::silence`] in a frame to a MAC address.
    ///
    /// # Errors
    /// As there.
    pub fn silence_to(&mut self, from: Side, to: MacAddr, probe: &impl Probe) -> Judged {
        let seen = self.offer_to(from, to, probe)?;
        seen.is_silent()
    }

    /// Demands that a packet is not forwarded, whatever else comes of it.
    ///
    /// # Errors
    /// It is.
    pub fn stays(&mut self, from: Side, probe: &impl Probe) -> Judged<Seen> {
        let seen = self.offer(from, probe)?;
        match seen.passed.first() {
            Some(passed) => fail(format_args!("it was forwarded to the {} link", passed.side)),
            None => Ok(seen),
        }
    }

    /// Demands that a packet is not forwarded but answered, to its sender, by one sound ICMP error.
    ///
    /// # Errors
    /// It is not.
    pub fn refused(&mut self, from: Side, probe: &impl Probe, kind: u8, code: u8) -> Judged<IcmpError> {
        let mut seen = self.outcome(from, probe)?;
        if let Some(passed) = seen.passed.first() {
            return fail(format_args!("it was forwarded to the {} link", passed.side));
        }
        let Some((side, error)) = seen.errors.pop() else {
            return fail(format_args!("no ICMP error came, expected type {kind} code {code}"));
        };
        demand(seen.errors.is_empty(), format_args!("{} ICMP errors about it came", seen.errors.len() + 1))?;
        demand(side == from, format_args!("the ICMP error came out on the {side} link, expected {from}"))?;
        demand(error.sound, "a checksum of the ICMP error is wrong")?;
        demand(
            (error.kind, error.code) == (kind, code),
            format_args!("an ICMP error of type {} code {} came, expected {kind} and {code}", error.kind, error.code),
        )?;
        Ok(error)
    }

    /// Sends packets from the left, which take one path each, and demands one ICMP error for each, however long the
    /// router takes.
    ///
    /// # Errors
    /// There is another answer, or none.
    pub fn all_refused<P: Probe>(&mut self, packets: &[(&str, P)], kind: u8, code: u8) -> Judged {
        self.begin()?;
        for (_, packet) in packets {
            self.send(Side::Left, packet)?;
        }
        self.wait(LIMIT, |log| {
            packets.iter().all(|(_, packet)| log.iter().any(|caught| packet.error_in(caught).is_some()))
        })?;
        for (path, packet) in packets {
            let seen = self.seen(packet);
            let codes: Vec<_> = seen.errors.iter().map(|(side, error)| (*side, error.kind, error.code)).collect();
            same(format_args!("errors, {path}"), codes, vec![(Side::Left, kind, code)])?;
        }
        Ok(())
    }

    /// Leaves the row as not applicable unless there is a third link.
    ///
    /// # Errors
    /// There is none.
    pub fn needs_third(&self) -> Judged {
        match self.sides().contains(&Side::Third) {
            true => Ok(()),
            false => Err(Stop::NotApplicable("it needs a third link".to_owned())),
        }
    }

    /// Waits until the router speaks on all links, in both families.
    ///
    /// # Errors
    /// It does not within `patience`.
    pub fn ready(&mut self, patience: Duration) -> Result<()> {
        let start = Instant::now();
        for side in self.sides() {
            while !self.greets4(side)? {
                if start.elapsed() > patience {
                    bail!("the router did not answer for {} on the {side} link", side.router4());
                }
            }
            // Its address there belongs to another station, so it must not answer.
            let taken = self.world == World::Conflict && side == Side::Right;
            while !taken && !self.greets6(side)? {
                if start.elapsed() > patience {
                    bail!("the router did not answer for {} on the {side} link", side.router6());
                }
            }
        }
        Ok(())
    }

    /// Asks for the router's MAC address, then for an echo.
    fn greets4(&mut self, side: Side) -> Result<bool> {
        let asked = self.station(side).request(side.station4(), side.router4());
        self.send_frame(side, &asked)?;
        let mut mac = None;
        self.wait(Duration::from_millis(100), |log| {
            mac = log.iter().filter(|caught| caught.side == side).find_map(|caught| {
                caught.arp().filter(|message| message.sender_ip() == side.router4()).map(|message| message.sender_mac())
            });
            mac.is_some()
        })?;
        let Some(mac) = mac else { return Ok(false) };
        for station in self.stations.iter_mut().filter(|station| station.side == side) {
            station.router = mac;
        }
        let number = self.number();
        self.ask(side, number)?;
        self.wait(Duration::from_millis(300), |log| log.iter().any(|caught| is_reply(caught, number)))
    }

    /// Asks for the router's MAC address, which it does not tell before the address is its own, then for an echo.
    fn greets6(&mut self, side: Side) -> Result<bool> {
        let asked = self.station(side).solicitation(side.router6());
        self.send_frame(side, &asked)?;
        let is_answer = |caught: &Caught| {
            caught.icmp6().is_some_and(|(_, message)| message.kind() == 136 && target(&message) == Some(side.router6()))
        };
        if !self.wait(Duration::from_millis(100), |log| log.iter().any(is_answer))? {
            return Ok(false);
        }
        let echo = self.echo6(side, 40);
        self.send(side, &echo)?;
        self.wait(Duration::from_millis(300), |log| log.iter().any(|caught| is_echo_of(caught, &echo)))
    }
}

/// Whether a frame is a marker, or the answer to one.
fn is_marker(caught: &Caught) -> bool {
    let Some(packet) = caught.ip4() else { return false };
    let (whole, header) = (packet.into_inner(), packet.header_len());
    match packet.protocol() {
        protocol::UDP => whole.get(header..header + 2) == Some(&MARKER_PORT.to_be_bytes()),
        protocol::ICMP => whole.get(header + 4..header + 6) == Some(&MARKER.to_be_bytes()),
        _ => false,
    }
}

fn is_reply(caught: &Caught, number: u16) -> bool {
    let wanted = u32::from(MARKER) << 16 | u32::from(number);
    caught.icmp4().is_some_and(|(_, message)| message.kind() == 0 && message.into_inner()[4..8] == wanted.to_be_bytes())
}
