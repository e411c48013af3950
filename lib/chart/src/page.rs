// SPDX-License-Identifier: MIT
//! The frame of a page with charts: one file without scripts or anything from the network, light or dark like the
//! reader's system.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Elements have their look by what they are; classes are `answer` (and `bad`), `card` around tables and charts,
/// `charts` around the latter, `dim`, `words` for cells with text, and `marked` for rows.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c1f23; --dim: #5b6470; --paper: #ffffff; --page: #f4f5f7; --line: #dfe3e8;
  --good: #00734f; --bad: #b3440a; --accent: #0072b2; --mark: #e8f3fa }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --dim: #a0a8b2; --paper: #16191d; --page: #0e1013;
  --line: #2c3138; --good: #35c49a; --bad: #f28a4b; --accent: #56b4e9; --mark: #16283a } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px } main > p:first-child { margin: 0 } h2 { font-size: 20px; margin: 36px 0 12px }
p { margin: 8px 0 } .dim, dt, caption, footer { color: var(--dim) }
.answer { background: var(--paper); border: 1px solid var(--line); border-left: 6px solid var(--good); border-radius: 8px;
  padding: 14px 18px; margin: 20px 0; font-size: 18px } .answer.bad { border-left-color: var(--bad) }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 10px 24px; margin: 0 }
dt { font-size: 13px } dd { margin: 0; font-weight: 600; overflow-wrap: anywhere }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 16px 18px; overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums }
th { color: var(--dim); font-weight: 600; border-bottom: 2px solid var(--line) }
th, td { padding: 5px 9px; text-align: right; white-space: nowrap } td { border-bottom: 1px solid var(--line) }
tr:last-child td { border-bottom: 0 } tr.marked td { background: var(--mark); font-weight: 600 }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 16px }
.charts svg { width: 100%; height: auto; display: block } ul { padding-left: 20px; margin: 8px 0 } li { margin: 4px 0 }
footer { margin-top: 40px; font-size: 13px } h3 { font-size: 16px; margin: 24px 0 8px }
th.words, td.words { text-align: left } td.words { white-space: normal; min-width: 6em; overflow-wrap: break-word }
summary { cursor: pointer; font-weight: 600 } details > :not(summary) { margin-top: 10px }
@media print { body { background: none } main { max-width: none; padding: 0 } .card, .answer { break-inside: avoid }
  .card:has(table) { break-inside: auto; overflow: visible } tr { break-inside: avoid } table { font-size: 11px }
  th, td { padding: 3px 5px } }
";

/// A page with this title, and `main` between its head and its end.
pub fn page(title: &str, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(crate::STYLE)) }
            }
            body { main { (main) } }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_escaped_and_nothing_is_loaded() {
        let page = page("<b> & c", &html! { p { "text" } });
        assert!(page.contains("<title>&lt;b&gt; &amp; c</title>") && page.contains("<main><p>text</p></main>"));
        for forbidden in ["<script", "http:", "https:", "src=", "url(", "@import"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}
