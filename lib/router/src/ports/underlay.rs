// SPDX-License-Identifier: MIT
//! The Linux interfaces under ports: some drivers do not report that the cable is out, but Linux does; and one that is
//! deleted and made again has to be prepared again.

use perigee_net::MacAddr;
use perigee_netlink::message::{Link, Message};
use perigee_netlink::{Source, Update};
use std::collections::{BTreeMap, BTreeSet};

/// An interface under a port.
struct Under {
    /// Linux's number of it, as far as it is known.
    index: Option<u32>,
    /// The name that it has now.
    name: String,
    /// It was deleted, or moved to another namespace. Linux may give its number to another one, or to itself again.
    gone: bool,
}

/// Which of these interfaces have no carrier.
#[derive(Default)]
pub(crate) struct Underlay {
    /// The links of the router's own namespace; `None` where no port is on one.
    source: Option<Box<dyn Source>>,
    no_carrier: BTreeSet<String>,
    /// The interfaces under ports, by the name that the configuration gives them.
    known: BTreeMap<String, Under>,
    /// Those that were made again, with their addresses.
    made_again: Vec<(String, MacAddr)>,
}

impl Underlay {
    /// Of these interfaces.
    pub fn new(source: Option<Box<dyn Source>>, interfaces: impl Iterator<Item = String>) -> Underlay {
        let known = interfaces.map(|name| (name.clone(), Under { index: None, name, gone: false })).collect();
        Underlay { source, known, ..Underlay::default() }
    }

    /// Takes Linux's reports; returns whether the carrier of any link has changed.
    pub fn follow(&mut self) -> bool {
        let mut changed = false;
        while let Some(update) = self.source.as_mut().and_then(|source| source.next()) {
            let (Update::Dumped(messages) | Update::Notifications(messages)) = update else { continue };
            for message in messages {
                match message {
                    Message::Link(link) => changed |= self.is_there(link),
                    Message::LinkGone(index) => self.is_gone(index),
                    Message::LinkMoved(index) => {
                        if let Some((name, _)) = self.known.iter().find(|(_, under)| under.index == Some(index)) {
                            tracing::warn!(
                                "the interface {name} under a port was moved to another namespace: the port has no link until it is \
                                 back in this one"
                            );
                        }
                        self.is_gone(index);
                    }
                    _ => {}
                }
            }
        }
        changed
    }

    fn is_there(&mut self, link: Link) -> bool {
        let by_index = self.known.iter().find(|(_, under)| under.index == Some(link.index) && !under.gone);
        let Some(name) = by_index
            .map(|(name, _)| name.clone())
            .or_else(|| self.known.contains_key(&link.name).then(|| link.name.clone()))
        else {
            return false;
        };
        let Some(under) = self.known.get_mut(&name) else { return false };
        match under.index {
            Some(index) if index == link.index && !under.gone => under.renamed(&name, &link.name),
            // The port's interface has another name, and another one has taken its own.
            Some(_) if under.name != name => return false,
            before => {
                (under.index, under.gone) = (Some(link.index), false);
                if let (Some(_), Some(mac)) = (before, link.mac) {
                    self.made_again.push((name.clone(), mac));
                }
            }
        }
        match link.up && link.carrier {
            false => self.no_carrier.insert(name),
            true => self.no_carrier.remove(&name),
        }
    }

    /// The next one of its name is the port's again.
    fn is_gone(&mut self, index: u32) {
        if let Some((name, under)) = self.known.iter_mut().find(|(_, under)| under.index == Some(index)) {
            under.name.clone_from(name);
            under.gone = true;
        }
    }

    /// The links that were deleted and made again since the last call, with their addresses.
    pub fn made_again(&mut self) -> Vec<(String, MacAddr)> {
        std::mem::take(&mut self.made_again)
    }

    /// Linux's number of a link, as far as is known.
    pub fn index(&self, link: &str) -> Option<u32> {
        self.known.get(link).and_then(|under| under.index)
    }

    /// Whether a link has a carrier, as far as is known.
    pub fn has_carrier(&self, link: &str) -> bool {
        !self.no_carrier.contains(link)
    }
}

impl Under {
    /// Takes note of the name that it has now, and says what that means: sockets and drivers know their interface by
    /// its name.
    fn renamed(&mut self, configured: &str, now: &str) {
        if self.name == now {
            return;
        }
        match configured == now {
            true => tracing::info!("the interface {configured} under a port has its name again"),
            false => tracing::warn!(
                "the interface {configured} under a port was renamed to {now}, and the port has no link under that name: `ip link set \
                 {now} name {configured}` (set it down before) brings it back, or `interface = \"{now}\"` in the configuration and a \
                 new start"
            ),
        }
        now.clone_into(&mut self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_netlink::SourceCounters;
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
            let link = Link { index: 3, name: "eth0".into(), up, carrier, mtu: 1500, ..Link::default() };
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
                ..Link::default()
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

    /// A renamed interface was known by its name alone: whatever took that name was prepared, and the port's carrier
    /// was lost.
    #[test]
    fn a_link_that_is_renamed_is_still_the_ports() {
        let reports = Reports::default();
        let mut underlay = Underlay::new(Some(Box::new(reports.clone())), ["eth0".to_owned()].into_iter());
        let mut tell = |messages: &[Message]| {
            reports.0.lock().unwrap().push(Update::Notifications(messages.to_vec()));
            (underlay.follow(), underlay.has_carrier("eth0"), underlay.made_again().len())
        };
        let mac = Some("02:00:00:00:00:01".parse().unwrap());
        let link = |index, name: &str, up| {
            Message::Link(Link { index, name: name.into(), up, carrier: up, mtu: 1500, mac, ..Link::default() })
        };
        assert_eq!(tell(&[link(3, "eth0", true)]), (false, true, 0));
        assert_eq!(tell(&[link(3, "eth0", false)]), (true, false, 0));
        assert_eq!(tell(&[link(3, "uplink", false), link(3, "uplink", true)]), (true, true, 0), "by its number");
        assert_eq!(tell(&[link(4, "eth0", false)]), (false, true, 0), "another one of its name");
        assert_eq!(tell(&[link(3, "uplink", false), link(3, "eth0", true)]), (true, true, 0), "named back");
        assert_eq!(tell(&[link(3, "uplink", true), Message::LinkGone(3), link(5, "eth0", true)]), (false, true, 1));
        assert_eq!(tell(&[Message::LinkMoved(5), link(6, "eth0", true)]), (false, true, 1));
    }

    /// Linux forgets what an interface was prepared with when it goes to another namespace, and it often keeps its number.
    #[test]
    fn a_link_that_comes_back_with_its_number_is_prepared_again() {
        let reports = Reports::default();
        let mut underlay = Underlay::new(Some(Box::new(reports.clone())), ["eth0".to_owned()].into_iter());
        let mut tell = |messages: &[Message]| {
            reports.0.lock().unwrap().push(Update::Notifications(messages.to_vec()));
            underlay.follow();
            underlay.made_again().len()
        };
        let mac = Some("02:00:00:00:00:01".parse().unwrap());
        let link = |name: &str| {
            Message::Link(Link {
                index: 3,
                name: name.into(),
                up: true,
                carrier: true,
                mtu: 1500,
                mac,
                ..Link::default()
            })
        };
        assert_eq!(tell(&[link("eth0")]), 0);
        assert_eq!((tell(&[Message::LinkMoved(3), link("eth0")]), tell(&[link("eth0")])), (1, 0));
        assert_eq!(tell(&[Message::LinkGone(3), link("eth1")]), 0, "another one has its number");
        assert_eq!(tell(&[link("eth0")]), 1);
    }
}
