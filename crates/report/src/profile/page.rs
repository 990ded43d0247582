//! The pictures of a profile on one self-contained page: grouped bars, classes over time, a flame graph for each machine, tables.

use super::classes::{Row, rows};
use super::flame::SCRIPT_HASH;
use super::{ProfileColumn, bars, flame, over_time, profile};
use crate::interactive::document::DocumentPage;
use crate::page::TextOptions;
use crate::plot::{Page, Section, page};
use serde::Serialize;
use thalweg_base::numbers::{count, percent};
use thalweg_explain::profile::HostStacks;
use thalweg_explain::profile::document::{ClassShare, HostProfile};

/// Number of functions in the table.
const FUNCTIONS: usize = 25;

/// The machines of all columns, as `thalweg profile --json` gives those of one recording.
#[derive(Serialize)]
struct Machines<'a> {
    hosts: Vec<&'a HostProfile>,
    notes: &'a [String],
}

/// Makes a page of all columns, with the stacks of each.
pub fn profile_page(columns: &[ProfileColumn<'_>], stacks: &[&HostStacks], notes: &[String]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let rows = rows(columns);
    let mut sections = Vec::new();
    if !rows.is_empty() {
        sections.push(Section::Picture(bars::bars(columns, &rows)));
    }
    for (number, column) in columns.iter().enumerate() {
        sections.extend(over_time::over_time(column, number, &rows).map(Section::Picture));
    }
    for (column, stacks) in columns.iter().zip(stacks) {
        if column.profile.enough {
            let title = format!("Flame graph of {}: callers above callees, coloured by class", column.name);
            sections.extend(flame::flame(&title, stacks).map(Section::Picture));
        }
    }
    tables(columns, &rows, &mut sections);
    sections.push(Section::Heading("As text".to_owned()));
    let text = profile(columns, notes, &TextOptions { width: 100, colour: false });
    sections.push(Section::Preformatted(text.clone()));
    let document = Machines { hosts: columns.iter().map(|column| column.profile).collect(), notes };
    let shown = DocumentPage {
        view: "profile",
        document: &document,
        names: &names,
        short: &text,
        script_hash: Some(SCRIPT_HASH).filter(|_| !stacks.is_empty()),
    };
    page(&Page { title: format!("Where CPU time went: {}", names.join(", ")), lead: Vec::new(), sections }, &shown)
}

fn tables(columns: &[ProfileColumn<'_>], rows: &[Row], sections: &mut Vec<Section>) {
    for column in columns.iter().filter(|column| column.profile.enough) {
        let of = column.profile;
        let title = |text: &str| if columns.len() > 1 { format!("{}: {text}", column.name) } else { text.to_owned() };
        sections.push(Section::Heading(title("CPU time by class and by purpose")));
        let heads = ["class", "ran", "95 % interval", "purpose", "guessed"].map(str::to_owned).to_vec();
        sections.push(Section::Table(heads, rows.iter().map(|row| class_row(row, of)).collect()));
        sections.push(Section::Heading(title("functions")));
        let row = |function: &thalweg_explain::profile::document::FunctionShare| {
            vec![
                function.function.clone(),
                function.title.clone(),
                function.module.clone(),
                function.share.map(percent).unwrap_or_default(),
                count(function.samples),
            ]
        };
        let heads = ["function", "class", "module", "share", "samples"].map(str::to_owned).to_vec();
        sections.push(Section::Table(heads, of.functions.iter().take(FUNCTIONS).map(row).collect()));
    }
}

fn class_row(row: &Row, of: &HostProfile) -> Vec<String> {
    let find = |rows: &[ClassShare]| rows.iter().find(|other| other.class == row.class).cloned();
    let (class, purpose) = (find(&of.classes), find(&of.purposes));
    let share = |of: &Option<ClassShare>| of.as_ref().and_then(|of| of.share).map(percent).unwrap_or_default();
    let interval = class.as_ref().and_then(|of| Some(format!("{} – {}", percent(of.low?), percent(of.high?)))).unwrap_or_default();
    let guessed = class.as_ref().filter(|of| of.guessed > 0).map(|of| format!("{} of {}", count(of.guessed), count(of.samples)));
    vec![row.title.clone(), share(&class), interval, share(&purpose), guessed.unwrap_or_default()]
}
