// SPDX-License-Identifier: MIT
//! The in-kernel plane: an XDP program that forwards by the tables that the router's workers read, too.
//!
//! ```text
//! bpf/plane.c  the program; bpf/plane.o, what clang makes of it, is committed
//! load         loads it, for who has the privileges; what others get of it are descriptors of maps
//! publish      the router's side: what is written as a whole, and begins to hold
//! settings     what that is: interfaces, ports, filters, places of tables
//! compared     whether the plane reads what the router's tables say
//! counted      what the plane counts
//! rules        filters as the program compares them
//! layout       what the program and the router share
//! reasons      the numbers of reasons
//! mapped       maps in memory: everything unsafe
//! ```
#![deny(unsafe_code)]

mod compared;
mod counted;
pub mod layout;
pub mod load;
mod mapped;
mod publish;
pub mod reasons;
mod rules;
mod settings;

pub use counted::PlaneCounters;
pub use load::{LoadError, LoadedPlane, Maps, Tried};
pub use publish::{PlanePort, PlaneView, PublishError, Up, grace};
pub use rules::FILTERS;
