// SPDX-License-Identifier: MIT
//! Which member of a group of next hops owns each bucket of flows.
//!
//! The number of buckets is a power of two (as in Linux's resilient nexthop groups), and a flow's hash picks one. The
//! owner of a bucket depends on the members, on their weights and on which of them are alive, but not on history: after
//! a reload, or on a second router with the same members, every flow takes the same path.
//!
//! With all members alive this is Maglev's table (Eisenbud et al.: "Maglev: A Fast and Reliable Software Network Load
//! Balancer", NSDI 2016, section 3.4), with turns in proportion to the weights: shares are exact to one bucket, and a
//! changed list of members moves few more flows than it must. A member that dies loses its buckets to the others in
//! proportion to their weights; no other bucket moves, and when it returns it gets back exactly its own.

/// A member's part in its group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The member's identity: a well-mixed number that depends on nothing else in the table.
    pub key: u64,
    /// At least 1.
    pub weight: u32,
}

/// The smallest and the largest number of buckets: 2^7 and 2^16.
pub(crate) const LOG2: std::ops::RangeInclusive<u8> = 7..=16;

/// The base-2 logarithm of the number of buckets: 16 per member, and 4 per unit of weight as far as that fits, so that
/// shares are off by at most a quarter of a unit.
pub(crate) fn log2_buckets(shares: &[Share]) -> u8 {
    let units: u64 = shares.iter().map(|share| u64::from(share.weight)).sum();
    let wanted = (16 * shares.len() as u64).max(4 * units).next_power_of_two();
    (wanted.trailing_zeros() as u8).clamp(*LOG2.start(), *LOG2.end())
}

/// The finalizer of SplitMix64: well mixed, and the same on every machine.
pub(crate) fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The owner of each bucket while all are alive, as an index into `shares`, of which there are 1 to 256.
pub(crate) fn fill(shares: &[Share], log2: u8) -> Box<[u8]> {
    const NOBODY: u16 = u16::MAX;
    let mask = (1usize << log2) - 1;
    let mut owners = vec![NOBODY; mask + 1];
    let heaviest = shares.iter().map(|share| share.weight).max().unwrap_or(1);
    let mut credit = vec![0u32; shares.len()];
    let mut next = vec![0usize; shares.len()];
    let mut left = quotas(shares, owners.len());
    while left.iter().any(|left| *left > 0) {
        for (member, share) in shares.iter().enumerate() {
            credit[member] += share.weight;
            if credit[member] < heaviest || left[member] == 0 {
                continue;
            }
            credit[member] -= heaviest;
            left[member] -= 1;
            // Each member visits the buckets in an order of its own: an odd step reaches all of a power of two.
            let (offset, step) = (mix(share.key) as usize, mix(!share.key) as usize | 1);
            loop {
                let at = offset.wrapping_add(next[member].wrapping_mul(step)) & mask;
                next[member] += 1;
                if owners[at] == NOBODY {
                    owners[at] = member as u16;
                    break;
                }
            }
        }
    }
    owners.into_iter().map(|owner| owner as u8).collect()
}

/// How many buckets each member gets: its share rounded down, and one more for those that lost most by the rounding.
fn quotas(shares: &[Share], buckets: usize) -> Vec<usize> {
    let units: u64 = shares.iter().map(|share| u64::from(share.weight)).sum();
    let exact = |share: &Share| u64::from(share.weight) * buckets as u64;
    let mut quotas: Vec<usize> = shares.iter().map(|share| (exact(share) / units) as usize).collect();
    let mut by_loss: Vec<usize> = (0..shares.len()).collect();
    by_loss.sort_by_key(|&member| std::cmp::Reverse(exact(&shares[member]) % units));
    let missing = buckets - quotas.iter().sum::<usize>();
    by_loss.into_iter().take(missing).for_each(|member| quotas[member] += 1);
    quotas
}

/// Which member `bucket` goes to now: its owner or, if that is dead, one that is alive.
///
/// The walk from an orphaned bucket visits the others in an order of its own until it finds one whose owner is alive.
/// So each of those inherits in proportion to its buckets, and a member that dies or returns moves no buckets but its
/// own.
pub(crate) fn owner(owners: &[u8], bucket: usize, alive: &[bool]) -> u8 {
    let is_alive = |owner: u8| alive.get(usize::from(owner)).is_some_and(|alive| *alive);
    let own = owners[bucket];
    if is_alive(own) {
        return own;
    }
    let mask = owners.len() - 1;
    let walk = (0..4 * owners.len()).map(|step| mix((bucket as u64) << 32 | step as u64) as usize & mask);
    // The walk nearly always ends soon. If one bucket in thousands has an owner alive, the next such bucket will do.
    let in_order = (1..owners.len()).map(|step| (bucket + step) & mask);
    walk.chain(in_order).map(|at| owners[at]).find(|owner| is_alive(*owner)).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(weights: &[u32]) -> Vec<Share> {
        (0..).zip(weights).map(|(member, &weight)| Share { key: mix(member + 1000), weight }).collect()
    }

    fn counts(owners: impl Iterator<Item = u8>, members: usize) -> Vec<usize> {
        let mut counts = vec![0; members];
        owners.for_each(|owner| counts[usize::from(owner)] += 1);
        counts
    }

    proptest! {
        /// Shares are within one bucket of what the weights say, whatever these are, and every member has a bucket.
        #[test]
        fn shares_are_exact(weights in prop::collection::vec(1u32..=256, 1..=256)) {
            let shares = shares(&weights);
            let log2 = log2_buckets(&shares);
            let owners = fill(&shares, log2);
            let units: u32 = weights.iter().sum();
            for (count, weight) in counts(owners.iter().copied(), weights.len()).into_iter().zip(&weights) {
                let exact = f64::from(*weight) / f64::from(units) * owners.len() as f64;
                prop_assert!((count as f64 - exact).abs() < 1.0, "{count} buckets of {exact}");
                prop_assert!(count > 0);
            }
        }

        /// When a member dies only its own buckets move; the dead have none; and the order of deaths does not matter.
        #[test]
        fn only_the_dead_lose(weights in prop::collection::vec(1u32..=8, 2..=20), dead in any::<u32>(), one in 0usize..20) {
            let shares = shares(&weights);
            let one = one % weights.len();
            let owners = fill(&shares, log2_buckets(&shares));
            let mut alive: Vec<bool> = (0..weights.len()).map(|member| dead >> member & 1 == 0).collect();
            alive[one] = true;
            let now = |alive: &[bool]| (0..owners.len()).map(|at| owner(&owners, at, alive)).collect::<Vec<_>>();
            let before = now(&alive);
            prop_assert!(before.iter().all(|owner| alive[usize::from(*owner)]));
            alive[one] = false;
            let after = now(&alive);
            let others = alive.iter().any(|alive| *alive);
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(usize::from(*before) == one || before == after);
                prop_assert!(usize::from(*after) != one || !others);
            }
        }
    }

    #[test]
    fn the_heirs_share_by_weight() {
        let shares = shares(&[1, 1, 2]);
        let owners = fill(&shares, 12);
        let after = counts((0..owners.len()).map(|at| owner(&owners, at, &[false, true, true])), 3);
        assert_eq!(after[0], 0);
        // 1024 orphans, a third of them expected: a standard deviation is 15.
        assert!((after[1] as i64 - (1024 + 341)).abs() < 75, "{after:?}");
    }

    /// With one member more or fewer the flows that must move do, and few others.
    #[test]
    fn another_list_moves_little() {
        for members in 2..=8usize {
            let all = shares(&vec![1; members + 1]);
            let (more, fewer) = (fill(&all, 8), fill(&all[..members], 8));
            let moved = more.iter().zip(&fewer).filter(|(a, b)| a != b && usize::from(**a) != members).count();
            assert!(moved < 256 / 5, "{members} members: {moved} of 256 moved beside those that must");
        }
    }

    #[test]
    fn the_last_one_has_all() {
        let shares = shares(&[256; 256]);
        let owners = fill(&shares, log2_buckets(&shares));
        let mut alive = [false; 256];
        alive[77] = true;
        assert!((0..owners.len()).all(|at| owner(&owners, at, &alive) == 77));
        assert_eq!(owner(&owners, 5, &[false; 256]), owners[5], "with none alive, as if all were");
    }
}
