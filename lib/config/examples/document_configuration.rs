// SPDX-License-Identifier: MIT
//! Prints the page about the configuration: `cargo run -p perigee-config --example document_configuration >
//! docs/configuration.md`.

fn main() {
    print!("{}", perigee_config::documentation());
}
