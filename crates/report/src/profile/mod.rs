//! Presents a profile: the table, and pictures ([`profile_page`]).
//!
//! The table follows the 2004 study of GridFTP and NeST servers: percent of CPU time by class, a column for each end or run, the rates
//! above; below it are the functions that ran longest.

mod bars;
mod classes;
mod colours;
mod column;
mod counted;
mod events;
mod flame;
mod over_time;
mod page;

pub use column::ProfileColumn;
pub use page::profile_page;

pub(crate) use colours::of as colour_of_class;

use crate::page::{Ink, Page, TextOptions};
use classes::Row;
use std::collections::BTreeMap;
use thalweg_base::numbers::rounded_to_sum;
use thalweg_base::numbers::{byte_rate, count, duration, percent};
use thalweg_base::text::{clean, cut, left, right};
use thalweg_explain::profile::document::{FunctionShare, Rate};

/// Maximum number of lines of the table, heads included.
const TABLE_LINES: usize = 20;
/// Maximum number of columns that fit.
pub const MAX_COLUMNS: usize = 5;
/// Number of functions below the table.
const FUNCTIONS: usize = 5;
/// Maximum number of programs named.
const PROGRAMS: usize = 3;
/// Smaller shares are left out.
const LEAST_SHARE: f64 = 0.0005;
/// Width of a column of figures.
const FIGURE: usize = 14;
/// Minimum width of the column of names.
const NAMES: usize = 26;

/// Formats the table as text.
pub fn profile(columns: &[ProfileColumn<'_>], notes: &[String], options: &TextOptions) -> String {
    let mut table = Table::new(columns, options);
    if columns.iter().any(|column| column.profile.enough) {
        table.heads();
        table.classes();
        table.functions();
        table.programs();
        table.events();
        table.page.gap();
    }
    table.foot();
    table.reasons();
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
        // A space between columns.
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
        let mut rows = classes::rows(self.columns);
        let room = TABLE_LINES - 2;
        if rows.len() > room {
            let mut sizes: Vec<f64> = rows.iter().map(Row::most).collect();
            sizes.sort_by(|a, b| b.total_cmp(a));
            let least = sizes[room - 2];
            let (mut shown, mut smaller): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.most() >= least);
            smaller.extend(shown.split_off(room - 1));
            let sum = |column: usize| smaller.iter().filter_map(|row| row.shares[column]).reduce(|a, b| a + b);
            let shares = (0..self.columns.len()).map(sum).collect();
            shown.push(Row { class: String::new(), title: format!("{} smaller ones", smaller.len()), shares });
            rows = shown;
        }
        for column in 0..self.columns.len() {
            // Rounded rows of a column need not add up to 100 %.
            let shares: Vec<f64> = rows.iter().filter_map(|row| row.shares[column]).collect();
            let mut rounded = rounded_to_sum(&shares, 0.001).into_iter();
            rows.iter_mut().filter_map(|row| row.shares[column].as_mut()).for_each(|share| *share = rounded.next().unwrap_or(*share));
        }
        for row in rows {
            let cells: Vec<String> = row.shares.iter().map(|share| share.map_or_else(|| "-".to_owned(), percent)).collect();
            self.row(&clean(&row.title), &cells, Ink::Plain);
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

    /// Adds a line or two for each column on the samples behind the figures.
    fn foot(&mut self) {
        for column in self.columns {
            let of = column.profile;
            let name = clean(&column.name);
            if let Some(counted) = &of.counted {
                self.counted_foot(&name, of, counted);
                continue;
            }
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

/// Returns a module's file name.
fn module_name(module: &str) -> &str {
    module.rsplit_once('/').map_or(module, |(_, name)| name)
}

/// Formats a rate with its direction: `112 MiB/s in`.
fn rate(rate: &Rate) -> String {
    let way = match rate.what.as_str() {
        "net.receive" => "in",
        "net.send" => "out",
        "file.read" => "rd",
        _ => "wr",
    };
    format!("{} {way}", byte_rate(rate.bytes_per_s))
}
