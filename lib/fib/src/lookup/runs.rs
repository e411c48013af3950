// SPDX-License-Identifier: MIT
//! Nested prefixes as runs: each has one next hop, from its first address up to the next run.
//!
//! Addresses are left-aligned in 128 bits: an IPv4 prefix appears here as the IPv6 prefix of the same bits.

use perigee_net::Prefix6;

/// Addresses from `start` up to the next run have this leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub start: u128,
    pub leaf: u32,
}

/// The runs of a block of addresses, adjacent runs with one leaf merged. `prefixes` are those inside it, by address,
/// shorter ones first; `cover` is the leaf where none of them matches.
pub(crate) fn runs(block: Prefix6, cover: u32, prefixes: impl Iterator<Item = (Prefix6, u32)>) -> Vec<Run> {
    let block_last = block.last();
    let mut runs = vec![Run { start: block.addr(), leaf: cover }];
    // The prefixes that contain the current address of the sweep, the innermost last.
    let mut open: Vec<(u128, u32)> = Vec::new();
    let close = |open: &mut Vec<(u128, u32)>, runs: &mut Vec<Run>, before: Option<u128>| {
        while let Some(&(end, _)) = open.last()
            && before.is_none_or(|addr| end < addr)
        {
            open.pop();
            if end != block_last {
                push(runs, end + 1, open.last().map_or(cover, |(_, leaf)| *leaf));
            }
        }
    };
    for (prefix, leaf) in prefixes {
        close(&mut open, &mut runs, Some(prefix.addr()));
        push(&mut runs, prefix.addr(), leaf);
        open.push((prefix.last(), leaf));
    }
    close(&mut open, &mut runs, None);
    runs
}

/// From `start` on the leaf is `leaf`, until another one is pushed.
pub(crate) fn push(runs: &mut Vec<Run>, start: u128, leaf: u32) {
    if runs.last().is_some_and(|last| last.start == start) {
        runs.pop();
    }
    if runs.last().is_none_or(|last| last.leaf != leaf) {
        runs.push(Run { start, leaf });
    }
}

/// The runs of a block that ends with `last`, with those of `parts` replaced: prefixes within the block, by address,
/// none within another, each with its runs.
pub(crate) fn splice<'r>(runs: &[Run], last: u128, parts: impl Iterator<Item = (Prefix6, &'r [Run])>) -> Vec<Run> {
    let mut spliced = Vec::with_capacity(runs.len() + 16);
    let mut at = 0;
    for (inside, fresh) in parts {
        let before = at + runs[at..].partition_point(|run| run.start < inside.addr());
        append(&mut spliced, &runs[at..before]);
        fresh.iter().for_each(|run| push(&mut spliced, run.start, run.leaf));
        at = before;
        if inside.last() < last {
            let next = inside.last() + 1;
            at += runs[at..].partition_point(|run| run.start <= next);
            push(&mut spliced, next, runs[at - 1].leaf);
        } else {
            at = runs.len();
        }
    }
    append(&mut spliced, &runs[at..]);
    spliced
}

/// Appends runs of which no two neighbors have one leaf.
fn append(runs: &mut Vec<Run>, more: &[Run]) {
    let Some((first, rest)) = more.split_first() else { return };
    push(runs, first.start, first.leaf);
    runs.extend_from_slice(rest);
}

/// Calls `each` with each of the 2^`stride` equal parts of a block of addresses, all with the same first `depth` bits,
/// and with the part's runs, the first of which covers the part's first address. Stops if `each` returns `None`.
pub(crate) fn split(
    runs: &[Run],
    depth: u32,
    stride: u32,
    mut each: impl FnMut(usize, &[Run]) -> Option<()>,
) -> Option<()> {
    let mut first = 0;
    for cell in 0..1usize << stride {
        let cell_of = |run: &Run| (run.start << depth >> (128 - stride)) as usize;
        // Of the runs that begin before this cell or with it, all but the last have ended.
        let starts_here = |run: &Run| run.start << depth == (cell as u128) << (128 - stride);
        while runs.get(first + 1).is_some_and(|run| cell_of(run) < cell || starts_here(run)) {
            first += 1;
        }
        let inside = runs[first + 1..].iter().take_while(|run| cell_of(run) == cell).count();
        each(cell, &runs[first..=first + inside])?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_net::PrefixOf;

    fn of(block: &str, cover: u32, prefixes: &[(&str, u32)]) -> Vec<(String, u32)> {
        let prefix = |text: &str| text.parse::<Prefix6>().expect(text);
        let mut prefixes: Vec<_> = prefixes.iter().map(|(text, leaf)| (prefix(text), *leaf)).collect();
        prefixes.sort();
        let runs = runs(prefix(block), cover, prefixes.into_iter());
        runs.iter().map(|run| (std::net::Ipv6Addr::from_bits(run.start).to_string(), run.leaf)).collect()
    }

    #[test]
    fn nested_prefixes_end_where_the_inner_ones_do() {
        let runs = of("2001::/16", 9, &[("2001:8000::/17", 1), ("2001:c000::/18", 2), ("2001:c000::/20", 1)]);
        let expected = [("2001::", 9), ("2001:8000::", 1), ("2001:d000::", 2)];
        assert_eq!(runs, expected.map(|(start, leaf)| (start.to_owned(), leaf)));
    }

    #[test]
    fn the_ends_of_the_space() {
        let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let runs = of("::/0", 0, &[("::/128", 1), (&format!("{last}/128"), 2), ("ffff::/16", 3)]);
        let expected = [("::", 1), ("::1", 0), ("ffff::", 3), (last, 2)];
        assert_eq!(runs, expected.map(|(start, leaf)| (start.to_owned(), leaf)));
    }

    #[test]
    fn a_part_is_replaced_and_equal_neighbors_merge() {
        let run = |start: u128, leaf| Run { start, leaf };
        let runs = [run(0, 1), run(16, 2), run(32, 3)];
        let inside = |start: u128, len| PrefixOf::truncated(start, len).expect("in range");
        let cases = [
            (inside(16, 124), vec![run(16, 9)], vec![run(0, 1), run(16, 9), run(32, 3)]),
            (inside(16, 124), vec![run(16, 1)], vec![run(0, 1), run(32, 3)]),
            (inside(20, 126), vec![run(20, 9)], vec![run(0, 1), run(16, 2), run(20, 9), run(24, 2), run(32, 3)]),
            (inside(0, 123), vec![run(0, 3)], vec![run(0, 3)]),
            (
                inside(60, 126),
                vec![run(60, 9), run(63, 8)],
                vec![run(0, 1), run(16, 2), run(32, 3), run(60, 9), run(63, 8)],
            ),
            (inside(0, 122), vec![run(0, 9)], vec![run(0, 9)]),
        ];
        for (inside, fresh, expected) in cases {
            let parts = [(inside, &fresh[..])];
            assert_eq!(splice(&runs, 63, parts.into_iter()), expected, "{inside}");
        }
    }

    /// All parts at once are the same as one after the other.
    #[test]
    fn several_parts_are_replaced_in_one_pass() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = crate::synth::Random::new(seed);
        for round in 0..2000 {
            let mut known = vec![Run { start: 0, leaf: random.below(3) }];
            (1..64).filter(|_| random.below(4) == 0).for_each(|start| push(&mut known, start, (start % 3) as u32));
            let (mut parts, mut next) = (Vec::new(), 0);
            while next < 64 {
                let len = 122 + random.below(7) as u8;
                let inside: Prefix6 = PrefixOf::truncated(next, len).expect("in range");
                if inside.addr() == next && random.below(3) > 0 {
                    let mut fresh = vec![Run { start: next, leaf: random.below(3) }];
                    (next + 1..=inside.last())
                        .filter(|_| random.below(3) == 0)
                        .for_each(|start| push(&mut fresh, start, (start % 2) as u32));
                    parts.push((inside, fresh));
                    next = inside.last();
                }
                next += 1;
            }
            let mut expected = known.clone();
            for (inside, fresh) in &parts {
                expected = splice(&expected, 63, [(*inside, &fresh[..])].into_iter());
            }
            let spliced = splice(&known, 63, parts.iter().map(|(inside, fresh)| (*inside, &fresh[..])));
            assert_eq!(spliced, expected, "round {round}, seed {seed}: {known:?} with {parts:?}");
            assert!(spliced.windows(2).all(|pair| pair[0].leaf != pair[1].leaf && pair[0].start < pair[1].start));
        }
    }

    #[test]
    fn parts_begin_with_the_run_around_them() {
        let run = |start: u128, leaf| Run { start: start << 120, leaf };
        let runs = [run(0x20, 1), run(0x41, 2), run(0x80, 3), run(0x82, 4), run(0xff, 5)];
        let mut parts = Vec::new();
        let all = split(&runs, 0, 2, |cell, runs| {
            parts.push((cell, runs.iter().map(|run| run.leaf).collect::<Vec<_>>()));
            Some(())
        });
        assert_eq!((all, parts), (Some(()), vec![(0, vec![1]), (1, vec![1, 2]), (2, vec![3, 4]), (3, vec![4, 5])]));
    }
}
