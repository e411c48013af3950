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
    /// How many of the last lines were predicted and not measured; each has the colour of its own measured line, and dashes.
    #[serde(default)]
    pub predicted: usize,
}

impl Picture {
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
                .map(|(i, (name, points))| match i.checked_sub(self.lines.len().saturating_sub(self.predicted)) {
                    Some(measured) => Line { dash: 1, ..Line::nth(measured, name, points.clone()) },
                    None => Line::nth(i, name, points.clone()),
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

    #[test]
    fn a_table_is_csv() {
        let mut table = Table::new(&["what", "Mpps"]);
        table.row(&[&"a, b", &1.5]);
        assert_eq!(table.csv(), "what,Mpps\na  b,1.5\n");
    }
}
