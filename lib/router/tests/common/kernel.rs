// SPDX-License-Identifier: MIT
//! A kernel that has the twins of [`TWO_PORTS`](super::TWO_PORTS), and says what a test has it say.

use perigee_netlink::message::{Address, Link, Message};
use perigee_netlink::{Source, SourceCounters, Update};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct State {
    /// Links by their numbers.
    links: BTreeMap<u32, Link>,
    queue: VecDeque<Update>,
}

/// The kernel; clones are the same one.
#[derive(Clone)]
pub struct Kernel(Arc<Mutex<State>>);

/// A link of this number that is up.
pub fn link(index: u32, name: &str) -> Link {
    Link { index, name: name.into(), up: true, carrier: true, mtu: 1500, ..Link::default() }
}

impl Kernel {
    /// One that has the twins `a` and `b`, and a dump to be read.
    pub fn new() -> Kernel {
        let links = [(10, "a"), (11, "b")].map(|(index, name)| (index, link(index, name))).into();
        let kernel = Kernel(Arc::new(Mutex::new(State { links, ..State::default() })));
        kernel.clone().dump();
        kernel
    }

    /// Has a link from now on.
    pub fn add(&self, link: Link) {
        let mut state = self.0.lock().unwrap();
        state.links.insert(link.index, link.clone());
        state.queue.push_back(Update::Notifications(vec![Message::Link(link)]));
    }

    /// Does not have a link any more.
    pub fn delete(&self, index: u32) {
        let mut state = self.0.lock().unwrap();
        state.links.remove(&index);
        state.queue.push_back(Update::Notifications(vec![Message::LinkGone(index)]));
    }
}

impl Source for Kernel {
    fn next(&mut self) -> Option<Update> {
        self.0.lock().unwrap().queue.pop_front()
    }
    fn dump(&mut self) {
        let mut state = self.0.lock().unwrap();
        let links = state.links.values().cloned().map(Message::Link);
        // The addresses of twins, whatever their numbers.
        let address = |link: &Link| {
            let address = [("a", "10.0.1.1/24"), ("b", "10.0.2.1/24")].iter().find(|(name, _)| *name == link.name)?.1;
            Some(Message::Address(Address::new(link.index, address.parse().unwrap())))
        };
        let all = links.chain(state.links.values().filter_map(address)).collect();
        state.queue.extend([Update::DumpBegins, Update::Dumped(all), Update::DumpEnds { complete: true }]);
    }
    fn counters(&self) -> SourceCounters {
        SourceCounters::default()
    }
}
