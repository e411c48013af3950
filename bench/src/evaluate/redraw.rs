// SPDX-License-Identifier: MIT
//! Pictures drawn again from data that are there, without measuring: where an axis was changed since, or where there
//! was none. The page gets the same ones.

use super::changes;
use super::moonroute::OVERLOADED;
use super::ns3::{LINK_GBPS, SIZES};
use super::outcome::{Base, Picture};
use super::published;
use super::store::SAID;
use anyhow::{Context as _, Result, ensure};
use perigee_chart::{Place, draw};
use perigee_rig::Vantage;
use serde_json::Value;
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

/// Rates by a column, a line for each value of another one; rows without a rate are of something else.
fn rates(data: &Data, title: &str, by: &str, x: &str, name: impl Fn(&str) -> String) -> Result<Picture> {
    let mut lines: Lines = Vec::new();
    for row in &data.rows {
        if data.cell(row, "mpps")?.is_empty() || data.cell(row, "how").is_ok_and(|how| how == "predicted") {
            continue;
        }
        let (name, point) = (name(data.cell(row, by)?), (data.number(row, x)?, data.number(row, "mpps")?));
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    Ok(Picture { lines, ..picture(title, x, "Mpps") })
}

/// Names as the figures have them.
fn networks(cell: &str) -> String {
    match cell.parse::<u32>() {
        Ok(1) => "1 network".to_owned(),
        Ok(networks) if networks.is_power_of_two() => format!("2^{} networks", networks.ilog2()),
        _ => format!("{cell} networks"),
    }
}

/// What was measured beside what was published, with the figure and the number of each.
fn beside(folder: &Path) -> Result<Vec<(&'static str, usize, Picture)>> {
    let data = |figure: &str| Data::read(&folder.join(figure));
    let sizes = rates(&data("moonroute-sizes")?, "Packet sizes", "networks", "frame_size", networks)?;
    let workers = rates(&data("moonroute-workers")?, "Workers", "networks", "workers", networks)?;
    let routes = rates(&data("moonroute-routes")?, "Routes in use", "structure", "networks", str::to_owned)?;
    let of = |transmit: &str| format!("transmit {transmit}");
    let bursts = rates(&data("moonroute-batches")?, "Bursts", "transmit", "receive", of)?;
    let axis = |x: &str, log_x: bool, picture: Picture| Picture { x: x.into(), log_x, ..picture };
    let (sizes, routes) = (axis("bytes", false, sizes), axis("networks in use", true, routes));
    let bursts = axis("receive burst", true, bursts);
    Ok(vec![
        ("moonroute-sizes", 2, sizes.beside(&published::sizes(), Base::First)),
        ("moonroute-workers", 2, workers.beside(&published::workers(), Base::First)),
        ("moonroute-routes", 3, routes.beside(&published::routes(), Base::First)),
        ("moonroute-batches", 2, bursts.beside(&published::batches(), Base::Highest)),
        ("moonroute-latency", 2, latency(&data("moonroute-latency")?)?.beside(&published::latency(), Base::Lowest)),
    ])
}

/// What another bench has said.
fn said(folder: &Path, bench: &str) -> Result<Value> {
    let file = folder.join(SAID);
    let text = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let mut said: Value = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))?;
    Ok(said[bench].take())
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
    let mut files = vec![
        ("moonroute-latency", 1, latency(&data("moonroute-latency")?)?),
        ("moonroute-clock", 2, instructions(&data("moonroute-clock")?)?),
        ("moonroute-modules", 1, modules(&data("moonroute-modules")?)?),
        ("moonroute-rivals", 1, own),
        ("moonroute-rivals", 2, kernel),
        ("mswitch-io-lookup", 1, io_lookup(&data("mswitch-io-lookup")?)?),
        ("mswitch-breakdown", 1, breakdown(&data("mswitch-breakdown")?)?),
    ];
    let changes = changes::outcome(said(&folder.join("moonroute-changes"), "churn")?)?.pictures;
    files.extend((1..).zip(changes).map(|(number, picture)| ("moonroute-changes", number, picture)));
    files.extend(beside(folder)?);
    let index = folder.join("index.html");
    let mut page = std::fs::read_to_string(&index).with_context(|| format!("{} cannot be read", index.display()))?;
    for (figure, number, picture) in &files {
        let file = folder.join(figure).join(format!("figure-{number}.svg"));
        let svg = draw(&picture.chart(), Place::File).into_string() + "\n";
        std::fs::write(&file, svg).with_context(|| format!("{} cannot be written", file.display()))?;
        page = placed(&page, figure, *number, picture)?;
    }
    for picture in [published::modules(), published::breakdown(), published::io_lookup()] {
        page = replaced(&page, &picture)?;
    }
    page = placed(&page, "ns3-fig9", 3, &published::by_cores(&SIZES, LINK_GBPS))?;
    std::fs::write(&index, page).with_context(|| format!("{} cannot be written", index.display()))
}

/// The page with this picture in place of the one of its title in the figure's section, or else as the `number`th one
/// there.
fn placed(page: &str, figure: &str, number: usize, picture: &Picture) -> Result<String> {
    let head = format!("<h2 id=\"{figure}\"");
    let begin = page.find(&head).with_context(|| format!("the page has no figure {figure}"))?;
    let end = page[begin + 1..].find("<h2 ").map_or(page.len(), |end| begin + 1 + end);
    let section = &page[begin..end];
    if section.contains(&label(picture)) {
        return Ok(format!("{}{}{}", &page[..begin], replaced(section, picture)?, &page[end..]));
    }
    let cards: Vec<usize> = section.match_indices("</svg></div>").map(|(at, card)| at + card.len()).collect();
    let at = number.checked_sub(2).and_then(|before| cards.get(before));
    let at = begin + at.with_context(|| format!("{figure} has no picture {}", number.saturating_sub(1)))?;
    let svg = draw(&picture.chart(), Place::Page).into_string();
    Ok(format!("{}<div class=\"card\">{svg}</div>{}", &page[..at], &page[at..]))
}

/// A picture's label on the page, where texts are escaped.
fn label(picture: &Picture) -> String {
    format!("aria-label=\"{}\"", picture.title)
}

/// The page with this picture in place of the one of its title.
fn replaced(page: &str, picture: &Picture) -> Result<String> {
    let at = page.find(&label(picture)).with_context(|| format!("the page has no picture {:?}", picture.title))?;
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

    /// The page had no published curve beside ours, and pictures of the other figures of the same title.
    #[test]
    fn a_picture_that_is_new_has_its_place_in_its_section() {
        let card = |title: &str| format!("<div class=\"card\"><svg aria-label=\"{title}\"></svg></div>");
        let page = format!("<h2 id=\"a\">{}{}</h2><h2 id=\"b\">{}", card("One"), card("Three"), card("One"));
        let text = placed(&page, "a", 2, &picture("Two", "x", "y")).unwrap();
        let titles = |text: &str| -> Vec<String> {
            let labels = text.split("aria-label=\"").skip(1);
            labels.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(titles(&text), ["One", "Two", "Three", "One"]);
        // Once more: it is there already. One of another section is left alone.
        let again = placed(&text, "a", 2, &picture("Two", "x", "y")).unwrap();
        let again = placed(&again, "b", 1, &picture("One", "x", "y")).unwrap();
        assert_eq!(titles(&again), ["One", "Two", "Three", "One"]);
        assert!(again.starts_with(&format!("<h2 id=\"a\">{}", card("One"))) && !again.ends_with(&card("One")));
        assert!(placed(&page, "c", 2, &picture("Two", "x", "y")).is_err());
        assert!(placed(&page, "b", 3, &picture("Two", "x", "y")).is_err());
    }

    /// Its places were 0, 1 and 2, "structure, in order".
    #[test]
    fn the_changes_have_pictures_with_named_places() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/evaluation/moonroute-changes");
        let pictures = changes::outcome(said(&folder, "churn").unwrap()).unwrap().pictures;
        assert_eq!(pictures[0].categories, ["dir24", "auto", "a worker that only computes"]);
        assert_eq!(pictures[1].categories, ["nothing changes", "a resync", "changes"]);
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
