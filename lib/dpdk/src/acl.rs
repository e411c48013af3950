// SPDX-License-Identifier: MIT
//! Filter lists (rte_acl): thousands of 5-tuple rules at a cost that hardly depends on their number. The first rule
//! that matches decides, and says so in a word; a packet that matches none gets 0, and goes on.

use crate::eal::{Eal, Started};
use crate::error::{Error, Result, c_string, errno_text};
use crate::ffi::{self, AclRule};
use crate::rule::{self, Family};
use perigee_net::{Filter, Key, Key4, Key6, Rule, Verdict};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most rules of one family: more are refused.
pub const MAX_RULES: usize = 1 << 20;

/// A compiled filter list for both families, usable by any number of threads at a time; immutable: to change it, build
/// another.
pub struct AclFilter {
    v4: Table,
    v6: Table,
    rules: Vec<Rule>,
}

impl AclFilter {
    /// Compiles a list; the first rule that matches decides.
    pub fn new(eal: &Eal, rules: &[Rule]) -> Result<AclFilter> {
        let (v4, v6) = (Table::new(eal, Family::V4, rules)?, Table::new(eal, Family::V6, rules)?);
        Ok(AclFilter { v4, v6, rules: rules.to_vec() })
    }
}

/// Panics if there are fewer places than keys.
impl Filter for AclFilter {
    fn judge4(&self, keys: &[Key4], to: &mut [Verdict]) {
        self.v4.judge(keys, to);
    }

    fn judge6(&self, keys: &[Key6], to: &mut [Verdict]) {
        self.v6.judge(keys, to);
    }

    fn rules(&self) -> Option<&[Rule]> {
        Some(&self.rules)
    }
}

/// The rules of one family. Without a rule there is no context, as rte_acl builds none.
struct Table {
    acl: Option<NonNull<ffi::Acl>>,
    _eal: Arc<Started>,
}

// SAFETY: a built context is only read.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// The rules that can match packets of a family, in their order.
    fn new(eal: &Eal, family: Family, rules: &[Rule]) -> Result<Table> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let lines: Vec<AclRule> = rules.iter().filter(|rule| family.has(&rule.tuple)).map(AclRule::from).collect();
        let mut table = Table { acl: None, _eal: eal.started() };
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

    fn judge<const N: usize>(&self, keys: &[Key<N>], to: &mut [Verdict]) {
        let to = &mut to[..keys.len()];
        let Some(acl) = self.acl else { return to.fill(Verdict::NONE) };
        // SAFETY: keys and results have that many entries, of the layout that the context was built for: `Key` is the
        // same without padding, and a verdict is a word. The only error is a wrong number of categories.
        let error = unsafe {
            ffi::perigee_acl_classify(
                acl.as_ptr(),
                keys.as_ptr().cast(),
                size_of::<Key<N>>(),
                keys.len() as u32,
                to.as_mut_ptr().cast(),
            )
        };
        debug_assert_eq!(error, 0);
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

impl From<&Rule> for AclRule {
    fn from(rule: &Rule) -> AclRule {
        let tuple = &rule.tuple;
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
            verdict: rule.verdict().word(),
        }
    }
}
