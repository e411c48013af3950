// SPDX-License-Identifier: MIT
//! `perigee capture`: packets of a running router, as lines or as a pcapng file.

use crate::client::{RouterArg, stream};
use anyhow::{Context as _, Result};
use clap::Args;
use perigee_api::pcapng::{Block, Direction, Packet, Reader};
use perigee_api::queries::Capture;
use perigee_packet::Summary;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `perigee capture`.
#[derive(Args)]
pub struct CaptureArgs {
    /// A port: packets in and out; `drops`: dropped packets, with the reason; `punts`: packets for the slow path, with
    /// the reason
    #[arg(value_name = "PORT|drops|punts")]
    what: String,
    /// Write pcapng to this file (`-`: standard output) instead of lines
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Only packets that match, in tcpdump's syntax: `udp port 53 and not host 10.0.0.1`, `vlan 7`, `in wan`
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// End after this many packets [default: Ctrl-C ends it]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Keep this many bytes of each packet
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    snaplen: Option<u32>,
    #[command(flatten)]
    router: RouterArg,
}

/// Where packets go.
enum Out {
    Lines(Box<dyn Write>),
    /// pcapng, written as it comes.
    File(Box<dyn Write>),
}

/// The state of the capture.
struct Session {
    out: Out,
    reader: Reader,
    interfaces: Vec<String>,
    packets: u64,
    lost: u64,
}

pub fn capture(args: &CaptureArgs) -> Result<ExitCode> {
    let (port, what) = match args.what.as_str() {
        "drops" | "punts" => (None, Some(args.what.clone())),
        _ => (Some(args.what.clone()), None),
    };
    let asked = Capture { port, what, filter: args.filter.clone(), count: args.count, snaplen: args.snaplen };
    let session = stream(&args.router, &asked, || Session::begin(args), Session::piece)?;
    if let Some(session) = session {
        let plural = if session.packets == 1 { "" } else { "s" };
        eprintln!("{} packet{plural}, {} lost", session.packets, session.lost);
    }
    Ok(ExitCode::SUCCESS)
}

impl Session {
    fn begin(args: &CaptureArgs) -> Result<Session> {
        let out: Out = match args.write.as_deref() {
            None => Out::Lines(Box::new(std::io::stdout())),
            Some(path) if path == Path::new("-") => Out::File(Box::new(std::io::stdout())),
            Some(path) => {
                let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
                Out::File(Box::new(file))
            }
        };
        eprintln!("capturing {}; Ctrl-C ends it", args.what);
        Ok(Session { out, reader: Reader::default(), interfaces: Vec::new(), packets: 0, lost: 0 })
    }

    /// Takes a piece of the stream.
    fn piece(&mut self, piece: &[u8]) -> Result<()> {
        self.reader.push(piece);
        let mut lines = String::new();
        while let Some(block) = self.reader.block().map_err(anyhow::Error::msg)? {
            match block {
                Block::Interface { name } => self.interfaces.push(name),
                Block::Packet(packet) => {
                    self.packets += 1;
                    lines.push_str(&self.line(&packet));
                }
                Block::Statistics { lost, .. } => self.lost = lost,
                Block::Section | Block::Other(_) => {}
            }
        }
        let (to, bytes) = match &mut self.out {
            Out::Lines(to) => (to, lines.as_bytes()),
            Out::File(to) => (to, piece),
        };
        to.write_all(bytes)?;
        to.flush()?;
        Ok(())
    }

    /// `03:12:01.123456789 wan in  10.0.1.2.1000 > 10.0.2.2.53: UDP, TTL 64, 50 bytes; ttl.expired: ...`
    fn line(&self, packet: &Packet) -> String {
        let port = self.interfaces.get(packet.interface as usize).map_or("?", String::as_str);
        let way = match packet.direction {
            Some(Direction::In) => "in ",
            Some(Direction::Out) => "out",
            None => "",
        };
        let mut what = Summary::of(&packet.bytes);
        what.length = packet.length as usize;
        let comment = packet.comment.as_ref().map(|comment| format!("; {comment}")).unwrap_or_default();
        format!("{} {port} {way} {what}{comment}\n", clock(packet.time))
    }
}

/// The time of day, UTC, of a moment in ns since 1970.
pub fn clock(time: u64) -> String {
    let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
    format!("{:02}:{:02}:{:02}.{ns:09}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_24_hours() {
        assert_eq!(clock(0), "00:00:00.000000000");
        assert_eq!(clock(86_399_000_000_001), "23:59:59.000000001");
        assert_eq!(clock(86_400_000_000_000 * 20_000 + 3_661_500_000_000), "01:01:01.500000000");
    }
}
