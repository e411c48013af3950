// SPDX-License-Identifier: MIT
//! The documentation page is the registry's.

use std::path::Path;

#[test]
fn docs_api_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == perigee_api::documentation(),
        "docs/api.md is stale; run: cargo run -p perigee-api --example document_api > docs/api.md"
    );
}
