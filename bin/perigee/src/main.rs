// SPDX-License-Identifier: MIT
//! perigee
fn main() {}
