// SPDX-License-Identifier: MIT
//! Hardware filters (rte_flow): the device itself puts some packets into a receive queue of their own, such as what is
//! for the slow path. Few devices can; the software does the same for all others.

use crate::error::{Error, Result, text};
use crate::ffi::{self, FlowPattern};
use crate::port::Inner;
use crate::rule::{ANY_PORT, Address, FiveTuple};
use std::ffi::c_char;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
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
    V4(FiveTuple<Ipv4Addr>),
    /// By IPv6 addresses, protocol and ports.
    V6(FiveTuple<Ipv6Addr>),
}

/// A filter in a device, until it is dropped.
pub struct FlowRule {
    flow: NonNull<ffi::Flow>,
    port: Arc<Inner>,
}

// SAFETY: the rule is a token for the port, used under its control lock only.
unsafe impl Send for FlowRule {}

impl FlowRule {
    pub(crate) fn new(port: Arc<Inner>, rule: &Steer, queue: u16) -> Result<FlowRule> {
        if usize::from(queue) >= port.rx_taken.len() {
            return Err(Error::new(format!("port {} has no receive queue {queue} to steer to", port.name)));
        }
        let pattern = pattern(rule)?;
        let mut message: [c_char; 160] = [0; 160];
        let flow = {
            let _control = port.control();
            // SAFETY: the port is started; the message has the size told and is terminated.
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
        match self {
            Steer::EtherType(number) => write!(f, "Ethernet type {number:#06x}"),
            Steer::V4(rule) => {
                write!(f, "IPv4 {}/{} to {}/{}", rule.source.0, rule.source.1, rule.destination.0, rule.destination.1)
            }
            Steer::V6(rule) => {
                write!(f, "IPv6 {}/{} to {}/{}", rule.source.0, rule.source.1, rule.destination.0, rule.destination.1)
            }
        }
    }
}

fn pattern(rule: &Steer) -> Result<FlowPattern> {
    match rule {
        Steer::EtherType(number) => Ok(FlowPattern { ether_type: number.to_be(), ..FlowPattern::default() }),
        Steer::V4(tuple) => five_tuple(tuple),
        Steer::V6(tuple) => five_tuple(tuple),
    }
}

fn five_tuple<A: Address>(rule: &FiveTuple<A>) -> Result<FlowPattern> {
    if let Some(mistake) = rule.mistake() {
        return Err(Error::new(format!("a hardware filter is wrong: {mistake}")));
    }
    let (source_port, source_port_mask) = port(&rule.source_ports)?;
    let (destination_port, destination_port_mask) = port(&rule.destination_ports)?;
    let protocol = rule.protocol.unwrap_or(0);
    if source_port_mask | destination_port_mask != 0 && ![TCP, UDP].contains(&protocol) {
        return Err(Error::new("a hardware filter with ports needs a protocol that has them: TCP (6) or UDP (17)"));
    }
    Ok(FlowPattern {
        source: masked(rule.source),
        source_mask: mask(rule.source.1),
        destination: masked(rule.destination),
        destination_mask: mask(rule.destination.1),
        ether_type: 0,
        source_port,
        source_port_mask,
        destination_port,
        destination_port_mask,
        family: A::FAMILY,
        protocol,
        protocol_mask: if rule.protocol.is_some() { 0xff } else { 0 },
    })
}

/// A prefix length as a mask of bytes.
fn mask(bits: u8) -> [u8; 16] {
    let ones = if bits == 0 { 0 } else { u128::MAX << (128 - u32::from(bits)) };
    ones.to_be_bytes()
}

fn masked<A: Address>((address, bits): (A, u8)) -> [u8; 16] {
    (u128::from_be_bytes(address.bytes()) & u128::from_be_bytes(mask(bits))).to_be_bytes()
}

/// Value and mask of one port or of all; devices have no other ranges.
fn port(range: &RangeInclusive<u16>) -> Result<(u16, u16)> {
    if *range == ANY_PORT {
        Ok((0, 0))
    } else if range.start() == range.end() {
        Ok((range.start().to_be(), u16::MAX))
    } else {
        Err(Error::new(format!(
            "a hardware filter takes one port or all, not {}-{}: the software filter takes ranges",
            range.start(),
            range.end()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_become_values_and_masks_in_network_order() {
        let rule = FiveTuple {
            source: (Ipv4Addr::new(10, 1, 2, 3), 12),
            protocol: Some(TCP),
            destination_ports: 179..=179,
            ..FiveTuple::<Ipv4Addr>::ANY
        };
        let p = pattern(&Steer::V4(rule)).unwrap();
        assert_eq!(p.source[..5], [10, 0, 0, 0, 0]);
        assert_eq!(p.source_mask[..5], [255, 0xf0, 0, 0, 0]);
        assert_eq!((p.destination, p.destination_mask), ([0; 16], [0; 16]));
        assert_eq!((p.source_port, p.source_port_mask), (0, 0));
        assert_eq!((p.destination_port.to_ne_bytes(), p.destination_port_mask), ([0, 179], 0xffff));
        assert_eq!((p.family, p.protocol, p.protocol_mask), (4, 6, 0xff));

        let rule = FiveTuple { destination: ("2001:db8::1".parse().unwrap(), 128), ..FiveTuple::<Ipv6Addr>::ANY };
        let p = pattern(&Steer::V6(rule)).unwrap();
        assert_eq!((p.destination[..4].to_vec(), p.destination[15]), (vec![0x20, 1, 0x0d, 0xb8], 1));
        assert_eq!((p.destination_mask, p.family, p.protocol_mask), ([255; 16], 6, 0));
        assert_eq!(pattern(&Steer::EtherType(0x0806)).unwrap().ether_type.to_ne_bytes(), [8, 6]);
    }

    #[test]
    fn what_no_device_can_is_refused_in_a_sentence() {
        let any = FiveTuple::<Ipv4Addr>::ANY;
        for (rule, text) in [
            (FiveTuple { source_ports: 1..=2, protocol: Some(UDP), ..any.clone() }, "not 1-2"),
            (FiveTuple { source_ports: 1..=1, ..any.clone() }, "needs a protocol"),
            (FiveTuple { source: (Ipv4Addr::UNSPECIFIED, 33), ..any.clone() }, "0.0.0.0/33"),
            (FiveTuple { source_ports: RangeInclusive::new(2, 1), ..any }, "wrong order"),
        ] {
            let error = pattern(&Steer::V4(rule)).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
