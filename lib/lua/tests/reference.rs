// SPDX-License-Identifier: MIT
//! The reference of the Snabb runtime is that of its sources, and they say what they offer.

use perigee_lua::reference::reference;
use perigee_lua::snabb::SOURCES;
use std::path::Path;

#[test]
fn docs_snabb_reference_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/snabb-reference.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == reference(SOURCES).page,
        "docs/snabb-reference.md is stale; run: cargo run -p perigee-lua --example snabb_reference > docs/snabb-reference.md"
    );
}

#[test]
fn all_that_is_public_has_a_doc_comment() {
    let undocumented = reference(SOURCES).undocumented;
    assert!(undocumented.is_empty(), "{}", undocumented.join("\n"));
}
