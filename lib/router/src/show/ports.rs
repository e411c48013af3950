// SPDX-License-Identifier: MIT
//! `perigee show ports`.

use super::View;
use super::workers::sum;
use crate::ports::OpenPort;
use perigee_api::Answers;
use perigee_api::answers::{InterfaceEntry, KernelLosses, PlaneCounters, PortCounters, PortStatus};
use perigee_api::queries::ShowPorts;
use std::collections::BTreeMap;

impl Answers<ShowPorts> for View<'_> {
    fn answer(&self, _: ShowPorts) -> Vec<PortStatus> {
        let ports = self.ports.iter().zip(&self.config.ports);
        ports.map(|(port, config)| entry(self, port, config.promiscuous)).collect()
    }
}

fn entry(view: &View<'_>, open: &OpenPort, promiscuous: bool) -> PortStatus {
    let (info, link, stats) = (open.port.info(), open.port.link(), open.port.stats());
    let interface = |i: &perigee_net::Interface| InterfaceEntry {
        name: i.name.clone(),
        vlan: i.vlan,
        up: i.up,
        mtu: i.mtu,
        addresses: i.addresses.clone(),
    };
    let all = view.forwarding.interfaces().iter().map(|(_, interface)| interface);
    let interfaces = all.filter(|interface| interface.port == info.port).map(interface).collect();
    let kernel = open.losses().map(|losses| KernelLosses {
        receive_dropped: losses.receive_dropped + losses.receive_missed,
        receive_errors: losses.receive_errors,
        transmit_dropped: losses.transmit_dropped,
        transmit_errors: losses.transmit_errors,
    });
    let plane = view.workers.kernel_share(info.port).map(|share| PlaneCounters {
        finished: share.finished,
        sent: share.sent,
        handed_on: share.handed_on,
    });
    PortStatus {
        name: open.name.clone(),
        device: info.device,
        driver: info.driver,
        mac: info.mac,
        mtu: info.mtu,
        link_up: view.ports.has_link(open),
        speed: link.speed,
        promiscuous,
        receive_queues: info.receive_queues,
        transmit_queues: info.transmit_queues,
        numa: info.numa_node,
        offloads: info.offloads.iter().map(|name| (*name).to_owned()).collect(),
        twin: open.twin.as_ref().map(|twin| twin.entry().clone()),
        interfaces,
        kernel,
        plane,
        device_counters: device_losses(open.port.device_counters()),
        counters: PortCounters {
            receive_packets: stats.rx_packets,
            receive_bytes: stats.rx_bytes,
            receive_errors: stats.rx_errors,
            receive_missed: stats.rx_missed,
            receive_no_buffer: stats.rx_no_buffer,
            receive_super_frames: stats.rx_super.frames,
            receive_super_segments: stats.rx_super.segments,
            transmit_packets: stats.tx_packets,
            transmit_bytes: stats.tx_bytes,
            transmit_errors: stats.tx_errors,
            transmit_dropped: unsent(view, info.port),
            transmit_super_frames: stats.tx_super.frames,
            transmit_super_segments: stats.tx_super.segments,
        },
    }
}

/// Those of a device's own counters that are about losses and not zero.
fn device_losses(counters: Vec<(String, u64)>) -> BTreeMap<String, u64> {
    const ABOUT: [&str; 6] = ["err", "drop", "miss", "discard", "fail", "no_"];
    counters.into_iter().filter(|(name, n)| *n > 0 && ABOUT.iter().any(|word| name.contains(word))).collect()
}

/// Frames that workers and slow path could not give to a port's transmit queues.
fn unsent(view: &View<'_>, number: u16) -> u64 {
    let own = view.ports.lost_to_transmit().get(usize::from(number)).copied().unwrap_or(0);
    sum(view, |counters| counters.port_lost(number)) + own + view.assistants.lost_to_port(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_s_own_counters_are_shown_if_they_are_about_losses_and_not_zero() {
        let counters = [("rx_good_packets", 9), ("rx_missed_errors", 3), ("rx_no_dma_resources", 1), ("tx_dropped", 0)];
        let shown = device_losses(counters.map(|(name, n)| (name.to_owned(), n)).to_vec());
        let expected = [("rx_missed_errors", 3), ("rx_no_dma_resources", 1)];
        assert_eq!(shown, expected.map(|(name, n)| (name.to_owned(), n)).into());
        assert!(device_losses(Vec::new()).is_empty());
    }
}
