// SPDX-License-Identifier: MIT
//! Requests for many twins and interfaces: answered one by one, refused by place, and carried on by the standby.

use super::silent::kill;
use super::{LinkPreparation, children, exists, ip, setting, start, twin};
use perigee_helper::{AT_ONCE, TwinWanted};
use perigee_net::{MacAddr, Namespace};

/// More than one request takes.
const COUNT: usize = 2 * AT_ONCE + 7;

fn make(count: usize) {
    (0..count).for_each(|n| drop(ip(&format!("link add left{n} mtu 1400 type veth peer name right{n}"))));
}

fn delete(count: usize) {
    (0..count).for_each(|n| drop(ip(&format!("link del left{n}"))));
}

fn preparation(n: usize) -> LinkPreparation {
    let other_mac = Some(MacAddr([2, 0, 0, 0, 1, n as u8]));
    LinkPreparation { name: format!("left{n}"), other_mac, mtu: Some(1450), leaves_program: false }
}

fn is_prepared(n: usize) -> bool {
    let shown = ip(&format!("link show dev left{n}"));
    let prepared =
        [shown.contains("mtu 1450"), shown.contains(&format!("02:00:00:00:01:{n:02x}")), shown.contains("UP")];
    let silent = setting("ipv6", &format!("left{n}"), "disable_ipv6") == "1";
    assert!(prepared == [silent; 3], "{shown}");
    silent
}

pub(super) fn many_interfaces_are_prepared_and_restored() {
    make(COUNT);
    let helper = start();
    helper.stand_by().unwrap();
    let names: Vec<String> = (0..COUNT).map(|n| format!("left{n}")).collect();
    let macs = helper.link_macs(&names).unwrap();
    for (n, mac) in macs.iter().enumerate() {
        assert!(ip(&format!("link show dev left{n}")).contains(&mac.to_string()), "left{n}");
    }
    helper.prepare_links(&(0..COUNT).map(preparation).collect::<Vec<_>>()).unwrap();
    assert!((0..COUNT).all(is_prepared));
    drop(helper);
    assert!(!(0..COUNT).any(is_prepared));
    delete(COUNT);
}

pub(super) fn one_of_many_is_refused_by_its_place_and_those_with_it_are_left_alone() {
    make(COUNT);
    let helper = start();
    helper.stand_by().unwrap();
    let place = AT_ONCE + 3;
    let mut wanted: Vec<_> = (0..COUNT).map(preparation).collect();
    wanted[place].name = "eth9".into();
    let refused = helper.prepare_links(&wanted).unwrap_err();
    let sentence = "cannot prepare the interface `eth9`: there is no interface `eth9`; `ip link` lists those there are";
    assert_eq!((refused.at, refused.error.to_string().as_str()), (place, sentence));
    assert!((0..COUNT).all(|n| is_prepared(n) == (n < AT_ONCE)), "those of the request before it are prepared");

    // One that the kernel refuses, when those before it are done.
    let mut wanted: Vec<_> = (0..COUNT).map(preparation).collect();
    wanted[place].other_mac = Some(MacAddr([1, 0, 0, 0, 0, 0]));
    let refused = helper.prepare_links(&wanted).unwrap_err();
    assert_eq!(refused.at, place);
    assert!((0..COUNT).all(|n| is_prepared(n) == (n < place)));
    // What was not tried is not restored: it is somebody else's business.
    ip(&format!("link set left{} up", COUNT - 1));

    let mut wanted: Vec<_> = (0..COUNT).map(|n| TwinWanted { addresses: vec![], ..twin(&format!("wan{n}")) }).collect();
    wanted[place].name = "lo".into();
    let refused = helper.make_twins(&wanted).unwrap_err();
    let sentence = "cannot create the twin `lo`: an interface of that name is there already; rename it or the port";
    assert_eq!((refused.at, refused.error.to_string().as_str()), (place, sentence));
    assert!((0..COUNT).all(|n| !exists(&format!("wan{n}"))), "their descriptors are closed");

    let error = helper.link_macs(&["left0".into(), "lo".into()]).unwrap_err();
    assert_eq!(error.at, 1);
    drop(helper);
    assert!(ip(&format!("link show dev left{}", COUNT - 1)).contains("UP"));
    assert!(!(0..COUNT - 1).any(is_prepared));
    delete(COUNT);
}

/// The helper dies somewhere among many. What it has not answered the standby does, and restores all of it.
pub(super) fn a_standby_carries_on_among_many() {
    make(COUNT);
    for dies_after in [0, 1, AT_ONCE - 1, AT_ONCE, COUNT - 1] {
        let helper = start();
        helper.stand_by().unwrap();
        let first = children(std::process::id()).pop().expect("a process");
        let wanted: Vec<_> = (0..COUNT).map(preparation).collect();
        let twins: Vec<_> = (0..COUNT).map(|n| twin(&format!("wan{n}"))).collect();
        let made = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !exists(&format!("wan{dies_after}")) {
                    std::thread::yield_now();
                }
                kill("-KILL", first);
            });
            helper.prepare_links(&wanted).unwrap();
            helper.make_twins(&twins).unwrap()
        });
        assert!((0..COUNT).all(is_prepared));
        for (n, (_, status)) in made.iter().enumerate() {
            assert_eq!(status.name, format!("wan{n}"));
            assert!(ip(&format!("link show dev wan{n}")).contains("UP"));
        }
        drop((made, helper));
        assert!(!(0..COUNT).any(is_prepared), "it died when wan{dies_after} was there");
    }
    delete(COUNT);
}

/// The same, while interfaces are prepared.
pub(super) fn what_was_prepared_by_a_dead_helper_is_restored_by_its_standby() {
    make(COUNT);
    for dies_after in [0, AT_ONCE / 2, COUNT - 1] {
        let helper = start();
        helper.stand_by().unwrap();
        let first = children(std::process::id()).pop().expect("a process");
        let wanted: Vec<_> = (0..COUNT).map(preparation).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let name = format!("left{dies_after}");
                while setting("ipv6", &name, "disable_ipv6") == "0" {
                    std::thread::yield_now();
                }
                kill("-KILL", first);
            });
            helper.prepare_links(&wanted).unwrap();
        });
        assert!((0..COUNT).all(is_prepared));
        drop(helper);
        assert!(!(0..COUNT).any(is_prepared), "it died when left{dies_after} was changed");
    }
    delete(COUNT);
}

/// A router that ends keeps its twins until the helper has removed them, by one message.
pub(super) fn many_twins_are_removed_together_and_nothing_else() {
    make(2);
    ip("link set left1 group 7");
    ip("tuntap add dev other mode tap");
    ip("netns add crowd");
    for namespace in [None, Some(Namespace::Name("crowd".into()))] {
        let helper = start();
        let wanted = (0..COUNT).map(|n| TwinWanted { namespace: namespace.clone(), ..twin(&format!("wan{n}")) });
        let made = helper.make_twins(&wanted.collect::<Vec<_>>()).unwrap();
        let below = if namespace.is_some() { "-n crowd " } else { "" };
        let there = || ip(&format!("{below}-o link show")).matches("wan").count();
        assert_eq!(there(), COUNT);
        drop(helper);
        assert_eq!(there(), 0);
        assert!(made.iter().all(|(twin, _)| twin.read(&mut [0; 64]).is_err()), "they are held here");
    }
    ["left0", "left1", "right0", "other"].iter().for_each(|name| assert!(exists(name), "{name}"));
    ip("netns del crowd");
    ip("link del other");
    delete(2);
}
