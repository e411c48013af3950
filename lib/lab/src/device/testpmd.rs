// SPDX-License-Identifier: MIT
//! DPDK's dpdk-testpmd as the device.

use super::command::Group;
use super::{Device, first_and_last_core};
use crate::{tools, wait_until};
use anyhow::Result;

/// DPDK's test program, on AF_PACKET sockets of d0 and d1, in its mode `mac`: whatever one port receives the other one
/// sends, with its own MAC address as the source and the tester's as the destination. It does not route: it looks at no
/// address, leaves TTL and checksums alone, and answers neither ARP nor ND. So it is the bound of what a router on the
/// same ports can reach, not an equal of it.
#[derive(Debug, Clone)]
pub struct Testpmd {
    /// The core that forwards; otherwise the last one.
    pub core: Option<usize>,
    /// Packets taken from a queue at once.
    pub burst: u16,
    /// Whether DPDK's memory is on hugepages.
    pub hugepages: bool,
    /// DPDK's memory, in MB.
    pub memory: u32,
}

impl Default for Testpmd {
    fn default() -> Testpmd {
        Testpmd { core: None, burst: 32, hugepages: false, memory: 256 }
    }
}

pub(super) fn start(device: &Device, options: &Testpmd) -> Result<Group> {
    tools::require(&[tools::TESTPMD, tools::STDBUF], &tools::search_path(), "the comparison")?;
    device.leave_to_programs()?;
    let [first, last] = first_and_last_core()?;
    let mtu = u32::from(device.setup.mtu);
    // The kernel's header is in front of each frame; 32 frames are whole pages, and a queue's locked memory is 2 MB.
    let slot = (mtu + 200).next_multiple_of(128).max(2048);
    let block = slot * 32;
    let frames = ((2 << 20) / block).max(1) * 32;
    // Line by line: whether it forwards is read from what it prints.
    let mut command = device.host().place().program("stdbuf");
    command.args(["-oL", tools::TESTPMD.0, "--no-pci", "--no-telemetry", "--iova-mode=va"]);
    command.arg(format!("--file-prefix={}-testpmd", device.host().name()));
    command.arg(format!("--lcores=0@{first},1@{}", options.core.unwrap_or(last)));
    command.args((!options.hugepages).then_some("--no-huge"));
    command.args(["-m", &options.memory.to_string()]);
    for (index, side) in device.sides().iter().enumerate() {
        let interface = side.interface;
        command.arg(format!(
            "--vdev=net_af_packet{index},iface={interface},framesz={slot},blocksz={block},framecnt={frames}"
        ));
    }
    command.args(["--", "--forward-mode=mac", "--nb-cores=1", "--total-num-mbufs=8192"]);
    // Without a period it would end with its standard input.
    command.args([format!("--burst={}", options.burst), "--stats-period=3600".to_owned()]);
    command.args([format!("--mbuf-size={}", slot + 128), format!("--max-pkt-len={}", mtu + 18)]);
    for (index, side) in device.sides().iter().enumerate() {
        command.arg(format!("--eth-peer={index},{}", side.tester_mac));
    }
    let mut testpmd = Group::start(&mut command)?;
    wait_until(device.setup.patience, "dpdk-testpmd to forward", || {
        testpmd.running()?;
        Ok(testpmd.process().stdout().contains("mac packet forwarding"))
    })?;
    Ok(testpmd)
}
