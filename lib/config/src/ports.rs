// SPDX-License-Identifier: MIT
//! `[port.NAME]`, `[port.NAME.vlan.ID]` and the addresses of both.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use perigee_net::{InterfaceAddress, MacAddr};
use toml::de::DeValue;

use super::below;
use super::mistake::Span;
use super::model::{Device, Interface, LinuxDriver, Port, Router};
use super::reader::{At, Parsed, Section, unfit};
use super::router::{is_word, set};

/// The longest name of a Linux interface (`IFNAMSIZ` without its final zero).
const NAME: usize = 15;
/// The smallest MTU of a link that carries IPv6 (RFC 8200 section 5).
const IPV6_MTU: u16 = 1280;
/// Interface numbers from 0xfff0 on mean something else in a next hop.
const INTERFACES: usize = 0xfff0;

/// Remembers what must be there only once, and where it was.
#[derive(Default)]
struct Once(HashMap<String, String>);

impl Once {
    /// Whose `what` was already, or from now on `owner`'s.
    fn claim(&mut self, what: String, owner: &str) -> Option<String> {
        match self.0.get(&what) {
            Some(first) => Some(first.clone()),
            None => {
                self.0.insert(what, owner.to_owned());
                None
            }
        }
    }
}

/// The ports in the file's order; their interfaces, then those of the VLANs.
pub(super) fn read_ports(root: &mut Section, folder: &Path, router: &Router) -> (Vec<Port>, Vec<Interface>) {
    let (mut ports, mut own, mut vlans) = (Vec::new(), Vec::new(), Vec::new());
    let (mut devices, mut addresses) = (Once::default(), Once::default());
    let before = root.mistakes().count();
    let sections = root.named_tables("port");
    if sections.is_empty() && root.mistakes().count() == before {
        let place = root.place("port").unwrap_or(0..0);
        root.mistakes().add(&place, "found no port, expected at least one table headed [port.NAME]");
    }
    for (name, mut section) in sections {
        check_name(&name, &section);
        let (port, device) = read_port(&name, &mut section, folder);
        check_twin(&name, &port, router, &section);
        if let Some(first) = devices.claim(device.value, &port.name) {
            section.mistakes().add(
                &device.span,
                format!("found the device of port `{first}` again, expected a device of its own for each port"),
            );
        }
        let index = ports.len() as u16;
        own.push(Interface {
            name: port.name.clone(),
            port: index,
            vlan: None,
            mtu: port.mtu,
            addresses: read_addresses(&mut section, &port.name, port.mtu, &mut addresses),
        });
        for (id, vlan) in section.named_tables("vlan") {
            vlans.extend(read_vlan(&id, vlan, &port, index, &mut addresses));
        }
        ports.push(port);
        section.finish();
    }
    own.append(&mut vlans);
    if own.len() > INTERFACES {
        let found = own.len();
        root.mistakes().add(&(0..0), format!("found {found} interfaces, expected at most {INTERFACES}"));
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

/// The port, and what opens its device with the place where that stands.
fn read_port(name: &At<String>, s: &mut Section, folder: &Path) -> (Port, At<String>) {
    let device = read_device(name, s, folder);
    let opens = match &device.value {
        Device::Dpdk(text) => text.split(',').next().unwrap_or(text).to_owned(),
        Device::Linux { interface, .. } => format!("the Linux interface {interface}"),
    };
    let mut port = Port {
        name: name.value.clone(),
        device: device.value,
        mac: None,
        mtu: 1500,
        promiscuous: false,
        queues: None,
        twin: true,
    };
    let mac = s.text("mac", "the MAC address of one station, such as \"02:00:00:00:00:01\"", station);
    port.mac = mac.map(|mac| mac.value);
    set(&mut port.mtu, s.integer("mtu", "bytes of IP", 68..=9600));
    set(&mut port.promiscuous, s.boolean("promiscuous"));
    port.queues = s.integer("queues", "receive queues", 1..=128).map(|q| q.value);
    set(&mut port.twin, s.boolean("twin"));
    (port, At { value: opens, span: device.span })
}

/// `device`, or `interface` with `driver`.
fn read_device(name: &At<String>, s: &mut Section, folder: &Path) -> At<Device> {
    let expected = "a PCI address or a virtual device, such as \"0000:01:00.0\" or \"net_pcap0,rx_pcap=in.pcap\"";
    let device = s.text("device", expected, |text| dpdk_device(text, folder));
    let interface = s.text("interface", "the name of a Linux interface, at most 15 characters", |text| {
        let odd = |c: char| c.is_whitespace() || matches!(c, '/' | ',' | ':');
        if text.is_empty() || text.len() > NAME || text.contains(odd) { unfit() } else { Ok(text.to_owned()) }
    });
    let driver = s.text("driver", "\"af_packet\" or \"af_xdp\"", |text| match text {
        "af_packet" => Ok(LinuxDriver::AfPacket),
        "af_xdp" => Ok(LinuxDriver::AfXdp),
        _ => unfit(),
    });
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
    let value = match (device, interface) {
        (Some(device), _) => Device::Dpdk(device.value),
        (None, Some(interface)) => {
            let driver = driver.map_or(LinuxDriver::AfPacket, |d| d.value);
            Device::Linux { interface: interface.value, driver }
        }
        // Was reported; a stand-in that no other port can share keeps the rest checked.
        (None, None) => Device::Dpdk(format!("none_{}", name.value)),
    };
    At { value, span: places.0.or(places.1).unwrap_or(s.span.clone()) }
}

/// A MAC address that a frame can come from.
pub(super) fn station(text: &str) -> Parsed<MacAddr> {
    let mac: MacAddr = text.parse().map_err(|_| "not six pairs of hexadecimal digits with colons between")?;
    match mac.is_unicast() {
        true => Ok(mac),
        false => Err("a group address or zero".into()),
    }
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
            part = format!("{key}={}", below(folder, path).display());
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

fn read_vlan(id: &At<String>, mut s: Section, port: &Port, index: u16, addresses: &mut Once) -> Option<Interface> {
    let number = id.value.parse::<u16>().ok();
    let vlan = number.filter(|n| (1..=4094).contains(n) && n.to_string() == id.value);
    if vlan.is_none() {
        let message = format!("found the VLAN {:?}, expected a number from 1 to 4094", id.value);
        s.mistakes().add(&id.span, message);
    }
    let name = format!("{}.{}", port.name, id.value);
    let mtu_at = s.integer("mtu", "bytes of IP", 68..=9600);
    let mtu = mtu_at.as_ref().map_or(port.mtu, |mtu| mtu.value);
    if let Some(at) = mtu_at
        && at.value > port.mtu
    {
        let message = format!("found an MTU of {mtu}, expected at most {}, the port's own", port.mtu);
        s.mistakes().add(&at.span, message);
    }
    let addresses = read_addresses(&mut s, &name, mtu, addresses);
    s.finish();
    Some(Interface { name, port: index, vlan: Some(vlan?), mtu, addresses })
}

fn read_addresses(s: &mut Section, owner: &str, mtu: u16, taken: &mut Once) -> Vec<InterfaceAddress> {
    let expected = "an address of the router with the length of its network's prefix, such as \"10.0.0.1/24\"";
    let list = s.list("addresses", expected, |value| match value {
        DeValue::String(text) => own_address(text),
        _ => unfit(),
    });
    for At { value, span } in &list {
        let address = value.address;
        // Each link has link-local addresses of its own (RFC 4007 5): fe80::1 may be on all of them.
        let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let claimed = if link_local { format!("{address}%{owner}") } else { address.to_string() };
        if let Some(first) = taken.claim(claimed, owner) {
            let message = format!("found {address}, which `{first}` has already, expected it on one interface");
            s.mistakes().add(span, message);
        }
        check_ipv6_mtu(s, address, mtu, span);
    }
    list.into_iter().map(|at| at.value).collect()
}

fn check_ipv6_mtu(s: &Section, address: IpAddr, mtu: u16, span: &Span) {
    if address.is_ipv6() && mtu < IPV6_MTU {
        s.mistakes().add(
            span,
            format!(
                "found an IPv6 address on an interface with an MTU of {mtu}, expected an MTU of at least {IPV6_MTU}"
            ),
        );
    }
}

/// An address that a host may have (RFC 1122 3.2.1.3, RFC 4291 2.5 and 2.7).
fn own_address(text: &str) -> Parsed<InterfaceAddress> {
    let own: InterfaceAddress = match text.parse() {
        Ok(own) => own,
        Err(_) if text.parse::<IpAddr>().is_ok() => return Err("it has no prefix length".into()),
        Err(_) => return unfit(),
    };
    let address = own.address;
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err("no host's address".into());
    }
    if own.prefix_len == 0 {
        return Err("its network would be everything".into());
    }
    if let IpAddr::V4(v4) = address {
        if v4.is_broadcast() || v4.octets()[0] >= 240 {
            return Err("no host's address".into());
        }
        // Of old, the address of the network is a broadcast address, too.
        if own.broadcasts().any(|broadcast| broadcast == v4) {
            let first = own.network().addr() == address;
            let what = if first { "the address of the network itself" } else { "the network's broadcast address" };
            return Err(what.into());
        }
    }
    Ok(own)
}
