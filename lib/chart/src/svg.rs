// SPDX-License-Identifier: MIT
//! SVG: elements for text, rectangles and lines. Texts are escaped by type, and numbers have one decimal.

use maud::{Markup, PreEscaped, Render, html};
use std::fmt::Write as _;

/// The fonts of all charts: whatever the reader's system has.
pub const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

/// A coordinate, in pixels: one decimal is finer than screens are.
#[derive(Clone, Copy, Debug)]
pub struct Px(pub f64);

impl Render for Px {
    fn render_to(&self, out: &mut String) {
        let _ = write!(out, "{:.1}", self.0);
    }
}

/// Which part of a text its position refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A drawing of this size that contains `parts`. A style sheet in it applies to the whole page that it is put into.
pub fn drawing(width: f64, height: f64, style: &str, parts: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
            font-family=(FONTS) {
            style { (PreEscaped(style)) }
            (parts)
        }
    }
}

/// A text; `class` is for style sheets.
pub fn text((x, y): (f64, f64), anchor: Anchor, class: &str, said: &str) -> Markup {
    html! { text class=(class) x=(Px(x)) y=(Px(y)) text-anchor=(anchor.name()) { (printable(said)) } }
}

/// A text that reads upwards.
pub fn upright((x, y): (f64, f64), class: &str, said: &str) -> Markup {
    html! { text class=(class) transform={ "translate(" (Px(x)) " " (Px(y)) ") rotate(-90)" } { (printable(said)) } }
}

/// A rectangle that shows a text when it is pointed at.
pub fn bar((x, y): (f64, f64), width: f64, height: f64, colour: &str, tip: &str) -> Markup {
    html! {
        rect x=(Px(x)) y=(Px(y)) width=(Px(width)) height=(Px(height)) fill=(colour) { title { (printable(tip)) } }
    }
}

/// A horizontal line.
pub fn across(from: f64, to: f64, y: f64, class: &str) -> Markup {
    html! { path class=(class) d={ "M" (Px(from)) " " (Px(y)) "H" (Px(to)) } {} }
}

/// A text without characters that XML 1.0 does not allow.
pub fn printable(text: &str) -> String {
    let known = text.chars().filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'));
    known.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A number with this many significant digits, without trailing zeros: `1.194`, `10`, `0.00012`.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 17) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let said = text((1.0, 2.25), Anchor::End, "dim", "a\u{0}\u{ffff}<&\"").into_string();
        assert_eq!(said, "<text class=\"dim\" x=\"1.0\" y=\"2.2\" text-anchor=\"end\">a &lt;&amp;&quot;</text>");
    }

    #[test]
    fn numbers_have_significant_digits() {
        assert_eq!([1.19449, 10.0, 0.000_123_456].map(|value| significant(value, 4)), ["1.194", "10", "0.0001235"]);
        assert_eq!(significant(0.0, 3), "0");
    }
}
