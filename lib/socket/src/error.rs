// SPDX-License-Identifier: MIT
//! Errors, each of which is a sentence.

use std::io;

/// A sentence: what was tried, what happened, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }
}

/// What failed on an interface, the kernel's reason, and what may help.
pub(crate) fn failed(interface: &str, what: &str, error: &io::Error) -> Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "CAP_NET_RAW is needed: run as root (`sudo`) or in a namespace of your own (`unshare -Urn`)"
        }
        Some(libc::ENODEV | libc::ENXIO) => "`ip link` lists the interfaces of this network namespace",
        Some(libc::ENOMEM | libc::ENOBUFS) => "a receive ring takes 2 MB: configure fewer queues or free some memory",
        Some(libc::EMFILE) => "each queue takes a file descriptor or more: raise the limit (`ulimit -n`)",
        _ => "`ip -details link` shows what kind of interface it is, and Ethernet is expected",
    };
    Error::new(format!("interface {interface}: {what}: {}; {hint}", text(error)))
}

/// What failed on the way to AF_XDP sockets on an interface, the kernel's reason, and what may help.
pub(crate) fn xdp_failed(interface: &str, what: &str, error: &io::Error) -> Error {
    let detach;
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are needed, and no namespace of users grants the last: run as root (`sudo`)"
        }
        Some(libc::EBUSY | libc::EEXIST) => {
            detach = format!(
                "another program uses XDP there: end it, or detach what it left by `ip link set dev {interface} xdp off`"
            );
            &detach
        }
        Some(libc::ENOMEM | libc::ENOBUFS) => {
            "each queue takes up to 12 MB that cannot be swapped: raise the limit (`ulimit -l`), or give the device fewer queues \
             (`ethtool -L`)"
        }
        Some(libc::ERANGE) => {
            "its driver takes XDP programs with a smaller MTU only (with veth that of the other end counts), often of at most 3,498 bytes: \
             lower it, or use packet sockets"
        }
        Some(libc::EAFNOSUPPORT | libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT) => {
            "Linux 5.9 or later with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS is needed: use packet sockets"
        }
        Some(libc::EMFILE) => "each queue takes several file descriptors: raise the limit (`ulimit -n`)",
        _ => "packet sockets work with every interface",
    };
    Error::new(format!("interface {interface}: {what}: {}; {hint}", text(error)))
}

/// The kernel's words without Rust's "(os error N)".
pub(crate) fn text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
