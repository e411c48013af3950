// SPDX-License-Identifier: MIT
//! BIRD's configuration, piece by piece.

use std::fmt::{Display, Write as _};

/// Timers that suit a laboratory: connect at once, and again soon.
const TIMERS: &str = "connect delay time 1; connect retry time 2; error wait time 1, 2;";

/// The text of a `bird.conf`.
#[derive(Debug, Clone)]
pub struct Configuration(String);

/// A family's routes: which of them a protocol gives to BIRD and takes from it.
#[derive(Debug, Clone, Copy)]
pub struct Channel<'a> {
    /// `ipv4` or `ipv6`.
    pub family: &'a str,
    /// Routes from the protocol: `all`, `none`, `where ...`.
    pub import: &'a str,
    /// Routes to the protocol.
    pub export: &'a str,
}

/// A BGP session.
#[derive(Debug, Clone, Copy)]
pub struct Session<'a> {
    /// The protocol's name.
    pub name: &'a str,
    /// Address and AS number of this side.
    pub local: (&'a str, u32),
    /// Address and AS number of the other side.
    pub neighbor: (&'a str, u32),
    /// More options in BIRD's syntax: `hold time 30; graceful restart on;`.
    pub options: &'a str,
    /// The routes that it carries.
    pub channel: Channel<'a>,
}

impl Display for Channel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Channel { family, import, export } = self;
        write!(f, "{family} {{ import {import}; export {export}; }};")
    }
}

impl Configuration {
    /// A configuration that logs to standard error and knows the interfaces.
    pub fn new(router_id: &str) -> Configuration {
        Configuration(format!(
            "# SPDX-License-Identifier: MIT\nlog stderr all;\nrouter id {router_id};\nprotocol device {{ }}\n"
        ))
    }

    /// Adds lines in BIRD's own syntax.
    #[must_use]
    pub fn and(mut self, lines: &str) -> Configuration {
        // A String takes everything.
        let _ = writeln!(self.0, "{lines}");
        self
    }

    /// Adds Linux's table, which takes the routes of `export` and which perigee follows. `options` are in BIRD's
    /// syntax.
    #[must_use]
    pub fn kernel(self, family: &str, export: &str, options: &str) -> Configuration {
        let channel = Channel { family, import: "none", export };
        self.and(&format!("protocol kernel {{\n  {channel}\n  {options}\n}}"))
    }

    /// Adds a BGP session, with timers that suit a laboratory.
    #[must_use]
    pub fn bgp(self, session: &Session) -> Configuration {
        let Session { name, local, neighbor, options, channel } = session;
        self.and(&format!(
            "protocol bgp {name} {{\n  local {} as {};\n  neighbor {} as {};\n  {TIMERS}\n  {options}\n  {channel}\n}}",
            local.0, local.1, neighbor.0, neighbor.1
        ))
    }

    /// Adds networks to announce, by a protocol of this name; if `disabled`, it does not start until it is enabled.
    #[must_use]
    pub fn networks(
        mut self,
        name: &str,
        family: &str,
        disabled: bool,
        networks: impl IntoIterator<Item = impl Display>,
    ) -> Configuration {
        let disabled = if disabled { "  disabled;\n" } else { "" };
        let _ = writeln!(self.0, "protocol static {name} {{\n{disabled}  {family};");
        for network in networks {
            let _ = writeln!(self.0, "  route {network} blackhole;");
        }
        self.0.push_str("}\n");
        self
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{process::run, tools};
    use std::process::Command;

    #[test]
    fn bird_takes_it() {
        let channel = |family| Channel { family, import: "all", export: "where source = RTS_DEVICE" };
        let session = |name, local, neighbor, family| Session {
            name,
            local: (local, 65_001),
            neighbor: (neighbor, 65_002),
            options: "hold time 30; graceful restart on;",
            channel: channel(family),
        };
        let all = Configuration::new("10.0.0.1")
            .and("protocol direct { ipv4; ipv6; }")
            .kernel("ipv4", "all", "")
            .kernel("ipv6", "where source = RTS_BGP", "merge paths on; scan time 5;")
            .bgp(&session("four", "10.0.0.1", "10.0.0.2", "ipv4"))
            .bgp(&session("six", "2001:db8::1", "2001:db8::2", "ipv6"))
            .networks("many", "ipv4", true, (0..100).map(|n| format!("20.0.{n}.0/24")));
        assert_eq!(all.text().matches("blackhole;").count(), 100);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bird.conf");
        std::fs::write(&file, all.text()).unwrap();
        let path = tools::search_path();
        if tools::found("bird", &path) {
            let ended = run(Command::new("bird").env("PATH", path).args(["-p", "-c"]).arg(file));
            assert_eq!(ended.code, Some(0), "{}", ended.text);
        }
    }
}
