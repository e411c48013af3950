// SPDX-License-Identifier: MIT
//! What is followed of Linux: a kernel that changes at random, reports that are lost, repeated, late or made of any bytes, dumps that
//! break off, and everything else that may happen to the follower. After two dumps routes, interfaces, neighbors of operators and
//! multicast routes are the kernel's again, and the audit finds no difference.

use super::netlink::check;
use crate::input::Input as Bytes;
use crate::kept::Kept;
use crate::kernel::{expected, expected_proxies, follow, follow_proxies, same_interfaces, same_multicast, set_by_operators, step};
use crate::world::{SECOND, World};
use perigee_linux::{FeedId, Input, Report};
use perigee_net::{InterfaceId, MacAddr, Proxy};
use perigee_netlink::decode::{Tally, decode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The most steps of one input.
const STEPS: usize = 300;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    WORLD.with_borrow_mut(|world| world.with(bytes, <_>::default, |kept| steps(kept, &mut Bytes::new(bytes)), drop));
}

thread_local! {
    static WORLD: RefCell<Kept<Followed>> = const { RefCell::new(Kept::new()) };
}

/// The world, and the neighbors that operators have set in it, as the effects for the slow path add up.
struct Followed {
    world: World,
    permanent: BTreeMap<(InterfaceId, IpAddr), MacAddr>,
    /// For which other stations interfaces answer, likewise.
    proxies: BTreeMap<InterfaceId, Proxy>,
}

impl Default for Followed {
    fn default() -> Followed {
        Followed { world: World::new(), permanent: BTreeMap::new(), proxies: BTreeMap::new() }
    }
}

fn steps(Followed { world, permanent, proxies }: &mut Followed, bytes: &mut Bytes) {
    // What was reported, to be repeated out of order.
    let mut heard = vec![Report::DumpBegins, Report::DumpEnds { complete: true }, Report::DumpEnds { complete: false }];
    for _ in 0..STEPS {
        if bytes.is_empty() {
            break;
        }
        happens(world, bytes, &mut heard);
    }
    converges(world, permanent, proxies);
}

/// One thing that happens.
fn happens(world: &mut World, bytes: &mut Bytes, heard: &mut Vec<Report>) {
    match bytes.byte() {
        0..120 => {
            let messages = step(&mut world.kernel, bytes);
            let lost = bytes.chance(25);
            for message in messages {
                heard.push(Report::Message { dumped: bytes.chance(50), message: message.clone() });
                if !lost {
                    world.kernel.say(message);
                }
            }
        }
        120..150 => {
            let report = bytes.pick(heard).clone();
            world.input(Input::Reported(FeedId::Kernel, report));
        }
        150..180 => {
            let (dumped, mut messages, mut tally) = (bytes.chance(80), Vec::new(), Tally::default());
            decode(bytes.bytes(400), None, &mut messages, &mut tally);
            for message in messages {
                check(&message);
                world.input(Input::Reported(FeedId::Kernel, Report::Message { dumped, message }));
            }
        }
        180..190 => {
            world.kernel.reports.push_back(Report::Lost);
            world.kernel.dump();
        }
        190..195 => world.kernel.broken_dump(Vec::new()),
        195..220 => world.settle(),
        220..230 => world.pass([SECOND / 10, SECOND, 10 * SECOND][bytes.below(3)]),
        230..235 => world.input(Input::PortLink { port: bytes.below(2), up: bytes.chance(128) }),
        235..245 => {
            let interface = InterfaceId(bytes.below(3) as u16);
            let address = IpAddr::from([10, 0, 1 + bytes.below(2) as u8, bytes.byte()]);
            let mac = bytes.chance(200).then(|| MacAddr([2, 0, 0, 0, 0, bytes.byte()]));
            world.input(Input::Neighbor { interface, address, mac });
        }
        _ => {
            world.follower.begin_audit(world.now, bytes.chance(128));
            world.input(Input::PortLink { port: 0, up: true });
        }
    }
}

/// Whatever has happened, two dumps put it right: IPv6's routes are gone when two in a row do not name them.
fn converges(
    world: &mut World,
    permanent: &mut BTreeMap<(InterfaceId, IpAddr), MacAddr>,
    proxies: &mut BTreeMap<InterfaceId, Proxy>,
) {
    world.settle();
    world.kernel.reports.clear();
    for port in 0..2 {
        world.input(Input::PortLink { port, up: true });
    }
    for _ in 0..2 {
        world.kernel.reports.push_back(Report::Lost);
        world.kernel.dump();
        world.settle();
        world.pass(2 * SECOND);
    }
    let routes: BTreeMap<_, _> = world.routes().into_iter().map(|(key, (_, target))| (key, target)).collect();
    assert_eq!(routes, expected(&world.kernel));
    same_interfaces(world);
    same_multicast(world);
    // The neighbors that operators have set.
    let effects = world.taken();
    follow_proxies(proxies, &effects);
    assert_eq!(*proxies, expected_proxies(&world.kernel));
    follow(permanent, effects);
    assert_eq!(*permanent, set_by_operators(&world.kernel));
    world.audits.clear();
    world.asked.clear();
    let report = world.audit(false);
    assert_eq!(report.total, 0, "{:?}", report.differences);
}
