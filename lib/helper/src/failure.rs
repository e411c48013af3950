// SPDX-License-Identifier: MIT
//! Why Linux refused something, and whether it was for want of a privilege.

use rtnetlink::Error;
use std::fmt;
use std::io;

/// What helps where a privilege is missing.
const WAY_OUT: &str = "run as root, with CAP_NET_ADMIN, or inside `unshare -Urnm`";

/// What helps where `/proc/sys` cannot be written to, as in containers.
const CONTAINER: &str = "a container is started with --privileged, or with `--cap-add NET_ADMIN,NET_RAW --device /dev/net/tun \
                         --security-opt unmask=/proc/sys` (docker: systempaths=unconfined)";

/// A refusal in one sentence, with the way out where a privilege is missing.
#[derive(Debug)]
pub struct Failure {
    message: String,
    advice: Option<&'static str>,
}

impl Failure {
    /// The refusal of one of many.
    pub fn at(self, at: usize) -> Refusal {
        Refusal { at, failure: self }
    }

    /// The same refusal, with what was to be done in front: `cannot change ...: refusal`.
    pub fn of(self, attempt: impl fmt::Display) -> Failure {
        Failure { message: format!("{attempt}: {}", self.message), ..self }
    }
}

/// What of many was refused: those before it were not, and those behind it have not been tried.
#[derive(Debug)]
pub struct Refusal {
    /// Its place among them, from 0.
    pub at: usize,
    /// Why.
    pub failure: Failure,
}

impl From<Failure> for Refusal {
    /// Before there was anything to refuse.
    fn from(failure: Failure) -> Refusal {
        failure.at(0)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_printable(&self.message, f)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// Bytes of a refusal from its start, and from its end where it is longer: what was found may be a path or a name of
/// any length.
const START: usize = 600;
const END: usize = 300;

/// Writes what a terminal and a log can take.
fn write_printable(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut whole = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { whole.extend(c.escape_default()) } else { whole.push(c) }
    }
    // What is escaped counts: six characters for one.
    if whole.len() <= START + END {
        return f.write_str(&whole);
    }
    let boundary = |at: &usize| whole.is_char_boundary(*at);
    let (start, end) = ((0..=START).rfind(boundary), (whole.len() - END..=whole.len()).find(boundary));
    f.write_str(&whole[..start.unwrap_or(0)])?;
    f.write_str(" ... ")?;
    f.write_str(&whole[end.unwrap_or(whole.len())..])
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { message, advice: None }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => Some(WAY_OUT),
            io::ErrorKind::ReadOnlyFilesystem => Some(CONTAINER),
            _ => None,
        };
        Failure { message: error.to_string(), advice }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::NetlinkError(message) => message.to_io().into(),
            other => other.to_string().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer quoted a name twice, did not fit in a message, and the helper ended.
    #[test]
    fn a_refusal_is_printable_and_not_longer_than_a_page() {
        let name = format!("{}\n\u{1b}[2J", "ä".repeat(100_000));
        let refusal =
            Failure::from(format!("there is none of {name}")).of(format_args!("cannot use {name}")).to_string();
        assert!(refusal.starts_with("cannot use ää") && refusal.contains("ä ... ä"), "{refusal}");
        assert!(refusal.ends_with("\\n\\u{1b}[2J") && refusal.len() < 1000, "{refusal}");
        let zeros = Failure::from("\0".repeat(800)).to_string();
        assert!(zeros.starts_with("\\u{0}\\u{0}") && zeros.len() < 1000, "{zeros}");
    }

    #[test]
    fn only_a_missing_privilege_has_a_way_out() {
        let refused = |errno: rustix::io::Errno| Failure::from(io::Error::from(errno)).of("cannot change `wan`");
        for errno in [rustix::io::Errno::PERM, rustix::io::Errno::ACCESS] {
            assert!(refused(errno).to_string().ends_with(WAY_OUT), "{errno:?}");
        }
        // The kernel's settings in a container.
        let read_only = refused(rustix::io::Errno::ROFS).to_string();
        assert!(read_only.contains("Read-only file system") && read_only.ends_with(CONTAINER), "{read_only}");
        let busy = refused(rustix::io::Errno::BUSY).to_string();
        assert!(busy.starts_with("cannot change `wan`: Device or resource busy") && !busy.contains(WAY_OUT), "{busy}");
        // A name is no reason, whatever it says.
        let named = Failure::from("there is no interface `Permission denied`".to_owned());
        assert_eq!(named.to_string(), "there is no interface `Permission denied`");
    }
}
