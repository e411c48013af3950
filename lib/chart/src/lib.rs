// SPDX-License-Identifier: MIT
//! Charts as SVG: for the pages of `perigee predict`, for files, for benchmarks.
//!
//! Written here rather than taken from a library: a page needs charts that follow its light or dark style, need neither
//! fonts nor scripts, and are the same bytes for the same numbers; the code for that is short.
//!
//! | module | does |
//! | --- | --- |
//! | `lines` | [`draw`]: a line chart |
//! | [`number`] | rates, shares and times as texts |
//! | `page` | [`page()`]: the frame of a page with charts |
//! | [`scale`] | limits of axes, ticks and their labels |
//! | [`svg`] | the elements of charts: text, bars, lines |
//!
//! Nothing here knows what the numbers mean. The crate imports no other one of the project.
#![forbid(unsafe_code)]

mod lines;
pub mod number;
mod page;
pub mod scale;
pub mod svg;

pub use lines::{STYLE, draw};
pub use page::page;
pub use svg::significant;

/// Most lines of a chart: more cannot be distinguished.
pub const MAX_LINES: usize = 24;

/// A chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The title above it.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    pub lines: Vec<Line>,
    /// Values with a name, as dashed lines across.
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// Logarithmic?
    pub log: bool,
    /// Names in place of numbers, of the values 0, 1, 2 and so on: categories.
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), log: true, ..Self::default() }
    }
}

/// A line through points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name; there is no legend if the only line has none.
    pub name: String,
    /// Its points, x and y.
    pub points: Vec<(f64, f64)>,
    /// Number of its colour and marker, which are reused after some lines.
    pub colour: usize,
    /// Number of its dashes; 0: none.
    pub dash: usize,
    pub look: Look,
    /// Its series and its column, if colours stand for series and dashes for columns: the legend has each once.
    pub part: Option<(String, String)>,
}

impl Line {
    /// The i-th line of several that have nothing in common: a colour each; dashes only where colours repeat.
    pub fn nth(i: usize, name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        let colours = lines::COLOURS.len();
        Self { name: name.into(), points, colour: i % colours, dash: i / colours, ..Self::default() }
    }

    /// The i-th cloud of several: a colour each, and other markers where colours repeat.
    pub fn cloud(i: usize, name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { look: Look::Cloud, ..Self::nth(i, name, points) }
    }
}

/// How the points of a line look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// A line, with markers unless there are too many points.
    #[default]
    Marked,
    /// Markers, however many, and no line through them.
    Cloud,
    /// A line without markers, for what was not measured.
    Plain,
}

/// A named value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Whether it is on the horizontal axis, rather than on the vertical one.
    pub horizontal: bool,
    /// The value.
    pub at: f64,
    pub name: String,
}

/// Where a drawing is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file of its own: with colours for a light background in each element, and for a dark one in a style.
    File,
    /// A page that has [`STYLE`].
    Page,
}
