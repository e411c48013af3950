// SPDX-License-Identifier: MIT
//! Tells cargo that `--cfg loom` is known: it swaps the atomics for those of the model checker.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
