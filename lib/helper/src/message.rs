// SPDX-License-Identifier: MIT
//! The messages between router and helper.
//!
//! The socket is of type `SOCK_SEQPACKET`: the kernel keeps messages apart, so each is one JSON text and needs no
//! length before it. A descriptor travels with its answer (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::failure::{Failure, Refusal};
use perigee_net::{InterfaceAddress, MacAddr, Namespace};

/// How long a process at the other end may be silent while it is waited for. A request takes milliseconds; the machine
/// may be busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How many twins or interfaces are in one request at most: each is answered within `PATIENCE` of the one before it,
/// and a start that is interrupted waits for them all.
pub const AT_ONCE: usize = 32;

/// The longest message in bytes; a twin with a thousand addresses fits.
const LONGEST: usize = 128 * 1024;

/// A requested twin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwinWanted {
    /// The interface's name, which is the port's.
    pub name: String,
    /// The port's MAC address.
    pub mac: MacAddr,
    /// Bytes of an IP packet.
    pub mtu: u16,
    /// The namespace to make it in; the router's own if `None`.
    pub namespace: Option<Namespace>,
    /// The router's addresses there.
    pub addresses: Vec<InterfaceAddress>,
    /// Whether to set it up immediately.
    pub up: bool,
}

/// A change to a twin; fields that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkChange {
    /// The interface's name.
    pub name: String,
    /// Linux's number of it, which stays when it is renamed; `None`: it is found by its name.
    #[serde(default)]
    pub index: Option<u32>,
    /// Where it is.
    pub namespace: Option<Namespace>,
    /// Whether Linux may use it.
    pub up: Option<bool>,
    /// Whether its port has a link.
    pub carrier: Option<bool>,
    /// Bytes of an IP packet.
    pub mtu: Option<u16>,
    /// Its MAC address.
    #[serde(default)]
    pub mac: Option<MacAddr>,
    /// Addresses to remove.
    #[serde(default)]
    pub remove: Vec<InterfaceAddress>,
    /// Addresses to add.
    #[serde(default)]
    pub add: Vec<InterfaceAddress>,
    /// Whether it is to be deleted: a VLAN that the configuration does not name any more.
    #[serde(default)]
    pub delete: bool,
}

/// How to prepare a Linux interface for a port: up, with a silent kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkPreparation {
    /// The interface, in the router's own namespace.
    pub name: String,
    /// The interface's new MAC address if it has the port's: otherwise the kernel would take the port's packets for
    /// its own.
    pub other_mac: Option<MacAddr>,
    /// Bytes of an IP packet, if it is to be changed.
    pub mtu: Option<u16>,
    /// Whether the port's driver attaches an XDP program and cannot detach it without privileges, as DPDK's
    /// `net_af_xdp`: the helper does it at the end.
    pub leaves_program: bool,
}

impl LinkPreparation {
    /// That of an interface with the address `own`, under a port with the address `port`.
    #[must_use]
    pub fn new(name: &str, own: MacAddr, port: MacAddr, mtu: u16) -> LinkPreparation {
        LinkPreparation {
            name: name.to_owned(),
            other_mac: (own == port).then(|| another_mac(own)),
            mtu: Some(mtu),
            leaves_program: false,
        }
    }
}

/// A locally administered address that differs from the one given.
fn another_mac(mac: MacAddr) -> MacAddr {
    let mut octets = mac.octets();
    octets[0] = (octets[0] | 0x02) & 0xfe;
    octets[5] ^= 0x80;
    octets[4] ^= 0x70;
    MacAddr(octets)
}

/// A neighbor to set or remove in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighborChange {
    /// Linux's number of the twin.
    pub link: u32,
    /// The neighbor's address.
    pub address: IpAddr,
    /// Its MAC address; `None` removes the entry.
    pub mac: Option<MacAddr>,
}

/// The protocol number that marks entries as this router's own, among those of `/etc/iproute2/rt_protos`.
pub const PROTOCOL: u8 = 0x9e;

/// A socket that lives in the twins' namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketWanted {
    /// A netlink socket for notifications, with room for this many bytes.
    Monitor(usize),
    /// A netlink socket for dumps.
    Dumps,
    /// A listener for TCP connections to this address.
    Listener(SocketAddr),
    /// A netlink socket for questions about whose a connection is.
    Diagnosis,
}

/// A twin that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwinStatus {
    /// The interface's name.
    pub name: String,
    /// Where it is; the router's own namespace if `None`.
    pub namespace: Option<Namespace>,
    /// Linux's number of it there.
    pub index: u32,
}

/// The router's requests.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Twins to make. Each of these is answered with [`Answer::Twin`] as soon as it is made, until one is
    /// [refused](Answer::Refused).
    MakeTwins(Vec<TwinWanted>),
    ChangeLink(LinkChange),
    /// The MAC addresses of interfaces. Each is answered with [`Answer::Mac`], until one is [refused](Answer::Refused).
    LinkMacs(Vec<String>),
    /// Interfaces to prepare. Each is answered with [`Answer::Done`] as soon as it is, until one is
    /// [refused](Answer::Refused).
    PrepareLinks(Vec<LinkPreparation>),
    /// Answered with [`Answer::Socket`].
    OpenSocket {
        socket: SocketWanted,
        namespace: Option<Namespace>,
    },
    ChangeNeighbors {
        neighbors: Vec<NeighborChange>,
        namespace: Option<Namespace>,
    },
    /// Interfaces of Linux, in the router's namespace, on which neighbors may be confirmed.
    Follow(Vec<String>),
    /// Neighbors that Linux is to ask whether they are still there, by their links' numbers.
    ConfirmNeighbors(Vec<(u32, IpAddr)>),
    MakeVlan {
        /// The twin.
        on: String,
        vlan: u16,
        wanted: TwinWanted,
    },
    /// Interfaces that a router of this name was killed on are restored at the end as this file says, which is removed. If
    /// `keep`, those of this router are not restored when it is killed, and the file says how.
    Inherit {
        file: PathBuf,
        keep: bool,
    },
    /// Files and empty folders to remove when the router has ended, in this order: it is another user then.
    RemoveAtEnd(Vec<PathBuf>),
    /// The router's configuration: the file, and what it names at the time, may be [opened](Request::OpenFile) for the
    /// router.
    Configuration(PathBuf),
    /// A file of the configuration, to be read. Answered with [`Answer::File`].
    OpenFile(PathBuf),
    /// The router has started: from now on no twin is made, no interface changed and no file removed that was not named
    /// before.
    Started,
    /// Start another helper, which takes over when this one dies. Answered with the socket to ask it by.
    Standby,
    /// From one helper to another, with a socket: the changes that come on it are to be taken over.
    StandBy,
}

impl Request {
    /// Whether each interface has a name that Linux gives: it becomes a part of paths below `/proc/sys`, and of
    /// messages. And whether there are not more in one request than a router asks for.
    ///
    /// # Errors
    /// The first one that has none, by its place; too many, or none at all.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let checked = match self {
            Request::MakeTwins(wanted) => return check_names(wanted.iter().map(|wanted| wanted.name.as_str())),
            Request::LinkMacs(names) => return check_names(names.iter().map(String::as_str)),
            Request::PrepareLinks(wanted) => return check_names(wanted.iter().map(|wanted| wanted.name.as_str())),
            Request::ChangeLink(change) => check_name(&change.name),
            Request::MakeVlan { on, wanted, .. } => check_name(on).and_then(|()| check_name(&wanted.name)),
            _ => Ok(()),
        };
        checked.map_err(|why| Failure::from(why).at(0))
    }

    /// Whether it has an answer for each of several, or a [refusal](Answer::Refused).
    pub(super) fn is_for_many(&self) -> bool {
        matches!(self, Request::MakeTwins(_) | Request::LinkMacs(_) | Request::PrepareLinks(_))
    }
}

fn check_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), Refusal> {
    let count = names.len();
    if !(1..=AT_ONCE).contains(&count) {
        let why =
            format!("found {count} interfaces in one request, expected 1 to {AT_ONCE}; ask for the others in more");
        return Err(Failure::from(why).at(0));
    }
    let check = |(at, name): (usize, &str)| check_name(name).map_err(|why| Failure::from(why).at(at));
    names.enumerate().try_for_each(check)
}

/// The longest name of an interface, in bytes: IFNAMSIZ without the zero at its end.
const LONGEST_NAME: usize = 15;

fn check_name(name: &str) -> Result<(), String> {
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '/' || c == ':';
    match (1..=LONGEST_NAME).contains(&name.len()) && !matches!(name, "." | "..") && !name.contains(odd) {
        true => Ok(()),
        false => Err(format!(
            "found `{name}` as the name of an interface, expected 1 to {LONGEST_NAME} bytes without spaces, `/` and `:`; \
             rename the interface or the port"
        )),
    }
}

/// The helper's answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Mac(MacAddr),
    /// Done; a twin's descriptor comes along.
    Twin(TwinStatus),
    /// A socket comes along.
    Socket,
    /// A file comes along.
    File,
    Done,
    /// A sentence: what could not be done, why, and what to do.
    Failed(String),
    /// The same about one of many, by its place among them. Those behind it have not been tried, and no further answer
    /// comes.
    Refused(usize, String),
}

/// The beginning of `all` that fits into one message, with much room for the rest of it: not more than [`AT_ONCE`], and
/// at least one.
pub(super) fn together<T: Serialize>(all: &[T]) -> &[T] {
    let mut left = LONGEST / 2;
    let fits = |item: &&T| {
        let length = serde_json::to_vec(item).map_or(LONGEST, |text| text.len());
        left.checked_sub(length).inspect(|now| left = *now).is_some()
    };
    let count = all.iter().take(AT_ONCE).take_while(fits).count();
    &all[..count.max(1).min(all.len())]
}

/// Sends one message, with at most one descriptor.
pub(super) fn send(socket: impl AsFd, message: &impl Serialize, fd: Option<BorrowedFd>) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > LONGEST {
        return Err(io::Error::other("the message is too long"));
    }
    let fds: Vec<BorrowedFd> = fd.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    // NOSIGNAL: a router that is gone is an error here, not the end of the process.
    sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message and the descriptor that came with it; `None` when the other side has closed the socket.
pub(super) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut text = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut text)];
    let received = loop {
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    // Without a free descriptor the kernel keeps the one that was sent, and says no more.
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other(
            "no file descriptor is left for the one sent: raise the limit (ulimit -n, LimitNOFILE=)",
        ));
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::other("the message is too long"));
    }
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(Some((serde_json::from_slice(&text[..received.bytes])?, fd)))
}

/// Waits until a descriptor is readable (`IN`) or writable (`OUT`), or its other end is closed, for at most `longest`;
/// returns whether it is.
pub(super) fn ready(fd: impl AsFd, what: PollFlags, longest: Duration) -> io::Result<bool> {
    let begin = Instant::now();
    loop {
        let left = Timespec::try_from(longest.saturating_sub(begin.elapsed())).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&fd, what)];
        match poll(&mut fds, Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result? > 0),
        }
    }
}

/// Whether nobody is at the other end of a socket any more.
pub(super) fn is_closed(socket: impl AsFd) -> bool {
    ready(socket, PollFlags::empty(), Duration::ZERO).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::Read;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_descriptor_travels_with_its_message() {
        let (a, b) = pair();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"hello").unwrap();
        send(&a, &Answer::Done, Some(file.as_fd())).unwrap();
        send(&a, &Answer::Failed("no".into()), None).unwrap();
        let (answer, fd) = receive::<Answer>(&b).unwrap().unwrap();
        assert!(matches!(answer, Answer::Done));
        let mut copy = std::fs::File::from(fd.expect("a descriptor"));
        std::io::Seek::rewind(&mut copy).unwrap();
        let mut text = String::new();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        let (answer, fd) = receive::<Answer>(&b).unwrap().unwrap();
        assert!(matches!(answer, Answer::Failed(text) if text == "no") && fd.is_none());
    }

    #[test]
    fn a_name_that_no_interface_has_is_refused() {
        for name in ["wan", "a", "wan.100", "fünf", "123456789012345"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "../all", "a b", "a:1", "a\n", "a\0", "1234567890123456"] {
            let twin = TwinWanted {
                name: name.into(),
                mac: MacAddr([2; 6]),
                mtu: 1500,
                namespace: None,
                addresses: vec![],
                up: false,
            };
            let change = LinkChange { name: name.into(), ..LinkChange::default() };
            for request in [
                Request::MakeTwins(vec![twin.clone()]),
                Request::ChangeLink(change),
                Request::LinkMacs(vec![name.into()]),
                Request::PrepareLinks(vec![LinkPreparation {
                    name: name.into(),
                    other_mac: None,
                    mtu: None,
                    leaves_program: false,
                }]),
                Request::MakeVlan { on: "wan".into(), vlan: 7, wanted: twin.clone() },
                Request::MakeVlan {
                    on: name.into(),
                    vlan: 7,
                    wanted: TwinWanted { name: "wan.7".into(), ..twin.clone() },
                },
            ] {
                assert!(request.check().is_err(), "{request:?}");
            }
        }
    }

    #[test]
    fn one_of_many_is_refused_by_its_place_and_too_many_are_refused() {
        let macs = |names: Vec<String>| Request::LinkMacs(names).check().map_err(|refusal| refusal.at);
        let names = |count: usize| (0..count).map(|n| format!("wan{n}")).collect::<Vec<_>>();
        assert_eq!(macs(names(AT_ONCE)), Ok(()));
        assert_eq!(macs([names(5), vec!["a b".into()], names(1)].concat()), Err(5));
        for count in [0, AT_ONCE + 1] {
            let refusal = Request::LinkMacs(names(count)).check().unwrap_err();
            let expected = format!("found {count} interfaces in one request, expected 1 to {AT_ONCE}");
            assert!(refusal.failure.to_string().starts_with(&expected), "{refusal:?}");
        }
    }

    #[test]
    fn the_end_and_nonsense_are_told_apart() {
        let (a, b) = pair();
        rustix::io::write(&a, b"{\"make_twin\":7}").unwrap();
        assert!(receive::<Request>(&b).is_err());
        drop(a);
        assert!(receive::<Request>(&b).unwrap().is_none());
        assert!(send(&b, &Request::LinkMacs(vec!["wan".into()]), None).is_err(), "nobody is there");
    }

    #[test]
    fn what_is_sent_together_fits_into_a_message() {
        let texts = |count: usize, length: usize| vec!["x".repeat(length); count];
        let counts = [(0, 1), (1, 1), (AT_ONCE, 1), (1000, 1), (3, LONGEST / 6), (3, LONGEST / 4), (2, LONGEST)];
        let together = counts.map(|(count, length)| together(&texts(count, length)).len());
        assert_eq!(together, [0, 1, AT_ONCE, AT_ONCE, 2, 1, 1]);
    }
}
