// SPDX-License-Identifier: MIT
//! A lookup structure that has no room for some prefixes.

use perigee_fib::{Buffer, DoubleBuffered, Lookup, LookupError, NextHopId, Structure};
use perigee_net::PrefixOf;
use perigee_router::Lookups;
use std::collections::BTreeMap;

/// By length and address. It has no room for what is longer than 24 bits in 20.0.0.0/8.
#[derive(Default)]
struct Narrow(BTreeMap<(u8, u32), NextHopId>);

impl Lookup<u32> for Narrow {
    fn name(&self) -> &'static str {
        "narrow"
    }
    fn lookup(&self, address: u32) -> NextHopId {
        let covers = |len: u8| u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        let found = self.0.iter().rev().find(|((len, addr), _)| address & covers(*len) == *addr);
        found.map_or(NextHopId::NO_ROUTE, |(_, id)| *id)
    }
    fn lookup_batch(&self, addresses: &[u32], ids: &mut [u32]) {
        addresses.iter().zip(ids).for_each(|(address, id)| *id = self.lookup(*address).0);
    }
}

impl Buffer<u32> for Narrow {
    fn set(&mut self, prefix: PrefixOf<u32>, id: NextHopId) -> Result<(), LookupError> {
        if prefix.len() > 24 && prefix.addr() >> 24 == 20 {
            return Err(LookupError::Full { prefix: prefix.into(), structure: "narrow", what: "places", limit: 0 });
        }
        self.0.insert((prefix.len(), prefix.addr()), id);
        Ok(())
    }
    fn unset(&mut self, prefix: PrefixOf<u32>) -> Result<(), LookupError> {
        self.0.remove(&(prefix.len(), prefix.addr()));
        Ok(())
    }
    fn check(&self, _: NextHopId) -> Result<(), LookupError> {
        Ok(())
    }
    fn room(&self) -> usize {
        usize::MAX
    }
    fn may_grow(&self) -> bool {
        false
    }
    fn memory(&self) -> usize {
        self.0.len()
    }
}

/// The lookup structures, and with them `narrow`.
pub fn lookups() -> Lookups {
    let v4: Structure<u32> =
        Structure { name: "narrow", about: "", new: || Ok(Box::new(DoubleBuffered::new(|_| Ok(Narrow::default()))?)) };
    Lookups::default().and(&[v4], &[])
}
