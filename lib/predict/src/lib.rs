// SPDX-License-Identifier: MIT
//! Predictions: how fast a router will be with other cores, links and traffic than it was measured with.
//!
//! ```text
//! points (CSV) ──► fit ──► profile (JSON) ──► service times ──┬─► closed forms ──► answer
//!                             │                               └─► ns-3 module ──► answer
//! points (CSV) ──► verify ◄───┘
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`profile`] | a router's parameters in a JSON file |
//! | [`service`] | what packets cost a core, when cores, direction and tables are settled |
//! | [`error`] | mistakes in inputs: file, place, found, expected |
//!
//! Nothing here touches a device or a clock. The crate imports no other one of the project.
#![forbid(unsafe_code)]

pub mod answer;
pub mod capacity;
pub mod error;
pub mod figures;
pub mod objective;
mod parallel;
pub mod plot;
pub mod profile;
pub mod queueing;
pub mod rss;
pub mod service;
pub mod simulate;
pub mod traffic;

pub use error::Error;
pub use profile::{Model, Per, Profile, Router};
pub use service::Service;
