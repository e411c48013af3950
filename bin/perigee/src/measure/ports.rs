// SPDX-License-Identifier: MIT
//! DPDK devices as the tester's ends of cables.

use super::links::LinkWatch;
use crate::task::MachineArgs;
use anyhow::{Context as _, Result, ensure};
use perigee_dpdk::{Device, DpdkPort, Eal, EalConfig, MBUF, MbufPool, PoolConfig, PortConfig, socket_frames};
use perigee_lab::{Place, run};
use perigee_measure::station::End;
use perigee_net::MacAddr;
use perigee_packet::{Link, Pool, Port, PortStats};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Descriptors of each queue: room for pauses of the tester.
const DESCRIPTORS: u16 = 4096;
/// Drivers of devices without a line.
const SOFTWARE: [&str; 9] = [
    "net_af_packet",
    "net_af_xdp",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_tap",
    "net_vhost",
    "net_virtio_user",
];
/// Packet buffers for sending: what the queue holds, and what is being written.
const SENDING: u32 = 4095;
/// Packet buffers that the rings of an AF_XDP socket hold: to be filled and received, and sent and completed
/// (net_af_xdp, per queue). They are not given back when the socket is closed; the memory that they are in goes with
/// the process.
const XDP_RINGS: u32 = 4096 + 2048;
/// How long a link may take to come up.
const LINK: Duration = Duration::from_secs(10);

/// DPDK for a tester on these cores.
pub fn start(args: &MachineArgs) -> Result<Eal> {
    let config = EalConfig {
        memory_mb: args.memory,
        hugepages: args.hugepages.into(),
        main_core: args.cores.as_ref().and_then(|cores| cores.0.first().copied()),
        // No devices at the start: those that are named are opened one by one.
        pci: if Path::new("/sys/bus/pci/devices").exists() { vec!["0000:00:00.0".to_owned()] } else { Vec::new() },
        ..EalConfig::default()
    };
    Ok(Eal::start(&config)?)
}

/// How long frames may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Longest {
    /// Bytes of the longest frame with FCS.
    pub frame: u16,
    /// The MTU that a Linux interface needs to send them: one tag of IEEE 802.1Q may be beyond it.
    pub mtu: u16,
}

impl Longest {
    /// Of frames of up to `frame` bytes with FCS, without tags.
    pub fn untagged(frame: u16) -> Longest {
        Longest { frame, mtu: frame.saturating_sub(18) }
    }

    /// Of frames with the bytes of these, which have no FCS.
    pub fn of<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Option<Longest> {
        let of = |frame: &[u8]| {
            // Linux allows for no other tag, nor a second one (packet_extra_vlan_len_allowed).
            let tag = if frame.get(12..14) == Some(&[0x81, 0]) { 4 } else { 0 };
            let length = u16::try_from(frame.len()).unwrap_or(u16::MAX);
            Longest { frame: length.saturating_add(4), mtu: length.saturating_sub(14 + tag) }
        };
        let longer = |a: Longest, b: Longest| Longest { frame: a.frame.max(b.frame), mtu: a.mtu.max(b.mtu) };
        frames.map(of).reduce(longer)
    }
}

/// A port of the tester. Dropped last, after its end.
pub struct TesterPort {
    pub name: String,
    device: Device,
    /// `None` where there is no Linux interface.
    watch: Option<Mutex<LinkWatch>>,
    port: DpdkPort,
    sending: Arc<MbufPool>,
    receiving: Arc<MbufPool>,
}

impl TesterPort {
    /// Opens a device for frames of these lengths.
    pub fn open(eal: &Eal, name: &str, longest: Longest) -> Result<TesterPort> {
        let device = Device::named(name);
        let mtu = device.interface_mtu()?.unwrap_or(1500);
        let Longest { frame, mtu: needed } = longest;
        ensure!(
            needed <= mtu || matches!(device, Device::Dpdk(_)),
            "{name} has an MTU of {mtu} bytes, and frames of {frame} need {needed}: `ip link set {} mtu {needed}`, at both ends",
            device.name()
        );
        // Of a Linux interface this is the MTU that it has; others take tags as they take what they tag.
        let most = if matches!(device, Device::Dpdk(_)) { frame.saturating_sub(18) } else { needed };
        let pool = |buffers| {
            let config = PoolConfig { buffers, cache: 256, ..PoolConfig::default() };
            MbufPool::new(eal, config.for_mtu(mtu.max(frame.saturating_sub(18))))
        };
        let (sending, receiving) = (pool(SENDING)?, pool(u32::from(DESCRIPTORS) * 2 + 1023)?);
        let watch = match &device {
            Device::Interface(interface) | Device::Xdp(interface) => LinkWatch::open(interface).map(Mutex::new),
            Device::Dpdk(_) => None,
        };
        let config = PortConfig {
            receive_descriptors: DESCRIPTORS,
            mtu: Some(mtu.max(most)),
            promiscuous: true,
            ..PortConfig::new(device.clone())
        };
        let port = DpdkPort::open(eal, &config, &receiving)?;
        let info = port.info();
        ensure!(
            info.receive_queues == 1,
            "{name} has {} receive queues and cannot be opened with one: give it fewer",
            info.receive_queues
        );
        Ok(TesterPort { name: name.to_owned(), device, watch, port, sending, receiving })
    }

    /// Its queues, as an end of a cable; once.
    pub fn end(&self) -> Result<End> {
        let (tx, rx) = (self.port.tx_queue(0)?, self.port.rx_queue(0)?);
        Ok(End::new(Box::new(tx), Box::new(rx), self.sending.clone(), &MBUF))
    }

    /// The name of its device, without the way in which it is opened.
    pub fn interface(&self) -> &str {
        self.device.name()
    }

    pub fn mac(&self) -> MacAddr {
        self.port.info().mac
    }

    pub fn driver(&self) -> String {
        self.port.info().driver
    }

    pub fn stats(&self) -> PortStats {
        self.port.stats()
    }

    /// Its link; of a Linux interface, Linux's view of it counts, too. An interface that is gone is down.
    pub fn link(&self) -> Link {
        let link = self.port.link();
        Link { up: link.up && self.is_running(), ..link }
    }

    fn is_running(&self) -> bool {
        self.device.is_running().unwrap_or(true)
    }

    /// How often its link went down since it was opened, however briefly, as far as Linux reports it.
    pub fn downs(&self) -> u64 {
        let watch = self.watch.as_ref().map(|watch| watch.lock().unwrap_or_else(PoisonError::into_inner));
        watch.map_or(0, |mut watch| watch.downs(|| self.is_running()))
    }

    /// Whether both ports are the ends of one cable inside this machine, so that no device is between them.
    pub fn is_cable_to(&self, other: &TesterPort) -> bool {
        let said = run(Place::Router.program("ip").args(["-o", "link", "show", "dev", self.device.name()])).output();
        // "7: left@right: <BROADCAST,...": the peer of a veth interface of the same namespace.
        let cable = format!(" {}@{}:", self.device.name(), other.device.name());
        said.is_ok_and(|said| said.contains(&cable))
    }

    /// Frames that its receive queue has room for, with frames of up to `largest` bytes with FCS.
    pub fn room(&self, largest: u16) -> u64 {
        match self.driver().as_str() {
            "net_af_packet" => u64::from(socket_frames(self.port.info().mtu.max(largest.saturating_sub(18)))),
            _ => u64::from(DESCRIPTORS),
        }
    }

    /// Whether it sends or obeys pause frames; `None` where nobody says.
    pub fn flow_control(&self) -> Option<bool> {
        self.port.flow_control().or_else(|| {
            let said = run(Place::Router.program("ethtool").args(["-a", self.interface()])).output().ok()?;
            let is = |on: &str| said.lines().any(|line| line.starts_with(['R', 'T']) && line.trim_end().ends_with(on));
            (is("on") || is("off")).then(|| is("on"))
        })
    }

    /// Bits per second of its line, where the driver knows. Software devices all say 10 Gbit/s, which means nothing.
    pub fn line(&self) -> Option<f64> {
        let driver = self.driver();
        self.link().speed.filter(|_| !SOFTWARE.contains(&driver.as_str())).map(|mbit| f64::from(mbit) * 1e6)
    }

    /// Waits for its link.
    pub fn wait_for_link(&self) -> Result<()> {
        let start = Instant::now();
        while !self.link().up {
            ensure!(
                start.elapsed() < LINK,
                "the link of {} is down: connect it, or `ip link set {} up`",
                self.name,
                self.interface()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Closes it; an error if packet buffers are missing then that no ring of the kernel holds.
    pub fn close(self) -> Result<()> {
        let TesterPort { name, device, port, sending, receiving, .. } = self;
        drop(port);
        let held = if matches!(device, Device::Xdp(_)) { XDP_RINGS } else { 0 };
        let missing = [sending, receiving].iter().map(|pool| (pool.in_use() as u32).saturating_sub(held)).sum::<u32>();
        ensure!(
            missing == 0,
            "{missing} packet buffers of {name} are missing at the end: a device has kept them, or this is a bug in perigee"
        );
        Ok(())
    }
}

/// Opens ports, and waits for their links.
pub fn open_all(eal: &Eal, names: &[&str], longest: Longest) -> Result<Vec<TesterPort>> {
    let ports: Vec<TesterPort> = names
        .iter()
        .map(|name| TesterPort::open(eal, name, longest).with_context(|| format!("{name} cannot be used")))
        .collect::<Result<_>>()?;
    ports.iter().try_for_each(TesterPort::wait_for_link)?;
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tag was taken for payload: at an MTU of 1500 bytes, full-size tagged frames were refused, which Linux sends.
    #[test]
    fn one_tag_may_be_beyond_the_mtu() {
        let frame = |kinds: &[u16], length: usize| {
            let mut frame = vec![0; length];
            for (place, kind) in frame[12..].chunks_mut(4).zip(kinds) {
                place[..2].copy_from_slice(&kind.to_be_bytes());
            }
            frame
        };
        let of = |frames: &[Vec<u8>]| Longest::of(frames.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(of(&[frame(&[0x800], 1514)]), Longest { frame: 1518, mtu: 1500 });
        assert_eq!(of(&[frame(&[0x8100, 0x800], 1518)]), Longest { frame: 1522, mtu: 1500 });
        assert_eq!(of(&[frame(&[0x8100, 0x8100, 0x800], 1522)]), Longest { frame: 1526, mtu: 1504 });
        assert_eq!(
            of(&[frame(&[0x88a8, 0x800], 1518)]),
            Longest { frame: 1522, mtu: 1504 },
            "of that, Linux lets none"
        );
        let both = [frame(&[0x8100, 0x800], 1518), frame(&[0x800], 1516)];
        assert_eq!(of(&both), Longest { frame: 1522, mtu: 1502 }, "each frame needs its own");
        assert_eq!(Longest::of(std::iter::empty()), None);
        assert_eq!(of(&[vec![0; 3]]), Longest { frame: 7, mtu: 0 });
    }
}
