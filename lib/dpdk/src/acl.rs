// SPDX-License-Identifier: MIT
//! Filter lists (rte_acl): thousands of 5-tuple rules at a cost that hardly depends on their number. The first rule that
//! matches decides; what matches none is accepted.

use crate::eal::{Eal, Started};
use crate::error::{Error, Result, c_string, errno_text};
use crate::ffi::{self, AclRule};
use crate::rule::{Address, FiveTuple};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It goes on.
    Accept,
    /// It is dropped.
    Drop,
}

/// What the filter sees of an IPv4 packet, in network order: protocol, 3 zero bytes, source (4), destination (4), source
/// port (2), destination port (2).
pub type Key4 = [u8; 16];
/// What the filter sees of an IPv6 packet, in network order: protocol, 3 zero bytes, source (16), destination (16), source
/// port (2), destination port (2).
pub type Key6 = [u8; 40];

/// The key of an IPv4 packet; ports are 0 where the packet has none.
#[inline]
pub fn key4(
    protocol: u8,
    source: [u8; 4],
    destination: [u8; 4],
    source_port: [u8; 2],
    destination_port: [u8; 2],
) -> Key4 {
    let mut key = [0; 16];
    key[0] = protocol;
    key[4..8].copy_from_slice(&source);
    key[8..12].copy_from_slice(&destination);
    key[12..14].copy_from_slice(&source_port);
    key[14..16].copy_from_slice(&destination_port);
    key
}

/// The key of an IPv6 packet; ports are 0 where the packet has none.
#[inline]
pub fn key6(
    protocol: u8,
    source: [u8; 16],
    destination: [u8; 16],
    source_port: [u8; 2],
    destination_port: [u8; 2],
) -> Key6 {
    let mut key = [0; 40];
    key[0] = protocol;
    key[4..20].copy_from_slice(&source);
    key[20..36].copy_from_slice(&destination);
    key[36..38].copy_from_slice(&source_port);
    key[38..40].copy_from_slice(&destination_port);
    key
}

/// Most rules of one family: more are refused.
pub const MAX_RULES: usize = 1 << 20;

/// A compiled filter list for both families, usable by any number of threads at a time; immutable: to change it, build
/// another.
pub struct AclFilter {
    v4: Table,
    v6: Table,
}

impl AclFilter {
    /// Compiles the lists; the first rule that matches decides.
    pub fn new(
        eal: &Eal,
        v4: &[(FiveTuple<Ipv4Addr>, Action)],
        v6: &[(FiveTuple<Ipv6Addr>, Action)],
    ) -> Result<AclFilter> {
        Ok(AclFilter { v4: Table::new(eal, v4)?, v6: Table::new(eal, v6)? })
    }

    /// For each IPv4 key, writes the number of the first rule that matches, from 1, or 0 if none does. Panics if `to` is
    /// shorter than `keys`.
    pub fn classify4(&self, keys: &[Key4], to: &mut [u32]) {
        self.v4.classify(keys, to);
    }

    /// The same for IPv6.
    pub fn classify6(&self, keys: &[Key6], to: &mut [u32]) {
        self.v6.classify(keys, to);
    }

    /// What a result of [`classify4`](AclFilter::classify4) means.
    #[inline]
    pub fn action4(&self, result: u32) -> Action {
        self.v4.action(result)
    }

    /// What a result of [`classify6`](AclFilter::classify6) means.
    #[inline]
    pub fn action6(&self, result: u32) -> Action {
        self.v6.action(result)
    }
}

/// The rules of one family. Without a rule there is no context, as rte_acl builds none.
struct Table {
    acl: Option<NonNull<ffi::Acl>>,
    /// By result: 0 is "no rule".
    actions: Vec<Action>,
    _eal: Arc<Started>,
}

// SAFETY: a built context is only read.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    fn new<A: Address>(eal: &Eal, rules: &[(FiveTuple<A>, Action)]) -> Result<Table> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let actions = [Action::Accept].into_iter().chain(rules.iter().map(|&(_, action)| action)).collect();
        let mut table = Table { acl: None, actions, _eal: eal.started() };
        if rules.is_empty() {
            return Ok(table);
        }
        if rules.len() > MAX_RULES {
            return Err(Error::new(format!(
                "a filter list has {} rules; at most {MAX_RULES} are possible",
                rules.len()
            )));
        }
        let lines: Vec<AclRule> =
            rules.iter().enumerate().map(|(i, (rule, _))| line(i, rule)).collect::<Result<_>>()?;
        let name = c_string(&format!("perigee-acl{}", NUMBER.fetch_add(1, Ordering::Relaxed)))?;
        let mut error = 0;
        // SAFETY: EAL is started; the rules are as many as told and checked; DPDK copies what it keeps.
        let acl = unsafe {
            ffi::perigee_acl_build(name.as_ptr(), -1, A::FAMILY.into(), lines.as_ptr(), lines.len() as u32, &mut error)
        };
        table.acl = NonNull::new(acl);
        if table.acl.is_none() {
            return Err(Error::new(format!(
                "the IPv{} filter list of {} rules could not be built: {}; give DPDK more memory or shorten the list",
                A::FAMILY,
                rules.len(),
                errno_text(error)
            )));
        }
        Ok(table)
    }

    fn classify<const N: usize>(&self, keys: &[[u8; N]], to: &mut [u32]) {
        let to = &mut to[..keys.len()];
        let Some(acl) = self.acl else { return to.fill(0) };
        // SAFETY: keys and results are as many as told, and N is the length that the context was built for. The only
        // error is a wrong number of categories.
        let error = unsafe {
            ffi::perigee_acl_classify(acl.as_ptr(), keys.as_ptr().cast(), N, keys.len() as u32, to.as_mut_ptr())
        };
        debug_assert_eq!(error, 0);
    }

    #[inline]
    fn action(&self, result: u32) -> Action {
        self.actions.get(result as usize).copied().unwrap_or(Action::Accept)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(acl) = self.acl {
            // SAFETY: built by us, freed once.
            unsafe { ffi::rte_acl_free(acl.as_ptr()) };
        }
    }
}

fn line<A: Address>(index: usize, rule: &FiveTuple<A>) -> Result<AclRule> {
    if let Some(mistake) = rule.mistake() {
        return Err(Error::new(format!("rule {} of the IPv{} filter list is wrong: {mistake}", index + 1, A::FAMILY)));
    }
    Ok(AclRule {
        source: rule.source.0.bytes(),
        destination: rule.destination.0.bytes(),
        source_bits: rule.source.1,
        destination_bits: rule.destination.1,
        protocol: rule.protocol.unwrap_or(0),
        protocol_mask: if rule.protocol.is_some() { 0xff } else { 0 },
        source_port_low: *rule.source_ports.start(),
        source_port_high: *rule.source_ports.end(),
        destination_port_low: *rule.destination_ports.start(),
        destination_port_high: *rule.destination_ports.end(),
    })
}
