// SPDX-License-Identifier: MIT
//! perigee-control: where the router meets Linux and its users.
//!
//! Three faces, independent of each other:
//!
//! - **Configuration.** [`config::Config::load`] turns a TOML file into checked values, or lists every mistake in it
//!   with file, line, column and what was expected.
//! - **Linux.** [`helper::Helper`] is a second process that keeps the capabilities which the router gives up with
//!   [`privileges::drop_all`]. It makes a [`twin::Twin`] for each port (a TAP interface through which Linux and its
//!   routing daemons see the port), and [`netlink`] follows what they do there. The helper also quietens the
//!   interfaces under `af_packet` ports.
//! - **Users.** [`api::Server`] answers HTTP on a unix socket for whatever implements [`api::Backend`];
//!   [`client::ApiClient`] asks it; [`answers`] is what they exchange; [`metrics`] is the same for monitoring;
//!   [`taps`] and [`pcapng`] are what `perigee trace` and `perigee capture` get.
//!
//! Nothing here touches a packet, and nothing here chooses a next hop.
#![forbid(unsafe_code)]

pub mod answers;
pub mod api;
pub mod client;
pub mod config;
pub mod fpm;
pub mod helper;
pub mod metrics;
pub mod netlink;
pub mod pcapng;
pub mod privileges;
pub mod taps;
pub mod twin;
