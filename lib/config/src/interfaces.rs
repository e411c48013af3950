// SPDX-License-Identifier: MIT
//! `[port.NAME.vlan.ID]`, `addresses` and the switches of interfaces: those of ports and of VLANs.

use std::net::IpAddr;

use perigee_net::{InterfaceAddress, MulticastLimits, Policy, Prefix, ReversePath, is_link_local};

use super::given::{At, Parsed, unfit};
use super::kind::{Kind, at, boolean, choice, integer, list, optional, text};
use super::multicast::LimitKeys;
use super::once::Once;
use super::reader::Section;
use super::section::{Context, section};

/// The smallest MTU of a link that carries IPv6 (RFC 8200 section 5).
const IPV6_MTU: u16 = 1280;
/// Interface numbers from 0xfff0 on mean something else in a next hop.
pub(crate) const INTERFACES: usize = 0xfff0;

section! {
    /// A VLAN of a port, an interface of its own: frames with this tag (IEEE 802.1Q), 1 to 4094.
    pub(crate) struct VlanKeys(context) keys {
        /// The longest IP packet that is sent; at most that of the port.
        mtu: Option<At<u16>>, optional(at(mtu_kind())), default None => "the port's", live;
    }
}

section! {
    /// The addresses of an interface.
    pub(crate) struct AddressKeys(context) keys {
        /// The router's own addresses, each with the length of its network's prefix. A port's twin has them too.
        addresses: Vec<At<InterfaceAddress>>, list(at(own_address())), default Vec::new(), live;
    }
}

section! {
    /// What an interface does beyond plain forwarding.
    pub(crate) struct PolicyKeys(context) keys {
        /// Whether a sender on the interface's own link is told of a better first hop when a packet leaves by the interface that
        /// it came in on (RFC 1812 5.2.7.2, RFC 4861 8.2). The packet is forwarded all the same.
        redirects: bool, boolean(), default true, live;
        /// Whether a packet that comes in needs a route back to its source. `strict`: out of this interface, one of several paths
        /// will do; `loose`: out of any, and a default route is enough (unicast reverse path forwarding, RFC 3704).
        urpf: ReversePath, choice(URPF), default ReversePath::Off, live;
        /// Whether packets from elsewhere to the broadcast addresses of the interface's networks are sent to all stations there,
        /// which can amplify an attack (RFC 2644).
        directed_broadcast: bool, boolean(), default false, live;
        /// Whether IPv4 source routes of packets that come in are followed: RFC 1812 5.2.4.1 wants it, RFC 7126 4.3 warns of it.
        /// Such packets are dropped otherwise.
        source_routes: bool, boolean(), default false, live;
    }
}

const URPF: &[(&str, ReversePath)] =
    &[("off", ReversePath::Off), ("loose", ReversePath::Loose), ("strict", ReversePath::Strict)];

impl PolicyKeys {
    /// The keys that describe `policy`.
    pub fn of(policy: Policy) -> Self {
        let Policy { redirects, urpf, directed_broadcast, source_routes } = policy;
        Self { redirects, urpf, directed_broadcast, source_routes }
    }

    /// What they say.
    pub fn policy(self) -> Policy {
        let Self { redirects, urpf, directed_broadcast, source_routes } = self;
        Policy { redirects, urpf, directed_broadcast, source_routes }
    }
}

/// A port's own interface, or one of its VLANs (`[port.NAME.vlan.ID]`).
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// `wan`, or `wan.100`.
    pub name: String,
    /// Index in [`Config::ports`](super::Config::ports).
    pub port: u16,
    /// 1 to 4094; `None` for untagged frames.
    pub vlan: Option<u16>,
    /// Bytes of an IP packet.
    pub mtu: u16,
    /// The router's own addresses, each with the length of its network's prefix.
    pub addresses: Vec<InterfaceAddress>,
    /// What it does beyond plain forwarding.
    pub policy: Policy,
    /// What of multicast may pass it.
    pub multicast: MulticastLimits,
}

impl AddressKeys {
    /// The keys that describe `addresses`.
    pub fn of(addresses: &[InterfaceAddress]) -> Self {
        Self { addresses: addresses.iter().copied().map(At::nowhere).collect() }
    }
}

/// The VLAN `id` of the port whose own interface is `port`.
pub(crate) fn read_vlan(
    id: &At<String>,
    mut s: Section,
    context: &Context,
    port: &Interface,
    addresses: &mut Addresses,
) -> Option<Interface> {
    let number = id.value.parse::<u16>().ok();
    let vlan = number.filter(|n| (1..=4094).contains(n) && n.to_string() == id.value);
    if vlan.is_none() {
        let message = format!("found the VLAN {:?}, expected a number from 1 to 4094", id.value);
        s.mistakes().add(&id.span, message);
    }
    let name = format!("{}.{}", port.name, id.value);
    let given = VlanKeys::read(&mut s, context).mtu;
    let mtu = given.as_ref().map_or(port.mtu, |mtu| mtu.value);
    if let Some(at) = given
        && at.value > port.mtu
    {
        let message = format!("found an MTU of {mtu}, expected at most {}, the port's own", port.mtu);
        s.mistakes().add(&at.span, message);
    }
    let addresses = addresses.check(AddressKeys::read(&mut s, context), &name, mtu, &s);
    let policy = PolicyKeys::read(&mut s, context).policy();
    let multicast = LimitKeys::read(&mut s, context).limits();
    s.finish();
    Some(Interface { name, port: port.port, vlan: Some(vlan?), mtu, addresses, policy, multicast })
}

/// The addresses and networks that interfaces have so far.
#[derive(Default)]
pub(crate) struct Addresses {
    addresses: Once,
    networks: Once,
}

impl Addresses {
    /// The addresses of the interface `owner`, each checked against the others and against its MTU.
    pub fn check(&mut self, keys: AddressKeys, owner: &str, mtu: u16, s: &Section) -> Vec<InterfaceAddress> {
        for At { value, span } in &keys.addresses {
            let address = value.address;
            // Each link has link-local addresses of its own (RFC 4007 5): fe80::1 may be on all of them.
            let claimed = if is_link_local(address) { format!("{address}%{owner}") } else { address.to_string() };
            if let Some(first) = self.addresses.claim(claimed, owner) {
                let message = format!("found {address}, which `{first}` has already, expected it on one interface");
                s.mistakes().add(span, message);
            } else if let Some(first) = self.network_elsewhere(*value, owner) {
                let message = format!(
                    "found {value}, whose network `{first}` is on already, expected each network on one interface: stations on the \
                     other one would not be reached"
                );
                s.mistakes().add(span, message);
            }
            if address.is_ipv6() && mtu < IPV6_MTU {
                let message = format!(
                    "found an IPv6 address on an interface with an MTU of {mtu}, expected an MTU of at least {IPV6_MTU}"
                );
                s.mistakes().add(span, message);
            }
        }
        keys.addresses.into_iter().map(|at| at.value).collect()
    }

    /// Another interface that is on the same network; one within another is found by the longer prefix.
    fn network_elsewhere(&mut self, own: InterfaceAddress, owner: &str) -> Option<String> {
        let network = own.network();
        let alone = is_link_local(own.address) || network == Prefix::host(own.address);
        let first = (!alone).then(|| self.networks.claim(network.to_string(), owner)).flatten();
        first.filter(|first| first != owner)
    }
}

/// Bytes of an IP packet that a link may carry.
pub(crate) fn mtu_kind() -> Kind<'static, u16> {
    integer("bytes of IP", 68..=9600)
}

fn own_address() -> Kind<'static, InterfaceAddress> {
    let expected = "an address of the router with the length of its network's prefix, such as \"10.0.0.1/24\"";
    text(expected, host_address)
}

/// An address that a host may have (RFC 1122 3.2.1.3, RFC 4291 2.5 and 2.7).
fn host_address(text: &str) -> Parsed<InterfaceAddress> {
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
        // Historically, the address of the network is a broadcast address, too.
        if own.broadcasts().any(|broadcast| broadcast == v4) {
            let first = own.network().addr() == address;
            let what = if first { "the address of the network itself" } else { "the network's broadcast address" };
            return Err(what.into());
        }
    }
    Ok(own)
}
