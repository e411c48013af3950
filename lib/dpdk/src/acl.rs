// SPDX-License-Identifier: MIT
//! Filter lists (rte_acl): thousands of 5-tuple rules at a cost that hardly depends on their number. The first rule
//! that matches decides; a packet that matches none is accepted.

use crate::eal::{Eal, Started};
use crate::error::{Error, Result, c_string, errno_text};
use crate::ffi::{self, AclRule};
use crate::rule::{self, Family};
use perigee_net::{FiveTuple, Key, Key4, Key6};
use perigee_packet::Mask;
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

/// Most rules of one family: more are refused.
pub const MAX_RULES: usize = 1 << 20;

/// A compiled filter list for both families, usable by any number of threads at a time; immutable: to change it, build
/// another.
pub struct AclFilter {
    v4: Table,
    v6: Table,
}

impl AclFilter {
    /// Compiles a list; the first rule that matches decides.
    pub fn new(eal: &Eal, rules: &[(FiveTuple, Action)]) -> Result<AclFilter> {
        Ok(AclFilter { v4: Table::new(eal, Family::V4, rules)?, v6: Table::new(eal, Family::V6, rules)? })
    }

    /// For each IPv4 key, writes the number of the first rule that matches, from 1 among the rules that can match IPv4,
    /// or 0 if none does. Panics if `to` is shorter than `keys`.
    pub fn classify4(&self, keys: &[Key4], to: &mut [u32]) {
        self.v4.classify(keys, to);
    }

    /// For each IPv6 key, writes the number of the first rule that matches, from 1 among the rules that can match IPv6,
    /// or 0 if none does. Panics if `to` is shorter than `keys`.
    pub fn classify6(&self, keys: &[Key6], to: &mut [u32]) {
        self.v6.classify(keys, to);
    }

    /// Which of the IPv4 keys, of which there are at most [`BATCH_SIZE`](perigee_packet::BATCH_SIZE), are to be
    /// dropped: their numbers, from 0.
    pub fn dropped4(&self, keys: &[Key4]) -> Mask {
        self.v4.dropped(keys)
    }

    /// The same of IPv6 keys.
    pub fn dropped6(&self, keys: &[Key6]) -> Mask {
        self.v6.dropped(keys)
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
    /// The rules that can match packets of a family, in their order.
    fn new(eal: &Eal, family: Family, rules: &[(FiveTuple, Action)]) -> Result<Table> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let rules = rules.iter().filter(|(tuple, _)| family.has(tuple));
        let (lines, actions): (Vec<AclRule>, Vec<Action>) =
            rules.map(|(tuple, action)| (AclRule::from(tuple), *action)).unzip();
        let actions = [Action::Accept].into_iter().chain(actions).collect();
        let mut table = Table { acl: None, actions, _eal: eal.started() };
        if lines.is_empty() {
            return Ok(table);
        }
        if lines.len() > MAX_RULES {
            return Err(Error::new(format!(
                "a filter list has {} rules; at most {MAX_RULES} are possible",
                lines.len()
            )));
        }
        let name = c_string(&format!("perigee-acl{}", NUMBER.fetch_add(1, Ordering::Relaxed)))?;
        let mut error = 0;
        // SAFETY: EAL is started; their number is the length of the slice, checked above; DPDK copies what it keeps.
        let acl = unsafe {
            ffi::perigee_acl_build(
                name.as_ptr(),
                -1,
                family.number().into(),
                lines.as_ptr(),
                lines.len() as u32,
                &mut error,
            )
        };
        table.acl = NonNull::new(acl);
        if table.acl.is_none() {
            return Err(Error::new(format!(
                "the IPv{} filter list of {} rules could not be built: {}; give DPDK more memory or shorten the list",
                family.number(),
                lines.len(),
                errno_text(error)
            )));
        }
        Ok(table)
    }

    fn classify<const N: usize>(&self, keys: &[Key<N>], to: &mut [u32]) {
        let to = &mut to[..keys.len()];
        let Some(acl) = self.acl else { return to.fill(0) };
        // SAFETY: keys and results have that many entries, of the layout that the context was built for: `Key` is the
        // same without padding. The only error is a wrong number of categories.
        let error = unsafe {
            ffi::perigee_acl_classify(
                acl.as_ptr(),
                keys.as_ptr().cast(),
                size_of::<Key<N>>(),
                keys.len() as u32,
                to.as_mut_ptr(),
            )
        };
        debug_assert_eq!(error, 0);
    }

    fn dropped<const N: usize>(&self, keys: &[Key<N>]) -> Mask {
        // As many at a time as a word of the mask has bits, and the shim takes.
        let mut words = Mask::EMPTY.words();
        for (word, keys) in words.iter_mut().zip(keys.chunks(64)) {
            let mut rules = [0; 64];
            self.classify(keys, &mut rules);
            for (i, rule) in rules[..keys.len()].iter().enumerate() {
                *word |= u64::from(self.action(*rule) == Action::Drop) << i;
            }
        }
        Mask::from_words(words)
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

impl From<&FiveTuple> for AclRule {
    fn from(tuple: &FiveTuple) -> AclRule {
        let ((source, source_bits), (destination, destination_bits)) = (rule::bytes(tuple.src), rule::bytes(tuple.dst));
        let (protocol, protocol_mask) = rule::protocol(tuple.proto);
        let (source_port_low, source_port_high) = rule::ports(tuple.sport);
        let (destination_port_low, destination_port_high) = rule::ports(tuple.dport);
        AclRule {
            source,
            destination,
            source_bits,
            destination_bits,
            protocol,
            protocol_mask,
            source_port_low,
            source_port_high,
            destination_port_low,
            destination_port_high,
        }
    }
}
