// SPDX-License-Identifier: MIT
//! Tells rustc that `cfg(loom)` is a known name; the model checker's build sets it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
