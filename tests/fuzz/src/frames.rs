// SPDX-License-Identifier: MIT
//! Frames that are nearly right: templates of every kind of packet that a router meets, to every kind of destination
//! that the one below has, and changes of them that know where headers, lengths and checksums are.
//!
//! | file | contents |
//! | --- | --- |
//! | `frames/router.rs` | the router that they are for: its configuration, its addresses |
//! | `frames/templates.rs` | good frames |
//! | `frames/mutate.rs` | changes |
//! | `frames/account.rs` | what must hold of every packet |

pub mod account;
pub mod mutate;
pub mod router;
pub mod templates;
