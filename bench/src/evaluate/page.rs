// SPDX-License-Identifier: MIT
//! One page of all figures that are there: question, method, pictures of this machine and of what was published, in
//! words what came out.

use super::figures::{FIGURES, Figure};
use super::outcome::{Picture, Table};
use super::store::{Kept, SAID, Store};
use anyhow::{Context as _, Result};
use maud::{Markup, html};
use perigee_chart::{Place, draw};
use std::path::PathBuf;

/// Rows of data that a page shows; all are in the folder.
const ROWS: usize = 40;

/// Writes it; returns where.
///
/// # Errors
/// It cannot be written.
pub fn write(store: &Store) -> Result<PathBuf> {
    let file = store.folder.join("index.html");
    let kept: Vec<(&Figure, Option<Kept>)> = FIGURES.iter().map(|figure| (figure, store.read(figure))).collect();
    let there =
        kept.iter().filter(|(_, kept)| kept.as_ref().is_some_and(|kept| kept.outcome.left_out.is_none())).count();
    let machine = |key: &str| store.machine[key].as_str().unwrap_or("unknown").to_owned();
    let body = html! {
        h1 { "Published evaluations, repeated" }
        p class="dim" {
            (machine("processor")) ", " (store.machine["cores"]) " cores, " (machine("system")) ", " (machine("dpdk")) ". "
            "Rates and times are those of the machine when others leave it alone (bench/README.md); those of other benches are medians. Absolute figures of other machines do not compare; "
            "shapes and ratios do."
        }
        p class="answer" { (there) " of " (FIGURES.len()) " figures were measured here." }
        @for (figure, kept) in &kept { (section(figure, kept.as_ref())) }
    };
    std::fs::write(&file, perigee_chart::page("perigee evaluate", &body))
        .with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(file)
}

fn section(figure: &Figure, kept: Option<&Kept>) -> Markup {
    html! {
        h2 id=(figure.name) { (figure.title) }
        p class="dim" { (figure.from) " · " code { (figure.name) } }
        p { (figure.question) " " (figure.method) }
        p { "Published: " (figure.published) }
        @match kept {
            None => { p class="dim" { "Not measured yet: ./x evaluate --only " (figure.name) } },
            Some(kept) => {
                @if let Some(why) = &kept.outcome.left_out {
                    p class="answer bad" { "Left out: " (why) }
                } @else {
                    @for word in &kept.outcome.says { p class="answer" { (word) } }
                    div class="charts" {
                        @for picture in kept.outcome.pictures.iter().chain(&kept.outcome.published) { (drawing(picture)) }
                    }
                    (table(&kept.outcome.data))
                    p class="dim" {
                        @if !kept.narrowed.is_empty() { "With " code { (kept.narrowed) } ". " }
                        @if kept.outcome.partly { "Interrupted, with fewer rounds than were asked for. " }
                        @if kept.quick { "With fewer points and rounds (--quick). " }
                        "Measured in " (format!("{:.0}", kept.seconds)) " s. "
                        a href=(format!("{}/data.csv", kept.name)) { "Data" } ", "
                        @if !kept.outcome.raw.rows.is_empty() { a href=(format!("{}/raw.csv", kept.name)) { "every sample" } "." }
                        @else if !kept.outcome.said.is_empty() { a href=(format!("{}/{SAID}", kept.name)) { "what the bench has said" } "." }
                        @else { "no samples." }
                    }
                }
            }
        }
    }
}

fn drawing(picture: &Picture) -> Markup {
    html! { div class="card" { (draw(&picture.chart(), Place::Page)) } }
}

fn table(data: &Table) -> Markup {
    html! {
        details {
            summary { "Data" @if data.rows.len() > ROWS { ", the first " (ROWS) " of " (data.rows.len()) " rows" } }
            div class="card" {
                table {
                    tr { @for column in &data.columns { th { (column) } } }
                    @for row in data.rows.iter().take(ROWS) { tr { @for cell in row { td { (cell) } } } }
                }
            }
        }
    }
}
