//! What a person sees of a profile: the table, and pictures of it ([`page`]).
//!
//! The table is that of the 2004 study of GridFTP and NeST servers: percent of processor time by class, a column for each end or run, the
//! rates above; below it the functions that ran longest.

use crate::columns::{clean, cut, left, right, rounded_to_sum};
use crate::page::{Ink, Page, TextOptions};
use std::collections::BTreeMap;
use thalweg_explain::profile::document::{ClassShare, FunctionShare, HostProfile, Rate};
use thalweg_trace::numbers::{byte_rate, count, duration, percent};

/// Lines of the table, heads included.
const TABLE_LINES: usize = 20;
/// Columns that fit.
pub const MAX_COLUMNS: usize = 5;
/// Functions below the table.
const FUNCTIONS: usize = 5;
/// Programs that are named.
const PROGRAMS: usize = 3;
/// What is smaller in every column is not shown.
const LEAST_SHARE: f64 = 0.0005;
/// A column of figures.
const FIGURE: usize = 14;
/// The narrowest column of names.
const NAMES: usize = 26;

/// A column of the table: one machine in one recording.
#[derive(Clone, Debug)]
pub struct ProfileColumn<'a> {
    /// What stands above it.
    pub name: String,
    /// What it shows.
    pub profile: &'a HostProfile,
}

/// The table as text.
pub fn profile(columns: &[ProfileColumn<'_>], notes: &[String], options: &TextOptions) -> String {
    let mut table = Table::new(columns, options);
    if columns.iter().any(|column| column.profile.enough) {
        table.heads();
        table.classes();
        table.functions();
        table.page.gap();
    }
    table.foot();
    notes.iter().for_each(|note| table.page.wrapped(note));
    table.page.into_text()
}

struct Table<'a> {
    columns: &'a [ProfileColumn<'a>],
    page: Page,
    figure: usize,
    names: usize,
}

impl<'a> Table<'a> {
    fn new(columns: &'a [ProfileColumn<'a>], options: &TextOptions) -> Table<'a> {
        let page = Page::new(options);
        let figure = (page.width.saturating_sub(NAMES) / columns.len().max(1)).min(FIGURE);
        let names = page.width.min(80).saturating_sub(figure * columns.len());
        Table { columns, page, figure, names }
    }

    fn row(&mut self, name: &str, cells: &[String], ink: Ink) {
        // A blank between two columns.
        let cells: String = cells.iter().map(|cell| right(&cut(cell, self.figure - 1), self.figure)).collect();
        self.page.line(&format!("{}{cells}", left(name, self.names)), ink);
    }

    fn heads(&mut self) {
        let names: Vec<String> = self.columns.iter().map(|column| clean(&column.name)).collect();
        self.row("percent of processor time", &names, Ink::Bold);
        let rates: Vec<String> = self.columns.iter().map(|column| column.profile.rates.first().map_or_else(String::new, rate)).collect();
        if rates.iter().any(|rate| !rate.is_empty()) {
            self.row("rate", &rates, Ink::Dim);
        }
    }

    fn classes(&mut self) {
        let mut titles: Vec<(&str, &str)> = Vec::new();
        for row in self.columns.iter().flat_map(|column| &column.profile.classes) {
            if !titles.iter().any(|(class, _)| *class == row.class) {
                titles.push((&row.class, &row.title));
            }
        }
        let columns: Vec<&HostProfile> = self.columns.iter().map(|column| column.profile).collect();
        order_as(&mut titles, &columns);
        let of = |class: &str, profile: &HostProfile| profile.classes.iter().find(|row| row.class == class).and_then(|row| row.share);
        let most = |class: &str| columns.iter().filter_map(|profile| of(class, profile)).fold(0.0, f64::max);
        titles.retain(|(class, _)| most(class) >= LEAST_SHARE);
        let room = TABLE_LINES - 2;
        let mut smaller: Vec<&str> = Vec::new();
        if titles.len() > room {
            let mut by_size: Vec<&str> = titles.iter().map(|(class, _)| *class).collect();
            by_size.sort_by(|a, b| most(b).total_cmp(&most(a)));
            smaller = by_size.split_off(room - 1);
            titles.retain(|(class, _)| !smaller.contains(class));
        }
        let shares: Vec<Vec<Option<f64>>> = columns.iter().map(|profile| column_of(profile, &titles, &smaller)).collect();
        let rows =
            titles.iter().map(|(_, title)| clean(title)).chain((!smaller.is_empty()).then(|| format!("{} smaller ones", smaller.len())));
        for (row, title) in rows.enumerate() {
            let cell = |column: &Vec<Option<f64>>| column[row].map_or_else(|| "-".to_owned(), percent);
            let cells: Vec<String> = shares.iter().map(cell).collect();
            self.row(&title, &cells, Ink::Plain);
        }
    }

    fn functions(&mut self) {
        let mut all: BTreeMap<(&str, &str, &str), &FunctionShare> = BTreeMap::new();
        for function in self.columns.iter().flat_map(|column| &column.profile.functions) {
            let known = all.entry((&function.function, &function.module, &function.class)).or_insert(function);
            if function.share > known.share {
                *known = function;
            }
        }
        let mut hottest: Vec<&FunctionShare> = all.into_values().filter(|function| function.share.is_some()).collect();
        hottest.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
        hottest.truncate(FUNCTIONS);
        if hottest.is_empty() {
            return;
        }
        self.page.heading("hottest functions");
        let class = 22.min(self.names / 3);
        for function in hottest {
            let same = |other: &&FunctionShare| {
                (&other.function, &other.module, &other.class) == (&function.function, &function.module, &function.class)
            };
            let cell = |column: &ProfileColumn<'_>| {
                column.profile.functions.iter().find(same).and_then(|f| f.share).map_or_else(|| "-".to_owned(), percent)
            };
            let cells: Vec<String> = self.columns.iter().map(cell).collect();
            let name = left(&clean(&function.function), self.names - class - 1);
            self.row(&format!("{name} {}", left(&clean(&function.title), class)), &cells, Ink::Plain);
        }
    }

    /// What the figures rest on, a line or two for each column.
    fn foot(&mut self) {
        for column in self.columns {
            let of = column.profile;
            let name = clean(&column.name);
            let lost = if of.lost > 0 { format!(", {} lost", count(of.lost)) } else { String::new() };
            if !of.enough {
                self.page.wrapped(&format!(
                    "{name}: {} samples of busy processors{lost}: too few to say what they did (100 are needed); profile for longer",
                    count(of.samples)
                ));
                continue;
            }
            let mut said = format!("{name}: {} samples{lost} in {} on {} processors", count(of.samples), duration(of.wall_s), of.cpus);
            if let Some(share) = of.guessed_share.filter(|share| *share >= LEAST_SHARE) {
                said.push_str(&format!(", class of {} guessed", percent(share)));
            }
            if let Some(share) = of.unsymbolised.share.filter(|share| *share >= LEAST_SHARE) {
                let modules = of.unsymbolised.modules.iter().take(2).map(|module| clean(module_name(&module.module)));
                said.push_str(&format!(", {} without a name (in {})", percent(share), modules.collect::<Vec<_>>().join(", ")));
            }
            let programs: Vec<String> =
                of.programs.iter().take(PROGRAMS).filter_map(|p| Some(format!("{} {}", clean(&p.program), percent(p.share?)))).collect();
            if !programs.is_empty() {
                said.push_str(&format!("; by program: {}", programs.join(", ")));
            }
            self.page.wrapped(&said);
        }
    }
}

/// Puts classes in the order of the column that has most of them: the others' own come where they stand there.
fn order_as(titles: &mut [(&str, &str)], columns: &[&HostProfile]) {
    let position = |class: &str| {
        let place = |profile: &&HostProfile| profile.classes.iter().position(|row: &ClassShare| row.class == class);
        let places = columns.iter().filter_map(|profile| Some((place(profile)? as f64 + 1.0) / (profile.classes.len() as f64 + 1.0)));
        places.fold((0.0, 0), |(sum, n), place| (sum + place, n + 1))
    };
    titles.sort_by(|a, b| {
        // Where one column has both, it says which is first.
        let both = columns.iter().find_map(|profile| {
            let place = |class: &str| profile.classes.iter().position(|row| row.class == class);
            Some(place(a.0)?.cmp(&place(b.0)?))
        });
        let mean = |(sum, n): (f64, i32)| sum / f64::from(n.max(1));
        both.unwrap_or_else(|| mean(position(a.0)).total_cmp(&mean(position(b.0))))
    });
}

/// A column's shares as they are shown: they add up to what they add up to.
fn column_of(profile: &HostProfile, titles: &[(&str, &str)], smaller: &[&str]) -> Vec<Option<f64>> {
    let share = |class: &str| profile.classes.iter().find(|row| row.class == class).and_then(|row| row.share);
    let mut shares: Vec<Option<f64>> = titles.iter().map(|(class, _)| share(class)).collect();
    if !smaller.is_empty() {
        shares.push(profile.enough.then(|| smaller.iter().filter_map(|class| share(class)).sum()));
    }
    let there: Vec<f64> = shares.iter().flatten().copied().collect();
    let mut rounded = rounded_to_sum(&there, 0.001).into_iter();
    shares.iter().map(|share| share.and_then(|_| rounded.next())).collect()
}

/// A module without its folder.
fn module_name(module: &str) -> &str {
    module.rsplit_once('/').map_or(module, |(_, name)| name)
}

/// A rate with its way: `112 MiB/s in`.
fn rate(rate: &Rate) -> String {
    let way = match rate.what.as_str() {
        "net.receive" => "in",
        "net.send" => "out",
        "file.read" => "rd",
        _ => "wr",
    };
    format!("{} {way}", byte_rate(rate.bytes_per_s))
}
