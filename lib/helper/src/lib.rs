// SPDX-License-Identifier: MIT
//! The privileged helper: a second process that keeps the capabilities the router gives up.
//!
//! The router starts it (`perigee helper`) with one end of a socket pair as its standard input, requests twins and
//! changes to Linux interfaces, and receives descriptors over the same socket. Nothing else can reach it. When the
//! router ends, in whatever way, the socket closes; the helper then restores what it changed, and ends too.
//!
//! | file | contents |
//! | --- | --- |
//! | `message.rs` | requests, answers, and how they cross the socket |
//! | `claims.rs`, `claims/owner.rs` | what one router has alone, and who has it: [`Claims`] |
//! | `client.rs` | the router's side: [`Helper`] |
//! | `server.rs`, `server/many.rs` | the helper's side: [`serve_stdin`]; requests for many |
//! | `end.rs` | what it does at its end |
//! | `state.rs` | what the helper knows, and its standby as well |
//! | `system.rs` | what it does outside its process |
//! | `rehearsal.rs` | a helper whose system is pretended, for the fuzz target and tests of lib/router |
//! | `reach.rs` | which capabilities the helper keeps |
//! | `failure.rs` | why Linux refused something |
//! | `kept.rs` | how to restore interfaces that a killed router has left prepared |
//! | `carried.rs` | what an interface carries that is lost once a port takes its packets |
//! | `files.rs` | the files of a configuration, opened for the router |
//! | `links.rs` | its changes to Linux's interfaces, by netlink and `/proc/sys` |
//! | `underlay.rs`, `twins.rs` | interfaces under ports, prepared and restored; twins, made and removed |
//! | `sockets.rs` | sockets of netlink, which belong to the namespace they are opened in |
//! | `twin.rs` | a TAP interface, without blocking |
//! | `privileges.rs` | how the router and its threads give up their capabilities and their user |
//! | `socket_file.rs` | the file of a unix socket that the router listens at: [`SocketFile`] |
//! | `terminal.rs` | how the router gives up terminals |
//! | `confine.rs` | what threads may still open and call |
//! | `neighbors.rs` | Linux's neighbors, and VLANs on twins |

#![forbid(unsafe_code)]

mod carried;
mod claims;
mod client;
pub mod confine;
mod end;
mod failure;
mod files;
mod kept;
mod links;
mod message;
mod neighbors;
pub mod privileges;
mod reach;
#[doc(hidden)]
pub mod rehearsal;
mod server;
mod socket_file;
mod sockets;
mod state;
mod system;
pub mod terminal;
pub mod twin;
mod twins;
mod underlay;

pub use carried::carried;
pub use claims::{Claim, Claims, Holder, Taken};
pub use client::{Helper, HelperError, HelperHealth, Refused};
pub use end::remove_empty_folder;
pub use files::Named;
pub use message::{
    AT_ONCE, LinkChange, LinkPreparation, NeighborChange, PROTOCOL, SocketWanted, TwinStatus, TwinWanted,
};
pub use reach::Reach;
pub use server::serve_stdin;
pub use socket_file::{NoSocket, SocketFile};
pub use sockets::{NetlinkSockets, open_diagnosis, open_links, open_monitor, open_plain};
