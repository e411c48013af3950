// SPDX-License-Identifier: MIT
//! What Rust declares of C here: `src/ffi.rs`, and what the shim relies on of other files.

use super::check::{self, Source};

/// Where C declares it.
const HEADERS: &[&str] = &[
    "\"shim.h\"",
    "\"snabb.h\"",
    "<rte_acl.h>",
    "<rte_dev.h>",
    "<rte_eal.h>",
    "<rte_errno.h>",
    "<rte_ethdev.h>",
    "<rte_fib.h>",
    "<rte_fib6.h>",
    "<rte_lcore.h>",
    "<rte_log.h>",
    "<rte_lpm.h>",
    "<rte_lpm6.h>",
    "<rte_mbuf.h>",
    "<rte_mempool.h>",
    "<rte_ring.h>",
    "<rte_version.h>",
];

/// What is in other files than `src/ffi.rs`, and its names in C.
const ELSEWHERE: &[(&str, &[(&str, &str)])] = &[
    ("../packet/src/batch/mask.rs", &[("BATCH_SIZE", "PERIGEE_BATCH_SIZE")]),
    ("../packet/src/batch/moves.rs", &[("ReceiveArrays", "struct perigee_arrays")]),
    (
        "../packet/src/batch/flags.rs",
        &[
            ("IPV4_CHECKSUM_GOOD", "PERIGEE_IPV4_CHECKSUM_GOOD"),
            ("IPV4_CHECKSUM_BAD", "PERIGEE_IPV4_CHECKSUM_BAD"),
            ("HASH", "PERIGEE_HASH"),
        ],
    ),
    // Lua calls these by what snabb.h says.
    (
        "src/snabb/tasks.rs",
        &[
            ("perigee_snabb_to_batch", "perigee_snabb_to_batch"),
            ("perigee_snabb_from_batch", "perigee_snabb_from_batch"),
        ],
    ),
];

/// `perigee.h` has its fields, and compares them (`lib/lua`).
const OPAQUE: &[(&str, &str)] = &[("Batch", "struct perigee_batch")];

/// The C file that checks all of it; `read` returns the text of a file.
///
/// # Errors
/// A sentence: what is not understood.
pub fn c_file(read: impl Fn(&str) -> String) -> Result<String, String> {
    let texts: Vec<String> = ELSEWHERE.iter().map(|(path, _)| read(path)).collect();
    let ffi = read("src/ffi.rs");
    let mut sources = vec![Source { path: "src/ffi.rs", text: &ffi, items: None }];
    for ((path, items), text) in ELSEWHERE.iter().zip(&texts) {
        sources.push(Source { path, text, items: Some(items) });
    }
    check::c_file(HEADERS, &sources, OPAQUE)
}
