// SPDX-License-Identifier: MIT
//! A chart as SVG: title, legend in rows above the lines (never over them), grid, lines with markers that show their
//! values.
//!
//! People with colour vision deficiency can tell the colours apart, and lines differ by marker, too. Elements carry
//! their colours for a light background; [`STYLE`] has those for a dark one, which win where style sheets are
//! supported.

use crate::scale::Scale;
use crate::svg::{Anchor, FONTS, Px, across, printable, significant, text};
use crate::{Chart, Line, Look, Mark, Place};
use maud::{Markup, PreEscaped, html};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Width of a file; on a page, two charts are side by side.
const WIDTHS: [f64; 2] = [760.0, 580.0];
/// Height of the part with lines.
const HEIGHT: f64 = 300.0;
const FONT: f64 = 13.0;
/// Height of a row of the legend.
const ROW: f64 = 20.0;
/// Longest name in the legend, in characters.
const NAME: usize = 48;
/// Lines with more points have no markers.
const MARKERS: usize = 60;

/// In the order in which they are used.
pub(crate) const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#8a6d00", "#555555"];
/// None; then lengths of strokes and gaps.
const DASHES: [Option<&str>; 4] = [None, Some("7 4"), Some("2 4"), Some("9 3 2 3")];
const INK: &str = "#1c1f23";
const DIM: &str = "#5b6470";
const GRID: &str = "#e3e6ea";
const PAPER: &str = "#ffffff";

/// Colours for a dark background, for the style sheet of a page with charts of [`Place::Page`].
pub const STYLE: &str = "@media (prefers-color-scheme: dark) {
  .pp-ink { fill: #e8eaed } .pp-dim { fill: #a0a8b2 } .pp-grid { stroke: #343a42 } .pp-axis { stroke: #6b7480 }
  .pp-paper { fill: #16191d } .pp-halo { stroke: #16191d } .pp-mark { stroke: #a0a8b2 }
  .pp-s0 { stroke: #56b4e9 } .pp-s1 { stroke: #f28a4b } .pp-s2 { stroke: #35c49a }
  .pp-s3 { stroke: #d98ccb } .pp-s4 { stroke: #d9b84a } .pp-s5 { stroke: #c2c8cf }
  .pp-f0 { fill: #56b4e9 } .pp-f1 { fill: #f28a4b } .pp-f2 { fill: #35c49a }
  .pp-f3 { fill: #d98ccb } .pp-f4 { fill: #d9b84a } .pp-f5 { fill: #c2c8cf }
}
";

/// Draws a chart. Points that are not finite, or cannot be on a logarithmic axis, are gaps.
pub fn draw(chart: &Chart, place: Place) -> Markup {
    Drawing::new(chart, place).draw(place)
}

/// A chart with its measures.
struct Drawing<'a> {
    chart: &'a Chart,
    width: f64,
    x: Scale,
    y: Scale,
    /// Edges of the part with lines.
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    legend: Vec<(Entry, f64, f64)>,
}

/// A name in the legend.
struct Entry {
    name: String,
    /// Number of the colour and marker; none: dashes of any colour.
    colour: Option<usize>,
    dash: usize,
    look: Look,
    /// Number of the marker.
    shape: usize,
}

impl<'a> Drawing<'a> {
    fn new(chart: &'a Chart, place: Place) -> Self {
        let whole = WIDTHS[usize::from(place == Place::Page)];
        let points = || chart.lines.iter().flat_map(|line| &line.points);
        let marks =
            |horizontal: bool| chart.marks.iter().filter(move |mark| mark.horizontal == horizontal).map(|mark| mark.at);
        let x = match chart.x.names.as_slice() {
            [] => Scale::new(points().map(|point| point.0).chain(marks(true)), chart.x.log, 8),
            names => Scale::categories(names),
        };
        let y = Scale::new(points().map(|point| point.1).chain(marks(false)), chart.y.log, 6);
        let labels = y.ticks().iter().map(|tick| width(&y.label(*tick), FONT)).fold(20.0, f64::max);
        let (left, right) = (labels + 22.0, whole - 26.0);
        let mut top = 14.0 + if chart.title.is_empty() { 0.0 } else { 26.0 };
        let legend = legend(&chart.lines, left, right, &mut top);
        top += if chart.y.label.is_empty() { 8.0 } else { 24.0 };
        Self { chart, width: whole, x, y, left, right, top, bottom: top + HEIGHT, legend }
    }

    fn draw(&self, place: Place) -> Markup {
        let height = (self.bottom + if self.chart.x.label.is_empty() { 34.0 } else { 54.0 }).round();
        let (title, width, file) = (printable(&self.chart.title), self.width, place == Place::File);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(title)
                font-family=(FONTS) font-size=(FONT) width=[file.then_some(width)] height=[file.then_some(height)] {
                @if file {
                    style { (PreEscaped(STYLE)) }
                    rect class="pp-paper" width="100%" height="100%" fill=(PAPER) {}
                }
                g font-size="16" font-weight="600" fill=(INK) {
                    @if !title.is_empty() { (text((self.left, 26.0), Anchor::Start, "pp-ink", &title)) }
                }
                (self.grid())
                @for mark in &self.chart.marks { (self.mark(mark)) }
                @for line in &self.chart.lines { (self.line(line)) }
                (self.names())
            }
        }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = self.left + self.x.place(x) * (self.right - self.left);
        (across, self.bottom - self.y.place(y) * (self.bottom - self.top))
    }

    fn grid(&self) -> Markup {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        let mut free = f64::NEG_INFINITY;
        let columns = self.x.ticks().iter().map(|tick| {
            let label = self.x.label(*tick);
            let ((x, _), half) = (self.at((*tick, 0.0)), 0.5 * width(&label, FONT));
            // Labels that would run into each other are left out.
            let fits = x - half >= free && x + half <= self.width;
            if fits {
                free = x + half + 8.0;
            }
            (x, fits.then_some(label))
        });
        let columns: Vec<_> = columns.collect();
        html! {
            g stroke=(GRID) {
                @for tick in self.y.ticks() { (across(left, right, self.at((0.0, *tick)).1, "pp-grid")) }
                @for (x, _) in &columns { path class="pp-grid" d={ "M" (Px(*x)) " " (Px(top)) "V" (Px(bottom)) } {} }
            }
            g stroke=(DIM) { (across(left, right, bottom, "pp-axis")) }
            g fill=(DIM) {
                @for tick in self.y.ticks() {
                    @let place = (left - 8.0, self.at((0.0, *tick)).1 + 0.35 * FONT);
                    (text(place, Anchor::End, "pp-dim", &self.y.label(*tick)))
                }
                @for (x, label) in &columns {
                    @if let Some(label) = label { (text((*x, bottom + 20.0), Anchor::Middle, "pp-dim", label)) }
                }
                @if !self.chart.y.label.is_empty() {
                    (text((left, top - 10.0), Anchor::Start, "pp-dim", &self.chart.y.label))
                }
                @if !self.chart.x.label.is_empty() {
                    (text((0.5 * (left + right), bottom + 42.0), Anchor::Middle, "pp-dim", &self.chart.x.label))
                }
            }
        }
    }

    fn mark(&self, mark: &Mark) -> Markup {
        let scale = if mark.horizontal { &self.x } else { &self.y };
        if !scale.has(mark.at) {
            return Markup::default();
        }
        let (x, y) = self.at((mark.at, mark.at));
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        let (path, place, anchor) = if mark.horizontal {
            let path = html! { "M" (Px(x)) " " (Px(top)) "V" (Px(bottom)) };
            let fits = x + 6.0 + width(&mark.name, 12.0) < right;
            let (x, anchor) = if fits { (x + 6.0, Anchor::Start) } else { (x - 6.0, Anchor::End) };
            (path, (x, bottom - 8.0), anchor)
        } else {
            let path = html! { "M" (Px(left)) " " (Px(y)) "H" (Px(right)) };
            (path, (left + 8.0, if y - top > 18.0 { y - 5.0 } else { y + 15.0 }), Anchor::Start)
        };
        html! {
            path class="pp-mark" d=(path) fill="none" stroke=(DIM) stroke-dasharray="5 4" {}
            g fill=(DIM) stroke=(PAPER) stroke-width="4" stroke-linejoin="round" paint-order="stroke" font-size="12" {
                (text(place, anchor, "pp-dim pp-halo", &mark.name))
            }
        }
    }

    fn line(&self, line: &Line) -> Markup {
        let usable = |point: &&(f64, f64)| self.x.has(point.0) && self.y.has(point.1);
        let mut path = String::new();
        for pieces in line.points.split(|point| !usable(&point)) {
            for (j, point) in pieces.iter().enumerate() {
                let (x, y) = self.at(*point);
                let _ = write!(path, "{}{x:.1} {y:.1}", if j == 0 { "M" } else { "L" });
            }
        }
        let (class, colour) = look(line.colour);
        let is_marked = match line.look {
            Look::Marked => line.points.len() <= MARKERS,
            Look::Cloud => true,
            Look::Plain => false,
        };
        let markers = if is_marked { &line.points[..] } else { &[] };
        let name = if line.name.is_empty() { String::new() } else { printable(&line.name) + ": " };
        html! {
            @if line.look != Look::Cloud {
                path class={ "pp-s" (class) } d=(path) fill="none" stroke=(colour) stroke-width="2" stroke-linejoin="round"
                    stroke-dasharray=[DASHES[line.dash % DASHES.len()]] {}
            }
            @for point in markers.iter().filter(usable) {
                g {
                    title { (name) (significant(point.0, 6)) ", " (significant(point.1, 4)) }
                    (marker(line.colour, shape(line), self.at(*point)))
                }
            }
        }
    }

    fn names(&self) -> Markup {
        html! {
            @for (Entry { name, colour, dash, look: kind, shape }, x, y) in &self.legend {
                @let path = html! { "M" (Px(*x)) " " (Px(*y)) "H" (Px(x + 24.0)) };
                @let (class, stroke) = colour.map_or(("pp-mark".to_owned(), DIM), |number| {
                    let (class, colour) = look(number);
                    (format!("pp-s{class}"), colour)
                });
                @if *kind != Look::Cloud {
                    path class=(class) stroke=(stroke) d=(path) fill="none" stroke-width="2"
                        stroke-dasharray=[DASHES[dash % DASHES.len()]] {}
                }
                @if let Some(number) = colour && *kind != Look::Plain {
                    (marker(*number, *shape, (x + 12.0, *y)))
                }
                g fill=(INK) { (text((x + 30.0, y + 0.35 * FONT), Anchor::Start, "pp-ink", &short(name))) }
            }
        }
    }
}

/// The names in the legend: series and columns if lines have these, otherwise the lines. None if there is only one
/// line, without a name.
fn entries(lines: &[Line]) -> Vec<Entry> {
    if lines.iter().all(|line| line.name.is_empty()) {
        return Vec::new();
    }
    let mut series = BTreeMap::new();
    let mut columns = BTreeMap::new();
    for line in lines {
        if let Some((name, column)) = &line.part {
            series.insert(line.colour, name);
            columns.insert(line.dash, column);
        }
    }
    if lines.iter().any(|line| line.part.is_none()) || series.len() < 2 || columns.len() < 2 {
        let of_line = |line: &Line| Entry {
            name: line.name.clone(),
            colour: Some(line.colour),
            dash: line.dash,
            look: line.look,
            shape: shape(line),
        };
        return lines.iter().map(of_line).collect();
    }
    let entry = |name: &str, colour: Option<usize>, dash| Entry {
        name: name.to_owned(),
        colour,
        dash,
        look: Look::Marked,
        shape: colour.unwrap_or(0),
    };
    let of_series = series.into_iter().map(|(colour, name)| entry(name, Some(colour), 0));
    let of_columns = columns.into_iter().map(|(dash, name)| entry(name, None, dash));
    of_series.chain(of_columns).collect()
}

/// Places the names in rows from `top`, which is moved below them; dashes begin a new row.
fn legend(lines: &[Line], left: f64, right: f64, top: &mut f64) -> Vec<(Entry, f64, f64)> {
    let mut places = Vec::new();
    let (mut x, mut y) = (left, *top + 0.5 * ROW);
    let mut coloured = true;
    for entry in entries(lines) {
        let needed = 30.0 + width(&short(&entry.name), FONT);
        let other_kind = std::mem::replace(&mut coloured, entry.colour.is_some()) != entry.colour.is_some();
        if x > left && (x + needed > right || other_kind) {
            (x, y) = (left, y + ROW);
        }
        places.push((entry, x, y));
        x += needed + 22.0;
    }
    if !places.is_empty() {
        *top = y + 0.5 * ROW + 6.0;
    }
    places
}

/// Class and value of a colour.
fn look(number: usize) -> (usize, &'static str) {
    let class = number % COLOURS.len();
    (class, COLOURS[class])
}

/// The number of a line's marker: that of its colour, but for clouds whose colour repeats.
fn shape(line: &Line) -> usize {
    if line.look == Look::Cloud { line.colour + line.dash } else { line.colour }
}

/// A marker by the number of its shape: circle, square, triangle, diamond.
fn marker(number: usize, shape: usize, (x, y): (f64, f64)) -> Markup {
    let (class, colour) = look(number);
    let path = match shape % 4 {
        0 => {
            return html! { circle class={ "pp-f" (class) } cx=(Px(x)) cy=(Px(y)) r="3.4" fill=(colour) {} };
        }
        1 => "m-3 -3h6v6h-6z",
        2 => "m0 -4.2l4 7h-8z",
        _ => "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z",
    };
    html! { path class={ "pp-f" (class) } d={ "M" (Px(x)) " " (Px(y)) (path) } fill=(colour) {} }
}

/// A name as the legend shows it.
fn short(name: &str) -> String {
    if name.chars().count() <= NAME { name.to_owned() } else { name.chars().take(NAME - 1).chain(['…']).collect() }
}

/// About how wide a text is, in the unit of its font size: fonts differ, so a little more than most.
fn width(text: &str, size: f64) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' => 0.32,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
        'A'..='Z' => 0.72,
        c if c.is_ascii() => 0.62,
        _ => 0.9,
    };
    text.chars().map(of).sum::<f64>() * size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;

    fn chart() -> Chart {
        let line =
            |i, name: &str, by: f64| Line::nth(i, name, (1..=16).map(|k| (f64::from(k), by * f64::from(k))).collect());
        Chart {
            title: "Cores <& \"links\">".to_owned(),
            x: Axis::linear("Cores"),
            y: Axis::linear("Gbit/s"),
            lines: vec![line(0, "a", 1.0), line(1, "b", 2.0)],
            marks: vec![Mark { horizontal: false, at: 10.0, name: "offered".to_owned() }],
        }
    }

    #[test]
    fn texts_are_escaped() {
        let svg = draw(&chart(), Place::File).into_string();
        assert!(svg.contains("Cores &lt;&amp; &quot;links&quot;&gt;") && !svg.contains("<&"));
    }

    #[test]
    fn every_point_is_in_the_picture() {
        let svg = draw(&chart(), Place::Page).into_string();
        assert_eq!(svg.matches("<title>a: ").count(), 16);
        for part in svg.split("cx=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            let y: f64 = part.split("cy=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=WIDTHS[1]).contains(&x) && y > 0.0 && y < 500.0);
        }
        assert!(!svg.contains("<style>") && draw(&chart(), Place::File).into_string().contains("<style>"));
    }

    #[test]
    fn clouds_have_markers_alone_and_each_its_own() {
        let points = || (0..100).map(|i| (f64::from(i), f64::from(i))).collect();
        let clouds = Chart { lines: vec![Line::cloud(0, "a", points()), Line::cloud(6, "b", points())], ..chart() };
        let svg = draw(&clouds, Place::Page).into_string();
        assert!(!svg.contains("class=\"pp-s"), "no line");
        assert_eq!(svg.matches("<circle class=\"pp-f0\"").count(), 101, "the points, and the legend's");
        assert_eq!(svg.matches("<path class=\"pp-f0\"").count(), 101, "the colour repeats, the marker does not");
        let plain = Line { look: Look::Plain, ..Line::nth(0, "a", vec![(0.0, 0.0), (1.0, 1.0)]) };
        let svg = draw(&Chart { lines: vec![plain], ..chart() }, Place::Page).into_string();
        assert!(
            !svg.contains("class=\"pp-f") && svg.matches("class=\"pp-s0\"").count() == 2,
            "the line, and the legend's"
        );
    }

    #[test]
    fn gaps_and_nothing_can_be_drawn() {
        let mut gaps = chart();
        gaps.y.log = true;
        gaps.lines[0].points[3].1 = 0.0;
        gaps.lines[0].points[9].1 = f64::NAN;
        let svg = draw(&gaps, Place::File).into_string();
        let path = svg.split("class=\"pp-s0\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches('M').count(), 3, "{path}");
        assert!(!svg.contains("NaN"));
        assert!(draw(&Chart::default(), Place::File).into_string().ends_with("</svg>"));
    }

    #[test]
    fn names_never_leave_the_picture() {
        let mut many = chart();
        many.lines =
            (0..24).map(|i| Line::nth(i, format!("a rather long name of line {i}"), vec![(1.0, 1.0)])).collect();
        let drawing = Drawing::new(&many, Place::Page);
        assert_eq!(drawing.legend.len(), 24);
        for ((entry, x, y), line) in drawing.legend.iter().zip(&many.lines) {
            assert_eq!(entry.name, line.name);
            assert!(x + 30.0 + width(&line.name, FONT) <= drawing.right + 1.0 && *y < drawing.top - 10.0);
        }
    }

    #[test]
    fn the_legend_has_each_series_and_each_column_once() {
        let mut grid = chart();
        grid.lines = (0..12).map(|i| Line::nth(i, format!("line {i}"), vec![(1.0, 1.0)])).collect();
        for (i, line) in grid.lines.iter_mut().enumerate() {
            (line.colour, line.dash) = (i / 3, i % 3);
            line.part = Some((format!("series {}", i / 3), format!("column {}", i % 3)));
        }
        let names = |lines: &[Line]| entries(lines).into_iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        assert_eq!(names(&grid.lines), "series 0, series 1, series 2, series 3, column 0, column 1, column 2");
        let drawing = Drawing::new(&grid, Place::File);
        assert!(drawing.legend[4].2 > drawing.legend[3].2, "columns begin a row");
        assert_eq!(names(&grid.lines[..3]), "line 0, line 1, line 2", "one series needs no grid");
    }
}
