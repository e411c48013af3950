// SPDX-License-Identifier: MIT
//! One running router, put together from ports, tables, workers, the slow path and the control side.
//!
//! ```text
//!  workers (one thread each)             slow path (one thread)                      API (one thread)
//!  lib/lua drives lib/worker ──punts──►  [`SlowThread`] drives lib/slowpath ◄requests─ lib/api
//!        ▲                                 │  and lib/linux; owns the parts below
//!        └──tables ([`Forwarding`]: published as a whole, patched in place)──┘
//!
//!  [`Forwarding`]  routes, next hops, interfaces, filters      [`Ports`]    links, twins, queues of the slow path
//!  `taps`          captures and traces                        [`Workers`]  punt rings, counters, heartbeats
//!  `assistant`     further threads of the slow path
//!  `linux`         feeds and helper around lib/linux           `show`       what the API shows, from a view
//!  `reload`        configuration and script, all or nothing    [`wiring`]   who polls and sends on which queue
//! ```
//!
//! Neither DPDK nor LuaJIT is linked here: ports, rings, filters and scripts come in through traits, so a whole router
//! runs in a test on heap packets.
#![forbid(unsafe_code)]

mod account;
mod assign;
mod assistant;
mod backends;
mod forwarding;
mod linux;
mod lookups;
mod mailbox;
mod plane;
mod ports;
mod reload;
mod room;
mod show;
mod slow;
mod taps;
pub mod wiring;
mod workers;

pub use account::Account;
pub use assign::{PortShare, deal, pollers};
pub use assistant::{AssistantBell, AssistantParts, AssistantThread, Assistants};
pub use backends::{Progress, ReadFile, ReadScript, Rebuild, Refusal, ScriptControl, ScriptSource, ScriptView};
pub use forwarding::{Filters, Forwarding, ForwardingError, Staging, Tally};
pub use linux::{LinuxFeeds, LinuxParts};
pub use lookups::Lookups;
pub use mailbox::{Mailbox, MailboxEnd};
pub use perigee_linux::missing_link_local;
pub use plane::{KernelPlane, PlaneShare, PlaneThread};
pub use ports::{Below, Ports, RouterPort};
pub use slow::{Settings, SlowParts, SlowThread};
pub use wiring::{Fabric, PortQueues, Ring, Sender, Shared, SlowQueues, Wiring, WiringError, WorkerQueues, wire};
pub use workers::{WorkerEnd, Workers};
