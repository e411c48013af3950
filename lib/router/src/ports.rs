// SPDX-License-Identifier: MIT
//! The ports as the slow path's thread sees them: links, twins, and its own queues in both directions.
//!
//! ```text
//!  device ──steered by hardware filters──► receivers ─┐              ┌─► outputs ──► device
//!                                                     ├─► slow path ─┤
//!  Linux  ──────────► twin ───────────────────────────┘              └─► twin ─────► Linux
//! ```

mod losses;
mod outputs;
mod twin;
mod underlay;

use losses::Losses;
pub(crate) use outputs::Outputs;
use perigee_config::{Config, Device};
use perigee_helper::twin::Twin;
use perigee_helper::{LinkPreparation, TwinStatus};
use perigee_net::MacAddr;
use perigee_netlink::{LinkLosses, LinkStatistics, Source};
use perigee_packet::{Batch, Pool, Port, PortInfo, ReceiveQueue};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
pub(crate) use twin::PortTwin;
use underlay::Underlay;

use crate::wiring::SlowQueues;

/// The driver of ports whose interfaces stay Linux's.
const LINUXS: &str = "xdp-linux";

/// A port, as the caller has opened it for the slow path.
pub struct RouterPort {
    /// The port itself.
    pub port: Arc<dyn Port>,
    /// The pool for packets that are sent on it.
    pub pool: Arc<dyn Pool>,
    pub twin: Option<(Twin, TwinStatus)>,
}

/// One port.
pub(crate) struct OpenPort {
    pub name: String,
    pub port: Arc<dyn Port>,
    pub pool: Arc<dyn Pool>,
    /// The port's description when it was opened.
    pub info: PortInfo,
    pub twin: Option<PortTwin>,
    /// The Linux interface under it, if there is one.
    below: Option<String>,
    /// What that has lost.
    losses: Losses,
    /// Whether it had a link at the last check.
    up: bool,
    /// Whether it takes all frames by its configuration, and now.
    promiscuous: (bool, bool),
}

impl OpenPort {
    /// What the Linux interface under it has lost, if there is one, as of the last reading.
    pub(crate) fn losses(&self) -> Option<LinkLosses> {
        let losses = self.below.as_ref().map(|_| self.losses.sum())?;
        // A driver that runs an XDP program counts frames for which the socket had no room as dropped; the socket
        // counts them, too.
        let dropped = if self.by_xdp() { 0 } else { losses.receive_dropped };
        Some(LinkLosses { receive_dropped: dropped, ..losses })
    }

    /// The Linux interface under it, if there is one.
    pub(crate) fn below(&self) -> Option<&str> {
        self.below.as_deref()
    }

    /// Whether an XDP program takes the interface's frames before Linux looks at them.
    fn by_xdp(&self) -> bool {
        ["xdp", "net_af_xdp", LINUXS].contains(&self.info.driver.as_str())
    }
}

/// What is known of the Linux interfaces under ports.
pub struct Below {
    /// Linux's reports on links of the router's own namespace.
    pub reports: Box<dyn Source>,
    /// Knows what those links have lost.
    pub statistics: Box<dyn LinkStatistics>,
}

/// All ports, in the configuration's order, and their queues.
pub struct Ports {
    ports: Vec<OpenPort>,
    outputs: Outputs,
    receivers: Vec<(u16, Box<dyn ReceiveQueue>)>,
    underlay: Underlay,
    statistics: Option<Box<dyn LinkStatistics>>,
}

impl Ports {
    /// The configuration's ports as they were opened, in its order, with the slow path's queues, and what is under
    /// them.
    pub fn new(config: &Config, ports: Vec<RouterPort>, queues: SlowQueues, below: Option<Below>) -> Ports {
        let open = |(config, RouterPort { port, pool, twin }): (&perigee_config::Port, RouterPort)| OpenPort {
            name: config.name.clone(),
            info: port.info(),
            port,
            pool,
            twin: twin.map(PortTwin::new),
            below: match &config.device {
                Device::Linux { interface, .. } => Some(interface.clone()),
                Device::Dpdk(_) => None,
            },
            losses: Losses::default(),
            up: false,
            promiscuous: (config.promiscuous, config.promiscuous),
        };
        let SlowQueues { receivers, outputs, .. } = queues;
        let ports: Vec<OpenPort> = config.ports.iter().zip(ports).map(open).collect();
        let (reports, statistics) = below.map(|below| (below.reports, below.statistics)).unzip();
        let underlay = Underlay::new(reports, ports.iter().filter_map(|port| port.below.clone()));
        let pool = |number| ports.iter().find(|port| port.info.port == number).map(|port| port.pool.clone());
        let outputs = Outputs::new(outputs, pool);
        Ports { ports, outputs, receivers, underlay, statistics }
    }

    /// The ports of these numbers take frames to other MAC addresses than their own: a device lets nothing else in.
    pub(crate) fn take_all_frames(&mut self, numbers: &BTreeSet<u16>) {
        for port in &mut self.ports {
            let (configured, now) = port.promiscuous;
            let wanted = configured || numbers.contains(&port.info.port);
            if wanted != now {
                port.promiscuous.1 = wanted;
                if let Err(error) = port.port.set_promiscuous(wanted) {
                    let what = if wanted {
                        "frames to a virtual MAC address may not come in"
                    } else {
                        "it still takes all frames"
                    };
                    tracing::warn!("{error}; {what}");
                }
            }
        }
    }

    /// All ports, in the configuration's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenPort> {
        self.ports.iter()
    }

    /// The ports' descriptions, in the configuration's order.
    pub(crate) fn infos(&self) -> Vec<PortInfo> {
        self.ports.iter().map(|port| port.info.clone()).collect()
    }

    /// The port at this index in the configuration's order.
    pub(crate) fn get(&self, index: usize) -> Option<&OpenPort> {
        self.ports.get(index)
    }

    /// The port of a number.
    pub(crate) fn by_number(&self, number: u16) -> Option<&OpenPort> {
        self.ports.iter().find(|port| port.info.port == number)
    }

    /// The name of a port, or its number.
    pub(crate) fn name_of(&self, number: u16) -> String {
        self.by_number(number).map_or_else(|| number.to_string(), |port| port.name.clone())
    }

    /// Whether a port has a link now, according to both the port itself and the interface under it.
    pub(crate) fn has_link(&self, port: &OpenPort) -> bool {
        port.port.is_up() && port.below.as_ref().is_none_or(|below| self.underlay.has_carrier(below))
    }

    /// Whether the port of this number had a link at the last check.
    pub(crate) fn is_up(&self, number: u16) -> bool {
        self.by_number(number).is_some_and(|port| port.up)
    }

    /// The numbers of the ports that had no link at the last check.
    pub(crate) fn without_link(&self) -> BTreeSet<u16> {
        self.ports.iter().filter(|port| !port.up).map(|port| port.info.port).collect()
    }

    /// Whether a port's link is another than at the last check.
    pub(crate) fn a_link_has_changed(&self) -> bool {
        self.ports.iter().any(|port| port.up != self.has_link(port))
    }

    /// Checks every port's link; returns the index of each port whose link has changed, and whether it is up.
    pub(crate) fn look_at_links(&mut self) -> Vec<(usize, bool)> {
        let now: Vec<bool> = self.ports.iter().map(|port| self.has_link(port)).collect();
        let mut changed = Vec::new();
        for (index, (port, up)) in self.ports.iter_mut().zip(now).enumerate().filter(|(_, (port, up))| port.up != *up) {
            tracing::info!("port {}: link {}", port.name, if up { "up" } else { "down" });
            port.up = up;
            changed.push((index, up));
        }
        changed
    }

    /// Takes Linux's reports on the interfaces under ports; returns whether links should be checked.
    pub(crate) fn follow_underlay(&mut self) -> bool {
        self.underlay.follow()
    }

    /// Reads from the kernel what the interfaces under ports and the twins have lost; `twins` knows the namespace of
    /// the latter. Reads the devices' counters as well, as some of them are 32 bits wide and are reset by each
    /// reading.
    pub(crate) fn look_at_losses(&mut self, twins: Option<&dyn LinkStatistics>) {
        for port in &mut self.ports {
            port.port.stats();
            let below = port.below.as_ref().and_then(|below| self.underlay.index(below));
            if let (Some(statistics), Some(index)) = (&self.statistics, below) {
                port.losses.look(index, || statistics.losses(index));
            }
            if let (Some(statistics), Some(twin)) = (twins, &mut port.twin) {
                twin.look_at_losses(statistics);
            }
        }
    }

    /// How the interfaces under ports that were deleted and made again should be prepared.
    pub(crate) fn take_unprepared(&mut self) -> Vec<LinkPreparation> {
        let made = self.underlay.made_again();
        let under = |name: &str| self.ports.iter().find(|port| port.below.as_deref() == Some(name));
        let prepare = |(name, mac): (String, MacAddr)| {
            let port = under(&name)?;
            let info = &port.info;
            tracing::info!("the interface {name} was made again");
            if info.driver == LINUXS {
                return None;
            }
            let mut preparation = LinkPreparation::new(&name, mac, info.mac, info.mtu);
            // With AF_XDP the kernel does not hear what the port hears, and a card would not receive for an address
            // that it has not.
            if port.by_xdp() {
                preparation.other_mac = None;
            }
            Some(preparation)
        };
        made.into_iter().filter_map(prepare).collect()
    }

    /// How many queues hardware filters fill.
    pub(crate) fn receivers(&self) -> usize {
        self.receivers.len()
    }

    /// Takes frames from one of these queues; returns the port's number, and whether there were any.
    pub(crate) fn receive(&mut self, queue: usize, batch: &mut Batch, most: usize) -> (u16, bool) {
        let (port, queue) = &mut self.receivers[queue];
        (*port, queue.receive(batch, most) > 0)
    }

    /// How many ports workers and slow path number.
    pub(crate) fn width(&self) -> u16 {
        self.outputs.width()
    }

    /// The queues to send on.
    pub(crate) fn outputs(&mut self) -> &mut Outputs {
        &mut self.outputs
    }

    /// How many frames of the slow path could not be sent, by port number; the last entry counts those to ports that do
    /// not exist.
    pub(crate) fn lost_to_transmit(&self) -> &[u64] {
        self.outputs.lost()
    }

    /// Gives a frame to Linux through a port's twin; returns whether the port has one.
    pub(crate) fn give_to_twin(&mut self, number: u16, frame: &[u8]) -> bool {
        let port = self.ports.iter_mut().find(|port| port.info.port == number);
        let Some(twin) = port.and_then(|port| port.twin.as_mut()) else { return false };
        twin.write(frame);
        true
    }

    /// Reads the next frame that Linux sent through the twin of the port at `index`; returns its length.
    pub(crate) fn read_twin(&mut self, index: usize, buffer: &mut [u8]) -> Option<usize> {
        self.ports[index].twin.as_mut().and_then(|twin| twin.read(buffer))
    }

    /// Takes a port's new twin.
    pub(crate) fn set_twin(&mut self, index: usize, made: (Twin, TwinStatus)) {
        if let Some(port) = self.ports.get_mut(index) {
            port.twin = Some(PortTwin::replacing(made, port.twin.take()));
        }
    }

    /// The descriptors to poll.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports.iter().filter_map(|port| port.twin.as_ref()).filter(|twin| twin.usable()).map(AsFd::as_fd)
    }

    /// Gives up the queues, and with them the buffers in them; returns the twins.
    pub(crate) fn close(&mut self) -> Vec<Twin> {
        self.receivers.clear();
        self.outputs.close();
        self.ports.iter_mut().filter_map(|port| port.twin.take()).map(PortTwin::into_inner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_netlink::message::{Link as Report, Message};
    use perigee_netlink::{SourceCounters, Update};
    use perigee_packet::batch::heap::HeapPool;
    use perigee_packet::{Link, PortStats};
    use std::sync::Mutex;

    /// A port of this number and driver, which notes what is asked of it.
    struct Noting(u16, &'static str, Mutex<Vec<bool>>);

    impl Port for Noting {
        fn info(&self) -> PortInfo {
            PortInfo {
                port: self.0,
                device: format!("eth{}", self.0),
                driver: self.1.to_owned(),
                mac: MacAddr([2, 0, 0, 0, 0, self.0 as u8]),
                mtu: 1400,
                receive_queues: 1,
                transmit_queues: 1,
                numa_node: None,
                offloads: vec![],
                notes: vec![],
            }
        }
        fn link(&self) -> Link {
            Link { up: true, speed: None, full_duplex: true }
        }
        fn stats(&self) -> PortStats {
            PortStats::default()
        }
        fn set_promiscuous(&self, on: bool) -> Result<(), String> {
            self.2.lock().unwrap().push(on);
            Ok(())
        }
        fn set_mtu(&self, _: u16) -> Result<(), String> {
            Ok(())
        }
    }

    /// Reports of Linux that came before, and nothing later.
    struct Reports(Vec<Update>);

    impl Source for Reports {
        fn next(&mut self) -> Option<Update> {
            (!self.0.is_empty()).then(|| self.0.remove(0))
        }
        fn dump(&mut self) {}
        fn counters(&self) -> SourceCounters {
            SourceCounters::default()
        }
    }

    /// As many losses of every link as its number says, more with each look.
    struct Growing(Mutex<u64>);

    impl LinkStatistics for Growing {
        fn losses(&self, index: u32) -> Option<LinkLosses> {
            let mut looks = self.0.lock().unwrap();
            *looks += 1;
            let n = *looks * u64::from(index);
            Some(LinkLosses { receive_dropped: n, receive_missed: n, ..LinkLosses::default() })
        }
    }

    /// Ports on eth0 and eth1, the second by an XDP program and promiscuous, with these reports on the links.
    fn ports(reports: Vec<Message>) -> (Ports, [Arc<Noting>; 2]) {
        let text = "[router]\ncores = [0]\n[port.a]\ninterface = \"eth0\"\n\
            [port.b]\ninterface = \"eth1\"\npromiscuous = true\n";
        let machine = perigee_config::Machine { cores: vec![0], ..Default::default() };
        let config = Config::parse_on("test.toml", text, &machine).unwrap_or_else(|error| panic!("{error}"));
        let noting =
            [(0, "net_af_packet"), (1, "xdp")].map(|(n, driver)| Arc::new(Noting(n, driver, Mutex::default())));
        let pool: Arc<dyn Pool> = Arc::new(HeapPool::leak(1));
        let open =
            noting.iter().map(|port| RouterPort { port: port.clone(), pool: pool.clone(), twin: None }).collect();
        let reports = Box::new(Reports(vec![Update::Notifications(reports)]));
        let below = Below { reports, statistics: Box::new(Growing(Mutex::default())) };
        (Ports::new(&config, open, SlowQueues::default(), Some(below)), noting)
    }

    fn link(index: u32, name: &str) -> Message {
        // Its port's, as a driver sets it.
        let mac = Some(MacAddr([2, 0, 0, 0, 0, u8::from(name == "eth1")]));
        Message::Link(Report { index, name: name.into(), up: true, carrier: true, mtu: 1500, mac, ..Report::default() })
    }

    #[test]
    fn a_port_takes_all_frames_while_that_is_wanted_and_is_asked_once() {
        let (mut ports, [a, b]) = ports(vec![]);
        for numbers in [[].into(), [0].into(), [0, 1].into(), BTreeSet::new()] {
            ports.take_all_frames(&numbers);
        }
        assert_eq!(*a.2.lock().unwrap(), [true, false]);
        assert!(b.2.lock().unwrap().is_empty(), "it takes them all by its configuration");
    }

    #[test]
    fn ports_are_found_by_place_and_by_number() {
        let (mut ports, _) = ports(vec![]);
        let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!((names, ports.infos().len()), (vec!["a", "b"], 2));
        assert_eq!((ports.get(1).map(|p| p.info.port), ports.get(2).is_none()), (Some(1), true));
        assert_eq!(
            (ports.by_number(1).map(|p| p.name.clone()), ports.by_number(2).is_none()),
            (Some("b".to_owned()), true)
        );
        assert_eq!((ports.name_of(0), ports.name_of(7)), ("a".to_owned(), "7".to_owned()));
        assert!(!ports.give_to_twin(0, &[0; 60]) && ports.read_twin(0, &mut [0; 60]).is_none(), "there is no twin");
        assert_eq!(ports.descriptors().count(), 0);
    }

    #[test]
    fn the_socket_of_an_xdp_program_counts_what_the_driver_counts_as_dropped() {
        let (mut ports, _) = ports(vec![link(3, "eth0"), link(5, "eth1")]);
        assert!(!ports.follow_underlay(), "both have a carrier, as before");
        (0..2).for_each(|_| ports.look_at_losses(None));
        let losses = |ports: &Ports| -> Vec<(u64, u64)> {
            ports.iter().filter_map(OpenPort::losses).map(|l| (l.receive_dropped, l.receive_missed)).collect()
        };
        // Looks 1 and 3 are the first port's: from 3 to 9. The other's go from 10 to 20.
        assert_eq!(losses(&ports), [(6, 6), (0, 10)]);
    }

    #[test]
    fn an_interface_that_was_made_again_is_prepared_again() {
        let again = vec![link(3, "eth0"), link(5, "eth1"), Message::LinkGone(3), link(7, "eth0"), link(8, "eth1")];
        let (mut ports, _) = ports(again);
        ports.follow_underlay();
        let prepared = ports.take_unprepared();
        let [first, second] = &prepared[..] else { panic!("{prepared:?}") };
        assert_eq!((first.name.as_str(), first.mtu, first.other_mac.is_some()), ("eth0", Some(1400), true));
        assert_eq!((second.name.as_str(), second.other_mac), ("eth1", None), "the kernel does not hear what it hears");
        assert!(ports.take_unprepared().is_empty());
    }
}
