//! Hardware event counts by class, where the processor supports them.

use super::{FIGURE, NAMES, ProfileColumn, Table};
use crate::page::Ink;
use thalweg_base::text::{clean, cut, left, right};
use thalweg_explain::profile::document::{EventCounts, HostProfile};

/// Maximum number of classes with a row.
const CLASSES: usize = 5;

/// Formats a column's figure of a class; `None` for all classes.
type Of<'a> = Box<dyn Fn(Option<&str>) -> String + 'a>;

/// A column of figures, and its head.
struct Figures<'a> {
    head: String,
    of: Of<'a>,
}

impl Table<'_> {
    /// Adds a small table for each machine that counted events.
    pub(super) fn events(&mut self) {
        let columns: Vec<&ProfileColumn<'_>> =
            self.columns.iter().filter(|column| !column.profile.events.is_empty() && column.profile.enough).collect();
        for column in columns {
            let of = column.profile;
            let figures = figures(of);
            let figure = (self.page.width.saturating_sub(NAMES) / figures.len()).min(FIGURE + 4);
            let names = self.page.width.min(80).saturating_sub(figure * figures.len()).max(12);
            let mut line = |name: &str, cell: &dyn Fn(&Figures<'_>) -> String, ink: Ink| {
                let cells: String = figures.iter().map(|f| right(&cut(&cell(f), figure - 1), figure)).collect();
                self.page.line(&format!("{}{cells}", left(&clean(name), names)), ink);
            };
            let title = if self.columns.len() > 1 { format!("events, {}", column.name) } else { "events".to_owned() };
            line("", &|_| String::new(), Ink::Plain);
            line(&title, &|f| f.head.clone(), Ink::Bold);
            line("all", &|f| (f.of)(None), Ink::Plain);
            for class in hottest(of) {
                let title = of.classes.iter().find(|row| row.class == class).map_or(class, |row| row.title.as_str());
                line(title, &|f| (f.of)(Some(class)), Ink::Plain);
            }
        }
    }
}

/// Returns the classes with the highest counts of the first event.
fn hottest(of: &HostProfile) -> Vec<&str> {
    let Some(first) = of.events.first() else { return Vec::new() };
    let mut classes: Vec<_> = first.classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.count));
    classes.into_iter().take(CLASSES).map(|class| class.class.as_str()).collect()
}

/// Returns the count of a class, or of all (`None`).
fn count(event: &EventCounts, class: Option<&str>) -> Option<u64> {
    match class {
        None => Some(event.count),
        Some(class) => event.classes.iter().find(|of| of.class == class).map(|of| of.count),
    }
}

/// Returns columns for each event, for instructions per cycle, and for the first event per byte if the bytes are known.
fn figures(of: &HostProfile) -> Vec<Figures<'_>> {
    let event = |event: &'_ EventCounts| event.event.clone();
    let mut figures: Vec<Figures<'_>> = of
        .events
        .iter()
        .map(|e| Figures { head: event(e), of: Box::new(move |class| count(e, class).map_or_else(|| "-".to_owned(), |n| short(n as f64))) })
        .collect();
    let named = |name: &str| of.events.iter().find(|event| event.event == name);
    if let (Some(cycles), Some(instructions)) = (named("cycles").or_else(|| named("cpu-cycles")), named("instructions")) {
        let per_cycle = move |class: Option<&str>| match (count(instructions, class), count(cycles, class)) {
            (Some(instructions), Some(cycles)) if cycles > 0 => format!("{:.2}", instructions as f64 / cycles as f64),
            _ => "-".to_owned(),
        };
        figures.push(Figures { head: "instr/cycle".to_owned(), of: Box::new(per_cycle) });
    }
    if let Some(first) = of.events.first().filter(|event| event.per_byte.is_some()) {
        let per_byte = move |class: Option<&str>| match class {
            None => first.per_byte,
            Some(class) => first.classes.iter().find(|of| of.class == class).and_then(|of| of.per_byte),
        };
        let head = format!("{}/byte", first.event);
        figures.push(Figures { head, of: Box::new(move |class| per_byte(class).map_or_else(|| "-".to_owned(), short)) });
    }
    figures
}

/// Formats a count with three digits and a decimal prefix: `1.42 G`.
fn short(value: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (value, unit) = UNITS.iter().find(|(size, _)| value >= *size).map_or((value, ""), |(size, unit)| (value / size, *unit));
    let digits = match value {
        v if unit.is_empty() && v.fract() == 0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_digits() {
        let written = [0.0, 7.0, 999.0, 1_420.0, 14_200_000.0, 142e9, 3.24159, 0.0012].map(short);
        assert_eq!(written, ["0", "7", "999", "1.42 k", "14.2 M", "142 G", "3.24", "0.0012"]);
    }
}
