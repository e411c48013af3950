// SPDX-License-Identifier: MIT
//! Writes the generated parts of `lib/lua/include/perigee.h`: `cargo run -p perigee-lua --example header`.

fn main() -> std::io::Result<()> {
    std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/include/perigee.h"), perigee_lua::header())
}
