// SPDX-License-Identifier: MIT
//! Exports the C ABI (perigee.h) of examples and tests to LuaJIT's `ffi.C`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-rdynamic");
}
