// SPDX-License-Identifier: MIT
//! Claims on what one router has alone: its API's socket, the interfaces under its ports. Two routers on one interface
//! would both take every packet, and the first one's helper would restore the interface under the second.
//!
//! ```text
//!  claim      an abstract unix socket, whose name the kernel gives once in a network namespace, and takes back with the last descriptor
//!  holders    the router until its process is gone, and its helpers until they have restored everything: they inherit the descriptors
//!  who it is  a connection names the process that listens; one that has ended leaves its helpers as holders
//! ```
//!
//! Any user may take an abstract name, so a holder counts only if it may be a router: its socket is root's or this
//! user's, or the process has or has a child with `CAP_NET_ADMIN` here, by a file's capabilities. Where a connection
//! does not say whose the socket is, the kernel's diagnosis does (`claims/owner.rs`).

mod owner;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

/// Most connections of others that ask who holds a claim; each leaves one, as nobody accepts them.
const ASKED: i32 = 4096;

/// What a router has alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its API's socket.
    Socket(PathBuf),
    /// An interface in the network namespace of the calling thread.
    Interface(String),
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Claim::Socket(path) => write!(f, "the API's socket {}", path.display()),
            Claim::Interface(name) => write!(f, "the interface {name}"),
        }
    }
}

impl Claim {
    /// The names that stand for it: an interface may be renamed, or made again under its name; a folder may have
    /// several paths.
    fn names(&self) -> Vec<String> {
        match self {
            Claim::Socket(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                // Always, as the folder may be made later. Containers that share a network have paths of their own.
                let mounts = fs::metadata("/proc/self/ns/mnt").map_or(0, |mounts| mounts.ino());
                let by_path = format!("perigee/socket/{}@{mounts}", path.display());
                let by_folder =
                    folder.map(|folder| format!("perigee/socket/{:x}:{}/{file}", folder.dev(), folder.ino()));
                std::iter::once(by_path).chain(by_folder).map(|name| shortened(&name)).collect()
            }
            Claim::Interface(name) => {
                let index = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                    .and_then(|socket| rustix::net::netdevice::name_to_index(socket, name));
                let index = index.map(|index| format!("perigee/interface #{index}"));
                std::iter::once(format!("perigee/interface {name}")).chain(index).collect()
            }
        }
    }
}

/// An abstract name has at most 107 bytes. The end is what differs.
fn shortened(name: &str) -> String {
    let start = name.char_indices().map(|(at, _)| at).find(|at| name.len() - at <= 100);
    name[start.unwrap_or(0)..].to_owned()
}

/// Who has a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A process that runs.
    Process {
        /// Its number; 0 if it is in another process namespace.
        pid: u32,
        /// Its command line, as far as it can be read.
        command: String,
    },
    /// A router that ends or has ended, and has not restored everything yet.
    Ending,
}

/// A claim that another router has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Taken {
    /// The claim.
    pub claim: Claim,
    /// Who has it.
    pub holder: Holder,
}

impl Display for Taken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let claim = &self.claim;
        match &self.holder {
            Holder::Process { pid, command } => {
                write!(f, "{claim} is another router's: ")?;
                match pid {
                    0 => f.write_str("a process that cannot be seen from here")?,
                    pid => write!(f, "process {pid}")?,
                }
                if command.is_empty() { Ok(()) } else { write!(f, " (`{command}`)") }
            }
            Holder::Ending => {
                write!(f, "{claim} is that of a router that ends, or has ended and is not undone by its helper yet")
            }
        }
    }
}

/// What this router has claimed. Dropping it gives back its share.
#[derive(Debug, Default)]
pub struct Claims {
    held: Vec<OwnedFd>,
}

impl Claims {
    /// Claims all of these, or none.
    ///
    /// # Errors
    /// One is another router's.
    pub fn take(wanted: &[Claim]) -> Result<Claims, Taken> {
        let mut claims = Claims::default();
        for claim in wanted {
            for name in claim.names() {
                match take(&name) {
                    Ok(socket) => claims.held.push(socket),
                    Err(Errno::ADDRINUSE) => match holder(&name) {
                        Some(holder) => return Err(Taken { claim: claim.clone(), holder }),
                        None => tracing::warn!(
                            "the name that stands for {claim} is taken by a process that is no router (`ss -xap | grep '{name}'` \
                             shows it): another router on it would not be noticed"
                        ),
                    },
                    // It protects from mistakes: a router without it is better than none.
                    Err(error) => tracing::warn!("{claim} could not be claimed: {}", io::Error::from(error)),
                }
            }
        }
        Ok(claims)
    }

    /// Says to whoever asks that this router ends: a start may wait for that.
    pub fn end(&self) {
        for socket in &self.held {
            // Connections are refused from now on, and the name stays taken.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Read);
        }
    }

    /// Runs `start`, which starts a process that holds the claims, too, and those that it starts.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn share<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        let mark = |flags| self.held.iter().try_for_each(|socket| fcntl_setfd(socket, flags));
        mark(FdFlags::empty())?;
        let started = start();
        mark(FdFlags::CLOEXEC)?;
        Ok(started)
    }
}

fn take(name: &str) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&socket, ASKED)?;
    Ok(socket)
}

/// Who has a name; `None`: a process that is no router.
fn holder(name: &str) -> Option<Holder> {
    let own = rustix::process::geteuid().as_raw();
    judge(ask(name), || owner::users(name), |user| user == 0 || user == own)
}

/// The process that listens, and its user.
fn ask(name: &str) -> Result<(u32, u32), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    peer(&socket)
}

/// Who it is that [answered](ask), or did not. A socket that does not listen, or takes no more connections, may be any
/// user's: `owners` says whose it is.
fn judge(
    asked: Result<(u32, u32), Errno>,
    owners: impl FnOnce() -> io::Result<BTreeSet<u32>>,
    may_be_a_routers: impl Fn(u32) -> bool,
) -> Option<Holder> {
    let unknown = Holder::Process { pid: 0, command: String::new() };
    match asked {
        Ok((0, user)) => may_be_a_routers(user).then_some(unknown),
        Ok((pid, user)) if may_be_a_routers(user) || is_privileged(pid, user) => Some(match is_ending(pid) {
            true => Holder::Ending,
            false => Holder::Process { pid, command: command(pid) },
        }),
        Ok(_) => None,
        Err(why) => match owners() {
            // It was given back meanwhile.
            Ok(owners) if owners.is_empty() => Some(Holder::Ending),
            Ok(owners) if !owners.iter().copied().any(&may_be_a_routers) => None,
            // It does not listen yet, or any more.
            Ok(_) if why == Errno::CONNREFUSED => Some(Holder::Ending),
            Ok(_) => Some(unknown),
            Err(error) => {
                tracing::warn!("the kernel does not say whose a unix socket is (UNIX_DIAG): {error}");
                None
            }
        },
    }
}

/// Number and user of the process that made the other end of a socket, or listens there; the number is 0 if it is in
/// another process namespace.
pub(crate) fn peer(socket: &OwnedFd) -> Result<(u32, u32), Errno> {
    // rustix has no number 0 for a process.
    let peer = nix::sys::socket::getsockopt(socket, nix::sys::socket::sockopt::PeerCredentials);
    peer.map(|peer| (peer.pid().unsigned_abs(), peer.uid())).map_err(|error| Errno::from_raw_os_error(error as i32))
}

/// The text of a file below a process's `/proc`.
fn read(pid: u32, file: &str) -> Option<String> {
    let text = fs::read(Path::new("/proc").join(pid.to_string()).join(file)).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn command(pid: u32) -> String {
    read(pid, "cmdline").unwrap_or_default().replace('\0', " ").trim().to_owned()
}

/// Whether a process has gone, or is on its way: a killed one closes its descriptors first.
fn is_ending(pid: u32) -> bool {
    /// `PF_EXITING` of the kernel's sched.h.
    const EXITING: u64 = 4;
    let Some(stat) = read(pid, "stat") else { return true };
    // The command's name, in parentheses, may have blanks.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let state = fields.next().unwrap_or_default();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    let killed = || {
        let status = read(pid, "status").unwrap_or_default();
        let pending = |key| status.lines().find_map(|line| line.strip_prefix(key));
        let bits = |mask: &str| u64::from_str_radix(mask.trim(), 16).unwrap_or(0);
        const KILL: u64 = 1 << 8;
        ["SigPnd:", "ShdPnd:"].into_iter().filter_map(pending).any(|mask| bits(mask) & KILL != 0)
    };
    matches!(state, "Z" | "X" | "x") || flags.is_some_and(|flags| flags & EXITING != 0) || killed()
}

/// Whether a process of this user, or a child of it, has `CAP_NET_ADMIN` in this user namespace.
fn is_privileged(pid: u32, user: u32) -> bool {
    let children = read(pid, &format!("task/{pid}/children")).unwrap_or_default();
    let own = fs::read_link("/proc/self/ns/user").ok();
    let has = |pid: u32| {
        let status = read(pid, "status").unwrap_or_default();
        has_net_admin(&status, user) && fs::read_link(format!("/proc/{pid}/ns/user")).ok() == own
    };
    std::iter::once(pid).chain(children.split_whitespace().filter_map(|child| child.parse().ok())).any(has)
}

/// Whether a process has `CAP_NET_ADMIN` and is this user's in every respect, by its `/proc/PID/status`. Any user may
/// start `su`, which is root while it asks for a password: only an administrator gives a file capabilities.
fn has_net_admin(status: &str, user: u32) -> bool {
    const NET_ADMIN: u64 = 1 << 12;
    let value = |key| status.lines().find_map(|line: &str| line.strip_prefix(key)).unwrap_or_default();
    let mask = u64::from_str_radix(value("CapPrm:").trim(), 16).unwrap_or(0);
    let users: Vec<Option<u32>> = value("Uid:").split_whitespace().map(|user| user.parse().ok()).collect();
    mask & NET_ADMIN != 0 && users.len() == 4 && users.iter().all(|id| *id == Some(user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn socket(name: &str) -> Claim {
        Claim::Socket(std::env::temp_dir().join(format!("{name}-{}.sock", std::process::id())))
    }

    /// What nobody has any more. A program that another test has just started has a copy of each socket until it is the
    /// program.
    fn take_what_is_free(claims: &[Claim]) -> Claims {
        let start = Instant::now();
        loop {
            match Claims::take(claims) {
                Ok(taken) => return taken,
                Err(taken) => assert!(start.elapsed() < Duration::from_secs(120), "{taken}"),
            }
            std::thread::yield_now();
        }
    }

    /// Two routers on one interface both took every packet, and the one that ended first restored it under the other.
    #[test]
    fn what_one_has_claimed_nobody_else_gets() {
        let (a, b) = (socket("claim-a"), socket("claim-b"));
        let first = Claims::take(std::slice::from_ref(&a)).unwrap();
        let taken = Claims::take(&[b.clone(), a.clone()]).unwrap_err();
        let pid = std::process::id();
        assert!(
            matches!(&taken.holder, Holder::Process { pid: found, command } if *found == pid && !command.is_empty())
        );
        assert!(taken.to_string().contains(&format!("is another router's: process {pid} (`")), "{taken}");
        let other = take_what_is_free(std::slice::from_ref(&b));
        first.end();
        assert_eq!(Claims::take(std::slice::from_ref(&a)).unwrap_err().holder, Holder::Ending);
        drop(first);
        let both = take_what_is_free(std::slice::from_ref(&a));
        drop((other, both));
    }

    /// The first router had it by its path, and made its folder; the second one had it by that folder.
    #[test]
    fn a_socket_whose_folder_is_made_later_is_claimed_once() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new");
        let claim = [Claim::Socket(folder.join("x.sock"))];
        let first = Claims::take(&claim).unwrap();
        fs::create_dir(&folder).unwrap();
        assert!(matches!(Claims::take(&claim).unwrap_err().holder, Holder::Process { .. }));
        drop(first);
        // By another path to the folder.
        let other = parent.path().join("other");
        std::os::unix::fs::symlink(&folder, &other).unwrap();
        let _first = take_what_is_free(&claim);
        assert!(Claims::take(&[Claim::Socket(other.join("x.sock"))]).is_err());
    }

    /// The helper of a router that was killed restored the interfaces of the next one.
    #[test]
    fn a_claim_is_held_as_long_as_a_process_that_inherited_it() {
        let claim = [socket("claim-inherited")];
        let claims = Claims::take(&claim).unwrap();
        let sleeper = || Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let mut heir = claims.share(sleeper).unwrap();
        let mut stranger = sleeper();
        drop(claims);
        assert!(Claims::take(&claim).is_err());
        heir.kill().unwrap();
        heir.wait().unwrap();
        take_what_is_free(&claim);
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    const NOBODYS: fn(u32) -> bool = |_| false;
    const ROUTERS: fn(u32) -> bool = |_| true;

    /// Who has a name whose sockets may be a router's, or may not.
    fn found(name: &str, may_be_a_routers: fn(u32) -> bool) -> Option<Holder> {
        judge(ask(name), || owner::users(name), may_be_a_routers)
    }

    fn named(name: &str) -> (String, OwnedFd) {
        let name = format!("perigee/test {name} {}", std::process::id());
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        (name, socket)
    }

    fn other_process() -> Holder {
        Holder::Process { pid: 0, command: String::new() }
    }

    /// Any user's `bind` kept every router from its start for two minutes, which then ended.
    #[test]
    fn a_strangers_socket_that_does_not_listen_is_no_router_that_ends() {
        let (name, socket) = named("bound");
        assert_eq!((found(&name, NOBODYS), found(&name, ROUTERS)), (None, Some(Holder::Ending)));
        // Connected elsewhere, it is in a state of its own.
        let (other, listener) = named("listens");
        listen(&listener, 1).unwrap();
        connect(&socket, &SocketAddrUnix::new_abstract_name(other.as_bytes()).unwrap()).unwrap();
        assert_eq!((found(&name, NOBODYS), found(&name, ROUTERS)), (None, Some(Holder::Ending)));
        drop(socket);
        assert_eq!(found(&name, NOBODYS), Some(Holder::Ending), "given back, so that the next attempt gets it");
    }

    #[test]
    fn a_strangers_socket_that_takes_no_connection_is_no_router() {
        let (name, socket) = named("full");
        listen(&socket, 0).unwrap();
        let mut asked = Vec::new();
        let full = loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let one = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            match connect(&one, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()) {
                Ok(()) => asked.push(one),
                Err(error) => break error,
            }
        };
        assert_eq!(full, Errno::AGAIN);
        assert_eq!((found(&name, NOBODYS), found(&name, ROUTERS)), (None, Some(other_process())));
    }

    #[test]
    fn a_stranger_in_another_process_namespace_is_no_router() {
        let unasked = || -> io::Result<BTreeSet<u32>> { panic!("the connection says it") };
        assert_eq!(judge(Ok((0, 1000)), unasked, NOBODYS), None);
        assert_eq!(judge(Ok((0, 1000)), unasked, ROUTERS), Some(other_process()));
    }

    #[test]
    fn a_stranger_that_listens_is_no_router() {
        let mut sleeper = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let unasked = || -> io::Result<BTreeSet<u32>> { panic!("the connection says it") };
        // Not the user that the process is.
        let user = rustix::process::geteuid().as_raw() + 1;
        assert_eq!(judge(Ok((sleeper.id(), user)), unasked, NOBODYS), None);
        let listens = judge(Ok((sleeper.id(), user)), unasked, ROUTERS);
        assert!(matches!(listens, Some(Holder::Process { pid, .. }) if pid == sleeper.id()), "{listens:?}");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn a_socket_whose_user_the_kernel_does_not_say_keeps_no_router_from_its_start() {
        let silent = || Err(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(judge(Err(Errno::CONNREFUSED), silent, ROUTERS), None);
    }

    /// `su` waits for a password as root, with all capabilities, as any user's child.
    #[test]
    fn a_stranger_with_a_password_prompt_is_no_router() {
        let status = |users: &str, mask: &str| format!("Name:\tx\nUid:\t{users}\nGid:\t0\t0\t0\t0\nCapPrm:\t{mask}\n");
        let all = "000001ffffffffff";
        assert!(!has_net_admin(&status("1000\t0\t0\t0", all), 1000), "su");
        assert!(!has_net_admin(&status("0\t0\t0\t0", all), 1000), "sudo");
        assert!(!has_net_admin(&status("1000\t1000\t1000\t1000", "0000000000000000"), 1000));
        assert!(!has_net_admin("", 1000));
        assert!(has_net_admin(&status("1000\t1000\t1000\t1000", "0000000000001000"), 1000), "a file's capability");
    }

    #[test]
    fn a_process_that_has_ended_is_ending() {
        let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!is_ending(process.id()));
        process.kill().unwrap();
        assert!(is_ending(process.id()), "killed, dying, or a zombie");
        process.wait().unwrap();
        assert!(is_ending(process.id()), "gone");
    }

    #[test]
    fn names_are_short_and_distinct() {
        let long = |end: &str| Claim::Socket(Path::new("/nowhere").join("x".repeat(150)).join(end));
        let (a, b) = (long("a.sock").names(), long("b.sock").names());
        assert!(a[0].len() <= 100 && a != b, "{a:?}");
        let lo = Claim::Interface("lo".into()).names();
        assert_eq!(lo, ["perigee/interface lo", "perigee/interface #1"]);
        assert_eq!(Claim::Interface("nowhere0".into()).names(), ["perigee/interface nowhere0"]);
    }
}
