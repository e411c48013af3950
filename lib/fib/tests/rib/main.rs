// SPDX-License-Identifier: MIT
//! Routes, gateways and groups: compared with a model that recomputes everything after each change, and read while they
//! change.

mod changes;
mod links;
mod model;
mod next_hops;
mod race;
mod readers;
mod repair;
