// SPDX-License-Identifier: MIT
//! Tables that the Internet's is not, beside it: links full of hosts and nested prefixes, changed in the order that
//! costs most.
//!
//! Each structure gets each shape once, one after the other. Prefixes come one by one, with a commit and a batch
//! boundary of the reader after every 32; then all flap, then the network around them does, then they go. Whatever
//! takes too long is stopped, and the share that was done is reported.

use super::measure::{self, Reader};
use crate::machine::thread_time;
use crate::table::{Entry, Family, Ranges, edges};
use perigee_fib::synth::shapes::{self, Shape};
use perigee_fib::{LookupError, LookupWriter, NextHopId, Structure};
use perigee_net::PrefixOf;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Changes between two commits, each with a batch boundary of the reader.
const BATCH: usize = 32;
/// How often the network around the shape is withdrawn and announced.
const COVER_FLAPS: usize = 16;

/// What one structure did with one shape.
#[derive(Debug, Clone, Serialize)]
pub struct Shaped {
    /// The structure's name.
    pub structure: &'static str,
    /// 4 or 6.
    pub family: u8,
    /// The shape's name.
    pub shape: &'static str,
    /// Prefixes of the shape, and how many of them were tried before time was up.
    pub prefixes: usize,
    pub tried: usize,
    /// Insertions and removals that the structure refused.
    pub refused: usize,
    pub removals_refused: usize,
    /// Nanoseconds of CPU time per insertion, per change while all prefixes flap, per change of the network around
    /// them, and per removal; commits included.
    pub ns_per_insertion: f64,
    pub ns_per_flap: f64,
    pub ns_per_change_of_the_network: f64,
    pub ns_per_removal: f64,
    /// Bytes before, with all prefixes, and after they have been removed.
    pub bytes_before: usize,
    pub bytes: usize,
    pub bytes_after: usize,
    /// Answers that differ from the oracle's, with all prefixes and without them: must be 0.
    pub wrong: u64,
}

/// A structure, its reader, and when it has to be done.
struct Subject<A> {
    writer: Box<dyn LookupWriter<A>>,
    reader: Reader<A>,
    limit: Duration,
}

impl<A: Family> Subject<A> {
    /// Makes the changes one by one, until time is up; returns how many were made, and the time per change in ns.
    fn change_all(
        &mut self,
        changes: impl Iterator<Item = (PrefixOf<A>, Option<NextHopId>)>,
        mut refused: impl FnMut(PrefixOf<A>),
    ) -> Result<(usize, f64), LookupError> {
        let (start, cpu, mut made) = (Instant::now(), thread_time(), 0);
        for (prefix, id) in changes {
            let done = match id {
                Some(id) => self.writer.insert(prefix, id).map(drop),
                None => self.writer.remove(prefix).map(drop),
            };
            match done {
                Ok(()) => (),
                Err(LookupError::Busy { .. }) => return Err(done.expect_err("matched")),
                Err(_) => refused(prefix),
            }
            made += 1;
            if made % BATCH == 0 {
                self.reader.publish(&mut *self.writer)?;
                self.reader.boundary(&mut *self.writer);
                if start.elapsed() > self.limit {
                    break;
                }
            }
        }
        self.reader.settle(&mut *self.writer)?;
        Ok((made, (thread_time() - cpu).as_secs_f64() * 1e9 / made.max(1) as f64))
    }

    fn wrong(&self, table: &[Entry<A>], probes: &[A]) -> u64 {
        let right = Ranges::of(table).ids(probes);
        measure::wrong(&*self.writer.reader(), probes, &right, 64)
    }
}

/// Measures one structure with one shape of about `n` prefixes; no step takes much longer than `limit`.
pub fn measure<A: Family + shapes::Family>(
    structure: &Structure<A>,
    shape: Shape,
    n: u32,
    seed: u64,
    limit: Duration,
) -> Result<Shaped, LookupError> {
    let mut writer = (structure.new)()?;
    let network = (PrefixOf::truncated(A::LINK.0, A::LINK.1).expect("in range"), NextHopId(NextHopId::FIRST_FREE));
    writer.insert(network.0, network.1)?;
    let reader = Reader::of(&mut *writer, network)?;
    let mut subject = Subject { writer, reader, limit };
    let bytes_before = subject.writer.memory();

    let coming = shape.coming::<A>(n, seed);
    let id = |at: usize| NextHopId(NextHopId::FIRST_FREE + 1 + at as u32 % 100);
    let mut missing = std::collections::HashSet::new();
    let with_ids = coming.iter().enumerate().map(|(at, prefix)| (*prefix, Some(id(at))));
    let (tried, ns_per_insertion) = subject.change_all(with_ids, |prefix| _ = missing.insert(prefix))?;
    let refused = missing.len();
    missing.extend(&coming[tried..]);
    let mut table = vec![network];
    table.extend(coming.iter().enumerate().map(|(at, prefix)| (*prefix, id(at))).filter(|(p, _)| !missing.contains(p)));
    let bytes = subject.writer.memory();
    let probes = edges(table.iter().map(|(prefix, _)| *prefix));
    let mut wrong = subject.wrong(&table, &probes);

    let flaps = table[1..].iter().flat_map(|(prefix, id)| [(*prefix, None), (*prefix, Some(*id))]);
    let mut lost = 0;
    let (_, ns_per_flap) = subject.change_all(flaps, |_| lost += 1)?;
    let network_flaps = (0..COVER_FLAPS).flat_map(|_| [(network.0, None), (network.0, Some(network.1))]);
    let (_, ns_per_change_of_the_network) = subject.change_all(network_flaps, |_| lost += 1)?;
    wrong += subject.wrong(&table, &probes);

    let mut stuck = Vec::new();
    let gone: Vec<_> = shape.going(&coming, seed).into_iter().filter(|prefix| !missing.contains(prefix)).collect();
    let (removed, ns_per_removal) =
        subject.change_all(gone.iter().map(|prefix| (*prefix, None)), |prefix| stuck.push(prefix))?;
    // What took too long is removed without a clock, so that memory and answers can be looked at.
    subject.limit = Duration::MAX;
    subject.change_all(gone[removed..].iter().map(|prefix| (*prefix, None)), |prefix| stuck.push(prefix))?;
    wrong += subject.wrong(&[network], &probes);
    Ok(Shaped {
        structure: structure.name,
        family: A::NUMBER,
        shape: shape.name(),
        prefixes: coming.len(),
        tried,
        refused: refused + lost,
        removals_refused: stuck.len(),
        ns_per_insertion,
        ns_per_flap,
        ns_per_change_of_the_network,
        ns_per_removal,
        bytes_before,
        bytes,
        bytes_after: subject.writer.memory(),
        wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_fib::structures;

    #[test]
    fn a_structure_takes_every_shape_and_gives_it_back() {
        for shape in Shape::ALL {
            let limit = Duration::from_secs(60);
            let shaped = measure(structures::DEFAULT6, shape, 500, 1, limit).expect("memory");
            assert_eq!((shaped.refused, shaped.removals_refused, shaped.wrong), (0, 0, 0), "{}", shape.name());
            assert!(shaped.tried == shaped.prefixes && shaped.bytes > shaped.bytes_before, "{}", shape.name());
            assert!(shaped.ns_per_insertion > 0.0 && shaped.ns_per_removal > 0.0);
        }
    }

    #[test]
    fn what_takes_too_long_is_stopped_and_still_removed() {
        let shaped = measure(&structures::IPV4[1], Shape::Hosts, 500, 1, Duration::ZERO).expect("memory");
        assert_eq!((shaped.structure, shaped.tried, shaped.wrong), ("dxr16", BATCH, 0));
    }
}
