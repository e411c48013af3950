// SPDX-License-Identifier: MIT
//! Drops packets that the configured filters deny: the first rule that matches a packet's 5-tuple decides. Then gives the
//! slow path what the configuration steers there, on ports whose devices cannot do it, and what Linux may treat otherwise than the plain
//! route does ([`Exceptions`](crate::exceptions::Exceptions)).
//!
//! [`flags::FILTERED`] marks a packet that passed. No packet without that flag leaves a worker: [`Context::punt`] and `distribute` judge it
//! first (`judge`), for every reason and every script. So filters hold for packets that `classify` and the checks of headers punt before
//! the script calls this module, and for scripts that never call it. Such a packet is judged by the header that it has when it leaves.
//!
//! The rules are in the tables, behind a trait (`rules.rs`): a running router's are `rte_acl`'s, the tests compare with a
//! plain list. A later fragment has the ports of its datagram's first, if that came before it ([`Fragments`]). A packet that does not show its
//! ports or its protocol is judged by the strictest rule that could match it. Without rules the module costs one branch, and each punt one.
//!
//! Which rule decided is counted in the worker's row of the tables' [`Hits`](crate::hits::Hits), once for a burst of one
//! verdict.
//!
//! Cost: one read of the ports per packet, of IPv6 also of the header, and one batch lookup. A packet without a rule that matches goes on.

use crate::context::Context;
use crate::counters::Counter;
use crate::fragments::Fragments;
use crate::hits::ask;
use crate::reason::reasons;
use crate::registry::ModuleId;
use crate::rules::Filter;
use perigee_net::{Key, Verdict};
use perigee_packet::batch::flags;
use perigee_packet::wire::tuple;
use perigee_packet::{Batch, Mask};

/// What it does, for the documentation.
pub const SUMMARY: &str = "Drops what the configured 5-tuple filters deny; gives the slow path what is steered there.";

reasons! { filter:
    drop DENIED4 = "ipv4_denied", "", "a filter of the configuration denies it";
    drop DENIED6 = "ipv6_denied", "", "a filter of the configuration denies it";
    punt STEERED4 = "ipv4_steered", "", "the configuration steers it to the slow path";
    punt STEERED6 = "ipv6_steered", "", "the configuration steers it to the slow path";
    punt EXCEPTION4 = "ipv4_exception", "", "Linux treats some packets to its destination otherwise than others";
    punt EXCEPTION6 = "ipv6_exception", "", "Linux treats some packets to its destination otherwise than others";
}

/// The module.
pub fn filter(ctx: &mut Context, batch: &mut Batch, ip4: &mut Mask, ip6: &mut Mask) {
    if !ctx.tables.sorted {
        return;
    }
    let exceptions = ctx.tables.exceptions.as_deref().map(|exceptions| exceptions as &dyn Filter);
    let lists = [ctx.tables.filter.as_deref(), ctx.tables.steer.as_deref(), exceptions];
    ctx.counters.module(ModuleId::filter, ip4.count() + ip6.count());
    let row = ctx.tables.hits.row(ctx.worker);
    let mut matching = Matching { lists, row, fragments: &mut ctx.fragments, now: ctx.now };
    let [denied4, steered4, exceptions4] = matching.find(&FOUR, batch, *ip4);
    let [denied6, steered6, exceptions6] = matching.find(&SIX, batch, *ip6);
    ctx.drop(batch, denied4, DENIED4);
    ctx.drop(batch, denied6, DENIED6);
    (*ip4, *ip6) = (*ip4 - denied4, *ip6 - denied6);
    batch.set_flag(*ip4 | *ip6, flags::FILTERED);
    ctx.punt(batch, steered4, STEERED4);
    ctx.punt(batch, steered6, STEERED6);
    ctx.punt(batch, exceptions4, EXCEPTION4);
    ctx.punt(batch, exceptions6, EXCEPTION6);
    (*ip4, *ip6) = (*ip4 - steered4 - exceptions4, *ip6 - steered6 - exceptions6);
}

/// Judges the packets that have no verdict yet and drops the denied ones. Returns the others. A frame that is not IP, such as ARP, passes.
pub(crate) fn judge(ctx: &mut Context, batch: &mut Batch, mask: Mask) -> Mask {
    let fresh = (mask & batch.live()) - batch.flagged(flags::FILTERED);
    if fresh.is_empty() || ctx.tables.filter.is_none() {
        return mask;
    }
    let lists = [ctx.tables.filter.as_deref(), None, None];
    let [mut ip4, mut ip6] = [Mask::EMPTY; 2];
    for slot in fresh {
        // The frame alone says where the IP header is: a script may leave `classify` out, and its copies are not classified.
        let Some((at, is_6)) = batch.frame(slot).and_then(tuple::network) else { continue };
        if let Some(mut packet) = batch.slot(slot) {
            packet.set_l3(at as u8);
        }
        if is_6 { ip6.set(slot) } else { ip4.set(slot) }
    }
    let row = ctx.tables.hits.row(ctx.worker);
    let mut matching = Matching { lists, row, fragments: &mut ctx.fragments, now: ctx.now };
    let [denied4, ..] = matching.find(&FOUR, batch, ip4);
    let [denied6, ..] = matching.find(&SIX, batch, ip6);
    ctx.drop(batch, denied4, DENIED4);
    ctx.drop(batch, denied6, DENIED6);
    let passed = mask - denied4 - denied6;
    batch.set_flag(passed, flags::FILTERED);
    passed
}

/// Whether a list denies a frame that no worker has seen, tagged or not; `fragments` are those of frames from there, `now` is in ns.
/// The rule that decides is counted in the row of the thread that asks ([`Hits`](crate::hits::Hits)).
pub fn denies(list: Option<&dyn Filter>, row: &[Counter], fragments: &mut Fragments, frame: &[u8], now: u64) -> bool {
    let (Some(list), Some((at, is_6))) = (list, tuple::network(frame)) else { return false };
    let packet = &frame[at..];
    fn completed<const N: usize>(mut key: Key<N>, fragments: &mut Fragments, packet: &[u8], now: u64) -> [Key<N>; 1] {
        if key.fragment {
            fragments.complete(&mut key, packet, now);
        }
        [key]
    }
    let denied = match is_6 {
        false => tuple::key4(packet).map(|key| FOUR.ask(list, &completed(key, fragments, packet, now), row)),
        true => tuple::key6(packet).map(|key| SIX.ask(list, &completed(key, fragments, packet, now), row)),
    };
    denied.is_some_and(|denied| !denied.is_empty())
}

/// What differs between IPv4 and IPv6.
struct Family<const N: usize> {
    keys: fn(&mut Batch, Mask) -> &mut [Key<N>],
    made: fn(&mut Batch, usize) -> &mut [Key<N>],
    judge: fn(&dyn Filter, &[Key<N>], &mut [Verdict]),
}

const FOUR: Family<4> =
    Family { keys: Batch::keys4, made: Batch::made4, judge: |list, keys, to| list.judge4(keys, to) };
const SIX: Family<16> =
    Family { keys: Batch::keys6, made: Batch::made6, judge: |list, keys, to| list.judge6(keys, to) };

impl<const N: usize> Family<N> {
    /// Which of the keys a list denies, by number; the rules that decide are counted in the row.
    fn ask(&self, list: &dyn Filter, keys: &[Key<N>], row: &[Counter]) -> Mask {
        ask(keys, row, |keys, to| (self.judge)(list, keys, to))
    }
}

/// Three lists, and what they are asked with.
struct Matching<'a> {
    lists: [Option<&'a dyn Filter>; 3],
    /// Where hits of the first list's rules are counted.
    row: &'a [Counter],
    fragments: &'a mut Fragments,
    /// In ns.
    now: u64,
}

impl Matching<'_> {
    /// The packets that the first list matches, those that the second matches of the others, and the third of the rest.
    fn find<const N: usize>(&mut self, family: &Family<N>, batch: &mut Batch, mask: Mask) -> [Mask; 3] {
        let mask = mask & batch.live();
        if mask.is_empty() {
            return [Mask::EMPTY; 3];
        }
        let mut keys = (family.keys)(batch, mask);
        if keys.iter().fold(false, |any, key| any | key.fragment) {
            self.complete(family, batch, mask);
            keys = (family.made)(batch, mask.count());
        }
        let matched = |list: Option<&dyn Filter>, row| {
            list.map_or(Mask::EMPTY, |list| mask.numbered(family.ask(list, keys, row)))
        };
        let [deny, steer, exceptions] = self.lists;
        let [denied, steered, exceptions] = [matched(deny, self.row), matched(steer, &[]), matched(exceptions, &[])];
        [denied, steered - denied, exceptions - denied - steered]
    }

    /// Gives the keys of later fragments the ports of their datagrams, as far as these are known.
    #[cold]
    #[inline(never)]
    fn complete<const N: usize>(&mut self, family: &Family<N>, batch: &mut Batch, mask: Mask) {
        for (i, slot) in mask.iter().enumerate() {
            let mut key = (family.made)(batch, i + 1)[i];
            let packet = batch.frame(slot).and_then(|frame| frame.get(batch.l3(slot)..));
            if let Some(packet) = packet.filter(|_| key.fragment) {
                self.fragments.complete(&mut key, packet, self.now);
                (family.made)(batch, i + 1)[i] = key;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{LinearFilter, Rule};
    use crate::testing::{DESTINATION_PORT, Rig, SOURCE_PORT, SOURCE4, SOURCE6, changed, fuzz, udp4, udp6, v4, v6};
    use perigee_net::{FiveTuple, Key, Missing, PortRange, Prefix};
    use perigee_packet::wire::extension::{Extension, is_extension};
    use perigee_packet::wire::protocol;
    use perigee_packet::{ExtensionHeaders, Ipv6};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::sync::Arc;

    /// All packets of a family.
    fn family(all: &str) -> FiveTuple {
        FiveTuple { src: all.parse().ok(), ..FiveTuple::default() }
    }

    fn all4(deny: bool) -> Rule {
        Rule { deny, ..Rule::deny(family("0.0.0.0/0")) }
    }

    fn all6(deny: bool) -> Rule {
        Rule { deny, ..Rule::deny(family("::/0")) }
    }

    fn ports(first: u16, last: u16) -> Option<PortRange> {
        PortRange::new(first, last).ok()
    }

    /// Which of the frames these rules deny, by the mask; the first nibble of the packet gives its family.
    fn denied(rules: Vec<Rule>, frames: &[Vec<u8>]) -> Vec<bool> {
        let mut rig = Rig::with_filter(Some(Arc::new(LinearFilter(rules))));
        let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
        for frame in frames {
            let slot = rig.receive_classified(frame);
            if frame[14] >> 4 == 6 { ip6.set(slot) } else { ip4.set(slot) }
        }
        let (all4, all6) = (ip4, ip6);
        filter(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!(ip4 | ip6, rig.batch.live());
        let count = |reason| rig.ctx.counters.reason_packets(reason) as usize;
        assert_eq!((count(DENIED4), count(DENIED6)), ((all4 - ip4).count(), (all6 - ip6).count()));
        (0..frames.len()).map(|slot| !rig.batch.live().contains(slot as u8)).collect()
    }

    #[test]
    fn without_rules_everything_goes_on() {
        let mut rig = Rig::new();
        rig.receive_classified(&udp4(1, 8));
        let (mut ip4, mut ip6) = (Mask::only(0), Mask::EMPTY);
        filter(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!((ip4, rig.ctx.counters.module_packets(ModuleId::filter as usize)), (Mask::only(0), 0));
        assert_eq!(denied(vec![], &[udp4(1, 8), udp6(1, 8)]), [false, false]);
    }

    #[test]
    fn each_part_of_the_five_tuple_counts() {
        for (frame, all, source, destination) in [
            (udp4(1, 8), family("0.0.0.0/0"), IpAddr::from(SOURCE4), IpAddr::from(v4(1))),
            (udp6(1, 8), family("::/0"), SOURCE6.into(), v6(1).into()),
        ] {
            let hit = |tuple: FiveTuple| denied(vec![Rule::deny(tuple)], std::slice::from_ref(&frame))[0];
            let host = |address| Some(Prefix::host(address));
            assert!(hit(all) && hit(FiveTuple::default()));
            assert!(!denied(vec![Rule::accept(all)], std::slice::from_ref(&frame))[0]);
            assert!(hit(FiveTuple { src: host(source), dst: host(destination), ..all }));
            assert!(!hit(FiveTuple { src: host(destination), ..all }));
            assert!(!hit(FiveTuple { dst: host(source), ..all }));
            assert!(hit(FiveTuple { proto: Some(protocol::UDP), ..all }));
            assert!(!hit(FiveTuple { proto: Some(protocol::TCP), ..all }));
            for (sport, expected) in [(ports(0, SOURCE_PORT - 1), false), (ports(SOURCE_PORT, SOURCE_PORT), true)] {
                assert_eq!(hit(FiveTuple { sport, ..all }), expected);
            }
            for (dport, expected) in [(ports(DESTINATION_PORT + 1, 65535), false), (ports(0, DESTINATION_PORT), true)] {
                assert_eq!(hit(FiveTuple { dport, ..all }), expected);
            }
        }
    }

    #[test]
    fn prefixes_match_to_the_bit() {
        let hit = |network: IpAddr, length: u8, frame: Vec<u8>| {
            let tuple = FiveTuple { dst: Prefix::truncated(network, length).ok(), ..FiveTuple::default() };
            denied(vec![Rule::deny(tuple)], &[frame])[0]
        };
        for length in 0..=32u8 {
            let beyond =
                |bit: u8| Ipv4Addr::from(u32::from(v4(1)) ^ 1u32.checked_shl(32 - u32::from(bit)).unwrap_or(0));
            let hit = |network: Ipv4Addr| hit(network.into(), length, udp4(1, 8));
            assert!(hit(v4(1)));
            assert!(length == 0 || !hit(beyond(length)), "the last bit of /{length}");
            assert!(length == 32 || hit(beyond(length + 1)), "the first bit behind /{length}");
        }
        for length in 0..=128u8 {
            let beyond =
                |bit: u8| Ipv6Addr::from(u128::from(v6(1)) ^ 1u128.checked_shl(128 - u32::from(bit)).unwrap_or(0));
            let hit = |network: Ipv6Addr| hit(network.into(), length, udp6(1, 8));
            assert!(hit(v6(1)));
            assert!(length == 0 || !hit(beyond(length)), "the last bit of /{length}");
            assert!(length == 128 || hit(beyond(length + 1)), "the first bit behind /{length}");
        }
        assert!(!hit(Ipv6Addr::UNSPECIFIED.into(), 0, udp4(1, 8)), "families do not mix");
        assert!(!hit(Ipv4Addr::UNSPECIFIED.into(), 0, udp6(1, 8)), "families do not mix");
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let to_1 = |deny| Rule { deny, ..rule_to_1() };
        let frames = [udp4(1, 8), udp4(2, 8), udp6(1, 8)];
        assert_eq!(denied(vec![to_1(false), all4(true)], &frames), [false, true, false]);
        assert_eq!(denied(vec![all4(true), to_1(false)], &frames), [true, true, false]);
        assert_eq!(denied(vec![all6(true), to_1(true)], &frames), [true, false, true]);
    }

    #[test]
    fn what_is_steered_goes_to_the_slow_path_unless_it_is_denied() {
        let (deny, steer) = (vec![all6(true)], vec![rule_to_1(), all6(true)]);
        let filters = [deny, steer].map(|rules| Some(Arc::new(LinearFilter(rules)) as Arc<dyn Filter>));
        let [deny, steer] = filters;
        let mut rig = Rig::with_filters(deny, steer.clone());
        let (mut ip4, mut ip6) = (Mask::first(2), Mask::only(2));
        for frame in [udp4(1, 8), udp4(2, 8), udp6(1, 8)] {
            rig.receive_classified(&frame);
        }
        filter(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!((ip4, ip6, rig.batch.live()), (Mask::only(1), Mask::EMPTY, Mask::only(1)));
        assert_eq!(rig.reasons(), [("filter.ipv6_denied".to_owned(), 1), ("filter.ipv4_steered".to_owned(), 1)]);
        let punted = rig.punted.try_recv().unwrap();
        assert_eq!((punted.packet.bytes(), punted.reason), (&udp4(1, 8)[..], STEERED4));
        // It steers without a filter, too.
        let mut rig = Rig::with_filters(None, steer);
        rig.receive_classified(&udp6(1, 8));
        filter(&mut rig.ctx, &mut rig.batch, &mut Mask::default(), &mut Mask::only(0));
        assert_eq!(rig.reasons(), [("filter.ipv6_steered".to_owned(), 1)]);
    }

    /// Both lists ask for the same keys, of packets of both families in turn, some of which are gone.
    #[test]
    fn packets_that_are_denied_or_steered_are_the_ones_meant() {
        let rule = |to: IpAddr| Rule::deny(FiveTuple { dst: Some(Prefix::host(to)), ..FiveTuple::default() });
        let list = |to: [u8; 2]| {
            let rules = to.iter().flat_map(|to| [rule(v4(*to).into()), rule(v6(*to).into())]).collect();
            Some(Arc::new(LinearFilter(rules)) as Arc<dyn Filter>)
        };
        let mut rig = Rig::with_filters(list([1, 2]), list([2, 3]));
        let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
        for to in (0..5).cycle().take(125) {
            ip4.set(rig.receive_classified(&udp4(to, 8)));
            ip6.set(rig.receive_classified(&udp6(to, 8)));
        }
        let gone: Mask = (0..250).step_by(7).collect();
        rig.batch.discard(gone);
        let to = |slot: u8| slot / 2 % 5;
        let fine = (ip4 | ip6).filter(|slot| matches!(to(slot), 0 | 4)) - gone;
        filter(&mut rig.ctx, &mut rig.batch, &mut ip4, &mut ip6);
        assert_eq!(((ip4 | ip6) - gone, rig.batch.live()), (fine, fine));
        let steered: Mask = (0..250).filter(|slot| to(*slot) == 3).collect::<Mask>() - gone;
        let punted: Vec<_> = rig.punted.try_iter().map(|punted| punted.packet.bytes().len()).collect();
        assert_eq!(punted.len(), steered.count());
        assert!(punted.is_sorted(), "IPv4 first");
        assert_eq!(rig.dropped() as usize, (Mask::first(250) - gone - fine - steered).count());
    }

    fn rule_to_1() -> Rule {
        Rule::deny(FiveTuple { dst: Some(Prefix::host(v4(1).into())), ..FiveTuple::default() })
    }

    #[test]
    fn fragments_and_options() {
        let deny = |tuple| vec![Rule::deny(tuple)];
        let dport = Some(PortRange::only(DESTINATION_PORT));
        let first = changed(udp4(1, 8), |frame| frame[20] = 0x20);
        let later = changed(udp4(1, 8), |frame| (frame[19], frame[21]) = (9, 1));
        let rest = changed(udp4(1, 8), |frame| frame[21] = 1);
        let options = changed(udp4(1, 8), |frame| {
            frame[14] = 0x46;
            frame.splice(34..34, [1, 1, 1, 1]);
        });
        let no_ports = changed(udp4(1, 8), |frame| frame[23] = protocol::OSPF);
        let cut = udp4(1, 8)[..37].to_vec();
        let frames = [first, later, options, no_ports, cut, rest];
        // What does not show its ports may have this one, unless its datagram's first fragment shows another. OSPF has none.
        let to_port = FiveTuple { dport, ..family("0.0.0.0/0") };
        assert_eq!(denied(deny(to_port), &frames), [true, true, true, false, true, true]);
        let tcp_alone = FiveTuple { proto: Some(protocol::TCP), ..to_port };
        assert_eq!(denied(deny(tcp_alone), &frames), [false; 6], "their protocol is known");
        let (zero, proto) = (Some(PortRange::only(0)), Some(protocol::UDP));
        let port_0 = FiveTuple { sport: zero, dport: zero, proto, ..family("0.0.0.0/0") };
        assert_eq!(denied(deny(port_0), &frames), [false, true, false, false, true, false]);
        // A rule that accepts this port may not be about it; one that accepts UDP is.
        let accept = |tuple| Rule::accept(tuple);
        let all_udp = FiveTuple { proto, ..family("0.0.0.0/0") };
        let first = |tuple| denied(vec![accept(tuple), all4(true)], &frames);
        assert_eq!(first(to_port), [false, true, false, true, true, false]);
        assert_eq!(first(all_udp), [false, false, false, true, false, false]);
    }

    /// The UDP packet with extension headers in front of it; `extensions` are their kinds and bytes.
    fn extended(extensions: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut frame = udp6(1, 8);
        let mut next = protocol::UDP;
        for (kind, bytes) in extensions.iter().rev() {
            let mut bytes = bytes.clone();
            bytes[0] = std::mem::replace(&mut next, *kind);
            frame.splice(54..54, bytes);
        }
        frame[20] = next;
        frame
    }

    #[test]
    fn ipv6_extension_headers_are_skipped() {
        let deny = |tuple| vec![Rule::deny(tuple)];
        let any_udp = FiveTuple { proto: Some(protocol::UDP), ..family("::/0") };
        let hit = |frame: &[u8]| {
            let tuple = FiveTuple { dport: Some(PortRange::only(DESTINATION_PORT)), ..any_udp };
            denied(deny(tuple), &[frame.to_vec()])[0]
        };
        let options = (protocol::DESTINATION_OPTIONS, vec![0, 0, 1, 4, 0, 0, 0, 0]);
        let long = (protocol::ROUTING, [&[0, 2][..], &[0; 22]].concat());
        let authentication = (protocol::AUTHENTICATION, [&[0, 4][..], &[0; 22]].concat());
        let first = (protocol::FRAGMENT, vec![0, 0, 0, 1, 0, 0, 0, 9]);
        let later = (protocol::FRAGMENT, vec![0, 0, 0, 9, 0, 0, 0, 9]);
        assert!(hit(&extended(&[])));
        assert!(hit(&extended(&[options.clone(), long, authentication, first])));
        assert!(hit(&extended(std::slice::from_ref(&later))), "a later fragment may be of this port");
        let to_tcp = FiveTuple { proto: Some(protocol::TCP), ..any_udp };
        assert_eq!(
            denied(deny(to_tcp), &[extended(std::slice::from_ref(&later))]),
            [false],
            "but not of this protocol"
        );
        assert_eq!(denied(deny(any_udp), &[extended(&[later])]), [true], "but its protocol is known");
        assert!(hit(&extended(&vec![options.clone(); 8])));
        // What cannot be followed may be of any protocol: a chain that is too long, one that is cut off, one that goes on in a later
        // fragment, and an upper layer of less than four bytes, which may be of any port.
        assert!(hit(&extended(&vec![options.clone(); 9])), "the chain is too long to be followed");
        let hidden = extended(&[(protocol::FRAGMENT, vec![0, 0, 0, 9, 0, 0, 0, 9]), options]);
        assert!(hit(&hidden) && denied(deny(to_tcp), &[hidden])[0]);
        let cut = extended(&[(protocol::DESTINATION_OPTIONS, vec![0, 0, 1, 4, 0, 0, 0, 0])]);
        assert!(hit(&cut[..60]) && hit(&cut[..65]));
        let udp_port_0 = FiveTuple { dport: Some(PortRange::only(0)), ..any_udp };
        assert_eq!(denied(deny(udp_port_0), &[cut[..65].to_vec()]), [true]);
    }

    /// Whatever the bytes are, a key is made or is empty, and it is the views' own where these can read the packet.
    #[test]
    fn any_bytes_have_a_key_or_none() {
        let (mut random, count) = fuzz();
        let mut rig = Rig::new();
        let extensions = [0, 43, 44, 51, 60, 6, 17, 58, 59, 132];
        let mut compared = 0;
        for _ in 0..count {
            rig.batch.refill();
            let mut frame: Vec<u8> = (0..random.below(120)).map(|_| random.bits() as u8).collect();
            // Some chains with short lengths reach their end.
            let len = frame.len();
            for at in (54..len.max(54)).step_by(8) {
                frame[at] = extensions[random.below(10) as usize];
                frame[(at + 1).min(len - 1)] &= 1;
            }
            if let Some([version, _, _, _, _, _, next, ..]) = frame.get_mut(14..) {
                (*version, *next) = (0x60 | *version & 15, extensions[random.below(10) as usize]);
            }
            let slot = rig.receive_classified(&frame);
            let key4 = rig.batch.keys4(Mask::only(slot))[0];
            match frame.get(14..34) {
                None => assert_eq!(key4, Key::ZERO),
                Some(header) => assert_eq!((&key4.source[..], &key4.destination[..]), header[12..].split_at(4)),
            }
            let key = rig.batch.keys6(Mask::only(slot))[0];
            let Some(view) = frame.get(14..).and_then(|bytes| Ipv6::new_truncated(bytes).ok()) else {
                assert!(key == Key::ZERO || frame.len() >= 54);
                continue;
            };
            assert_eq!((key.source, key.destination), (view.source().octets(), view.destination().octets()));
            let headers = ExtensionHeaders::new(view.next_header(), view.payload());
            // Of a fragment of a fragment nothing is known.
            let is_fragment = |header: &Extension<'_>| header.kind == protocol::FRAGMENT;
            let fragments = headers.clone().filter_map(Result::ok).filter(is_fragment).count();
            let upper = headers.upper_layer().ok().filter(|upper| !is_extension(upper.protocol) && fragments < 2);
            if let Some(upper) = upper {
                assert_eq!(key.protocol, upper.protocol, "{frame:02x?}");
                compared += 1;
            } else {
                assert_eq!(key.missing, Missing::Protocol, "{frame:02x?}");
            }
        }
        println!("{compared} chains were read to their end");
        assert!(count < 10_000 || compared > count / 50, "only {compared} chains were read to their end");
    }
}
