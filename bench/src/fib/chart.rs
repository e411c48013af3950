// SPDX-License-Identifier: MIT
//! The results as an SVG: rates as grouped bars; memory, changes and build time next to them.

use super::report::count;
use super::results::{Family, Results};
use indicatif::HumanCount;
use maud::{Markup, html};
use perigee_chart::scale::Scale;
use perigee_chart::svg::{Anchor, across, bar, drawing, text, upright};

const WIDTH: f64 = 1320.0;
const MARGIN: f64 = 32.0;
/// The rates' diagram: left edge after the axis' numbers, width, height of the bars' area.
const LEFT: f64 = MARGIN + 44.0;
const BARS: f64 = 680.0;
const HEIGHT: f64 = 300.0;
/// Beside it: names, then three columns of bars.
const SIDE: f64 = LEFT + BARS + 48.0;
const NAMES: f64 = 88.0;
const COLUMN: f64 = 136.0;
const ROW: f64 = 24.0;

/// perigee's structures are coloured, DPDK's grey. People with colour vision deficiency can tell the colours apart, too
/// (Okabe, Ito, 2002, and darker ones of the same hues).
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c4a00", "#005c43", "#7a3e62", "#f0e442",
    "#003f63", "#a8c5a0",
];
const GREYS: [&str; 5] = ["#4d4d4d", "#6f6f6f", "#919191", "#b3b3b3", "#cfcfcf"];

const STYLE: &str = "text { font-size: 12px; fill: #222 } .title { font-size: 20px; font-weight: 600 } \
    .family { font-size: 15px; font-weight: 600 } .note { fill: #666 } .small { font-size: 10px; fill: #444 } \
    .wrong { fill: #b00020; font-weight: 600 } .grid { stroke: #e2e2e2 } .axis { stroke: #888 } .paper { fill: #fff }";

/// The drawing.
pub fn svg(results: &Results) -> String {
    let mut top = 84.0;
    let mut families = Vec::new();
    for family in &results.families {
        let (drawn, end) = draw(family, top);
        families.push(drawn);
        top = end + 40.0;
    }
    let machine = &results.machine;
    let machine = format!("{}, {}, {}", machine.processor, machine.system, machine.dpdk);
    let file = results.table.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
    let from = format!("./x bench fib, {}", file.unwrap_or("a synthetic table"));
    let parts = html! {
        rect class="paper" width="100%" height="100%" {}
        (left((MARGIN, 40.0), "title", "Longest-prefix match, side by side on one core"))
        (left((MARGIN, 60.0), "note", &from))
        @for family in &families { (family) }
        (left((MARGIN, top), "note", &machine))
    };
    drawing(WIDTH, top + 28.0, STYLE, &parts).into_string() + "\n"
}

/// Draws one family from `top` on; also returns where it ends.
fn draw(family: &Family, top: f64) -> (Markup, f64) {
    let title = format!("IPv{}, {} prefixes", family.number, HumanCount(family.routes as u64));
    let colours = colours(family);
    let base = top + 56.0 + HEIGHT;
    let (side, end) = side(family, &colours, top + 40.0);
    let drawn = html! {
        (left((MARGIN, top + 16.0), "family", &title))
        (left((LEFT, top + 40.0), "note", "million lookups per second"))
        (rates(family, &colours, base))
        (side)
    };
    (drawn, (base + 36.0).max(end))
}

fn colours(family: &Family) -> Vec<&'static str> {
    let (mut own, mut dpdk) = (COLOURS.iter().cycle(), GREYS.iter().cycle());
    let colour = |name: &str| if name.starts_with("rte_") { dpdk.next() } else { own.next() };
    family.structures.iter().map(|structure| structure.name).map(colour).map(|c| c.copied().unwrap_or("#000")).collect()
}

/// Grouped bars above `base`, a group per pattern, in the order of the names beside.
fn rates(family: &Family, colours: &[&str], base: f64) -> Markup {
    let rows: Vec<Vec<f64>> = (0..family.patterns.len())
        .map(|pattern| family.structures.iter().map(|s| family.row(s, pattern).mlookups_per_s).collect())
        .collect();
    // From 0, and with room for a number above the highest bar.
    let highest = rows.iter().flatten().copied().fold(0.0, f64::max);
    let scale = Scale::new([0.0, 1.1 * highest], false, 6);
    let y = |value: f64| base - scale.place(value) * HEIGHT;
    let group = BARS / rows.len() as f64;
    let width = (group * 0.86 / family.structures.len().max(1) as f64).min(34.0);
    html! {
        @for tick in scale.ticks() {
            (across(LEFT, LEFT + BARS, y(*tick), if *tick == 0.0 { "axis" } else { "grid" }))
            (text((LEFT - 8.0, y(*tick) + 4.0), Anchor::End, "note", &scale.label(*tick)))
        }
        @for (number, (rates, pattern)) in rows.iter().zip(&family.patterns).enumerate() {
            @let from = LEFT + group * number as f64 + (group - width * rates.len() as f64) / 2.0;
            @for (at, (rate, colour)) in rates.iter().zip(colours).enumerate() {
                @let x = from + width * at as f64;
                @let tip = format!("{}, {pattern}: {rate:.0} M/s", family.structures[at].name);
                (bar((x, y(*rate)), width - 1.5, base - y(*rate), colour, &tip))
                // Upright numbers need room.
                @if width >= 11.0 {
                    (upright((x + width / 2.0 + 3.0, y(*rate) - 4.0), "small", &format!("{rate:.0}")))
                }
            }
            // "routed+packets" on two lines.
            @let (name, more) = pattern.split_once('+').map_or((&pattern[..], String::new()), |(a, b)| (a, format!("+ {b}")));
            @let middle = LEFT + group * (number as f64 + 0.5);
            (text((middle, base + 18.0), Anchor::Middle, "", name))
            (text((middle, base + 33.0), Anchor::Middle, "note", &more))
        }
    }
}

/// Names with their colours, and bars of memory, changes and build time, each relative to the most; and where that
/// ends.
fn side(family: &Family, colours: &[&str], top: f64) -> (Markup, f64) {
    let columns: [(&str, Vec<(f64, String)>); 3] = [
        (
            "memory, MB",
            family.structures.iter().map(|s| s.bytes as f64 / 1e6).map(|mb| (mb, format!("{mb:.1}"))).collect(),
        ),
        (
            "changes/s (log)",
            family.structures.iter().map(|s| s.changes_per_s()).map(|c| (c.max(1.0).log10(), count(c))).collect(),
        ),
        ("build, s", family.structures.iter().map(|s| (s.build_s, format!("{:.2}", s.build_s))).collect()),
    ];
    let row = |number: usize| top + 12.0 + ROW * number as f64;
    let below = top + 36.0 + ROW * family.structures.len() as f64;
    let wrong: u64 = family.structures.iter().flat_map(|structure| &structure.wrong).sum();
    let (class, said) =
        if wrong == 0 { ("note", "no wrong answer".to_owned()) } else { ("wrong", format!("{wrong} wrong answers")) };
    let drawn = html! {
        @for (number, (structure, colour)) in family.structures.iter().zip(colours).enumerate() {
            (bar((SIDE, row(number)), 12.0, 12.0, colour, structure.name))
            (left((SIDE + 18.0, row(number) + 10.5), "name", structure.name))
        }
        @for (column, (title, values)) in columns.iter().enumerate() {
            @let x = SIDE + NAMES + COLUMN * column as f64;
            @let most = values.iter().map(|(value, _)| *value).fold(f64::MIN_POSITIVE, f64::max);
            (left((x, top), "note", title))
            @for (number, ((value, label), colour)) in values.iter().zip(colours).enumerate() {
                @let width = (value / most * (COLUMN - 58.0)).max(1.0);
                (bar((x, row(number)), width, 12.0, colour, label))
                (left((x + width + 5.0, row(number) + 10.5), "name", label))
            }
        }
        (left((SIDE, below), class, &said))
        @for (number, (name, _)) in family.refused.iter().enumerate() {
            @let said = format!("{name} is left out: it cannot hold this table");
            (left((SIDE, below + 18.0 * (number + 1) as f64), "note", &said))
        }
    };
    (drawn, below + 18.0 * family.refused.len() as f64)
}

fn left(place: (f64, f64), class: &str, said: &str) -> Markup {
    text(place, Anchor::Start, class, said)
}

#[cfg(test)]
mod tests {
    use super::super::results::sample;
    use super::*;

    #[test]
    fn every_structure_is_drawn_and_texts_are_escaped() {
        let results = sample();
        let svg = svg(&results);
        for family in &results.families {
            for structure in &family.structures {
                assert!(svg.contains(&format!(">{}</text>", structure.name)), "{}", structure.name);
            }
        }
        assert!(svg.contains("a&lt;b.gz") && !svg.contains("a<b.gz"));
        assert!(svg.contains(">no wrong answer<") && svg.contains(">3 wrong answers<"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // Every element is closed.
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert_eq!(svg.matches("<title>").count(), svg.matches("</title>").count());
    }
}
