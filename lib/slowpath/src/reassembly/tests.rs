// SPDX-License-Identifier: MIT
//! Reassembly against an oracle that knows nothing of lists and ranks: a map from byte to value for each datagram. And
//! what memory it takes, and whose datagrams make room.

use super::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

fn key(source: u32, identification: u32) -> Key {
    let source = IpAddr::V4(Ipv4Addr::from_bits(source));
    Key { source, destination: IpAddr::from([10, 0, 1, 1]), protocol: 17, identification, link: None }
}

const HEAD: &[u8] = &[0xee; 34];

fn fragment(key: Key, offset: usize, more: bool, data: &[u8]) -> Fragment<'_> {
    Fragment { key, interface: InterfaceId(1), head: HEAD, header_len: 20, offset, more, data, ecn: 0 }
}

/// The bytes of a datagram: its own, so that no piece of another can be taken for one of its.
fn content(key: &Key, len: usize) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(u64::from(key.identification) << 32 | len as u64);
    (0..len).map(|_| rng.random()).collect()
}

/// Memory and indices counted again, one by one.
fn check(r: &Reassembly) {
    let mut bytes = 0;
    let mut shares: BTreeMap<Source, (usize, BTreeSet<u64>)> = BTreeMap::new();
    for (key, datagram) in &r.datagrams {
        let pieces: usize = datagram.pieces.iter().map(|piece| piece.data.len() + FRAGMENT_COST).sum();
        let head = datagram.first.as_ref().map_or(0, |first| first.head.len());
        assert_eq!(datagram.cost, pieces + head + DATAGRAM_COST);
        assert_eq!(datagram.filled, datagram.pieces.iter().map(|piece| piece.data.len()).sum::<usize>());
        assert!(datagram.pieces.len() <= r.config.reassembly_fragments);
        assert!(datagram.pieces.windows(2).all(|pair| pair[0].end() <= pair[1].offset));
        assert_eq!(r.ages.get(&datagram.age), Some(key));
        bytes += datagram.cost;
        let share = shares.entry(source_of(key)).or_default();
        share.0 += datagram.cost;
        share.1.insert(datagram.age);
    }
    assert_eq!((r.bytes, r.ages.len()), (bytes, r.datagrams.len()));
    let held: BTreeMap<_, _> = r.sources.iter().map(|(source, s)| (*source, (s.bytes, s.ages.clone()))).collect();
    assert_eq!(held, shares);
    let ranks: BTreeSet<_> = r.sources.iter().filter_map(|(source, share)| Some((share.rank()?, *source))).collect();
    assert_eq!(r.ranks, ranks);
    let c = &r.config;
    assert!(r.bytes <= c.reassembly_bytes && r.datagrams.len() <= c.reassembly_datagrams);
    let fair = |(bytes, ages): &(usize, BTreeSet<u64>)| {
        *bytes <= c.reassembly_source_bytes && ages.len() <= c.reassembly_source_datagrams
    };
    assert!(shares.values().all(fair));
}

fn drops(counters: &Counters) -> u64 {
    counters.iter().filter(|count| count.kind == crate::CounterKind::Drop).map(|count| count.value).sum()
}

/// A datagram as the oracle sees it.
#[derive(Default)]
struct Naive {
    bytes: BTreeMap<usize, u8>,
    ranges: Vec<(usize, usize, bool)>,
    refused: Option<Refusal>,
    deadline: Time,
}

/// A reassembler over byte maps, without limits of memory.
#[derive(Default)]
struct Oracle {
    datagrams: BTreeMap<Key, Naive>,
    most: usize,
}

impl Oracle {
    fn add(&mut self, now: Time, f: &Fragment<'_>) -> Result<Option<Vec<u8>>, Refusal> {
        self.datagrams.retain(|_, naive| naive.deadline > now);
        if f.data.is_empty() {
            return Err(Refusal::Empty);
        } else if f.more && !f.data.len().is_multiple_of(8) {
            return Err(Refusal::Uneven);
        } else if f.header_len + f.offset + f.data.len() > 65_535 {
            return Err(Refusal::TooLong);
        }
        let fresh = || Naive { deadline: now.after_millis(60_000), ..Naive::default() };
        let naive = self.datagrams.entry(f.key).or_insert_with(fresh);
        if let Some(refusal) = naive.refused {
            return Err(refusal);
        }
        let range = (f.offset, f.offset + f.data.len(), f.more);
        let mine = (range.0..range.1).zip(f.data.iter().copied());
        if naive.ranges.contains(&range) && mine.clone().all(|(at, byte)| naive.bytes.get(&at) == Some(&byte)) {
            return Err(Refusal::Duplicate);
        }
        let overlap = (range.0..range.1).any(|at| naive.bytes.contains_key(&at));
        // With this one among them: every end agrees, and nothing but the last fragment reaches it.
        let all = || naive.ranges.iter().chain([&range]);
        let contradiction = all().any(|(_, end, more)| {
            !more && all().any(|(_, other, more)| if *more { other >= end } else { other != end })
        });
        if overlap || contradiction {
            naive.refused = Some(Refusal::Overlap);
        } else if naive.ranges.len() >= self.most {
            naive.refused = Some(Refusal::TooMany);
        }
        if let Some(refusal) = naive.refused {
            return Err(refusal);
        }
        naive.ranges.push(range);
        naive.bytes.extend(mine);
        let last = naive.ranges.iter().find(|(_, _, more)| !more).map(|(_, end, _)| *end);
        let whole = last.is_some_and(|end| (0..end).all(|at| naive.bytes.contains_key(&at)));
        Ok(whole.then(|| self.datagrams.remove(&f.key).unwrap().bytes.into_values().collect()))
    }
}

/// A fragment of a datagram, as an owner of its bytes.
#[derive(Clone)]
struct Cut {
    key: Key,
    offset: usize,
    more: bool,
    data: Vec<u8>,
}

impl Cut {
    fn view(&self) -> Fragment<'_> {
        fragment(self.key, self.offset, self.more, &self.data)
    }
}

/// Cuts a datagram at random places.
fn cut(rng: &mut StdRng, key: Key, len: usize, largest: usize) -> Vec<Cut> {
    let whole = content(&key, len);
    let mut pieces = Vec::new();
    let mut offset = 0;
    while offset < len {
        let room = rng.random_range(1..=largest / 8) * 8;
        let end = if len - offset <= room { len } else { offset + room };
        pieces.push(Cut { key, offset, more: end < len, data: whole[offset..end].to_vec() });
        offset = end;
    }
    pieces
}

/// Spoils one: a shifted, longer, shorter, altered, endless or empty piece.
fn spoil(rng: &mut StdRng, piece: &Cut) -> Cut {
    let mut piece = piece.clone();
    match rng.random_range(0..7) {
        0 => piece.offset = (piece.offset + 8).min(65_528),
        1 => piece.offset = piece.offset.saturating_sub(8),
        2 => piece.data.extend([0; 8]),
        3 => piece.data.truncate(piece.data.len().saturating_sub(rng.random_range(1..16))),
        4 => {
            let at = rng.random_range(0..piece.data.len());
            piece.data[at] ^= 1;
        }
        5 => piece.more = !piece.more,
        _ => piece.offset = 65_528,
    }
    piece
}

#[test]
fn agrees_with_a_map_of_bytes_in_any_order_with_duplicates_and_overlaps() {
    let roomy = Config {
        reassembly_fragments: 12,
        reassembly_bytes: usize::MAX,
        reassembly_datagrams: usize::MAX,
        reassembly_source_bytes: usize::MAX,
        reassembly_source_datagrams: usize::MAX,
        ..Config::default()
    };
    let mut seen = BTreeMap::new();
    for seed in 0..300 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let (mut r, mut oracle) = (Reassembly::new(roomy.clone()), Oracle { most: 12, ..Oracle::default() });
        let mut counters = Counters::default();
        let mut pieces = Vec::new();
        for id in 0..rng.random_range(1..8) {
            let len = if rng.random_bool(0.1) { rng.random_range(1..65_516) } else { rng.random_range(1..400) };
            let largest = if len > 400 { 16_000 } else { 80 };
            pieces.extend(cut(&mut rng, key((id % 3) << 8, id / 2), len, largest));
        }
        let again: Vec<_> = (0..pieces.len() / 4).map(|_| pieces[rng.random_range(0..pieces.len())].clone()).collect();
        let bad: Vec<_> = (0..if seed % 3 == 0 { 0 } else { rng.random_range(0..4) })
            .map(|_| {
                let at = rng.random_range(0..pieces.len());
                spoil(&mut rng, &pieces[at])
            })
            .collect();
        pieces.extend(again.into_iter().chain(bad));
        pieces.shuffle(&mut rng);
        let (mut now, mut delivered) = (Time::from_secs(1), 0);
        for piece in &pieces {
            now = now.after_millis(if rng.random_bool(0.02) { 61_000 } else { 3 });
            while r.expire(now, &mut counters).is_some() {}
            let here = r.datagrams.get(&piece.key).map_or(0, |datagram| datagram.pieces.len());
            let got = r.add(now, &piece.view(), &mut counters);
            let got = got.map(|whole| whole.map(|whole| whole.frame[HEAD.len()..].to_vec()));
            assert_eq!(got, oracle.add(now, &piece.view()), "offset {}, {} bytes", piece.offset, piece.data.len());
            delivered += if matches!(got, Ok(Some(_))) { here + 1 } else { 0 };
            *seen.entry(format!("{:?}", got.map(|whole| whole.is_some()))).or_insert(0) += 1;
            check(&r);
        }
        // Each frame is in one place: dropped, here, or in a whole datagram.
        let here: usize = r.datagrams.values().map(|datagram| datagram.pieces.len()).sum();
        assert_eq!(drops(&counters) as usize + here + delivered, pieces.len());
    }
    println!("{seen:?}");
    for outcome in ["Ok(true)", "Ok(false)", "Err(Duplicate)", "Err(Overlap)", "Err(TooMany)", "Err(Uneven)"] {
        assert!(seen.contains_key(outcome), "{outcome} never happened: {seen:?}");
    }
    assert!(seen.contains_key("Err(TooLong)") && seen.contains_key("Err(Empty)"), "{seen:?}");
}

// Under pressure datagrams are lost, but none is ever put together wrongly, and no limit is passed.
#[test]
fn with_little_memory_what_is_whole_is_right() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let tight = Config {
            reassembly_bytes: 20_000,
            reassembly_datagrams: 14,
            reassembly_source_bytes: 9_000,
            reassembly_source_datagrams: 11,
            ..Config::default()
        };
        let mut r = Reassembly::new(tight);
        let mut counters = Counters::default();
        let mut pieces = Vec::new();
        let mut contents = BTreeMap::new();
        for id in 0..60 {
            let key = key(rng.random_range(0..4u32) << 8, id);
            let len = rng.random_range(1..3000);
            contents.insert(key, content(&key, len));
            pieces.push(cut(&mut rng, key, len, 800));
        }
        // A few at a time, interleaved.
        let mut now = Time::from_secs(1);
        let mut under_way: Vec<Vec<Cut>> = Vec::new();
        while !pieces.is_empty() || !under_way.is_empty() {
            while under_way.len() < 16 && !pieces.is_empty() {
                under_way.push(pieces.pop().unwrap());
            }
            let which = rng.random_range(0..under_way.len());
            let at = rng.random_range(0..under_way[which].len());
            let piece = under_way[which].remove(at);
            under_way.retain(|left| !left.is_empty());
            now = now.after_millis(1);
            if let Ok(Some(whole)) = r.add(now, &piece.view(), &mut counters) {
                assert_eq!(&whole.frame[HEAD.len()..], contents[&piece.key]);
            }
            check(&r);
        }
        assert!(counters.reassembled > 5 && counters.drops.fragment_evicted > 5, "{counters:?}");
        while r.expire(Time::from_secs(1000), &mut counters).is_some() {}
        assert_eq!(r.holds(), Reassembling::default());
        assert!(r.sources.is_empty() && r.ranks.is_empty() && r.ages.is_empty());
    }
}

/// A flood of fragments that never become a datagram, with an honest sender's datagrams among them, whose fragments are
/// `apart` of the flood's from each other. Returns how many of 50 arrived.
fn flooded(source: impl Fn(u32) -> u32, apart: u32, config: Config) -> usize {
    let mut r = Reassembly::new(config);
    let (mut counters, mut sent, mut arrived) = (Counters::default(), 0, 0);
    for id in 0..50 {
        let honest = key(0x0a00_0102, id);
        let whole = content(&honest, 4000);
        for (n, data) in whole.chunks(1480).enumerate() {
            for _ in 0..apart {
                sent += 1;
                let forged = key(source(sent), sent);
                let _ = r.add(Time::from_secs(1), &fragment(forged, 8, true, &[0; 8]), &mut counters);
            }
            let piece = fragment(honest, n * 1480, n < 2, data);
            let got = r.add(Time::from_secs(1), &piece, &mut counters);
            arrived += usize::from(matches!(got, Ok(Some(_))));
        }
        check(&r);
    }
    assert!(counters.drops.fragment_evicted > 0, "not even full");
    arrived
}

#[test]
fn a_flood_takes_its_own_share_and_no_more() {
    // From one network, with addresses at random; from several, which fill all of the memory together.
    assert_eq!(flooded(|n| 0xc0a8_0000 | (n % 256), 500, Config::default()), 50);
    assert_eq!(flooded(|n| 0xc0a8_0000 | ((n % 16) << 8), 500, Config::default()), 50);
    // From everywhere: the oldest goes first, which is not the honest one while its fragments come close together.
    assert_eq!(flooded(|n| n.wrapping_mul(0x9e37_79b1), 400, Config::default()), 50);
    // From its own network, too.
    assert_eq!(flooded(|_| 0x0a00_0177, 60, Config::default()), 50);
}

#[test]
fn time_is_up_once_and_the_first_fragment_is_given_back() {
    let mut r = Reassembly::new(Config::default());
    let mut counters = Counters::default();
    let start = Time::from_secs(5);
    for id in 0..3 {
        r.add(start.after_millis(u64::from(id)), &fragment(key(1, id), 8, true, &[7; 8]), &mut counters).unwrap();
    }
    r.add(start.after_millis(50), &fragment(key(1, 1), 0, true, &[9; 8]), &mut counters).unwrap();
    // A later fragment does not prolong it (RFC 8200 4.5: from the first-arriving one).
    assert_eq!(r.next_timeout(), Some(start.after_millis(60_000)));
    assert_eq!(r.expire(start.after_millis(59_999), &mut counters), None);
    let frame = [HEAD, &[9; 8]].concat();
    assert_eq!(r.expire(start.after_millis(60_001), &mut counters), Some(Expired { interface: InterfaceId(1), frame }));
    assert_eq!((counters.drops.fragment_timeout, r.holds().datagrams), (3, 1));
    assert_eq!(r.expire(start.after_millis(60_002), &mut counters), None);
    assert_eq!((counters.drops.fragment_timeout, r.next_timeout()), (4, None));
}

// RFC 3168 5.3.
#[test]
fn congestion_is_not_lost() {
    let with = |marks: [u8; 2]| {
        let mut r = Reassembly::new(Config::default());
        let mut counters = Counters::default();
        let piece = |n: usize| Fragment { ecn: marks[n], ..fragment(key(1, 1), n * 8, n == 0, &[1; 8]) };
        r.add(Time(0), &piece(0), &mut counters).unwrap();
        let whole = r.add(Time(0), &piece(1), &mut counters).map(|whole| whole.unwrap().congestion);
        (whole, counters.drops.fragment_ecn)
    };
    assert_eq!(with([2, 3]), (Ok(true), 0));
    assert_eq!(with([3, 3]), (Ok(true), 0));
    assert_eq!(with([1, 2]), (Ok(false), 0));
    assert_eq!(with([0, 2]), (Ok(false), 0));
    assert_eq!(with([0, 3]), (Err(Refusal::Ecn), 2));
}

#[test]
fn what_can_never_fit_evicts_nobody() {
    let config = Config { reassembly_source_bytes: 2000, ..Config::default() };
    let mut r = Reassembly::new(config);
    let mut counters = Counters::default();
    r.add(Time(0), &fragment(key(1, 1), 8, true, &[0; 8]), &mut counters).unwrap();
    let refused = r.add(Time(0), &fragment(key(1, 2), 0, true, &[0; 4000]), &mut counters);
    assert_eq!((refused, r.holds().datagrams), (Err(Refusal::NoRoom), 1));
    assert_eq!(counters.drops.fragment_evicted, 1);
    check(&r);
}

// What fits to the byte fits, and one byte less does not: the two limits of bytes, each by itself.
#[test]
fn the_limits_of_bytes_are_exact() {
    let one = 8 + FRAGMENT_COST + DATAGRAM_COST;
    // Source, identification.
    let after = |config: &Config, keys: &[(u32, u32)]| {
        let mut r = Reassembly::new(config.clone());
        let mut counters = Counters::default();
        for &(source, id) in keys {
            let _ = r.add(Time(0), &fragment(key(source << 8, id), 8, true, &[0; 8]), &mut counters);
            check(&r);
        }
        (r.holds(), counters.drops.fragment_evicted)
    };
    let held = |datagrams| Reassembling { datagrams, bytes: datagrams * one };
    let all = |bytes| Config { reassembly_bytes: bytes, ..Config::default() };
    assert_eq!(after(&all(3 * one), &[(1, 1), (2, 2), (3, 3)]), (held(3), 0));
    assert_eq!(after(&all(3 * one - 1), &[(1, 1), (2, 2), (3, 3)]), (held(2), 1));
    assert_eq!(after(&all(one), &[(1, 1), (2, 2)]), (held(1), 1));
    assert_eq!(after(&all(one - 1), &[(1, 1)]), (held(0), 1));
    let source = |bytes| Config { reassembly_source_bytes: bytes, ..Config::default() };
    assert_eq!(after(&source(2 * one), &[(1, 1), (1, 2), (2, 3), (2, 4)]), (held(4), 0));
    assert_eq!(after(&source(2 * one - 1), &[(1, 1), (1, 2), (2, 3)]), (held(2), 1));
    assert_eq!(after(&source(one), &[(1, 1), (1, 2), (2, 3)]), (held(2), 1));
    assert_eq!(after(&source(one - 1), &[(1, 1)]), (held(0), 1));
}

#[test]
fn the_limits_of_numbers_are_exact() {
    let after = |config: Config, keys: &[(u32, u32)]| {
        let mut r = Reassembly::new(config);
        for &(source, id) in keys {
            r.add(Time(0), &fragment(key(source << 8, id), 8, true, &[0; 8]), &mut Counters::default()).unwrap();
        }
        r.datagrams.keys().map(|key| key.identification).collect::<Vec<_>>()
    };
    let all = Config { reassembly_datagrams: 3, ..Config::default() };
    assert_eq!(after(all.clone(), &[(1, 1), (2, 2), (1, 3)]).len(), 3);
    assert_eq!(after(all, &[(1, 1), (2, 2), (1, 3), (3, 4)]), [3, 2, 4]);
    let source = Config { reassembly_source_datagrams: 2, ..Config::default() };
    assert_eq!(after(source, &[(1, 1), (2, 2), (1, 3), (1, 4)]), [3, 4, 2]);
}

#[test]
fn a_source_is_a_prefix_of_24_or_64_bits() {
    let held = |sources: [&str; 3]| {
        let mut r = Reassembly::new(Config { reassembly_source_datagrams: 2, ..Config::default() });
        for (id, source) in sources.into_iter().enumerate() {
            let key = Key { source: source.parse().unwrap(), ..key(0, id as u32) };
            r.add(Time(0), &fragment(key, 8, true, &[0; 8]), &mut Counters::default()).unwrap();
        }
        r.holds().datagrams
    };
    assert_eq!(held(["10.0.0.1", "10.0.0.255", "10.0.0.7"]), 2);
    assert_eq!(held(["10.0.0.1", "10.0.0.255", "10.0.1.1"]), 3);
    assert_eq!(held(["2001:db8::1", "2001:db8:0:0:8000::", "2001:db8::7"]), 2);
    assert_eq!(held(["2001:db8::1", "2001:db8:0:0:8000::", "2001:db8:0:1::"]), 3);
}
