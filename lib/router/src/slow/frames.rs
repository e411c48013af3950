// SPDX-License-Identifier: MIT
//! Frames in and out of the slow path, also for taps.

use super::SlowThread;
use crate::taps::{Arrival, Direction};
use perigee_linux::Input as FromLinux;
use perigee_modules::Punted;
use perigee_modules::filter::denies;
use perigee_modules::policer;
use perigee_modules::redirect::SENT_BACK;
use perigee_modules::taps::Seen;
use perigee_modules::trace::Trace;
use perigee_net::{InterfaceId, MacAddr};
use perigee_packet::{Packet, SuperFrame};
use perigee_slowpath::{Event, Input, Output, Time};
use std::net::IpAddr;

/// Frames taken from one source before it is the next one's turn.
pub(crate) const TURN: usize = 64;

impl SlowThread {
    /// Gives the slow path an input at the current time.
    pub(crate) fn tell(&mut self, input: Input<'_>) {
        self.slow.handle(Time(self.now()), input, self.parts.forwarding.routing());
    }

    pub(super) fn take_punts(&mut self) -> bool {
        let mut busy = false;
        for worker in 0..self.parts.workers.len() {
            let mut punts = std::mem::take(&mut self.punts);
            self.parts.workers.take_punted(worker, TURN, &mut punts);
            busy |= self.judge(punts);
        }
        busy
    }

    /// Takes what assistants have left.
    pub(super) fn take_left(&mut self) -> bool {
        let (mut punts, mut answers) = (std::mem::take(&mut self.punts), std::mem::take(&mut self.answers));
        self.parts.assistants.take_left(TURN, &mut punts, &mut answers);
        let busy = !answers.is_empty();
        for (interface, packet) in answers.drain(..) {
            self.tell(Input::Own { interface, packet: &packet });
        }
        self.answers = answers;
        self.judge(punts) | busy
    }

    /// Gives the slow path packets, and frees them; returns whether there were any.
    fn judge(&mut self, mut punts: Vec<Punted>) -> bool {
        let busy = !punts.is_empty();
        punts.iter_mut().for_each(|punted| self.punted(punted));
        Packet::free_all(punts.drain(..).map(|punted| punted.packet));
        self.punts = punts;
        self.carry_out();
        busy
    }

    fn punted(&mut self, punted: &mut Punted) {
        if punted.reason == SENT_BACK {
            return self.tell(Input::SentBack { interface: punted.interface, frame: punted.packet.bytes() });
        }
        let (port, reason, trace) = (punted.port, Some(punted.reason), punted.trace.take());
        let seen = Seen { frame: punted.packet.bytes(), port, direction: Direction::In, reason, now: 0, arrived: None };
        match punted.packet.gso_size().and_then(|size| SuperFrame::new(seen.frame, size)) {
            None => self.arrived(Arrival::Punted(trace), punted.interface, seen),
            Some(whole) => self.punted_whole(punted.interface, &seen, &whole, trace),
        }
    }

    /// Takes a super-frame segment by segment: one that is too big for its way may well be of segments that can be
    /// fragmented. Only the first can be traced.
    fn punted_whole(
        &mut self,
        interface: InterfaceId,
        seen: &Seen<'_>,
        whole: &SuperFrame<'_>,
        mut trace: Option<Box<Trace>>,
    ) {
        for index in 0..whole.len() {
            let mut segment = vec![0; whole.segment_len(index)];
            whole.write(index, &mut segment);
            self.arrived(Arrival::Punted(trace.take()), interface, Seen { frame: &segment, ..*seen });
            self.carry_out();
        }
    }

    /// Takes frames that hardware filters put into the slow path's own queues.
    pub(super) fn receive(&mut self) -> bool {
        let (mut busy, now) = (false, self.now());
        let limits = self.parts.forwarding.policer();
        for queue in 0..self.parts.ports.receivers() {
            self.batch.refill();
            let (port, any) = self.parts.ports.receive(queue, &mut self.batch, TURN);
            busy |= any;
            for slot in self.batch.live() {
                let Some(packet) = self.batch.take(slot) else { continue };
                let frame = packet.bytes();
                // No worker has seen it.
                let filters = self.parts.forwarding.filters();
                let (list, row) = (filters.deny.as_deref(), filters.tally.own_row());
                if denies(list, row, &mut self.fragments[0], frame, now) {
                    self.lost.denied += 1;
                } else if limits.as_ref().is_some_and(|limits| !limits.admits(port, policer::steered(frame), now)) {
                    self.lost.policed += 1;
                } else if let Some(interface) = self.parts.forwarding.interfaces().ingress(port, vid(frame)) {
                    let seen = Seen { frame, port, direction: Direction::In, reason: None, now: 0, arrived: None };
                    self.arrived(Arrival::Steered, interface, seen);
                } else {
                    self.lost.astray += 1;
                }
            }
            self.carry_out();
        }
        busy
    }

    /// Gives the slow path a frame, and shows taps what it does with it.
    fn arrived(&mut self, arrival: Arrival, interface: InterfaceId, seen: Seen<'_>) {
        let input = Input::Punted { interface, frame: seen.frame };
        if self.taps.is_empty() {
            return self.tell(input);
        }
        // Effects of earlier packets do not belong to this one.
        self.carry_out();
        let seen = Seen { now: self.now(), ..seen };
        let before = self.taps.look(arrival, &seen, &self.slow);
        self.tell(input);
        self.taps.judged(&before, &seen, &self.slow);
        self.carry_out();
        self.taps.let_go();
    }

    /// Takes frames that Linux sent.
    pub(super) fn read_twins(&mut self) -> bool {
        let (mut busy, now) = (false, self.now());
        let mut buffer = std::mem::take(&mut self.buffer);
        for index in 0.. {
            let Some(port) = self.parts.ports.get(index).map(|port| port.info.port) else { break };
            for _ in 0..TURN {
                let Some(length) = self.parts.ports.read_twin(index, &mut buffer) else { break };
                busy = true;
                let frame = &buffer[..length];
                let filters = self.parts.forwarding.filters();
                let (list, row) = (filters.deny_linux.as_deref(), filters.tally.own_row());
                if denies(list, row, &mut self.fragments[1], frame, now) {
                    self.lost.denied_linux += 1;
                } else if let Some(interface) = self.parts.forwarding.interfaces().ingress(port, vid(frame)) {
                    self.tell(Input::FromTwin { interface, frame });
                } else {
                    self.lost.astray += 1;
                }
            }
            self.carry_out();
        }
        self.buffer = buffer;
        busy
    }

    /// Carries out what the slow path has decided; returns whether there was anything.
    pub(crate) fn carry_out(&mut self) -> bool {
        let mut busy = false;
        while let Some(output) = self.slow.poll_output() {
            busy = true;
            match output {
                Output::Transmit { interface, frame } => self.send(interface, &frame, false),
                Output::ToTwin { interface, frame } => self.send(interface, &frame, true),
                Output::Own { .. } => debug_assert!(false, "{output:?} is an assistant's"),
                Output::Event(event) => self.event(event),
            }
        }
        if busy {
            self.parts.ports.outputs().flush();
        }
        busy
    }

    /// Sends a frame out of an interface, to the wire or to Linux.
    fn send(&mut self, interface: InterfaceId, frame: &[u8], to_twin: bool) {
        let interfaces = self.parts.forwarding.interfaces();
        let Some(egress) = interfaces.egress(interface).copied() else {
            self.lost.astray += 1;
            return;
        };
        let tagged = tagged(frame, egress.vlan);
        let frame = tagged.as_deref().unwrap_or(frame);
        if !to_twin {
            self.taps.sending(egress.port, frame, (self.parts.clock)());
            self.parts.ports.outputs().transmit(egress.port, frame);
        } else if self.parts.ports.give_to_twin(egress.port, frame) {
            self.taps.delivered();
        } else {
            self.lost.no_twin += 1;
        }
    }

    fn event(&mut self, event: Event) {
        let routing = self.parts.forwarding.routing();
        let name = |interface| routing.name_of(interface);
        match event {
            Event::NeighborResolved { interface, address, mac }
            | Event::NeighborChanged { interface, address, mac } => self.neighbor(interface, address, Some(mac)),
            Event::NeighborLost { interface, address } => self.neighbor(interface, address, None),
            Event::AddressValid { .. } => {}
            Event::AddressDuplicate { interface, address, mac } => {
                let name = name(interface);
                tracing::error!("{name}: {address} is also {mac}'s: not used until the interface is set up again");
            }
            Event::AddressConflict { interface, address, mac } => {
                tracing::warn!("{}: {mac} uses our address {address} too", name(interface));
            }
        }
    }

    /// The slow path has resolved a neighbor, or has lost it: tables and Linux follow.
    fn neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        self.parts.forwarding.set_neighbor(interface, address, mac);
        self.report(FromLinux::Neighbor { interface, address, mac });
    }
}

/// VLAN id of a frame; 0 for an untagged one.
fn vid(frame: &[u8]) -> u16 {
    match frame.get(12..16) {
        Some(&[0x81, 0x00, high, low]) => u16::from_be_bytes([high, low]) & 0x0fff,
        _ => 0,
    }
}

/// The frame with a VLAN tag, if there is a VLAN.
pub(crate) fn tagged(frame: &[u8], vlan: u16) -> Option<Vec<u8>> {
    let (addresses, rest) = frame.split_at_checked(12).filter(|_| vlan != 0)?;
    let [high, low] = vlan.to_be_bytes();
    Some([addresses, &[0x81, 0x00, high, low], rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_put_between_addresses_and_type_and_read_there() {
        let frame: Vec<u8> = (0..12).chain([0x08, 0x00, 0x45, 0]).collect();
        for vlan in [1, 7, 0x0fff] {
            let tagged = tagged(&frame, vlan).unwrap();
            assert_eq!((&tagged[..12], &tagged[16..]), (&frame[..12], &frame[12..]));
            assert_eq!((vid(&tagged), tagged[12..14].to_vec()), (vlan, vec![0x81, 0x00]));
            // Priority and the eligibility to be dropped are no part of the number.
            let mut marked = tagged.clone();
            marked[14] |= 0xf0;
            assert_eq!(vid(&marked), vlan);
            assert!((0..16).all(|length| vid(&tagged[..length]) == 0), "a tag that is cut off is none");
        }
        assert_eq!((vid(&frame), tagged(&frame, 0), tagged(&frame[..11], 7)), (0, None, None));
        let mut service = tagged(&frame, 7).unwrap();
        service[12..14].copy_from_slice(&[0x88, 0xa8]);
        assert_eq!(vid(&service), 0, "a provider's tag is another one");
    }
}
