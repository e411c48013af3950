// SPDX-License-Identifier: MIT
//! The Linux interfaces under ports: some drivers do not report that the cable is out, but Linux does; and one that is deleted and
//! made again has to be prepared again.

use perigee_net::MacAddr;
use perigee_netlink::message::Message;
use perigee_netlink::{Source, Update};
use std::collections::{BTreeMap, BTreeSet};

/// Which of these interfaces have no carrier.
#[derive(Default)]
pub(crate) struct Underlay {
    /// The links of the router's own namespace; `None` where no port is on one.
    source: Option<Box<dyn Source>>,
    no_carrier: BTreeSet<String>,
    /// The interfaces under ports, and Linux's numbers of them as far as they are known.
    indices: BTreeMap<String, Option<u32>>,
    /// Those that were made again, with their addresses.
    made_again: Vec<(String, MacAddr)>,
}

impl Underlay {
    /// Of these interfaces.
    pub fn new(source: Option<Box<dyn Source>>, interfaces: impl Iterator<Item = String>) -> Underlay {
        Underlay { source, indices: interfaces.map(|name| (name, None)).collect(), ..Underlay::default() }
    }

    /// Takes Linux's reports; returns whether the carrier of any link has changed.
    pub fn follow(&mut self) -> bool {
        let Some(source) = &mut self.source else { return false };
        let mut changed = false;
        while let Some(update) = source.next() {
            let (Update::Dumped(messages) | Update::Notifications(messages)) = update else { continue };
            for message in messages {
                if let Message::Link(link) = message
                    && let Some(index) = self.indices.get_mut(&link.name)
                {
                    let other = index.replace(link.index).is_some_and(|before| before != link.index);
                    if let (true, Some(mac)) = (other, link.mac) {
                        self.made_again.push((link.name.clone(), mac));
                    }
                    changed |= match link.up && link.carrier {
                        false => self.no_carrier.insert(link.name),
                        true => self.no_carrier.remove(&link.name),
                    };
                }
            }
        }
        changed
    }

    /// The links that were deleted and made again since the last call, with their addresses.
    pub fn made_again(&mut self) -> Vec<(String, MacAddr)> {
        std::mem::take(&mut self.made_again)
    }

    /// Linux's number of a link, as far as is known.
    pub fn index(&self, link: &str) -> Option<u32> {
        self.indices.get(link).copied().flatten()
    }

    /// Whether a link has a carrier, as far as is known.
    pub fn has_carrier(&self, link: &str) -> bool {
        !self.no_carrier.contains(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_netlink::SourceCounters;
    use perigee_netlink::message::Link;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Reports(Arc<Mutex<Vec<Update>>>);

    impl Source for Reports {
        fn next(&mut self) -> Option<Update> {
            let mut updates = self.0.lock().unwrap();
            (!updates.is_empty()).then(|| updates.remove(0))
        }
        fn dump(&mut self) {}
        fn counters(&self) -> SourceCounters {
            SourceCounters::default()
        }
    }

    #[test]
    fn a_link_without_a_carrier_is_noticed_and_forgotten() {
        let reports = Reports::default();
        let mut underlay = Underlay::new(Some(Box::new(reports.clone())), ["eth0".to_owned()].into_iter());
        let report = |up, carrier| {
            let link = Link {
                index: 3,
                name: "eth0".into(),
                up,
                carrier,
                mtu: 1500,
                mac: None,
                vlan: None,
                master: None,
                vrf: None,
            };
            reports.0.lock().unwrap().push(Update::Notifications(vec![Message::Link(link)]));
        };
        assert!(!underlay.follow() && underlay.has_carrier("eth0"));
        report(true, true);
        assert!(!underlay.follow(), "nothing new");
        report(true, false);
        assert!(underlay.follow() && !underlay.has_carrier("eth0") && underlay.has_carrier("eth1"));
        report(false, false);
        assert!(!underlay.follow());
        report(true, true);
        assert!(underlay.follow() && underlay.has_carrier("eth0"));
        report(false, true);
        assert!(underlay.follow() && !underlay.has_carrier("eth0"), "one that is set down carries nothing");
    }

    #[test]
    fn a_link_that_was_made_again_is_reported_once() {
        let reports = Reports::default();
        let mut underlay = Underlay::new(Some(Box::new(reports.clone())), ["eth0".to_owned()].into_iter());
        let mac: MacAddr = "02:00:00:00:00:01".parse().unwrap();
        let mut report = |index, name: &str| {
            let link = Link {
                index,
                name: name.into(),
                up: true,
                carrier: true,
                mtu: 1500,
                mac: Some(mac),
                vlan: None,
                master: None,
                vrf: None,
            };
            reports.0.lock().unwrap().push(Update::Notifications(vec![Message::Link(link)]));
            underlay.follow();
            underlay.made_again()
        };
        assert!(report(3, "eth0").is_empty(), "the first one was prepared at the start");
        assert!(report(3, "eth0").is_empty());
        assert!(report(4, "eth1").is_empty() && report(5, "eth1").is_empty(), "under no port");
        assert_eq!(report(6, "eth0"), [("eth0".to_owned(), mac)]);
        assert!(report(6, "eth0").is_empty());
    }
}
