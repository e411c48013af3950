// SPDX-License-Identifier: MIT
//! Declares `cfg(loom)`, which the model checker's build sets, so that rustc does not warn about it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
