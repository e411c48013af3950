// SPDX-License-Identifier: MIT
#![no_main]

#[path = "../../tests/exercise/mod.rs"]
#[allow(dead_code)] // The other views' functions.
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    exercise::vlan(bytes);
});
