// SPDX-License-Identifier: MIT
//! A Linux network namespace, as `ip netns` and `/proc` name it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// A network namespace: by name (`/run/netns/NAME`), by path, or that of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Namespace {
    /// As `ip netns add` makes it, under `/run/netns`.
    Name(String),
    /// Any bind mount of a namespace; begins with `/`.
    Path(PathBuf),
    /// That of this process.
    Pid(u32),
}

/// A text that names no namespace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no name of a namespace")]
pub struct NamespaceError;

impl Namespace {
    /// The file to open to enter it.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Name(name) => PathBuf::from("/run/netns").join(name),
            Self::Path(path) => path.clone(),
            Self::Pid(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Pid(pid) => write!(f, "{pid}"),
        }
    }
}

impl FromStr for Namespace {
    type Err = NamespaceError;

    fn from_str(text: &str) -> Result<Self, NamespaceError> {
        if text.starts_with('/') {
            return Ok(Self::Path(text.into()));
        }
        if let Ok(pid) = text.parse() {
            return Ok(Self::Pid(pid));
        }
        let odd = text.is_empty() || text.contains(['/', '\0']) || text == "." || text == "..";
        if odd { Err(NamespaceError) } else { Ok(Self::Name(text.into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_prints_as_it_parses() {
        for (text, path) in
            [("blue", "/run/netns/blue"), ("/proc/1/ns/net", "/proc/1/ns/net"), ("4711", "/proc/4711/ns/net")]
        {
            let namespace = text.parse::<Namespace>().unwrap();
            assert_eq!((namespace.to_string().as_str(), namespace.path()), (text, path.into()));
        }
        for text in ["", ".", "..", "a/b", "a\0"] {
            assert_eq!(text.parse::<Namespace>(), Err(NamespaceError), "{text}");
        }
    }
}
