// SPDX-License-Identifier: MIT
//! perigee-control
#![forbid(unsafe_code)]
pub mod config;
