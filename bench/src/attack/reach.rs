// SPDX-License-Identifier: MIT
//! How soon hosts answer that nobody has spoken to before.

use anyhow::Result;
use perigee_lab::Host;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A port on which nobody listens: the host's error is its answer.
const CLOSED: u16 = 9;
/// How long a host may take.
pub const PATIENCE: Duration = Duration::from_secs(4);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks every one of these hosts, all at once; how long each took, in seconds, if it answered.
pub fn reach(from: &Host, addresses: &[IpAddr]) -> Result<Vec<Option<f64>>> {
    let ask_all = || {
        std::thread::scope(|scope| {
            let asking: Vec<_> = addresses.iter().map(|address| scope.spawn(|| ask(*address))).collect();
            asking.into_iter().map(|one| one.join().unwrap_or(Ok(None))).collect::<Result<Vec<_>>>()
        })
    };
    from.inside(ask_all)?
}

fn ask(address: IpAddr) -> Result<Option<f64>> {
    let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(own)?;
    socket.connect(SocketAddr::new(address, CLOSED))?;
    socket.set_read_timeout(Some(PAUSE))?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let asked = socket.send(b"are you there?").map(drop);
        // The error of the one before may come with the next one.
        match asked.and_then(|()| socket.recv(&mut [0; 64]).map(drop)) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Ok(Some(began.elapsed().as_secs_f64()));
            }
            // No answer yet, or the router's that there is none.
            _ => {}
        }
    }
    Ok(None)
}
