// SPDX-License-Identifier: MIT
//! Hardware filters (rte_flow): the device itself puts some packets into a receive queue of their own, such as those
//! for the slow path. Few devices can; for all others, software does it.

use crate::error::{Error, Result, text};
use crate::ffi::{self, FlowPattern};
use crate::open_port::OpenPort;
use crate::rule::{self, Family};
use perigee_net::{FiveTuple, PortRange, Prefix};
use std::ffi::c_char;
use std::ptr::NonNull;
use std::sync::Arc;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Which packets a device should put into a queue of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steer {
    /// By Ethernet type, such as 0x0806 for ARP.
    EtherType(u16),
    /// By IPv4 addresses, protocol and ports.
    V4(FiveTuple),
    /// By IPv6 addresses, protocol and ports.
    V6(FiveTuple),
}

/// A filter in a device, until it is dropped.
pub struct FlowRule {
    flow: NonNull<ffi::Flow>,
    port: Arc<OpenPort>,
}

// SAFETY: the rule is a token for the port, used under its control lock only.
unsafe impl Send for FlowRule {}

impl FlowRule {
    pub(crate) fn new(port: Arc<OpenPort>, rule: &Steer, queue: u16) -> Result<FlowRule> {
        if usize::from(queue) >= port.rx_taken.len() {
            return Err(Error::new(format!("port {} has no receive queue {queue} to steer to", port.name)));
        }
        let pattern = pattern(rule)?;
        let mut message: [c_char; 160] = [0; 160];
        let flow = {
            let _control = port.control();
            // SAFETY: the port is started; the message has that size and is terminated.
            unsafe { ffi::perigee_flow_create(port.id(), &pattern, queue, message.as_mut_ptr(), message.len()) }
        };
        let flow = NonNull::new(flow).ok_or_else(|| {
            // SAFETY: terminated by the shim.
            let why = unsafe { text(message.as_ptr()) };
            Error::new(format!("{} cannot filter {rule} (rte_flow: {why}): the software filter does it", port.name))
        })?;
        Ok(FlowRule { flow, port })
    }
}

impl Drop for FlowRule {
    fn drop(&mut self) {
        let _control = self.port.control();
        // SAFETY: a rule of this port, destroyed once.
        unsafe { ffi::perigee_flow_destroy(self.port.id(), self.flow.as_ptr()) };
    }
}

impl std::fmt::Display for Steer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |prefix: Option<Prefix>, all: &str| prefix.map_or(all.to_owned(), |prefix| prefix.to_string());
        match self {
            Steer::EtherType(number) => write!(f, "Ethernet type {number:#06x}"),
            Steer::V4(rule) => write!(f, "IPv4 {} to {}", shown(rule.src, "0.0.0.0/0"), shown(rule.dst, "0.0.0.0/0")),
            Steer::V6(rule) => write!(f, "IPv6 {} to {}", shown(rule.src, "::/0"), shown(rule.dst, "::/0")),
        }
    }
}

fn pattern(rule: &Steer) -> Result<FlowPattern> {
    match rule {
        Steer::EtherType(number) => Ok(FlowPattern { ether_type: number.to_be(), ..FlowPattern::default() }),
        Steer::V4(tuple) => five_tuple(Family::V4, tuple),
        Steer::V6(tuple) => five_tuple(Family::V6, tuple),
    }
}

fn five_tuple(family: Family, tuple: &FiveTuple) -> Result<FlowPattern> {
    if !family.has(tuple) {
        let number = family.number();
        return Err(Error::new(format!("a hardware filter for IPv{number} names an address of the other family")));
    }
    let (source_port, source_port_mask) = port(tuple.sport)?;
    let (destination_port, destination_port_mask) = port(tuple.dport)?;
    let (protocol, protocol_mask) = rule::protocol(tuple.proto);
    if source_port_mask | destination_port_mask != 0 && ![TCP, UDP].contains(&protocol) {
        return Err(Error::new("a hardware filter with ports needs a protocol that has them: TCP (6) or UDP (17)"));
    }
    let ((source, source_bits), (destination, destination_bits)) = (rule::bytes(tuple.src), rule::bytes(tuple.dst));
    Ok(FlowPattern {
        source,
        source_mask: mask(source_bits),
        destination,
        destination_mask: mask(destination_bits),
        ether_type: 0,
        source_port,
        source_port_mask,
        destination_port,
        destination_port_mask,
        family: family.number(),
        protocol,
        protocol_mask,
    })
}

/// A prefix length as a mask of bytes.
fn mask(bits: u8) -> [u8; 16] {
    let ones = if bits == 0 { 0 } else { u128::MAX << (128 - u32::from(bits)) };
    ones.to_be_bytes()
}

/// Value and mask of one port or of all; devices have no other ranges.
fn port(range: Option<PortRange>) -> Result<(u16, u16)> {
    match rule::ports(range) {
        (0, u16::MAX) => Ok((0, 0)),
        (first, last) if first == last => Ok((first.to_be(), u16::MAX)),
        (first, last) => Err(Error::new(format!(
            "a hardware filter takes one port or all, not {first}-{last}: the software filter takes ranges"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_become_values_and_masks_in_network_order() {
        let any = FiveTuple::default();
        let rule =
            FiveTuple { src: "10.0.0.0/12".parse().ok(), proto: Some(TCP), dport: Some(PortRange::only(179)), ..any };
        let p = pattern(&Steer::V4(rule)).unwrap();
        assert_eq!(p.source[..5], [10, 0, 0, 0, 0]);
        assert_eq!(p.source_mask[..5], [255, 0xf0, 0, 0, 0]);
        assert_eq!((p.destination, p.destination_mask), ([0; 16], [0; 16]));
        assert_eq!((p.source_port, p.source_port_mask), (0, 0));
        assert_eq!((p.destination_port.to_ne_bytes(), p.destination_port_mask), ([0, 179], 0xffff));
        assert_eq!((p.family, p.protocol, p.protocol_mask), (4, 6, 0xff));

        let rule = FiveTuple { dst: "2001:db8::1/128".parse().ok(), ..any };
        let p = pattern(&Steer::V6(rule)).unwrap();
        assert_eq!((p.destination[..4].to_vec(), p.destination[15]), (vec![0x20, 1, 0x0d, 0xb8], 1));
        assert_eq!((p.destination_mask, p.family, p.protocol_mask), ([255; 16], 6, 0));
        assert_eq!(pattern(&Steer::EtherType(0x0806)).unwrap().ether_type.to_ne_bytes(), [8, 6]);
    }

    #[test]
    fn what_no_device_can_is_refused_in_a_sentence() {
        let any = FiveTuple::default();
        for (rule, text) in [
            (FiveTuple { sport: PortRange::new(1, 2).ok(), proto: Some(UDP), ..any }, "not 1-2"),
            (FiveTuple { sport: Some(PortRange::only(1)), ..any }, "needs a protocol"),
            (FiveTuple { src: "::/0".parse().ok(), ..any }, "the other family"),
        ] {
            let error = pattern(&Steer::V4(rule)).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
