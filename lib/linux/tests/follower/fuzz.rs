// SPDX-License-Identifier: MIT
//! Whatever the kernel does, loses or keeps to itself, routes, interfaces and neighbors converge.

use crate::kernel::*;
use crate::world::*;
use perigee_linux::Report;
use perigee_netlink::message::Neighbor;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

#[test]
fn whatever_the_kernel_does_the_router_becomes_the_same() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random);
    let rounds = std::env::var("PERIGEE_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(1) * 100;
    println!("PERIGEE_FUZZ_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new();
    let (mut permanent, mut proxies) = (BTreeMap::new(), BTreeMap::new());
    for round in 0..rounds {
        // Routes by objects are reported in another way then; what is there is not repeated.
        world.kernel.compatible = random.random_bool(0.5);
        // A few events cause few dumps, and none that puts right what another should have.
        let most = [4, 60][random.random_range(0..2)];
        for _ in 0..random.random_range(1..most) {
            let reports = step(&mut world.kernel, &mut random);
            if random.random_range(0..100) > 0 {
                reports.into_iter().for_each(|message| world.kernel.say(message));
            } else {
                // Notifications were lost: the feed reports it, and a dump follows.
                world.kernel.reports.push_back(Report::Lost);
                world.kernel.dump();
            }
            if random.random_range(0..200) == 0 {
                // Incomplete: what it lacks is not gone.
                world.kernel.broken_dump(Vec::new());
            }
            if random.random_range(0..20) == 0 {
                world.settle();
            }
        }
        world.settle();
        let routes = world.routes().into_iter().map(|(key, (_, target))| (key, target)).collect::<BTreeMap<_, _>>();
        assert_eq!(routes, expected(&world.kernel), "round {round}");
        same_interfaces(&world);
        same_multicast(&world);
        let effects = world.taken();
        follow_proxies(&mut proxies, &effects);
        assert_eq!(proxies, expected_proxies(&world.kernel), "round {round}");
        follow(&mut permanent, effects);
        assert_eq!(permanent, set_by_operators(&world.kernel), "round {round}");
        let groups = |n: &&Neighbor| n.mac.is_some_and(|mac| mac.is_multicast());
        let groups = world.kernel.neighbors.iter().filter(groups).count();
        assert_eq!(world.status().group_neighbors, groups as u64, "round {round}");
        let report = world.audit(false);
        assert_eq!(report.total, 0, "round {round}: {:?}", report.differences);
        assert_eq!(report.linux_routes, routes.len() as u64);
    }
}

/// Reports that come twice, late or out of order are no reason to panic, and a dump corrects their effects.
#[test]
fn nonsense_is_survived_and_put_right_by_a_dump() {
    let seed = std::env::var("PERIGEE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random);
    println!("PERIGEE_FUZZ_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new();
    let mut heard: Vec<Report> = Vec::new();
    for _ in 0..3000 {
        let before = world.kernel.clone();
        let reports = step(&mut world.kernel, &mut random);
        heard.extend(reports.into_iter().map(|message| Report::Message { dumped: random.random_bool(0.2), message }));
        heard.extend([Report::DumpBegins, Report::DumpEnds { complete: random.random_bool(0.5) }]);
        if random.random_bool(0.5) {
            world.kernel = Kernel { reports: world.kernel.reports, dumps: world.kernel.dumps, ..before };
        }
        let at = random.random_range(0..heard.len());
        let report = heard.swap_remove(at);
        world.input(perigee_linux::Input::Reported(perigee_linux::FeedId::Kernel, report));
    }
    // Two, as IPv6's routes are gone when two dumps in a row do not name them.
    world.kernel.reports.clear();
    (0..2).for_each(|_| world.kernel.dump());
    world.settle();
    let routes = world.routes().into_iter().map(|(key, (_, target))| (key, target)).collect::<BTreeMap<_, _>>();
    assert_eq!(routes, expected(&world.kernel));
    same_interfaces(&world);
    same_multicast(&world);
}
