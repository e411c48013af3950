// SPDX-License-Identifier: MIT
//! The lookup structures that a router may use: perigee_fib's, and those that the program adds.

use perigee_config::{AUTO, FibChoice, FibNames};
use perigee_fib::lookup::nodes::{PerNode, Place};
use perigee_fib::structures::{self, DEFAULT4, DEFAULT6};
use perigee_fib::{Arena, FibError, FibWriter, LookupError, LookupWriter, Structure};
use perigee_net::Address;
use std::sync::Arc;

/// The lookup structures of both families, by name.
#[derive(Clone)]
pub struct Lookups {
    v4: Vec<Structure<u32>>,
    v6: Vec<Structure<u128>>,
    /// Copies of each, and where they are; `None`: one, wherever its memory happens to be.
    nodes: Option<(usize, Place)>,
    /// The memory that the in-kernel plane reads as well, if there is such a plane.
    arena: Option<Arc<Arena>>,
}

/// Room for next hops in an arena, which takes memory for all of them.
const ARENA_NEXT_HOPS: u32 = 1 << 17;

impl Default for Lookups {
    /// Those of perigee_fib.
    fn default() -> Self {
        Self { v4: structures::IPV4.to_vec(), v6: structures::IPV6.to_vec(), nodes: None, arena: None }
    }
}

impl Lookups {
    /// These structures and some more.
    #[must_use]
    pub fn and(mut self, v4: &[Structure<u32>], v6: &[Structure<u128>]) -> Self {
        self.v4.extend_from_slice(v4);
        self.v6.extend_from_slice(v6);
        self
    }

    /// The same in this many copies, one for each NUMA node that has workers; see [`perigee_fib::lookup::nodes`].
    #[must_use]
    pub fn on_nodes(self, copies: usize, place: Place) -> Self {
        Self { nodes: Some((copies, place)), ..self }
    }

    /// The same in memory that the in-kernel plane reads as well: one copy, of the structures that it knows.
    #[must_use]
    pub fn in_arena(self, arena: Arc<Arena>) -> Self {
        Self { arena: Some(arena), ..self }
    }

    /// Their names, for the configuration.
    pub fn names(&self) -> FibNames {
        fn names<A: Address>(list: &[Structure<A>]) -> Vec<String> {
            list.iter().map(|structure| structure.name.to_owned()).collect()
        }
        FibNames { v4: names(&self.v4), v6: names(&self.v6) }
    }

    /// An empty forwarding table with room for `gateways` gateways.
    ///
    /// # Errors
    /// A structure cannot be made.
    pub fn make(&self, choice: &FibChoice, gateways: u32) -> Result<FibWriter, FibError> {
        if let Some(arena) = &self.arena {
            let name =
                |name: &str, default: &'static str| if name == AUTO { default.to_owned() } else { name.to_owned() };
            let (v4, v6) = (name(&choice.v4, DEFAULT4.name), name(&choice.v6, DEFAULT6.name));
            return FibWriter::in_arena(arena, gateways.min(ARENA_NEXT_HOPS), &v4, &v6);
        }
        let v4 = one(&self.v4, &choice.v4, DEFAULT4, &self.nodes)?;
        let v6 = one(&self.v6, &choice.v6, DEFAULT6, &self.nodes)?;
        FibWriter::with(gateways, v4, v6)
    }
}

/// The structure of this name. The configuration has checked the name, so none is found only for [`AUTO`].
fn one<A: Address>(
    list: &[Structure<A>],
    name: &str,
    default: &Structure<A>,
    nodes: &Option<(usize, Place)>,
) -> Result<Box<dyn LookupWriter<A>>, LookupError> {
    debug_assert!(name == AUTO || list.iter().any(|structure| structure.name == name), "no structure {name}");
    let structure = list.iter().find(|structure| structure.name == name).unwrap_or(default);
    match nodes {
        None => (structure.new)(),
        Some((copies, place)) => Ok(Box::new(PerNode::new(*copies, place.clone(), structure.new)?)),
    }
}
