// SPDX-License-Identifier: MIT
//! Tables on standard output.

use comfy_table::{CellAlignment, Table, presets};

/// What a column shows of a `T`.
type Cell<'a, T> = Box<dyn Fn(&T) -> String + 'a>;

/// The columns of a table of `T`: each with its name, its alignment, and what it shows of a `T`.
pub struct Columns<'a, T> {
    names: Vec<&'static str>,
    numbers: Vec<&'static str>,
    cells: Vec<Cell<'a, T>>,
}

impl<'a, T> Columns<'a, T> {
    /// No columns yet.
    pub fn new() -> Self {
        Self { names: Vec::new(), numbers: Vec::new(), cells: Vec::new() }
    }

    /// Adds a column of words, aligned left.
    pub fn text<S: ToString>(mut self, name: &'static str, cell: impl Fn(&T) -> S + 'a) -> Self {
        self.names.push(name);
        self.cells.push(Box::new(move |of| cell(of).to_string()));
        self
    }

    /// Adds a column of numbers, aligned right.
    pub fn number<S: ToString>(mut self, name: &'static str, cell: impl Fn(&T) -> S + 'a) -> Self {
        self.numbers.push(name);
        self.text(name, cell)
    }

    /// The table with a row for each of a list.
    pub fn table<'b>(self, list: impl IntoIterator<Item = &'b T>) -> Table
    where
        T: 'b,
    {
        let row = |of: &'b T| self.cells.iter().map(|cell| cell(of)).collect();
        rows(&self.names, &self.numbers, list.into_iter().map(row))
    }
}

/// A table of ready rows; the columns named in `numbers` are aligned right.
pub fn rows(header: &[&str], numbers: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for (index, name) in header.iter().enumerate() {
        if let Some(column) = table.column_mut(index).filter(|_| numbers.contains(name)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A value, or `-` if there is none.
pub fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
