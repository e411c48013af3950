// SPDX-License-Identifier: MIT
//! The documentation page is what the registry says.

use std::path::Path;

#[test]
fn docs_modules_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/modules.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == perigee_modules::documentation(),
        "docs/modules.md is stale; run: cargo run -p perigee-modules --example document_modules > docs/modules.md"
    );
}
