//! The table of a profile without samples of everything: CPU time of programs from the counters in /proc, how it was counted, and what
//! samples of the user's own programs say.

use super::{FIGURE, LEAST_SHARE, ProfileColumn, Table, module_name};
use crate::page::Ink;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_base::numbers::{count, duration, percent};
use thalweg_base::text::clean;
use thalweg_explain::profile::document::{CountedFrom, HostProfile, OwnTime, ProgramShare};

/// Time of threads too short for samples is named from this part of the run time on.
const LEAST_SHORT: f64 = 0.02;
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
        let samples = match &counted.own {
            Some(own) => own_samples(of, own),
            None => "no samples; ".to_owned(),
        };
        let mut said =
            format!("{name}: {samples}counted by {} in steps of {tick}, {} on {} processors", counted.source, duration(of.wall_s), of.cpus);
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
        let counted = self.columns.iter().filter_map(|column| column.profile.counted.as_ref());
        let all: BTreeSet<(&str, bool)> = counted.map(|counted| (counted.no_samples.as_str(), counted.own.is_some())).collect();
        for (reason, has_own) in all.into_iter().filter(|(reason, _)| !reason.is_empty()) {
            let what = if has_own { "Samples of the kernel and of other programs" } else { "Samples" };
            self.page.wrapped(&format!("{what}: {}", clean(reason)));
        }
    }
}

/// Says what samples of own programs found, and how long these ran.
fn own_samples(of: &HostProfile, own: &OwnTime) -> String {
    let mut said = format!("{} samples of the code of own programs", count(of.samples));
    if of.lost > 0 {
        said.push_str(&format!(" ({} lost)", count(of.lost)));
    }
    said.push_str(&format!(
        ", which ran {}: {} in it, {} in the kernel",
        duration(own.run_s),
        duration(own.user_s),
        duration(own.kernel_s)
    ));
    if own.short_s >= LEAST_SHORT * own.run_s && own.short_s > 0.0 {
        said.push_str(&format!(", {} too briefly for a sample", duration(own.short_s)));
    }
    if let Some(share) = of.unsymbolised.share.filter(|share| *share >= LEAST_SHARE) {
        let modules = of.unsymbolised.modules.iter().take(2).map(|module| clean(module_name(&module.module)));
        said.push_str(&format!("; {} without a name (in {})", percent(share), modules.collect::<Vec<_>>().join(", ")));
    }
    said.push_str("; everything else ");
    said
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
