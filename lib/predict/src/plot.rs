// SPDX-License-Identifier: MIT
//! A chart from a CSV file: `# plot: {...}` in its first line says which columns, a header names them, rows have the
//! points.

use crate::error::Error;
use crate::points::line_of;
use perigee_chart::{Axis, Chart, Line, MAX_LINES};
use serde::{Deserialize, Deserializer};
use std::fs;
use std::path::Path;

/// The prefix of the first line, before the columns.
const HEAD: &str = "# plot:";

/// Which columns a chart shows, and how. What is not set here is taken from the file, or found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// The title above the chart.
    pub title: Option<String>,
    /// Column of the horizontal axis; else the first one.
    pub x: Option<String>,
    /// Columns of the vertical axis; else all others.
    #[serde(deserialize_with = "one_or_more")]
    pub y: Vec<String>,
    /// Column for each of whose values a line is drawn.
    pub series: Option<String>,
    /// What the horizontal axis shows; else its column's name.
    pub x_label: Option<String>,
    /// What the vertical axis shows; else its columns' names.
    pub y_label: Option<String>,
    /// Is the horizontal axis logarithmic?
    pub log_x: bool,
    /// Is the vertical axis?
    pub log_y: bool,
}

impl Columns {
    /// These settings, completed by those of the file.
    fn or(self, file: Self) -> Self {
        Self {
            title: self.title.or(file.title),
            x: self.x.or(file.x),
            y: if self.y.is_empty() { file.y } else { self.y },
            series: self.series.or(file.series),
            x_label: self.x_label.or(file.x_label),
            y_label: self.y_label.or(file.y_label),
            log_x: self.log_x || file.log_x,
            log_y: self.log_y || file.log_y,
        }
    }
}

/// Reads a chart; `columns` are asked for on the command line.
///
/// # Errors
/// A file that cannot be read, columns that it does not have, cells that are not numbers.
pub fn read(file: &Path, columns: Columns) -> Result<Chart, Error> {
    let expected = "a CSV file that can be read";
    let text = fs::read_to_string(file).map_err(|cause| Error::File { file: file.to_owned(), expected, cause })?;
    parse(&text, &file.display().to_string(), columns)
}

/// A chart from a table's text; `name` is the file's name in errors.
///
/// # Errors
/// See [`read`].
pub fn parse(text: &str, name: &str, columns: Columns) -> Result<Chart, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let columns = columns.or(of_file(text, name)?);
    let mut table = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = table.headers().map_err(|error| malformed(&error, name, text))?.clone();
    let line = header.position().map_or(1, |position| line_of(text.as_bytes(), position));
    let wrong =
        |found: String, expected: String| Error::Cell { file: name.to_owned(), line, column: None, found, expected };
    if header.len() < 2 {
        let found = if header.is_empty() { "no header".to_owned() } else { format!("{} column", header.len()) };
        return Err(wrong(found, "a header that names two columns or more".to_owned()));
    }
    let find = |column: &str| {
        let place = header.iter().position(|known| known == column);
        place.ok_or_else(|| {
            let known = header.iter().collect::<Vec<_>>().join(", ");
            wrong(format!("no column {column:?}"), format!("one of {known}"))
        })
    };
    let x = columns.x.as_deref().map_or(Ok(0), find)?;
    let series = columns.series.as_deref().map(find).transpose()?;
    let mut y = columns.y.iter().map(|column| find(column)).collect::<Result<Vec<_>, _>>()?;
    if y.is_empty() {
        y = (0..header.len()).filter(|column| *column != x && Some(*column) != series).collect();
    }
    let mut chart = Chart {
        title: columns.title.unwrap_or_default(),
        x: Axis {
            label: columns.x_label.unwrap_or_else(|| header[x].to_owned()),
            log: columns.log_x,
            ..Axis::default()
        },
        y: Axis { label: columns.y_label.unwrap_or_else(|| names(&header, &y)), log: columns.log_y, ..Axis::default() },
        ..Chart::default()
    };
    let columns = Places { name, text, header: &header, x, y, series };
    let mut points = 0;
    for row in table.records() {
        let row = row.map_err(|error| malformed(&error, name, text))?;
        points += columns.add(&row, &mut chart)?;
    }
    if points == 0 {
        return Err(Error::Points(format!("{name}: found no points, expected rows under the header")));
    }
    for line in &mut chart.lines {
        line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    Ok(chart)
}

/// The names of several columns, for the axis; the legend has each by itself.
fn names(header: &csv::StringRecord, columns: &[usize]) -> String {
    match columns {
        [one] => header[*one].to_owned(),
        _ => String::new(),
    }
}

/// The settings in the file's first line.
fn of_file(text: &str, name: &str) -> Result<Columns, Error> {
    let Some(json) = text.lines().next().and_then(|line| line.strip_prefix(HEAD)) else {
        return Ok(Columns::default());
    };
    serde_json::from_str(json.trim()).map_err(|error| Error::Cell {
        file: name.to_owned(),
        line: 1,
        column: None,
        found: format!("a mistake after {HEAD:?} ({error})"),
        expected: r#"JSON such as {"title": "t", "x": "column", "y": ["column"], "series": null, "log_x": false}"#
            .to_owned(),
    })
}

/// One column, or several.
fn one_or_more<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMore::deserialize(json)? {
        OneOrMore::One(column) => vec![column],
        OneOrMore::More(columns) => columns,
    })
}

/// What the CSV reader found.
fn malformed(error: &csv::Error, name: &str, text: &str) -> Error {
    let line = error.position().map_or(1, |position| line_of(text.as_bytes(), position));
    let found = match error.kind() {
        csv::ErrorKind::UnequalLengths { len, expected_len, .. } => format!("{len} cells under {expected_len} columns"),
        csv::ErrorKind::Utf8 { .. } => "bytes that are no text".to_owned(),
        _ => format!("a mistake ({error})"),
    };
    Error::Cell {
        file: name.to_owned(),
        line,
        column: None,
        found,
        expected: "a row with a cell for each column".to_owned(),
    }
}

/// Where a chart's columns are.
struct Places<'a> {
    name: &'a str,
    text: &'a str,
    header: &'a csv::StringRecord,
    x: usize,
    y: Vec<usize>,
    series: Option<usize>,
}

impl Places<'_> {
    /// Adds a row's points; returns how many. An empty cell of y has no point.
    fn add(&self, row: &csv::StringRecord, chart: &mut Chart) -> Result<usize, Error> {
        let x = self.number(row, self.x, chart.x.log)?;
        let series = self.series.map(|column| match row[column].parse::<f64>() {
            // A bare number says little.
            Ok(_) => format!("{} {}", &self.header[column], &row[column]),
            Err(_) => row[column].to_owned(),
        });
        let mut points = 0;
        for (dash, column) in self.y.iter().copied().enumerate().filter(|(_, column)| !row[*column].is_empty()) {
            let y = self.number(row, column, chart.y.log)?;
            let name = match (&series, self.y.len()) {
                (Some(series), 1) => series.clone(),
                (Some(series), _) => format!("{series}, {}", &self.header[column]),
                (None, 1) => String::new(),
                (None, _) => self.header[column].to_owned(),
            };
            points += 1;
            if let Some(line) = chart.lines.iter_mut().find(|line| line.name == name) {
                line.points.push((x, y));
                continue;
            }
            let i = chart.lines.len();
            if i == MAX_LINES {
                let found = format!("more than {MAX_LINES} lines");
                return Err(self.wrong(row, column, found, "fewer values of the series, or fewer columns (--y)"));
            }
            let mut line = Line::nth(i, name, vec![(x, y)]);
            // Several columns of a series have its colour, and dashes each.
            if let Some(series) = series.as_ref().filter(|_| self.y.len() > 1) {
                let of_series = |line: &&Line| line.part.as_ref().is_some_and(|(name, _)| name == series);
                let next = chart.lines.iter().map(|line| line.colour + 1).max().unwrap_or(0);
                (line.colour, line.dash) = (chart.lines.iter().find(of_series).map_or(next, |line| line.colour), dash);
                line.part = Some((series.clone(), self.header[column].to_owned()));
            }
            chart.lines.push(line);
        }
        Ok(points)
    }

    fn number(&self, row: &csv::StringRecord, column: usize, log: bool) -> Result<f64, Error> {
        let cell = &row[column];
        let number = cell.parse().ok().filter(|number: &f64| number.is_finite() && number.abs() < 1e300);
        match number {
            Some(number) if log && number <= 0.0 => {
                Err(self.wrong(row, column, cell.to_owned(), "a number > 0, as the axis is logarithmic"))
            }
            Some(number) => Ok(number),
            None => Err(self.wrong(
                row,
                column,
                if cell.is_empty() { "nothing".to_owned() } else { format!("{cell:?}") },
                "a number",
            )),
        }
    }

    fn wrong(&self, row: &csv::StringRecord, column: usize, found: String, expected: &str) -> Error {
        Error::Cell {
            file: self.name.to_owned(),
            line: row.position().map_or(1, |position| line_of(self.text.as_bytes(), position)),
            column: Some(self.header[column].to_owned()),
            found,
            expected: expected.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "# plot: {\"title\": \"Latency\", \"x\": \"load\", \"y\": [\"mean\", \"p99\"], \"series\": \"cores\", \"x_label\": \
        \"Load\", \"y_label\": \"Sojourn (us)\", \"log_y\": true}\n# measured by nobody\ncores,load,mean,p99\n4,0.5,1.5,\n2,0.5,1.8,6\n2, 0.1,0.7,0.9\n";

    fn chart(text: &str) -> Chart {
        parse(text, "t.csv", Columns::default()).unwrap()
    }

    fn error(text: &str) -> String {
        parse(text, "t.csv", Columns::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_table_says_what_it_shows() {
        let chart = chart(TABLE);
        assert_eq!(
            (chart.title.as_str(), &chart.x, &chart.y),
            ("Latency", &Axis::linear("Load"), &Axis::log("Sojourn (us)"))
        );
        let lines: Vec<_> = chart.lines.iter().map(|line| (line.name.as_str(), line.points.clone())).collect();
        let expected = [
            ("cores 4, mean", vec![(0.5, 1.5)]),
            ("cores 2, mean", vec![(0.1, 0.7), (0.5, 1.8)]),
            ("cores 2, p99", vec![(0.1, 0.9), (0.5, 6.0)]),
        ];
        assert_eq!(lines, expected);
        let looks: Vec<_> = chart.lines.iter().map(|line| (line.colour, line.dash)).collect();
        assert_eq!(looks, [(0, 0), (1, 0), (1, 1)], "a colour for each series, dashes for each column");
    }

    #[test]
    fn without_a_word_the_first_column_is_x() {
        let plain = chart("size,measured,predicted\n64,1,2\n128,3,4\n");
        assert_eq!(plain.x.label, "size");
        assert_eq!(plain.lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["measured", "predicted"]);
        let asked = Columns { x: Some("measured".to_owned()), y: vec!["size".to_owned()], ..Columns::default() };
        let chart = parse("size,measured,predicted\n64,1,2\n", "t.csv", asked).unwrap();
        assert_eq!(
            (chart.x.label.as_str(), chart.y.label.as_str(), chart.lines[0].name.as_str()),
            ("measured", "size", "")
        );
        let over = Columns { title: Some("Mine".to_owned()), ..Columns::default() };
        assert_eq!(parse(TABLE, "t.csv", over).unwrap().title, "Mine");
    }

    #[test]
    fn mistakes_have_a_line() {
        assert_eq!(error("a,b\n1,2\n3,x\n"), "t.csv:3: column b: found \"x\", expected a number");
        assert_eq!(
            error("a,b\n1,2\n\n# c\n3\n"),
            "t.csv:5: found 1 cells under 2 columns, expected a row with a cell for each column"
        );
        assert!(error("a,b\n,2\n").contains("t.csv:2: column a: found nothing"));
        assert!(error("a,b\n1,inf\n").contains("t.csv:2: column b"));
        assert!(error("").contains("no header") && error("a\n1\n").contains("1 column"));
        assert!(error("a,b\n").contains("no points"));
        assert!(error("# plot: {\n").starts_with("t.csv:1: found a mistake after"));
        assert!(error("# plot: {\"colour\": 1}\na,b\n1,2\n").contains("colour"));
        assert!(error("# plot: {\"x\": \"c\"}\na,b\n1,2\n").contains("no column \"c\", expected one of a, b"));
        assert!(
            error("# plot: {\"log_y\": true}\na,b\n1,0\n")
                .contains("t.csv:3: column b: found 0, expected a number > 0")
        );
        let many: String = (0..30).map(|i| format!("{i},1,1\n")).collect();
        assert!(error(&format!("# plot: {{\"series\": \"s\"}}\ns,x,y\n{many}")).contains("more than 24 lines"));
        let absent = read(Path::new("/nonexistent/t.csv"), Columns::default()).unwrap_err().to_string();
        assert!(absent.contains("expected a CSV file that can be read"));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "[ab,#\"\n0-9.e{}: -]{0,80}") {
            let _ = parse(&text, "t.csv", Columns::default());
        }

        /// Mutations of a table, byte by byte; what is taken can be drawn.
        #[test]
        fn tables_that_are_nearly_right(changes in prop::collection::vec((0..TABLE.len(), any::<u8>()), 1..8)) {
            let mut bytes = TABLE.as_bytes().to_vec();
            for (place, byte) in changes {
                bytes[place] = byte;
            }
            if let Ok(chart) = parse(&String::from_utf8_lossy(&bytes), "t.csv", Columns::default()) {
                let svg = perigee_chart::draw(&chart, perigee_chart::Place::File).into_string();
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""));
            }
        }
    }
}
