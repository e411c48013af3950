// SPDX-License-Identifier: MIT
//! `perigee run` as the router.

use super::{PATIENCE, Place};
use crate::network::{GROUP4, GROUP6, Side, World};
use anyhow::{Context as _, Result, anyhow};
use perigee_lab::{Launch, Router};
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

pub(super) fn start(place: &Place, program: &Path, opened: &str, slow_paths: u16) -> Result<Router> {
    let name = place.world.name();
    let (file, socket) = (place.folder.join(format!("{name}.toml")), place.folder.join(format!("{name}.sock")));
    fs::write(&file, configuration(place, opened, slow_paths, &socket))
        .with_context(|| format!("{} cannot be written", file.display()))?;
    let launch = Launch {
        program: program.to_owned(),
        place: place.host.place(),
        configuration: file,
        arguments: Vec::new(),
        socket,
        log: Some(place.folder.join(format!("{name}.log"))),
        patience: PATIENCE,
    };
    Router::start(launch).map_err(|error| shortened(&format!("{error:#}")))
}

/// The error with the log's last line alone, without the place of the file, which is new each time, and without what
/// would have been expected: it is the reason for several rows.
fn shortened(error: &str) -> anyhow::Error {
    let lines: Vec<&str> = error.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let wrong = lines.iter().rev().find(|line| line.contains(".toml:")).or(lines.last()).copied();
    let wrong = wrong.unwrap_or("it said nothing");
    // FILE:LINE:COLUMN: what is wrong.
    let wrong = wrong.split_once(".toml:").and_then(|(_, rest)| rest.split_once(": ")).map_or(wrong, |(_, what)| what);
    let wrong = wrong.split_once(", expected one of").map_or(wrong, |(found, _)| found);
    anyhow!("the router did not start: {wrong}")
}

fn configuration(place: &Place, opened: &str, slow_paths: u16, socket: &Path) -> String {
    let settings = place.world.settings();
    let name = place.world.name();
    let rate = if settings.limited { 10 } else { 1_000_000 };
    let mut text = format!(
        "# SPDX-License-Identifier: MIT\n\
         [router]\nname = \"c-{name}\"\nsocket = \"{}\"\nidle = \"sleep\"\nicmp_rate = {rate}\nslow_paths = {slow_paths}\n\n\
         [eal]\nhugepages = false\nmemory = 160\n",
        socket.display()
    );
    for side in place.sides {
        let addresses = side.addresses();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n[port.{side}]\ninterface = \"{}\"\n{opened}\nmtu = {}\naddresses = {addresses:?}\n",
            side.interface(),
            side.mtu()
        );
        if *side == Side::Left {
            if let Some(mode) = settings.urpf {
                let _ = writeln!(text, "urpf = \"{mode}\"");
            }
            if settings.source_routes {
                text += "source_routes = true\n";
            }
        }
    }
    if place.world == World::Plain {
        for group in [IpAddr::from(GROUP4), GROUP6.into()] {
            let _ = write!(text, "\n[[multicast]]\ngroup = \"{group}\"\nto = [\"right\"]\n");
        }
    }
    for route in place.world.routes() {
        let _ = write!(
            text,
            "\n[[route]]\nprefix = \"{}\"\nvia = \"{}\"\ndev = \"{}\"\n",
            route.prefix, route.via, route.side
        );
    }
    text
}
