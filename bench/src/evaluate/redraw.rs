// SPDX-License-Identifier: MIT
//! Pictures drawn again from data that are there, without measuring: where an axis was changed since. The page gets the same ones.

use super::moonroute::OVERLOADED;
use super::outcome::Picture;
use super::published;
use anyhow::{Context as _, Result, ensure};
use perigee_chart::{Place, draw};
use perigee_rig::Vantage;
use std::path::Path;

/// Lines of a picture: names and points.
type Lines = Vec<(String, Vec<(f64, f64)>)>;

/// Rows of a figure's `data.csv`.
struct Data {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Data {
    fn read(folder: &Path) -> Result<Data> {
        let file = folder.join("data.csv");
        let text = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let columns = lines.next().with_context(|| format!("{} is empty", file.display()))?;
        Ok(Data { columns, rows: lines.collect() })
    }

    /// A cell by the name of its column.
    fn cell<'a>(&self, row: &'a [String], column: &str) -> Result<&'a str> {
        let at = self.columns.iter().position(|name| name == column);
        let cell = at.and_then(|at| row.get(at));
        Ok(cell.with_context(|| format!("found columns {}, expected {column}", self.columns.join(", ")))?)
    }

    fn number(&self, row: &[String], column: &str) -> Result<f64> {
        let cell = self.cell(row, column)?;
        cell.parse().with_context(|| format!("{column}: found {cell:?}, expected a number"))
    }

    /// Lines by a column's names, in the order of the rows.
    fn lines(&self, of: impl Fn(&[String]) -> Result<(String, (f64, f64))>) -> Result<Lines> {
        let mut lines: Lines = Vec::new();
        for row in &self.rows {
            let (name, point) = of(row)?;
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(point),
                None => lines.push((name, vec![point])),
            }
        }
        Ok(lines)
    }
}

fn picture(title: &str, x: &str, y: &str) -> Picture {
    Picture { title: title.into(), x: x.into(), y: y.into(), ..Picture::default() }
}

/// Which place a name has.
fn place(names: &[String], name: &str) -> Result<f64> {
    let at = names.iter().position(|known| known == name);
    Ok(at.with_context(|| format!("found {name:?}, expected one of {}", names.join(", ")))? as f64)
}

fn latency(data: &Data) -> Result<Picture> {
    let lines = data.lines(|row| {
        let (transmit, apart) = (data.cell(row, "transmit")?, data.number(row, "lost_percent")? > OVERLOADED);
        let name = format!("transmit {transmit}{}", if apart { ", overloaded" } else { "" });
        Ok((name, (data.number(row, "receive")?, data.number(row, "p50_us")?)))
    })?;
    // Nothing goes on from one overloaded point to the next.
    let is_apart = |name: &str| name.ends_with("overloaded");
    let (apart, lines): (Vec<_>, Vec<_>) = lines.into_iter().partition(|(name, _)| is_apart(name));
    let apart =
        apart.into_iter().flat_map(|(name, points)| points.into_iter().map(move |point| (name.clone(), vec![point])));
    let lines = lines.into_iter().chain(apart).collect();
    Ok(Picture { log_x: true, log_y: true, lines, ..picture("Median at 90 % load", "receive burst", "us") })
}

fn instructions(data: &Data) -> Result<Picture> {
    let mut points = Vec::new();
    for row in data.rows.iter() {
        if !data.cell(row, "instructions")?.is_empty() {
            points.push((data.number(row, "networks")?, data.number(row, "instructions")?));
        }
    }
    let lines = vec![("fast path, source and sink".to_owned(), points)];
    let title = "Instructions per packet, counted by valgrind";
    Ok(Picture { log_x: true, lines, ..picture(title, "networks in use", "instructions") })
}

fn modules(data: &Data) -> Result<Picture> {
    let mut lines = data.lines(|row| Ok((data.cell(row, "module")?.to_owned(), (0.0, data.number(row, "ns")?))))?;
    lines.sort_by(|a, b| b.1[0].1.total_cmp(&a.1[0].1));
    Ok(Picture { lines, ..picture("Time per module", "module", "ns per packet") }.by_line())
}

fn io_lookup(data: &Data) -> Result<Picture> {
    let categories = ["af_packet", "memory"].map(String::from).to_vec();
    let lines = data.lines(|row| {
        let lookup = data.cell(row, "lookup")?.replace("  ", ", ");
        Ok((lookup, (place(&categories, data.cell(row, "io")?)?, data.number(row, "ns")?)))
    })?;
    Ok(Picture { log_y: true, categories, lines, ..picture("Input and output by lookup", "I/O", "ns per packet") })
}

fn breakdown(data: &Data) -> Result<Picture> {
    let categories: Vec<String> = Vantage::ALL.iter().map(|vantage| vantage.name().to_owned()).collect();
    let lines = data.lines(|row| {
        let until = place(&categories, data.cell(row, "until")?)?;
        Ok((data.cell(row, "structure")?.to_owned(), (until, data.number(row, "ns")?)))
    })?;
    Ok(Picture { categories, lines, ..picture("Time per packet up to each point", "up to", "ns") })
}

/// The rows of one table of routers.
fn rivals(data: &Data, of: impl Fn(&str) -> bool, picture: Picture) -> Result<Picture> {
    let mut lines = Vec::new();
    for row in &data.rows {
        let table = data.cell(row, "table")?;
        if of(table) {
            let routes =
                if table.ends_with("veth") { format!(" {}", table.trim_end_matches("  veth")) } else { String::new() };
            let name = data.cell(row, "router")?.replace("  ", ", ");
            lines.push((name + &routes, vec![(0.0, data.number(row, "mpps")?)]));
        }
    }
    Ok(Picture { lines, ..picture }.by_line())
}

/// Draws them in a folder of results, and in its page.
///
/// # Errors
/// Data that are not as the figures write them, or a page without these pictures.
pub fn redraw(folder: &Path) -> Result<()> {
    let data = |figure: &str| Data::read(&folder.join(figure));
    let routers = data("moonroute-rivals")?;
    let own = rivals(&routers, |table| !table.ends_with("veth"), picture("One core, small table", "router", "Mpps"))?;
    let kernel = picture("The kernel, between veth pairs", "way", "Mpps per CPU second");
    let kernel = rivals(&routers, |table| table.ends_with("veth"), kernel)?;
    let files = [
        ("moonroute-latency", 1, latency(&data("moonroute-latency")?)?),
        ("moonroute-clock", 2, instructions(&data("moonroute-clock")?)?),
        ("moonroute-modules", 1, modules(&data("moonroute-modules")?)?),
        ("moonroute-rivals", 1, own),
        ("moonroute-rivals", 2, kernel),
        ("mswitch-io-lookup", 1, io_lookup(&data("mswitch-io-lookup")?)?),
        ("mswitch-breakdown", 1, breakdown(&data("mswitch-breakdown")?)?),
    ];
    let index = folder.join("index.html");
    let mut page = std::fs::read_to_string(&index).with_context(|| format!("{} cannot be read", index.display()))?;
    for (figure, number, picture) in &files {
        let file = folder.join(figure).join(format!("figure-{number}.svg"));
        let svg = draw(&picture.chart(), Place::File).into_string() + "\n";
        std::fs::write(&file, svg).with_context(|| format!("{} cannot be written", file.display()))?;
        page = replaced(&page, picture)?;
    }
    for picture in [published::modules(), published::breakdown(), published::io_lookup()] {
        page = replaced(&page, &picture)?;
    }
    std::fs::write(&index, page).with_context(|| format!("{} cannot be written", index.display()))
}

/// The page with this picture in place of the one of its title.
fn replaced(page: &str, picture: &Picture) -> Result<String> {
    let label = format!("aria-label=\"{}\"", picture.title);
    let at = page.find(&label).with_context(|| format!("the page has no picture {:?}", picture.title))?;
    let begin = page[..at].rfind("<svg").context("a picture without a beginning")?;
    let end = at + page[at..].find("</svg>").context("a picture without an end")? + "</svg>".len();
    ensure!(begin < end, "the page's pictures are inside one another");
    Ok(format!("{}{}{}", &page[..begin], draw(&picture.chart(), Place::Page).into_string(), &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One point at 681 us, which had lost 26 % of its packets, on a linear axis: all others lay on 0.
    #[test]
    fn an_overloaded_point_stands_apart_on_an_axis_that_fits() {
        let folder = tempfile::tempdir().unwrap();
        let rows = "receive,transmit,offered_mpps,p50_us,p90_us,p99_us,lost_percent\n1,1,2,681.59,1,1,26.394\n8,1,8,0.72,1,1,0.000\n";
        std::fs::write(folder.path().join("data.csv"), rows).unwrap();
        let picture = latency(&Data::read(folder.path()).unwrap()).unwrap();
        assert!(picture.log_y);
        assert_eq!(picture.lines[0], ("transmit 1".to_owned(), vec![(8.0, 0.72)]));
        assert_eq!(picture.lines[1], ("transmit 1, overloaded".to_owned(), vec![(1.0, 681.59)]));
    }

    #[test]
    fn a_picture_of_the_page_is_replaced() {
        let one = picture("One", "x", "y");
        let page = "<p>a</p><svg aria-label=\"One\"><g/></svg><svg aria-label=\"Two\"></svg>";
        let text = replaced(page, &one).unwrap();
        assert!(text.starts_with("<p>a</p><svg") && text.ends_with("<svg aria-label=\"Two\"></svg>"), "{text}");
        assert!(!text.contains("<g/>") && replaced(page, &picture("Three", "x", "y")).is_err());
    }
}
