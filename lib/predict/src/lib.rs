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
//! | [`fit`] | a model's parameters from measured points, and how well they are known |
//! | [`saturation`] | what a saturated router forwards, limited by cores or links |
//! | [`points`] | measured points in a CSV file |
//! | [`service`] | what packets cost a core, when cores, direction and tables are settled |
//! | [`error`] | mistakes in inputs: file, place, found, expected |
//! | [`verify`] | a profile beside measured points |
//!
//! Nothing here touches a device or a clock. The crate imports no other one of the project.
#![forbid(unsafe_code)]

pub mod error;
pub mod fit;
pub mod points;
pub mod profile;
pub mod saturation;
pub mod service;
pub mod verify;

pub use error::Error;
pub use points::{Bound, Point};
pub use profile::{Model, Per, Profile, Router};
pub use service::Service;
