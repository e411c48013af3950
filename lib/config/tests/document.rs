// SPDX-License-Identifier: MIT
//! The page about the configuration is that of its declarations.

use std::path::Path;

#[test]
fn docs_configuration_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == perigee_config::documentation(),
        "docs/configuration.md is stale; run: cargo run -p perigee-config --example document_configuration > docs/configuration.md"
    );
}
