// SPDX-License-Identifier: MIT
//! Prints the modules' documentation page: `cargo run -p perigee-modules --example document_modules > docs/modules.md`.

fn main() {
    print!("{}", perigee_modules::documentation());
}
