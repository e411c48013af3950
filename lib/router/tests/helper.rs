// SPDX-License-Identifier: MIT
//! What a router asks its helper for, and what it does when that refuses it, or dies.

mod common;

use common::helper::{Asked, Pretended};
use common::kernel::{Kernel, link};
use common::log::warnings;
use common::*;
use perigee_api::answers::HelperState;
use perigee_api::queries::{Reload, ShowLinux};
use perigee_helper::{Helper, LinkChange, NeighborChange};
use perigee_net::{InterfaceAddress, MacAddr};
use perigee_netlink::message::{Link, Vlan};
use perigee_packet::wire::ethernet;
use perigee_router::{LinuxFeeds, LinuxParts};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

struct Router {
    bed: Bed,
    kernel: Kernel,
    linux: Pretended,
    helper: Arc<Helper>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

/// Two ports with twins.
fn twins() -> String {
    TWO_PORTS.replace("twin = false\n", "")
}

impl Router {
    /// A router that has a helper and knows what Linux has.
    fn start(text: &str) -> Router {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.toml");
        let (kernel, linux) = (Kernel::new(), Pretended::default());
        let helper = linux.helper();
        let feeds = LinuxFeeds { netlink: Some(Box::new(kernel.clone())), ..LinuxFeeds::default() };
        let bed = Bed::with_helper(text, &path, ONE_EACH, LinuxParts { feeds, helper: Some(helper.clone()) });
        let mut router = Router { bed, kernel, linux, helper, path, _folder: folder };
        router.bed.settle();
        router
    }

    /// Lets the router work, and time pass, until something holds that its helper has to do with.
    fn eventually(&mut self, what: &str, mut holds: impl FnMut(&mut Router) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < Duration::from_secs(180), "waited in vain: {what}");
            self.bed.now.fetch_add(100_000_000, Ordering::Relaxed);
            // A worker that does not poll is one to warn of.
            self.bed.work_without_owner();
            self.bed.slow.round();
            std::thread::yield_now();
        }
    }

    /// Waits until the helper was asked for something of which `is` knows; returns what was asked for until then.
    fn asked_for(&mut self, what: &str, is: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let mut asked = Vec::new();
        self.eventually(what, |router| {
            asked.extend(router.linux.take_asked());
            asked.iter().any(&is)
        });
        asked
    }

    /// Waits until one stands by, of so many that have been started.
    fn stands_by(&mut self, started: usize) {
        self.eventually("a standby", |router| {
            let stands_by = router.helper.look().is_some_and(|health| health.standby);
            stands_by && router.linux.started() == started
        });
    }

    /// How the helper is shown, and how many have died.
    fn shown(&mut self) -> (HelperState, u64) {
        let shown = ask(&mut self.bed, ShowLinux {}).unwrap();
        (shown.helper, shown.helper_deaths)
    }

    fn reload(&mut self, text: &str) -> Result<String, String> {
        std::fs::write(&self.path, text).unwrap();
        ask(&mut self.bed, Reload { script: None, text: None }).map(|outcome| outcome.message)
    }

    fn stops(&self) -> bool {
        self.bed.stop.requested()
    }
}

#[test]
fn a_standby_takes_the_place_of_a_helper_that_dies_and_has_one_stand_by_in_turn() {
    let mut router = Router::start(&twins());
    let said = warnings(|| {
        router.stands_by(2);
        router.bed.pass(2);
        assert_eq!(router.shown(), (HelperState::Alive, 0));
    });
    assert!(said.is_empty(), "{said:?}");
    let said = warnings(|| {
        router.linux.end(0);
        router.stands_by(3);
        router.bed.pass(2);
        assert_eq!(router.shown(), (HelperState::Alive, 1));
    });
    assert_eq!(said, ["the helper process has died; its standby has taken its place"]);
    let said = warnings(|| {
        router.linux.end(2);
        router.stands_by(4);
        router.bed.pass(2);
        assert_eq!(router.shown(), (HelperState::Alive, 1), "it is no helper's death");
    });
    assert_eq!(said, ["the standby of the helper process has died; another one is started"]);
    let said = warnings(|| {
        router.linux.end(1);
        router.linux.end(3);
        router.eventually("no helper is left", |router| router.shown() == (HelperState::Dead, 3));
        router.bed.pass(2);
    });
    let is_last_word = |said: &&String| said.starts_with("the helper process and its standby have died");
    assert_eq!(said.iter().filter(is_last_word).count(), 1, "{said:?}");
    assert!(!router.stops(), "it forwards without one");
}

#[test]
fn a_router_that_is_to_end_with_its_helper_does_not_end_with_a_standby() {
    let mut router = Router::start(&twins().replacen("[router]", "[router]\nhelper_death = \"end\"", 1));
    router.stands_by(2);
    router.linux.end(1);
    router.stands_by(3);
    assert!(!router.stops());
    router.linux.end(0);
    router.eventually("the request to stop", |router| router.stops());
}

/// An ARP request of the station behind port a for the router's address.
fn arp_request() -> Vec<u8> {
    let mut frame = vec![0; 14];
    ethernet::emit(&mut frame, MacAddr::BROADCAST, PEER_A, ethernet::ethertype::ARP).unwrap();
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(PEER_A.octets());
    frame.extend([10, 0, 1, 2, 0, 0, 0, 0, 0, 0, 10, 0, 1, 1]);
    frame
}

#[test]
fn linux_is_given_the_neighbors_that_the_router_finds_for_as_long_as_there_is_a_helper() {
    let mut router = Router::start(&twins());
    // Each look at the helper finds it alive.
    router.bed.pass(2);
    assert!(router.bed.receive[0][0].inject(&arp_request()));
    router.bed.settle();
    let found = NeighborChange { link: 10, address: "10.0.1.2".parse().unwrap(), mac: Some(PEER_A) };
    router.asked_for("the neighbor", |asked| *asked == Asked::Neighbor(found));
}

#[test]
fn a_twin_that_was_deleted_is_asked_for_until_it_is_made_and_used_then() {
    let mut router = Router::start(&twins());
    router.linux.refuse(true);
    router.kernel.delete(10);
    let is_twin = |asked: &Asked| matches!(asked, Asked::Twin(_));
    let mut asked = Vec::new();
    let said = warnings(|| {
        asked = router.asked_for("the twin", is_twin);
        (0..3).for_each(|_| drop(router.asked_for("the twin once more", is_twin)));
    });
    let expected = ["the twin a was deleted; it is made again", "this Linux refuses everything; it is tried again"];
    assert_eq!(said, expected, "each once, however often it is tried");
    let Some(Asked::Twin(wanted)) = asked.into_iter().find(is_twin) else { panic!("no twin") };
    assert_eq!((wanted.name.as_str(), wanted.mac, wanted.mtu), ("a", MacAddr(mac(0)), 1500));
    assert!(wanted.addresses.contains(&"10.0.1.1/24".parse().unwrap()), "{wanted:?}");
    router.kernel.add(link(20, "a"));
    router.linux.refuse(false);
    let mut made = None;
    router.eventually("the twin", |router| {
        made = made.take().or_else(|| router.linux.last_twin());
        made.is_some()
    });
    let (twin, frame, mut buffer) = (made.unwrap(), udp("10.0.1.1", 64, 7), [0; 200]);
    // What comes before the router has it goes to the old one.
    router.eventually("a packet for Linux", |router| {
        router.bed.receive[0][0].inject(&frame);
        router.bed.settle();
        twin.recv(&mut buffer).is_ok_and(|length| buffer[..length] == frame)
    });
    twin.send(&udp("192.0.2.9", 64, 7)).unwrap();
    router.bed.settle();
    assert!(router.bed.sent(0).contains(&udp("192.0.2.9", 64, 7)));
}

fn address(text: &str) -> InterfaceAddress {
    text.parse().unwrap()
}

#[test]
fn a_reload_waits_for_each_twin_that_changes_and_says_which_did_not() {
    let mut router = Router::start(&twins());
    let text = twins().replace("10.0.1.1/24", "10.0.1.7/24").replace("10.0.2.1/24", "10.0.2.7/24");
    router.linux.refuse(true);
    let why = router.reload(&text).unwrap_err();
    for twin in ["a", "b"] {
        assert!(why.contains(&format!("the twin {twin} keeps its old addresses: this Linux refuses")), "{why}");
    }
    router.linux.refuse(false);
    router.linux.take_asked();
    router.reload(&twins().replace("10.0.1.1/24", "10.0.1.8/24").replace("10.0.2.1/24", "10.0.2.7/24")).unwrap();
    let asked = router.linux.take_asked();
    let of_a = |asked: &&Asked| matches!(asked, Asked::Change(change) if change.index == Some(10));
    let changes: Vec<_> = asked.iter().filter(of_a).collect();
    let has = |wanted: &str| {
        let adds = |asked: &&&Asked| matches!(asked, Asked::Change(change) if change.add.contains(&address(wanted)));
        changes.iter().any(|asked| adds(&asked))
    };
    assert!(has("10.0.1.8/24") && !has("10.0.1.7/24"), "{asked:?}");
}

#[test]
fn linux_gets_the_vlans_that_a_reload_brings_and_loses_those_that_it_takes() {
    let mut router = Router::start(&twins());
    router.reload(&format!("{}[port.a.vlan.7]\naddresses = [\"10.7.0.1/24\"]\n", twins())).unwrap();
    let is_vlan = |asked: &Asked| matches!(asked, Asked::Vlan(..));
    let asked = router.asked_for("the VLAN", is_vlan);
    let Some(Asked::Vlan(on, 7, wanted)) = asked.into_iter().find(is_vlan) else { panic!("another VLAN") };
    assert_eq!((on.as_str(), wanted.name.as_str(), wanted.mac), ("a", "a.7", MacAddr(mac(0))));
    assert!(wanted.up && wanted.addresses.contains(&address("10.7.0.1/24")), "{wanted:?}");
    let vlan = Some(Vlan { below: 10, id: 7, service: false });
    router.kernel.add(Link { vlan, ..link(30, "a.7") });
    router.bed.settle();
    router.reload(&twins()).unwrap();
    let of_vlan = |change: &LinkChange| (change.delete, change.index, &*change.name) == (true, Some(30), "a.7");
    let deleted = |asked: &Asked| matches!(asked, Asked::Change(change) if of_vlan(change));
    router.asked_for("its end", deleted);
}
