//! The table of a profile without samples: CPU time of programs from the counters in /proc, and how it was counted.

use super::{FIGURE, LEAST_SHARE, ProfileColumn, Table};
use crate::page::Ink;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_base::numbers::{duration, percent};
use thalweg_base::text::clean;
use thalweg_explain::profile::document::{CountedFrom, HostProfile, ProgramShare};

/// Maximum number of programs with a row.
const PROGRAMS: usize = 3;

impl Table<'_> {
    /// Adds rows of programs: time in their own code and in the kernel; the sum if there are several columns.
    pub(super) fn programs(&mut self) {
        let counted: Vec<&HostProfile> =
            self.columns.iter().map(|column| column.profile).filter(|of| of.counted.is_some() && of.enough).collect();
        let [first, rest @ ..] = &counted[..] else { return };
        self.page.gap();
        if rest.is_empty() && self.columns.len() == 1 {
            return self.of_one(first);
        }
        self.row("programs", &vec![String::new(); self.columns.len()], Ink::Bold);
        let mut most: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for program in counted.iter().flat_map(|of| &of.programs) {
            let share = most.entry((&program.program, &program.role)).or_default();
            *share = share.max(program.share.unwrap_or(0.0));
        }
        let mut rows: Vec<((&str, &str), f64)> = most.into_iter().filter(|(_, share)| *share >= LEAST_SHARE).collect();
        rows.sort_by(|a, b| was_asked_for(b.0.1).cmp(&was_asked_for(a.0.1)).then_with(|| b.1.total_cmp(&a.1)));
        rows.truncate(PROGRAMS);
        for ((name, role), _) in &rows {
            let is = |program: &&ProgramShare| program.program == *name && program.role == *role;
            let cell = |column: &ProfileColumn<'_>| cell(column.profile.programs.iter().find(is).and_then(|program| program.share));
            let cells: Vec<String> = self.columns.iter().map(cell).collect();
            self.row(&titled(name, role), &cells, Ink::Plain);
        }
        let is_other = |program: &&ProgramShare| !rows.iter().any(|((name, role), _)| program.program == *name && program.role == *role);
        let others = |column: &ProfileColumn<'_>| {
            cell(column.profile.programs.iter().filter(is_other).filter_map(|program| program.share).reduce(|a, b| a + b))
        };
        let cells: Vec<String> = self.columns.iter().map(others).collect();
        self.row(OTHERS, &cells, Ink::Plain);
        let rest = |column: &ProfileColumn<'_>| cell(column.profile.counted.as_ref().and_then(|counted| counted.rest));
        let cells: Vec<String> = self.columns.iter().map(rest).collect();
        self.row(REST, &cells, Ink::Plain);
    }

    fn of_one(&mut self, of: &HostProfile) {
        let (figure, names) = (self.figure, self.names);
        // Two columns under the table's single one.
        (self.figure, self.names) = (FIGURE.min(self.figure), self.names.saturating_sub(FIGURE.min(self.figure)));
        self.row("programs", &["own code", "kernel"].map(str::to_owned), Ink::Bold);
        let mut programs: Vec<&ProgramShare> =
            of.programs.iter().filter(|program| program.share.is_some_and(|share| share > 0.0)).collect();
        programs.sort_by_key(|program| !was_asked_for(&program.role));
        let others = programs.split_off(programs.len().min(PROGRAMS));
        for program in programs {
            let cells = [cell(program.user_share), cell(program.system_share)];
            self.row(&titled(&program.program, &program.role), &cells, Ink::Plain);
        }
        if !others.is_empty() {
            let sum = |share: &dyn Fn(&ProgramShare) -> Option<f64>| {
                cell(others.iter().filter_map(|program| share(program)).reduce(|a, b| a + b))
            };
            let cells = [sum(&|program| program.user_share), sum(&|program| program.system_share)];
            self.row(OTHERS, &cells, Ink::Plain);
        }
        if let Some(rest) = of.counted.as_ref().and_then(|counted| counted.rest).filter(|rest| *rest >= LEAST_SHARE) {
            self.row(REST, &[String::new(), percent(rest)], Ink::Plain);
        }
        (self.figure, self.names) = (figure, names);
    }

    /// Adds a note on how a machine's figures were counted.
    pub(super) fn counted_foot(&mut self, name: &str, of: &HostProfile, counted: &CountedFrom) {
        let tick = format!("{:.0} ms", counted.tick_s * 1e3);
        let mut said = format!(
            "{name}: no samples; counted by {} in steps of {tick}, {} on {} processors",
            counted.source,
            duration(of.wall_s),
            of.cpus
        );
        if !of.enough {
            said.push_str(": too short to say what they did (a second of one processor is needed); profile for longer");
        } else if let Some(over) = counted.over.filter(|over| *over >= LEAST_SHARE) {
            said.push_str(&format!("; programs' own counts are {} more than the processors'", percent(over)));
        }
        if let Some(look) = counted.look_s.filter(|_| of.enough) {
            said.push_str(&format!("; programs sampled every {}", duration(look)));
        }
        self.page.wrapped(&said);
    }

    /// Adds the reasons for having no samples, each once.
    pub(super) fn reasons(&mut self) {
        let all: BTreeSet<&str> =
            self.columns.iter().filter_map(|column| Some(column.profile.counted.as_ref()?.no_samples.as_str())).collect();
        for reason in all.into_iter().filter(|reason| !reason.is_empty()) {
            self.page.wrapped(&format!("Samples: {}", clean(reason)));
        }
    }
}

/// Whether a program was asked for: its row comes first.
fn was_asked_for(role: &str) -> bool {
    matches!(role, "client" | "server")
}

const OTHERS: &str = "other programs";
const REST: &str = "ended between two samples, or not seen";

fn cell(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

/// Returns a program's name, with its role if it has one.
fn titled(name: &str, role: &str) -> String {
    match role {
        "client" => format!("{} (command)", clean(name)),
        "server" | "recorder" => format!("{} ({role})", clean(name)),
        _ => clean(name),
    }
}
