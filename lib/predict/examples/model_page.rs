// SPDX-License-Identifier: MIT
//! Rewrites the tables of `docs/model.md`: `cargo run -p perigee-predict --example model_page`.
//!
//! The page is written manually except for the parts between `<!-- begin NAME: generated -->` and `<!-- end NAME -->`.
//! Where `examples/predict/simulated.csv` exists (columns `flows`, `frame_size`, `eq7`, `contention`: Gbit/s on the
//! wire that the ns-3 module forwarded), its figures are shown next to the calculated ones.

use perigee_predict::fit::{Fit, Kind, Options, fit};
use perigee_predict::verify::{Errors, Verified, verify};
use perigee_predict::{Bound, Point, Profile, points, service};
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let file = repository().join("docs/model.md");
    let fresh = page(&fs::read_to_string(&file)?)?;
    Ok(fs::write(&file, fresh)?)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page with its generated parts renewed.
pub fn page(old: &str) -> Result<String, Box<dyn Error>> {
    let data = Data::new()?;
    let mut page = old.to_owned();
    for (name, text) in [
        ("rates", data.rates()),
        ("errors", data.errors()),
        ("fits", data.fits()?),
        ("truncation", data.truncation()),
        ("eight", data.eight()),
    ] {
        let (begin, end) = (format!("<!-- begin {name}: generated -->\n"), format!("<!-- end {name} -->"));
        let from = page.find(&begin).ok_or_else(|| format!("found no {begin}"))? + begin.len();
        let to = page[from..].find(&end).ok_or_else(|| format!("found no {end}"))? + from;
        page.replace_range(from..to, &text);
    }
    Ok(page)
}

/// Rates that the ns-3 module forwarded, by flows and frame size: Equation 7, linear contention.
type Simulated = HashMap<(u32, u32), [f64; 2]>;

/// The published table, and the predictions of the two published models.
struct Data {
    points: Vec<Point>,
    eq7: Profile,
    contention: Profile,
    by_eq7: Vec<Verified>,
    by_contention: Vec<Verified>,
    simulated: Simulated,
}

fn load(name: &str) -> Result<Vec<Point>, perigee_predict::Error> {
    points::load(&repository().join("examples/predict").join(name))
}

fn fit_to(points: &[Point], kind: Kind) -> Result<Fit, perigee_predict::Error> {
    fit(points, "points", &Options { kind: Some(kind), name: kind.name().to_owned(), ..Options::default() })
}

/// Limited by cores, and each flow on a core of its own.
fn lone(point: &Point, predicted: &Verified) -> bool {
    point.flows <= 4 && predicted.limit == "cores"
}

fn percent(value: f64, measured: f64) -> String {
    // A sum with 0 has no -0.
    format!("{:+.2}", (1e4 * (value / measured - 1.0)).round() / 100.0 + 0.0)
}

impl Data {
    fn new() -> Result<Self, Box<dyn Error>> {
        let points = load("published.csv")?;
        let eq7 = fit_to(&load("four-points.csv")?, Kind::Eq7)?.profile;
        let contention = fit_to(&load("contention-points.csv")?, Kind::Contention)?.profile;
        let by_eq7 = verify(&eq7, &points, "published.csv")?.points;
        let by_contention = verify(&contention, &points, "published.csv")?.points;
        Ok(Self { points, eq7, contention, by_eq7, by_contention, simulated: simulated()? })
    }

    /// Every row: measured, published, recomputed.
    fn rates(&self) -> String {
        let mut text =
            "| flows x bytes | measured | published simulation | published Eq. 5 | Eq. 5 | linear contention | limit \
                        | packets, Eq. 7 | packets, contention |\n\
                        | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n"
                .to_owned();
        for (i, point) in self.points.iter().enumerate() {
            let with_error = |value: f64| format!("{value:.4} ({} %)", percent(value, point.gbps));
            let packets = self.simulated.get(&(point.flows, point.frame_size));
            let packets = [0, 1].map(|model| packets.map_or("-".to_owned(), |rates| with_error(rates[model])));
            let _ = writeln!(
                text,
                "| {} x {} | {:.4} | {} | {:.4} | {} | {} | {} | {} | {} |",
                point.flows,
                point.frame_size,
                point.gbps,
                with_error(published(point, "published_simulated")),
                published(point, "published_eq5"),
                with_error(self.by_eq7[i].point.predicted_gbps),
                with_error(self.by_contention[i].point.predicted_gbps),
                self.by_eq7[i].limit,
                packets[0],
                packets[1],
            );
        }
        text
    }

    /// Errors by kind of row.
    fn errors(&self) -> String {
        let mut text =
            "| rows | | published simulation | Eq. 5 | linear contention |\n| --- | --- | ---: | ---: | ---: |\n"
                .to_owned();
        let of = |which: &dyn Fn(usize) -> bool, value: &dyn Fn(usize) -> f64| {
            let rows = (0..self.points.len()).filter(|&i| which(i));
            let errors: Vec<_> = rows.map(|i| (self.points[i].line, value(i) / self.points[i].gbps - 1.0)).collect();
            Errors::of(&errors).expect("there are such rows")
        };
        let sets: [(&str, &dyn Fn(usize) -> bool); 6] = [
            ("all", &|_| true),
            ("1 to 4 flows, limited by cores", &|i| lone(&self.points[i], &self.by_eq7[i])),
            ("these without the four that Eq. 5 was fitted to", &|i| {
                lone(&self.points[i], &self.by_eq7[i]) && !self.by_eq7[i].fitted
            }),
            ("these without the three that contention was fitted to", &|i| {
                lone(&self.points[i], &self.by_eq7[i]) && !self.by_contention[i].fitted
            }),
            ("100 flows", &|i| self.points[i].flows == 100),
            ("limited by links", &|i| self.by_eq7[i].limit == "links"),
        ];
        for (name, which) in sets {
            let all = [
                of(which, &|i| published(&self.points[i], "published_simulated")),
                of(which, &|i| self.by_eq7[i].point.predicted_gbps),
                of(which, &|i| self.by_contention[i].point.predicted_gbps),
            ];
            let mut line = |what: &str, value: &dyn Fn(&Errors) -> String| {
                let rows = format!("{name} ({})", all[0].points);
                let values = all.each_ref().map(value).join(" | ");
                let _ = writeln!(text, "| {} | {what} | {values} |", if what == "mean" { rows.as_str() } else { "" });
            };
            line("mean", &|errors| format!("{:+.3} %", errors.signed_mean_percent));
            line("mean absolute", &|errors| format!("{:.3} %", errors.mean_absolute_percent));
            line("worst", &|errors| format!("{:+.3} %", errors.worst_percent));
        }
        text
    }

    /// The models fitted to all rows that cores limit.
    fn fits(&self) -> Result<String, perigee_predict::Error> {
        let mut text =
            "| points | model | parameters with 95 % intervals | mean absolute error | the same, without the point \
                        | standard deviation |\n| --- | --- | --- | ---: | ---: | ---: |\n"
                .to_owned();
        let few: Vec<Point> = self.points.iter().filter(|point| point.flows <= 4).cloned().collect();
        for (name, points) in [("1 to 4 flows", &few), ("all", &self.points)] {
            for kind in [Kind::Eq7, Kind::Contention] {
                let report = fit_to(points, kind)?.report;
                let parameters = report.parameters.iter().map(|parameter| {
                    let (low, high) = (parameter.low.unwrap_or(f64::NAN), parameter.high.unwrap_or(f64::NAN));
                    let digits = if kind == Kind::Eq7 || parameter.name == "c_byte_ns" { 5 } else { 1 };
                    let value = parameter.value;
                    format!("{} = {value:.digits$} ({low:.digits$} to {high:.digits$})", parameter.name)
                });
                let parameters = parameters.collect::<Vec<_>>().join("<br>");
                let summary = report.summary;
                let cross = summary.cross_validated.expect("more points than parameters");
                let _ = writeln!(
                    text,
                    "| {name}: {} limited by cores | {} | {parameters} | {:.3} % | {:.3} % | {:.3} % |",
                    summary.points,
                    kind.name(),
                    summary.mean_absolute_percent,
                    cross.mean_absolute_percent,
                    summary.standard_deviation_percent.expect("more points than parameters")
                );
            }
        }
        Ok(text)
    }

    /// Equation 5 with times in whole nanoseconds, compared with the published simulation.
    fn truncation(&self) -> String {
        let (mut exact, mut whole, mut n) = (0.0, 0.0, 0.0);
        for point in self.points.iter().zip(&self.by_eq7).filter(|(_, p)| p.limit == "cores").map(|(point, _)| point) {
            let ns = self.eq7.service(point.cores, point.two_way, 0.0, 0.0).packet_ns(point.frame_size);
            let rate = |ns: f64| f64::from(point.cores) * service::wire_bits(point.frame_size) / ns;
            let simulated = published(point, "published_simulated");
            exact += (simulated / rate(ns) - 1.0).abs();
            whole += (simulated / rate(ns.floor()) - 1.0).abs();
            n += 1.0;
        }
        format!(
            "Over the {n} rows that cores limit, the published simulation differs from Eq. 5 by {:.3} % in the mean, from Eq. 5 \
             with service times cut to whole nanoseconds by {:.3} %.\n",
            100.0 * exact / n,
            100.0 * whole / n
        )
    }

    /// Eight cores, two links of 50 Gbit/s: where the models diverge.
    fn eight(&self) -> String {
        let mut text = "| bytes | Eq. 7, Mpps | Gbit/s | linear contention, Mpps | Gbit/s | limit |\n\
                        | ---: | ---: | ---: | ---: | ---: | --- |\n"
            .to_owned();
        for frame_size in [64, 128, 256, 512, 1024, 1518] {
            let point = Point {
                line: 0,
                flows: 1000,
                cores: 8,
                frame_size,
                gbps: 1.0,
                two_way: true,
                burst: None,
                working_set: None,
                punted: None,
                bound: None,
                line_gbps: Some(50.0),
                notes: Vec::new(),
            };
            let predicted = [&self.eq7, &self.contention]
                .map(|profile| perigee_predict::fit::predict(&profile.model, &point, 50.0, &profile.router));
            let both =
                predicted.map(|p| format!("{:.2} | {:.2}", 1000.0 * p.gbps / service::wire_bits(frame_size), p.gbps));
            let limit = predicted.map(|p| if p.bound == Bound::Line { "links" } else { "cores" });
            let limit = if limit[0] == limit[1] { limit[0].to_owned() } else { limit.join(", ") };
            let _ = writeln!(text, "| {frame_size} | {} | {limit} |", both.join(" | "));
        }
        text
    }
}

fn published(point: &Point, column: &str) -> f64 {
    point.note_number(column).expect("published.csv has the column, with numbers")
}

fn simulated() -> Result<Simulated, Box<dyn Error>> {
    let file = repository().join("examples/predict/simulated.csv");
    if !file.exists() {
        return Ok(Simulated::new());
    }
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_path(file)?;
    let rows = reader.deserialize::<Row>();
    rows.map(|row| row.map(|row| ((row.flows, row.frame_size), [row.eq7, row.contention])).map_err(Into::into))
        .collect()
}

#[derive(serde::Deserialize)]
struct Row {
    flows: u32,
    frame_size: u32,
    eq7: f64,
    contention: f64,
}
