// SPDX-License-Identifier: MIT
//! A command line as the router.

use super::{Place, Running};
use crate::judge::{Judged, Stop, fail};
use crate::network::{self, Side};
use perigee_lab::Process;
use std::os::unix::process::CommandExt as _;

/// The exit code of a command that cannot do what the world asks for: its rows are not applicable.
pub const UNABLE: i32 = 77;

pub(super) fn start(place: &Place, line: &str) -> Judged<Running> {
    let mut command = place.host.place().program("sh");
    command.args(["-c", line]).process_group(0);
    for side in place.sides {
        let name = format!("PERIGEE_{}", side.name().to_uppercase());
        command.env(&name, side.interface());
        command.env(format!("{name}_ADDRESSES"), side.addresses().join(" "));
        command.env(format!("{name}_MTU"), side.mtu().to_string());
        command.env(format!("{name}_PEER"), network::mac(place.world, *side, 2).to_string());
    }
    let has = |side: Side| place.sides.contains(&side);
    let routes = place.world.routes().into_iter().filter(|route| has(route.side));
    command.env("PERIGEE_ROUTES", routes.map(|route| route.to_string()).collect::<Vec<_>>().join("\n"));
    command.env("PERIGEE_WORLD", place.world.name());
    command.env("PERIGEE_SETTINGS", place.world.settings().words());
    let log = place.folder.join(format!("{}.log", place.world.name()));
    Ok(Running::Program(Process::logging(&mut command, &log)?))
}

/// Checks a command: it runs, or has configured something and ended.
pub(super) fn check(process: &mut Process) -> Judged {
    let Some(status) = process.ended()? else { return Ok(()) };
    match status.code() {
        Some(0) => Ok(()),
        Some(UNABLE) => Err(Stop::NotApplicable(format!("the command says that it cannot: {}", process.last_words()))),
        _ => fail(format_args!("`{}` ended with {status}; {}", process.command(), process.last_words())),
    }
}
