// SPDX-License-Identifier: MIT
//! LuaJIT and the C ABI: what stands between the Rust modules and the scripts that call them.
//!
//! ```text
//!  lua/fastpath.lua ──┐                         ┌── perigee_modules: classify, ttl, ...
//!  your script        ├─ lua/perigee/*.lua ─ffi─┤   [`abi`]: one macro, guards against panics
//!  your module.so ────┴─────── perigee.h ───────┘
//!
//!  [`Scripts`]: the current script, reload, throws, return of the last good one
//!  [`vm`]: a script loaded in a VM of its own        [`host`]: a worker as its script sees it
//! ```
//!
//! Beside it, [`snabb`]: the VM of a Snabb program, which has nothing to do with the router's scripts; and
//! [`reference`](mod@reference), the documentation page of what such programs are offered.
//!
//! One VM per worker; nothing is shared between VMs. A call from Lua to a module costs a machine call: everything goes
//! by pointer, as LuaJIT does not compile calls that pass structs by value.

pub mod abi;
mod exit;
mod generation;
mod header;
pub mod host;
mod library;
pub mod reference;
pub mod scripts;
pub mod snabb;
pub mod task;
pub mod vm;

pub use exit::{end_by_force, end_within};
pub use header::header;
pub use host::ScriptCounters;
pub use mlua;
pub use scripts::{Budgets, OverBudget, ScriptStatus, Scripts, Spawn, Staging, thread};
pub use vm::{Script, ScriptError};
