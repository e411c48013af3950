// SPDX-License-Identifier: MIT
//! One running router, put together from ports, tables, workers, the slow path and the control side.
//!
//! ```text
//!  workers (one thread each)             slow path (one thread)                      API (one thread)
//!  lib/lua drives lib/worker ──punts──►  [`slow`] drives lib/slowpath  ◄──requests── lib/api
//!        ▲                                 │ owns RIB, neighbors, twins
//!        └──tables ([`routing`]: published as a whole, patched in place)──┘
//!
//!  [`Lookups`]  the structures that routes are looked up in, by name
//!  [`wiring`]   who polls which queue, who sends on which, and what goes by ring
//!  [`linux`]    what `ip`, BIRD and FRR say, done; what the slow path finds out, told
//!  [`answers`]  what `perigee show` shows      [`change`]  routes by hand, reload
//!  `taps`       who looks at packets, `traces`: their ways in words
//! ```
//!
//! Neither DPDK nor LuaJIT is linked here: ports, rings, filters and scripts come in through traits, so a whole router
//! runs in a test on heap packets.
#![forbid(unsafe_code)]

mod account;
pub mod answers;
pub mod change;
mod gateways;
pub mod linux;
mod lookups;
pub mod routing;
pub mod slow;
mod taps;
mod traces;
mod twins;
mod upkeep;
pub mod wiring;

pub use account::Account;
pub use change::{Rebuild, ScriptControl, ScriptView};
pub use linux::LinuxFeeds;
pub use linux::twins::missing_link_local;
pub use lookups::Lookups;
pub use routing::{Filters, Gateways, Routing, SharedTables};
pub use slow::{Mailbox, RouterPort, SlowParts, SlowThread};
pub use wiring::{Fabric, PortQueues, Ring, Sender, Shared, WorkerQueues, wire};
