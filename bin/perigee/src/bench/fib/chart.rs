// SPDX-License-Identifier: MIT
//! The results as an SVG: rates as grouped bars; memory, changes and build time beside them. It is rectangles and text, so it
//! is written here: plotting libraries have no grouped bars and measure text with fonts of the system.

use super::report::{count, grouped};
use super::results::{Family, Results};
use std::fmt::Write as _;

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

/// perigee's structures are coloured, DPDK's grey. The colours are told apart by those who see fewer, too (Okabe, Ito, 2002, and
/// darker ones of the same hues).
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c4a00", "#005c43", "#7a3e62", "#f0e442",
    "#003f63", "#a8c5a0",
];
const GREYS: [&str; 5] = ["#4d4d4d", "#6f6f6f", "#919191", "#b3b3b3", "#cfcfcf"];

/// The drawing.
pub fn svg(results: &Results) -> String {
    let mut out = String::new();
    let mut top = 84.0;
    for family in &results.families {
        top = draw(&mut out, family, top) + 40.0;
    }
    let machine = &results.machine;
    text(&mut out, MARGIN, top, "note", &format!("{}, {}, {}", machine.processor, machine.system, machine.dpdk));
    let height = top + 28.0;
    let file = results.table.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
    let from = file.unwrap_or("a synthetic table");
    let head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
         <!-- SPDX-License-Identifier: MIT -->\n\
         <style>text {{ font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 12px; fill: #222 }} \
         .title {{ font-size: 20px; font-weight: 600 }} .family {{ font-size: 15px; font-weight: 600 }} \
         .note {{ fill: #666 }} .small {{ font-size: 10px; fill: #444 }} .wrong {{ fill: #b00020; font-weight: 600 }} \
         line {{ stroke: #e2e2e2 }} .axis {{ stroke: #888 }}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut title = String::new();
    text(&mut title, MARGIN, 40.0, "title", "Longest-prefix match, side by side on one core");
    text(&mut title, MARGIN, 60.0, "note", &format!("perigee bench fib, {from}"));
    format!("{head}{title}{out}</svg>\n")
}

/// One family from `top` on; returns where it ends.
fn draw(out: &mut String, family: &Family, top: f64) -> f64 {
    let title = format!("IPv{}, {} prefixes", family.number, grouped(family.routes));
    text(out, MARGIN, top + 16.0, "family", &title);
    text(out, LEFT, top + 40.0, "note", "million lookups per second");
    let colours = colours(family);
    let base = top + 56.0 + HEIGHT;
    rates(out, family, &colours, base);
    let side = side(out, family, &colours, top + 40.0);
    (base + 36.0).max(side)
}

fn colours(family: &Family) -> Vec<&'static str> {
    let (mut own, mut dpdk) = (COLOURS.iter().cycle(), GREYS.iter().cycle());
    let colour = |name: &str| if name.starts_with("rte_") { dpdk.next() } else { own.next() };
    family.structures.iter().map(|structure| structure.name).map(colour).map(|c| c.copied().unwrap_or("#000")).collect()
}

/// Grouped bars above `base`, a group per pattern, in the order of the names beside.
fn rates(out: &mut String, family: &Family, colours: &[&str], base: f64) {
    let rows: Vec<Vec<f64>> = (0..family.patterns.len())
        .map(|pattern| family.structures.iter().map(|s| family.row(s, pattern).mlookups_per_s).collect())
        .collect();
    let highest = rows.iter().flatten().copied().fold(0.0, f64::max);
    let step = tick(highest);
    // Its number stands above the highest bar.
    let most = step * (1.1 * highest / step).ceil().max(1.0);
    let y = |value: f64| base - value / most * HEIGHT;
    let mut at = 0.0;
    while at <= most {
        let class = if at == 0.0 { "axis" } else { "grid" };
        line(out, LEFT, y(at), LEFT + BARS, class);
        text_at(out, LEFT - 8.0, y(at) + 4.0, "end", "note", &format!("{at}"));
        at += step;
    }
    let group = BARS / rows.len() as f64;
    let bar = (group * 0.86 / family.structures.len().max(1) as f64).min(34.0);
    for (number, (rates, pattern)) in rows.iter().zip(&family.patterns).enumerate() {
        let from = LEFT + group * number as f64 + (group - bar * rates.len() as f64) / 2.0;
        for (at, (rate, colour)) in rates.iter().zip(colours).enumerate() {
            let x = from + bar * at as f64;
            let tip = format!("{}, {pattern}: {rate:.0} M/s", family.structures[at].name);
            rect(out, x, y(*rate), bar - 1.5, base - y(*rate), colour, &tip);
            // Upright numbers need room.
            if bar >= 11.0 {
                let (x, y) = (x + bar / 2.0 + 3.0, y(*rate) - 4.0);
                let _ = writeln!(
                    out,
                    "<text class=\"small\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{rate:.0}</text>"
                );
            }
        }
        let middle = LEFT + group * (number as f64 + 0.5);
        // "routed+packets" on two lines.
        let (name, more) =
            pattern.split_once('+').map_or((&pattern[..], String::new()), |(a, b)| (a, format!("+ {b}")));
        text_at(out, middle, base + 18.0, "middle", "", name);
        text_at(out, middle, base + 33.0, "middle", "note", &more);
    }
}

/// Names with their colours, and bars of memory, changes and build time, each relative to the most.
fn side(out: &mut String, family: &Family, colours: &[&str], top: f64) -> f64 {
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
    for (number, structure) in family.structures.iter().enumerate() {
        let y = top + 12.0 + ROW * number as f64;
        rect(out, SIDE, y, 12.0, 12.0, colours[number], structure.name);
        text(out, SIDE + 18.0, y + 10.5, "name", structure.name);
    }
    for (column, (title, values)) in columns.iter().enumerate() {
        let x = SIDE + NAMES + COLUMN * column as f64;
        text(out, x, top, "note", title);
        let most = values.iter().map(|(value, _)| *value).fold(f64::MIN_POSITIVE, f64::max);
        for (number, (value, label)) in values.iter().enumerate() {
            let y = top + 12.0 + ROW * number as f64;
            let width = (value / most * (COLUMN - 58.0)).max(1.0);
            rect(out, x, y, width, 12.0, colours[number], label);
            text(out, x + width + 5.0, y + 10.5, "name", label);
        }
    }
    let mut y = top + 36.0 + ROW * family.structures.len() as f64;
    let wrong: u64 = family.structures.iter().flat_map(|structure| &structure.wrong).sum();
    let (class, said) =
        if wrong == 0 { ("note", "no wrong answer".into()) } else { ("wrong", format!("{wrong} wrong answers")) };
    text(out, SIDE, y, class, &said);
    for (name, _) in &family.refused {
        y += 18.0;
        text(out, SIDE, y, "note", &format!("{name} is left out: it cannot hold this table"));
    }
    y
}

/// A round distance between the axis' lines, for four to eight of them.
fn tick(most: f64) -> f64 {
    let power = 10.0f64.powf((most.max(1e-9) / 4.0).log10().floor());
    [5.0, 2.0, 1.0].map(|n| n * power).into_iter().find(|step| most / step >= 4.0).unwrap_or(power)
}

fn rect(out: &mut String, x: f64, y: f64, width: f64, height: f64, colour: &str, tip: &str) {
    let tip = escaped(tip);
    let _ = writeln!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"><title>{tip}</title></rect>"
    );
}

fn line(out: &mut String, x: f64, y: f64, to: f64, class: &str) {
    let _ = writeln!(out, "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\"/>");
}

fn text(out: &mut String, x: f64, y: f64, class: &str, said: &str) {
    text_at(out, x, y, "start", class, said);
}

fn text_at(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, said: &str) {
    let said = escaped(said);
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{said}</text>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!([800.0, 1600.0, 41.0, 0.9].map(tick), [200.0, 200.0, 10.0, 0.2]);
    }
}
