// SPDX-License-Identifier: MIT
//! ICMP for IPv4: what is addressed to this router, and the errors it sends (RFC 792, RFC 1812 4.3).

use std::net::{IpAddr, Ipv4Addr};

use perigee_net::is_host;
use perigee_packet::wire::icmp4::{self, Message, unreachable};
use perigee_packet::wire::{ipv4, protocol};
use perigee_packet::{Icmp4, Ipv4};

use crate::frame::Received;
use crate::machine::{SlowPath, Turn};
use crate::options;
use crate::source::DUMMY;

/// RFC 1812 4.3.2.3: no more than 576 bytes altogether.
const MAX_ERROR: usize = 576;
/// Precedence 6, internetwork control (RFC 1812 4.3.2.5).
const PRECEDENCE: u8 = 0xc0;
/// The bits of the type of service that an error has from the packet that it is about (RFC 1812 4.3.2.5), except for
/// the one that is a part of ECN since RFC 3168: errors are not ECN-capable.
const SERVICE: u8 = 0x1c;

/// Code of a redirect for one host.
const REDIRECT_HOST: u8 = 1;

/// Why a packet could not be forwarded, or not well.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Problem {
    Unreachable(u8),
    FragmentationNeeded {
        mtu: u16,
    },
    TimeExceeded,
    /// Not all fragments came in time.
    ReassemblyTime,
    Parameter {
        pointer: u8,
    },
    /// For this host (RFC 1812 5.2.7.2: never for a network), `router` is the better next hop.
    Redirect {
        router: Ipv4Addr,
    },
}

impl Problem {
    fn message(self, quoted: &[u8]) -> Message<'_> {
        match self {
            Problem::Unreachable(code) => Message::Unreachable { code, mtu: 0, quoted },
            Problem::FragmentationNeeded { mtu } => {
                Message::Unreachable { code: unreachable::FRAGMENTATION_NEEDED, mtu, quoted }
            }
            Problem::TimeExceeded => Message::TimeExceeded { code: icmp4::time_exceeded::TTL, quoted },
            Problem::ReassemblyTime => Message::TimeExceeded { code: icmp4::time_exceeded::REASSEMBLY, quoted },
            Problem::Parameter { pointer } => Message::ParameterProblem { code: 0, pointer, quoted },
            Problem::Redirect { router } => Message::Redirect { code: REDIRECT_HOST, router, quoted },
        }
    }
}

impl SlowPath {
    /// A packet to an address of this router.
    pub(crate) fn local4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>) {
        if packet.is_fragment() {
            if let Some(whole) = self.fragment4(turn, received, packet)
                && let Ok(packet) = Ipv4::new(whole.payload())
            {
                self.local4(turn, &whole, &packet);
            }
            return;
        }
        let source = IpAddr::V4(packet.source());
        if packet.protocol() != protocol::ICMP {
            return self.deliver_from(turn, received, source);
        }
        match Icmp4::new(packet.payload()) {
            Ok(icmp) if icmp.kind() == icmp4::ECHO_REQUEST => self.echo4(turn, received, packet, &icmp),
            Ok(icmp) if icmp.kind() == icmp4::REDIRECT => self.counters.drops.redirect += 1,
            // Linux answers neither errors nor answers.
            Ok(icmp) if icmp4::is_error(icmp.kind()) || icmp.kind() == icmp4::ECHO_REPLY => self.deliver(received),
            Ok(_) => self.deliver_from(turn, received, source),
            Err(_) => self.counters.drops.bad_icmp += 1,
        }
    }

    /// RFC 1812 4.3.3.6: the reply has the request's TOS, data, and its record route and timestamp options.
    fn echo4(&mut self, turn: Turn, received: &Received, request: &Ipv4<&[u8]>, icmp: &Icmp4<&[u8]>) {
        if !icmp.verify_checksum() {
            self.counters.drops.bad_icmp += 1;
            return;
        }
        let (to, from) = (request.source(), request.destination());
        let Some(next_hop) = self.way_back(turn, IpAddr::V4(to), received.interface) else {
            self.counters.drops.own_unroutable += 1;
            return;
        };
        let mut kept = options::for_reply(request);
        if options::record(&mut kept, from, |a| a == from, turn.now).is_err() {
            self.counters.drops.bad_option += 1;
            return;
        }
        let data = icmp.into_inner();
        let identification = self.next_identification(from, to);
        let repr =
            ipv4::Repr { tos: request.tos(), identification, ..ipv4::Repr::new(from, to, protocol::ICMP, data.len()) };
        let mut reply = vec![0; ipv4::HEADER_LEN + kept.len()];
        let written = repr.emit_with_options(&mut reply, &kept);
        debug_assert!(written.is_ok());
        let header = reply.len();
        reply.extend_from_slice(data);
        if let Ok(mut view) = Icmp4::new(&mut reply[header..]) {
            view.set_kind(icmp4::ECHO_REPLY);
            view.fill_checksum();
        }
        self.counters.echo_replied += 1;
        self.send_own(turn.now, next_hop, reply);
    }

    /// Reports to the sender why its packet was not forwarded, unless a rule forbids it.
    pub(crate) fn error4(&mut self, turn: Turn, received: &Received, packet: &Ipv4<&[u8]>, problem: Problem) {
        if received.is_group() || !self.may_be_answered(received, packet) {
            self.counters.icmp_errors_suppressed += 1;
            return;
        }
        let to = packet.source();
        let next_hop = self.way_back(turn, IpAddr::V4(to), received.interface);
        let Some(next_hop) = next_hop else {
            self.counters.icmp_errors_unroutable += 1;
            return;
        };
        // The address of the interface that the error leaves by (RFC 1812 4.3.2.4), or of another; without any,
        // networks whose IPv4 goes by IPv6 next hops would have neither traceroute nor path MTU discovery (RFC 8950,
        // RFC 7600 4.8).
        let from = self.speak_from4(next_hop.key, to).unwrap_or(DUMMY);
        let within = self.limits.errors4.take(turn.now, received.interface, IpAddr::V4(to));
        if self.counters.limited(within) {
            return;
        }
        self.counters.icmp_errors_sent += 1;
        let error = self.build_error4(from, to, packet, problem);
        self.send_own(turn.now, next_hop, error);
    }

    pub(crate) fn build_error4(
        &mut self,
        from: Ipv4Addr,
        to: Ipv4Addr,
        about: &Ipv4<&[u8]>,
        problem: Problem,
    ) -> Vec<u8> {
        let overhead = ipv4::HEADER_LEN + icmp4::HEADER_LEN;
        let whole = about.into_inner();
        // Less than its total length may have been received.
        let quoted = &whole[..about.total_len().min(whole.len()).min(MAX_ERROR - overhead)];
        let message = problem.message(quoted);
        let mut error = vec![0; overhead + quoted.len()];
        let repr = ipv4::Repr {
            tos: PRECEDENCE | (about.tos() & SERVICE),
            identification: self.next_identification(from, to),
            ..ipv4::Repr::new(from, to, protocol::ICMP, message.len())
        };
        let header = repr.emit(&mut error);
        let body = message.emit(&mut error[ipv4::HEADER_LEN..]);
        debug_assert!(header.is_ok() && body.is_ok());
        error
    }

    /// The rules of RFC 1812 4.3.2.7, except the one about the link layer.
    pub(crate) fn may_be_answered(&self, received: &Received, packet: &Ipv4<&[u8]>) -> bool {
        let (source, destination) = (packet.source(), packet.destination());
        let about_error = packet.protocol() == protocol::ICMP
            // One whose type is cut off may be an error.
            && packet.payload().first().is_none_or(|&kind| icmp4::is_error(kind));
        let group =
            destination.is_multicast() || destination.is_broadcast() || self.interfaces.is_broadcast(destination);
        let bad_source = !is_host(source)
            || self.interfaces.is_broadcast(source)
            || self.interfaces.is_own(IpAddr::V4(source), received.interface);
        packet.fragment_offset() == 0 && !about_error && !group && !bad_source
    }
}
