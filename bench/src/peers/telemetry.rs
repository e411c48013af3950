// SPDX-License-Identifier: MIT
//! DPDK's telemetry socket, version 2: a question is a path, an answer a line of JSON, both whole messages of a
//! SEQPACKET socket (DPDK's guide "Telemetry User Guide").

use anyhow::{Context as _, Result, ensure};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The longest answer, as the greeting says (`max_output_len`).
const LONGEST: usize = 16_384;
/// A program that is running answers within a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);

/// Packets that a port has received and transmitted since the program was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
    pub received: u64,
    pub transmitted: u64,
}

/// A connection to a running program.
pub struct Telemetry {
    socket: OwnedFd,
    /// The program's process, as it says itself.
    pub pid: u32,
}

impl Telemetry {
    /// Connects to the socket in a program's folder of run-time files.
    pub fn connect(path: &Path) -> Result<Telemetry> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let mut telemetry = Telemetry { socket, pid: 0 };
        let greeting = telemetry.answer()?;
        let pid = greeting["pid"].as_u64().with_context(|| format!("found the greeting {greeting}, expected a pid"))?;
        telemetry.pid = pid as u32;
        Ok(telemetry)
    }

    fn answer(&self) -> Result<Value> {
        let mut buffer = vec![0; LONGEST];
        let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())
            .with_context(|| format!("no answer by telemetry within {} s", PATIENCE.as_secs()))?;
        ensure!(length > 0, "the program has closed its telemetry socket");
        Ok(serde_json::from_slice(&buffer[..length])?)
    }

    /// The counts of a port; zero while there is no such port.
    pub fn port(&self, port: u16) -> Result<PortCounts> {
        send(&self.socket, format!("/ethdev/stats,{port}").as_bytes(), SendFlags::empty())?;
        Ok(counts(&self.answer()?))
    }
}

/// The counts in an answer to `/ethdev/stats,N`.
fn counts(answer: &Value) -> PortCounts {
    let of = |name: &str| answer["/ethdev/stats"][name].as_u64().unwrap_or(0);
    PortCounts { received: of("ipackets"), transmitted: of("opackets") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};

    #[test]
    fn counts_are_found_in_an_answer() {
        let answer = r#"{"/ethdev/stats": {"ipackets": 5, "opackets": 3, "ibytes": 300, "q_ipackets": [5, 0]}}"#;
        assert_eq!(counts(&serde_json::from_str(answer).unwrap()), PortCounts { received: 5, transmitted: 3 });
        assert_eq!(counts(&serde_json::json!({"/ethdev/stats": null})), PortCounts::default());
    }

    #[test]
    fn a_socket_that_says_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(Telemetry::connect(&path).is_err(), "there is none");
        let server = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&server, 1).unwrap();
        let serve = std::thread::spawn(move || {
            let client = rustix::net::accept(&server).unwrap();
            send(&client, br#"{"version":"DPDK 22.11.11"}"#, SendFlags::empty()).unwrap();
        });
        let error = Telemetry::connect(&path).err().unwrap().to_string();
        assert!(error.contains("expected a pid"), "{error}");
        serve.join().unwrap();
    }
}
