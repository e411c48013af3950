// SPDX-License-Identifier: MIT
//! Prints docs/confinement.md.

#[path = "../tests/confinement/page.rs"]
#[allow(dead_code)] // the tests use more of it
mod page;

fn main() {
    print!("{}", page::page());
}
