// SPDX-License-Identifier: MIT
//! What a router leaves behind at its end, and what becomes of it: twins, and interfaces that cannot be as they were.

use super::{
    LinkChange, LinkPreparation, MacAddr, Namespace, TwinWanted, children, eventually, exists, ip, setting, start, twin,
};
use std::process::Command;

/// A worker that was taken over had made the twins outlive the router, which this descriptor stands for: they kept its
/// addresses, and the next start failed.
pub fn a_twin_that_outlives_its_router_is_removed() {
    let helper = start();
    let (fd, _) = helper.make_twin(&twin("wan")).unwrap();
    let blue = TwinWanted { namespace: Some(Namespace::Name("blue".into())), ..twin("wan") };
    let (_other, _) = helper.make_twin(&blue).unwrap();
    helper.stand_by().unwrap();
    helper.started().unwrap();
    // By whichever of them restores.
    let first = children(std::process::id()).pop().expect("a process");
    assert!(Command::new("kill").args(["-9", &first.to_string()]).status().unwrap().success());
    eventually("the standby takes over", || helper.look().is_some_and(|health| health.alive && health.deaths == 1));
    drop(helper);
    eventually("the twins' end", || !exists("wan") && !ip("-n blue link show").contains("wan:"));
    assert!(fd.read(&mut [0; 64]).is_err());
}

/// The helper knew them by their numbers and kinds, and VLANs that a reload had deleted as well.
pub fn an_interface_that_got_the_number_of_a_twin_or_vlan_stays() {
    let helper = start();
    let (fd, status) = helper.make_twin(&twin("wan")).unwrap();
    helper.stand_by().unwrap();
    // One of the number, and no twin: the test has no other way to give a number to a TAP.
    ip("link set wan alias other");
    // Not every kernel has VLAN interfaces.
    let has_vlans = Command::new("ip").args("link add link wan name x type vlan id 9".split(' ')).output().unwrap();
    if has_vlans.status.success() {
        ip("link del x");
        ip("link add left type veth peer name right");
        let number = |name: &str| ip(&format!("-o link show dev {name}")).split(':').next().unwrap().to_owned();
        helper.make_vlan("wan", 7, &TwinWanted { addresses: Vec::new(), ..twin("wan.7") }).unwrap();
        helper.make_vlan("wan", 8, &TwinWanted { addresses: Vec::new(), ..twin("wan.8") }).unwrap();
        let numbers = [number("wan.7"), number("wan.8")];
        // Deleted for a reload, and by somebody else.
        helper.change_link(&LinkChange { name: "wan.7".into(), delete: true, ..LinkChange::default() }).unwrap();
        ip("link del wan.8");
        ip(&format!("link add link left name wan.7 index {} type vlan id 7", numbers[0]));
        ip(&format!("link add link left name mine index {} type vlan id 8", numbers[1]));
    }
    drop(helper);
    assert!(exists("wan"), "the interface {}", status.index);
    if has_vlans.status.success() {
        assert!(exists("wan.7") && exists("mine"));
        ip("link del left");
    }
    drop(fd);
    eventually("the twin's end", || !exists("wan"));
}

pub fn a_twin_that_was_left_behind_is_made_again_and_anothers_interface_is_not() {
    let helper = start();
    let refused = |name: &str| helper.make_twin(&twin(name)).unwrap_err().to_string();
    ip("tuntap add dev wan mode tap");
    let expected = "cannot create the twin `wan`: an interface of that name is there already; rename it or the port";
    assert_eq!(refused("wan"), expected);
    ip("link set wan alias perigee");
    assert_eq!(refused("wan"), expected);
    // Left behind by a router.
    Command::new("ip").args(["link", "set", "wan", "alias", "perigee twin"]).status().unwrap();
    ip("addr add 10.9.9.9/24 dev wan");
    let (fd, _) = helper.make_twin(&twin("wan")).unwrap();
    assert!(!ip("addr show dev wan").contains("10.9.9.9"));
    // Held by one that lives.
    let held = "cannot create the twin `wan`: another router has a twin of that name; end that one, or rename the port";
    assert_eq!(refused("wan"), held);
    assert!(fd.read(&mut [0; 64]).is_ok());
}

/// The prepared one was renamed, and another one called as it had been: that one got its MAC address, MTU and state,
/// and the renamed one stayed as it had been prepared.
pub fn an_interface_that_got_the_name_of_a_prepared_one_is_left_alone() {
    for prepared_too in [false, true] {
        ip("link add left type veth peer name right");
        let link = |name: &str| ip(&format!("-o -d link show dev {name}")).replace("qdisc noop ", "qdisc noqueue ");
        let before = link("left");
        let helper = start();
        let other_mac = Some(MacAddr([2, 9, 9, 9, 9, 9]));
        let wanted = LinkPreparation { name: "left".into(), other_mac, mtu: Some(1600), leaves_program: false };
        helper.prepare_link(&wanted).unwrap();
        helper.stand_by().unwrap();
        ip("link set left down");
        ip("link set left name renamed");
        ip("link add left mtu 1300 type veth peer name wrong");
        ip("link set left up");
        ip("link set wrong up");
        let (other, arp) = (link("left"), setting("ipv4", "left", "arp_ignore"));
        if prepared_too {
            // The port's interface was made again, as far as the router can see.
            helper.prepare_link(&wanted).unwrap();
        }
        drop(helper);
        assert_eq!(link("left"), other);
        assert_eq!(setting("ipv4", "left", "arp_ignore"), arp);
        ip("link del left");
        assert_eq!(setting("ipv4", "renamed", "arp_ignore"), "0");
        ip("link set renamed name left");
        assert_eq!(link("left"), before);
        ip("link del left");
    }
}

/// A router that was taken over asked for the MAC address and the MTU later than for the rest, and they stayed.
pub fn what_a_later_request_changes_is_restored_too() {
    ip("link add left type veth peer name right");
    let link = || ip("-o -d link show dev left").replace("qdisc noop ", "qdisc noqueue ");
    let before = link();
    for standby in [false, true] {
        let helper = start();
        let first = LinkPreparation { name: "left".into(), other_mac: None, mtu: None, leaves_program: false };
        helper.prepare_link(&first).unwrap();
        if standby {
            helper.stand_by().unwrap();
        }
        helper.started().unwrap();
        for mtu in [Some(68), Some(70), None] {
            let other_mac = Some(MacAddr([2, 1, 2, 3, 4, 5]));
            helper
                .prepare_link(&LinkPreparation { name: "left".into(), other_mac, mtu, leaves_program: false })
                .unwrap();
        }
        let shown = ip("link show dev left");
        assert!(shown.contains("02:01:02:03:04:05") && shown.contains("mtu 70 "), "{shown}");
        if standby {
            let first = children(std::process::id()).pop().expect("a process");
            assert!(Command::new("kill").args(["-9", &first.to_string()]).status().unwrap().success());
            eventually("the standby takes over", || {
                helper.look().is_some_and(|health| health.alive && health.deaths == 1)
            });
        }
        drop(helper);
        eventually("the interface to be restored", || link() == before);
    }
    ip("link del left");
}

/// It was refused, with another MAC address, an MTU of 1500 bytes, and up.
pub fn the_loopback_is_refused_and_stays_as_it_was() {
    let link = || ip("-o -d link show dev lo");
    ip("link set lo down");
    let (before, helper) = (link(), start());
    let why = "it is Linux's loopback, which leads to no wire; name an Ethernet interface";
    assert_eq!(
        helper.link_macs(&["lo".into()]).unwrap_err().to_string(),
        format!("cannot use the interface `lo`: {why}")
    );
    let wanted = LinkPreparation {
        name: "lo".into(),
        other_mac: Some(MacAddr([2, 1, 2, 3, 4, 5])),
        mtu: Some(1500),
        leaves_program: false,
    };
    let refused = helper.prepare_link(&wanted).unwrap_err().to_string();
    assert_eq!(refused, format!("cannot prepare the interface `lo`: {why}"));
    drop(helper);
    assert_eq!(link(), before);
    ip("link set lo up");
}

/// The MTU could not be restored, and so the interface stayed up.
pub fn one_refusal_leaves_nothing_else_unrestored() {
    ip("link add left type veth peer name right");
    let above = Command::new("ip").args("link add link left name above type macvlan".split(' ')).output().unwrap();
    // Not every kernel has them.
    if above.status.success() {
        let link = || ip("-o link show dev above").replace("qdisc noop ", "qdisc noqueue ");
        let before = link();
        let helper = start();
        let other_mac = Some(MacAddr([2, 9, 9, 9, 9, 9]));
        helper
            .prepare_link(&LinkPreparation { name: "above".into(), other_mac, mtu: Some(1300), leaves_program: false })
            .unwrap();
        // No MACVLAN has a larger MTU than the interface that it is on.
        ip("link set left mtu 1400");
        drop(helper);
        assert_eq!(link(), before.replace("mtu 1500", "mtu 1300"));
        assert_eq!(setting("ipv4", "above", "arp_ignore"), "0");
    }
    ip("link del left");
}
