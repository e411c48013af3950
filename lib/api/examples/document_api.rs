// SPDX-License-Identifier: MIT
//! Prints the API's documentation page: `cargo run -p perigee-api --example document_api > docs/api.md`.

fn main() {
    print!("{}", perigee_api::documentation());
}
