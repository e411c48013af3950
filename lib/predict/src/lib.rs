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
//! | [`machine`] | the machine that a profile was measured on, and how near another one is to it |
//! | [`shipped`] | the profiles that ship |
//! | [`fit`] | a model's parameters from measured points, and how well they are known |
//! | [`saturation`] | what a saturated router forwards, limited by cores or links |
//! | [`points`] | measured points in a CSV file |
//! | [`service`] | what packets cost a core, for given cores, direction and tables |
//! | [`error`] | mistakes in inputs: file, place, found, expected |
//! | [`verify`] | a profile compared with measured points |
//! | [`traffic`], [`objective`] | rates, sizes, numbers of cores, limits, as users write them |
//! | [`rss`] | which core a flow goes to |
//! | [`queueing`] | a core's queue: sojourn times, batches, loss |
//! | [`campaign`] | what to measure of a router, and where to look whether its profile holds |
//! | [`capacity`] | cores and links together, by closed forms |
//! | [`simulate`] | cores and links by the ns-3 module, a process of its own |
//! | [`figures`], [`answer`] | the figures of either, how they are known, how many cores are needed |
//! | [`reach`] | numbers of cores that a profile was measured on, and what it says of others |
//! | [`report`], [`html`] | an answer's tables and charts; the page with them |
//! | [`plot`] | charts from CSV files |
//! | [`number`] | numbers as tables and sentences show them |
//!
//! Nothing here touches a device. Of the project's crates, this one imports `perigee-chart` alone.
#![forbid(unsafe_code)]

pub mod answer;
pub mod campaign;
pub mod capacity;
pub mod compared;
pub mod error;
pub mod figures;
pub mod fit;
pub mod html;
pub mod machine;
pub use perigee_chart::number;
pub mod objective;
pub mod plot;
pub mod points;
pub mod profile;
pub mod queueing;
pub mod reach;
pub mod report;
pub mod rss;
pub mod saturation;
pub mod service;
pub mod shipped;
pub mod simulate;
pub mod traffic;
pub mod verify;

pub use error::Error;
pub use points::{Bound, Point};
pub use profile::{Model, Per, Profile, Punted, Router};
pub use service::Service;
