// SPDX-License-Identifier: MIT
//! Routes, gateways and groups: against a model that works everything out anew after each change, and under readers.

mod changes;
mod model;
mod next_hops;
mod race;
mod readers;
mod repair;
