// SPDX-License-Identifier: MIT
//! `docs/model.md` is checked in; its tables say what the models say now.

#[path = "../examples/model_page.rs"]
#[allow(dead_code, reason = "an example's main")]
mod model_page;

#[test]
fn docs_model_md_is_up_to_date() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/model.md");
    let page = std::fs::read_to_string(&file).expect("docs/model.md");
    assert!(
        model_page::page(&page).expect("tables") == page,
        "docs/model.md is stale; run: cargo run -p perigee-predict --example model_page"
    );
}
