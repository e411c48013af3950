// SPDX-License-Identifier: MIT
//! What a figure comes to: pictures, data, raw samples, and what they say.

use perigee_chart::{Axis, Chart, Line};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The outcome of a figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was measured here.
    pub pictures: Vec<Picture>,
    /// What was published, in pictures of its own: machines do not mix.
    pub published: Vec<Picture>,
    /// The data, as the pictures show them.
    pub data: Table,
    /// Every sample.
    pub raw: Table,
    /// What other benches have said, where these have measured.
    #[serde(default)]
    pub said: BTreeMap<String, Value>,
    /// What came out, a sentence each.
    pub says: Vec<String>,
    /// Why there is nothing, and what to do.
    pub left_out: Option<String>,
    /// An interrupt ended it with fewer rounds than were asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partly: bool,
}

impl Outcome {
    /// A figure that could not be measured.
    pub fn left_out(why: &str) -> Outcome {
        Outcome { left_out: Some(why.to_owned()), ..Outcome::default() }
    }
}

/// Lines through points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    pub title: String,
    pub x: String,
    pub y: String,
    pub log_x: bool,
    #[serde(default)]
    pub log_y: bool,
    /// Names of the places 0, 1, 2 and so on, where these are no numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
    /// How many of the last lines were predicted and not measured; each has the colour of its own measured line, and
    /// dashes.
    #[serde(default)]
    pub predicted: usize,
    /// How many of the last lines were published, on another machine; each is dotted.
    #[serde(default)]
    pub published: usize,
}

/// The point of a line that its points are shares of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    First,
    Highest,
    Lowest,
}

impl Base {
    fn of(self, points: &[(f64, f64)]) -> Option<f64> {
        let values = || points.iter().map(|point| point.1);
        let base = match self {
            Base::First => values().next(),
            Base::Highest => values().reduce(f64::max),
            Base::Lowest => values().reduce(f64::min),
        };
        base.filter(|base| *base > 0.0)
    }

    fn axis(self) -> &'static str {
        match self {
            Base::First => "share of the line's first point",
            Base::Highest => "share of the line's highest point",
            Base::Lowest => "times the line's lowest point",
        }
    }
}

impl Picture {
    /// What was measured and what was published in one picture, each line by its own base: rates of two machines do not
    /// compare, shapes do. What was predicted, or stands apart as one point, is left out.
    pub fn beside(&self, published: &Picture, base: Base) -> Picture {
        let measured = &self.lines[..self.lines.len() - self.predicted];
        // Two first points compare only if they are at the same place.
        let firsts = measured.iter().chain(&published.lines).filter(|(_, points)| points.len() > 1);
        let from = firsts.map(|(_, points)| points[0].0).fold(f64::NEG_INFINITY, f64::max);
        let from = if matches!(base, Base::First) { from } else { f64::NEG_INFINITY };
        let shares = |name: String, points: &[(f64, f64)]| {
            let points: Vec<_> = points.iter().copied().filter(|(x, _)| *x >= from).collect();
            let of = base.of(&points)?;
            Some((name, points.iter().map(|(x, y)| (*x, y / of)).collect()))
        };
        let ours = measured.iter().filter(|(_, points)| points.len() > 1);
        let mut lines: Vec<_> = ours.filter_map(|(name, points)| shares(format!("here, {name}"), points)).collect();
        let here = lines.len();
        let note = published.title.trim_start_matches("Published: ");
        let theirs = published.lines.iter();
        lines.extend(theirs.filter_map(|(name, points)| shares(format!("published, {name}"), points)));
        Picture {
            title: format!("{}: the shape here and as published ({note})", self.title),
            x: self.x.clone(),
            y: base.axis().to_owned(),
            log_x: self.log_x,
            log_y: self.log_y,
            published: lines.len() - here,
            lines,
            ..Picture::default()
        }
    }

    /// A place for each line, which has one point.
    pub fn by_line(mut self) -> Picture {
        self.categories = self.lines.iter().map(|(name, _)| name.clone()).collect();
        for (at, (_, points)) in self.lines.iter_mut().enumerate() {
            points.iter_mut().for_each(|point| point.0 = at as f64);
        }
        self
    }

    /// The chart.
    pub fn chart(&self) -> Chart {
        Chart {
            title: self.title.clone(),
            x: Axis { label: self.x.clone(), log: self.log_x, names: self.categories.clone() },
            y: Axis { label: self.y.clone(), log: self.log_y, ..Axis::default() },
            lines: self
                .lines
                .iter()
                .enumerate()
                .map(|(i, (name, points))| {
                    let of_last = |number: usize| i.checked_sub(self.lines.len().saturating_sub(number));
                    let points = points.clone();
                    match (of_last(self.predicted), of_last(self.published)) {
                        (Some(measured), _) => Line { dash: 1, ..Line::nth(measured, name, points) },
                        (_, Some(published)) => Line { dash: 2, ..Line::nth(published, name, points) },
                        _ => Line::nth(i, name, points),
                    }
                })
                .collect(),
            marks: Vec::new(),
        }
    }
}

/// Rows of cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// No rows yet.
    pub fn new(columns: &[&str]) -> Table {
        Table { columns: columns.iter().map(|&column| column.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&dyn std::fmt::Display]) {
        self.rows.push(cells.iter().map(|cell| cell.to_string()).collect());
    }

    /// As CSV. No cell has commas or quotes.
    pub fn csv(&self) -> String {
        let line = |cells: &Vec<String>| {
            cells.iter().map(|cell| cell.replace([',', '"', '\n'], " ")).collect::<Vec<_>>().join(",") + "\n"
        };
        line(&self.columns) + &self.rows.iter().map(line).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "No published curve is drawn beside ours."
    #[test]
    fn published_lines_are_beside_the_measured_ones_as_shares() {
        let line = |name: &str, points: &[(f64, f64)]| (name.to_owned(), points.to_vec());
        let measured = Picture {
            title: "Workers".into(),
            lines: vec![
                line("a", &[(1.0, 20.0), (2.0, 39.0)]),
                line("apart", &[(2.0, 1e6)]),
                line("predicted, a", &[(1.0, 20.0), (8.0, 160.0)]),
            ],
            predicted: 1,
            ..Picture::default()
        };
        let lines = vec![line("b", &[(1.0, 5.0), (2.0, 8.0)])];
        let published = Picture { title: "Published: links are full".into(), lines, ..Picture::default() };
        let beside = measured.beside(&published, Base::First);
        assert_eq!(
            beside.lines,
            [line("here, a", &[(1.0, 1.0), (2.0, 1.95)]), line("published, b", &[(1.0, 1.0), (2.0, 1.6)])]
        );
        let dashes: Vec<usize> = beside.chart().lines.iter().map(|line| line.dash).collect();
        let title = "Workers: the shape here and as published (links are full)";
        assert_eq!((beside.title.as_str(), dashes), (title, vec![0, 2]));
        let highest = measured.beside(&published, Base::Highest);
        assert_eq!((highest.lines[1].1[0].1, highest.lines[1].1[1].1), (0.625, 1.0));
        assert_eq!(measured.beside(&published, Base::Lowest).lines[1].1[1].1, 1.6);
    }

    /// Ours began at 1 network and the published ones at 2^16: most of the gap between them was that of the bases.
    #[test]
    fn first_points_are_at_the_same_place() {
        let points = |points: &[(f64, f64)]| vec![("a".to_owned(), points.to_vec())];
        let measured = Picture { lines: points(&[(1.0, 28.0), (4.0, 20.0), (8.0, 18.0)]), ..Picture::default() };
        let published = Picture { lines: points(&[(4.0, 10.0), (8.0, 9.0)]), ..Picture::default() };
        let lines = measured.beside(&published, Base::First).lines;
        assert_eq!((&lines[0].1, &lines[1].1), (&vec![(4.0, 1.0), (8.0, 0.9)], &vec![(4.0, 1.0), (8.0, 0.9)]));
    }

    #[test]
    fn a_table_is_csv() {
        let mut table = Table::new(&["what", "Mpps"]);
        table.row(&[&"a, b", &1.5]);
        assert_eq!(table.csv(), "what,Mpps\na  b,1.5\n");
    }
}
