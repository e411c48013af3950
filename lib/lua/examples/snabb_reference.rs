// SPDX-License-Identifier: MIT
//! Prints the reference of the Snabb runtime: `cargo run -p perigee-lua --example snabb_reference >
//! docs/snabb-reference.md`. What has no doc comment goes to standard error.

fn main() {
    let reference = perigee_lua::reference::reference(perigee_lua::snabb::SOURCES);
    for line in &reference.undocumented {
        eprintln!("{line}");
    }
    print!("{}", reference.page);
}
