// SPDX-License-Identifier: MIT
//! Configurations and files of routes: what is accepted is printed and read again as the same, needs no restart for it, and can be turned
//! into a router's tables; what is not is refused with mistakes that are printable and have a place.

use crate::bed::{machine, mac};
use crate::input::Input;
use crate::sentence;
use perigee_config::{Config, ConfigError, Mistake, parse_routes};
use perigee_net::MacAddr;
use perigee_packet::PortInfo;
use perigee_router::{Filters, Forwarding, Lookups};
use std::sync::LazyLock;

/// Whose interfaces files of routes are for.
static INTERFACES: LazyLock<Config> = LazyLock::new(|| {
    let text = crate::frames::router::configuration(1, 1);
    Config::parse_on("router.toml", &text, &machine()).expect("a good configuration")
});

/// Runs one input: what it is, then its text.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let routes = input.chance(64);
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    if routes {
        if let Err(error) = parse_routes("routes.txt", &text, &INTERFACES.interfaces) {
            refused(&error);
        }
        return;
    }
    match Config::parse_on("fuzz.toml", &text, &machine()) {
        Ok(config) => accepted(&config),
        Err(error) => refused(&error),
    }
}

fn accepted(config: &Config) {
    let printed = config.to_toml();
    let again = Config::parse_on("again.toml", &printed, &machine())
        .unwrap_or_else(|error| panic!("what is printed is refused: {error}\n{printed}"));
    assert_eq!(again.to_toml(), printed);
    let keys = config.restart_needed(&again);
    assert!(keys.is_empty(), "printed and read again, it is another configuration: {keys:?}\n{printed}");
    // Tables of their own for each port: many would only be slow.
    if config.ports.len() <= 4
        && let Err(error) = Forwarding::new(config, &ports(config), Filters::default(), Lookups::default())
    {
        sentence::check(&error.to_string());
    }
}

/// The ports as devices.
fn ports(config: &Config) -> Vec<PortInfo> {
    let info = |(number, port): (u16, &perigee_config::Port)| PortInfo {
        port: number,
        device: port.name.clone(),
        driver: "heap".to_owned(),
        mac: MacAddr(mac(number)),
        mtu: port.mtu,
        receive_queues: 1,
        transmit_queues: 1,
        numa_node: None,
        offloads: vec![],
        notes: vec![],
    };
    (0..).zip(&config.ports).map(info).collect()
}

fn refused(error: &ConfigError) {
    let mistakes: &[Mistake] = error.mistakes();
    assert!(!mistakes.is_empty(), "refused without a mistake: {error}");
    for mistake in mistakes {
        assert!(mistake.line > 0 && mistake.column > 0, "{mistake:?}");
        sentence::check(&mistake.message);
    }
    sentence::check_lines(&error.to_string());
}
