// SPDX-License-Identifier: MIT
//! `[port.NAME]`: a device and how it is driven.

use std::path::Path;

use perigee_net::MacAddr;

use super::given::{At, Parsed, unfit};
use super::interfaces::{AddressKeys, Addresses, INTERFACES, Interface, PolicyKeys, mtu_kind, read_vlan};
use super::kind::{Kind, at, boolean, choice, integer, optional, text};
use super::multicast::LimitKeys;
use super::once::Once;
use super::policer::Policer;
use super::read_table;
use super::reader::Section;
use super::router::Router;
use super::section::{Context, section};
use super::stack;
use super::values::is_word;

/// The longest name of a Linux interface (`IFNAMSIZ` without its final zero).
const NAME: usize = 15;
/// Ethernet's, in bytes of an IP packet.
pub(crate) const STANDARD_MTU: u16 = 1500;

section! {
    /// A port: a device, how it is driven, and addresses and switches of its interface for untagged frames.
    pub struct Port(context)
    beside {
        /// Also the twin's name; at most 15 characters.
        name: String,
        /// What is opened.
        device: Device,
        /// What it may give the slow path: `[port.NAME.policer]`.
        policer: Policer,
    }
    keys {
        /// The port's MAC address.
        mac: Option<MacAddr>, optional(station()), default None => "the device's own", restart;
        /// The longest IP packet that is sent.
        mtu: u16, mtu_kind(), default STANDARD_MTU => "1500", restart;
        /// Whether frames to other MAC addresses are received.
        promiscuous: bool, boolean(), default false, restart;
        /// Receive queues.
        queues: Option<u16>, optional(integer("receive queues", 1..=128)), default None => "one per worker that polls it", restart;
        /// How much work the port is, beside others: it is one worker's, unless some name it. See `ports` of `[[worker]]`.
        weight: Option<u16>, optional(integer("a weight", 1..=1000)), default None => "1", restart;
        /// Whether super-frames, segments of TCP or datagrams of UDP that Linux left to a device to cut, cross the router as a whole
        /// between ports by packet sockets. Other ports send segments, as does everybody where it is false; counters of ports
        /// count segments in any case.
        super_frames: bool, boolean(), default true, restart;
        /// What forwards packets that come in by the port: `worker`, the router's workers; `xdp`, an XDP program in the kernel,
        /// which sends them on to other such ports and gives workers what it does not finish (docs/planes.md). It needs an
        /// `interface`, which is opened by `driver = "xdp"`, and root.
        plane: Option<Plane>, optional(choice(PLANES)), default None => "`plane` of `[router]`", restart;
        /// Whether Linux sees the port, by a TAP interface of the same name, its twin. A twin needs `CAP_NET_ADMIN`.
        twin: bool, boolean(), default true, restart;
    }
}

section! {
    /// What opens a port: `device`, or `interface` with `driver`.
    pub(crate) struct DeviceKeys(context) keys {
        /// What DPDK opens, with its arguments. Relative paths of capture files start at the configuration's folder.
        /// Either `device` or `interface` is given.
        device: Option<At<String>>, optional(at(text(DEVICE, |text| dpdk_device(text, context.folder)))),
            default None => "none", restart;
        /// The Linux interface that becomes the port.
        interface: Option<At<String>>, optional(at(text(INTERFACE, linux_interface))), default None => "none", restart;
        /// How `interface` is opened: `packet`, by packet sockets of the router's own, works everywhere; `xdp`, by AF_XDP sockets of the
        /// router's own, is for network cards, needs root, and has the device's receive queues, an MTU of up to 3818 and no
        /// super-frames (with veth: `ethtool -K PEER tx off txvlan off` at the other end); `dpdk:af_packet` and `dpdk:af_xdp` are DPDK's
        /// drivers, of which the second needs root.
        driver: Option<At<LinuxDriver>>, optional(at(choice(DRIVERS))), default None => "`\"packet\"`", restart;
    }
}

const DEVICE: &str = "a PCI address or a virtual device, such as \"0000:01:00.0\" or \"net_pcap0,rx_pcap=in.pcap\"";
const INTERFACE: &str = "the name of a Linux interface, at most 15 characters";
const DRIVERS: &[(&str, LinuxDriver)] = &[
    ("packet", LinuxDriver::Packet),
    ("xdp", LinuxDriver::Xdp),
    ("dpdk:af_packet", LinuxDriver::AfPacket),
    ("dpdk:af_xdp", LinuxDriver::AfXdp),
];

pub(crate) const PLANES: &[(&str, Plane)] = &[("worker", Plane::Worker), ("xdp", Plane::Xdp)];

/// What forwards the packets that come in by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// The router's workers.
    Worker,
    /// An XDP program in the kernel.
    Xdp,
}

/// Where a port's packets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A PCI address or a virtual device with its arguments, as the EAL takes it.
    Dpdk(String),
    /// A Linux interface.
    Linux {
        /// Its name.
        interface: String,
        /// By which driver.
        driver: LinuxDriver,
    },
}

impl Device {
    /// Whether AF_XDP sockets of the router's own open it.
    pub(crate) fn is_by_xdp(&self) -> bool {
        matches!(self, Device::Linux { driver: LinuxDriver::Xdp, .. })
    }
}

/// How a Linux interface is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxDriver {
    /// Packet sockets of the router's own: any interface, any MTU, fragments as they were sent.
    Packet,
    /// AF_XDP sockets of the router's own: needs more privileges, and the kernel receives nothing on the interface.
    Xdp,
    /// DPDK's `net_af_packet`: the kernel reassembles IPv4 fragments.
    AfPacket,
    /// DPDK's `net_af_xdp`: needs more privileges.
    AfXdp,
}

/// The ports in the file's order; their interfaces, then those of the VLANs.
pub(crate) fn read_ports(root: &mut Section, context: &Context, router: &Router) -> (Vec<Port>, Vec<Interface>) {
    let mistakes = root.mistakes();
    let (mut ports, mut own, mut vlans) = (Vec::new(), Vec::new(), Vec::new());
    let (mut devices, mut addresses) = (Once::default(), Addresses::default());
    let before = mistakes.count();
    let sections = root.named_tables("port");
    if sections.is_empty() && mistakes.count() == before {
        let place = root.place("port").unwrap_or(0..0);
        mistakes.add(&place, "found no port, expected at least one table headed [port.NAME]");
    }
    for (name, mut section) in sections {
        check_name(&name, &section);
        let device = DeviceKeys::read(&mut section, context).resolve(&name, &section);
        let opens = At { value: opened(&device.value), span: device.span };
        let policer = read_table(&mut section, "policer", |s| Policer::read(s, context));
        let mut port = Port::read(&mut section, context, name.value.clone(), device.value, policer);
        stack::check_port(&mut port, router, &section);
        open_for_plane(&mut port, router, &section);
        check_twin(&name, &port, router, &section);
        if let Some(first) = devices.claim(opens.value, &port.name) {
            mistakes.add(
                &opens.span,
                format!("found the device of port `{first}` again, expected a device of its own for each port"),
            );
        }
        let index = ports.len() as u16;
        let keys = AddressKeys::read(&mut section, context);
        let interface = Interface {
            name: port.name.clone(),
            port: index,
            vlan: None,
            mtu: port.mtu,
            addresses: addresses.check(keys, &port.name, port.mtu, &section),
            policy: PolicyKeys::read(&mut section, context).policy(),
            multicast: LimitKeys::read(&mut section, context).limits(),
        };
        for (id, vlan) in section.named_tables("vlan") {
            vlans.extend(read_vlan(&id, vlan, context, &interface, &mut addresses));
        }
        own.push(interface);
        ports.push(port);
        section.finish();
    }
    own.append(&mut vlans);
    if own.len() > INTERFACES {
        let found = own.len();
        mistakes.add(&(0..0), format!("found {found} interfaces, expected at most {INTERFACES}"));
    }
    (ports, own)
}

fn check_name(name: &At<String>, section: &Section) {
    let text = &name.value;
    if !is_word(text) || text.len() > NAME {
        let length = text.chars().count();
        let found = if length > NAME {
            format!("a port name of {length} characters")
        } else {
            format!("the port name {text:?}")
        };
        section.mistakes().add(&name.span, format!("found {found}, expected 1 to {NAME} letters, digits, - or _"));
    } else if ["drops", "punts"].contains(&text.as_str()) {
        let message =
            format!("found the port name {text:?}, expected another: `perigee capture {text}` captures all {text}");
        section.mistakes().add(&name.span, message);
    }
}

/// The in-kernel plane's ports are opened by AF_XDP sockets. The router's choice is for ports that may be so.
fn open_for_plane(port: &mut Port, router: &Router, section: &Section) {
    let driver_is_given = section.place("driver").is_some();
    let may_be = match port.device {
        Device::Linux { driver, .. } => !driver_is_given || driver == LinuxDriver::Xdp,
        Device::Dpdk(_) => false,
    };
    // One value for one meaning, however it was said: printed with its driver, a port by packet sockets needs no other word.
    let by_xdp = port.device.is_by_xdp();
    port.plane = match (router.plane, port.plane) {
        (Plane::Xdp, None) if may_be => Some(Plane::Xdp),
        (Plane::Xdp, Some(Plane::Worker)) if by_xdp => Some(Plane::Worker),
        (_, Some(Plane::Worker)) => None,
        (_, given) => given,
    };
    if port.plane != Some(Plane::Xdp) {
        return;
    }
    let place = section.place("plane").unwrap_or(section.span.clone());
    match &mut port.device {
        Device::Linux { driver: LinuxDriver::Xdp, .. } => {}
        Device::Linux { driver, .. } if !driver_is_given => *driver = LinuxDriver::Xdp,
        Device::Linux { .. } => section.mistakes().add(
            &place,
            "found `plane = \"xdp\"` with another driver, expected `driver = \"xdp\"` or none: the in-kernel plane hands \
             packets on by AF_XDP",
        ),
        Device::Dpdk(_) => section.mistakes().add(
            &place,
            "found `plane = \"xdp\"` with `device`, expected it with `interface`: the in-kernel plane is for Linux interfaces",
        ),
    }
}

/// A twin in the namespace of its own port's interface cannot have the same name.
fn check_twin(name: &At<String>, port: &Port, router: &Router, section: &Section) {
    let taken = matches!(&port.device, Device::Linux { interface, .. } if *interface == port.name);
    if taken && port.twin && router.namespace.is_none() {
        section.mistakes().add(
            &name.span,
            format!(
                "found a port named like its Linux interface `{0}`, expected another name, a `namespace` in [router] or \
                 `twin = false`: the twin would have to be a second `{0}`",
                port.name
            ),
        );
    }
}

/// What only one port can open.
fn opened(device: &Device) -> String {
    match device {
        Device::Dpdk(text) => text.split(',').next().unwrap_or(text).to_owned(),
        Device::Linux { interface, .. } => format!("the Linux interface {interface}"),
    }
}

impl DeviceKeys {
    /// The keys that describe `device`.
    pub fn of(device: &Device) -> Self {
        match device {
            Device::Dpdk(device) => Self { device: Some(At::nowhere(device.clone())), interface: None, driver: None },
            Device::Linux { interface, driver } => Self {
                device: None,
                interface: Some(At::nowhere(interface.clone())),
                driver: Some(At::nowhere(*driver)),
            },
        }
    }

    /// Resolves either of the two forms, with its place.
    fn resolve(self, name: &At<String>, s: &Section) -> At<Device> {
        let places = (s.place("device"), s.place("interface"), s.place("driver"));
        match &places {
            (Some(_), Some(second), _) => {
                s.mistakes().add(second, "found both `device` and `interface`, expected only one of them");
            }
            (None, None, _) => {
                let message = format!("found neither `device` nor `interface` in {}, expected one of them", s.title());
                s.mistakes().add(&s.span, message);
            }
            (Some(_), None, Some(driver)) => s.mistakes().add(
                driver,
                "found `driver` beside `device`, expected it only beside `interface`: a device brings its own",
            ),
            _ => {}
        }
        let value = match (self.device, self.interface) {
            (Some(device), _) => Device::Dpdk(device.value),
            (None, Some(interface)) => {
                let driver = self.driver.map_or(LinuxDriver::Packet, |driver| driver.value);
                Device::Linux { interface: interface.value, driver }
            }
            // It was reported; with a placeholder that no other port can share, the rest is still checked.
            (None, None) => Device::Dpdk(format!("none_{}", name.value)),
        };
        At { value, span: places.0.or(places.1).unwrap_or(s.span.clone()) }
    }
}

/// A MAC address that can be the source of a frame.
pub(crate) fn station() -> Kind<'static, MacAddr> {
    text("the MAC address of one station, such as \"02:00:00:00:00:01\"", |text| {
        let mac: MacAddr = text.parse().map_err(|_| "not six pairs of hexadecimal digits with colons between")?;
        if mac.is_unicast() { Ok(mac) } else { Err("a group address or zero".into()) }
    })
}

fn linux_interface(text: &str) -> Parsed<String> {
    let odd = |c: char| c.is_whitespace() || matches!(c, '/' | ',' | ':');
    if text.is_empty() || text.len() > NAME || text.contains(odd) { unfit() } else { Ok(text.to_owned()) }
}

/// A device as the EAL takes it; relative paths of capture files in it start at `folder`.
fn dpdk_device(text: &str, folder: &Path) -> Parsed<String> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let virtual_name = name.starts_with(|c: char| c.is_ascii_lowercase()) && is_word(name) && !name.contains('-');
    if !is_pci(name) && !virtual_name {
        return unfit();
    }
    if text.contains(char::is_whitespace) || text.contains(char::is_control) {
        return Err("there is a blank in it".into());
    }
    let mut device = name.to_owned();
    for part in parts {
        let mut part = part.to_owned();
        if let Some((key, path)) = part.split_once('=')
            && (key.ends_with("_pcap") && !path.is_empty())
        {
            part = format!("{key}={}", folder.join(path).display());
        }
        device.push(',');
        device.push_str(&part);
    }
    Ok(device)
}

/// `[DOMAIN:]BUS:DEVICE.FUNCTION`, hexadecimal.
fn is_pci(text: &str) -> bool {
    let hex = |part: &str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    let Some((address, function)) = text.rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = address.split(':').collect();
    let (domain, bus_device) = match parts[..] {
        [domain, bus, device] => (domain, [bus, device]),
        [bus, device] => ("0000", [bus, device]),
        _ => return false,
    };
    let function_fits = matches!(function.as_bytes(), [b'0'..=b'7']);
    function_fits && hex(domain, 4) && bus_device.iter().all(|part| hex(part, 2))
}
