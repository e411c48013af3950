// SPDX-License-Identifier: MIT
//! How many packets each rule of a list has decided about: a row of counters for each thread that asks the list.

use crate::counters::Counter;
use perigee_net::{Key, Verdict};
use perigee_packet::Mask;

/// Counters that lie between those of two threads, so that these share no cache line, nor one fetched with it.
const APART: usize = 128 / size_of::<Counter>();
/// Keys that a list is asked about at a time: as many as a word of a mask has bits.
const TURN: usize = 64;

/// The hits of a list's rules.
#[derive(Default)]
pub struct Hits(Vec<Box<[Counter]>>);

impl Hits {
    /// Counters at zero for a list of `rules` rules, with a row for each of `threads` threads.
    pub fn new(rules: usize, threads: usize) -> Hits {
        let row = || (0..APART + 1 + rules + APART).map(|_| Counter::default()).collect();
        Hits(std::iter::repeat_with(row).take(threads).collect())
    }

    /// The counters of a thread, which alone adds to them: the first is about packets that no rule matches, the others
    /// about the rules in their order. Without any, nothing is counted.
    #[inline]
    pub fn row(&self, thread: usize) -> &[Counter] {
        self.0.get(thread).map_or(&[], |row| &row[APART..row.len() - APART])
    }

    /// Packets that a rule, by its number from 0, has decided about.
    pub fn of(&self, rule: usize) -> u64 {
        (0..self.0.len()).filter_map(|thread| self.row(thread).get(rule + 1)).map(Counter::get).sum()
    }
}

/// Asks a list about keys, at most [`BATCH_SIZE`](perigee_packet::BATCH_SIZE), counts in the row, and returns which are
/// denied: their numbers, from 0.
#[inline]
pub(crate) fn ask<const N: usize>(keys: &[Key<N>], row: &[Counter], judge: impl Fn(&[Key<N>], &mut [Verdict])) -> Mask {
    let mut words = Mask::EMPTY.words();
    for (word, keys) in words.iter_mut().zip(keys.chunks(TURN)) {
        let mut verdicts = [Verdict::NONE; TURN];
        let verdicts = &mut verdicts[..keys.len()];
        judge(keys, verdicts);
        *word = counted(verdicts, row);
    }
    Mask::from_words(words)
}

/// Counts verdicts, at most a word's, and returns which of them deny.
fn counted(verdicts: &[Verdict], row: &[Counter]) -> u64 {
    let Some(first) = verdicts.first() else { return 0 };
    // Most bursts are of one verdict: all packets pass, or all are an attacker's. Vector instructions compare eight at a
    // time.
    let differing = verdicts.iter().fold(0, |any, verdict| any | (verdict.word() ^ first.word()));
    if differing == 0 {
        if let Some(counter) = row.get(first.place()) {
            counter.add(verdicts.len() as u64);
        }
        return if first.denies() { u64::MAX >> (TURN - verdicts.len()) } else { 0 };
    }
    let mut denied = 0;
    for (i, verdict) in verdicts.iter().enumerate() {
        denied |= u64::from(verdict.denies()) << i;
        if let Some(counter) = row.get(verdict.place()) {
            counter.add(1);
        }
    }
    denied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fuzz;
    use perigee_net::{FiveTuple, Rule};

    /// Rows and mask are those of a loop that counts one by one, for lists, threads and bursts at random.
    #[test]
    fn hits_are_counted_as_one_by_one() {
        let (mut random, count) = fuzz();
        let (mut uniform, mut mixed) = (0, 0);
        for _ in 0..count / 300 {
            let (rules, threads) = (1 + random.below(20), 1 + random.below(3) as usize);
            let hits = Hits::new(rules as usize, threads);
            let mut expected = vec![0; rules as usize];
            for _ in 0..10 {
                let kinds = 1 + random.below(rules + 1);
                let verdicts: Vec<Verdict> = (0..random.below(257))
                    .map(|_| match random.below(kinds) {
                        0 if random.below(8) > 0 || kinds > 1 => Verdict::NONE,
                        number => {
                            Rule { tuple: FiveTuple::default(), deny: number % 3 == 0, number: number.min(rules - 1) }
                                .verdict()
                        }
                    })
                    .collect();
                let thread = random.below(threads as u32) as usize;
                // The keys say where their verdicts are.
                let keys: Vec<Key<4>> =
                    (0..verdicts.len()).map(|i| Key { source: (i as u32).to_be_bytes(), ..Key::ZERO }).collect();
                let denied = ask(&keys, hits.row(thread), |keys, to| {
                    for (key, to) in keys.iter().zip(to) {
                        *to = verdicts[u32::from_be_bytes(key.source) as usize];
                    }
                });
                let one_by_one: Mask = (0..verdicts.len()).filter(|i| verdicts[*i].denies()).map(|i| i as u8).collect();
                assert_eq!(denied, one_by_one);
                verdicts.iter().filter(|v| v.place() > 0).for_each(|v| expected[v.place() - 1] += 1);
                let differ = verdicts.iter().any(|verdict| *verdict != verdicts[0]);
                (uniform, mixed) = (uniform + u64::from(!differ), mixed + u64::from(differ));
            }
            assert_eq!((0..rules as usize).map(|rule| hits.of(rule)).collect::<Vec<_>>(), expected);
        }
        println!("{uniform} bursts of one verdict, {mixed} of several");
        assert!(count < 10_000 || uniform > 20 && mixed > 20);
    }

    #[test]
    fn a_thread_without_a_row_counts_nothing_and_rows_are_apart() {
        let hits = Hits::new(2, 2);
        assert_eq!([0, 1, 2].map(|thread| hits.row(thread).len()), [3, 3, 0]);
        let verdict = Rule { number: 1, ..Rule::deny(FiveTuple::default()) }.verdict();
        let judge = |_: &[Key<4>], to: &mut [Verdict]| to.fill(verdict);
        assert_eq!(ask(&[Key::ZERO; 3], hits.row(2), judge), Mask::first(3));
        assert_eq!([hits.of(0), hits.of(1), hits.of(2)], [0, 0, 0]);
        assert_eq!(ask(&[Key::ZERO; 256], hits.row(1), judge), Mask::ALL);
        assert_eq!([hits.of(0), hits.of(1), hits.of(2)], [0, 256, 0]);
        assert_eq!(Hits::default().of(0), 0);
        let at = |thread: usize| hits.row(thread).as_ptr() as usize;
        assert!(at(0).abs_diff(at(1)) >= 128 + size_of_val(hits.row(0)));
    }
}
