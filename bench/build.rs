// SPDX-License-Identifier: MIT
//! Exports the program's C ABI (perigee.h) to LuaJIT's `ffi.C` and to shared libraries that scripts load.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-rdynamic");
}
